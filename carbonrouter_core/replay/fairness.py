"""Fairness between user regions: how evenly they are served, and floors raised to even it out.

The figures are of means by user region, shape (U,); NaN where a region had no turn served.
"""

from __future__ import annotations

import numpy as np


def mean_by_user(values: np.ndarray, user: np.ndarray, n_users: int) -> np.ndarray:
    """Mean of the ``values`` that are a number, by user region, shape (U,).

    ``user``: number of the user region of each value.
    """
    known = np.isfinite(values)
    if not known.all():
        values, user = values[known], user[known]
    sums = np.bincount(user, values, n_users)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / np.bincount(user, minlength=n_users))


def largest_gap(means: np.ndarray) -> float | None:
    """Largest less smallest of the means; None where there are none."""
    known = means[np.isfinite(means)]
    return float(known.max() - known.min()) if len(known) else None


def jain_index(means: np.ndarray) -> float | None:
    """(Σx)² / (n·Σx²): 1 where all are equal, 1/n where one has everything; None without any.

    Source: Jain, Chiu and Hawe 1984, DEC-TR-301.
    """
    known = means[np.isfinite(means)]
    squares = float((known**2).sum())
    return float(known.sum()) ** 2 / (len(known) * squares) if squares > 0 else None


def raised_floors(
    floor: float, weight: float, quality: np.ndarray, user: np.ndarray, n_users: int
) -> np.ndarray:
    """Quality floor of each user region, shape (U,): higher where ``quality`` is below the mean.

    ``quality`` is that of past turns (NaN: unserved) and ``user`` whence each came. The floor
    rises by ``weight`` times what the region's mean lacks to the mean of all turns, to 1 at
    most; a region without a turn keeps it.
    """
    floors = np.full(n_users, floor)
    known = np.isfinite(quality)
    if known.any():
        means = mean_by_user(quality, user, n_users)
        lack = np.nan_to_num(float(quality[known].mean()) - means)
        floors += weight * np.maximum(0.0, lack)
    return np.minimum(1.0, floors)
