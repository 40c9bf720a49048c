"""What the decisions of a policy come to: energy, carbon, latency and quality of each turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from carbonrouter_core.compiled import Array, jit_borrowing
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.fleet.turn_costs import cost_of_turn
from carbonrouter_core.quality.item_response import predicted_quality
from carbonrouter_core.replay.decisions import Decisions
from carbonrouter_core.traces.placement import PlacedTrace
from carbonrouter_core.units import J_PER_KWH


@dataclass(frozen=True)
class Charges:
    """What the decisions come to, one entry a turn; all carbon in g, energy with PUE.

    Carbon and energy of an unserved turn are 0, its latency and quality NaN.
    ``embodied_g`` is separate: it is in no total.
    """

    recompute_g: np.ndarray
    prompt_g: np.ndarray
    decode_g: np.ndarray
    host_g: np.ndarray
    carbon_g: np.ndarray
    embodied_g: np.ndarray
    energy_kwh: np.ndarray
    intensity_g_per_kwh: np.ndarray
    ttft_ms: np.ndarray
    latency_ms: np.ndarray
    quality: np.ndarray


def charge(
    fleet: Fleet, k: float, placed: PlacedTrace, intensity: np.ndarray, decisions: Decisions
) -> Charges:
    """What ``decisions`` come to, with the true output lengths (docs/design.md, section 5).

    ``k``: IRT slope; ``intensity`` as in :func:`replay`.
    """
    trace = placed.trace
    return charge_rows(
        fleet,
        k,
        history=trace.history_tokens,
        prompt=trace.new_prompt_tokens,
        output=trace.output_tokens,
        difficulty=placed.difficulty,
        user=placed.user,
        intensity=intensity,
        deployment=decisions.deployment,
        cached=decisions.cached_tokens,
    )


def charge_rows(
    fleet: Fleet,
    k: float,
    *,
    history: np.ndarray,
    prompt: np.ndarray,
    output: np.ndarray,
    difficulty: np.ndarray,
    user: np.ndarray,
    intensity: np.ndarray,
    deployment: np.ndarray,
    cached: np.ndarray,
) -> Charges:
    """What serving each row on its deployment comes to; -1 is unserved. One entry a row."""
    n = len(deployment)
    parts = np.zeros((6, n))
    times = np.full((2, n), np.nan)
    _charge(fleet, history, prompt, output, user, intensity, deployment, cached, parts, times)
    recompute_g, prompt_g, decode_g, host_g, embodied, energy_kwh = parts
    served = deployment >= 0
    quality = np.full(n, np.nan)
    used = intensity[np.arange(n), fleet.region[deployment]]  # of an unserved row: masked below
    theta = fleet.theta[fleet.pair_model[fleet.pair[deployment[served]]]]
    quality[served] = predicted_quality(theta, difficulty[served], k)
    return Charges(
        recompute_g=recompute_g,
        prompt_g=prompt_g,
        decode_g=decode_g,
        host_g=host_g,
        carbon_g=recompute_g + prompt_g + decode_g + host_g,
        embodied_g=embodied,
        energy_kwh=energy_kwh,
        intensity_g_per_kwh=np.where(served, used, np.nan),
        ttft_ms=times[0],
        latency_ms=times[1],
        quality=quality,
    )


@jit_borrowing
def _charge(
    fleet: Fleet,
    history: Array,
    prompt: Array,
    output: Array,
    user: Array,
    intensity: Array,
    deployment: Array,
    cached: Array,
    parts: Array,
    times: Array,
) -> None:
    for i in range(deployment.size):
        d = deployment[i]
        if d < 0:
            continue
        region = fleet.region[d]
        h, p, o = float(history[i]), float(prompt[i]), float(output[i])
        cost = cost_of_turn(fleet, d, user[i], h, p, o, float(cached[i]))
        kwh_per_j = fleet.pue[region] / J_PER_KWH
        g_per_j = kwh_per_j * intensity[i, region]
        parts[0, i] = cost.recompute_j * g_per_j
        parts[1, i] = cost.prompt_j * g_per_j
        parts[2, i] = cost.decode_j * g_per_j
        parts[3, i] = cost.host_j * g_per_j
        parts[4, i] = cost.embodied_g
        joules = cost.recompute_j + cost.prompt_j + cost.decode_j + cost.host_j
        parts[5, i] = joules * kwh_per_j
        times[0, i] = cost.ttft_ms
        times[1, i] = cost.latency_ms
