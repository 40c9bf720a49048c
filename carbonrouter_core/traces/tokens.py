"""Counting the tokens of a text, without the network."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

CHARACTERS_PER_TOKEN = 4.0
"""OpenAI's rule of thumb for English text ("one token generally corresponds to ~4 characters",
https://platform.openai.com/tokenizer). Other scripts take more tokens than this estimate."""

_ENCODING = "cl100k_base"
_VOCABULARY = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
"""The name under which tiktoken keeps its vocabulary; it is only looked for on this machine."""


class TokenCounter(NamedTuple):
    """How to count tokens, and how that is said in a report."""

    count: Callable[[str], int]
    how: str
    of_characters: Callable[[np.ndarray], np.ndarray] | None = None
    """The same from the lengths of texts, where these are enough."""


@lru_cache(maxsize=1)
def token_counter() -> TokenCounter:
    """tiktoken's cl100k_base where it is installed with its vocabulary, else an estimate."""
    try:
        import tiktoken  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return _estimate("tiktoken is not installed")
    if not _vocabulary_is_here():
        return _estimate(
            "tiktoken is installed, but its cl100k_base vocabulary is not on this machine "
            "(TIKTOKEN_CACHE_DIR) and nothing is fetched"
        )
    encoding = tiktoken.get_encoding(_ENCODING)

    def count(text: str) -> int:
        return len(encoding.encode(text, disallowed_special=()))

    return TokenCounter(count, "tokens are counted from the text with tiktoken (cl100k_base)")


def _vocabulary_is_here() -> bool:
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = str(Path(tempfile.gettempdir()) / "data-gym-cache")
    name = hashlib.sha1(_VOCABULARY.encode(), usedforsecurity=False).hexdigest()
    return bool(folder) and (Path(folder) / name).is_file()


def _estimate(why: str) -> TokenCounter:
    def of_characters(characters: np.ndarray) -> np.ndarray:
        return np.ceil(characters / CHARACTERS_PER_TOKEN).astype(np.int64)

    return TokenCounter(
        lambda text: int(of_characters(np.array(len(text)))),
        f"tokens are estimated from the text, {CHARACTERS_PER_TOKEN:g} characters each ({why})",
        of_characters,
    )
