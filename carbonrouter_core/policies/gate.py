"""The gate: hold a session that would only come straight back (DESIGN §8)."""

from __future__ import annotations

import math

import numpy as np

from carbonrouter_core.compiled import Array, Record, jit
from carbonrouter_core.deployments import Fleet
from carbonrouter_core.kernel import (
    Rules,
    Turn,
    best_fitting_theta,
    predicted_output,
    price,
    recompute_g,
)


@jit
def survival_after(rules: Rules, turns: int) -> float:
    """S(n): the chance of another turn after ``turns`` turns."""
    return rules.survival[min(turns, rules.survival.size) - 1]


@jit
def next_difficulty(rules: Rules, session: Record) -> tuple[float, float]:
    """Mean and standard deviation of the next turn's difficulty, given the session so far.

    A session effect plus noise: the mean is drawn towards the session's own as turns are seen.
    """
    n, rho = session.turns, rules.difficulty_correlation
    w = n * rho / (1.0 + (n - 1) * rho)
    mean = rules.difficulty_mean + w * (session.difficulty / n - rules.difficulty_mean)
    return mean, rules.difficulty_spread * math.sqrt(1.0 - rho * w)


@jit
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
) -> tuple[float, float]:
    """(p_back, rebuild carbon in g) of moving from ``home`` to ``choice`` on this turn.

    p_back = S(n) · P(gap <= idle) · P(home is the cheapest for the next turn, its cache
    rebuilt, the choice warm), at this turn's intensity and without a latency ceiling.
    """
    following = next_turn(rules, turn, session)
    next_cached = cached.copy() if rules.copies_all else np.zeros_like(cached)
    next_cached[choice] = following.history_tokens
    carbon_g = np.empty_like(cached)
    price(fleet, rules, following, -np.inf, next_cached, g_per_j, carbon_g)
    p_home = _chance_cheapest(fleet, rules, session, following, carbon_g, home)
    p_back = survival_after(rules, session.turns) * rules.gap_within_idle * p_home
    rebuild_g = recompute_g(
        fleet, rules, home, next_cached[home], following.history_tokens, g_per_j
    )
    return p_back, rebuild_g


@jit
def _chance_cheapest(
    fleet: Fleet, rules: Rules, session: Record, following: Turn, carbon_g: Array, home: int
) -> float:
    """Share of the next turn's likely difficulties for which ``home`` costs least."""
    n_models = fleet.theta.size
    best_of_model = np.full(n_models, -1)
    for d in range(carbon_g.size):
        m = fleet.pair_model[fleet.pair[d]]
        if carbon_g[d] < np.inf and (
            best_of_model[m] < 0 or carbon_g[d] < carbon_g[best_of_model[m]]
        ):
            best_of_model[m] = d
    best_theta = best_fitting_theta(fleet, following.context_tokens)
    mean, spread = next_difficulty(rules, session)
    wins = 0
    for z in rules.normal_quantiles:
        needed = min(mean + spread * z + rules.ability_margin, best_theta)
        best = -1
        for m in range(n_models):
            d = best_of_model[m]
            able = d >= 0 and fleet.theta[m] >= needed
            if able and (best < 0 or carbon_g[d] < carbon_g[best]):
                best = d
        wins += best == home
    return wins / rules.normal_quantiles.size
