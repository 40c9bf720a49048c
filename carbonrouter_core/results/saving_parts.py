"""What a saving is made of: site, model, GPU type and cache, in parts that add up to it.

Rule: of each turn the two policies chose a site, a model and a GPU type, and found so many tokens
cached. Going from the first policy's turn to the second's changes these four one after another.
A part is the mean change of carbon that its step makes, over all 24 orders (Shapley value). The
parts of a turn add up to the difference of the turn, and so do the sums over turns.

Where a model has no energy points on the other's GPU type, the mixed pair has no carbon of its own.
It is then taken as the other mixed pair says (both steps add up), or half way if neither exists.
"""

from __future__ import annotations

from itertools import permutations
from typing import NamedTuple

import numpy as np

from carbonrouter_core.compiled import Array, jit_borrowing
from carbonrouter_core.fleet import costs
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.fleet.turn_costs import energy_j, prefill_work_on
from carbonrouter_core.replay.run import Run
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.units import J_PER_KWH

SITE, MODEL, GPU, CACHE = range(4)
PARTS = ("site", "model", "gpu", "cache")
"""What a saving is split into, in the order of the four steps."""


def _orders() -> np.ndarray:
    """All orders of the four steps, shape (24, 4)."""
    return np.array(list(permutations(range(len(PARTS)))), dtype=np.int64)


class SavingParts(NamedTuple):
    """Carbon saved by each part in g; negative: the part costs carbon."""

    site_g: float
    model_g: float
    gpu_g: float
    cache_g: float
    not_served_g: float
    """Of turns that only one of the two served: carbon of the baseline less that of the policy."""

    @property
    def total_g(self) -> float:
        """The whole saving."""
        return sum(self)


def saving_parts(prepared: Prepared, run: Run, baseline: Run) -> SavingParts:
    """What the saving of a run against a baseline is made of.

    Parameters
    ----------
    prepared
        The scenario made ready.
    run, baseline
        Two runs of it.

    Returns
    -------
    SavingParts
        Parts that add up to the carbon of ``baseline`` less that of ``run``.
    """
    trace, fleet = prepared.placed.trace, prepared.deployments.fleet
    ours, theirs = run.decisions, baseline.decisions
    both = ours.served & theirs.served
    parts = np.zeros(len(PARTS))
    n_gpu_types = 1 + max(_gpu_numbers(prepared))
    pair_of = np.full((fleet.theta.size, n_gpu_types), -1, dtype=np.int64)
    gpu_of_pair = np.array(_gpu_numbers(prepared), dtype=np.int64)
    pair_of[fleet.pair_model, gpu_of_pair] = np.arange(len(gpu_of_pair))
    _split(
        fleet,
        pair_of,
        gpu_of_pair,
        _orders(),
        trace.history_tokens,
        trace.new_prompt_tokens,
        trace.output_tokens,
        prepared.intensity,
        theirs.deployment,
        ours.deployment,
        theirs.cached_tokens,
        ours.cached_tokens,
        np.empty(2 ** len(PARTS)),
        parts,
    )
    alone_g = (baseline.charges.carbon_g[~both] - run.charges.carbon_g[~both]).sum()
    site_g, model_g, gpu_g, cache_g = parts.tolist()
    return SavingParts(site_g, model_g, gpu_g, cache_g, float(alone_g))


def _gpu_numbers(prepared: Prepared) -> list[int]:
    """Number of the GPU type of each pair."""
    names = [replica.gpu for replica in prepared.deployments.replicas]
    order = list(dict.fromkeys(names))
    return [order.index(name) for name in names]


@jit_borrowing
def _joules(fleet: Fleet, pair: int, h: float, p: float, o: float, cached: float) -> float:
    """GPU and host energy of a turn on a pair; NaN where there is no such pair."""
    if pair < 0:
        return np.nan
    model = fleet.pair_model[pair]
    work = prefill_work_on(fleet, model, h + p) - prefill_work_on(fleet, model, cached)
    share, window = fleet.global_share[model], fleet.window_tokens[model]
    context = costs.decode_context(h, p, o, share, window)
    return energy_j(fleet, pair, work, context, o)


@jit_borrowing
def _split(
    fleet: Fleet,
    pair_of: Array,
    gpu_of_pair: Array,
    orders: Array,
    history: Array,
    prompt: Array,
    output: Array,
    intensity: Array,
    before: Array,
    after: Array,
    cached_before: Array,
    cached_after: Array,
    carbon_g: Array,
    parts: Array,
) -> None:
    """Add the parts of every turn that both served to ``parts`` (4,); ``carbon_g`` (16,): room."""
    # index: 1 site + 2 model + 4 GPU type + 8 cache, each 0 as before or 1 as after
    for i in range(before.size):
        b, a = before[i], after[i]
        if b < 0 or a < 0 or (b == a and cached_before[i] == cached_after[i]):
            continue
        pair_b, pair_a = fleet.pair[b], fleet.pair[a]
        model_b, model_a = fleet.pair_model[pair_b], fleet.pair_model[pair_a]
        gpu_b, gpu_a = gpu_of_pair[pair_b], gpu_of_pair[pair_a]
        h, p, o = float(history[i]), float(prompt[i]), float(output[i])
        for c in range(2):
            cached = float(cached_after[i] if c else cached_before[i])
            joule_b = _joules(fleet, pair_b, h, p, o, cached)
            joule_a = _joules(fleet, pair_a, h, p, o, cached)
            other_model = _joules(fleet, pair_of[model_a, gpu_b], h, p, o, cached)
            other_gpu = _joules(fleet, pair_of[model_b, gpu_a], h, p, o, cached)
            if np.isnan(other_model) and np.isnan(other_gpu):
                other_model = other_gpu = 0.5 * (joule_b + joule_a)
            elif np.isnan(other_model):
                other_model = joule_a - (other_gpu - joule_b)
            elif np.isnan(other_gpu):
                other_gpu = joule_a - (other_model - joule_b)
            for s in range(2):
                region = fleet.region[a] if s else fleet.region[b]
                g_per_j = fleet.pue[region] * intensity[i, region] / J_PER_KWH
                carbon_g[s + 8 * c] = joule_b * g_per_j
                carbon_g[s + 2 + 8 * c] = other_model * g_per_j
                carbon_g[s + 4 + 8 * c] = other_gpu * g_per_j
                carbon_g[s + 6 + 8 * c] = joule_a * g_per_j
        for row in range(orders.shape[0]):
            state = 0
            for step in range(orders.shape[1]):
                part = orders[row, step]
                following = state + (1 << part)
                parts[part] += (carbon_g[state] - carbon_g[following]) / orders.shape[0]
                state = following
