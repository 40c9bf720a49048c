"""Difficulty of a prompt, from its words (docs/design.md, section 7).

The weights of the words are fitted by ``data/build/fit_difficulty.py`` and shipped in ``data/``;
``data/README.md`` says how well they predict.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pandas as pd

from carbonrouter_core.paths import data_path
from carbonrouter_core.quality.item_response import FloatArray, QualityFit, read_only
from carbonrouter_core.quality.ngrams import ByteArray, IntArray, weigh_pieces, weigh_texts

SHORT_PROMPT_CHARACTERS = 80
"""A shorter prompt says too little alone; it is read together with the prompt before it."""


def difficulty_of_prompts(prompts: Sequence[str]) -> FloatArray:
    """Difficulty [logit] of each prompt of one session, in order; shape (len(prompts),).

    Short prompts are read together with the prompt before: see :func:`text_of_prompt`.
    """
    before = (None, *prompts)
    return difficulty_of_texts(list(map(text_of_prompt, prompts, before)))


def text_of_prompt(prompt: str, previous_prompt: str | None = None) -> str:
    """The text by which a prompt's difficulty is read.

    A prompt under 80 characters ("go on", "and in French?") is joined, by a newline, to the
    session's previous prompt as it was sent, even if that prompt was itself joined to another.
    """
    if previous_prompt is None or len(prompt) >= SHORT_PROMPT_CHARACTERS:
        return prompt
    return f"{previous_prompt}\n{prompt}"


def difficulty_of_text(text: str) -> float:
    """Difficulty b [logit] of one text, taken as it is: see :func:`difficulty_of_texts`."""
    return float(difficulty_of_texts([text])[0])


def difficulty_of_texts(texts: Sequence[str]) -> FloatArray:
    """Difficulty b [logit] of each text, taken as it is; shape (len(texts),).

    Ridge regression on hashed counts x of words and pairs of words (:mod:`ngrams`):
    b = intercept + w . x/|x|. A text without a word gets the intercept.
    """
    return _with_intercept(weigh_texts(texts, _weights()))


def difficulty_of_pieces(
    data: ByteArray,
    starts: IntArray,
    stops: IntArray,
    first_piece: IntArray,
    end_piece: IntArray,
) -> FloatArray:
    """As :func:`difficulty_of_texts`, of texts that lie in pieces: see :func:`weigh_pieces`."""
    return _with_intercept(weigh_pieces(data, starts, stops, first_piece, end_piece, _weights()))


def _with_intercept(weighed: FloatArray) -> FloatArray:
    return QualityFit.load().intercept + np.where(np.isnan(weighed), 0.0, weighed)


@lru_cache(maxsize=1)
def _weights() -> FloatArray:
    table = pd.read_parquet(data_path("difficulty_weights.parquet"))
    return read_only(table.sort_values("column")["weight"].to_numpy(float))
