"""The expected difficulty of the next turns of a session, from its turns so far.

Each session has a mean difficulty, and its turns vary around it. The gate takes both from the
training half (docs/design.md, section 8). Look-ahead uses a finer estimate, in two ways:

* The mean of a session may **change**. With each new turn, the weight of all earlier turns is
  multiplied by ``memory`` (1: all turns have the same weight). If the questions become easier,
  the estimate follows.
* The variance within a session is partly **its own**. It is a weighted mean of the variance of
  the training half and the variance of this session. The weight of each turn of the session is
  ``own_noise`` (0: only the training half counts).

Both parameters are chosen on the training half (:func:`learn_memory`). ``docs/look-ahead.md``
shows what they improve.
"""

from __future__ import annotations

import math

import numpy as np

from carbonrouter_core.compiled import Array, jit_borrowing

AHEAD_TURNS = 24
"""The number of next turns that an estimate is compared with: as far as look-ahead looks."""
MEMORIES = (1.0, 0.98, 0.95, 0.9)
"""Candidates: no forgetting, and a memory of 50, 20 and 10 turns."""
OWN_NOISES = (0.0, 1 / 48, 1 / 24, 1 / 12)
"""Candidates: only the training half counts, or it counts as much as 48, 24 or 12 turns."""


@jit_borrowing
def own_weight(n: float, correlation: float) -> float:
    """Weight of a session's own mean of ``n`` values, from 0 to 1; the training mean has the rest.

    For a model of a session effect plus noise; ``correlation``: of two values of a session.
    """
    return n * correlation / (1.0 + (n - 1.0) * correlation)


@jit_borrowing
def coming_difficulty(
    turns: float,
    total: float,
    squares: float,
    mean: float,
    spread: float,
    correlation: float,
    own_noise: float,
) -> tuple[float, float]:
    """Expected mean and variance of the difficulty of the next turns.

    ``turns``, ``total`` and ``squares``: number of turns so far, sum of their difficulties, and
    sum of the squares, all with the weights of the memory. ``mean``, ``spread`` (standard
    deviation) and ``correlation``: of all training turns.
    """
    w = own_weight(turns, correlation)
    within = max(0.0, squares - total * total / turns)
    noise = spread * spread * (1.0 - correlation) + own_noise * within
    noise /= 1.0 + own_noise * (turns - 1.0)
    level = spread * spread * correlation * (1.0 - w)
    return mean + w * (total / turns - mean), noise + level


def learn_memory(
    difficulty: np.ndarray,
    history_tokens: np.ndarray,
    session_turns: np.ndarray,
    spread: float,
    correlation: float,
) -> tuple[float, float]:
    """The memory and the own noise with the best prediction of the training turns.

    ``difficulty`` and ``history_tokens``: (turns,), session by session; ``session_turns``:
    (sessions,); ``spread``, ``correlation``: as in :func:`coming_difficulty`.

    They minimise the negative log-likelihood of the difficulties of up to :data:`AHEAD_TURNS` next
    turns, for a normal distribution with the expected mean and variance. The weight of a turn is
    its history, since a wrong estimate makes that be recomputed. A parameter other than its
    default of (1, 0) must improve the sum by one nat (Akaike 1974, "A new look at the statistical
    model identification"). The effective number of turns with unequal weights is
    (sum of weights)² / sum of squared weights (Kish 1965).
    """
    deviation = difficulty - difficulty.mean()
    offsets = np.r_[0, np.cumsum(session_turns)]
    followed = np.ones(len(difficulty), dtype=bool)
    followed[offsets[1:] - 1] = False
    weights = np.where(followed, history_tokens, 0.0)
    if not weights.any() or spread == 0.0:
        return 1.0, 0.0
    sums = np.r_[0.0, np.cumsum(deviation)]
    squares = np.r_[0.0, np.cumsum(deviation**2)]
    effective_turns = weights.sum() ** 2 / (weights**2).sum()
    best, best_score = (1.0, 0.0), math.inf
    for memory in MEMORIES:
        for own_noise in OWN_NOISES:
            loss = _loss(
                deviation, offsets, weights, sums, squares, spread, correlation, memory, own_noise
            )
            score = effective_turns * loss / weights.sum() + (memory < 1.0) + (own_noise > 0.0)
            if score < best_score:
                best, best_score = (memory, own_noise), score
    return best


@jit_borrowing
def _loss(
    deviation: Array,
    offsets: Array,
    weights: Array,
    sums: Array,
    squares: Array,
    spread: float,
    correlation: float,
    memory: float,
    own_noise: float,
) -> float:
    """Weighted sum over turns of the mean negative log-likelihood of the next turns.

    ``sums`` and ``squares``: of the deviations of all earlier turns, shape (turns + 1,).
    """
    total = 0.0
    for s in range(offsets.size - 1):
        turns, own, own_squares = 0.0, 0.0, 0.0
        for i in range(offsets[s], offsets[s + 1] - 1):
            turns = memory * turns + 1.0
            own = memory * own + deviation[i]
            own_squares = memory * own_squares + deviation[i] * deviation[i]
            expected, variance = coming_difficulty(
                turns, own, own_squares, 0.0, spread, correlation, own_noise
            )
            end = min(i + 1 + AHEAD_TURNS, offsets[s + 1])
            next_sum = sums[end] - sums[i + 1]
            error = squares[end] - squares[i + 1] - 2.0 * expected * next_sum
            error = error / (end - i - 1) + expected * expected
            total += weights[i] * 0.5 * (math.log(variance) + error / variance)
    return total
