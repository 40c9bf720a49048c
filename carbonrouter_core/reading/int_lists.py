"""Lists of whole numbers taken out of JSON lines, so that the rest of them parses fast.

Logs that hash the blocks of a prompt consist mostly of such lists. In place of list k stands
``[k]``; a list with anything else in it stays, and its reader finds that it is no such list.

Libraries were measured on Mooncake records with 3, 17 and 60 hashes, in CPU time for columns of
numbers, as multiples of the time this module takes together with Arrow:

=============================  ====  ====  ====
hashes a record                   3    17    60
=============================  ====  ====  ====
Arrow alone                     1.0   1.8   3.0
msgspec 0.23, typed records     1.9   2.1   3.5
pysimdjson 7.0, lists as bytes  5.3   2.0   1.7
=============================  ====  ====  ====

None reads coding-agent sessions, with their long lists, as fast as docs/traffic-data.md says. For
records without such lists Arrow alone is the fastest: msgspec takes 1.3 times as long to make
columns of conversations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from carbonrouter_core.reading.columns import parse_lines

Array = np.ndarray

LIST = pa.list_(pa.int64())
"""The type under which :func:`parse_with_lists` reads a list."""

_MOST_DIGITS = 18  # more may not fit 64 bits
_ROOM = 4  # times the bytes: "[7]" may become "[1234567890]"
_LINE_FEED, _SPACE, _TAB, _RETURN = 0x0A, 0x20, 0x09, 0x0D
_QUOTE, _BACKSLASH, _COMMA, _MINUS = ord('"'), ord("\\"), ord(","), ord("-")
_BEGIN, _END, _ZERO, _NINE = ord("["), ord("]"), ord("0"), ord("9")


@dataclass(frozen=True)
class IntLists:
    """Lists that stood in a text: list k is ``numbers[offsets[k]:offsets[k + 1]]``."""

    numbers: Array
    offsets: Array

    def of(self, column: Any) -> tuple[Array, Array] | None:
        """Where each row's list begins and ends among ``numbers``; None where one is no list of
        whole numbers. A row without a list has an empty one."""
        lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        which = lists.flatten()
        length = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
        if which.null_count or (length > 1).any():
            return None
        number = which.to_numpy()
        if len(number) and (number.min() < 0 or number.max() >= len(self.offsets) - 1):
            return None  # a number too long to be taken out
        begin, end = np.zeros((2, len(length)), np.int64)
        begin[length == 1], end[length == 1] = self.offsets[number], self.offsets[number + 1]
        return begin, end


def parse_with_lists(chunk: bytes, schema: pa.Schema) -> tuple[pa.Table, IntLists] | None:
    """As :func:`parse_lines`, where columns of type :data:`LIST` say which list was there."""
    text, lists = take_out(chunk)
    table = parse_lines(text, schema)
    return None if table is None else (table, lists)


def take_out(chunk: bytes) -> tuple[bytes, IntLists]:
    """The text with ``[k]`` in place of list k, and the lists."""
    data = np.frombuffer(chunk, np.uint8)
    text = np.empty(_ROOM * len(data), np.uint8)
    numbers = np.empty(len(data) // 2 + 1, np.int64)
    offsets = np.empty(len(data) // 3 + 2, np.int64)
    offsets[0] = 0
    size, lists = _take_out(data, text, numbers, offsets)
    used = offsets[: lists + 1].copy()
    return text[:size].tobytes(), IntLists(numbers[: used[-1]].copy(), used)


@njit(cache=True, nogil=True)
def _take_out(data: Array, text: Array, numbers: Array, offsets: Array) -> tuple[int, int]:
    """Fill the arrays; how much of the text, and how many lists there are."""
    size = lists = i = 0
    quoted = False
    while i < data.size:
        byte = data[i]
        if not quoted and byte == _BEGIN:
            after, used = _list(data, i + 1, numbers, offsets[lists])
            if after > 0:
                size = _write_list(text, size, lists)
                lists += 1
                offsets[lists] = used
                i = after
                continue
        text[size] = byte
        size += 1
        i += 1
        if byte == _QUOTE:
            quoted = not quoted
        elif byte == _LINE_FEED:
            quoted = False  # no text goes over lines: the next is read whatever this one was
        elif byte == _BACKSLASH and quoted and i < data.size and data[i] != _LINE_FEED:
            text[size] = data[i]
            size += 1
            i += 1
    return size, lists


@njit(cache=True, nogil=True)
def _list(data: Array, i: int, numbers: Array, used: int) -> tuple[int, int]:
    """Where a list of whole numbers ends that begins before ``i``, and where its numbers do; -1
    for the first if it is another kind of list."""
    while True:
        i = _skip_blanks(data, i)
        negative = i < data.size and data[i] == _MINUS
        if negative:
            i += 1
        begin, number = i, 0
        while i < data.size and _ZERO <= data[i] <= _NINE and i - begin <= _MOST_DIGITS:
            number = 10 * number + (int(data[i]) - _ZERO)
            i += 1
        digits = i - begin
        if digits == 0 or digits > _MOST_DIGITS or (digits > 1 and data[begin] == _ZERO):
            return -1, used
        numbers[used] = -number if negative else number
        used += 1
        i = _skip_blanks(data, i)
        if i == data.size or (data[i] != _COMMA and data[i] != _END):
            return -1, used
        i += 1
        if data[i - 1] == _END:
            return i, used


@njit(cache=True, nogil=True)
def _skip_blanks(data: Array, i: int) -> int:
    while i < data.size and (data[i] == _SPACE or data[i] == _TAB or data[i] == _RETURN):
        i += 1
    return i


@njit(cache=True, nogil=True)
def _write_list(text: Array, size: int, number: int) -> int:
    """Write ``[number]``; where the text goes on."""
    digits, higher_digits = 1, number
    while higher_digits >= 10:
        higher_digits //= 10
        digits += 1
    text[size] = _BEGIN
    for place in range(size + digits, size, -1):
        text[place] = _ZERO + number % 10
        number //= 10
    text[size + digits + 1] = _END
    return size + digits + 2
