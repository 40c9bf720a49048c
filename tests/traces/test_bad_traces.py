"""Trace inputs that broke similar tools: each ends as agreed, and stores nothing by itself."""

import gzip
import json
import resource
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from carbonrouter_core import Scenario, TraceError, compare
from carbonrouter_core.errors import IntensityError, ScenarioError
from carbonrouter_core.routing.policies import POLICIES
from carbonrouter_core.traces.loading import read_trace, staged_trace
from carbonrouter_core.traces.report import TraceReport
from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.traces.staging import stage

HEADER = "session,turn,new_prompt_tokens,output_tokens"
SHORT = Scenario(window_days=1)


def checked(path: Path) -> tuple[Trace, TraceReport]:
    with stage([path]) as staged:
        return staged_trace(staged, path.name), staged.report


def lines(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def bailian(chat: int, parent: int, at: float, whole: int, output: int) -> dict[str, Any]:
    return {
        "chat_id": chat,
        "parent_chat_id": parent,
        "timestamp": at,
        "input_length": whole,
        "output_length": output,
        "hash_ids": [],
    }


def logged(created: float, prompt: int, output: int, cached: int | None = None) -> dict[str, Any]:
    details = None if cached is None else {"cached_tokens": cached}
    usage = {"prompt_tokens": prompt, "completion_tokens": output, "prompt_tokens_details": details}
    return {"created": created, "session_id": "s", "model": "m", "usage": usage}


def reasons(report: TraceReport, kind: str) -> list[str]:
    return [one.reason for one in report.findings if one.kind == kind]


def refused(path: Path, what: str) -> None:
    with stage([path]) as staged, pytest.raises(TraceError, match=what):
        staged.require()


def test_case_1_cumulative_input_prefills_only_what_is_new(tmp_path: Path) -> None:
    path = lines(tmp_path / "t", bailian(1, -1, 0, 500, 100), bailian(2, 1, 9, 650, 80))
    trace, _ = checked(path)
    assert trace.history_tokens.tolist() == [0, 600]
    assert trace.new_prompt_tokens.tolist() == [500, 50]
    moving = trace.history_tokens + trace.new_prompt_tokens
    assert moving[1] == 650


def test_case_2_a_child_shorter_than_its_parent_is_repaired(tmp_path: Path) -> None:
    path = lines(tmp_path / "t", bailian(1, -1, 0, 500, 100), bailian(2, 1, 9, 400, 80))
    trace, report = checked(path)
    assert trace.history_tokens.tolist() == [0, 400]
    assert trace.new_prompt_tokens.tolist() == [500, 0]
    assert report.count("repaired") == 1
    assert "history shrank" in reasons(report, "repaired")[0]
    run = compare(SHORT, ["sticky"], trace).runs["sticky"]
    assert run.decisions.cached_tokens[1] <= 400


def test_case_3_more_cached_than_prompt_tokens_is_refused(tmp_path: Path) -> None:
    path = lines(tmp_path / "t", logged(1.7e9, 500, 10, 600))
    refused(path, "line 1: there are more cached tokens than prompt tokens")


def test_case_3_what_was_cached_is_not_prefilled(tmp_path: Path) -> None:
    trace, _ = checked(lines(tmp_path / "t", logged(1.7e9, 17_903, 10, 17_817)))
    assert trace.history_tokens.tolist() == [17_817]
    assert trace.new_prompt_tokens.tolist() == [86]


def test_case_4_times_that_the_window_does_not_cover_name_both_ranges(tmp_path: Path) -> None:
    path = lines(tmp_path / "t", logged(1716200000, 10, 5), logged(1716200060, 30, 5))
    with pytest.raises(TraceError) as failed:
        compare(Scenario(trace=str(path), window_start="2024-01-01"))
    message = str(failed.value)
    assert "2024-05-20T10:13:20Z to 2024-05-20T10:14:20Z" in message
    assert "2024-01-01T00:00:00Z to 2024-01-15T00:00:00Z" in message
    assert "Set window_start to 2024-05-20 and window_days to 1" in message
    compare(Scenario(trace=str(path), window_start="2024-05-20", window_days=1))


def test_case_4_a_window_without_intensity_names_both_ranges(tmp_path: Path) -> None:
    path = lines(tmp_path / "t", logged(1779272000, 10, 5))
    with pytest.raises(IntensityError, match=r"2021-01-01.*2025-01-01.*2026-05-20"):
        compare(Scenario(trace=str(path), window_start="2026-05-20", window_days=1))


@pytest.mark.parametrize(
    ("cell", "what"),
    [
        ("-5", "must be a whole number"),
        ("1e12", "must be a whole number"),
        ("many", "is not a number"),
        ("NaN", "is not a number"),
    ],
)
def test_case_5_sizes_that_cannot_be_are_refused_with_the_line(
    tmp_path: Path, cell: str, what: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADER}\na,0,10,5\na,1,10,{cell}\na,2,10,5\n")
    refused(path, f"line 3: output_tokens {what}")
    value = float(cell) if cell in ("-5", "1e12") else cell
    record = logged(1.7e9, 10, 5)
    wrong = logged(1.7e9, 10, 5) | {"usage": {"prompt_tokens": 1, "completion_tokens": value}}
    refused(lines(tmp_path / "t.jsonl", record, wrong), f"line 2: usage.completion_tokens {what}")


@pytest.mark.parametrize("text", ["", "\n", HEADER, HEADER + "\n"])
def test_case_6_nothing_in_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(TraceError, match="nothing to"):
        read_trace(path)


def test_case_6_sessions_without_turns_and_outputs_of_0(tmp_path: Path) -> None:
    chats = [
        {"conversation_id": "a", "conversation": []},
        {
            "conversation_id": "b",
            "conversation": [
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": ""},
            ],
        },
    ]
    trace, report = checked(lines(tmp_path / "t", *chats))
    assert trace.session_ids == ("b",)
    assert trace.output_tokens.tolist() == [0]
    assert "no answered prompt" in reasons(report, "note")[0]
    for value in compare(SHORT, list(POLICIES), trace).summary().to_numpy().ravel():
        assert value is None or np.isfinite(value)


def test_case_6_one_turn_and_no_duration(tmp_path: Path) -> None:
    trace, report = checked(lines(tmp_path / "t", logged(1716200000, 10, 5)))
    assert trace.n_turns == 1
    assert "no duration" in str(report)
    assert "nan" not in str(report).lower()
    json.dumps(report.to_dict(), allow_nan=False)


def test_case_7_duplicates(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADER}\na,0,10,5\na,1,10,5\na,1,10,5\n")
    trace, report = checked(path)
    assert trace.n_turns == 2
    assert report.count("repaired") == 1
    path.write_text(f"{HEADER}\na,0,10,5\na,1,10,5\na,1,10,6\n")
    refused(path, "line 4: this turn stands there twice with different values")
    same = {"id": "r1"} | logged(1.7e9, 10, 5)
    assert checked(lines(path, same, same))[0].n_turns == 1
    refused(lines(path, same, {"id": "r1"} | logged(1.7e9, 11, 5)), "twice with different values")


def test_case_7_shuffled_turns_are_sorted_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADER}\na,2,1,1\nb,0,9,9\na,0,2,2\na,1,3,3\n")
    trace, report = checked(path)
    assert trace.new_prompt_tokens.tolist() == [2, 3, 1, 9]
    assert "out of order" in reasons(report, "repaired")[0]


