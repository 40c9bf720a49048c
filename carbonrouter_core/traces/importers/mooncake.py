"""Mooncake traces: requests with hashes of their 512-token prompt blocks, without sessions.

https://github.com/kvcache-ai/Mooncake. A request continues the latest earlier one whose full
prompt blocks all lead its own prompt; at least two, since one block (the system prompt) is
shared by strangers. The rule gives the parents of ``mooncake_conversation_sessions.parquet``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from carbonrouter_core.reading.ahead import chunks_ahead
from carbonrouter_core.reading.files import Source, values_of
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.reading.int_lists import LIST, parse_with_lists
from carbonrouter_core.traces.importers.base import Importer, Reading, always, lacks
from carbonrouter_core.traces.importers.batches import Batches
from carbonrouter_core.traces.importers.blocks import block_number
from carbonrouter_core.units import MS_PER_S

BLOCK_TOKENS = 512
"""Tokens of one hashed block in the Mooncake traces."""
MOST_TOKENS = 1e12
"""Longer inputs say nothing of the blocks."""
OTHER_BLOCK_TOKENS = (16, 32, 64, 128, 256, 1024, 2048)
"""Sizes of blocks that other servers hash; vLLM's is 16."""
LEAST_BLOCKS = 2
"""Full blocks two requests must share to be of one session."""


def _recognise(source: Source) -> str | None:
    if lacks(source, "timestamp", "input_length", "output_length", "hash_ids"):
        return None
    if "session_id" in source.columns or "chat_id" in source.columns:
        return None
    return "its records carry hash_ids of prompt blocks and no session"


_NUMBERS = ("timestamp", "input_length", "output_length")
_SCHEMA = pa.schema([*((name, pa.float64()) for name in _NUMBERS), ("hash_ids", LIST)])


class _Requests(NamedTuple):
    """Requests of a chunk: line, time [ms], tokens, and where the blocks of each begin and end."""

    line: np.ndarray
    time_ms: np.ndarray
    whole: np.ndarray
    output: np.ndarray
    blocks: np.ndarray
    begin: np.ndarray
    end: np.ndarray


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    block = _block_tokens(source)
    if block != BLOCK_TOKENS:
        reading.findings.guess(f"hash_ids are of blocks of {block} tokens, by the input lengths")

    def requests(chunk: tuple[int, bytes], own: Findings) -> _Requests:
        fast = _whole_chunk(*chunk)
        if fast is None:
            return _that_match(source, own, _one_by_one(source, own, *chunk), block)
        own.rows_read += len(fast.line)
        return _that_match(source, own, fast, block)

    reading.time_unit_s = 1 / MS_PER_S
    heads = _Heads(block)
    for some in chunks_ahead(source, reading.findings, reading.progress, requests):
        begins, history, branches = heads.follow(some)
        reason = "the request branches off an earlier one: a session of its own"
        reading.findings.add_lines("note", reason, source, some.line[branches])
        session = np.char.add(f"request-{source.number}-", begins.astype(str))
        yield pa.table(
            {
                "line": some.line,
                "session": session,
                "order": some.time_ms / MS_PER_S,
                "time_s": some.time_ms / MS_PER_S,
                "input_tokens": some.whole,
                "history_tokens": history,
                "output_tokens": some.output,
            }
        )


def _block_tokens(source: Source) -> int:
    """The size of blocks that fits most of the first records."""
    lengths = [
        (record.get("input_length"), len(record["hash_ids"]))
        for record in source.samples
        if isinstance(record.get("hash_ids"), list)
    ]
    known = [
        (n, count)
        for n, count in lengths
        if isinstance(n, int | float) and 0 <= n < MOST_TOKENS and count > 0
    ]
    whole, count = np.array(known, np.float64).reshape(-1, 2).T
    return max(
        (BLOCK_TOKENS, *OTHER_BLOCK_TOKENS),
        key=lambda block: int(_matches(whole, count, block).sum()),
    )


def _matches(whole: np.ndarray, count: np.ndarray, block: int) -> np.ndarray:
    """Whether prompts have as many blocks as their lengths say; none at all is no contradiction."""
    blocks = whole / block
    return (count == 0) | ((count >= np.floor(blocks)) & (count <= np.ceil(blocks)))


