"""Look-ahead: carbon now, and the expected carbon of the turns that follow.

Our extension of the paper's rule. For each candidate it adds to the carbon of this turn the
value of a finite-horizon dynamic programme over what is likely to follow, given that the
candidate will hold the cache:

* a state is (deployment that holds the cache, difficulty class). A turn's class is how many
  models miss the quality floor for it: that is all of its difficulty that a choice depends on;
* the next turn has the class of this one with probability ``persistence``, and else a class
  drawn from what the session's difficulties so far suggest (:mod:`..session_difficulty`);
* history grows by the session's **typical turn**: the geometric mean of its prompts after the
  first and the mean of its outputs, each drawn from the training half's to the session's own as
  turns are seen. A few huge prompts would dominate an arithmetic mean, and they come with cuts
  of the context that give back what they added; neither is what the next turns look like;
* another turn follows with the survival probability, and it finds the cache live with the
  probability of a gap within ``idle_s``;
* carbon intensity stays as it is now.

All of these come from the training half and from the session itself. ``docs/look-ahead.md``
says what each of them brings.
"""

from __future__ import annotations

import math

import numpy as np

from carbonrouter_core.compiled import Array, Record, jit, jit_borrowing
from carbonrouter_core.fleet import costs
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.fleet.turn_costs import prefill_work_on
from carbonrouter_core.quality.session_difficulty import AHEAD_TURNS, coming_difficulty, own_weight
from carbonrouter_core.routing.kernel import (
    Rules,
    Turn,
    cheapest,
    predicted_output,
)
from carbonrouter_core.routing.policies import reasons
from carbonrouter_core.routing.policies.gate import survival_after

HORIZON_TURNS = AHEAD_TURNS
"""Turns looked ahead at most; 12 close less of the gap on agent data, 48 and 96 no more."""
NEGLIGIBLE = 0.01
"""Chance of reaching a turn below which the horizon ends."""


@jit
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
    """The deployment of least carbon now and expected later."""
    myopic = cheapest(carbon_g)
    note.wanted = myopic
    if myopic < 0:
        return myopic
    states = _states(fleet, rules, cached, g_per_j, carbon_g)
    to_come = _expected(fleet, rules, turn, session, cached, g_per_j, states)
    best, least = -1, np.inf
    for s in range(states.size):
        d = states[s]
        total = carbon_g[d] + to_come[s]
        if total < least or (total == least and d < best):
            best, least = d, total
    home = note.home
    if home < 0:
        note.reason = reasons.FRESH
    elif best == home:
        note.reason = reasons.STAYED if myopic == home else reasons.AHEAD_STAYED
    elif carbon_g[home] == np.inf:
        note.reason = reasons.FORCED
    else:
        note.reason = reasons.MOVED if best == myopic else reasons.AHEAD_MOVED
    return best


@jit
def outlook(
    fleet: Fleet,
    rules: Rules,
    turn: Turn,
    session: Record,
    cached: Array,
    g_per_j: Array,
    carbon_g: Array,
    to_come_g: Array,
) -> None:
    """Fill ``to_come_g`` (D,): expected carbon of the turns that follow if this one is served
    there; NaN for the deployments that are not worth considering."""
    to_come_g[:] = np.nan
    states = _states(fleet, rules, cached, g_per_j, carbon_g)
    to_come = _expected(fleet, rules, turn, session, cached, g_per_j, states)
    for s in range(states.size):
        to_come_g[states[s]] = to_come[s]


