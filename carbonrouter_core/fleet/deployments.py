"""The candidates of a scenario: every model × GPU type × region it offers, as arrays.

A *pair* is a model on a GPU type: energy and time of a turn depend on the pair, the region
only scales them. Deployments stand in the order model, GPU type, region, as the scenario
lists them; that order breaks ties everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd

from carbonrouter_core.errors import ScenarioError
from carbonrouter_core.fleet import costs
from carbonrouter_core.fleet.catalog import (
    Catalog,
    EnergyCurve,
    Gpu,
    Model,
    OwnEntry,
    Region,
    does_not_fit,
)
from carbonrouter_core.fleet.own import additions_of
from carbonrouter_core.fleet.volume import Workload, turns_in_progress
from carbonrouter_core.quality.item_response import ability_from_accuracy
from carbonrouter_core.scenario import DEFAULT_GPU_REGIONS, Scenario
from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.words import figures as fmt
from carbonrouter_core.words.names import unknown

T = TypeVar("T")


class Fleet(NamedTuple):
    """Arrays the compiled kernel reads.

    Sizes: M models, P pairs, D deployments, R regions, U user regions.
    """

    global_share: np.ndarray
    """(M,) share of layers that see the whole context."""
    window_tokens: np.ndarray
    """(M,) window of the other layers."""
    alpha: np.ndarray
    """(M,) attention work per token and token of context, in tokens."""
    theta: np.ndarray
    """(M,) ability, logit."""
    theta_ascending: np.ndarray
    """(M,) the abilities, sorted."""
    rank: np.ndarray
    """(M,) how many models are less able."""
    params_b: np.ndarray
    """(M,) total parameters, 10^9."""
    pair_model: np.ndarray
    """(P,) model of each pair."""
    pair_start: np.ndarray
    """(P + 1,) first deployment of each pair, and the end."""
    fit_tokens: np.ndarray
    """(P,) longest context one replica holds."""
    n_gpus: np.ndarray
    """(P,) GPUs of one replica."""
    batch: np.ndarray
    """(P,) B, sequences decoding together."""
    prefill_j: np.ndarray
    """(P,) GPU energy of prefilling one token, J."""
    prefill_ms: np.ndarray
    """(P,) time of prefilling one token, ms."""
    decode_j: np.ndarray
    """(P,) e_d(B), GPU energy of one output token, J."""
    context_j: np.ndarray
    """(P,) energy of one output token per token of context beyond the measured, J."""
    inter_token_ms: np.ndarray
    """(P,) t_itl, ms."""
    work_j: np.ndarray
    """(P,) GPU and host energy of prefilling one token, J."""
    output_j: np.ndarray
    """(P,) GPU and host energy of one output token at the measured context, J."""
    output_ms: np.ndarray
    """(P,) one sequence's share of a replica's time for one output token, ms."""
    gpu_embodied_kg: np.ndarray
    """(P,) embodied carbon of one GPU, kg."""
    pair: np.ndarray
    """(D,) pair of each deployment."""
    region: np.ndarray
    """(D,) region of each deployment."""
    pue: np.ndarray
    """(R,) PUE."""
    rtt_ms: np.ndarray
    """(U, R) round trip from each user region to each region, ms."""


@dataclass(frozen=True)
class Replica:
    """Figures of one pair on this trace; shown to the user."""

    model: str
    gpu: str
    n_gpus: int
    batch: float
    mean_context_tokens: float
    fit_tokens: int
    decode_j_per_token: float
    inter_token_ms: float
    extrapolated: bool
    basis: str
    weight_bytes_per_param: float


@dataclass(frozen=True)
class Deployments:
    """The candidates of a scenario with their names, and the arrays the kernel reads."""

    fleet: Fleet
    replicas: tuple[Replica, ...]
    gpus: tuple[Gpu, ...]
    """The chosen GPU types."""
    curves: tuple[EnergyCurve, ...]
    """The energy curve of each replica."""
    own_entries: tuple[OwnEntry, ...]
    """The models, GPU types and energy points that the user added, as far as they are chosen."""
    regions: tuple[Region, ...]
    user_regions: tuple[str, ...]
    turns_in_progress: float
    """Turns in progress at a time at the scenario's volume, on average (:mod:`.volume`)."""
    warnings: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.fleet.pair)

    def to_frame(self) -> pd.DataFrame:
        """One row a deployment: model, gpu, region, city, zone, pue."""
        pairs = [self.replicas[pair] for pair in self.fleet.pair]
        regions = [self.regions[region] for region in self.fleet.region]
        return pd.DataFrame(
            {
                "model": [pair.model for pair in pairs],
                "gpu": [pair.gpu for pair in pairs],
                "region": [region.region for region in regions],
                "city": [region.city for region in regions],
                "zone": [region.zone for region in regions],
                "pue": self.fleet.pue[self.fleet.region],
            }
        )

    def label(self, deployment: int) -> str:
        """``model · GPU · city`` of one deployment."""
        replica = self.replicas[self.fleet.pair[deployment]]
        return (
            f"{replica.model} · {replica.gpu} · {self.regions[self.fleet.region[deployment]].city}"
        )


