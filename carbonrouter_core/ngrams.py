"""The words of a text as hashed 1- and 2-grams, counted and weighed in compiled code.

Words are runs of two or more word characters of the lower-cased text; a 2-gram is two of them
joined by a space. An n-gram counts in column |h| mod 2^15 with the sign of h, its MurmurHash3 as
a signed 32-bit number, so that collisions cancel on average (Weinberger et al. 2009,
arXiv:0902.2206). Same as scikit-learn's ``HashingVectorizer``.

Texts are read as UTF-8 wherever they lie: as pieces ``data[start:stop]`` of one array of bytes.
"""

from __future__ import annotations

import math
import re
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

ByteArray = npt.NDArray[np.uint8]
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
Array = np.ndarray

HASH_COLUMNS = 2**15
"""Columns the 1- and 2-grams are hashed into: the length of the table of weights."""

SHARED_BYTES = 2**20
"""Text from which on two threads share the work; the result is the same."""

_CHARACTERS = sys.maxunicode + 1
_CASED_CHARACTERS = 0x1F000  # planes beyond have no upper case (a test looks at all)
_BY_PYTHON = -1
_UINT32 = 0xFFFFFFFF
_SPACE = 0x20


# --- From Python -----------------------------------------------------------------------------


def hashed_ngram_counts(text: str) -> tuple[IntArray, IntArray]:
    """Columns (ascending) and non-zero signed counts of a text's n-grams."""
    data = encoded(text)
    counts, touched, columns = _counters()
    words = np.empty(data.size + 1, np.uint8)
    ends = np.array([0, data.size])
    one = (data, ends[:1], ends[1:], 0, 1)
    if _add_text(*one, lower_case(), words, counts, touched, columns) < 0:
        return hashed_ngram_counts(text.lower())
    found = np.flatnonzero(counts)
    return found, counts[found].astype(np.int64)


def weigh_texts(texts: Sequence[str], weights: FloatArray) -> FloatArray:
    """w . x/|x| of each text, x its counts and w ``weights``; NaN for one without a word.

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
    """As :func:`weigh_texts`, of texts that lie in pieces in UTF-8 (surrogates let through).

    Piece j is ``data[starts[j]:stops[j]]``; text i is the pieces ``first_piece[i]`` up to, and
    without, ``end_piece[i]``, with a line break between them. Texts may share pieces.
    """
    found = np.empty(len(first_piece))
    odd = np.zeros(len(first_piece), np.bool_)
    sizes = np.r_[0, np.cumsum(stops - starts + 1)]  # with the space after a word that ends there
    sizes = sizes[end_piece] - sizes[first_piece]

    def weigh(texts: slice) -> None:
        if not hasattr(_of_thread, "counters"):
            _of_thread.counters = _counters()
        words = np.empty(int(sizes[texts].max(initial=0)), np.uint8)
        pieces = (data, starts, stops, first_piece[texts], end_piece[texts])
        into = (*_of_thread.counters, found[texts], odd[texts])
        _weigh(*pieces, lower_case(), weights, words, *into)

    if int(sizes.sum()) < SHARED_BYTES:
        weigh(slice(None))
    else:
        half = int(np.searchsorted(np.cumsum(sizes), sizes.sum() // 2))
        list(_helpers().map(weigh, (slice(half), slice(half, None))))
    for i in np.flatnonzero(odd):
        own = range(first_piece[i], end_piece[i])
        text = b"\n".join(data[starts[j] : stops[j]].tobytes() for j in own)
        found[i] = weigh_texts([text.decode("utf-8", "surrogatepass").lower()], weights)[0]
    return found


def murmurhash3(data: bytes, seed: int = 0) -> int:
    """MurmurHash3 (x86, 32 bit) of ``data``, as a signed number."""
    return int(_murmurhash3(np.frombuffer(data, np.uint8), 0, len(data), seed))


def encoded(text: str) -> ByteArray:
    """The UTF-8 bytes of a text; a lone surrogate, which only parts words, is let through."""
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)


@lru_cache(maxsize=1)
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2, thread_name_prefix="ngrams")


_of_thread = threading.local()  # its counters, left all zero by whoever used them


def _counters() -> tuple[Array, Array, Array]:
    """Count of each column, which columns are touched, and room to list those."""
    shape = (HASH_COLUMNS,)
    return np.zeros(shape, np.int32), np.zeros(shape, np.bool_), np.empty(shape, np.int32)


@lru_cache(maxsize=1)
def lower_case() -> npt.NDArray[np.int32]:
    """The lower-cased character of each character; 0 where it is no word character.

    -1 for the few whose lower case is for Python to find: it is another one at the end of a word
    (a capital sigma), two characters (a dotted capital I), or takes more bytes.
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


