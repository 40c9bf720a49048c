"""Logs of gateways and servers: what counts as a prompt, a turn and a session."""

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carbonrouter_core.errors import TraceError
from carbonrouter_core.reading.times import LocalTimes
from carbonrouter_core.traces.contexts import contexts
from carbonrouter_core.traces.importers.base import ImportOptions
from carbonrouter_core.traces.loading import staged_trace
from carbonrouter_core.traces.report import TraceReport
from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.traces.staging import stage


def bring(
    path: Path, records: list[Any], keep_readable: bool = False, **options: Any
) -> tuple[Trace, TraceReport]:
    """The trace of records written as JSON Lines, and the report."""
    path = path / "log.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    with stage([path], options=ImportOptions(**options)) as staged:
        staged.require(accept_unreadable=keep_readable)
        return staged_trace(staged, path.name), staged.report


def call(number: int, prompt: Any, output: Any, **more: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": output} | more.pop("usage", {})
    return {
        "id": f"r{number}",
        "created": 1_716_200_000 + 60 * number,
        "session_id": "s",
        "model": "m",
        "usage": usage,
    } | more


def anthropic(number: int, fresh: int, written: int, read: int, output: int) -> dict[str, Any]:
    record = call(number, None, None)
    record["usage"] = {
        "input_tokens": fresh,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": output,
    }
    return record


def counts(trace: Trace) -> list[tuple[int, int, int]]:
    """History, new prompt and output tokens of each turn."""
    columns = (trace.history_tokens, trace.new_prompt_tokens, trace.output_tokens)
    return [(int(a), int(b), int(c)) for a, b, c in zip(*columns, strict=True)]


def reasons(report: TraceReport, kind: str) -> list[str]:
    return [finding.reason for finding in report.findings if finding.kind == kind]


# --- Prompts with and without cached tokens -------------------------------------------------


def test_a_prompt_of_anthropic_is_the_sum_of_its_three_counts(tmp_path: Path) -> None:
    records = [anthropic(0, 100, 0, 0, 50), anthropic(1, 5, 40, 145, 20)]
    trace, report = bring(tmp_path, records)
    assert counts(trace) == [(0, 100, 50), (150, 40, 20)]
    assert any("--cached-tokens included" in guess for guess in report.guesses)


def test_by_names_alone_where_no_prompt_is_shorter_than_its_cached_part(tmp_path: Path) -> None:
    trace, report = bring(tmp_path, [anthropic(0, 100, 10, 20, 50)])
    assert counts(trace) == [(20, 110, 50)]
    assert any("names of the fields" in guess for guess in report.guesses)


@pytest.mark.parametrize(("total", "prompt"), [(150, 100), (130 + 50, 130)])
def test_the_total_tells_whether_cached_tokens_are_in_the_prompt(
    tmp_path: Path, total: int, prompt: int
) -> None:
    record = anthropic(0, 100, 10, 20, 50)
    record["usage"]["total_tokens"] = total
    trace, _ = bring(tmp_path, [record])
    assert counts(trace) == [(20, prompt - 20, 50)]


@pytest.mark.parametrize(("reading", "prompt"), [("included", 300), ("excluded", 540)])
def test_the_user_has_the_last_word_on_cached_tokens(
    tmp_path: Path, reading: str, prompt: int
) -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 240}}
    trace, report = bring(tmp_path, [call(0, 300, 9, usage=details)], cached_tokens=reading)
    assert counts(trace) == [(240, prompt - 240, 9)]
    assert any("as --cached-tokens says" in guess for guess in report.guesses)


def test_a_count_that_cannot_be_says_how_to_read_it(tmp_path: Path) -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 240}}
    with pytest.raises(TraceError, match="--cached-tokens excluded"):
        bring(tmp_path, [call(0, 3, 9, usage=details)])


def test_two_ways_of_counting_in_one_log(tmp_path: Path) -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 80}}
    records = [
        call(0, 100, 10, usage=details),
        anthropic(1, 3, 7, 90, 10) | {"session_id": "t"},
    ]
    trace, _ = bring(tmp_path, records)
    assert counts(trace) == [(80, 20, 10), (90, 10, 10)]


