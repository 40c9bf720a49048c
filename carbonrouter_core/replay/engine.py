"""From a scenario to results: prepares what all policies share, replays and charges each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from carbonrouter_core.errors import ScenarioError, TraceError
from carbonrouter_core.fleet.catalog import Catalog
from carbonrouter_core.fleet.deployments import Deployments, build_deployments, mean_context_tokens
from carbonrouter_core.grid.choice import IntensitySource, OwnSeries, choose
from carbonrouter_core.grid.knowledge import known_by_region
from carbonrouter_core.grid.series import ZoneSeries, intensity_by_region
from carbonrouter_core.memory import give_back, large_arrays_apart
from carbonrouter_core.quality.item_response import QualityFit
from carbonrouter_core.replay.as_served import run_as_served
from carbonrouter_core.replay.fairness import raised_floors
from carbonrouter_core.replay.on_disk import RunOnDisk
from carbonrouter_core.replay.simulation import Decisions, Progress, blocks, charge, replay, unheard
from carbonrouter_core.results.comparison import Comparison, Run
from carbonrouter_core.routing.kernel import Rules, make_rules, with_floors
from carbonrouter_core.routing.policies import AS_SERVED, BASELINE, POLICIES, ROUTER, Policy, policy
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.store.series import own_series_of
from carbonrouter_core.store.sites import load_catalog
from carbonrouter_core.store.store import existing_store
from carbonrouter_core.traces.builtin import BUILTIN_TRACES, builtin_trace
from carbonrouter_core.traces.loading import read_trace
from carbonrouter_core.traces.placement import PlacedTrace, place
from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.traces.training import Training, learn, training_sessions
from carbonrouter_core.words.names import nearest, unknown

RULE_FIELDS = ("copies", "idle_s", "quality_floor", "gate_threshold")
"""Scenario fields that decisions go by and nothing else that is prepared."""

ON_DISK_TURNS = 65_536
"""Turns in memory at a time of a run that is kept on disk; a session is never split."""

SEEDS_SHARE = 0.2
"""Part of the time of a search that goes into the paths of other policies, roughly."""


@dataclass(frozen=True)
class Prepared:
    """A scenario made ready to run: what does not depend on the policy.

    ``intensity``: g/kWh at the start of each turn, shape (turns, regions): what is charged.
    ``known``: what policies see of it (scenario field intensity_knowledge); None: all of it.
    ``intensity_sources``: where the intensity of each region comes from.
    """

    scenario: Scenario
    placed: PlacedTrace
    deployments: Deployments
    series: tuple[ZoneSeries, ...]
    intensity: np.ndarray
    training: Training
    rules: Rules
    k: float
    fair_floors: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Quality floor of each user region, shape (U,), under each policy that raises it."""
    known: np.ndarray | None = None
    intensity_sources: tuple[IntensitySource, ...] = ()
    intensity_notes: tuple[str, ...] = ()

    def floors_of(self, policy_id: str) -> np.ndarray:
        """Quality floor of each user region under a policy, shape (U,)."""
        everywhere = np.full(len(self.placed.user_regions), self.scenario.quality_floor)
        return self.fair_floors.get(policy_id, everywhere)

    def rules_for(self, policy_id: str) -> Rules:
        """What the scenario lays down for a policy's decisions."""
        floors = self.fair_floors.get(policy_id)
        return self.rules if floors is None else with_floors(self.rules, floors, self.k)

    def under(self, **changes: Any) -> Prepared:
        """This world with other values of some :data:`RULE_FIELDS`, without preparing it again."""
        for name in changes:
            if name not in RULE_FIELDS:
                raise ScenarioError(unknown("rule", name, RULE_FIELDS))
        scenario = self.scenario.replace(**changes)
        rules = make_rules(scenario, self.training, self.k, len(self.placed.user_regions))
        changed = replace(self, scenario=scenario, rules=rules)
        return replace(changed, fair_floors=fair_floors(changed))

    @property
    def optimum_is_exact(self) -> bool:
        """Whether the hindsight optimum is proven to be the least, not only the best found."""
        return self.scenario.copies == "latest" and self.scenario.latency_ceiling_ms is None

    @property
    def known_intensity(self) -> np.ndarray:
        """What policies see of the intensity, g/kWh, shape (turns, regions)."""
        return self.intensity if self.known is None else self.known

    def estimated_share(self, turns: np.ndarray, region: np.ndarray) -> np.ndarray:
        """Share of estimated source hours at ``turns`` in the ``region`` of each; NaN: not said.

        ``turns``: row numbers in the trace; ``region``: numbers of regions, of the same shape.
        """
        time_s = self.scenario.window_start_s + self.placed.start_s[turns]
        share = np.empty(len(turns))
        for number, one in enumerate(self.series):
            there = region == number
            share[there] = one.estimated_at(time_s[there])
        return share

    def between(self, first: int, end: int) -> Prepared:
        """The same for the sessions from number ``first`` up to ``end``; its columns are views."""
        placed = self.placed
        rows = slice(int(placed.trace.offsets[first]), int(placed.trace.offsets[end]))
        part = replace(
            placed,
            trace=placed.trace.between(first, end),
            start_s=placed.start_s[rows],
            user=placed.user[rows],
            difficulty=placed.difficulty[rows],
        )
        known = None if self.known is None else self.known[rows]
        return replace(self, placed=part, intensity=self.intensity[rows], known=known)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader of the results should know."""
        own = (self.training.note,) if self.training.note else ()
        return self.deployments.warnings + self.intensity_notes + own


def find_trace(name: str) -> Trace:
    """The built-in trace of that name, the trace file at that path, or the stored trace."""
    large_arrays_apart()  # it is read to be replayed: both go through arrays of all its turns
    if name in BUILTIN_TRACES:
        return builtin_trace(name)
    path = Path(name)
    if _is_file(path):
        return read_trace(path)
    store = existing_store()
    stored = [] if store is None else [one.name for one in store.traces()]
    if store is not None and name in stored:
        return store.load_trace(name)
    if path.suffix and not stored:
        raise TraceError(f"There is no trace file {path.name}; check the path.")
    known = f"({nearest(name, BUILTIN_TRACES)})"
    known += f" nor stored ({nearest(name, stored)})" if stored else ""
    raise TraceError(f"Unknown trace {name!r}: neither built in {known} nor a file.")


def parts_folder(name: str) -> Path | None:
    """The folder of parts at path ``name``; None for a built-in trace, whatever folder lies
    beside, and for what is no folder."""
    if name in BUILTIN_TRACES or not name:  # an empty path is the present folder
        return None
    try:
        return path.resolve() if (path := Path(name)).is_dir() else None
    except (OSError, ValueError):  # a name that no folder can have
        return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


@dataclass(frozen=True)
class Survey:
    """What must be known of a whole trace before a part of it is replayed.

    ``contexts``: mean context in tokens by context window; ``last_start_s``: when its last turn
    starts, from the start of the window; ``movable``: whether its times are drawn.
    """

    contexts: Mapping[int, float]
    last_start_s: float
    user_regions: tuple[str, ...]
    movable: bool


def placed_in(scenario: Scenario, trace: Trace, catalog: Catalog) -> PlacedTrace:
    """``trace`` placed in the window of ``scenario``."""
    if not trace.n_turns:
        raise TraceError(f"Trace {trace.name} has no turns; there is nothing to route.")
    return place(
        trace,
        window_days=scenario.window_days,
        user_mix=scenario.users,
        utc_offset_h={name: region.utc_offset_h for name, region in catalog.regions.items()},
        gaps=scenario.gaps,
        gap_median_s=scenario.gap_median_s,
        seed=scenario.seed,
        window_start_s=scenario.window_start_s,
    )


def prepare(
    scenario: Scenario,
    trace: Trace | None = None,
    catalog: Catalog | None = None,
    own_series: OwnSeries | None = None,
    survey: Survey | None = None,
) -> Prepared:
    """Check that ``scenario`` can run, place its trace in time and look up the grid.

    ``own_series``: carbon-intensity series by zone that go before the built-in ones; left out,
    those in the store, unless the scenario does without them.
    ``survey``: of the whole, where ``trace`` is the part of it that is learned from.
    Raises a subclass of :class:`~.errors.InputError` that says what to change.
    """
    catalog = catalog or load_catalog()
    trace = trace or find_trace(scenario.trace)
    placed = placed_in(scenario, trace, catalog)
    survey = survey or Survey(
        contexts={n: mean_context_tokens(trace, n) for n in catalog.context_windows},
        last_start_s=float(placed.start_s.max()),
        user_regions=placed.user_regions,
        movable=trace.start_s is None,  # its own times have no window to move
    )
    placed = _seen_by(placed, survey.user_regions)
    deployments = build_deployments(scenario, catalog, survey.contexts, survey.user_regions)
    zones = [region.zone for region in deployments.regions]
    own, locked = own_series_of(scenario, zones, own_series)
    chosen = choose(
        scenario,
        [region.region for region in deployments.regions],
        zones,
        own,
        last_s=scenario.window_start_s + survey.last_start_s,
        movable=survey.movable,
    )
    training = learn(placed)
    k = QualityFit.load().k
    prepared = Prepared(
        scenario=scenario,
        placed=placed,
        deployments=deployments,
        series=chosen.series,
        training=training,
        rules=make_rules(scenario, training, k, len(placed.user_regions)),
        k=k,
        intensity_sources=chosen.sources,
        intensity_notes=(*chosen.notes, *([locked] if locked else [])),
        **_intensity(scenario, chosen.series, placed),
    )
    return replace(prepared, fair_floors=fair_floors(prepared))


def prepare_part(prepared: Prepared, trace: Trace, catalog: Catalog | None = None) -> Prepared:
    """The same preparation for other sessions of the trace that ``prepared`` learned from."""
    scenario = prepared.scenario
    placed = placed_in(scenario, trace, catalog or load_catalog())
    placed = _seen_by(placed, prepared.deployments.user_regions)
    return replace(prepared, placed=placed, **_intensity(scenario, prepared.series, placed))


def _seen_by(placed: PlacedTrace, user_regions: tuple[str, ...]) -> PlacedTrace:
    """``placed`` with its users numbered as in ``user_regions``."""
    if placed.user_regions == user_regions:
        return placed
    number = np.array([user_regions.index(region) for region in placed.user_regions])
    return replace(placed, user=number[placed.user], user_regions=user_regions)


def _intensity(
    scenario: Scenario, series: tuple[ZoneSeries, ...], placed: PlacedTrace
) -> dict[str, Any]:
    """Intensity at the start of each turn: what is charged, and what policies see of it."""
    time_s = scenario.window_start_s + placed.start_s
    knowledge = scenario.intensity_knowledge
    return {
        "intensity": intensity_by_region(series, time_s),
        "known": None if knowledge == "current" else known_by_region(series, time_s, knowledge),
    }


def fair_floors(prepared: Prepared) -> dict[str, np.ndarray]:
    """The raised quality floors of each policy that has them, shape (U,); none at weight 0.

    By a first pass without them over the training half: see :mod:`.policies.faircarbon`.
    """
    scenario, placed = prepared.scenario, prepared.placed
    if scenario.fairness_weight == 0.0:
        return {}
    rows = training_sessions(placed)[placed.trace.session_index]
    even = replace(prepared, fair_floors={})
    return {
        one.id: raised_floors(
            scenario.quality_floor,
            scenario.fairness_weight,
            run_policy(even, one.id).charges.quality[rows],
            placed.user[rows],
            len(placed.user_regions),
        )
        for one in POLICIES.values()
        if one.raises_floors
    }


def run_policy(prepared: Prepared, policy_id: str, progress: Progress = unheard) -> Run:
    """Replay one policy and charge it.

    ``progress`` is told how far it is, 0 to 1, in blocks of sessions; what it raises ends the run.
    """
    chosen = policy(policy_id)
    if chosen is AS_SERVED:
        return run_as_served(prepared)
    fleet, placed = prepared.deployments.fleet, prepared.placed
    seeds: list[np.ndarray] = []
    begun = 0.0
    if chosen.knows_future and not prepared.optimum_is_exact:
        charged_alike = [p for p in POLICIES.values() if not (p.knows_future or p.free_history)]
        step = SEEDS_SHARE / len(charged_alike)
        for other in charged_alike:
            seeds.append(_decide(prepared, other, (), part_of(progress, begun, step)).deployment)
            begun += step
    decisions = _decide(prepared, chosen, seeds, part_of(progress, begun, 1.0 - begun))
    charges = charge(fleet, prepared.k, placed, prepared.intensity, decisions)
    return Run(chosen, decisions, charges)


def run_on_disk(prepared: Prepared, policy_id: str, progress: Progress = unheard) -> Run:
    """The same as :func:`run_policy`, to the bit, a block of sessions at a time and kept in a file.

    Sessions are independent, so neither decisions nor charges depend on the blocks.
    """
    chosen, trace = policy(policy_id), prepared.placed.trace
    run = RunOnDisk(chosen, trace.n_turns)
    if chosen is AS_SERVED:  # reads the log as a whole
        run.write(0, run_policy(prepared, policy_id, progress))
        return run
    for first, end, done in blocks(trace.offsets, ON_DISK_TURNS):
        part = prepared.between(first, end)
        turns = part.placed.trace.n_turns
        share = turns / trace.n_turns
        part_run = run_policy(part, policy_id, part_of(progress, done - share, share))
        run.write(int(trace.offsets[first]), part_run)
    return run


def part_of(progress: Progress, begun: float, share: float) -> Progress:
    """The progress of a part that is ``share`` of the whole, and begins at ``begun``."""
    return lambda done: progress(begun + share * done)


def _decide(
    prepared: Prepared, chosen: Policy, seeds: Sequence[np.ndarray], progress: Progress
) -> Decisions:
    # what knows the future knows the grid too: it is a bound on what could have been
    seen = prepared.intensity if chosen.knows_output else prepared.known_intensity
    fleet, rules = prepared.deployments.fleet, prepared.rules_for(chosen.id)
    return replay(chosen, fleet, rules, prepared.placed, seen, seeds, progress)


def compare(
    scenario: Scenario,
    policies: Iterable[str] = (ROUTER, BASELINE),
    trace: Trace | None = None,
    catalog: Catalog | None = None,
    own_series: OwnSeries | None = None,
    progress: Progress = unheard,
    on_disk: bool = False,
) -> Comparison:
    """Run ``policies`` on ``scenario`` and hold them side by side.

    ``trace`` and ``catalog`` replace what the scenario names and the built-in tables;
    ``own_series`` as in :func:`prepare`, ``progress`` as in :func:`run_policy`.
    ``on_disk``: whether the runs are kept in files, for traces of a million turns.
    """
    prepared = prepare(scenario, trace, catalog, own_series)
    chosen = list(dict.fromkeys(policy(name).id for name in policies))
    share = 1.0 / max(len(chosen), 1)
    run = run_on_disk if on_disk else run_policy
    if on_disk:
        give_back()
    runs = {
        name: run(prepared, name, part_of(progress, number * share, share))
        for number, name in enumerate(chosen)
    }
    if on_disk:
        give_back()
    return Comparison(prepared, runs)
