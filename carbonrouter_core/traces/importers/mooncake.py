"""Mooncake traces: requests with hashes of their 512-token prompt blocks, without sessions.

https://github.com/kvcache-ai/Mooncake. A request continues the latest earlier one whose full
prompt blocks all lead its own prompt; at least two, since one block (the system prompt) is
shared by strangers. The rule gives the parents of ``mooncake_conversation_sessions.parquet``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from carbonrouter_core.traces.columns import parse_lines
from carbonrouter_core.traces.importers.base import Importer, Reading, always, lacks
from carbonrouter_core.traces.importers.batches import Batches
from carbonrouter_core.traces.sources import Source, record_chunks, values_of
from carbonrouter_core.units import MS_PER_S

BLOCK_TOKENS = 512
"""Tokens of one hashed block."""
LEAST_BLOCKS = 2
"""Full blocks two requests must share to be of one session."""


def _recognise(source: Source) -> str | None:
    if lacks(source, "timestamp", "input_length", "output_length", "hash_ids"):
        return None
    if "session_id" in source.columns or "chat_id" in source.columns:
        return None
    return "its records carry hash_ids of prompt blocks and no session"


_SCHEMA = pa.schema(
    [
        ("timestamp", pa.float64()),
        ("input_length", pa.float64()),
        ("output_length", pa.float64()),
        ("hash_ids", pa.list_(pa.int64())),
    ]
)


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    rows = Batches(source, reading)  # for what is refused
    heads = _Heads()
    for first, chunk in record_chunks(source, rows.broken, reading.progress):
        table = parse_lines(chunk, _SCHEMA)
        if table is None or any(table[name].null_count for name in _SCHEMA.names):
            lines, table = _one_by_one(rows, reading, values_of(first, chunk, rows.broken))
        else:
            lines = np.arange(first, first + table.num_rows)
            reading.findings.rows_read += table.num_rows
        time_ms, whole, output = (_floats(table, name) for name in _SCHEMA.names[:3])
        blocks = pa.concat_arrays(table["hash_ids"].chunks) if table.num_rows else None
        if blocks is None:
            continue
        offsets = np.r_[0, np.cumsum(pc.list_value_length(blocks).to_numpy())]
        begins, history, branches = heads.follow(
            np.asarray(blocks.flatten()), offsets, lines, whole, output
        )
        reason = "the request branches off an earlier one: a session of its own"
        for line in lines[branches]:
            rows.note(int(line), reason)
        session = np.char.add(f"request-{source.number}-", begins.astype(str))
        yield pa.table(
            {
                "line": lines,
                "session": session,
                "order": time_ms / MS_PER_S,
                "time_s": time_ms / MS_PER_S,
                "input_tokens": whole,
                "history_tokens": history,
                "output_tokens": output,
            }
        )


def _one_by_one(
    rows: Batches, reading: Reading, records: Iterator[tuple[int, dict[str, Any]]]
) -> tuple[np.ndarray, pa.Table]:
    """Lines and columns of records of any types; those that are wrong are refused."""
    lines: list[int] = []
    columns: list[list[Any]] = [[], [], [], []]
    for line, record in records:
        reading.findings.rows_read += 1
        values: list[Any] = [rows.number(line, f, record.get(f)) for f in _SCHEMA.names[:3]]
        ids = record.get("hash_ids")
        if None in values:
            continue
        if not isinstance(ids, list):
            rows.refuse(line, "hash_ids is not a list")
            continue
        lines.append(line)
        for column, value in zip(
            columns, [*values, [_number(block) for block in ids]], strict=True
        ):
            column.append(value)
    return np.array(lines, np.int64), pa.table(columns, schema=_SCHEMA)


def _number(block: Any) -> int:
    if isinstance(block, int) and abs(block) < 2**63:
        return block
    return int.from_bytes(hashlib.blake2b(str(block).encode(), digest_size=8).digest(), "big") >> 1


def _floats(table: pa.Table, name: str) -> np.ndarray:
    return np.asarray(table[name].to_pandas(), np.float64)


class _Heads:
    """The requests so far, found by a hash of their full prompt blocks."""

    def __init__(self) -> None:
        self._rows = 0
        self._begin = np.empty(1024, np.int64)  # of each request: the line its session began at,
        self._context = np.empty(1024)  # its tokens, and whether another one goes on from it
        self._continued = np.zeros(1024, np.bool_)
        self._keys = np.zeros(4096, np.uint64)  # an open hash table, at most half full
        self._row = np.full(4096, -1, np.int64)

    def follow(
        self,
        blocks: np.ndarray,
        offsets: np.ndarray,
        lines: np.ndarray,
        whole: np.ndarray,
        output: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Line at which each request's session began, its history, and which branch off.

        The blocks of request i are ``blocks[offsets[i]:offsets[i + 1]]``.
        """
        total = self._rows + len(lines)
        while total > len(self._begin):
            self._begin = np.r_[self._begin, np.empty_like(self._begin)]
            self._context = np.r_[self._context, np.empty_like(self._context)]
            self._continued = np.r_[self._continued, np.zeros_like(self._continued)]
        if 2 * total > len(self._keys):
            keys, row = self._keys, self._row
            size = 2 ** int(4 * total - 1).bit_length()
            self._keys, self._row = np.zeros(size, np.uint64), np.full(size, -1, np.int64)
            _put_again(keys, row, self._keys, self._row)
        begins, history = np.empty(len(lines), np.int64), np.zeros(len(lines))
        branches = np.zeros(len(lines), np.bool_)
        _follow(
            blocks, offsets, lines, whole, output, self._rows,
            self._begin, self._context, self._continued, self._keys, self._row,
            begins, history, branches,
        )  # fmt: skip
        self._rows = total
        return begins, history, branches


