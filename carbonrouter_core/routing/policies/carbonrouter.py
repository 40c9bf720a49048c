"""CarbonRouter: least cache-aware carbon, then the gate."""

from __future__ import annotations

import numpy as np

from carbonrouter_core.compiled import Array, Record, jit_borrowing
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.routing.kernel import Rules, Turn, cheapest
from carbonrouter_core.routing.policies import reasons
from carbonrouter_core.routing.policies.gate import look_back


@jit_borrowing
def choose_without_gate(cached: Array, carbon_g: Array, note: Record) -> int:
    """The deployment of least carbon, recomputation of the history charged to each."""
    choice, home = cheapest(carbon_g), note.home
    note.wanted = choice
    if home < 0:
        note.reason = reasons.FRESH
    elif choice == home:
        note.reason = reasons.STAYED
    else:
        note.reason = reasons.FORCED if carbon_g[home] == np.inf else reasons.MOVED
    return choice


@jit_borrowing
def choose(
    fleet: Fleet,
    rules: Rules,
    turn: Turn,
    session: Record,
    cached: Array,
    g_per_j: Array,
    carbon_g: Array,
    note: Record,
) -> int:
    """The same, unless it is a move that the session would likely take back at a loss."""
    choice = choose_without_gate(cached, carbon_g, note)
    home = note.home
    if home < 0 or choice == home or carbon_g[home] == np.inf or rules.gate_threshold >= 1.0:
        return choice
    p_back, rebuild_g, next_gain_g = look_back(
        fleet, rules, turn, session, cached, g_per_j, choice, home
    )
    note.p_back = p_back
    note.rebuild_g = rebuild_g
    note.next_gain_g = next_gain_g
    note.saving_g = carbon_g[home] - carbon_g[choice]
    comes_back = p_back >= rules.gate_threshold and p_back * rebuild_g > note.saving_g
    if comes_back and next_gain_g > note.saving_g:
        note.reason = reasons.HELD
        return home
    return choice