# --- Rows that are no turns ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"cache_hit": "True"}, "response cache"),
        ({"cache_hit": True}, "response cache"),
        ({"cacheStatus": "HIT"}, "response cache"),
        ({"status": "failure"}, "failed"),
        ({"status": 429}, "failed"),
        ({"response_status": 500}, "failed"),
        ({"object": "embedding"}, "embedding"),
        ({"call_type": "aembedding"}, "embedding"),
        ({"call_type": "arerank"}, "embedding"),
        ({"user": "litellm-internal-health-check"}, "health check"),
        ({"path": "/health"}, "health check"),
    ],
)
def test_rows_that_are_no_inference_are_left_out_and_counted(
    tmp_path: Path, more: dict[str, Any], reason: str
) -> None:
    sound = call(0, 50, 10, **dict.fromkeys(more))
    trace, report = bring(tmp_path, [sound, call(1, 50, 10, **more), call(2, 80, 5)])
    assert counts(trace) == [(0, 50, 10), (60, 20, 5)]
    (found,) = reasons(report, "left out")
    assert reason in found
    assert report.to_dict()["rows_left_out"] == 1


@pytest.mark.parametrize(
    "more",
    [
        {"status": "success"},
        {"status": 200},
        {"cache_hit": "False"},
        {"call_type": "acompletion"},
        {"object": "chat.completion"},
        {"user": "healthy-foods"},
        {"error": None},
    ],
)
def test_rows_of_inference_stay(tmp_path: Path, more: dict[str, Any]) -> None:
    trace, report = bring(tmp_path, [call(0, 50, 10, **more)])
    assert trace.n_turns == 1
    assert not reasons(report, "left out")


def test_no_tokens_at_all_is_a_failed_request(tmp_path: Path) -> None:
    trace, report = bring(tmp_path, [call(0, 50, 10), call(1, 0, 0), call(2, 80, 5)])
    assert counts(trace) == [(0, 50, 10), (60, 20, 5)]
    assert "failed" in reasons(report, "left out")[0]


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 5}, {"completion_tokens": None}])
def test_a_record_without_counts_may_be_left_out(tmp_path: Path, usage: Any) -> None:
    records = [call(0, 50, 10), call(1, 1, 1) | {"usage": usage}]
    with pytest.raises(TraceError, match=r"line 2: usage\.\w+_tokens.*--keep-readable"):
        bring(tmp_path, records)
    trace, report = bring(tmp_path, records, keep_readable=True)
    assert trace.n_turns == 1
    assert report.unreadable == 1