def _that_match(source: Source, own: Findings, some: _Requests, block: int) -> _Requests:
    """The requests whose blocks can be those of a prompt of their length; others are refused."""
    good = _matches(some.whole, some.end - some.begin, block)
    if good.all():
        return some
    reason = f"hash_ids do not match input_length: not as many as it has blocks of {block} tokens"
    own.add_lines("refused", reason, source, some.line[~good])
    line, time_ms, whole, output, blocks, begin, end = some
    return _Requests(
        line[good], time_ms[good], whole[good], output[good], blocks, begin[good], end[good]
    )


def _whole_chunk(first: int, chunk: bytes) -> _Requests | None:
    """The requests of a chunk in which nothing is out of the ordinary."""
    parsed = parse_with_lists(chunk, _SCHEMA)
    if parsed is None:
        return None
    table, lists = parsed
    spans = lists.of(table["hash_ids"])
    if spans is None or any(table[name].null_count for name in _SCHEMA.names):
        return None
    lines = np.arange(first, first + table.num_rows)
    time_ms, whole, output = (table[name].to_numpy() for name in _NUMBERS)
    return _Requests(lines, time_ms, whole, output, lists.numbers, *spans)


def _one_by_one(source: Source, own: Findings, first: int, chunk: bytes) -> _Requests:
    """The same, of records of any types; those that are wrong are refused."""
    rows = Batches(source, own)
    lines: list[int] = []
    numbers: list[list[Any]] = []
    blocks: list[int] = []
    offsets = [0]
    for line, record in values_of(first, chunk, rows.broken):
        own.rows_read += 1
        values = [rows.number(line, name, record.get(name)) for name in _NUMBERS]
        ids = record.get("hash_ids")
        if None in values:
            continue
        if not isinstance(ids, list):
            rows.refuse(line, "hash_ids is not a list")
            continue
        lines.append(line)
        numbers.append(values)
        blocks += map(block_number, ids)
        offsets.append(len(blocks))
    time_ms, whole, output = np.array(numbers, np.float64).reshape(-1, 3).T.copy()
    begin, end = np.array([offsets[:-1], offsets[1:]], np.int64)
    ids_of_all = np.array(blocks, np.int64)
    return _Requests(np.array(lines, np.int64), time_ms, whole, output, ids_of_all, begin, end)


class _Heads:
    """The requests so far, found by a hash of their full prompt blocks."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._rows = 0
        self._begin = np.empty(1024, np.int64)  # of each request: the line its session began at,
        self._context = np.empty(1024)  # its tokens, and whether another one goes on from it
        self._continued = np.zeros(1024, np.bool_)
        self._keys = np.zeros(4096, np.uint64)  # an open hash table, at most half full
        self._row = np.full(4096, -1, np.int64)

    def follow(self, some: _Requests) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Line at which each request's session began, its history, and which branch off."""
        lines = some.line
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
            some.blocks, some.begin, some.end, lines, some.whole, some.output, self._rows,
            self._begin, self._context, self._continued, self._keys, self._row,
            begins, history, branches, self._block_tokens,
        )  # fmt: skip
        self._rows = total
        return begins, history, branches


_START, _FACTOR = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9
"""An odd start and factor that spread 64 bits (splitmix64, Steele et al. 2014)."""


@njit(cache=True, nogil=True)
def _follow(
    blocks: np.ndarray,
    first_block: np.ndarray,
    end_block: np.ndarray,
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
    block_tokens: int,
) -> None:
    for i in range(lines.size):
        first, n = first_block[i], end_block[i] - first_block[i]
        full = 0
        if whole[i] >= 0:
            full = min(n, int(min(whole[i], 1e12) // block_tokens))
        parent = -1
        head = np.uint64(0)
        chain = np.uint64(_START)
        for j in range(n):
            chain = _chained(chain, blocks[first + j])
            if j + 1 == full:
                head = chain
            if j + 1 >= LEAST_BLOCKS:
                known = row_of[_place(keys, row_of, chain)]
                if known >= 0:
                    parent = known  # the longest one counts
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
    sessions="sessions are inferred: a request continues the latest one whose full "
    "prompt blocks (two or more) all lead its own; times are kept within each session",
    recognise=_recognise,
    read=_read,
    times=always("clock"),
)
