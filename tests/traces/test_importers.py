"""Importers: every format that people have, from the samples and from records made here."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from carbonrouter_core.errors import TraceError
from carbonrouter_core.traces.importers import IMPORTERS
from carbonrouter_core.traces.importers.base import ImportOptions
from carbonrouter_core.traces.loading import staged_trace
from carbonrouter_core.traces.report import TraceReport
from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.traces.staging import stage


def bring(*paths: Path, format_id: str | None = None, **options: Any) -> tuple[Trace, TraceReport]:
    """The trace in the files, and the report; the rows must be sound."""
    with stage(paths, format_id, options=ImportOptions(**options)) as staged:
        staged.require()
        return staged_trace(staged, paths[0].name), staged.report


def lines(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def usage(session: str, created: float, prompt: int, output: int, **more: Any) -> dict[str, Any]:
    tokens: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": output}
    if "cached" in more:
        tokens["prompt_tokens_details"] = {"cached_tokens": more.pop("cached")}
    return {"created": created, "metadata": {"session_id": session}, "usage": tokens, **more}


@pytest.mark.parametrize(
    ("sample", "format_id", "turns", "sessions"),
    [
        ("azure_conv_2023.csv", "azure", 299, 299),
        ("claude_code", "claude-code", 21, 4),
        ("lmsys_chat_1m.jsonl", "lmsys", 2, 1),
        ("mooncake_conversation.jsonl", "mooncake", 300, None),
        ("openai_usage.jsonl", "openai-usage", 4, 2),
        ("qwen_bailian.jsonl", "qwen-bailian", 5, 3),
        ("ragpulse.jsonl", "ragpulse", 400, 227),
        ("sharegpt.json", "sharegpt", 3, 1),
        ("wildchat.jsonl", "wildchat", 3, 2),
    ],
)
def test_each_sample_is_recognised_by_its_content(
    shared_data: Path,
    tmp_path: Path,
    sample: str,
    format_id: str,
    turns: int,
    sessions: int | None,
) -> None:
    trace, report = bring(shared_data / "formats" / sample)
    assert report.format_id == format_id
    assert report.format_reason
    assert (trace.n_turns, report.turns) == (turns, turns)
    assert sessions is None or trace.n_sessions == sessions
    assert trace.history_tokens.min() >= 0
    assert trace.new_prompt_tokens.min() >= 0
    assert report.refused == report.unreadable == 0


@pytest.mark.parametrize("packing", ["gz", "zst"])
@pytest.mark.parametrize("sample", ["openai_usage.jsonl", "azure_conv_2023.csv", "sharegpt.json"])
def test_packed_files_under_any_name_give_the_same_trace(
    shared_data: Path, tmp_path: Path, sample: str, packing: str
) -> None:
    source = shared_data / "formats" / sample
    packed = tmp_path / "log.bin"
    if packing == "gz":
        packed.write_bytes(gzip.compress(source.read_bytes()))
    else:
        packed.write_bytes(pa.compress(source.read_bytes(), "zstd", asbytes=True))
    assert bring(packed)[0].sha256 == bring(source)[0].sha256


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_packed_parquet(tmp_path: Path, packing: str) -> None:
    table = pa.table(
        {
            "session": ["a", "a"],
            "turn": [0, 1],
            "new_prompt_tokens": [5, 6],
            "output_tokens": [1, 2],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    with pa.CompressedOutputStream(str(tmp_path / "t.bin"), packing) as out:
        out.write((tmp_path / "t.parquet").read_bytes())
    assert bring(tmp_path / "t.bin")[0].sha256 == bring(tmp_path / "t.parquet")[0].sha256


def test_a_format_can_be_named_and_an_unknown_one_lists_those_there_are(
    shared_data: Path,
) -> None:
    path = shared_data / "formats" / "openai_usage.jsonl"
    assert bring(path, format_id="openai-usage")[1].format_reason == "chosen by name"
    with pytest.raises(TraceError, match="openai-usage"):
        bring(path, format_id="openai")


def test_an_unknown_table_names_its_columns_and_the_formats(tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    path.write_text("date,amount\n2024-01-01,12\n")
    with pytest.raises(TraceError, match=r"date, amount.*openai-usage"):
        bring(path)


# --- Own columns -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "semicolons", "jsonl", "parquet"])
def test_own_columns_in_every_container(tmp_path: Path, kind: str) -> None:
    rows = pd.DataFrame(
        {
            "session": ["a", "a", "NA"],
            "turn": [0, 1, 0],
            "new_prompt_tokens": [10, 5, 7],
            "output_tokens": [20, 6, 8],
            "start_utc": ["2024-05-20T10:00:00Z", "2024-05-20T10:01:00Z", "2024-05-20T12:00:00Z"],
            "served_model": ["m", None, "m"],
            "cached_tokens_observed": [None, 30, None],
        }
    )
    path = tmp_path / "trace"
    if kind == "parquet":
        rows.assign(start_utc=pd.to_datetime(rows["start_utc"])).to_parquet(path)
    elif kind == "jsonl":
        rows.to_json(path, orient="records", lines=True)
    else:
        rows.to_csv(path, index=False, sep="," if kind == "csv" else ";", encoding="utf-8-sig")
    trace, report = bring(path)
    assert report.format_id == "own"
    assert trace.session_ids == ("a", "NA")
    assert trace.history_tokens.tolist() == [0, 30, 0]
    assert trace.start_utc_s is not None
    assert trace.start_utc_s.tolist() == [1716199200.0, 1716199260.0, 1716206400.0]
    assert trace.cached_tokens_observed is not None
    assert trace.cached_tokens_observed.tolist() == [-1, 30, -1]
    assert trace.served_model == ("m", None, "m")


def test_dates_can_be_left_behind(tmp_path: Path) -> None:
    path = lines(tmp_path / "log", [usage("a", 1.7e9, 10, 1), usage("a", 1.7e9 + 60, 20, 1)])
    trace, report = bring(path, keep_dates=False)
    assert trace.start_utc_s is None
    assert trace.t_s is not None
    assert trace.t_s.tolist() == [0.0, 60.0]
    assert report.times == "t_s"


# --- Usage logs ------------------------------------------------------------------------------


def test_usage_logs_give_history_new_prompt_and_what_was_observed(shared_data: Path) -> None:
    trace, report = bring(
        shared_data / "formats" / "openai_usage.jsonl", served_region="europe-west2"
    )
    assert trace.session_ids == ("s-17", "s-18")
    assert trace.history_tokens.tolist() == [0, 642, 789, 0]
    assert trace.new_prompt_tokens.tolist() == [512, 59, 51, 77]
    assert trace.cached_tokens_observed is not None
    assert trace.cached_tokens_observed.tolist() == [0, 640, 0, -1]
    assert trace.served_model is not None
    assert trace.served_model[2] == "llama-3.3-70b-instruct"
    assert trace.served_region == ("europe-west2",) * 4
    assert any("seconds since 1970" in guess for guess in report.guesses)


@pytest.mark.parametrize(
    "record",
    [
        {  # LiteLLM, StandardLoggingPayload
            "id": "r1",
            "trace_id": "t1",
            "startTime": 1716200000.5,
            "prompt_tokens": 100,
            "completion_tokens": 7,
            "model": "m",
            "metadata": {"usage_object": {"prompt_tokens_details": {"cached_tokens": 64}}},
        },
        {  # the Responses API
            "id": "r1",
            "session_id": "t1",
            "created_at": 1716200000.5,
            "model": "m",
            "usage": {
                "input_tokens": 100,
                "output_tokens": 7,
                "input_tokens_details": {"cached_tokens": 64},
            },
        },
        {  # times as text, numbers as text
            "id": "r1",
            "session_id": "t1",
            "timestamp": "2024-05-20T10:13:20.500Z",
            "model": "m",
            "usage": {
                "prompt_tokens": "100",
                "completion_tokens": "7",
                "prompt_tokens_details": {"cached_tokens": 64},
            },
        },
    ],
)
def test_usage_logs_of_other_servers(tmp_path: Path, record: dict[str, Any]) -> None:
    trace, _ = bring(lines(tmp_path / "log.jsonl", [record]))
    assert trace.session_ids == ("t1",)
    assert trace.start_utc_s is not None
    assert trace.start_utc_s[0] == pytest.approx(1716200000.5)
    assert trace.cached_tokens_observed is not None
    # all of the first prompt that was cached leads it, so it is history
    assert trace.history_tokens.tolist() == [64]
    assert trace.new_prompt_tokens.tolist() == [36]


def test_usage_without_a_session_is_a_session_of_its_own_and_said_so(tmp_path: Path) -> None:
    record = usage("", 1.7e9, 10, 1)
    del record["metadata"]
    trace, report = bring(lines(tmp_path / "log.jsonl", [record, record | {"created": 1.7e9 + 1}]))
    assert trace.n_sessions == 2
    assert any("names no session" in one.reason for one in report.findings)


@pytest.mark.parametrize("per_s", [1, 1e3, 1e6])
def test_the_unit_of_times_is_guessed_and_said(tmp_path: Path, per_s: float) -> None:
    path = lines(tmp_path / "log.jsonl", [usage("a", 1716200000 * per_s, 10, 1)])
    trace, report = bring(path)
    assert trace.start_utc_s is not None
    assert trace.start_utc_s[0] == 1716200000
    assert any("since 1970" in guess for guess in report.guesses)


# --- Conversations with text -----------------------------------------------------------------


def chat(name: str, *messages: tuple[str, str]) -> dict[str, Any]:
    return {"id": name, "conversations": [{"from": who, "value": text} for who, text in messages]}


def test_sharegpt_parts_are_put_together_by_the_number_in_their_id(tmp_path: Path) -> None:
    path = tmp_path / "chats.json"
    parts = [
        chat("x_2", ("human", "c" * 40), ("gpt", "d" * 80)),
        chat("y_0", ("human", "a" * 4), ("gpt", "b" * 4)),
        # message 2 again, in other words: the first copy is kept
        chat("x_0", ("human", "a" * 4), ("gpt", "b" * 8), ("human", "other words")),
    ]
    path.write_text(json.dumps(parts))
    trace, report = bring(path)
    assert trace.session_ids == ("x", "y")
    assert trace.new_prompt_tokens.tolist() == [1, 10, 1]
    assert trace.output_tokens.tolist() == [2, 20, 1]
    assert trace.history_tokens.tolist() == [0, 3, 0]
    assert any("earlier part" in one.reason for one in report.findings)


def test_what_makes_a_turn_of_a_chat(tmp_path: Path) -> None:
    path = tmp_path / "chats.json"
    messages = [
        ("gpt", "w" * 12),  # an answer before any prompt: a turn without one
        ("system", "s" * 15),
        ("human", "  "),  # dropped
        ("human", "a" * 16),  # joined to the system message: 15 + 1 + 16
        ("gpt", "b" * 19),
        ("gpt", "c" * 20),  # joined: 19 + 1 + 20
        ("human", "nobody answers"),
    ]
    path.write_text(json.dumps([chat("x", *messages)]))
    trace, _ = bring(path)
    assert trace.new_prompt_tokens.tolist() == [0, 8]
    assert trace.output_tokens.tolist() == [3, 10]


def test_difficulty_is_read_from_the_text_and_the_text_is_not_kept(tmp_path: Path) -> None:
    from carbonrouter_core.quality.prompt_difficulty import difficulty_of_prompts

    secret = "zanzibar quokka telescope"
    path = tmp_path / "chats.json"
    path.write_text(json.dumps([chat("x", ("human", secret), ("gpt", "yes"))]))
    with stage([path]) as staged:
        kept = b"".join(p.read_bytes() for p in staged.folder.rglob("*") if p.is_file())
        trace = staged_trace(staged, "chats")
    assert b"quokka" not in kept
    assert trace.difficulty is not None
    assert trace.difficulty == pytest.approx(difficulty_of_prompts([secret]))
    assert "text" in trace.difficulty_source


def test_an_estimate_of_tokens_is_stated(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from carbonrouter_core.traces.tokens import token_counter

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    token_counter.cache_clear()
    _, report = bring(shared_data / "formats" / "lmsys_chat_1m.jsonl")
    token_counter.cache_clear()
    assert any("4 characters each" in guess for guess in report.guesses)


def test_wildchat_keeps_the_times_of_its_messages(shared_data: Path) -> None:
    trace, _ = bring(shared_data / "formats" / "wildchat.jsonl")
    assert trace.start_utc_s is not None
    assert np.diff(trace.start_utc_s[:2]).tolist() == [42.0]


def test_wildchat_messages_without_times_are_placed_and_counted(tmp_path: Path) -> None:
    said = [{"role": role, "content": "hm"} for role in ("user", "assistant") * 2]
    record = {"conversation_hash": "h", "timestamp": "2024-05-20T10:00:00Z", "conversation": said}
    trace, report = bring(lines(tmp_path / "chats.jsonl", [record]))
    assert trace.start_utc_s is not None
    assert np.diff(trace.start_utc_s).tolist() == [126.0]
    assert any("has no time" in one.reason for one in report.findings)


def test_conversations_from_parquet(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    table = pa.Table.from_pylist(
        [{"conversation_id": f"c{i}", "model": "vicuna-13b", "conversation": said} for i in (1, 2)]
    )
    pq.write_table(table, tmp_path / "lmsys.parquet")
    trace, report = bring(tmp_path / "lmsys.parquet")
    assert (report.format_id, trace.n_sessions) == ("lmsys", 2)
    assert trace.served_model == ("vicuna-13b",) * 2


# --- Block hashes and parent links -----------------------------------------------------------


def test_mooncake_sessions_are_those_of_the_derived_table(shared_data: Path) -> None:
    trace, report = bring(shared_data / "formats" / "mooncake_conversation.jsonl")
    derived = pd.read_parquet(
        shared_data / "derived" / "mooncake_conversation_sessions.parquet"
    ).iloc[:300]
    assert int((trace.turn > 0).sum()) + sum(
        one.count for one in report.findings if "branches" in one.reason
    ) == int((derived["parent"] >= 0).sum())
    assert trace.history_tokens.sum() == derived["history_tokens"].sum()
    assert trace.new_prompt_tokens.sum() == derived["new_prompt_tokens"].sum()
    assert any("inferred" in guess for guess in report.guesses)


def test_mooncake_parents_are_the_latest_whose_full_blocks_lead(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    records: list[dict[str, Any]] = []
    for i in range(3000):
        ids = [0, *rng.integers(0, 3, rng.integers(0, 6)).tolist()]
        whole = 512 * len(ids) - int(rng.integers(0, 512))
        record = {"timestamp": i, "input_length": whole, "output_length": 7, "hash_ids": ids}
        records.append(record)
    # the same once more with hashes that are no numbers, which go record by record
    named = [one | {"hash_ids": [f"b{block}" for block in one["hash_ids"]]} for one in records]
    heads: dict[tuple[int, ...], int] = {}
    begin: list[int] = []
    history: list[int] = []
    continued: set[int] = set()
    for i, record in enumerate(records):
        ids, whole = tuple(record["hash_ids"]), record["input_length"]
        parent = next((heads[ids[:n]] for n in range(len(ids), 1, -1) if ids[:n] in heads), None)
        goes_on = parent is not None and parent not in continued
        begin.append(begin[parent] if goes_on else i)  # type: ignore[index]
        before = 0 if parent is None else records[parent]["input_length"] + 7
        history.append(min(before, whole))
        continued |= {parent} - {None}
        if (full := whole // 512) >= 2:
            heads[ids[:full]] = i
    order = np.lexsort((np.arange(3000), begin))
    for number, log in enumerate((records, named)):
        trace, _ = bring(lines(tmp_path / f"{number}.jsonl", log))
        assert trace.history_tokens.tolist() == np.array(history)[order].tolist()
        assert trace.session_turns.tolist() == np.unique(begin, return_counts=True)[1].tolist()


def test_agent_sessions_reuse_what_leads_both_prompts(tmp_path: Path) -> None:
    def request(t: float, whole: int, ids: list[int]) -> dict[str, Any]:
        return {"t": t, "type": "s", "model": "m", "in": whole, "out": 9, "hash_ids": ids}

    record = {
        "id": "s1",
        "block_size": 64,
        "requests": [
            request(0.0, 200, [1, 2, 3]),
            request(5.0, 300, [1, 2, 3, 4]),
            {"type": "subagent", "t": 6.0, "requests": [request(0.0, 100, [7])]},
            request(9.0, 150, [1, 8]),  # the context was rewritten after the first block
        ],
    }
    trace, _ = bring(lines(tmp_path / "s1.json", [record]))
    assert trace.session_ids == ("s1", "s1/agent-1")
    assert trace.history_tokens.tolist() == [0, 192, 64, 0]
    assert trace.new_prompt_tokens.tolist() == [200, 108, 86, 100]
    assert trace.t_s is not None
    assert trace.t_s.tolist() == [0.0, 5.0, 9.0, 0.0]


def test_qwen_bailian_branches_begin_with_the_shared_path(shared_data: Path) -> None:
    trace, report = bring(shared_data / "formats" / "qwen_bailian.jsonl")
    assert trace.session_ids == ("1", "3", "5")
    assert trace.history_tokens.tolist() == [0, 600, 730, 0, 730]
    assert trace.new_prompt_tokens.tolist() == [500, 50, 60, 220, 30]
    assert any("branches off" in one.reason for one in report.findings)


def test_azure_requests_are_sessions_and_their_zone_is_assumed(shared_data: Path) -> None:
    trace, report = bring(shared_data / "formats" / "azure_conv_2023.csv")
    assert (trace.history_tokens == 0).all()
    assert any("UTC" in guess for guess in report.guesses)
    assert any("each request is a session" in guess for guess in report.guesses)


HALF = "\ud800"
"""Half a character: JSON may hold it, and text that is stored may not."""


@pytest.mark.parametrize(
    "record",
    [
        usage(HALF, 1_716_200_000, 10, 5, model=HALF),
        {"session": HALF, "turn": 0, "new_prompt_tokens": 5, "output_tokens": 5},
        {
            "id": HALF,
            "block_size": 64,
            "requests": [{"t": 0, "model": HALF, "in": 9, "out": 5, "hash_ids": [1]}],
        },
        {
            "session_id": HALF,
            "timestamp": "1",
            "input_length": 9,
            "output_length": 5,
            "hash_ids": {"history": [1]},
        },
    ],
)
def test_half_a_character_in_an_id_is_kept_as_it_was_written(
    tmp_path: Path, record: dict[str, Any]
) -> None:
    trace, _ = bring(lines(tmp_path / "log.jsonl", [record]))
    assert list(trace.session_ids) == [r"\ud800"]


@pytest.mark.parametrize(
    "time", ["0001-01-01T00:00:00+14:00", "1970-01-01T00:00:09Z", "9999-12-31T23:59:59-14:00"]
)
@pytest.mark.parametrize("model", ["m", 5])  # of another kind: read record by record
def test_a_time_that_can_be_no_log_s_is_refused(tmp_path: Path, time: str, model: Any) -> None:
    said = [
        {"role": "user", "content": "hello", "timestamp": time},
        {"role": "assistant", "content": "yes", "timestamp": None},
    ]
    day = "2024-05-20T10:13:20Z"
    chat = {"conversation_hash": "a", "model": model, "timestamp": day, "conversation": said}
    with pytest.raises(TraceError, match="line 1: the time cannot be read as a date"):
        bring(lines(tmp_path / "chats.jsonl", [chat]))


def test_a_number_too_large_for_a_time_is_none(tmp_path: Path) -> None:
    time: Any = 10**400
    said = [
        {"role": "user", "content": "hello", "timestamp": time},
        {"role": "assistant", "content": "yes", "timestamp": None},
    ]
    day = "2024-05-20T10:13:20Z"
    chat = {"conversation_hash": "a", "model": "m", "timestamp": day, "conversation": said}
    trace, _ = bring(lines(tmp_path / "chats.jsonl", [chat]))
    assert trace.n_turns == 1  # the time of the conversation stands in
    log = lines(tmp_path / "log.jsonl", [usage("a", 1_716_200_000, 10, 5), usage("a", time, 10, 5)])
    with pytest.raises(TraceError, match="line 2: the time cannot be read as a date"):
        bring(log)


@pytest.mark.parametrize("start", ["abc", [1], True])
def test_the_start_of_a_sub_agent_must_be_a_number(tmp_path: Path, start: Any) -> None:
    asked = {"t": 0, "in": 9, "out": 5, "hash_ids": [1]}
    agent = {"t": start, "type": "subagent", "requests": [asked]}
    record = {"id": "a", "block_size": 64, "requests": [asked, agent]}
    with pytest.raises(TraceError, match="line 1: t is not a number"):
        bring(lines(tmp_path / "agents.jsonl", [record]))


def test_every_importer_says_what_its_sessions_are() -> None:
    for importer in IMPORTERS.values():
        assert importer.label
        assert importer.sessions
