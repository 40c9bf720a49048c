"""Pricing the candidates of a turn: the compiled part that every policy shares.

Everything a decision depends on is in four values: the :class:`~.deployments.Fleet`, the
:class:`Rules` of the scenario, the :class:`Turn`, and the state of the session (its caches
and a :data:`SESSION` record), which :mod:`.session` carries from turn to turn.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from carbonrouter_core.compiled import Array, Record, jit, jit_borrowing
from carbonrouter_core.fleet import costs
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.fleet.turn_costs import (
    decode_ms,
    energy_j,
    latency_ms,
    prefill_work_on,
    ttft_ms,
)
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.traces.training import Training
from carbonrouter_core.units import J_PER_KWH

GATE_QUANTILES = 9
"""Equally likely difficulties of the next turn in the gate (docs/design.md, section 8)."""


class Rules(NamedTuple):
    """What a scenario and its training half lay down for every decision."""

    copies_all: bool
    idle_s: float
    ability_margin: float
    """logit(quality floor) / k: a model qualifies when theta >= difficulty + this."""
    user_margin: np.ndarray
    """(U,) the same for the current turn, by user region; higher where a policy raises floors."""
    latency_ceiling_ms: float
    """Infinite where there is none."""
    ceiling_on_ttft: bool
    gate_threshold: float
    embodied: bool
    mean_output_tokens: float
    mean_later_prompt_tokens: float
    survival: np.ndarray
    gap_within_idle: float
    difficulty_mean: float
    difficulty_spread: float
    difficulty_correlation: float
    typical_prompt_log: float
    prompt_log_correlation: float
    output_correlation: float
    persistence: float
    """Chance that the next turn is as difficult as this one, beyond what the session explains."""
    difficulty_memory: float
    """What earlier turns of a session count each turn (:mod:`.session_difficulty`)."""
    own_noise: float
    normal_quantiles: np.ndarray
    """(9,) standard normal quantiles (i - 1/2)/9."""
    mix_until: np.ndarray
    """(C,) cumulative share of the sessions at each place of today's practice (:mod:`.today`)."""
    mix_model: np.ndarray
    """(C,) model of each place."""
    mix_region: np.ndarray
    """(C,) region of each place."""


class Turn(NamedTuple):
    """One turn as a policy sees it; tokens as floats, since predicted ones are means."""

    history_tokens: float
    prompt_tokens: float
    output_tokens: float
    """Predicted output; the true one for policies that know the future."""
    context_tokens: float
    """What must fit: h + p + o in a replay, h + p + the allowance for output when live."""
    difficulty: float
    user: int


SESSION = np.dtype(
    [
        ("turns", np.int64),  # turns so far, the present one counted
        ("current", np.int64),  # deployment of the last served turn, -1 if none
        ("output_tokens", np.float64),  # sum over the turns before this one
        ("later_prompt_tokens", np.float64),  # sum over turns after the first, this one counted
        ("later_prompt_logs", np.float64),  # sum of ln(1 + tokens) over the same
        ("difficulty", np.float64),  # sum over turns, this one counted
        ("recent_turns", np.float64),  # the same turns, earlier ones counting less and less
        ("recent_difficulty", np.float64),  # sum of difficulty over them
        ("recent_squares", np.float64),  # sum of its squares
        ("planned", np.int64),  # where a plan made beforehand sends this turn
        ("start_at", np.int64),  # hash of the session id: where round-robin begins
    ]
)
"""Running figures of one session."""

NOTE = np.dtype(
    [
        ("wanted", np.int64),  # cheapest candidate before the gate, -1 if none
        ("home", np.int64),
        ("reason", np.int64),
        ("missed_ceiling", np.bool_),
        ("p_back", np.float64),
        ("saving_g", np.float64),
        ("rebuild_g", np.float64),
        ("next_gain_g", np.float64),
    ]
)
"""Why a turn went where it went; filled by the policy."""