@jit
def _states(fleet: Fleet, rules: Rules, cached: Array, g_per_j: Array, carbon_g: Array) -> Array:
    """The deployments worth considering, in order.

    Those that hold something, and of each pair the one in the region of least carbon a joule
    (of those feasible now, where some are), unless another pair of the same model is at least
    as good in every respect.
    """
    n_pairs = fleet.pair_model.size
    best = np.empty(n_pairs, np.int64)
    slopes = np.empty((n_pairs, 3))
    for pair in range(n_pairs):
        best[pair] = fleet.pair_start[pair]
        for d in range(fleet.pair_start[pair] + 1, fleet.pair_start[pair + 1]):
            best_so_far = best[pair]
            cleaner = g_per_j[fleet.region[d]] < g_per_j[fleet.region[best_so_far]]
            feasible, was_feasible = carbon_g[d] < np.inf, carbon_g[best_so_far] < np.inf
            if (feasible and not was_feasible) or (cleaner and feasible == was_feasible):
                best[pair] = d
        slopes[pair] = _slopes(fleet, rules, best[pair], g_per_j)
    states = np.empty(fleet.pair.size, np.int64)
    n = 0
    for d in range(fleet.pair.size):
        keep = cached[d] > 0.0
        pair = fleet.pair[d]
        if not keep and best[pair] == d:
            keep = True
            for other in range(n_pairs):
                if other == pair or fleet.pair_model[other] != fleet.pair_model[pair]:
                    continue
                fits = fleet.fit_tokens[other] >= fleet.fit_tokens[pair]
                serves = carbon_g[best[other]] < np.inf or carbon_g[d] == np.inf
                if fits and serves and _as_good(slopes, other, pair, other < pair):
                    keep = False
                    break
        if keep:
            states[n] = d
            n += 1
    return states[:n]


@jit_borrowing
def _as_good(slopes: Array, first: int, other: int, also_if_equal: bool) -> bool:
    """Whether ``one`` costs no more than ``other`` in every respect, and less in some unless
    being equal is enough."""
    less = also_if_equal
    for i in range(slopes.shape[1]):
        if slopes[first, i] > slopes[other, i]:
            return False
        less = less or slopes[first, i] < slopes[other, i]
    return less


@jit_borrowing
def _slopes(
    fleet: Fleet, rules: Rules, deployment: int, g_per_j: Array
) -> tuple[float, float, float]:
    """Carbon on a deployment, in g, of a token of prefill work, of an output token, and of an
    output token for each token of context."""
    pair = fleet.pair[deployment]
    g = g_per_j[fleet.region[deployment]]
    work_g, output_g = fleet.work_j[pair] * g, fleet.output_j[pair] * g
    if rules.embodied:
        gpus, decode_ms = fleet.n_gpus[pair], fleet.output_ms[pair]
        work_g += costs.embodied_g(gpus, fleet.prefill_ms[pair], fleet.gpu_embodied_kg[pair])
        output_g += costs.embodied_g(gpus, decode_ms, fleet.gpu_embodied_kg[pair])
    return work_g, output_g, fleet.context_j[pair] * g


@jit
def class_shares(fleet: Fleet, rules: Rules, mean: float, spread: float) -> Array:
    """Chance of each difficulty class, 0 to M models missing the floor, shape (M + 1,)."""
    n_models = fleet.theta.size
    shares = np.zeros(n_models + 1)
    above = 1.0
    for j in range(n_models):
        # class > j: the model of rank j misses, difficulty + margin > its ability
        cut = fleet.theta_ascending[j] - rules.ability_margin - mean
        missed = 1.0 if cut < 0.0 else 0.0
        if spread > 0.0:
            missed = 0.5 * math.erfc(cut / (spread * math.sqrt(2.0)))
        shares[j] = above - missed
        above = missed
    shares[n_models] = above
    return shares


@jit_borrowing
def typical_turn(rules: Rules, session: Record) -> tuple[float, float]:
    """Prompt and output tokens that a turn of this session typically has."""
    seen = session.turns - 1  # prompts after the first, this one included; outputs before it
    prompt_log, output = rules.typical_prompt_log, rules.mean_output_tokens
    if seen > 0:
        w = own_weight(seen, rules.prompt_log_correlation)
        prompt_log += w * (session.later_prompt_logs / seen - prompt_log)
        w = own_weight(seen, rules.output_correlation)
        output += w * (session.output_tokens / seen - output)
    return math.expm1(prompt_log), output


