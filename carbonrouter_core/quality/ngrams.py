"""The words of a text as hashed 1- and 2-grams, counted and weighed in compiled code.

Words are runs of two or more word characters of the lower-cased text; a 2-gram is two of them
joined by a space. An n-gram counts in column |h| mod 2^15 with the sign of h, its MurmurHash3 as
a signed 32-bit number, so that collisions cancel on average (Weinberger et al. 2009,
arXiv:0902.2206). Same as scikit-learn's ``HashingVectorizer``.

This is our own code since an import of chats reads gigabytes of text, and the online API a single
prompt at a time: scikit-learn would be one more large library to install for this function alone,
and makes a Python object of each n-gram, where this makes none.

Texts are UTF-8. They are read without a copy, as pieces ``data[start:stop]`` of an array of bytes.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

ByteArray = npt.NDArray[np.uint8]
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
Array = np.ndarray
Hashing = tuple[Any, Any, Any, Any]

HASH_COLUMNS = 2**15
"""Columns the 1- and 2-grams are hashed into: the length of the table of weights."""

_CHARACTERS = sys.maxunicode + 1
_CASED_CHARACTERS = 0x1F000  # planes beyond have no upper case (a test looks at all)
_BY_PYTHON = -1
_SPACE = 0x20
_BYTE_BITS, _BLOCK_BITS = 8, 32


# --- From Python -----------------------------------------------------------------------------


def hashed_ngram_counts(text: str) -> tuple[IntArray, IntArray]:
    """Columns (ascending) and non-zero signed counts of a text's n-grams."""
    data = encoded(text)
    counts, columns = _counters()
    ends = np.array([0, data.size])
    used = _add_text(data, ends[:1], ends[1:], 0, 1, lower_case(), counts, columns)
    if used < 0:
        return hashed_ngram_counts(text.lower())
    touched = np.sort(columns[:used])
    count = counts[touched].astype(np.int64) >> 1
    return touched[count != 0].astype(np.int64), count[count != 0]


def weigh_texts(texts: Sequence[str], weights: FloatArray) -> FloatArray:
    """w . x/|x| of each text, x its counts and w ``weights``; NaN for a text without a word.

    ``weights`` has shape (HASH_COLUMNS,); the result (len(texts),).
    """
    parts = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([0, *map(len, parts)])
    each = np.arange(len(parts))
    data = np.frombuffer(b"".join(parts), np.uint8)
    return weigh_pieces(data, ends[:-1], ends[1:], each, each + 1, weights)


def weigh_pieces(
    data: ByteArray,
    starts: IntArray,
    stops: IntArray,
    first_piece: IntArray,
    end_piece: IntArray,
    weights: FloatArray,
) -> FloatArray:
    """As :func:`weigh_texts`, for texts in pieces of UTF-8; lone surrogates are accepted.

    Piece j is ``data[starts[j]:stops[j]]``. Text i consists of the pieces from ``first_piece[i]``
    to ``end_piece[i] - 1``, with a line break between them. Texts may share pieces.
    """
    weighed = np.empty(len(first_piece))
    odd = np.zeros(len(first_piece), np.bool_)
    pieces = (data, starts, stops, first_piece, end_piece)
    _weigh(*pieces, lower_case(), weights, *_counters(), weighed, odd)
    for i in np.flatnonzero(odd):
        own = range(first_piece[i], end_piece[i])
        text = b"\n".join(data[starts[j] : stops[j]].tobytes() for j in own)
        weighed[i] = weigh_texts([text.decode("utf-8", "surrogatepass").lower()], weights)[0]
    return weighed


def murmurhash3(data: bytes, seed: int = 0) -> int:
    """MurmurHash3 (x86, 32 bit) of ``data``, as a signed number."""
    return int(_murmurhash3(np.frombuffer(data, np.uint8), seed))


def encoded(text: str) -> ByteArray:
    """The UTF-8 bytes of a text; a lone surrogate is accepted, and separates words."""
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)


