"""What a turn costs on a deployment of a fleet: the physics of :mod:`.costs` with its numbers.

The decision, the accounting and the worked turn all read it here. A decision adds up energy
alone (:func:`energy_j`), the other two every part (:func:`cost_of_turn`).
"""

from __future__ import annotations

from typing import NamedTuple

from carbonrouter_core.compiled import jit_borrowing
from carbonrouter_core.fleet import costs
from carbonrouter_core.fleet.deployments import Fleet


class TurnCost(NamedTuple):
    """What serving a turn on a deployment costs; energy at the servers, without PUE.

    ``recompute_work`` and ``prompt_work``: work of prefill (:func:`.costs.prefill_work`).
    """

    recompute_work: float
    prompt_work: float
    recompute_j: float
    prompt_j: float
    decode_j: float
    host_j: float
    prefill_ms: float
    decode_share_ms: float
    """Its share of the replica's time while it decodes."""
    embodied_g: float
    ttft_ms: float
    latency_ms: float


@jit_borrowing
def prefill_work_on(fleet: Fleet, model: int, tokens: float) -> float:
    """Work of prefilling ``tokens`` from position 0 on a model (:func:`costs.prefill_work`)."""
    return costs.prefill_work(
        tokens, fleet.alpha[model], fleet.global_share[model], fleet.window_tokens[model]
    )


@jit_borrowing
def energy_j(fleet: Fleet, pair: int, work: float, context: float, output_tokens: float) -> float:
    """GPU and host energy of a turn on a pair: ``work`` of prefill, then decoding."""
    decode = fleet.output_j[pair] + fleet.context_j[pair] * context
    return work * fleet.work_j[pair] + output_tokens * decode


@jit_borrowing
def decode_ms(fleet: Fleet, pair: int, output_tokens: float) -> float:
    """One sequence's share of the replica's time while it decodes, ms."""
    return output_tokens * fleet.output_ms[pair]


@jit_borrowing
def ttft_ms(fleet: Fleet, deployment: int, user: int, work: float) -> float:
    """Time to first token: round trip, prefill, one decode step; no queueing."""
    pair = fleet.pair[deployment]
    rtt = fleet.rtt_ms[user, fleet.region[deployment]]
    return rtt + work * fleet.prefill_ms[pair] + fleet.inter_token_ms[pair]


@jit_borrowing
def latency_ms(
    fleet: Fleet, deployment: int, user: int, work: float, output_tokens: float
) -> float:
    """Time to the last token of the turn; no queueing."""
    further_tokens_ms = max(0.0, output_tokens - 1.0) * fleet.inter_token_ms[fleet.pair[deployment]]
    return ttft_ms(fleet, deployment, user, work) + further_tokens_ms


@jit_borrowing
def cost_of_turn(
    fleet: Fleet,
    deployment: int,
    user: int,
    history_tokens: float,
    prompt_tokens: float,
    output_tokens: float,
    cached_tokens: float,
) -> TurnCost:
    """Every part of what serving a turn costs, with ``cached_tokens`` of its history live.

    Formulas: docs/design.md, section 5.
    """
    pair = fleet.pair[deployment]
    model = fleet.pair_model[pair]
    h, p, o = history_tokens, prompt_tokens, output_tokens
    at_history = prefill_work_on(fleet, model, h)
    recompute_work = at_history - prefill_work_on(fleet, model, cached_tokens)
    prompt_work = prefill_work_on(fleet, model, h + p) - at_history
    work = recompute_work + prompt_work
    context = costs.decode_context(h, p, o, fleet.global_share[model], fleet.window_tokens[model])
    prefill_ms = work * fleet.prefill_ms[pair]
    share_ms = decode_ms(fleet, pair, o)
    busy_ms = prefill_ms + share_ms
    return TurnCost(
        recompute_work,
        prompt_work,
        recompute_work * fleet.prefill_j[pair],
        prompt_work * fleet.prefill_j[pair],
        o * (fleet.decode_j[pair] + fleet.context_j[pair] * context),
        costs.host_energy_j(fleet.n_gpus[pair], busy_ms),
        prefill_ms,
        share_ms,
        costs.embodied_g(fleet.n_gpus[pair], busy_ms, fleet.gpu_embodied_kg[pair]),
        ttft_ms(fleet, deployment, user, work),
        latency_ms(fleet, deployment, user, work, o),
    )
