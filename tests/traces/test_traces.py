"""Traces: the schema, the two that are built in, and files with our own columns."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from carbonrouter_core import (
    BUILTIN_TRACES,
    IntensityError,
    Scenario,
    TraceError,
    compare,
    find_trace,
)
from carbonrouter_core.traces.builtin import builtin_trace
from carbonrouter_core.traces.loading import read_trace
from carbonrouter_core.traces.schema import Trace
from tests.hand_made import T, make_trace

HEADER = "session,turn,new_prompt_tokens,output_tokens"


def rows(trace: Trace) -> list[tuple[str, int, int, int, int]]:
    """Session, turn, new prompt, output and history of each turn."""
    ids = [trace.session_ids[i] for i in trace.session_index]
    columns = (trace.turn, trace.new_prompt_tokens, trace.output_tokens, trace.history_tokens)
    return list(zip(ids, *(column.tolist() for column in columns), strict=True))


# --- The schema -------------------------------------------------------------------------------


def test_rows_know_their_session_and_turn() -> None:
    trace = make_trace({"a": [T(10, 5), T(20, 6)], "b": [T(7, 3)]})
    assert rows(trace) == [("a", 0, 10, 5, 0), ("a", 1, 20, 6, 15), ("b", 0, 7, 3, 0)]
    assert (trace.n_sessions, trace.n_turns) == (2, 3)
    assert trace.session_turns.tolist() == [2, 1]


def test_the_training_half_is_where_the_sha256_of_the_id_ends_even() -> None:
    ids = [f"session {i}" for i in range(200)]
    trace = make_trace({name: [T(1, 1)] for name in ids})
    expected = [hashlib.sha256(name.encode()).digest()[-1] % 2 == 0 for name in ids]
    assert trace.in_training.tolist() == expected
    # by hand: sha256sum of "1" ends in 875b4b, odd; of "4" in abf8a, even
    assert make_trace({"1": [T(1, 1)], "4": [T(1, 1)]}).in_training.tolist() == [False, True]


def test_a_session_key_hangs_on_the_id_alone() -> None:
    one = make_trace({"a": [T(1, 1)], "b": [T(2, 2)] * 3})
    other = make_trace({"b": [T(5, 5)], "c": [T(1, 1)], "a": [T(9, 9)]})
    assert one.session_keys[0] == other.session_keys[2]
    assert one.session_keys[1] == other.session_keys[0]
    assert len(set(other.session_keys.tolist())) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"session_ids": ("a", "c")},
        {"new_prompt_tokens": np.array([10, 20, 8])},
        {"output_tokens": np.array([5, 6, 4])},
        {"history_tokens": np.array([0, 14, 0])},
        {"start_s": np.array([0.0, 1.0, 0.0])},
        {"start_s": None},
        {"difficulty": np.array([0.0, 0.1, 0.0])},
        {"user_region": ("us-west2",) * 3},
        {"offsets": np.array([0, 1, 3])},
    ],
)
def test_the_fingerprint_hangs_on_every_figure_but_not_on_the_name(change: dict) -> None:
    sessions = {"a": [T(10, 5), T(20, 6)], "b": [T(7, 3)]}
    assert make_trace(sessions).sha256 == make_trace(sessions, name="other.csv").sha256
    assert make_trace(sessions).sha256 != make_trace(sessions, **change).sha256


# --- Built in ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sessions", "turns", "long"),
    [("sharegpt", 9_349, 59_837, 272), ("claude-code", 676, 44_082, 406)],
)
def test_built_in_traces_have_the_sizes_of_their_sources(
    name: str, sessions: int, turns: int, long: int
) -> None:
    trace = builtin_trace(name)
    assert (trace.n_sessions, trace.n_turns) == (sessions, turns)
    assert (trace.session_turns > 30).sum() == long
    assert len(set(trace.session_ids)) == sessions
    for column in (trace.new_prompt_tokens, trace.output_tokens, trace.history_tokens):
        assert column.dtype == np.int64
        assert (column >= 0).all()
    assert 0.45 < trace.in_training.mean() < 0.55


def test_chat_history_is_all_that_stood_before() -> None:
    trace = builtin_trace("sharegpt")
    both = trace.new_prompt_tokens + trace.output_tokens
    follows = trace.turn > 0
    assert (trace.history_tokens[~follows] == 0).all()
    before = np.flatnonzero(follows) - 1
    expected = trace.history_tokens[before] + both[before]
    assert (trace.history_tokens[follows] == expected).all()
    assert trace.t_s is None
    assert trace.difficulty is not None


def test_agents_bring_their_times_and_rewrite_their_context() -> None:
    trace = builtin_trace("claude-code")
    assert trace.t_s is not None
    assert (np.diff(trace.t_s)[trace.turn[1:] > 0] >= 0).all()
    both = trace.history_tokens + trace.new_prompt_tokens + trace.output_tokens
    shrank = (trace.history_tokens[1:] < both[:-1]) & (trace.turn[1:] > 0)
    assert shrank.any()
    assert trace.difficulty is None


def test_a_trace_is_found_by_name_or_path(tmp_path: Path) -> None:
    assert find_trace("sharegpt") is builtin_trace("sharegpt")
    path = tmp_path / "mine.csv"
    path.write_text(f"{HEADER}\na,0,10,5\n")
    assert find_trace(str(path)).name == "mine.csv"
    with pytest.raises(TraceError, match=r"Unknown trace 'sharegtp'.*built in \(sharegpt"):
        find_trace("sharegtp")
    with pytest.raises(TraceError, match=r"no trace file nowhere\.csv"):
        find_trace("nowhere.csv")
    assert set(BUILTIN_TRACES) == {"sharegpt", "claude-code"}


@pytest.mark.parametrize("name", ["", "x" * 300, "a\0.csv", "\ud800.csv", "..", "/"])
def test_a_name_that_can_be_no_file_is_refused(name: str) -> None:
    with pytest.raises(TraceError):
        find_trace(name)


# --- Files: read right ------------------------------------------------------------------------


@pytest.fixture
def read(tmp_path: Path):
    """Read a trace from CSV text (or bytes) or from a frame, as Parquet."""

    def read_from(content: str | bytes | pd.DataFrame) -> Trace:
        if isinstance(content, pd.DataFrame):
            path = tmp_path / "trace.parquet"
            content.to_parquet(path, index=False)
        else:
            path = tmp_path / "trace.csv"
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_trace(path)

    return read_from


def test_history_is_all_earlier_tokens_unless_it_is_given(read) -> None:
    assert rows(read(f"{HEADER}\na,0,10,5\na,1,20,6\nb,0,7,3\na,2,1,1\n")) == [
        ("a", 0, 10, 5, 0),
        ("a", 1, 20, 6, 15),
        ("a", 2, 1, 1, 41),
        ("b", 0, 7, 3, 0),
    ]
    given = read(f"{HEADER},history_tokens\na,0,10,5,0\na,1,20,6,12\n")
    assert given.history_tokens.tolist() == [0, 12]


def test_turns_may_stand_in_any_order(read) -> None:
    trace = read(f"{HEADER}\nb,2,3,1\na,1,20,6\nb,0,1,1\na,0,10,5\nb,1,2,1\n")
    assert rows(trace) == [
        ("b", 0, 1, 1, 0),
        ("b", 1, 2, 1, 2),
        ("b", 2, 3, 1, 5),
        ("a", 0, 10, 5, 0),
        ("a", 1, 20, 6, 15),
    ]


def test_a_row_that_stands_twice_counts_once(read) -> None:
    once = rows(read(f"{HEADER}\na,0,10,5\na,1,20,6\n"))
    assert rows(read(f"{HEADER}\na,0,10,5\na,1,20,6\na,0,10,5\n")) == once
    assert rows(read(f"{HEADER}\na,0,10,5\na,1,20,6\na,0,10.0,5\n")) == once  # the same number


def test_csv_and_parquet_read_the_same(read) -> None:
    text = (
        f"{HEADER},start_s,user_region,difficulty\n"
        "a,0,10,5,0.5,us-west2,-0.25\n"
        "7,0,1,1,9,us-west2,1\n"
    )
    frame = pd.DataFrame(
        {
            "session": ["a", "7"],
            "turn": [0, 0],
            "new_prompt_tokens": [10, 1],
            "output_tokens": [5, 1],
            "start_s": [0.5, 9.0],
            "user_region": ["us-west2"] * 2,
            "difficulty": [-0.25, 1.0],
        }
    )
    from_csv, from_parquet = read(text), read(frame)
    assert from_csv.sha256 == from_parquet.sha256
    assert from_csv.start_s.tolist() == [0.5, 9.0]
    assert from_csv.user_region == ("us-west2", "us-west2")
    assert from_csv.difficulty.tolist() == [-0.25, 1.0]


def test_session_ids_are_text(read) -> None:
    numbers = pd.DataFrame(
        {"session": [1, 2], "turn": [0, 0], "new_prompt_tokens": [1, 1], "output_tokens": [1, 1]}
    )
    assert read(numbers).session_ids == ("1", "2")
    # NA, null and leading zeros are ids like any other
    ids = read(f"{HEADER}\nNA,0,1,1\nnull,0,1,1\n007,0,1,1\n7,0,1,1\n").session_ids
    assert ids == ("NA", "null", "007", "7")


def test_a_byte_order_mark_and_quotes_are_read_through(read) -> None:
    assert rows(read(f'\ufeff{HEADER}\n"a, b",0,"10",5\n')) == [("a, b", 0, 10, 5, 0)]


def test_a_session_of_more_history_than_any_model_holds_is_read(read) -> None:
    # BAD_INPUTS 8: 200 turns of 2,000 tokens; what no model holds is unserved, not refused
    text = "\n".join([HEADER, *(f"a,{turn},1990,10" for turn in range(200))])
    assert read(text).history_tokens[-1] == 199 * 2000


def test_all_outputs_0_and_single_turns_give_plain_figures(tmp_path: Path) -> None:
    for text in ("a,0,10,0\na,1,0,0\n", "a,0,0,0\n", "a,0,10,5\n"):
        path = tmp_path / "trace.csv"
        path.write_text(f"{HEADER}\n{text}")
        comparison = compare(Scenario(trace=str(path)))
        for value in comparison.figures("carbonrouter-lookahead").values():
            assert value is None or np.isfinite(value)


# --- Files: refused ---------------------------------------------------------------------------

LINE_3 = r"trace\.csv, line 3: "
WHOLE = "must be a whole number from 0 to"


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("a,1,10,-5", LINE_3 + f"output_tokens {WHOLE}"),
        ("a,1,-10,5", LINE_3 + f"new_prompt_tokens {WHOLE}"),
        ("a,1,1e12,5", LINE_3 + f"new_prompt_tokens {WHOLE}"),
        ("a,1,1e300,5", LINE_3 + f"new_prompt_tokens {WHOLE}"),
        ("a,1,10.5,5", LINE_3 + f"new_prompt_tokens {WHOLE}"),
        ("a,1,ten,5", LINE_3 + "new_prompt_tokens is not a number"),
        ("a,1,,5", LINE_3 + "new_prompt_tokens is not a number"),
        ("a,1,NaN,5", LINE_3 + "new_prompt_tokens is not a number"),
        ("a,1,inf,5", LINE_3 + "new_prompt_tokens is not a number"),
        ("a,1,True,5", LINE_3 + "new_prompt_tokens is not a number"),
        ("a,1,0x10,5", LINE_3 + "new_prompt_tokens is not a number"),
        ('a,1,"1,234",5', LINE_3 + "new_prompt_tokens is not a number"),
        ("a,1,1\x000,5", r"trace\.csv: line 3 holds NUL bytes"),
        ("a,-1,10,5", LINE_3 + f"turn {WHOLE}"),
        ("a,0.5,10,5", LINE_3 + f"turn {WHOLE}"),
        ("a,second,10,5", LINE_3 + "turn is not a number"),
        (",1,10,5", LINE_3 + "session is empty"),
        ("a,0,10,6", LINE_3 + "this turn stands there twice with different values"),
        ("a,1,10", LINE_3 + "output_tokens is missing"),
        ("a,1,10,5,9", LINE_3 + "this has 5 cells where the header has 4"),
    ],
)
def test_a_row_that_cannot_be_is_refused_with_its_line(read, row: str, what: str) -> None:
    with pytest.raises(TraceError, match=what):
        read(f"{HEADER}\na,0,10,5\n{row}\n")


def test_a_line_number_counts_the_lines_of_the_file(read) -> None:
    with pytest.raises(TraceError, match="line 4: output_tokens"):
        read(f"{HEADER}\na,0,10,5\n\na,1,10,-5\n")  # a blank line before it
    with pytest.raises(TraceError, match="line 5: output_tokens"):
        read(f'{HEADER}\n"a\nb",0,10,5\n\nc,0,10,-5\n')  # and one within quotes


def test_more_cells_than_columns_are_refused_and_shift_nothing(read) -> None:
    # Every cell would be a number in the column to its left too: a,0,10,5 -> 0,10,5,7.
    with pytest.raises(TraceError, match=r"trace\.csv"):
        read(f"{HEADER}\na,0,10,5,7\na,1,10,5,7\n")


def test_how_many_more_rows_are_wrong_is_said(read) -> None:
    with pytest.raises(TraceError, match=r"line 2: .* \(and 2 more rows\)\. Nothing was read"):
        read(f"{HEADER}\na,0,10,-1\na,1,10,-1\na,2,10,5\na,3,10,-1\n")


@pytest.mark.parametrize(
    ("columns", "values", "what"),
    [
        (",history_tokens", ["0", "-1"], f"line 3: history_tokens {WHOLE}"),
        (",start_s", ["0", "-1"], "line 3: start_s is negative"),
        (",start_s", ["10", "5"], "line 3: start_s is earlier than the turn before it"),
        (",t_s", ["10", "5"], "line 3: t_s is earlier than the turn before it"),
        (",t_s", ["0", "2024-05-13"], "line 3: t_s is not a number"),
        (",t_s,start_s", ["0,0", "1,1"], "give start_s .* or t_s .*, not both"),
        (",difficulty", ["0", "hard"], "line 3: difficulty is not a number"),
        (",tokens", ["1", "1"], "unknown column 'tokens'"),
        (",turn", ["1", "1"], "unknown column"),
    ],
)
def test_a_column_that_cannot_be_is_refused(read, columns: str, values: list, what: str) -> None:
    first, second = values
    with pytest.raises(TraceError, match=what):
        read(f"{HEADER}{columns}\na,0,10,5,{first}\na,1,10,5,{second}\n")


def test_a_missing_column_is_refused_naming_what_is_needed(read) -> None:
    with pytest.raises(TraceError, match="'output_tokens' is missing. Needed: session, turn"):
        read("session,turn,new_prompt_tokens\na,0,10\n")
    with pytest.raises(TraceError, match="'session' is missing"):
        read(HEADER.replace("session", "user") + "\na,0,10,5\n")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        HEADER.encode(),
        HEADER.encode() + b"\n",
        HEADER.encode() + b"\n\xff\xfe,0,10,5\n",
        (HEADER + "\na,0,10,5\n").encode("utf-16"),
        HEADER.encode() + b"\na\x00b,0,10,5\n",
        HEADER.encode() + b'\n"a,0,10,5\n',
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20,
        bytes(5000),
        b'{"session": "a", "turn": 0}\n{"session": "a", "tu',
    ],
    ids=[
        "empty",
        "blank",
        "header",
        "header line",
        "not UTF-8",
        "UTF-16",
        "NUL",
        "open quote",
        "image",
        "zeros",
        "JSON Lines",
    ],
)
def test_what_is_no_table_of_turns_is_refused(read, content: bytes) -> None:
    with pytest.raises(TraceError, match=r"trace\.csv"):
        read(content)


def test_a_zip_named_csv_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trace.csv", f"{HEADER}\na,0,10,5\n")
    with pytest.raises(TraceError, match=r"trace\.csv cannot be read"):
        read_trace(path)


def test_a_line_of_40_mb_is_refused(read) -> None:
    with pytest.raises(TraceError, match=r"trace\.csv"):
        read(HEADER + "\n" + "a" * 40_000_000 + ",0,10,5\n")


@pytest.mark.parametrize(
    ("column", "values", "what"),
    [
        ("output_tokens", [5, -6], "row 2: output_tokens must be"),
        ("output_tokens", [5, 10**12], "row 2: output_tokens must be"),
        ("output_tokens", [5.0, np.nan], "row 2: output_tokens is not a number"),
        ("output_tokens", ["5", "six"], "row 2: output_tokens is not a number"),
        ("output_tokens", [[5], [6]], "output_tokens is not a number"),
        ("turn", [0, 0], "row 2: this turn stands there twice"),
        ("session", ["a", None], "row 2: session is empty"),
        ("start_s", pd.to_datetime(["2024-05-13", "2024-05-14"]), "start_s is not a number"),
    ],
)
def test_a_parquet_file_is_checked_like_a_csv(read, column: str, values: list, what: str) -> None:
    good = pd.DataFrame(
        {
            "session": ["a", "a"],
            "turn": [0, 1],
            "new_prompt_tokens": [10, 20],
            "output_tokens": [5, 6],
        }
    )
    assert read(good).n_turns == 2
    with pytest.raises(TraceError, match=what):
        read(good.assign(**{column: values}))


def test_a_parquet_file_that_ends_early_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and then no more")
    with pytest.raises(TraceError, match=r"broken\.parquet cannot be read as a Parquet table"):
        read_trace(broken)


def test_epoch_seconds_are_refused_naming_both_ranges(tmp_path: Path) -> None:
    # BAD_INPUTS 4: start_s counts from the window's start, not from 1970.
    for seconds in (1_715_558_400, 1_715_558_400_000):
        path = tmp_path / "trace.csv"
        path.write_text(f"{HEADER},start_s\na,0,10,5,{seconds}\n")
        with pytest.raises(IntensityError, match="2021-01-01T00:00Z to 2025-01-01T00:00Z"):
            compare(Scenario(trace=str(path)))


def test_a_user_region_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"{HEADER},user_region\na,0,10,5,us-west99\n")
    with pytest.raises(TraceError, match="Unknown region 'us-west99'. Nearest known: us-"):
        compare(Scenario(trace=str(path)))