def _counters() -> tuple[Array, Array]:
    """The arrays ``counts`` and ``columns`` of :func:`_add_text`."""
    return np.zeros(HASH_COLUMNS, np.int32), np.empty(HASH_COLUMNS + 1, np.int32)


@lru_cache(maxsize=1)
def lower_case() -> npt.NDArray[np.int32]:
    """The lower-cased character of each character; 0 where it is no word character.

    -1 for the few characters that Python must lower: the lower case depends on the place in the
    word (a capital sigma), is two characters (a dotted capital I), or takes more bytes.
    """
    table = np.zeros(_CHARACTERS, np.int32)
    every = "".join(map(chr, range(_CHARACTERS)))
    for word in re.finditer(r"\w+", every):
        table[word.start() : word.end()] = np.arange(word.start(), word.end())
    for number in range(_CASED_CHARACTERS):
        character = chr(number)
        lower = character.lower()
        if lower != character:
            longer = len(lower.encode()) > len(character.encode())
            table[number] = _BY_PYTHON if longer or len(lower) > 1 else table[ord(lower)]
    table[ord("\N{GREEK CAPITAL LETTER SIGMA}")] = _BY_PYTHON
    table.flags.writeable = False
    return table


# --- Compiled --------------------------------------------------------------------------------


def _jit(function: Any) -> Any:
    return njit(cache=True, nogil=True, error_model="numpy", forceinline=True)(function)


# A hash that goes on: its state, the bytes of the block that is not full yet (little-endian), the
# bits that those take, and all bytes so far. Copied, it goes on from a common beginning.
_EMPTY = (np.uint32(0), np.uint64(0), np.uint32(0), np.uint32(0))


@_jit
def _murmurhash3(data: ByteArray, seed: int) -> int:
    """MurmurHash3 (x86, 32 bit) of ``data``, as a signed number."""
    hashing = (np.uint32(seed), _EMPTY[1], _EMPTY[2], _EMPTY[3])
    for byte in data:
        hashing = _feed(hashing, byte, _BYTE_BITS)
    return _finished(hashing)


@_jit
def _feed(hashing: Hashing, more: int, bits: int) -> Hashing:
    """The hash after up to four more bytes: ``bits`` bits of ``more``, little-endian.

    Source: Austin Appleby's MurmurHash3.cpp (public domain). Each step is cut back to 32 bits.
    """
    state, block, full, size = hashing
    block = np.uint64(block | (np.uint64(more) << np.uint64(full)))
    full = np.uint32(full + bits)
    size = np.uint32(size + (bits >> 3))
    if full >= _BLOCK_BITS:
        state = np.uint32(state ^ _mixed(np.uint32(block)))
        state = np.uint32((state << 13) | (state >> 19))
        state = np.uint32(state * 5 + 0xE6546B64)
        block = np.uint64(block >> np.uint64(_BLOCK_BITS))
        full = np.uint32(full - _BLOCK_BITS)
    return state, block, full, size


@_jit
def _finished(hashing: Hashing) -> Any:
    """The hash of all bytes so far, as a signed number."""
    state, block, _, size = hashing
    state = np.uint32(state ^ _mixed(np.uint32(block)) ^ size)
    state = np.uint32(state ^ (state >> 16))
    state = np.uint32(state * 0x85EBCA6B)
    state = np.uint32(state ^ (state >> 13))
    state = np.uint32(state * 0xC2B2AE35)
    return np.int32(np.uint32(state ^ (state >> 16)))


@_jit
def _mixed(block: Any) -> Any:
    block = np.uint32(block * 0xCC9E2D51)
    block = np.uint32((block << 15) | (block >> 17))
    return np.uint32(block * 0x1B873593)