_START, _FACTOR = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9
"""An odd start and factor that spread 64 bits (splitmix64, Steele et al. 2014)."""


@njit(cache=True, nogil=True)
def _follow(
    blocks: np.ndarray,
    offsets: np.ndarray,
    lines: np.ndarray,
    whole: np.ndarray,
    output: np.ndarray,
    row: int,
    begin: np.ndarray,
    context: np.ndarray,
    continued: np.ndarray,
    keys: np.ndarray,
    row_of: np.ndarray,
    begins: np.ndarray,
    history: np.ndarray,
    branches: np.ndarray,
) -> None:
    for i in range(lines.size):
        first, n = offsets[i], offsets[i + 1] - offsets[i]
        full = 0
        if whole[i] >= 0:
            full = min(n, int(min(whole[i], 1e12) // BLOCK_TOKENS))
        parent = -1
        head = np.uint64(0)
        chain = np.uint64(_START)
        for j in range(n):
            chain = _chained(chain, blocks[first + j])
            if j + 1 == full:
                head = chain
            if j + 1 >= LEAST_BLOCKS:
                found = row_of[_place(keys, row_of, chain)]
                if found >= 0:
                    parent = found  # the longest one counts
        begins[i] = lines[i]
        if parent >= 0:
            history[i] = min(context[parent], whole[i])
            if continued[parent]:
                branches[i] = True
            else:
                begins[i] = begin[parent]
            continued[parent] = True
        begin[row + i], context[row + i] = begins[i], whole[i] + output[i]
        if full >= LEAST_BLOCKS:
            place = _place(keys, row_of, head)
            keys[place], row_of[place] = head, row + i


@njit(cache=True, nogil=True)
def _chained(chain: np.uint64, block: int) -> np.uint64:
    """A hash of the blocks so far and one more."""
    chain = (chain ^ np.uint64(block)) * np.uint64(_FACTOR)
    return chain ^ (chain >> np.uint64(29))


@njit(cache=True, nogil=True)
def _place(keys: np.ndarray, row_of: np.ndarray, key: np.uint64) -> np.uint64:
    """Where a key stands in the table, or would."""
    mask = np.uint64(keys.size - 1)
    place = (key ^ (key >> np.uint64(32))) & mask
    while row_of[place] >= 0 and keys[place] != key:
        place = (place + np.uint64(1)) & mask
    return place


@njit(cache=True, nogil=True)
def _put_again(
    keys: np.ndarray, row_of: np.ndarray, new_keys: np.ndarray, new_row_of: np.ndarray
) -> None:
    for i in range(keys.size):
        if row_of[i] >= 0:
            place = _place(new_keys, new_row_of, keys[i])
            new_keys[place], new_row_of[place] = keys[i], row_of[i]


IMPORTER = Importer(
    id="mooncake",
    label="Mooncake",
    sessions="sessions are inferred: a request continues the latest one whose full 512-token "
    "prompt blocks (two or more) all lead its own; times are kept within each session",
    recognise=_recognise,
    read=_read,
    times=always("clock"),
)
