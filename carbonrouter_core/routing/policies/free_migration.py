"""Free migration: a lower bound no router can reach.

Every turn finds its whole history cached on every deployment, even after expiry, and the
output length is known. It is charged so, unlike all other policies.
"""

from __future__ import annotations

from carbonrouter_core.compiled import Array, Record, jit_borrowing
from carbonrouter_core.routing.kernel import cheapest
from carbonrouter_core.routing.policies import reasons


@jit_borrowing
def choose(carbon_g: Array, note: Record) -> int:
    """The deployment of least carbon where all have the history."""
    choice = cheapest(carbon_g)
    note.wanted = choice
    note.reason = reasons.RULE
    return choice