def test_a_blank_cell_is_named_as_the_file_has_it(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("session_id,created_at,prompt_tokens,completion_tokens\ns,,10,5\ns,,20,\n")
    with stage([path]) as staged:
        with pytest.raises(TraceError, match="line 3: completion_tokens.*--keep-readable"):
            staged.require()
        staged.require(accept_unreadable=True)
        assert staged.report.turns == 1


# --- Lines of one request --------------------------------------------------------------------


def test_lines_of_one_request_are_one_turn(tmp_path: Path) -> None:
    stream = [call(0, 50, output, created=1_716_200_000 + output) for output in (1, 7, 20)]
    trace, report = bring(tmp_path, [*stream[:2], call(1, 90, 5), stream[2]])
    assert counts(trace) == [(0, 50, 20), (70, 20, 5)]
    assert any("several lines of one request" in reason for reason in reasons(report, "repaired"))


def test_lines_of_one_request_without_a_session_are_one_turn(tmp_path: Path) -> None:
    lines = [call(0, 50, output) for output in (1, 20)]
    for record in lines:
        del record["session_id"]
    assert counts(bring(tmp_path, lines)[0]) == [(0, 50, 20)]


def test_one_id_for_all_requests_is_no_reason_to_join_them(tmp_path: Path) -> None:
    records = [call(i, prompt, 10) | {"id": "x"} for i, prompt in enumerate((50, 80, 120))]
    assert bring(tmp_path, records)[0].n_turns == 3


# --- Reasoning and prompts -------------------------------------------------------------------


def test_reasoning_is_output_but_no_history(tmp_path: Path) -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": 400}}
    trace, _ = bring(tmp_path, [call(0, 50, 500, usage=details), call(1, 180, 10)])
    assert counts(trace) == [(0, 50, 500), (150, 30, 10)]


def test_reasoning_beside_the_output_is_added_to_it(tmp_path: Path) -> None:
    usage = {"total_tokens": 50 + 100 + 400, "reasoning_tokens": 400}
    trace, report = bring(tmp_path, [call(0, 50, 100, usage=usage), call(1, 180, 10)])
    assert counts(trace) == [(0, 50, 500), (150, 30, 10)]
    assert any("reasoning tokens, which are added" in guess for guess in report.guesses)


def test_prompts_that_hold_only_the_new_message(tmp_path: Path) -> None:
    records = [call(i, prompt, 100) for i, prompt in enumerate((20, 15, 30, 12, 18))]
    _, report = bring(tmp_path, records)
    assert any("--prompts incremental" in warning for warning in report.warnings)
    assert any("look incremental" in warning for warning in report.warnings)
    assert str(report).startswith("WARNING")
    trace, report = bring(tmp_path, records, prompts="incremental")
    assert counts(trace)[:3] == [(0, 20, 100), (120, 15, 100), (235, 30, 100)]
    assert not report.warnings


def test_a_history_that_was_cut_stays_one_session_with_a_warning(tmp_path: Path) -> None:
    prompts = (1000, 1300, 400, 600)
    trace, report = bring(tmp_path, [call(i, n, 100) for i, n in enumerate(prompts)])
    assert trace.n_sessions == 1
    assert counts(trace)[2:] == [(400, 0, 100), (500, 100, 100)]
    assert "1 of 3 turns" in report.warnings[0]


# --- Sub-agents ------------------------------------------------------------------------------


def test_calls_of_a_sub_agent_are_a_session_of_their_own(tmp_path: Path) -> None:
    prompts = (8000, 900, 1100, 8300, 700, 8600)
    trace, report = bring(tmp_path, [call(i, n, 100) for i, n in enumerate(prompts)])
    assert trace.session_ids == ("s", "s/context-2", "s/context-3")
    assert counts(trace)[:3] == [(0, 8000, 100), (8100, 200, 100), (8400, 200, 100)]
    assert any("sub-agent" in reason for reason in reasons(report, "note"))


def test_two_sub_agents_at_the_same_time(tmp_path: Path) -> None:
    prompts = (10_000, 3000, 5000, 3150, 5100, 10_300, 10_600)
    trace, _ = bring(tmp_path, [call(i, n, 50) for i, n in enumerate(prompts)])
    sessions = {"s": (10_000, 250, 250), "s/context-2": (3000, 100), "s/context-3": (5000, 50)}
    assert trace.session_ids == tuple(sessions)
    assert trace.new_prompt_tokens.tolist() == [
        new for all_new in sessions.values() for new in all_new
    ]


def test_lines_of_one_request_are_no_shorter_prompts(tmp_path: Path) -> None:
    lines = [call(i, 100 * (i + 1), output) for i in range(3) for output in (1, 1, 20)]
    assert not bring(tmp_path, lines)[1].warnings


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50)), min_size=1, max_size=30))
def test_agents_far_apart_in_length_are_told_apart(steps: list[tuple[int, int]]) -> None:
    agents = [0] + [agent for agent, _ in steps] + [0]
    length = [10_000.0 * 10 ** (3 - agent) for agent in range(4)]
    whole, kept = [], []
    for agent, (_, new) in zip(agents, [(0, 1), *steps, (0, 1)], strict=True):
        whole.append(length[agent] + new)
        length[agent] += new + 5
        kept.append(length[agent])
    first = np.arange(len(agents)) == 0
    found = contexts(first, np.array(whole), np.array(kept), np.full(len(agents), np.nan))
    pairs = set(zip(agents, found.tolist(), strict=True))
    assert len({agent for agent, _ in pairs}) >= len({context for _, context in pairs})
    assert (found[np.array(agents) == 0] == 0).all()


@given(st.lists(st.integers(0, 500), min_size=1, max_size=20))
def test_prompts_that_only_grow_are_one_conversation(new: list[int]) -> None:
    whole = np.cumsum(new).astype(float)
    first = np.arange(len(new)) == 0
    assert not contexts(first, whole, whole, np.full(len(new), np.nan)).any()


def test_responses_are_chained_by_the_one_before(tmp_path: Path) -> None:
    records = [call(i, n, 10, previous_response_id=f"r{i - 1}") for i, n in enumerate((50, 90))]
    for record in records:
        del record["session_id"]
    trace, _ = bring(tmp_path, records)
    assert (trace.n_sessions, counts(trace)[1]) == (1, (60, 30, 10))