def make_rules(scenario: Scenario, training: Training, k: float, n_users: int) -> Rules:
    """The rules of ``scenario``, with what was learned from its trace and the IRT slope ``k``.

    ``n_users``: how many user regions there are.
    """
    margin = _logit(scenario.quality_floor) / k
    ceiling = scenario.latency_ceiling_ms
    quantiles = [(i + 0.5) / GATE_QUANTILES for i in range(GATE_QUANTILES)]
    return Rules(
        copies_all=scenario.copies == "all",
        idle_s=scenario.idle_s,
        ability_margin=margin,
        user_margin=np.full(n_users, margin),
        latency_ceiling_ms=math.inf if ceiling is None else ceiling,
        ceiling_on_ttft=scenario.latency_ceiling_on == "ttft",
        gate_threshold=scenario.gate_threshold,
        embodied=scenario.embodied,
        mean_output_tokens=training.mean_output_tokens,
        mean_later_prompt_tokens=training.mean_later_prompt_tokens,
        survival=training.survival,
        gap_within_idle=training.gap_within(scenario.idle_s),
        difficulty_mean=training.difficulty_mean,
        difficulty_spread=training.difficulty_spread,
        difficulty_correlation=training.difficulty_correlation,
        typical_prompt_log=training.typical_prompt_log,
        prompt_log_correlation=training.prompt_log_correlation,
        output_correlation=training.output_correlation,
        persistence=training.difficulty_persistence,
        difficulty_memory=training.difficulty_memory,
        own_noise=training.own_noise,
        normal_quantiles=np.array([NormalDist().inv_cdf(q) for q in quantiles]),
        mix_until=np.ones(1),
        mix_model=np.zeros(1, np.int64),
        mix_region=np.zeros(1, np.int64),
    )


def with_floors(rules: Rules, floors: np.ndarray, k: float) -> Rules:
    """``rules`` with the quality floor of each user region, shape (U,); ``k``: IRT slope."""
    return rules._replace(user_margin=np.array([_logit(float(floor)) / k for floor in floors]))


def without_limits(rules: Rules) -> Rules:
    """``rules`` without a quality floor and without a latency ceiling."""
    nothing = np.full_like(rules.user_margin, -math.inf)
    return rules._replace(
        ability_margin=-math.inf, user_margin=nothing, latency_ceiling_ms=math.inf
    )


def _logit(share: float) -> float:
    if share in (0.0, 1.0):
        return math.inf if share else -math.inf
    return math.log(share / (1.0 - share))


@jit_borrowing
def best_fitting_theta(fleet: Fleet, context_tokens: float) -> float:
    """Ability of the best model that holds ``context_tokens``; -inf where none does."""
    best = -np.inf
    for p in range(fleet.fit_tokens.size):
        if context_tokens <= fleet.fit_tokens[p]:
            best = max(best, fleet.theta[fleet.pair_model[p]])
    return best


@jit_borrowing
def required_theta(fleet: Fleet, rules: Rules, turn: Turn) -> float:
    """Ability needed: the quality floor's, or the best that fits where that is below it."""
    best = best_fitting_theta(fleet, turn.context_tokens)
    return min(turn.difficulty + rules.user_margin[turn.user], best)


@jit_borrowing
def price(
    fleet: Fleet,
    rules: Rules,
    turn: Turn,
    theta_needed: float,
    cached: Array,
    g_per_j: Array,
    carbon_g: Array,
) -> None:
    """Fill ``carbon_g`` (D,) with what serving ``turn`` would emit on each deployment.

    ``cached`` (D,): live cached tokens; ``g_per_j`` (R,): carbon of a joule at the servers.
    Infinite where the turn does not fit or the model is less able than ``theta_needed``.
    """
    h, p, o = turn.history_tokens, turn.prompt_tokens, turn.output_tokens
    model_before = -1
    work = 0.0
    context = 0.0
    for pair in range(fleet.pair_model.size):
        first, end = fleet.pair_start[pair], fleet.pair_start[pair + 1]
        model = fleet.pair_model[pair]
        if turn.context_tokens > fleet.fit_tokens[pair] or fleet.theta[model] < theta_needed:
            carbon_g[first:end] = np.inf
            continue
        if model != model_before:
            work = prefill_work_on(fleet, model, h + p)
            context = costs.decode_context(
                h, p, o, fleet.global_share[model], fleet.window_tokens[model]
            )
            model_before = model
        cold_j = energy_j(fleet, pair, work, context, o)
        for d in range(first, end):
            need_j, need_work = cold_j, work
            if cached[d] > 0:
                need_work = work - prefill_work_on(fleet, model, cached[d])
                need_j = energy_j(fleet, pair, need_work, context, o)
            carbon_g[d] = need_j * g_per_j[fleet.region[d]]
            if rules.embodied:
                ms = need_work * fleet.prefill_ms[pair] + decode_ms(fleet, pair, o)
                carbon_g[d] += costs.embodied_g(fleet.n_gpus[pair], ms, fleet.gpu_embodied_kg[pair])


