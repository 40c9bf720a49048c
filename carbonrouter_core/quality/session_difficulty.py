"""What the difficulties of a session so far say of the turns to come.

A session has a level of its own, around which its turns scatter. What look-ahead expects of the
turns to come differs from the gate's session effect plus noise (docs/design.md, section 8) in
two ways:

* the level **drifts**: each turn, earlier ones count ``memory`` times what they did (1: all
  alike), so that a conversation that has turned to easier questions is soon taken for an easy one;
* the scatter is the session's **own**: its variance is drawn from the training half's to what
  the session shows, each of its turns counting ``own_noise`` of what the training half does (0:
  the training half's, whatever the session shows).

Both are chosen on the training half (:func:`learn_memory`). ``docs/look-ahead.md`` has what they
bring.
"""

from __future__ import annotations

import math

import numpy as np

from carbonrouter_core.compiled import Array, jit_borrowing

AHEAD_TURNS = 24
"""How many turns that follow a guess is held against: as far as look-ahead looks."""
MEMORIES = (1.0, 0.98, 0.95, 0.9)
"""Memory without end, and of 50, 20 and 10 turns."""
OWN_NOISES = (0.0, 1 / 48, 1 / 24, 1 / 12)
"""What the training half's scatter counts is nothing but itself, or 48, 24 or 12 turns."""


@jit_borrowing
def own_weight(n: float, correlation: float) -> float:
    """How much ``n`` values of a session say of its own mean, from 0 to 1.

    The rest is said by the training mean: a session effect plus noise, with the correlation of
    two values of a session.
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
    """Mean and variance of the difficulty of the turns to come.

    ``turns``, ``total`` and ``squares``: how many turns the session has had, and the sums of
    their difficulties and of the squares, each fading with the memory; ``mean``, ``spread`` and
    ``correlation``: of all training turns.
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
    """The memory and the own noise that best foretell the training turns.

    ``difficulty`` and ``history_tokens``: (turns,), session by session; ``session_turns``:
    (sessions,); ``spread``, ``correlation``: as in :func:`coming_difficulty`.

    Least negative log-likelihood of the difficulties of up to :data:`AHEAD_TURNS` next turns,
    normal with the mean and variance expected at each turn. A guess counts by the history at
    stake, which is what a wrong one makes recompute. Departing from (1, 0) must be worth one nat
    a parameter (Akaike 1974, "A new look at the statistical model identification"), the turns
    that count unevenly being as many as (sum of weights)² / sum of squared weights (Kish 1965).
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
    guesses = weights.sum() ** 2 / (weights**2).sum()
    best, least = (1.0, 0.0), math.inf
    for memory in MEMORIES:
        for own_noise in OWN_NOISES:
            surprise = _surprise(
                deviation, offsets, weights, sums, squares, spread, correlation, memory, own_noise
            )
            score = guesses * surprise / weights.sum() + (memory < 1.0) + (own_noise > 0.0)
            if score < least:
                best, least = (memory, own_noise), score
    return best


@jit_borrowing
def _surprise(
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
    """Weighted sum over turns of the mean negative log-likelihood of the turns that follow.

    ``sums`` and ``squares``: of the deviations of all turns before, shape (turns + 1,).
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
            ahead = sums[end] - sums[i + 1]
            missed = squares[end] - squares[i + 1] - 2.0 * expected * ahead
            missed = missed / (end - i - 1) + expected * expected
            total += weights[i] * 0.5 * (math.log(variance) + missed / variance)
    return total
