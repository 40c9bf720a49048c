"""What a log says about how its turns were served: replayed, charged, and compared with the model.

``as-served`` is no router: it sends each turn where the log says it went and takes the cached
tokens that the log reports, else those of the cache model. It is charged like any policy.
Logs name no GPU type; the one that needs the least energy for the turns of a model in a region
is taken, or one that the user names, and the results say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from carbonrouter_core.compiled import Array, jit
from carbonrouter_core.errors import ScenarioError, TraceError
from carbonrouter_core.fleet.cloud_names import match_model, match_region, model_name
from carbonrouter_core.replay.charging import charge
from carbonrouter_core.replay.decisions import UNSERVED, Decisions
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.routing import kv_cache
from carbonrouter_core.routing.policies import reasons
from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.words.names import unknown

LISTED_NAMES = 5
"""Names of models or regions listed in a sentence."""


@dataclass(frozen=True)
class NamesSaid:
    """What the user says that names in a log are: our model, our region, by the log's name.

    A model that is another one, such as a closed model, may be mapped to the open one that comes
    nearest: that is the user's assumption, and results say so.
    """

    models: Mapping[str, str] = field(default_factory=dict)
    regions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NameMatch:
    """What a name in a log is taken for.

    ``kind``: model or region; ``turns``: with this name; ``ours``: empty where it is not in the
    scenario; ``how``: why, in words.
    """

    kind: str
    name: str
    turns: int
    ours: str
    how: str


def has_served(trace: Trace) -> bool:
    """Whether the log says, for some turns, which model served them, and where."""
    return trace.served_model is not None and trace.served_region is not None


# --- As served -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ServedPlan:
    """Where the log's turns were served, in the terms of a scenario.

    ``deployment``: of each turn, -1 where its model or region is not in the scenario.
    ``notes``: what the reader must know, in sentences.
    """

    deployment: np.ndarray
    notes: tuple[str, ...]


def decisions_of_log(
    prepared: Prepared, gpu: str | None = None, said: NamesSaid | None = None
) -> tuple[Decisions, tuple[str, ...]]:
    """What the log says was decided, and what the reader must know of it, in sentences.

    ``gpu``: the GPU type to take where possible; ``said``: what the user says that names are.
    Raises :class:`TraceError` for a trace that says nothing about it.
    """
    plan = served_plan(prepared, gpu, said)
    placed, fleet, rules = prepared.placed, prepared.deployments.fleet, prepared.rules
    trace = placed.trace
    n = trace.n_turns
    observed = trace.cached_tokens_observed
    context = trace.history_tokens + trace.new_prompt_tokens + trace.output_tokens
    too_long = context > fleet.fit_tokens.max()  # no policy serves these; nor do we charge them
    deployment = np.where(too_long, UNSERVED, plan.deployment).astype(np.int16)
    cached, home = np.zeros(n, np.int64), np.full(n, UNSERVED, np.int16)
    reason = np.full(n, reasons.RULE, np.int8)
    reason[deployment < 0] = reasons.NOT_IN_SCENARIO
    reason[too_long] = reasons.UNSERVED
    follow(
        trace.offsets,
        trace.history_tokens,
        context,
        placed.start_s,
        deployment,
        np.full(n, -1) if observed is None else observed,
        len(fleet.pair),
        rules.idle_s,
        bool(rules.copies_all),
        cached,
        home,
    )
    nothing = np.full(n, np.nan)
    decisions = Decisions(
        deployment=deployment,
        wanted=deployment.copy(),
        home=home,
        cached_tokens=cached,
        reason=reason,
        missed_ceiling=np.zeros(n, bool),
        p_back=nothing,
        saving_g=nothing,
        rebuild_g=nothing,
        next_gain_g=nothing,
    )
    return decisions, plan.notes


def served_plan(
    prepared: Prepared, gpu: str | None = None, said: NamesSaid | None = None
) -> ServedPlan:
    """Which deployment of the scenario served each turn, by the log's names."""
    trace, deployments = prepared.placed.trace, prepared.deployments
    if trace.served_model is None:
        raise TraceError(
            f"{trace.name} does not say which model served its turns (served_model); as-served "
            "needs a log that does."
        )
    fleet = deployments.fleet
    models = list(dict.fromkeys(replica.model for replica in deployments.replicas))
    regions = [region.region for region in deployments.regions]
    gpus = sorted({replica.gpu for replica in deployments.replicas})
    if gpu is not None and gpu not in gpus:
        raise ScenarioError(unknown("GPU type of the scenario", gpu, gpus))
    notes: list[str] = []
    matches = name_matches(prepared, said)
    model = _numbers(trace.served_model, _taken(matches, "model"), models)
    if trace.served_region is None and len(regions) == 1:
        region = np.zeros(trace.n_turns, np.int64)
        notes.append(f"As served: the log names no region; {regions[0]} is taken.")
    else:
        named = trace.served_region or (None,) * trace.n_turns
        region = _numbers(named, _taken(matches, "region"), regions)
    notes += _match_notes(prepared, matches, said or NamesSaid())
    missing = (model < 0) | (region < 0)
    plan = np.full(trace.n_turns, UNSERVED)
    taken: list[str] = []
    pair_gpu = [replica.gpu for replica in deployments.replicas]
    model_of = np.array([models.index(replica.model) for replica in deployments.replicas])
    for m, r in sorted(set(zip(model[~missing].tolist(), region[~missing].tolist(), strict=True))):
        rows = np.flatnonzero((model == m) & (region == r))
        options = [
            d
            for d in range(len(fleet.pair))
            if fleet.region[d] == r and model_of[fleet.pair[d]] == m
        ]
        if not options:
            missing[rows] = True
            continue
        wanted = [d for d in options if pair_gpu[fleet.pair[d]] == gpu]
        chosen = wanted[0] if wanted else _least_energy(prepared, rows, options)
        plan[rows] = chosen
        taken.append(f"{models[m]} in {regions[r]}: {pair_gpu[fleet.pair[chosen]]}")
    if taken:
        how = f"{gpu} where it is" if gpu else "the one that needs the least energy"
        notes.append(
            f"As served: the log names no GPU type; taken is {how} ({'; '.join(taken[:8])})."
        )
    if missing.any():
        notes.append(_missing_note(trace, missing, model, region))
    if trace.cached_tokens_observed is not None:
        known = int((trace.cached_tokens_observed >= 0).sum())
        notes.append(
            f"As served: cached tokens are those observed on {known:,} of {trace.n_turns:,} "
            "turns, those of the cache model on the others."
        )
    else:
        notes.append("As served: the log has no cached tokens; those of the cache model are used.")
    return ServedPlan(plan, tuple(notes))


