"""Hindsight optimum: the least carbon a session could have emitted, its future known.

With ``copies=latest`` the cache lives on one deployment at most, whatever was decided: what
that deployment holds, and whether it is still live, depends only on the turns before. So the
state is the deployment that holds the cache, and a dynamic programme over the turns of a
session is exact:

    V_i(x) = min over d of  carbon_i(d | cache on x) + V_{i+1}(d)

With ``copies=all`` the state is what every deployment holds, and there are too many: a beam
search keeps the :data:`WIDTH` most promising paths so far (labels). A label is worth its carbon
so far and V of its last deployment, which it can always still reach: the copies it has elsewhere
can only save. So the best label never gets worse, and the path found is at most what the dynamic
programme gives. A label is dropped where another one on the same deployment has emitted no more
and holds at least as much everywhere. The paths of the other policies (*seeds*) are charged too,
and the best of all is taken, session by session. A second search then reckons in V with the
copies along that path. The result is the best found, not proven to be the least.

Carbon is that of the true outputs. What a latency ceiling allows is judged by the predicted
outputs, as for the policies that this bounds: with the true ones the sets would differ, and what
is here could emit more than they do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from carbonrouter_core.compiled import Array, Record, jit, jit_borrowing
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.routing import kv_cache
from carbonrouter_core.routing.kernel import (
    Rules,
    Turn,
    carbon_per_joule,
    price,
    price_feasible,
    required_theta,
)
from carbonrouter_core.routing.policies import reasons

WIDTH = 16
"""Labels kept."""
ROUNDS = 2
"""Searches: the second one knows which copies there are along the best path of the first, and
finds up to 0.6 % less (agents, Long-lived cache)."""


class Future(NamedTuple):
    """The turns of one session, one entry a turn; tokens as floats."""

    history: np.ndarray
    prompt: np.ndarray
    output: np.ndarray
    predicted_output: np.ndarray
    """What the other policies expect of ``output``."""
    context: np.ndarray
    """h + p + o"""
    difficulty: np.ndarray
    start_s: np.ndarray
    user: np.ndarray
    intensity: np.ndarray
    """(turns, regions)"""


@jit_borrowing
def choose(session: Record, note: Record) -> int:
    """Where the plan made beforehand sends this turn."""
    note.wanted = session.planned
    note.reason = reasons.RULE
    return session.planned


@jit
def plan_session(fleet: Fleet, rules: Rules, future: Future, seeds: Array) -> Array:
    """The deployments of least total carbon for the turns of one session, -1 for unserved.

    Exact for ``copies=latest``; else the best found, at most that of ``seeds`` (S, turns), the
    deployments other policies chose. Ties go to staying, then to deployment order.
    """
    n = future.history.size
    copies = np.zeros((n, fleet.pair.size))
    along = np.empty_like(copies)
    paths = np.empty((2 + seeds.shape[0], n), np.int64)
    paths[2:] = seeds
    best, best_g, improved = paths[0], np.inf, True
    for rounds in range(ROUNDS):
        to_go, next_of = least_to_go(fleet, rules, future, copies)
        paths[0] = _follow(fleet, future, next_of)
        if not rules.copies_all:
            return paths[0]
        paths[1] = search(fleet, rules, future, to_go)
        improved = False
        for p in range(paths.shape[0] if rounds == 0 else 2):
            path_carbon_g = path_g(fleet, rules, future, paths[p], along)
            if path_carbon_g < best_g:
                best, best_g, improved = paths[p].copy(), path_carbon_g, True
                copies[:] = along
        if not improved:
            break
    return best


@jit
def held_tokens(future: Future, served: Array, idle_s: float) -> Array:
    """Live tokens at each turn on the deployment of the last served turn, shape (turns,).

    Zero where nothing is live.
    """
    held = np.zeros(served.size)
    tokens, since_s = 0.0, 0.0
    for i in range(served.size):
        start_s = future.start_s[i]
        tokens = 0.0 if start_s - since_s > idle_s else min(tokens, future.history[i])
        held[i] = tokens
        if served[i]:
            tokens, since_s = future.context[i], start_s
    return held


@jit
def _turn(future: Future, i: int) -> Turn:
    return Turn(
        future.history[i],
        future.prompt[i],
        future.output[i],
        future.context[i],
        future.difficulty[i],
        future.user[i],
    )


@jit
def least_to_go(fleet: Fleet, rules: Rules, future: Future, copies: Array) -> tuple[Array, Array]:
    """The dynamic programme: (V, best move), by turn and holder of the cache.

    ``copies`` (turns, D): live tokens found on a deployment that a session moves to; zero where
    one copy is kept.
    V has the shape (turns + 1, D), zero after the last turn; the moves (turns, D + 1), their last
    column without a cache anywhere.
    """
    n, n_deployments = future.history.size, fleet.pair.size
    served = future.context <= fleet.fit_tokens.max()
    held = held_tokens(future, served, rules.idle_s)
    g_per_j = np.empty(fleet.pue.size)
    cached = np.empty(n_deployments)
    cold_g = np.empty(n_deployments)
    warm_g = np.empty(n_deployments)
    to_go = np.zeros((n + 1, n_deployments))
    next_of = np.full((n, n_deployments + 1), -1)
    ceiling = rules.latency_ceiling_ms < np.inf
    for i in range(n - 1, -1, -1):
        to_go[i] = to_go[i + 1]
        if not served[i]:
            continue
        turn = _turn(future, i)
        carbon_per_joule(fleet, future.intensity[i], g_per_j)
        cached[:] = held[i]
        price(fleet, rules, turn, required_theta(fleet, rules, turn), cached, g_per_j, warm_g)
        away, away_g = -1, np.inf
        for x in range(-1, n_deployments):  # -1: there is no cache anywhere
            if x < 0 or (ceiling and held[i] > 0.0):
                # which candidates are fast enough depends on where the cache is
                cached[:] = copies[i]
                if x >= 0:
                    cached[x] = held[i]
                price_feasible(
                    fleet, rules, turn, future.predicted_output[i], cached, g_per_j, cold_g
                )
                best = _least(cold_g, to_go[i + 1])
                best_g = cold_g[best] + to_go[i + 1, best]
                if x < 0:
                    away, away_g = best, best_g
            else:
                best, best_g = away, away_g
                if held[i] > 0.0 and warm_g[x] + to_go[i + 1, x] <= away_g:
                    best, best_g = x, warm_g[x] + to_go[i + 1, x]
            next_of[i, x] = best  # -1 is the last column
            if x >= 0:
                to_go[i, x] = best_g
    return to_go, next_of


@jit
def _least(carbon_g: Array, to_go: Array) -> int:
    best, least = -1, np.inf
    for d in range(carbon_g.size):
        if carbon_g[d] + to_go[d] < least:
            best, least = d, carbon_g[d] + to_go[d]
    return best


@jit
def _follow(fleet: Fleet, future: Future, next_of: Array) -> Array:
    """The path that the best moves of :func:`least_to_go` make."""
    plan = np.full(future.history.size, -1)
    holder = fleet.pair.size
    for i in range(plan.size):
        if next_of[i, holder] >= 0:
            holder = next_of[i, holder]
            plan[i] = holder
    return plan


@jit
def path_g(fleet: Fleet, rules: Rules, future: Future, path: Array, copies: Array) -> float:
    """Carbon of serving a session along ``path`` (turns,); infinite where a turn may not go so.

    Fills ``copies`` (turns, D) with the live tokens found at each turn.
    """
    n_deployments = fleet.pair.size
    cached, last_s = np.zeros(n_deployments), np.zeros(n_deployments)
    carbon_g, g_per_j = np.empty(n_deployments), np.empty(fleet.pue.size)
    most = fleet.fit_tokens.max()
    total_g = 0.0
    for i in range(path.size):
        start_s, d = future.start_s[i], path[i]
        kv_cache.begin_turn(cached, last_s, future.history[i], start_s, rules.idle_s)
        copies[i] = cached
        if future.context[i] > most:
            continue
        if d < 0:
            return np.inf
        carbon_per_joule(fleet, future.intensity[i], g_per_j)
        price_feasible(
            fleet, rules, _turn(future, i), future.predicted_output[i], cached, g_per_j, carbon_g
        )
        total_g += carbon_g[d]
        kv_cache.end_turn(cached, last_s, d, future.context[i], start_s, rules.copies_all)
    return total_g


@jit
def search(fleet: Fleet, rules: Rules, future: Future, to_go: Array) -> Array:
    """The best path of a beam search, -1 for unserved; ``to_go`` as of :func:`least_to_go`."""
    n, n_deployments = future.history.size, fleet.pair.size
    g_per_j = np.empty(fleet.pue.size)
    cached, last_s = np.zeros((WIDTH, n_deployments)), np.zeros((WIDTH, n_deployments))
    new_cached, new_last_s = np.zeros_like(cached), np.zeros_like(last_s)
    carbon_g = np.empty((WIDTH, n_deployments))
    spent_g, worth_g, new_spent_g = np.zeros(WIDTH), np.empty(WIDTH), np.empty(WIDTH)
    parent, chosen = np.full((n, WIDTH), -1), np.full((n, WIDTH), -1)
    lacks = np.full((WIDTH, WIDTH), -1)
    labels = 1
    most = fleet.fit_tokens.max()
    for i in range(n):
        start_s = future.start_s[i]
        for k in range(labels):
            kv_cache.begin_turn(cached[k], last_s[k], future.history[i], start_s, rules.idle_s)
            parent[i, k] = k
        if future.context[i] > most:
            continue
        turn = _turn(future, i)
        carbon_per_joule(fleet, future.intensity[i], g_per_j)
        for k in range(labels):
            price_feasible(
                fleet, rules, turn, future.predicted_output[i], cached[k], g_per_j, carbon_g[k]
            )
        _compare_labels(cached, last_s, labels, lacks)
        n_new = 0
        for k in range(labels):
            for d in range(n_deployments):
                g = spent_g[k] + carbon_g[k, d]
                worth = g + to_go[i + 1, d]
                if worth == np.inf or (n_new == WIDTH and worth >= worth_g[n_new - 1]):
                    continue
                if _covered(lacks, labels, spent_g, carbon_g, k, d, g):
                    continue
                n_new = min(n_new + 1, WIDTH)
                at = n_new - 1
                while at > 0 and worth_g[at - 1] > worth:
                    worth_g[at], new_spent_g[at] = worth_g[at - 1], new_spent_g[at - 1]
                    parent[i, at], chosen[i, at] = parent[i, at - 1], chosen[i, at - 1]
                    at -= 1
                worth_g[at], new_spent_g[at], parent[i, at], chosen[i, at] = worth, g, k, d
        for k in range(n_new):
            new_cached[k], new_last_s[k] = cached[parent[i, k]], last_s[parent[i, k]]
            context, d = future.context[i], chosen[i, k]
            kv_cache.end_turn(new_cached[k], new_last_s[k], d, context, start_s, True)
        cached, new_cached = new_cached, cached
        last_s, new_last_s = new_last_s, last_s
        spent_g, new_spent_g = new_spent_g, spent_g
        labels = n_new
    path = np.full(n, -1)
    label = np.argmin(spent_g[:labels])
    for i in range(n - 1, -1, -1):
        path[i] = chosen[i, label]
        label = parent[i, label]
    return path


@jit
def _compare_labels(cached: Array, last_s: Array, labels: int, lacks: Array) -> None:
    """Fill ``lacks[j, k]``: the one deployment where label j holds less than k, or for a shorter
    time; -1 where there is none, -2 where there are several."""
    for j in range(labels):
        for k in range(labels):
            lacks[j, k] = -1
            for d in range(cached.shape[1]):
                less = cached[j, d] < cached[k, d]
                if less or (cached[k, d] > 0.0 and last_s[j, d] < last_s[k, d]):
                    lacks[j, k] = d if lacks[j, k] == -1 else -2
                    if lacks[j, k] == -2:
                        break


@jit
def _covered(
    lacks: Array, labels: int, spent_g: Array, carbon_g: Array, k: int, d: int, g: float
) -> bool:
    """Whether another label that goes to ``d`` has then emitted no more and holds no less."""
    for j in range(labels):
        if j != k and (lacks[j, k] == -1 or lacks[j, k] == d):
            other_g = spent_g[j] + carbon_g[j, d]
            if other_g < g or (other_g == g and j < k):
                return True
    return False
