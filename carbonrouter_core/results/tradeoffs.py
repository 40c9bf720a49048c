"""What one gives up for the other: the Pareto front of several figures, and how waits spread."""

from __future__ import annotations

import numpy as np

SHARES = np.unique(
    np.concatenate([np.linspace(0.0, 0.98, 99), np.linspace(0.98, 0.999, 20), [1.0]])
)
"""Shares of turns at which a distribution is drawn: finer in the slow tail."""


def pareto_front(costs: np.ndarray) -> np.ndarray:
    """Which rows of ``costs`` (options, figures) no other row beats, shape (options,).

    Lower is better in each column. A row is beaten by one that is nowhere worse and somewhere
    better; of two equal rows neither beats the other. A row with a NaN is not on the front.
    """
    known = np.isfinite(costs).all(axis=1)
    no_worse = (costs[:, None, :] <= costs[None, :, :]).all(axis=2)
    better = (costs[:, None, :] < costs[None, :, :]).any(axis=2)
    beaten = (no_worse & better & known[:, None]).any(axis=0)
    return np.asarray(known & ~beaten)


def distribution(values: np.ndarray, shares: np.ndarray = SHARES) -> np.ndarray:
    """The value that each of ``shares`` of the ``values`` stays within (NaN left out).

    Each is one of the values: the smallest that at least that share does not exceed. Empty where
    there are none.
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return np.empty(0)
    return np.asarray(np.quantile(known, shares, method="inverted_cdf"))