def name_matches(prepared: Prepared, said: NamesSaid | None = None) -> tuple[NameMatch, ...]:
    """What each name of a model or region in the log is taken for, the most frequent first.

    Raises
    ------
    ScenarioError
        If the user maps a name to a model or region that is not in the scenario, or maps a name
        that the log does not have.
    """
    said = said or NamesSaid()
    trace, deployments = prepared.placed.trace, prepared.deployments
    models = list(dict.fromkeys(replica.model for replica in deployments.replicas))
    regions = {region.region: region for region in deployments.regions}
    named_models = Counter(name for name in trace.served_model or () if name)
    named_regions = Counter(name for name in trace.served_region or () if name)
    for kind, mapping, named, ours in (
        ("model", said.models, named_models, models),
        ("region", said.regions, named_regions, list(regions)),
    ):
        for name, target in mapping.items():
            if target not in ours:
                raise ScenarioError(unknown(f"{kind} of the scenario", target, ours))
            if name not in named:
                raise ScenarioError(unknown(f"{kind} of the log", name, list(named)))
    matches = []
    for name, turns in named_models.most_common():
        if name in said.models:
            matches.append(NameMatch("model", name, turns, said.models[name], "you say so"))
            continue
        model = match_model(name, models)
        matches.append(NameMatch("model", name, turns, model or "", "by its name" if model else ""))
    for name, turns in named_regions.most_common():
        if name in said.regions:
            matches.append(NameMatch("region", name, turns, said.regions[name], "you say so"))
            continue
        match = match_region(name, regions.values())
        how = "" if match is None else "by its name"
        if match is not None and match.cloud is not None:
            cloud = match.cloud
            how = f"{cloud.provider}'s region in {cloud.city}, on the same grid ({cloud.zone})"
        matches.append(NameMatch("region", name, turns, match.region.region if match else "", how))
    return tuple(matches)


def _taken(matches: Sequence[NameMatch], kind: str) -> dict[str, str]:
    return {match.name: match.ours for match in matches if match.kind == kind and match.ours}


def _numbers(
    named: Sequence[str | None], taken: Mapping[str, str], ours: Sequence[str]
) -> np.ndarray:
    """Number of what each name is taken for in ``ours``, -1 where it is none."""
    codes, names = pd.factorize(np.asarray(named, dtype=object))
    numbers = [ours.index(taken[name]) if name in taken else -1 for name in names]
    return np.where(codes >= 0, np.array([*numbers, -1])[codes], -1)


