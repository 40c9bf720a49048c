"""Sticky: stay on the current deployment for as long as it is feasible."""

from __future__ import annotations

import numpy as np

from carbonrouter_core.compiled import Array, Record, jit_borrowing
from carbonrouter_core.routing.kernel import cheapest
from carbonrouter_core.routing.policies import reasons


@jit_borrowing
def choose(session: Record, carbon_g: Array, note: Record) -> int:
    """The current deployment; where infeasible, the one of least cache-aware carbon."""
    current = session.current
    choice = current if current >= 0 and carbon_g[current] < np.inf else cheapest(carbon_g)
    note.wanted = choice
    note.reason = reasons.RULE
    return choice
