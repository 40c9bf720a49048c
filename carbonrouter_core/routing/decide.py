"""The decision: what a policy sees of a turn, and what it makes of it.

The replay, the story of a session and the online API all call these lines.
"""

from __future__ import annotations

import numpy as np

from carbonrouter_core.compiled import Array, Record, jit_borrowing
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.routing import kv_cache
from carbonrouter_core.routing.kernel import (
    Rules,
    Turn,
    carbon_per_joule,
    predicted_output,
    price_feasible,
)
from carbonrouter_core.routing.policies import choose, reasons


@jit_borrowing
def price_candidates(
    knows_output: bool,
    fleet: Fleet,
    rules: Rules,
    turn: Turn,
    session: Record,
    cached: Array,
    intensity: Array,
    g_per_j: Array,
    carbon_g: Array,
) -> tuple[Turn, bool]:
    """The turn as a policy sees it, and whether no candidate is within the latency ceiling.

    Fills ``g_per_j`` (R,) and ``carbon_g`` (D,), infinite where infeasible.
    """
    predicted_tokens = predicted_output(rules, session)
    if not knows_output:
        turn = Turn(
            turn.history_tokens,
            turn.prompt_tokens,
            predicted_tokens,
            turn.context_tokens,
            turn.difficulty,
            turn.user,
        )
    carbon_per_joule(fleet, intensity, g_per_j)
    missed = price_feasible(fleet, rules, turn, predicted_tokens, cached, g_per_j, carbon_g)
    return turn, missed


@jit_borrowing
def decide(
    code: int,
    knows_output: bool,
    fleet: Fleet,
    rules: Rules,
    turn: Turn,
    session: Record,
    cached: Array,
    intensity: Array,
    g_per_j: Array,
    carbon_g: Array,
    note: Record,
) -> int:
    """Pick a deployment for ``turn``, -1 where none holds it, and fill ``note``.

    The one place where a decision is made: the replay and the online API both call it.
    ``session`` counts this turn; ``cached`` holds live tokens only.
    """
    note.wanted = -1
    note.home = kv_cache.home(cached)
    note.reason = reasons.UNSERVED
    note.missed_ceiling = False
    note.p_back = np.nan
    note.saving_g = np.nan
    note.rebuild_g = np.nan
    note.next_gain_g = np.nan
    turn, missed = price_candidates(
        knows_output, fleet, rules, turn, session, cached, intensity, g_per_j, carbon_g
    )
    choice = choose(code, fleet, rules, turn, session, cached, intensity, g_per_j, carbon_g, note)
    if choice < 0:
        note.reason = reasons.UNSERVED
        return choice
    note.missed_ceiling = missed
    return choice
