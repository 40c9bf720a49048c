"""How difficulty varies over the turns of a trace, and within its sessions."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from carbonrouter_core.errors import InputError


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
    it is 0 if no session has two turns, or if there is a single session.
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
