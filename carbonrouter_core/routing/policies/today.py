"""Today's practice: each session at a model and a region that were laid down, without a router.

A service with one site and one model is a mix with one place. The place of a session follows
from a hash of its id, so that it is the same in every run. Of the GPU types that have the model
there, the one of least cache-aware carbon serves.
"""

from __future__ import annotations

import numpy as np

from carbonrouter_core.compiled import Array, Record, jit_borrowing
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.routing.kernel import Rules, cheapest
from carbonrouter_core.routing.policies import reasons

STEPS = 2**32
"""Parts of the range from 0 to 1 that the hash of a session id tells apart."""


@jit_borrowing
def choose(fleet: Fleet, rules: Rules, session: Record, carbon_g: Array, note: Record) -> int:
    """A deployment of the session's model in its region.

    Where the turn fits on none: least carbon on the same model elsewhere, else on any model.
    """
    drawn = (session.start_at % STEPS) / STEPS
    place = 0
    while place < rules.mix_until.size - 1 and drawn >= rules.mix_until[place]:
        place += 1
    here, elsewhere = -1, -1
    least_here, least_elsewhere = np.inf, np.inf
    for d in range(carbon_g.size):
        if fleet.pair_model[fleet.pair[d]] != rules.mix_model[place]:
            continue
        if fleet.region[d] == rules.mix_region[place]:
            if carbon_g[d] < least_here:
                here, least_here = d, carbon_g[d]
        elif carbon_g[d] < least_elsewhere:
            elsewhere, least_elsewhere = d, carbon_g[d]
    if here < 0:
        here = elsewhere if elsewhere >= 0 else cheapest(carbon_g)
    note.wanted = here
    note.reason = reasons.RULE
    return here