@_jit
def _weigh(
    data: ByteArray,
    starts: IntArray,
    stops: IntArray,
    first_piece: IntArray,
    end_piece: IntArray,
    lower: Array,
    weights: FloatArray,
    counts: Array,
    columns: Array,
    weighed: FloatArray,
    odd: Array,
) -> None:
    """Fill ``weighed``, and mark in ``odd`` the texts with a character that Python must lower."""
    for i in range(first_piece.size):
        first, end = first_piece[i], end_piece[i]
        used = _add_text(data, starts, stops, first, end, lower, counts, columns)
        odd[i] = used < 0
        product, squares = 0.0, 0.0
        for j in range(used):
            column = columns[j]
            count = float(counts[column] >> 1)
            counts[column] = 0
            product += count * weights[column]
            squares += count * count
        weighed[i] = product / math.sqrt(squares) if squares > 0.0 else math.nan


@_jit
def _add_text(
    data: ByteArray,
    starts: IntArray,
    stops: IntArray,
    first_piece: int,
    end_piece: int,
    lower: Array,
    counts: Array,
    columns: Array,
) -> int:
    """Count the n-grams of a text, and list their ``columns``.

    ``counts`` must be zero at first. A column with n-grams gets twice the count plus one, so that
    a column whose count returns to zero is not listed a second time. Returns the number of listed
    columns, which are in the order of the text. If Python must lower the text, returns -1 and
    counts nothing. Each character is added to the hash of its word and of the pair that the word
    ends.
    """
    used = 0
    characters = 0  # of the open word
    paired = False  # whether a word stands before it
    word, pair, pair_begin = _EMPTY, _EMPTY, _EMPTY
    for piece in range(first_piece, end_piece):
        i, stop = starts[piece], stops[piece]
        while i < stop:
            letter = 0
            while i < stop:  # a word
                code, size = _character(data, i)
                letter = lower[code]
                i += size
                if letter <= 0:
                    break
                characters += 1
                encoded, bits = _encoded(letter)
                word = _feed(word, encoded, bits)
                pair = _feed(pair, encoded, bits)
            if letter == _BY_PYTHON:
                for j in range(used):
                    counts[columns[j]] = 0
                return -1
            if characters > 1:
                used = _count(_finished(word), counts, columns, used)
                if paired:
                    used = _count(_finished(pair), counts, columns, used)
                pair_begin = _feed(word, _SPACE, _BYTE_BITS)
                paired = True
            word, pair, characters = _EMPTY, pair_begin, 0
    return used


@_jit
def _count(hashed: int, counts: Array, columns: Array, used: int) -> int:
    signed = np.int64(hashed)
    column = abs(signed) & (HASH_COLUMNS - 1)
    before = counts[column]
    # no branch, since it could not be predicted: a superfluous entry is overwritten by the next
    new = before == 0
    columns[used] = column
    counts[column] = before + (2 if signed >= 0 else -2) + new
    return used + new


@_jit
def _encoded(letter: int) -> tuple[int, int]:
    """The UTF-8 bytes of a character, little-endian, and the number of bits."""
    if letter < 0x80:
        return letter, 8
    last = (0x80 | (letter & 0x3F)) << 8
    if letter < 0x800:
        return last | 0xC0 | letter >> 6, 16
    last = last << 8 | (0x80 | (letter >> 6 & 0x3F)) << 8
    if letter < 0x10000:
        return last | 0xE0 | letter >> 12, 24
    return last << 8 | (0x80 | (letter >> 12 & 0x3F)) << 8 | 0xF0 | letter >> 18, 32


@_jit
def _character(data: ByteArray, i: int) -> tuple[int, int]:
    """The character that begins at byte ``i`` of valid UTF-8, and its number of bytes."""
    first = int(data[i])
    if first < 0x80:
        return first, 1
    if first < 0xE0:
        return (first & 0x1F) << 6 | (data[i + 1] & 0x3F), 2
    if first < 0xF0:
        return (first & 0x0F) << 12 | (data[i + 1] & 0x3F) << 6 | (data[i + 2] & 0x3F), 3
    low = (data[i + 2] & 0x3F) << 6 | (data[i + 3] & 0x3F)
    return (first & 0x07) << 18 | (data[i + 1] & 0x3F) << 12 | low, 4