@jit_borrowing
def recompute_g(
    fleet: Fleet, rules: Rules, deployment: int, cached: Array, history: float, g_per_j: Array
) -> float:
    """Carbon of recomputing ``history - cached`` tokens on a deployment, host included."""
    pair = fleet.pair[deployment]
    model = fleet.pair_model[pair]
    work = prefill_work_on(fleet, model, history) - prefill_work_on(fleet, model, cached)
    carbon_g = energy_j(fleet, pair, work, 0.0, 0.0) * g_per_j[fleet.region[deployment]]
    if rules.embodied:
        ms = work * fleet.prefill_ms[pair]
        carbon_g += costs.embodied_g(fleet.n_gpus[pair], ms, fleet.gpu_embodied_kg[pair])
    return carbon_g


@jit_borrowing
def _bounded_ms(
    fleet: Fleet,
    rules: Rules,
    turn: Turn,
    predicted_tokens: float,
    deployment: int,
    cached: float,
) -> float:
    """The latency that the ceiling is on."""
    model = fleet.pair_model[fleet.pair[deployment]]
    work = prefill_work_on(fleet, model, turn.history_tokens + turn.prompt_tokens)
    work -= prefill_work_on(fleet, model, cached)
    if rules.ceiling_on_ttft:
        return ttft_ms(fleet, deployment, turn.user, work)
    return latency_ms(fleet, deployment, turn.user, work, predicted_tokens)


@jit_borrowing
def apply_ceiling(
    fleet: Fleet,
    rules: Rules,
    turn: Turn,
    predicted_tokens: float,
    cached: Array,
    carbon_g: Array,
) -> bool:
    """Make candidates over the latency ceiling infeasible; True if none was within it.

    Then only the fastest candidate stays feasible.
    """
    fastest, fastest_ms, any_within = -1, np.inf, False
    for d in range(carbon_g.size):
        if carbon_g[d] < np.inf:
            ms = _bounded_ms(fleet, rules, turn, predicted_tokens, d, cached[d])
            if ms < fastest_ms:
                fastest, fastest_ms = d, ms
            any_within = any_within or ms <= rules.latency_ceiling_ms
    for d in range(carbon_g.size):
        if carbon_g[d] == np.inf or (d == fastest and not any_within):
            continue
        # worked out again rather than kept, which would take an array
        if (
            _bounded_ms(fleet, rules, turn, predicted_tokens, d, cached[d])
            > rules.latency_ceiling_ms
        ):
            carbon_g[d] = np.inf
    return not any_within


@jit_borrowing
def price_feasible(
    fleet: Fleet,
    rules: Rules,
    turn: Turn,
    predicted_tokens: float,
    cached: Array,
    g_per_j: Array,
    carbon_g: Array,
) -> bool:
    """Fill ``carbon_g`` (D,) with the carbon of ``turn``, infinite where it may not go.

    What is fast enough is judged by ``predicted_tokens`` of output, also for a policy that is
    told the true ones: all choose from one set. True if no candidate was within the ceiling.
    """
    price(fleet, rules, turn, required_theta(fleet, rules, turn), cached, g_per_j, carbon_g)
    if rules.latency_ceiling_ms < np.inf:
        return apply_ceiling(fleet, rules, turn, predicted_tokens, cached, carbon_g)
    return False


@jit_borrowing
def cheapest(carbon_g: Array) -> int:
    """The first deployment of least carbon; -1 where none is feasible."""
    best, least = -1, np.inf
    for d in range(carbon_g.size):
        if carbon_g[d] < least:
            best, least = d, carbon_g[d]
    return best


@jit_borrowing
def carbon_per_joule(fleet: Fleet, intensity_g_per_kwh: Array, g_per_j: Array) -> None:
    """Fill ``g_per_j`` (R,): PUE times intensity, per joule at the servers."""
    for r in range(fleet.pue.size):
        g_per_j[r] = fleet.pue[r] * intensity_g_per_kwh[r] / J_PER_KWH


@jit_borrowing
def predicted_output(rules: Rules, session: Record) -> float:
    """ô: training mean and the session's outputs so far, equally weighted a turn."""
    before = session.turns - 1
    return (rules.mean_output_tokens + session.output_tokens) / (1.0 + before)


@jit
def predicted_outputs(rules: Rules, output: Array) -> Array:
    """:func:`predicted_output` of each turn of a session with these outputs, shape (turns,)."""
    predicted = np.empty(output.size)
    before = 0.0
    for i in range(output.size):
        predicted[i] = (rules.mean_output_tokens + before) / (1.0 + i)
        before += output[i]
    return predicted
