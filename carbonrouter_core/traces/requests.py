"""Lines of one request made one turn, and records of one name made sessions of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carbonrouter_core.traces.rows import NUMBERS

TEXTS = ("served_model", "served_region", "user_region")

_LAST = ("served_model", "served_region", "difficulty", "history_tokens")


def starts(first_row: np.ndarray) -> np.ndarray:
    """Which rows begin a session."""
    begins = np.ones(len(first_row), bool)
    begins[1:] = first_row[1:] != first_row[:-1]
    return begins


def apart(table: pa.Table, part: np.ndarray, word: str) -> pa.Table:
    """The rows with ``part`` above 0 as sessions of their own, named by ``word`` and number.

    ``part``: shape (rows,), numbers from 0 in each session.
    """
    session = np.cumsum(starts(table["first_row"].to_numpy())) - 1
    key = session * (int(part.max()) + 1) + part
    order = np.argsort(key, kind="stable")
    suffix = [f"/{word}-{number + 1}" for number in range(int(part.max()) + 1)]
    ends = pa.array(["", *suffix[1:]]).take(pa.array(part))
    name = pc.binary_join_element_wise(table["session"], ends, "")
    table = table.set_column(table.schema.get_field_index("session"), "session", name)
    at = table.schema.get_field_index("first_row")
    return table.set_column(at, "first_row", pa.array(key)).take(pa.array(order))


def one_turn_a_request(table: pa.Table) -> tuple[pa.Table, np.ndarray, np.ndarray, np.ndarray]:
    """One row for all lines of a request, with the largest of their counts.

    Lines of a session with the same id and prompt are of one request: they are written while
    the answer comes, or one for each part of it. A prompt of 0 is that of the other lines.

    Returns
    -------
    tuple
        The table; then which rows of the old one repeat a line, belong to an earlier line, and
        differ from one with the same id and time, each of shape (rows,).
    """
    n = table.num_rows
    none = np.zeros(n, bool)
    ident = table["ident"]
    if ident.null_count == n:
        return table, none, none, none
    coded = pa.concat_arrays(ident.chunks).dictionary_encode()
    if len(coded.dictionary) == n - ident.null_count:
        return table, none, none, none
    session = np.cumsum(starts(table["first_row"].to_numpy()))
    given = ident.is_valid().to_numpy()
    key = session * (len(coded.dictionary) + 1) + coded.indices.fill_null(0).to_numpy()
    key[~given] = -1 - np.arange(n)[~given]
    order = np.lexsort((np.arange(n), key))
    same = np.zeros(n, bool)
    same[1:] = np.diff(key[order]) == 0
    if not same.any():
        return table, none, none, none
    whole = "input_tokens" if table["input_tokens"].null_count < n else "new_prompt_tokens"
    prompt = np.nan_to_num(floats(table, whole))[order]
    equal_prompt = np.zeros(n, bool)
    equal_prompt[1:] = (prompt[1:] == prompt[:-1]) | (prompt[:-1] == 0) | (prompt[1:] == 0)
    joined = same & equal_prompt
    time = floats(table, "order")[order]
    clash = same & ~joined
    clash[1:] &= time[1:] == time[:-1]
    heads = np.flatnonzero(~joined)
    lasts = np.r_[heads[1:], n] - 1
    equal = np.ones(n, bool)
    for name in (*NUMBERS, *TEXTS, "time_s"):
        equal &= repeats(table[name].take(pa.array(order)), nulls=True)
    for name in NUMBERS:
        if name in ("order", *_LAST):
            continue
        values = floats(table, name)
        values[order[heads]] = np.fmax.reduceat(values[order], heads)
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, pa.array(values, from_pandas=True))
    source = np.arange(n)
    source[order[heads]] = order[lasts]
    for name in _LAST:
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table[name].take(pa.array(source)))
    masks = np.zeros((3, n), bool)
    for mask, rows in zip(masks, (joined & equal, joined & ~equal, clash), strict=True):
        mask[order] = rows
    keep = ~(masks[0] | masks[1])
    return table.filter(pa.array(keep)), masks[0], masks[1], masks[2]


def records_apart(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Records of one name: which rows repeat an earlier record, and the record of each session.

    Returns
    -------
    tuple
        Whether a row is of a record that stands there twice, and the number of its record in
        the session, from 0; each of shape (rows,).
    """
    n = table.num_rows
    again, part = np.zeros(n, bool), np.zeros(n, np.int64)
    begins = np.flatnonzero(starts(table["first_row"].to_numpy()))
    ends = np.r_[begins[1:], n]
    line = table["line"].to_numpy() + (table["file"].to_numpy().astype(np.int64) << 40)
    doubled = np.minimum.reduceat(line, begins) != np.maximum.reduceat(line, begins)
    for begin, end in zip(begins[doubled], ends[doubled], strict=True):
        columns = table.slice(begin, end - begin).select([*NUMBERS, *TEXTS, "time_s"]).to_pydict()
        rows = list(zip(*columns.values(), strict=True))
        known: dict[tuple[Any, ...], int] = {}
        for record in dict.fromkeys(line[begin:end].tolist()):
            mine = begin + np.flatnonzero(line[begin:end] == record)
            content = tuple(rows[row - begin] for row in mine)
            again[mine] = content in known
            part[mine] = known.setdefault(content, len(known))
    return again, part


def repeats(column: Any, *, nulls: bool) -> np.ndarray:
    """Which rows equal the row before; ``nulls``: whether two nulls are equal."""
    array = column.combine_chunks()
    same = np.zeros(len(array), bool)
    if len(array) > 1:
        above, below = array.slice(0, len(array) - 1), array.slice(1)
        equal = pc.equal(above, below).fill_null(False)
        if nulls:
            equal = pc.or_(equal, pc.and_(above.is_null(), below.is_null()))
        same[1:] = equal.to_numpy(zero_copy_only=False)
    return same


def floats(table: pa.Table, name: str) -> np.ndarray:
    """A number column with NaN for null; the caller's own copy."""
    return np.array(table[name].to_pandas(), np.float64)
