"""Round-robin: the next feasible deployment in order, each session by itself."""

from __future__ import annotations

import numpy as np

from carbonrouter_core.compiled import Array, Record, jit_borrowing
from carbonrouter_core.routing.policies import reasons


@jit_borrowing
def choose(session: Record, carbon_g: Array, note: Record) -> int:
    """The next feasible deployment after the last; a session begins at a hash of its id."""
    n = carbon_g.size
    first = session.current + 1 if session.current >= 0 else session.start_at % n
    choice = -1
    for step in range(n):
        d = (first + step) % n
        if carbon_g[d] < np.inf:
            choice = d
            break
    note.wanted = choice
    note.reason = reasons.RULE
    return choice
