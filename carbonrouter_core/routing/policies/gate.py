"""The gate: hold a session that would only come straight back (docs/design.md, section 8).

A move from home is held back if p_back >= threshold and p_back · rebuild > saving, where

    p_back = S(n) · P(gap <= idle) · P(home is the cheapest next, rebuilt, the choice warm)

and if, beyond the rule as first stated, the **next gain** exceeds the saving too: the expected
carbon of the next turn after moving, less that after holding. The stated rule weighs the way back,
but not what staying costs the next turn where it does not need home; by itself it emitted more than
no gate would. ``docs/gate.md`` has the figures, and how the default threshold follows from the
training half.
"""

from __future__ import annotations

import math

import numpy as np

from carbonrouter_core.compiled import Array, Record, jit, jit_borrowing
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.quality.session_difficulty import own_weight
from carbonrouter_core.routing.kernel import (
    Rules,
    Turn,
    best_fitting_theta,
    predicted_output,
    price,
    recompute_g,
)


@jit_borrowing
def survival_after(rules: Rules, turns: int) -> float:
    """S(n): the chance of another turn after ``turns`` turns."""
    return rules.survival[min(turns, rules.survival.size) - 1]


@jit_borrowing
def next_difficulty(rules: Rules, session: Record) -> tuple[float, float]:
    """Mean and standard deviation of the next turn's difficulty, given the session so far.

    A session effect plus noise: the mean is drawn towards the session's own as turns are seen.
    """
    n, rho = session.turns, rules.difficulty_correlation
    w = own_weight(n, rho)
    mean = rules.difficulty_mean + w * (session.difficulty / n - rules.difficulty_mean)
    return mean, rules.difficulty_spread * math.sqrt(1.0 - rho * w)


@jit_borrowing
def next_turn(rules: Rules, turn: Turn, session: Record) -> Turn:
    """The turn expected to follow ``turn``; its difficulty is not set."""
    output = predicted_output(rules, session)
    history = turn.history_tokens + turn.prompt_tokens + output
    # the training mean and each prompt after the first, this one included: n terms in turn n
    prompt = (rules.mean_later_prompt_tokens + session.later_prompt_tokens) / session.turns
    return Turn(history, prompt, output, history + prompt + output, np.nan, turn.user)


@jit
def look_back(
    fleet: Fleet,
    rules: Rules,
    turn: Turn,
    session: Record,
    cached: Array,
    g_per_j: Array,
    choice: int,
    home: int,
) -> tuple[float, float, float]:
    """(p_back, rebuild carbon, next gain) of moving from ``home`` to ``choice`` on this turn; g.

    All three at this turn's intensity and without a latency ceiling. The next gain is the
    carbon of the next turn after moving less that after holding, times the chance that it comes
    while caches live, averaged over its likely difficulties; negative where staying costs.
    """
    following = next_turn(rules, turn, session)
    left_cached = cached.copy() if rules.copies_all else np.zeros_like(cached)
    moved_g, held_g = np.empty_like(cached), np.empty_like(cached)
    rebuild_g = recompute_g(
        fleet, rules, home, left_cached[home], following.history_tokens, g_per_j
    )
    next_cached = left_cached.copy()
    next_cached[choice] = following.history_tokens
    price(fleet, rules, following, -np.inf, next_cached, g_per_j, moved_g)
    next_cached[choice] = left_cached[choice]
    next_cached[home] = following.history_tokens
    price(fleet, rules, following, -np.inf, next_cached, g_per_j, held_g)
    after_move, after_hold = _best_of_models(fleet, moved_g), _best_of_models(fleet, held_g)
    best_theta = best_fitting_theta(fleet, following.context_tokens)
    mean, spread = next_difficulty(rules, session)
    wins, gain_g = 0, 0.0
    for z in rules.normal_quantiles:
        needed = min(mean + spread * z + rules.ability_margin, best_theta)
        moved = _cheapest_able(fleet, after_move, moved_g, needed)
        held = _cheapest_able(fleet, after_hold, held_g, needed)
        wins += moved == home
        if moved >= 0:
            gain_g += moved_g[moved] - held_g[held]
    reach = survival_after(rules, session.turns) * rules.gap_within_idle
    n = rules.normal_quantiles.size
    return reach * wins / n, rebuild_g, reach * gain_g / n


@jit
def _best_of_models(fleet: Fleet, carbon_g: Array) -> Array:
    """Of each model the deployment that costs least, -1 where none fits, shape (models,)."""
    best = np.full(fleet.theta.size, -1)
    for d in range(carbon_g.size):
        m = fleet.pair_model[fleet.pair[d]]
        if carbon_g[d] < np.inf and (best[m] < 0 or carbon_g[d] < carbon_g[best[m]]):
            best[m] = d
    return best


@jit_borrowing
def _cheapest_able(fleet: Fleet, best_of_model: Array, carbon_g: Array, needed: float) -> int:
    """Of ``best_of_model`` the cheapest whose ability is ``needed`` at least, -1 if none."""
    best = -1
    for m in range(best_of_model.size):
        d = best_of_model[m]
        able = d >= 0 and fleet.theta[m] >= needed
        if able and (best < 0 or carbon_g[d] < carbon_g[best]):
            best = d
    return best
