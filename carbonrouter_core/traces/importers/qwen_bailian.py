"""Qwen-Bailian traces: requests with the whole prompt's length and a link to their parent.

https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon. The input is cumulative: it holds
all of the conversation so far. Where two requests have the same parent, the first goes on with
the session; the other branches off, as a session of its own that begins with the shared path
as history.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carbonrouter_core.reading.columns import Wanted
from carbonrouter_core.reading.files import Source
from carbonrouter_core.traces.importers.base import (
    DIFFERING_TURN,
    SAME_TURN,
    Importer,
    Reading,
    always,
    lacks,
)

_NONE = -1
_ROOTS = ("-1", "", "None")
"""Parents of requests that begin a conversation."""


def _recognise(source: Source) -> str | None:
    if lacks(source, "chat_id", "parent_chat_id", "input_length", "output_length"):
        return None
    return "its records carry chat_id, parent_chat_id and input_length"


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    wanted = (
        Wanted("chat", ("chat_id",), "text"),
        Wanted("parent", ("parent_chat_id",), "text"),
        Wanted("time_s", ("timestamp",)),
        Wanted("input_tokens", ("input_length",)),
        Wanted("output_tokens", ("output_length",)),
    )
    # ids stay as Arrow keeps them: as objects, those of millions of requests would fill memory
    parts = list(reading.columns(source, wanted))
    table = pa.concat_tables(parts).combine_chunks() if parts else None
    del parts
    if table is None or not table.num_rows:
        return
    chat, parent = _links(source, reading, table)
    keep = _sound(source, reading, table, chat, parent)
    n = table.num_rows
    time_s = _floats(table, "time_s")
    session, history = _paths(table, parent, keep, time_s)
    branches = keep & ~np.isnan(history)
    reason = "the request branches off an earlier one: a session that begins with the shared path"
    reading.findings.add_lines("note", reason, source, table["line"].to_numpy()[branches])
    for first in range(0, n, 65_536):
        rows = np.flatnonzero(keep[first : first + 65_536]) + first
        yield pa.table(
            {
                "line": table["line"].take(pa.array(rows)),
                "session": table["chat"].take(pa.array(session[rows])),
                "order": pa.array(time_s[rows], from_pandas=True),
                "time_s": pa.array(time_s[rows], from_pandas=True),
                "input_tokens": table["input_tokens"].take(pa.array(rows)),
                "output_tokens": table["output_tokens"].take(pa.array(rows)),
                "history_tokens": pa.array(history[rows], from_pandas=True),
            }
        )


def _links(source: Source, reading: Reading, table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Code of each row's chat id, and the row of its parent (-1: none; -2: duplicate row)."""
    lines = table["line"].to_numpy()
    coded = table["chat"].fill_null("").combine_chunks().dictionary_encode()
    codes, names = coded.indices.to_numpy(), coded.dictionary
    row_of = np.full(len(names), _NONE)
    row_of[codes[::-1]] = np.arange(len(codes))[::-1]  # the first row of each id
    again = row_of[codes] != np.arange(len(codes))
    if again.any():
        rows = np.flatnonzero(again)
        figures = table.select(["parent", "time_s", "input_tokens", "output_tokens"])
        first = figures.take(pa.array(row_of[codes[rows]])).to_pandas().to_numpy()
        equal = (figures.take(pa.array(rows)).to_pandas().to_numpy() == first).all(1)
        reading.findings.add_lines("repaired", SAME_TURN, source, lines[rows[equal]])
        reading.findings.add_lines("refused", DIFFERING_TURN, source, lines[rows[~equal]])
    wanted = table["parent"].fill_null("")
    at = pc.index_in(wanted, value_set=names).fill_null(_NONE).to_numpy()
    parent = np.where(at >= 0, row_of[np.maximum(at, 0)], _NONE)
    root = pc.is_in(wanted, value_set=pa.array(_ROOTS)).to_numpy(zero_copy_only=False)
    lost = (at < 0) & ~root & ~again
    reason = "its parent is not in the file: a new session"
    reading.findings.add_lines("repaired", reason, source, lines[lost])
    parent[again] = -2
    return codes, parent


def _sound(
    source: Source, reading: Reading, table: pa.Table, chat: np.ndarray, parent: np.ndarray
) -> np.ndarray:
    """Which rows may be used: none in a circle of parents, or before its own parent."""
    lines = table["line"].to_numpy()
    n = len(parent)
    ahead = np.where(parent >= 0, parent, np.arange(n))
    for _ in range(max(1, n).bit_length() + 1):
        ahead = ahead[ahead]  # twice as far up each time: only a circle never reaches a root
    circle = parent[ahead] >= 0
    time_s = _floats(table, "time_s")
    has = parent >= 0
    early = np.zeros(n, bool)
    early[has] = time_s[parent[has]] > time_s[has]
    for wrong, reason in (
        (circle, "its parents lead back to itself, in a circle"),
        (early & ~circle, "its parent is later than the request itself"),
    ):
        reading.findings.add_lines("refused", reason, source, lines[wrong])
    keep: np.ndarray = ~circle & (parent != -2)
    return keep


def _paths(
    table: pa.Table, parent: np.ndarray, keep: np.ndarray, time_s: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The row that begins each row's session, and history where a branch begins (else NaN)."""
    n = len(parent)
    order = np.lexsort((np.arange(n), time_s))
    rows = order[(parent[order] >= 0) & keep[order]]
    _, first = np.unique(parent[rows], return_index=True)
    goes_on = np.zeros(n, bool)
    goes_on[rows[first]] = True  # the earliest child of each parent
    begin = np.where(goes_on, parent, np.arange(n))
    for _ in range(max(1, n).bit_length() + 1):
        begin = begin[begin]
    whole = _floats(table, "input_tokens")
    output = _floats(table, "output_tokens")
    branch = keep & (parent >= 0) & ~goes_on
    history = np.full(n, np.nan)
    history[branch] = (whole + output)[parent[branch]]
    return begin, history


def _floats(table: pa.Table, name: str) -> np.ndarray:
    return np.asarray(table[name].to_pandas(), np.float64)


IMPORTER = Importer(
    id="qwen-bailian",
    label="Qwen-Bailian",
    sessions="a session is a path of parent links; inputs are cumulative; times count from the "
    "trace's start and are kept within each session",
    recognise=_recognise,
    read=_read,
    times=always("clock"),
)
