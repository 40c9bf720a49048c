"""Logs as people have them, from ``../shared/data/field_cases``: the right turns of each.

The values are those of EXPECTED.tsv there, worked out by hand.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from carbonrouter_core.errors import TraceError
from carbonrouter_core.traces.importers.base import ImportOptions
from carbonrouter_core.traces.loading import staged_trace
from carbonrouter_core.traces.report import TraceReport
from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.traces.staging import stage

NOT_SAID = -1


class Turn(NamedTuple):
    """Tokens of a turn; ``None``: not looked at."""

    history: int | None
    new: int | None
    output: int | None
    cached: int | None = None


FIRST = Turn(0, 512, 130, 0)
SECOND = Turn(642, 59, 88, 640)
CHAT = Turn(0, 10, 20)
CHAT_2 = Turn(30, 10, 20)
LANGFUSE = [[Turn(0, 17_903, 50), Turn(17_953, 14, 61, 17_817)]]

SESSIONS: dict[str, list[list[Turn]]] = {
    "T02_litellm_spend_logs.csv": [
        [FIRST, SECOND, Turn(789, 61, 40, 784)],
        [Turn(0, 300, 20, 0)],
    ],
    "T04_litellm_cache_hit.json": [[FIRST]],
    "T06_anthropic_messages.jsonl": [[Turn(0, 2095, 503, 0), Turn(5758, 6177, 210, 5758)]],
    "T07_openai_responses.jsonl": [[Turn(0, 36, 87, 0), Turn(1024, 406, 60, 1024)]],
    "T09_langfuse_observations.json": LANGFUSE,
    "T09b_langfuse_api_v2.json": LANGFUSE,
    "T10_helicone.jsonl": [[FIRST, SECOND]],
    "T11_openrouter_activity.csv": [
        [Turn(0, 10_389, 137, 0)],
        [Turn(10_240, 360, 90, 10_240)],
    ],
    "T12_otlp_genai.json": [[FIRST, SECOND], [Turn(0, 300, 20)]],
    "T12c_otel_console.jsonl": [[FIRST, SECOND]],
    "T13_bedrock_invocations.jsonl": [[Turn(0, 25_040, 13, 0), Turn(25_053, 25, 45, 25_037)]],
    "T14_azure_apim_llm.csv": [[Turn(0, 512, 130)], [Turn(0, 701, 88)]],
    "T15_gemini_responses.jsonl": [[Turn(7441, 3684, 429, 7441)]],
    "T17_sglang_generate.jsonl": [[FIRST, SECOND]],
    "T18_claude_code_session.jsonl": [
        [Turn(15_030, 8657, 420, 15_030), Turn(24_107, 193, 88, 23_685)]
    ],
    "T20_openai_messages.jsonl": [
        [Turn(0, None, 20)],
        [Turn(0, 10, None), Turn(None, None, 20)],
        [CHAT, CHAT_2],
    ],
    "T20b_messages_simple.jsonl": [[CHAT, CHAT_2]],
    "T22_chatgpt_export.json": [[CHAT]],
    "T26_burstgpt.csv": [
        [Turn(0, 472, 18)],
        [Turn(0, 1087, 230)],
        [Turn(0, 417, 276)],
        [Turn(0, 185, 31)],
    ],
    "T30b_servegen_stat.jsonl": [[Turn(0, 61, 2370)], [Turn(0, 54, 2031)]],
    "T35_openai_batch_output.jsonl": [[Turn(0, 22, 2, 0)]],
    "T36_vllm_null_details.jsonl": [[Turn(0, 512, 130, NOT_SAID), SECOND]],
    "T41b_failure_between_nocache.jsonl": [
        [Turn(0, 512, 130, NOT_SAID), Turn(642, 59, 88, NOT_SAID)]
    ],
    "T43_reasoning_tokens.jsonl": [
        [Turn(0, 100, 2000, 0), Turn(200, 50, 1500, 96), Turn(350, 70, 300, 240)]
    ],
    "T44b_stream_snapshots.jsonl": [[FIRST, SECOND]],
    "T49_parallel_subagents.jsonl": [
        [Turn(0, 10_000, 200, 0), Turn(10_200, 100, 150, 10_176)],
        [Turn(0, 3000, 100, 0), Turn(3100, 100, 80, 3072)],
    ],
    "T50d_wildchat_real_shape.jsonl": [[CHAT, CHAT_2], [CHAT, CHAT_2, Turn(60, 10, 20)]],
    "T50f_wildchat_same_hash_two_users.jsonl": [[CHAT], [CHAT]],
    "T50h_wildchat_48m_usage.jsonl": [[Turn(0, 33, 57)]],
    "T51_lmsys_null_and_list.jsonl": [[CHAT], [CHAT], [Turn(0, 0, 20)]],
    "T62_local_no_tz_dst.jsonl": [[FIRST, SECOND]],
    "T67b_one_turn_sessions_cache.jsonl": [[FIRST], [Turn(0, 300, 20, 0)]],
    "T68_litellm_spend_ui_page.json": [[FIRST, SECOND]],
}
"""The turns of each file, by session."""

START_UTC = {
    "T10_helicone.jsonl": ["2024-05-20T10:00:00", "2024-05-20T10:01:04"],
    "T12_otlp_genai.json": [
        "2024-05-20T10:13:20",
        "2024-05-20T10:14:24",
        "2024-05-20T10:13:50",
    ],
    "T22_chatgpt_export.json": ["2024-05-20T10:13:20.100"],
    "T50d_wildchat_real_shape.jsonl": [
        "2023-04-09T00:01:00",
        "2023-04-09T00:05:00",
        "2023-04-09T00:10:00",
        "2023-04-09T00:11:00",
        "2023-04-09T09:00:00",
    ],
    "T62_local_no_tz_dst.jsonl": ["2024-10-27T00:30:00", "2024-10-27T01:10:00"],
}
"""When the turns are, where that is easily got wrong."""

SAID = {
    "T04_litellm_cache_hit.json": ["response cache", "failed"],
    "T06_anthropic_messages.jsonl": ["leave out cached tokens", "--cached-tokens included"],
    "T20_openai_messages.jsonl": ["has no text", "image"],
    "T41b_failure_between_nocache.jsonl": ["failed"],
    "T51_lmsys_null_and_list.jsonl": ["has no text", "image"],
}
"""What the report says of a file."""

REFUSED = {
    "T08_openai_org_usage.json": "sums",
    "T16b_vllm_metrics.prom": "counters",
    "T30_servegen_hash.jsonl": "output",
}
"""Files without requests, or without what a turn needs; and a word of the message."""

OPTIONS: dict[str, dict[str, Any]] = {"T62_local_no_tz_dst.jsonl": {"timezone": "Europe/Berlin"}}
"""What only the user knows of a file."""


@pytest.fixture(scope="module")
def field_cases(shared_data: Path) -> Path:
    """The folder of the cases."""
    return shared_data / "field_cases"


def bring(path: Path) -> tuple[Trace, TraceReport]:
    """A case as ``import trace --keep-readable`` reads it."""
    with stage([path], options=ImportOptions(**OPTIONS.get(path.name, {}))) as staged:
        staged.require(accept_unreadable=True)
        return staged_trace(staged, path.name), staged.report


@pytest.mark.parametrize("name", sorted(SESSIONS))
def test_turns_are_right(field_cases: Path, name: str) -> None:
    trace, report = bring(field_cases / name)
    expected = SESSIONS[name]
    assert lengths(trace) == [len(session) for session in expected]
    for row, turn in enumerate(turn for session in expected for turn in session):
        cached = NOT_SAID
        if trace.cached_tokens_observed is not None:
            cached = int(trace.cached_tokens_observed[row])
        figures = (
            int(trace.history_tokens[row]),
            int(trace.new_prompt_tokens[row]),
            int(trace.output_tokens[row]),
            cached,
        )
        seen = tuple(
            None if right is None else figure for figure, right in zip(figures, turn, strict=True)
        )
        assert seen == turn, f"turn {row} of {name}"
    if name in START_UTC:
        assert trace.start_utc_s is not None
        stamps = [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in START_UTC[name]]
        assert trace.start_utc_s.tolist() == [stamp.timestamp() for stamp in stamps]
    for words in SAID.get(name, []):
        assert words in str(report)
    assert not [finding for finding in report.findings if "history shrank" in finding.reason]


def lengths(trace: Trace) -> list[int]:
    """Turns of each session."""
    return [int(turns) for turns in trace.offsets[1:] - trace.offsets[:-1]]


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refusals_say_what_is_missing(field_cases: Path, name: str) -> None:
    with pytest.raises(TraceError) as refused:
        bring(field_cases / name)
    assert REFUSED[name] in str(refused.value)


def test_every_case_of_traffic_is_looked_at(field_cases: Path) -> None:
    names = {path.name for path in field_cases.glob("T*")}
    assert names == SESSIONS.keys() | REFUSED.keys()
