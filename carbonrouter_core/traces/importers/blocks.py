"""Hashes of the blocks of a prompt: what two prompts have in common is what leads both."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

Array = np.ndarray


def block_number(block: Any) -> int:
    """A number for the hash of a block, whatever it is written as; equal ones have the same."""
    if isinstance(block, float) and block.is_integer():
        block = int(block)
    if isinstance(block, int) and abs(block) < 2**63:
        return block
    digest = hashlib.blake2b(repr(block).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def joined_lists(numbers: Array, begins: Array, ends: Array) -> tuple[Array, Array]:
    """The lists of each row one after the other, and where each row's begin and end.

    ``begins``, ``ends``: shape (rows, lists of a row), places among ``numbers``.
    """
    offsets = np.r_[0, np.cumsum((ends - begins).sum(axis=1))]
    joined = np.empty(offsets[-1], np.int64)
    _join(numbers, begins.ravel(), ends.ravel(), joined)
    return joined, offsets


@njit(cache=True, nogil=True)
def shared_with_row_before(numbers: Array, begins: Array, ends: Array, session: Array) -> Array:
    """How many leading numbers of each row's list lead that of the row before as well.

    0 where the row before is of another ``session``.
    """
    shared = np.zeros(begins.size, np.int64)
    for i in range(1, begins.size):
        if session[i] == session[i - 1]:
            before = numbers[begins[i - 1] : ends[i - 1]]
            shared[i] = _shared(numbers[begins[i] : ends[i]], before)
    return shared


class Latest:
    """The latest list of each session, to be compared with the next one."""

    def __init__(self) -> None:
        self._code: dict[str, int] = {}
        self._begin, self._end = np.zeros((2, 1024), np.int64)
        self._numbers = np.empty(4096, np.int64)
        self._used = 0

    def shared(self, sessions: Any, numbers: Array, offsets: Array) -> Array:
        """How many leading numbers of each row lead the latest list of its session as well.

        ``sessions``: their names, a row each; row i is ``numbers[offsets[i]:offsets[i + 1]]``.
        """
        coded = pa.concat_arrays([*sessions.chunks, pa.array([], pa.string())]).dictionary_encode()
        known = self._code
        named = [known.setdefault(name, len(known)) for name in coded.dictionary.to_pylist()]
        codes = np.array(named, np.int64)
        if len(known) > len(self._begin):
            more = np.zeros(2 * len(known) - len(self._begin), np.int64)
            self._begin, self._end = np.r_[self._begin, more], np.r_[self._end, more]
        if self._used + len(numbers) > len(self._numbers):
            live = int((self._end - self._begin).sum())
            room = np.empty(2 * (live + len(numbers)), np.int64)
            self._used = _move(self._numbers, self._begin, self._end, room)
            self._numbers = room
        shared = np.zeros(len(offsets) - 1, np.int64)
        row_codes = codes[coded.indices.to_numpy()]
        latest = (self._numbers, self._begin, self._end, self._used)
        self._used = _follow(row_codes, numbers, offsets, *latest, shared)
        return shared


@njit(cache=True, nogil=True)
def _shared(mine: Array, before: Array) -> int:
    n = min(mine.size, before.size)
    for i in range(n):
        if mine[i] != before[i]:
            return i
    return n


@njit(cache=True, nogil=True)
def _join(numbers: Array, begins: Array, ends: Array, joined: Array) -> None:
    at = 0
    for i in range(begins.size):
        for j in range(begins[i], ends[i]):
            joined[at] = numbers[j]
            at += 1


@njit(cache=True, nogil=True)
def _follow(
    codes: Array,
    numbers: Array,
    offsets: Array,
    latest: Array,
    begin: Array,
    end: Array,
    used: int,
    shared: Array,
) -> int:
    for i in range(codes.size):
        code = codes[i]
        mine = numbers[offsets[i] : offsets[i + 1]]
        shared[i] = _shared(mine, latest[begin[code] : end[code]])
        begin[code], end[code] = used, used + mine.size
        latest[used : used + mine.size] = mine
        used += mine.size
    return used


@njit(cache=True, nogil=True)
def _move(numbers: Array, begin: Array, end: Array, room: Array) -> int:
    """Move the lists to ``room``, without what lies between them; how much of it they take."""
    used = 0
    for i in range(begin.size):
        n = end[i] - begin[i]
        room[used : used + n] = numbers[begin[i] : end[i]]
        begin[i], end[i] = used, used + n
        used += n
    return used
