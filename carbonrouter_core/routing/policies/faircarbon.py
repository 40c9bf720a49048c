"""FairCarbon, the state of the art that treats every query by itself.

What its published abstract says: a carbon-aware router over heterogeneous LLMs, GPU types and
regions that predicts quality, latency and carbon of each query and picks the least carbon
within the service levels, with a risk predictor and a fairness term. What is reconstructed
here: the carbon estimate (this project's cost model with no history), the common feasible set,
region choice by carbon, and the fairness term. What is unknown: its exact estimator, the risk
predictor (there is none here) and the form and weight of the fairness term, which is therefore
off by default. Results are labelled as a reconstruction.

Fairness as reconstructed: with the scenario's ``fairness_weight`` above 0, the quality floor of
each user region served below the mean rises by the weight times what it lacks
(:func:`..fairness.raised_floors`). "So far" is read as a first pass with weight 0 over the
training half: a running mean would depend on the order in which sessions come, and on how a
trace is split over workers. So the floors of a run are fixed, and a live router has the same.
Each reading below has its own first pass; no other policy is bound by raised floors.

Two readings of what its estimate sees of the conversation:

* ``faircarbon``: the new prompt only; history and cached tokens are zero in every term;
* ``faircarbon-full-prompt``: the whole prompt, prefilled on every candidate, the kindest
  reading: it knows that contexts are long, not that one site has them cached.
"""

from __future__ import annotations

import numpy as np

from carbonrouter_core.compiled import Array, Record, jit_borrowing
from carbonrouter_core.fleet import costs
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.fleet.turn_costs import decode_ms, energy_j, prefill_work_on
from carbonrouter_core.routing.kernel import Rules, Turn
from carbonrouter_core.routing.policies import reasons


@jit_borrowing
def choose(
    fleet: Fleet,
    rules: Rules,
    turn: Turn,
    g_per_j: Array,
    carbon_g: Array,
    note: Record,
    full_prompt: bool,
) -> int:
    """The feasible deployment of least estimated carbon, whatever is cached where."""
    history = turn.history_tokens if full_prompt else 0.0
    best, least = -1, np.inf
    for pair in range(fleet.pair_model.size):
        model = fleet.pair_model[pair]
        share, window = fleet.global_share[model], fleet.window_tokens[model]
        work = prefill_work_on(fleet, model, history + turn.prompt_tokens)
        o = turn.output_tokens
        context = costs.decode_context(history, turn.prompt_tokens, o, share, window)
        joule = energy_j(fleet, pair, work, context, o)
        for d in range(fleet.pair_start[pair], fleet.pair_start[pair + 1]):
            estimate_g = joule * g_per_j[fleet.region[d]]
            if rules.embodied:
                ms = work * fleet.prefill_ms[pair] + decode_ms(fleet, pair, o)
                estimate_g += costs.embodied_g(fleet.n_gpus[pair], ms, fleet.gpu_embodied_kg[pair])
            if carbon_g[d] < np.inf and estimate_g < least:
                best, least = d, estimate_g
    note.wanted = best
    note.reason = reasons.RULE
    return best