def test_case_7_a_missing_parent_is_a_new_session(tmp_path: Path) -> None:
    trace, report = checked(lines(tmp_path / "t", bailian(2, 1, 0, 500, 100)))
    assert trace.history_tokens.tolist() == [0]
    assert "a new session" in reasons(report, "repaired")[0]


def test_case_7_a_circle_of_parents_is_refused(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "t", bailian(1, 2, 0, 9, 9), bailian(2, 1, 0, 9, 9), bailian(3, -1, 0, 9, 9)
    )
    refused(path, "line 1: its parents lead back to itself")
    refused(lines(path, bailian(1, 1, 0, 9, 9)), "lead back to itself")


def test_case_7_a_parent_later_than_its_child_is_refused(tmp_path: Path) -> None:
    path = lines(tmp_path / "t", bailian(1, -1, 60, 9, 9), bailian(2, 1, 10, 99, 9))
    refused(path, "line 2: its parent is later")


def test_case_8_more_history_than_any_window_is_unserved_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = "".join(f"a,{turn},1000,1000\n" for turn in range(200))
    path.write_text(f"{HEADER}\n{rows}")
    trace, report = checked(path)
    assert report.turns == 200
    figures = compare(SHORT, ["carbonrouter"], trace).figures("carbonrouter")
    assert 0 < figures["unserved_turns"] < 200
    assert figures["output_tokens"] == 1000 * (200 - figures["unserved_turns"])


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"regions": ("europe-west2",), "gpus": ("B200-180GB",)}, "europe-west2"),
        ({"models": ()}, "models"),
        ({"gpus": ()}, "gpus"),
    ],
)
def test_case_9_what_cannot_serve_is_refused_before_running(
    changes: dict[str, Any], what: str
) -> None:
    with pytest.raises(ScenarioError, match=what):
        compare(Scenario(window_days=1).replace(**changes))


