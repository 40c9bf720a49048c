"""Predicted quality of an answer, from a model's ability and a prompt's difficulty.

A model of ability theta answers a prompt of difficulty b well with probability
q = sigma(k * (theta - b)): a one-parameter item response (Rasch) model, all in logits
(docs/design.md, section 7). Ability comes from a model's published MMLU-Pro accuracy, difficulty
from the words of the prompt (:mod:`.prompt_difficulty`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from carbonrouter_core.errors import InputError
from carbonrouter_core.paths import data_path

FloatArray = npt.NDArray[np.float64]


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
    # theta if all items were as easy as the easiest, and if all were as hard as the hardest
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
    return read_only(table["difficulty"].to_numpy(float))


def read_only(values: FloatArray) -> FloatArray:
    """A copy of ``values`` that cannot be changed, for a cache that all callers share."""
    values = values.copy()
    values.flags.writeable = False
    return values