# --- Times -----------------------------------------------------------------------------------


def test_the_hour_that_comes_twice_is_told_by_the_order_of_the_file() -> None:
    texts = ["2024-10-27 01:59", "2024-10-27 02:30", "2024-10-27 02:10", "2024-10-27 03:00"]
    wall_s = pd.DatetimeIndex(texts).astype("datetime64[s]").astype(np.int64).to_numpy()
    utc = LocalTimes("Europe/Berlin").epoch_s(wall_s.astype(float))
    assert ((wall_s - utc) / 3600).tolist() == [2.0, 2.0, 1.0, 1.0]


def test_a_local_time_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    record = call(0, 10, 5, created="2024-03-31 02:30:00")
    assert bring(tmp_path, [record])[0].n_turns == 1
    with pytest.raises(TraceError, match="no such time in Europe/Berlin"):
        bring(tmp_path, [record], timezone="Europe/Berlin")
    with pytest.raises(TraceError, match="Europe/Berlin"):
        bring(tmp_path, [record], timezone="Europe/Berln")


def bailian(number: int, time: float) -> dict[str, Any]:
    return {
        "chat_id": number,
        "parent_chat_id": number - 1 if number else -1,
        "timestamp": time,
        "input_length": 100 * (number + 1),
        "output_length": 5,
    }


@pytest.mark.parametrize("per_s", [1, 1000, 1_000_000])
def test_the_unit_of_times_is_told_by_the_gaps(tmp_path: Path, per_s: int) -> None:
    records = [bailian(i, per_s * 90 * i) for i in range(4)]
    trace, report = bring(tmp_path, records)
    assert trace.t_s is not None
    assert trace.t_s.tolist() == [0, 90, 180, 270]
    told = [guess for guess in report.guesses if "--time-unit s" in guess]
    assert bool(told) == (per_s > 1)
    trace, _ = bring(tmp_path, records, time_unit="s")
    assert trace.t_s is not None
    assert trace.t_s.tolist() == pytest.approx([0, 90 * per_s, 180 * per_s, 270 * per_s])


def test_the_unit_in_the_name_of_a_column_stays_with_a_warning(tmp_path: Path) -> None:
    names = ("session", "turn", "new_prompt_tokens", "output_tokens", "t_s")
    records = [dict(zip(names, ("a", i, 9, 9, 90_000 * i), strict=True)) for i in range(3)]
    trace, report = bring(tmp_path, records)
    assert trace.t_s is not None
    assert trace.t_s.tolist() == [0, 90_000, 180_000]
    assert "--time-unit ms" in report.warnings[0]
    trace, report = bring(tmp_path, records, time_unit="ms")
    assert trace.t_s is not None
    assert trace.t_s.tolist() == [0, 90, 180]
    assert not report.warnings


def mooncake(number: int, length: int, hashes: list[int]) -> dict[str, Any]:
    return {
        "timestamp": 30 * number,
        "input_length": length,
        "output_length": 5,
        "hash_ids": hashes,
    }


def test_seconds_in_a_mooncake_trace(tmp_path: Path) -> None:
    records = [mooncake(i, 512 * (i + 2), list(range(i + 2))) for i in range(4)]
    trace, report = bring(tmp_path, records)
    assert trace.t_s is not None
    assert trace.t_s.tolist() == pytest.approx([0, 30, 60, 90])
    assert any("times are seconds" in guess for guess in report.guesses)


def test_blocks_that_do_not_match_the_lengths(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="hash_ids do not match input_length"):
        bring(tmp_path, [mooncake(0, 20, list(range(40)))])
    records = [mooncake(0, 271, list(range(17))), mooncake(1, 300, list(range(19)))]
    trace, report = bring(tmp_path, records)
    assert any("blocks of 16 tokens" in guess for guess in report.guesses)
    assert counts(trace) == [(0, 271, 5), (276, 24, 5)]


# --- Conversations with text -----------------------------------------------------------------