def build_deployments(
    scenario: Scenario,
    catalog: Catalog,
    contexts: Mapping[int, float],
    user_regions: Sequence[str],
    workload: Workload,
) -> Deployments:
    """The candidates of ``scenario`` for a trace.

    ``contexts``: the mean context of the trace in tokens, for each context window of the models.
    ``workload``: sums over the trace, from which the turns in progress follow.

    Raises :class:`ScenarioError` for a choice that cannot be run, with what to change.
    A model without energy points for one of the GPU types is left out there, with a warning.
    """
    models, gpus, regions = _chosen(scenario, catalog, user_regions)
    sites = {
        gpu.gpu: [i for i, r in enumerate(regions) if scenario.has(gpu.gpu, r.region)]
        for gpu in gpus
    }
    warnings = [
        f"{gpu} is in none of the chosen regions and is not used."
        for gpu, where in sites.items()
        if not where
    ]
    for i, region in enumerate(regions):
        if not any(i in where for where in sites.values()):
            raise ScenarioError(no_gpu(region))
    curves: list[tuple[int, EnergyCurve]] = []
    for m, model in enumerate(models):
        own = [catalog.energy.get((model.model, gpu.gpu)) for gpu in gpus if sites[gpu.gpu]]
        known = [curve for curve in own if curve is not None]
        if not known:
            raise ScenarioError(no_energy(model))
        if len(known) < len(own):
            lacking = [g.gpu for g in gpus if (model.model, g.gpu) not in catalog.energy]
            warnings.append(
                f"{model.model} has no energy points for {', '.join(lacking)}: left out there."
            )
        curves += [(m, curve) for curve in known]

    def built(batch: float) -> list[tuple[Replica, dict[str, float]]]:
        """A replica of each pair that decodes at most ``batch`` sequences together."""
        return [
            _replica(
                models[m],
                catalog.gpus[curve.gpu],
                curve,
                contexts[models[m].context_tokens],
                batch,
            )
            for m, curve in curves
        ]

    def turn_s_at(batch: float) -> float:
        """Mean time of a turn over the pairs."""
        times_s = [
            workload.turn_s(column["prefill_ms"], column["inter_token_ms"])
            for _, column in built(batch)
        ]
        return sum(times_s) / len(times_s)

    in_progress = turns_in_progress(
        workload.turns_per_s(scenario.conversations_per_day), scenario.concurrency, turn_s_at
    )
    replicas, columns = [], []
    for replica, column in built(min(scenario.concurrency, max(1.0, in_progress))):
        replicas.append(replica)
        columns.append(column)
        if replica.extrapolated:
            warnings.append(
                f"{replica.model} on {replica.gpu}: {replica.batch:.1f} sequences decode together, "
                "fewer than ever measured; energy is extrapolated."
            )
    if in_progress < scenario.concurrency:
        warnings.append(too_few_in_progress(scenario, in_progress))
    where = [sites[curve.gpu] for _, curve in curves]
    pair_of = np.repeat(np.arange(len(curves)), [len(w) for w in where])
    pue = [scenario.pue_overrides.get(r.region, r.pue) for r in regions]
    rtt = [[_rtt_ms(catalog, user, r.region) for r in regions] for user in user_regions]
    own_entries = additions_of(catalog).chosen(scenario.models, scenario.gpus).entries
    if own_entries:
        warnings.append(f"Figures of your own are used: {'; '.join(map(str, own_entries))}.")
    by_pair = {name: np.array([column[name] for column in columns]) for name in columns[0]}
    theta = np.array([ability_from_accuracy(m.mmlu_pro_percent) for m in models])
    fleet = Fleet(
        global_share=np.array([m.global_layers / m.layers for m in models]),
        window_tokens=np.array([m.window_tokens for m in models]),
        alpha=np.array(
            [costs.attention_alpha(m.layers, m.attention_dim, m.active_params_b) for m in models]
        ),
        theta=theta,
        theta_ascending=np.sort(theta),
        rank=np.searchsorted(np.sort(theta), theta),
        params_b=np.array([m.total_params_b for m in models]),
        pair_model=np.array([m for m, _ in curves], dtype=np.int64),
        pair_start=np.r_[0, np.cumsum([len(w) for w in where])].astype(np.int64),
        pair=pair_of.astype(np.int64),
        region=np.concatenate([np.array(w, dtype=np.int64) for w in where]),
        pue=np.array(pue, dtype=np.float64),
        rtt_ms=np.array(rtt, dtype=np.float64),
        **by_pair,
    )
    return Deployments(
        fleet=fleet,
        replicas=tuple(replicas),
        gpus=tuple(gpus),
        curves=tuple(curve for _, curve in curves),
        own_entries=own_entries,
        regions=tuple(regions),
        user_regions=tuple(user_regions),
        turns_in_progress=in_progress,
        warnings=tuple(warnings),
    )


