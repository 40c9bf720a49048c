"""Largest and smallest model: by total parameters among the feasible, then least carbon."""

from __future__ import annotations

import numpy as np

from carbonrouter_core.compiled import Array, Record, jit_borrowing
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.routing.policies import reasons


@jit_borrowing
def choose(fleet: Fleet, largest: bool, carbon_g: Array, note: Record) -> int:
    """The feasible deployment of the largest (or smallest) model; ties by carbon."""
    best, best_size = -1, np.inf
    for d in range(carbon_g.size):
        if carbon_g[d] == np.inf:
            continue
        size = fleet.params_b[fleet.pair_model[fleet.pair[d]]]
        if largest:
            size = -size
        if size < best_size or (size == best_size and carbon_g[d] < carbon_g[best]):
            best, best_size = d, size
    note.wanted = best
    note.reason = reasons.RULE
    return best