@_jit
def _murmurhash3(data: ByteArray, start: int, stop: int, seed: int) -> int:
    """MurmurHash3 (x86, 32 bit) of ``data[start:stop]``, as a signed number.

    Source: Austin Appleby's MurmurHash3.cpp (public domain). 32-bit arithmetic in int64, masked
    after each step.
    """
    state = seed
    tail = start + ((stop - start) & ~3)
    for i in range(start, tail, 4):
        low = int(data[i]) | int(data[i + 1]) << 8
        state ^= _mixed(low | int(data[i + 2]) << 16 | int(data[i + 3]) << 24)
        state = ((state << 13) | (state >> 19)) & _UINT32
        state = (state * 5 + 0xE6546B64) & _UINT32
    if tail < stop:
        block = 0
        for i in range(tail, stop):
            block |= int(data[i]) << (8 * (i - tail))
        state ^= _mixed(block)
    state ^= stop - start
    state ^= state >> 16
    state = (state * 0x85EBCA6B) & _UINT32
    state ^= state >> 13
    state = (state * 0xC2B2AE35) & _UINT32
    state ^= state >> 16
    return state if state < 2**31 else state - 2**32


@_jit
def _mixed(block: int) -> int:
    block = (block * 0xCC9E2D51) & _UINT32
    block = ((block << 15) | (block >> 17)) & _UINT32
    return (block * 0x1B873593) & _UINT32


@_jit
def _weigh(
    data: ByteArray,
    starts: IntArray,
    stops: IntArray,
    first_piece: IntArray,
    end_piece: IntArray,
    lower: Array,
    weights: FloatArray,
    words: ByteArray,
    counts: Array,
    touched: Array,
    columns: Array,
    found: FloatArray,
    odd: Array,
) -> None:
    """Fill ``found``; ``odd``: texts with a character whose lower case Python must find."""
    for i in range(first_piece.size):
        first, end = first_piece[i], end_piece[i]
        used = _add_text(data, starts, stops, first, end, lower, words, counts, touched, columns)
        odd[i] = used < 0
        product, squares = 0.0, 0.0
        for j in range(used):
            column = columns[j]
            count = float(counts[column])
            product += count * weights[column]
            squares += count * count
        found[i] = product / math.sqrt(squares) if squares > 0.0 else math.nan
        _clear(counts, touched, columns, used)


@_jit
def _clear(counts: Array, touched: Array, columns: Array, used: int) -> None:
    for j in range(used):
        counts[columns[j]] = 0
        touched[columns[j]] = False


@_jit
def _add_text(
    data: ByteArray,
    starts: IntArray,
    stops: IntArray,
    first_piece: int,
    end_piece: int,
    lower: Array,
    words: ByteArray,
    counts: Array,
    touched: Array,
    columns: Array,
) -> int:
    """Add the n-grams of a text to ``counts``, which are all zero, and list their ``columns``.

    ``words``: room for the text. Returns how many are listed, in the order in which they came
    up; -1, with nothing counted, where Python must lower the text.
    """
    used = 0
    before = -1  # where the word before begins in ``words``
    begin = end = 0  # the word, open or not
    characters = 0  # of the word
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
                end = _write(words, end, letter)
            if letter == _BY_PYTHON:
                _clear(counts, touched, columns, used)
                return -1
            if characters > 1:
                used = _count(_murmurhash3(words, begin, end, 0), counts, touched, columns, used)
                if before >= 0:
                    pair = _murmurhash3(words, before, end, 0)
                    used = _count(pair, counts, touched, columns, used)
                words[end] = _SPACE
                before, begin = begin, end + 1
            end, characters = begin, 0
    return used


@_jit
def _write(words: ByteArray, at: int, code: int) -> int:
    """Write a character as UTF-8; where the next one goes."""
    if code < 0x80:
        words[at] = code
        return at + 1
    if code < 0x800:
        words[at] = 0xC0 | code >> 6
    else:
        if code < 0x10000:
            words[at] = 0xE0 | code >> 12
        else:
            words[at] = 0xF0 | code >> 18
            at += 1
            words[at] = 0x80 | (code >> 12 & 0x3F)
        at += 1
        words[at] = 0x80 | (code >> 6 & 0x3F)
    words[at + 1] = 0x80 | (code & 0x3F)
    return at + 2


@_jit
def _count(hashed: int, counts: Array, touched: Array, columns: Array, used: int) -> int:
    column = abs(hashed) & (HASH_COLUMNS - 1)
    counts[column] += 1 if hashed >= 0 else -1
    if not touched[column]:
        touched[column] = True
        columns[used] = column
        used += 1
    return used


@_jit
def _character(data: ByteArray, i: int) -> tuple[int, int]:
    """The character that begins at byte ``i`` of valid UTF-8, and its bytes."""
    first = int(data[i])
    if first < 0x80:
        return first, 1
    if first < 0xE0:
        return (first & 0x1F) << 6 | (data[i + 1] & 0x3F), 2
    if first < 0xF0:
        return (first & 0x0F) << 12 | (data[i + 1] & 0x3F) << 6 | (data[i + 2] & 0x3F), 3
    low = (data[i + 2] & 0x3F) << 6 | (data[i + 3] & 0x3F)
    return (first & 0x07) << 18 | (data[i + 1] & 0x3F) << 12 | low, 4
