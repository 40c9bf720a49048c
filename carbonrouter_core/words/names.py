"""Errors about names: which known names are like a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable


def nearest(word: str, names: Iterable[str], count: int = 3) -> str:
    """The ``count`` names most like ``word``, for the end of an error: "a, b, c".

    The first six names where none is like it.
    """
    by_fold = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(word.strip().casefold(), by_fold, n=count, cutoff=0.4)
    return ", ".join([by_fold[fold] for fold in close] or sorted(by_fold.values())[:6])


def unknown(kind: str, word: str, names: Collection[str]) -> str:
    """The sentence for a name that is not among ``names``: "Unknown policy 'stick'. ..."."""
    return f"Unknown {kind} {word!r}. Nearest known: {nearest(word, names)}."