def test_case_10_after_six_hours_the_cache_is_gone(tmp_path: Path) -> None:
    path = lines(tmp_path / "t", logged(1716200000, 1000, 10), logged(1716221600, 2000, 10))
    scenario = Scenario(window_start="2024-05-20", window_days=1)
    run = compare(scenario, ["sticky"], read_trace(path)).runs["sticky"]
    assert run.decisions.cached_tokens.tolist() == [0, 0]
    assert run.charges.recompute_g[1] > 0


def test_case_11_a_broken_last_record_is_the_users_choice(tmp_path: Path) -> None:
    path = lines(tmp_path / "t.jsonl", *(logged(1.7e9 + i, 10 + i, 5) for i in range(3)))
    path.write_bytes(path.read_bytes()[:-30])
    with stage([path]) as staged:
        report = staged.report
        assert (report.turns, report.unreadable, report.refused) == (2, 1, 0)
        with pytest.raises(TraceError, match="line 3: .*ends early.*2 turns could be read"):
            staged.require()
        staged.require(accept_unreadable=True)


@pytest.mark.parametrize("end", [40, 200])
def test_case_11_a_packed_file_that_ends_early(tmp_path: Path, end: int) -> None:
    rng = np.random.default_rng(1)
    rows = "".join(f"a{i},0,{rng.integers(1, 9999)},5\n" for i in range(20_000))
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(f"{HEADER}\n{rows}".encode())[:-end])
    with stage([path]) as staged:
        assert 10_000 < staged.report.turns <= 20_000
        with pytest.raises(TraceError, match="ends early"):
            staged.require()
        staged.require(accept_unreadable=True)


def test_case_11_a_list_that_ends_mid_record(tmp_path: Path) -> None:
    chat = {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}
    path = tmp_path / "t.json"
    path.write_text(json.dumps([chat | {"id": f"x{i}"} for i in range(3)])[:-20])
    with stage([path]) as staged:
        assert (staged.report.sessions, staged.report.unreadable) == (2, 1)
        with pytest.raises(TraceError, match="ends early"):
            staged.require()


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("t.csv", HEADER)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (f"{HEADER}\na,0,10,5\n".encode() + b"b\xff,0,10,5\n", "line 3 is not valid UTF-8"),
        (f"{HEADER}\na,0,10,5\n".encode() + b"b\0,0,10,5\n", "line 3 holds NUL bytes"),
        (HEADER.encode() + b"\n" + b"a" * 40_000_000 + b",0,10,5\n", "line 2 is longer than"),
        (b"{" + b'"a":' * 10_000_000, "longer than"),
        (b"[" + b'{"a":' * 10_000_000, "damaged|no turns|not recognised"),
        (b"[" * 50_000_000, "not recognised|no turns|damaged"),
        (b"\x89PNG\r\n" + bytes(5000), "image"),
        (f"{HEADER}\n".encode("utf-16"), "UTF-16"),
        (gzip.compress(bytes(50_000_000)), "NUL bytes"),
    ],
    ids=["utf8", "nul", "csv line", "json line", "json list", "nested", "image", "utf16", "bomb"],
)
def test_case_12_malformed_files_are_refused_in_bounded_memory(
    tmp_path: Path, content: bytes, what: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TraceError, match=what) as failed, stage([path]) as staged:
        staged.require()
    assert "t.csv" in str(failed.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 600_000


def agent(**fields: object) -> dict[str, object]:
    request = {"t": 0, "in": 100, "out": 5}
    return {"id": "t", "block_size": 64, "requests": [request]} | fields


def retrieved(hash_ids: object) -> dict[str, object]:
    whole = {"timestamp": "82", "input_length": 300, "output_length": 5, "session_id": "s"}
    return whole | {"hash_ids": hash_ids}


@pytest.mark.parametrize(
    ("record", "format_id", "what"),
    [
        (agent(block_size="big"), "claude-code", "block_size is not a number"),
        (
            agent(requests=[{"t": 0, "in": 100, "out": 5, "hash_ids": {"a": 1}}]),
            "claude-code",
            "hash_ids is not a list",
        ),
        (retrieved({"sys_prompt": 5}), "ragpulse", "lists of prompt parts"),
        (retrieved({"sys_prompt": "abc"}), "ragpulse", "lists of prompt parts"),
        (retrieved(None), "ragpulse", "lists of prompt parts"),
        (
            {"timestamp": 0, "input_length": 2000, "output_length": 5, "hash_ids": 7},
            "mooncake",
            "hash_ids is not a list",
        ),
        (
            {"timestamp": None, "input_length": 2000, "output_length": 5, "hash_ids": [1, 2]},
            "mooncake",
            "timestamp is empty",
        ),
    ],
)
def test_case_5_fields_of_the_wrong_kind_are_refused_with_the_line(
    tmp_path: Path, record: dict[str, object], format_id: str, what: str
) -> None:
    path = lines(tmp_path / "t.jsonl", record)
    with pytest.raises(TraceError, match=f"line 1: .*{what}"), stage([path], format_id) as staged:
        staged.require()


def test_hashes_of_any_kind_are_compared(tmp_path: Path) -> None:
    hashes = [["a", 1, None], ["a", 1, 2]]
    requests = [{"t": i, "in": 200, "out": 5, "hash_ids": ids} for i, ids in enumerate(hashes)]
    trace = read_trace(lines(tmp_path / "t.jsonl", agent(requests=requests)))
    assert trace.history_tokens.tolist() == [0, 128]


def test_an_agent_within_an_agent_without_end_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    inner = '[{"requests":' * 2000 + "[]" + "}]" * 2000
    path.write_text('{"id":"t","block_size":64,"requests":' + inner + "}")
    with pytest.raises(TraceError, match="t.json"), stage([path]) as staged:
        staged.require()


def test_the_first_conversation_may_be_the_broken_one(tmp_path: Path) -> None:
    said = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"conversations": "no"}, {"conversations": said}]))
    with stage([path]) as staged:
        assert (staged.report.format_id, staged.report.turns) == ("sharegpt", 1)
        with pytest.raises(TraceError, match="record 1: conversations is not a list"):
            staged.require()