def _match_notes(prepared: Prepared, matches: Sequence[NameMatch], said: NamesSaid) -> list[str]:
    """What the reader must know of the names: which are ours, by whom, and which precision."""
    notes = []
    renamed = [
        f"{match.name} is {match.ours}" + (f" ({match.how})" if match.kind == "region" else "")
        for match in matches
        if match.ours and match.name != match.ours and match.how != "you say so"
    ]
    if renamed:
        notes.append(f"As served: names in the log are taken so: {'; '.join(renamed[:12])}.")
    assumed = [f"{match.name} as {match.ours}" for match in matches if match.how == "you say so"]
    if assumed:
        notes.append(
            f"As served: {', '.join(assumed)}: your assumption. Carbon and quality are those of "
            "ours, not measured on what the log names."
        )
    models = {
        replica.model: replica.weight_bytes_per_param for replica in prepared.deployments.replicas
    }
    for match in matches:
        if match.kind != "model" or not match.ours or match.name in said.models:
            continue
        logged = model_name(match.name)
        charged = models[match.ours]
        if logged.bytes_per_param is not None and logged.bytes_per_param < charged:
            precision = {2.0: "bf16", 1.0: "fp8"}.get(charged, f"{charged:g} bytes a weight")
            notes.append(
                f"As served: {match.name} is quantised ({logged.precision}), but is charged as "
                f"{precision}, for which energy was measured; it likely needs less."
            )
    return notes


def _missing_note(trace: Trace, missing: np.ndarray, model: np.ndarray, region: np.ndarray) -> str:
    rows = np.flatnonzero(missing).tolist()
    models = trace.served_model or ()
    regions = trace.served_region or (None,) * trace.n_turns
    names: Counter[str] = Counter()
    for i in rows:
        if model[i] < 0:
            names[f"model {models[i] or 'not named'}"] += 1
        elif region[i] < 0:
            names[f"region {regions[i] or 'not named'}"] += 1
        else:
            names[f"{models[i]} in {regions[i]}"] += 1
    listed = ", ".join(f"{name} ({count:,})" for name, count in names.most_common(LISTED_NAMES))
    return (
        f"As served: {len(rows):,} of {trace.n_turns:,} turns are not charged, since the scenario "
        f"has no such deployment: {listed}. Add them to the scenario, or compare only the "
        "sessions that are charged in full (command observed)."
    )


def _least_energy(prepared: Prepared, rows: np.ndarray, options: Sequence[int]) -> int:
    """Of deployments that differ in GPU type, the one that needs the least energy for ``rows``."""
    if len(options) == 1:
        return options[0]
    trace = prepared.placed.trace
    observed = trace.cached_tokens_observed
    history = trace.history_tokens
    warm = history if observed is None else np.where(observed < 0, history, observed)
    energy_kwh = []
    for d in options:
        deployment = np.full(trace.n_turns, UNSERVED, np.int16)
        deployment[rows] = d
        nothing = np.full(trace.n_turns, np.nan)
        decisions = Decisions(
            deployment,
            deployment,
            deployment,
            np.minimum(warm, history),
            np.zeros(trace.n_turns, np.int8),
            np.zeros(trace.n_turns, bool),
            nothing,
            nothing,
            nothing,
            nothing,
        )
        charges = charge(
            prepared.deployments.fleet, prepared.k, prepared.placed, prepared.intensity, decisions
        )
        energy_kwh.append(float(charges.energy_kwh.sum()))
    return options[int(np.argmin(energy_kwh))]


@jit
def follow(
    offsets: Array,
    history: Array,
    context: Array,
    start_s: Array,
    deployment: Array,
    observed: Array,
    n_deployments: int,
    idle_s: float,
    copies_all: bool,
    cached_tokens: Array,
    home: Array,
) -> None:
    """Fill what was cached at each turn: as observed, else as the cache model has it."""
    cached = np.zeros(n_deployments)
    last_s = np.zeros(n_deployments)
    for s in range(offsets.size - 1):
        cached[:] = 0.0
        for i in range(offsets[s], offsets[s + 1]):
            h = float(history[i])
            kv_cache.begin_turn(cached, last_s, h, start_s[i], idle_s)
            home[i] = kv_cache.home(cached)
            d = deployment[i]
            if d >= 0:
                known = observed[i] >= 0
                cached_tokens[i] = min(observed[i], history[i]) if known else int(cached[d])
            kv_cache.end_turn(cached, last_s, d, float(context[i]), start_s[i], copies_all)