def too_few_in_progress(scenario: Scenario, in_progress: float) -> str:
    """The warning for a volume that cannot fill the batch that the scenario assumes."""
    per_day = scenario.conversations_per_day
    return (
        f"At {fmt.exact(per_day, 7)} conversations a day {in_progress:,.1f} turns are in "
        f"progress at a time, on average, too few for {scenario.concurrency:,g} sequences to "
        f"decode together (concurrency). A batch of {max(1.0, in_progress):,.1f} is charged, "
        "as if all turns in progress were on one replica; over several they would emit more."
    )


def no_gpu(region: Region) -> str:
    """The error for a region without any of the chosen GPU types."""
    return (
        f"Region {region.region} ({region.city}) has none of the chosen GPU types; "
        "make one available there (gpu_regions) or leave the region out."
    )


def no_energy(model: Model) -> str:
    """The error for a model without energy points for any of the chosen GPU types."""
    return (
        f"{model.model} has no energy points for any chosen GPU type; "
        "choose another GPU type or leave the model out."
    )


class ContextSum(NamedTuple):
    """Sums over turns, in whole numbers, so that they add up the same in any order.

    ``output``: tokens; ``context``: twice Σ(h + p + o/2); ``weighted``: the same times output.
    """

    turns: int
    output: int
    context: int
    weighted: int

    def plus(self, other: ContextSum) -> ContextSum:
        """The sums over both."""
        return ContextSum(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    @property
    def mean(self) -> float:
        """Output-weighted mean of h + p + o/2; the plain mean without output, 0 of no turns."""
        if self.output:
            return self.weighted / (2 * self.output)
        return self.context / (2 * self.turns) if self.turns else 0.0


def context_sum(trace: Trace, context_tokens: int) -> ContextSum:
    """Sums over the turns that a context window holds."""
    prompt_end = trace.history_tokens + trace.new_prompt_tokens
    held = prompt_end + trace.output_tokens <= context_tokens
    output = trace.output_tokens[held]
    twice = 2 * prompt_end[held] + output
    return ContextSum(
        int(held.sum()), int(output.sum()), int(twice.sum()), int((output * twice).sum())
    )


def mean_context_tokens(trace: Trace, context_tokens: int) -> float:
    """Output-weighted mean of h + p + o/2 over the turns that a context window holds."""
    return context_sum(trace, context_tokens).mean


def _chosen(
    scenario: Scenario, catalog: Catalog, user_regions: Sequence[str]
) -> tuple[list[Model], list[Gpu], list[Region]]:
    def look_up(kind: str, names: Sequence[str], known: Mapping[str, T]) -> list[T]:
        for name in names:
            if name not in known:
                raise ScenarioError(unknown(kind, name, list(known.keys())))
        return [known[name] for name in names]

    for name in (*user_regions, *scenario.pue_overrides):
        look_up("region", [name], catalog.regions)
    for gpu, where in scenario.gpu_regions.items():
        if gpu in scenario.gpus or gpu not in DEFAULT_GPU_REGIONS:
            # a GPU type of the defaults that was not chosen need not be in the catalog
            look_up("GPU type", [gpu], catalog.gpus)
            look_up("region", where, catalog.regions)
    return (
        look_up("model", scenario.models, catalog.models),
        look_up("GPU type", scenario.gpus, catalog.gpus),
        look_up("region", scenario.regions, catalog.regions),
    )


def no_round_trip(user_region: str, region: str) -> str:
    """The error for two regions without a round-trip time."""
    return f"There is no round-trip time from {user_region} to {region}; add it to the table."


def _rtt_ms(catalog: Catalog, user_region: str, region: str) -> float:
    try:
        return catalog.rtt_ms[user_region, region]
    except KeyError:
        raise ScenarioError(no_round_trip(user_region, region)) from None


def _replica(
    model: Model, gpu: Gpu, curve: EnergyCurve, mean_tokens: float, concurrency: float
) -> tuple[Replica, dict[str, float]]:
    n_gpus, kv_bytes = curve.n_gpus, model.kv_bytes_per_token
    if problem := does_not_fit(model, gpu, n_gpus):
        raise ScenarioError(problem)
    memory = costs.kv_memory_bytes(n_gpus, gpu.memory_gb, model.weight_bytes)
    share, window = model.global_layers / model.layers, model.window_tokens
    context = costs.attention_context(mean_tokens, share, window)
    batch = costs.replica_batch(concurrency, memory, kv_bytes, context, curve.batch[-1])
    step_ms = costs.step_ms_at(batch, curve.batch, curve.inter_token_ms)
    read_ms = costs.context_read_ms(batch, kv_bytes, context, n_gpus, gpu.bandwidth_gb_s)
    replica = Replica(
        model=model.model,
        gpu=gpu.gpu,
        n_gpus=n_gpus,
        batch=batch,
        mean_context_tokens=mean_tokens,
        fit_tokens=costs.fit_tokens(memory, kv_bytes, share, window, model.context_tokens),
        decode_j_per_token=costs.decode_energy_at(batch, curve.batch, curve.decode_j_per_token),
        inter_token_ms=step_ms + read_ms,
        extrapolated=bool(batch < curve.batch[0]),
        basis=curve.basis_at(batch),
        weight_bytes_per_param=model.weight_bytes_per_param,
    )
    prefill_j, prefill_ms = curve.prefill_j_per_token, curve.prefill_ms_per_token
    output_ms = replica.inter_token_ms / batch
    return replica, {
        "fit_tokens": replica.fit_tokens,
        "n_gpus": float(n_gpus),
        "batch": batch,
        "prefill_j": prefill_j,
        "prefill_ms": prefill_ms,
        "decode_j": replica.decode_j_per_token,
        "context_j": costs.context_j_per_token(gpu.context_nj_per_byte, kv_bytes),
        "inter_token_ms": replica.inter_token_ms,
        "work_j": prefill_j + costs.host_energy_j(n_gpus, prefill_ms),
        "output_j": replica.decode_j_per_token + costs.host_energy_j(n_gpus, output_ms),
        "output_ms": output_ms,
        "gpu_embodied_kg": gpu.embodied_kgco2e,
    }
