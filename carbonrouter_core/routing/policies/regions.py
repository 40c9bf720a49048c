"""Cleanest and nearest region: pick the region by itself, then the cheapest candidate in it."""

from __future__ import annotations

import numpy as np

from carbonrouter_core.compiled import Array, Record, jit_borrowing
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.routing.kernel import Turn
from carbonrouter_core.routing.policies import reasons


@jit_borrowing
def choose(
    fleet: Fleet, turn: Turn, intensity: Array, carbon_g: Array, note: Record, nearest: bool
) -> int:
    """Least carbon within the first region that has a feasible candidate.

    The first is that of the shortest round trip, or of the lowest intensity (without PUE).
    """
    rank = fleet.rtt_ms[turn.user] if nearest else intensity
    best = -1
    for d in range(carbon_g.size):
        if carbon_g[d] == np.inf:
            continue
        here = rank[fleet.region[d]]
        there = rank[fleet.region[best]] if best >= 0 else np.inf
        if here < there or (here == there and carbon_g[d] < carbon_g[best]):
            best = d
    note.wanted = best
    note.reason = reasons.RULE
    return best