@jit
def _expected(
    fleet: Fleet,
    rules: Rules,
    turn: Turn,
    session: Record,
    cached: Array,
    g_per_j: Array,
    states: Array,
) -> Array:
    """Expected carbon of the turns that follow, by holder of the cache, shape (states,)."""
    n_states, n_models = states.size, fleet.theta.size
    n_classes = n_models + 1
    history = turn.history_tokens + turn.prompt_tokens + predicted_output(rules, session)
    p, o = typical_turn(rules, session)
    mean, variance = coming_difficulty(
        session.recent_turns,
        session.recent_difficulty,
        session.recent_squares,
        rules.difficulty_mean,
        rules.difficulty_spread,
        rules.difficulty_correlation,
        rules.own_noise,
    )
    shares = class_shares(fleet, rules, mean, math.sqrt(variance))
    now_class = 0
    for m in range(n_models):
        now_class += fleet.theta[m] < turn.difficulty + rules.ability_margin
    slopes = np.empty((n_states, 3))
    for s in range(n_states):
        slopes[s] = _slopes(fleet, rules, states[s], g_per_j)
    last = 0
    reach = np.empty(HORIZON_TURNS)
    chance = 1.0
    while last < HORIZON_TURNS and chance > NEGLIGIBLE:
        reach[last] = survival_after(rules, session.turns + last)
        chance *= reach[last]
        last += 1
    value = np.zeros((n_states, n_classes))  # expected carbon after the turn, by class of it
    cold = np.empty(n_states)
    warm = np.empty(n_states)
    rank = np.empty(n_states, np.int64)
    whole = np.empty(n_models)
    held = np.empty(n_models)
    context = np.empty(n_models)
    best = np.empty(n_classes)
    for step in range(last - 1, -1, -1):
        h = history + step * (p + o)
        for m in range(n_models):
            share, window = fleet.global_share[m], fleet.window_tokens[m]
            whole[m] = prefill_work_on(fleet, m, h + p)
            held[m] = prefill_work_on(fleet, m, h)
            context[m] = costs.decode_context(h, p, o, share, window)
        able = -1
        for s in range(n_states):
            pair = fleet.pair[states[s]]
            m = fleet.pair_model[pair]
            rank[s] = -1
            if h + p + o <= fleet.fit_tokens[pair]:
                rank[s] = fleet.rank[m]
                able = max(able, rank[s])
            decode_g = o * (slopes[s, 1] + slopes[s, 2] * context[m])
            cold[s] = whole[m] * slopes[s, 0] + decode_g
            warm[s] = (whole[m] - held[m]) * slopes[s, 0] + decode_g
            tokens = cached[states[s]]
            if rules.copies_all and tokens > 0.0:
                cold[s] -= prefill_work_on(fleet, m, tokens) * slopes[s, 0]
        for j in range(n_classes):
            best[j] = np.inf
            for s in range(n_states):
                if rank[s] >= 0 and rank[s] >= min(j, able) and cold[s] + value[s, j] < best[j]:
                    best[j] = cold[s] + value[s, j]
            if able < 0:
                best[j] = 0.0  # too long for every model: unserved, costs nothing
        live = rules.gap_within_idle
        for s in range(n_states):
            mixed = 0.0
            for j in range(n_classes):
                stay = np.inf
                if rank[s] >= 0 and rank[s] >= min(j, able):
                    stay = warm[s] + value[s, j]
                value[s, j] = live * min(stay, best[j]) + (1.0 - live) * best[j]
                mixed += shares[j] * value[s, j]
            for j in range(n_classes):
                value[s, j] = reach[step] * (
                    rules.persistence * value[s, j] + (1.0 - rules.persistence) * mixed
                )
    return value[:, now_class].copy()