def test_parts_of_a_content_and_calls_of_tools_count_where_they_have_text(tmp_path: Path) -> None:
    weather = {"function": {"name": "weather", "arguments": '{"in":"Bonn"}'}}
    said = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a" * 40}, {"type": "image_url"}]},
        {"role": "assistant", "content": None, "tool_calls": [weather]},
        {"role": "tool", "content": [{"type": "text", "text": "b" * 80}]},
        {"role": "assistant", "content": "c" * 20},
        {"role": "user", "content": None},
        {"role": "assistant", "content": "d" * 8},
    ]
    trace, report = bring(tmp_path, [{"conversation_id": "x", "conversation": said}])
    characters = [(8 + 1 + 40, 7 + 1 + 13), (80, 20 + 1 + 8)]
    new_and_output = [(new, output) for _, new, output in counts(trace)]
    assert new_and_output == [(-(-asked // 4), -(-answer // 4)) for asked, answer in characters]
    notes = reasons(report, "note")
    assert any("image_url" in note for note in notes)
    assert any("has no text" in note for note in notes)


def test_the_server_s_own_counts_are_taken_for_whole_conversations(tmp_path: Path) -> None:
    def answer(**usage: int) -> dict[str, Any]:
        return {"role": "assistant", "content": "b" * 80, "usage": usage or None}

    user = {"role": "user", "content": "a" * 40}
    counted = [user, answer(prompt_tokens=30, completion_tokens=50)]
    half = [*counted, user, answer()]
    records = [
        {"conversation_hash": str(i), "timestamp": f"2024-05-20T10:0{i}:00Z", "conversation": said}
        for i, said in enumerate((counted, half))
    ]
    trace, _ = bring(tmp_path, records)
    assert counts(trace) == [(0, 30, 50), (0, 10, 20), (30, 10, 20)]


def test_records_of_one_hash_are_sessions_of_their_own_unless_equal(tmp_path: Path) -> None:
    def record(minute: int) -> dict[str, Any]:
        said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hm"}] * 2
        time = f"2024-05-20T10:{minute}:00Z"
        return {"conversation_hash": "h", "timestamp": time, "conversation": said}

    trace, report = bring(tmp_path, [record(10), record(40), record(10)])
    assert trace.session_ids == ("h", "h/other-2")
    assert trace.n_turns == 4
    assert report.count("repaired") == 2 + 3  # turns of the copy, and times that are missing


# --- Records of any kind ---------------------------------------------------------------------

SOUND: list[list[dict[str, Any]]] = [
    [call(i, 60 * (i + 1), 10, status="success", error=None) for i in range(3)],
    [anthropic(i, 5, 20, 60 * i, 10) for i in range(3)],
    [mooncake(i, 512 * (i + 2), list(range(i + 2))) for i in range(3)],
    [bailian(i, 60 * i) for i in range(3)],
    [
        {
            "conversation_hash": "h",
            "timestamp": "2024-05-20T10:00:00Z",
            "conversation": [
                {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": None},
                {"role": "assistant", "content": "hm", "usage": {"prompt_tokens": 3}},
            ],
        }
        for _ in range(2)
    ],
]

STRANGE = st.sampled_from(
    [
        None,
        "",
        "many",
        "\ud800",
        -1,
        0,
        1e12,
        1e308,
        10**400,
        float("nan"),
        float("inf"),
        True,
        [],
        [None],
        [[["deep"]]],
        {},
        {"text": 5},
        {"prompt_tokens": {}},
        "2024-05-20",
    ]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place within a value that holds another one."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, below in inside:
        found.append((*path, key))
        if isinstance(below, dict | list):
            found += places(below, (*path, key))
    return found


@settings(max_examples=150)
@given(st.sampled_from(SOUND), st.data())
def test_a_strange_value_anywhere_is_an_error_or_a_report(
    sound: list[dict[str, Any]], data: st.DataObject
) -> None:
    records = copy.deepcopy(sound)
    for _ in range(data.draw(st.integers(1, 3))):
        *above, last = data.draw(st.sampled_from([p for p in places(records) if len(p) > 1]))
        at: Any = records
        for key in above:
            at = at[key]
        at[last] = copy.deepcopy(data.draw(STRANGE))
    with tempfile.TemporaryDirectory() as folder:
        try:
            trace, report = bring(Path(folder), records, keep_readable=True)
        except TraceError:
            return
    assert trace.n_turns == report.turns
    assert min(trace.history_tokens.min(), trace.new_prompt_tokens.min()) >= 0
