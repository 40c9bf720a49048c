"""Hindsight optimum: the least carbon a session could have emitted, its future known.

With ``copies=latest`` the cache lives on one deployment at most, whatever was decided: what
that deployment holds, and whether it is still live, depends only on the turns before. So the
state is the deployment that holds the cache, and a dynamic programme over the turns of a
session is exact:

    V_i(x) = min over d of  carbon_i(d | cache on x) + V_{i+1}(d)

With a latency ceiling the feasible candidates depend on x as well; the same recursion, asked
for each x, stays exact. With ``copies=all`` see :mod:`.label_search`.
"""

from __future__ import annotations

import numpy as np

from carbonrouter_core.compiled import Array, Record, jit
from carbonrouter_core.deployments import Fleet
from carbonrouter_core.kernel import (
    Rules,
    Turn,
    apply_ceiling,
    carbon_per_joule,
    price,
    required_theta,
)
from carbonrouter_core.policies import reasons


@jit
def choose(session: Record, note: Record) -> int:
    """Where the plan made beforehand sends this turn."""
    note.wanted = session.planned
    note.reason = reasons.RULE
    return session.planned


@jit
def held_tokens(
    history: Array, context: Array, start_s: Array, served: Array, idle_s: float
) -> Array:
    """Live tokens at each turn on the deployment of the last served turn, shape (turns,).

    All arrays are of one session; ``context`` is h + p + o. Zero where nothing is live.
    """
    held = np.zeros(history.size)
    tokens, since_s = 0.0, 0.0
    for i in range(history.size):
        tokens = 0.0 if start_s[i] - since_s > idle_s else min(tokens, history[i])
        held[i] = tokens
        if served[i]:
            tokens, since_s = context[i], start_s[i]
    return held


@jit
def solve_session(
    fleet: Fleet,
    rules: Rules,
    history: Array,
    prompt: Array,
    output: Array,
    difficulty: Array,
    start_s: Array,
    user: Array,
    intensity: Array,
) -> Array:
    """The deployments of least total carbon for the turns of one session, -1 for unserved.

    Exact for ``copies=latest``. Ties go to staying, then to deployment order.
    """
    n, n_deployments = history.size, fleet.pair.size
    h, p, o = history.astype(np.float64), prompt.astype(np.float64), output.astype(np.float64)
    context = h + p + o
    served = context <= fleet.fit_tokens.max()
    held = held_tokens(h, context, start_s, served, rules.idle_s)
    g_per_j = np.empty(fleet.pue.size)
    nothing = np.zeros(n_deployments)
    cached = np.empty(n_deployments)
    cold_g = np.empty(n_deployments)
    warm_g = np.empty(n_deployments)
    to_go = np.zeros(n_deployments)  # V of the turn after, by holder
    next_of = np.full((n, n_deployments + 1), -1)  # best move by holder; the last: no holder
    ceiling = rules.latency_ceiling_ms < np.inf
    for i in range(n - 1, -1, -1):
        if not served[i]:
            continue
        turn = Turn(h[i], p[i], o[i], context[i], difficulty[i], user[i])
        needed = required_theta(fleet, rules, turn)
        carbon_per_joule(fleet, intensity[i], g_per_j)
        price(fleet, rules, turn, needed, nothing, g_per_j, cold_g)
        if ceiling:
            apply_ceiling(fleet, rules, turn, nothing, cold_g)
        away = _least(cold_g, to_go)
        away_g = cold_g[away] + to_go[away]
        next_of[i, n_deployments] = away
        cached[:] = held[i]
        price(fleet, rules, turn, needed, cached, g_per_j, warm_g)
        for x in range(n_deployments):
            if ceiling and held[i] > 0.0:
                # what is fast enough, or the fastest, depends on where the cache is
                cached[:] = 0.0
                cached[x] = held[i]
                price(fleet, rules, turn, needed, cached, g_per_j, cold_g)
                apply_ceiling(fleet, rules, turn, cached, cold_g)
                next_of[i, x] = _least(cold_g, to_go)
                warm_g[x] = cold_g[next_of[i, x]] + to_go[next_of[i, x]]
            else:
                stay_g = warm_g[x] + to_go[x] if held[i] > 0.0 else np.inf
                next_of[i, x] = x if stay_g <= away_g else away
                warm_g[x] = min(stay_g, away_g)
        to_go[:] = warm_g
    plan = np.full(n, -1)
    holder = n_deployments
    for i in range(n):
        if served[i]:
            holder = next_of[i, holder]
            plan[i] = holder
    return plan


@jit
def _least(carbon_g: Array, to_go: Array) -> int:
    best, least = -1, np.inf
    for d in range(carbon_g.size):
        if carbon_g[d] + to_go[d] < least:
            best, least = d, carbon_g[d] + to_go[d]
    return best
