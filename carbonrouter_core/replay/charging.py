"""What the decisions of a policy come to: energy, carbon, latency and quality of each turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from carbonrouter_core.compiled import Array, jit_borrowing
from carbonrouter_core.fleet.costs import decode_context, embodied_g, host_energy_j
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.quality.item_response import predicted_quality
from carbonrouter_core.replay.decisions import Decisions
from carbonrouter_core.routing.kernel import decode_ms, latency_ms, prefill_work_on, ttft_ms
from carbonrouter_core.traces.placement import PlacedTrace
from carbonrouter_core.units import J_PER_KWH


@dataclass(frozen=True)
class Charges:
    """What the decisions come to, one entry a turn; all carbon in g, energy with PUE.

    Carbon and energy of an unserved turn are 0, its latency and quality NaN.
    ``embodied_g`` stands apart: it is in no total.
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
        pair, region = fleet.pair[d], fleet.region[d]
        model = fleet.pair_model[pair]
        h, p, o = float(history[i]), float(prompt[i]), float(output[i])
        at_history = prefill_work_on(fleet, model, h)
        recompute = at_history - prefill_work_on(fleet, model, float(cached[i]))
        new_prompt = prefill_work_on(fleet, model, h + p) - at_history
        work = recompute + new_prompt
        context = decode_context(h, p, o, fleet.global_share[model], fleet.window_tokens[model])
        ms = work * fleet.prefill_ms[pair] + decode_ms(fleet, pair, o)
        recompute_j = recompute * fleet.prefill_j[pair]
        prompt_j = new_prompt * fleet.prefill_j[pair]
        decode_j = o * (fleet.decode_j[pair] + fleet.context_j[pair] * context)
        host_j = host_energy_j(fleet.n_gpus[pair], ms)
        kwh_per_j = fleet.pue[region] / J_PER_KWH
        g_per_j = kwh_per_j * intensity[i, region]
        parts[0, i] = recompute_j * g_per_j
        parts[1, i] = prompt_j * g_per_j
        parts[2, i] = decode_j * g_per_j
        parts[3, i] = host_j * g_per_j
        parts[4, i] = embodied_g(fleet.n_gpus[pair], ms, fleet.gpu_embodied_kg[pair])
        parts[5, i] = (recompute_j + prompt_j + decode_j + host_j) * kwh_per_j
        times[0, i] = ttft_ms(fleet, d, user[i], work)
        times[1, i] = latency_ms(fleet, d, user[i], work, o)
