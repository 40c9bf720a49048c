"""Predicted quality of an answer, and the difficulty of a prompt (docs/design.md, section 7).

A model of ability theta answers a prompt of difficulty b well with probability
q = sigma(k * (theta - b)): a one-parameter item response (Rasch) model, all in logits.
Ability comes from a model's published MMLU-Pro accuracy. Difficulty comes from the words of
the prompt, through weights fitted by ``data/build/fit_difficulty.py`` and shipped in ``data/``;
``data/README.md`` says how well they do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from carbonrouter_core.errors import InputError
from carbonrouter_core.paths import data_path
from carbonrouter_core.quality.ngrams import ByteArray, IntArray, weigh_pieces, weigh_texts

FloatArray = npt.NDArray[np.float64]

SHORT_PROMPT_CHARACTERS = 80
"""A prompt shorter than this says too little alone; it is read after the one before it."""


# --- Quality ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class QualityFit:
    """Constants of the fitted predictor, as in ``data/quality_fit.csv``."""

    k: float
    """Slope of the item response, 1/sqrt(1 + pi*sigma²/8): absorbs the residual sigma."""
    sigma: float
    """Standard deviation of true minus predicted difficulty, out of fold [logit]."""
    intercept: float
    """Difficulty of a text without a word [logit]."""

    @classmethod
    def load(cls) -> QualityFit:
        """The built-in fit."""
        return _built_in_fit()


@lru_cache(maxsize=1)
def _built_in_fit() -> QualityFit:
    table = pd.read_csv(data_path("quality_fit.csv"), index_col="key")
    return QualityFit(**{f.name: float(table.at[f.name, "value"]) for f in fields(QualityFit)})


def predicted_quality(theta: npt.ArrayLike, difficulty: npt.ArrayLike, k: float) -> FloatArray:
    """Probability of a good answer, sigma(k * (theta - difficulty)), in [0, 1].

    ``theta`` (ability) and ``difficulty`` are in logits and broadcast against each other; the
    result has their common shape. Slope ``k`` as in :class:`QualityFit`. Source:
    docs/design.md, section 7.
    """
    return _logistic(k * (np.asarray(theta, float) - np.asarray(difficulty, float)))


def _logistic(x: FloatArray) -> FloatArray:
    # Equal to 1/(1 + exp(-x)), and cannot overflow.
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def ability_from_accuracy(
    accuracy_percent: float, item_difficulty: npt.ArrayLike | None = None
) -> float:
    """Ability theta [logit] of a model from its accuracy [%], between 0 and 100 exclusive.

    Solves mean over items of sigma(theta - b) = accuracy. ``item_difficulty`` holds b of each
    item [logit], shape (items,); left out, the MMLU-Pro questions as fitted.
    """
    target = accuracy_percent / 100.0
    if not 0.0 < target < 1.0:
        raise InputError(
            f"An accuracy of {accuracy_percent!r} % gives no ability; it must be above 0 and "
            "below 100 %."
        )
    if item_difficulty is None:
        b = _mmlu_pro_item_difficulty()
    else:
        b = np.asarray(item_difficulty, float).ravel()
        if b.size == 0 or not np.isfinite(b).all():
            raise InputError("Item difficulties must be at least one finite number, in logits.")
    logit = math.log(target) - math.log1p(-target)
    # If all items were as easy as the easiest, or as hard as the hardest, theta would be here.
    low, high = logit + float(b.min()), logit + float(b.max())
    theta = logit + float(b.mean())
    for _ in range(200):
        p = _logistic(theta - b)
        excess = float(p.mean()) - target
        if excess == 0.0:
            return theta
        low, high = (low, theta) if excess > 0 else (theta, high)
        slope = float((p * (1.0 - p)).mean())
        newton = theta - excess / slope if slope > 0 else math.inf
        step_to = newton if low < newton < high else 0.5 * (low + high)
        if abs(step_to - theta) <= 1e-13 * max(1.0, abs(theta)):
            return step_to
        theta = step_to
    return theta


@lru_cache(maxsize=1)
def _mmlu_pro_item_difficulty() -> FloatArray:
    table = pd.read_parquet(data_path("mmlu_pro_item_difficulty.parquet"))
    return _read_only(table["difficulty"].to_numpy(float))


# --- Difficulty of a prompt ------------------------------------------------------------------


def difficulty_of_prompts(prompts: Sequence[str]) -> FloatArray:
    """Difficulty [logit] of each prompt of one session, in order; shape (len(prompts),).

    Short prompts are read after the one before them: see :func:`text_of_prompt`.
    """
    before = (None, *prompts)
    return difficulty_of_texts(list(map(text_of_prompt, prompts, before)))


def text_of_prompt(prompt: str, previous_prompt: str | None = None) -> str:
    """The text by which a prompt's difficulty is read.

    A prompt under 80 characters ("go on", "and in French?") is joined, by a newline, to the
    session's previous prompt as it was sent: that one alone, whatever it was itself joined to.
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
    return _read_only(table.sort_values("column")["weight"].to_numpy(float))


def _read_only(values: FloatArray) -> FloatArray:
    values = values.copy()
    values.flags.writeable = False  # it is cached, hence shared by all callers
    return values


# --- Difficulty of traces --------------------------------------------------------------------


class DifficultySpread(NamedTuple):
    """How difficulty varies over the turns of a trace, and within its sessions."""

    mu: float
    """Mean over turns [logit]."""
    sigma_b: float
    """Standard deviation over turns [logit]."""
    rho: float
    """Correlation of two turns of one session, in [0, 1)."""


def difficulty_spread(difficulty: npt.ArrayLike, session_index: npt.ArrayLike) -> DifficultySpread:
    """Mean, standard deviation and within-session correlation of difficulty over turns.

    ``difficulty`` [logit] and ``session_index`` (an integer code per session, in any order) have
    shape (turns,). rho is the intraclass correlation of one-way analysis of variance for groups
    of unequal size, (MSB - MSW) / (MSB + (n0 - 1) MSW) (Donner 1986, "A review of inference
    procedures for the intraclass correlation coefficient in the one-way random effects model");
    it is 0 where one turn a session, or a single session, leaves nothing to compare.
    """
    b = np.asarray(difficulty, float)
    session = np.asarray(session_index)
    if b.ndim != 1 or b.shape != session.shape or b.size == 0 or not np.isfinite(b).all():
        raise InputError(
            "The spread of difficulty needs one finite difficulty and one session a turn, and at "
            f"least one turn; got {b.size} difficulties and {session.size} sessions."
        )
    _, group, turns = np.unique(session, return_inverse=True, return_counts=True)
    groups = turns.size
    mu = float(b.mean())
    deviation = b - mu
    sigma_b = math.sqrt(float(deviation @ deviation) / b.size)
    if groups == 1 or groups == b.size:
        return DifficultySpread(mu, sigma_b, 0.0)
    effect = np.bincount(group, deviation) / turns  # mean of each session, around mu
    within = deviation - effect[group]
    msb = float(turns @ effect**2) / (groups - 1)
    msw = float(within @ within) / (b.size - groups)
    n0 = (b.size - float(turns @ turns) / b.size) / (groups - 1)
    spread = msb + (n0 - 1.0) * msw
    rho = (msb - msw) / spread if spread > 0 else 0.0
    return DifficultySpread(mu, sigma_b, min(max(rho, 0.0), math.nextafter(1.0, 0.0)))