@pytest.mark.parametrize(
    "pack", [gzip.compress, lambda raw: pa.compress(raw, "zstd", asbytes=True)]
)
def test_packed_files_that_are_cut_or_packed_twice_say_so(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    packed = pack(f"{HEADER}\na,0,10,5\n".encode())
    for content, what in (
        (packed[:-7], "packed file ends early or is damaged"),
        (pack(packed), "packed twice"),
    ):
        (tmp_path / "t.csv.gz").write_bytes(content)
        with pytest.raises(TraceError, match=what), stage([tmp_path / "t.csv.gz"]):
            pass


def test_case_12_a_zip_named_csv(tmp_path: Path) -> None:
    zipped(tmp_path / "t.csv")
    with pytest.raises(TraceError, match="zip archive"):
        read_trace(tmp_path / "t.csv")


def test_the_report_lists_a_hundred_places_and_counts_all(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(HEADER + "\n" + "".join(f"a,{i},10,-1\n" for i in range(500)))
    _, report = checked(path)
    (finding,) = report.findings
    assert (finding.count, len(finding.places)) == (500, 100)
    assert report.rows_read == 500


def test_rows_that_are_dropped_while_reading_are_counted_as_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADER}\na,0,10,5\na,1,10,-5\nb,0,ten,5\nb,0,1,5\nb,0,1,5\nb,1")
    _, report = checked(path)
    assert report.rows_read == 6
    assert (report.turns, report.refused, report.unreadable) == (2, 2, 1)
    assert report.count("repaired") == 1


def test_no_space_for_temporary_files_is_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("carbonrouter_core.traces.staging.pq.ParquetWriter", full)
    (tmp_path / "t.csv").write_text(f"{HEADER}\na,0,10,5\n")
    with pytest.raises(TraceError, match="t.csv could not be checked: .*No space left.*TMPDIR"):
        stage([tmp_path / "t.csv"])
    assert list((tmp_path / "tmp").iterdir()) == []


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADER}\na,0,10,-5\n")
    with pytest.raises(TraceError):
        read_trace(path)
    path.write_text("what,is,this\n1,2,3\n")
    with pytest.raises(TraceError):
        read_trace(path)
    left = tmp_path / "temp" / "carbonrouter-import-999999999-x"  # of a process that was killed
    left.mkdir()
    path.write_text(f"{HEADER}\na,0,10,5\n")
    read_trace(path)
    assert list((tmp_path / "temp").iterdir()) == []
