"""Which of some names are keys in a text of JSON, found in compiled code.

Arrow's reader takes time for each field of its schema, also for those that no record has: with
fifty of them it takes three times as long.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numba import njit

_PLACES = 1024
"""Places of the table of hashes, of which at most half are taken."""
_OFFSET, _PRIME = 0xCBF29CE484222325, 0x100000001B3
"""FNV-1a of 64 bits (Fowler, Noll and Vo)."""
_QUOTE, _BACKSLASH, _COLON = ord('"'), ord("\\"), ord(":")
_BLANKS = (0x20, 0x09, 0x0A, 0x0D)


class KeyFinder:
    """Looks for ``names`` among the keys of texts; for more than 512 of them it finds all."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = list(dict.fromkeys(names))
        self._hashes = np.zeros(_PLACES, np.uint64)
        self._numbers = np.full(_PLACES, -1, np.int64)
        self._few = len(self._names) <= _PLACES // 2
        for number, name in enumerate(self._names if self._few else ()):
            key = _hash_of(name.encode("utf-8", "surrogatepass"))
            place = key % _PLACES
            while self._numbers[place] >= 0:
                place = (place + 1) % _PLACES
            self._hashes[place], self._numbers[place] = key, number

    def found(self, text: bytes) -> frozenset[str]:
        """The names that are keys somewhere in ``text``; others may be among them.

        All of them, if a key is written with escapes.
        """
        seen = np.zeros(len(self._names) + 1, np.bool_)
        if self._few:
            _find(np.frombuffer(text, np.uint8), self._hashes, self._numbers, seen)
        if not self._few or seen[-1]:
            return frozenset(self._names)
        return frozenset(self._names[i] for i in np.flatnonzero(seen))


def _hash_of(name: bytes) -> int:
    key = _OFFSET
    for byte in name:
        key = ((key ^ byte) * _PRIME) % 2**64
    return key


@njit(cache=True, nogil=True)
def _find(text: np.ndarray, hashes: np.ndarray, numbers: np.ndarray, seen: np.ndarray) -> None:
    i, n = 0, text.size
    while i < n:
        if text[i] != _QUOTE:
            i += 1
            continue
        i += 1
        key, escaped = np.uint64(_OFFSET), False
        while i < n and text[i] != _QUOTE:
            if text[i] == _BACKSLASH:
                escaped = True
                i += 1
            else:
                key = (key ^ np.uint64(text[i])) * np.uint64(_PRIME)
            i += 1
        i += 1
        while i < n and text[i] in _BLANKS:
            i += 1
        if i >= n or text[i] != _COLON:
            continue
        if escaped:
            seen[-1] = True
            continue
        place = np.int64(key % np.uint64(_PLACES))
        while numbers[place] >= 0:
            if hashes[place] == key:
                seen[numbers[place]] = True
                break
            place = (place + 1) % _PLACES
