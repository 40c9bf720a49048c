"""A scenario made ready to run: its turns in time, its deployments, its grid, what it learned.

All of it is the same for every policy; what runs a policy stands above this module.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from carbonrouter_core.errors import ScenarioError, TraceError
from carbonrouter_core.fleet.catalog import Catalog
from carbonrouter_core.fleet.deployments import Deployments, build_deployments, mean_context_tokens
from carbonrouter_core.fleet.volume import Workload
from carbonrouter_core.grid.choice import Chosen, IntensitySource, OwnSeries, choose
from carbonrouter_core.grid.knowledge import known_by_region
from carbonrouter_core.grid.series import ZoneSeries, intensity_by_region, utc_text
from carbonrouter_core.quality.item_response import QualityFit
from carbonrouter_core.replay.charging import charge
from carbonrouter_core.replay.decisions import replay
from carbonrouter_core.replay.fairness import raised_floors
from carbonrouter_core.replay.practice import checked_baseline, with_practice
from carbonrouter_core.routing.kernel import Rules, make_rules, with_floors, without_limits
from carbonrouter_core.routing.policies import POLICIES, PRACTICES, Policy, policy
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.store.find_trace import find_trace
from carbonrouter_core.store.series import own_series_of
from carbonrouter_core.store.sites import load_catalog
from carbonrouter_core.traces.placement import PlacedTrace, place
from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.traces.training import Training, learn, training_sessions
from carbonrouter_core.words import notes
from carbonrouter_core.words.names import unknown

RULE_FIELDS = ("copies", "idle_s", "quality_floor", "gate_threshold")
"""Scenario fields that decisions go by and nothing else that is prepared."""


@dataclass(frozen=True)
class Prepared:
    """A scenario made ready to run: what does not depend on the policy.

    Attributes
    ----------
    scenario
        All inputs.
    placed
        The trace with times, user regions and difficulty.
    deployments
        The deployments, in their order.
    series
        Carbon intensity of each region.
    intensity
        What is charged: gCO2e/kWh at the start of each turn, shape (turns, regions).
    training
        What policies learned from the training half.
    rules
        What compiled code needs of the scenario.
    k
        Slope of the item response model.
    fair_floors
        Quality floor of each user region, shape (user regions,), by id of each policy that raises
        it.
    known
        What policies know of ``intensity``, the same shape; None if they know all of it.
    intensity_sources
        Where the intensity of each region comes from.
    intensity_notes
        What the reader must know of it, in sentences.
    baseline_notes
        What the reader must know of the scenario's baseline, in sentences.
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
    known: np.ndarray | None = None
    intensity_sources: tuple[IntensitySource, ...] = ()
    intensity_notes: tuple[str, ...] = ()
    baseline_notes: tuple[str, ...] = ()

    def floors_of(self, policy_id: str) -> np.ndarray:
        """Quality floors under a policy.

        Parameters
        ----------
        policy_id
            Id of a policy.

        Returns
        -------
        numpy.ndarray
            The floor of each user region, 0 to 1, shape (user regions,).
        """
        everywhere = np.full(len(self.placed.user_regions), self.scenario.quality_floor)
        return self.fair_floors.get(policy_id, everywhere)

    def rules_for(self, policy_id: str) -> Rules:
        """What the scenario lays down for a policy's decisions.

        Free migration obeys no latency ceiling: which candidates are fast enough depends on what
        is cached, and with all of it cached everywhere it would bound no other policy.

        Parameters
        ----------
        policy_id
            Id of a policy.

        Returns
        -------
        Rules
            For compiled code.
        """
        if policy_id in PRACTICES:
            rules = without_limits(self.rules)
            return with_practice(rules, policy_id, self.scenario, self.deployments)
        floors = self.fair_floors.get(policy_id)
        rules = self.rules if floors is None else with_floors(self.rules, floors, self.k)
        if policy(policy_id).free_history:
            return rules._replace(latency_ceiling_ms=math.inf)
        return rules

    def under(self, **changes: Any) -> Prepared:
        """The same world with other rules, without preparing it again.

        Parameters
        ----------
        **changes
            Values of fields among :data:`RULE_FIELDS`.

        Returns
        -------
        Prepared
            With the changed scenario.

        Raises
        ------
        ScenarioError
            If another field is named, or a value is out of range.
        """
        for name in changes:
            if name not in RULE_FIELDS:
                raise ScenarioError(unknown("rule", name, RULE_FIELDS))
        scenario = self.scenario.replace(**changes)
        rules = make_rules(scenario, self.training, self.k, len(self.placed.user_regions))
        changed = replace(self, scenario=scenario, rules=rules)
        return replace(changed, fair_floors=fair_floors(changed))

    @property
    def optimum_is_exact(self) -> bool:
        """Whether the hindsight optimum is proven to be the least, not only the best found.

        It is not where FairCarbon raises quality floors under a latency ceiling: the fastest
        candidate above a raised floor may be too slow for the others.
        """
        scenario = self.scenario
        raised = scenario.fairness_weight > 0 and scenario.latency_ceiling_ms is not None
        return scenario.copies == "latest" and not raised

    @property
    def known_intensity(self) -> np.ndarray:
        """What policies see of the intensity, g/kWh, shape (turns, regions)."""
        return self.intensity if self.known is None else self.known

    def intensity_seen_by(self, policy: Policy) -> np.ndarray:
        """The carbon intensity that a policy decides with.

        A policy that knows the future knows the grid too: it says what was possible.

        Parameters
        ----------
        policy
            The policy.

        Returns
        -------
        numpy.ndarray
            gCO2e/kWh, shape (turns, regions).
        """
        return self.intensity if policy.knows_output else self.known_intensity

    def estimated_share(self, turns: np.ndarray, region: np.ndarray) -> np.ndarray:
        """Share of carbon intensity that its source had estimated.

        Parameters
        ----------
        turns
            Row numbers in the trace, shape (n,).
        region
            Number of a region for each, shape (n,).

        Returns
        -------
        numpy.ndarray
            0 to 1, shape (n,); NaN where the source does not say.
        """
        time_s = self.scenario.window_start_s + self.placed.start_s[turns]
        share = np.empty(len(turns))
        for number, zone_series in enumerate(self.series):
            there = region == number
            share[there] = zone_series.estimated_at(time_s[there])
        return share

    def between(self, first: int, end: int) -> Prepared:
        """The same for some of the sessions, by number; the columns are views.

        Parameters
        ----------
        first
            Number of the first session.
        end
            Number after the last one.

        Returns
        -------
        Prepared
            With these sessions only.
        """
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
        copies = self.placed.trace.copies
        left_out = (notes.copies(copies),) if copies else ()
        grid = self.intensity_notes + self.baseline_notes
        return self.deployments.warnings + grid + own + left_out


@dataclass(frozen=True)
class Survey:
    """What must be known of a whole trace before a part of it is replayed.

    ``contexts``: mean context in tokens by context window; ``workload``: sums over the trace;
    ``last_start_s``: when its last turn starts, from the start of the window; ``movable``: whether
    its times are drawn.
    """

    contexts: Mapping[int, float]
    workload: Workload
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
    """Check that a scenario can run, place its trace in time and look up the grid.

    Parameters
    ----------
    scenario
        All inputs of a run.
    trace
        Replaces the trace that the scenario names.
    catalog
        Replaces the built-in models, GPU types and regions, and those in the store.
    own_series
        Carbon-intensity series by zone, used before the built-in ones. If left out, the series
        in the store are used, unless the scenario excludes them.
    survey
        Of the whole trace, if ``trace`` is only the part that policies learn from.

    Returns
    -------
    Prepared
        What all policies of the scenario share: the placed trace, deployments and intensity.

    Raises
    ------
    InputError
        If the scenario, the trace or the grid data cannot be used; the message says what to
        change.
    """
    catalog = catalog or load_catalog()
    trace = trace or find_trace(scenario.trace)
    placed = placed_in(scenario, trace, catalog)
    survey = survey or Survey(
        contexts={n: mean_context_tokens(trace, n) for n in catalog.context_windows},
        workload=Workload.of(trace),
        last_start_s=float(placed.start_s.max()),
        user_regions=placed.user_regions,
        movable=trace.start_s is None,  # its own times have no window to move
    )
    placed = _seen_by(placed, survey.user_regions)
    deployments = build_deployments(
        scenario, catalog, survey.contexts, survey.user_regions, survey.workload
    )
    baseline_notes = checked_baseline(scenario, deployments)
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
        intensity_notes=(
            *chosen.notes,
            *([locked] if locked else []),
            *_other_years(scenario, trace, chosen),
        ),
        baseline_notes=baseline_notes,
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


def _other_years(scenario: Scenario, trace: Trace, chosen: Chosen) -> list[str]:
    """What to say of a trace without dates beside grid data of the user's of another time."""
    dated = trace.start_utc_s is not None or trace.start_s is not None
    if dated or not chosen.unused:
        return []
    series = chosen.unused[0]
    return [
        f"The traffic has no dates, so it is placed in the window from {scenario.window_start}; "
        f"your series {series.name!r} is of another time ({utc_text(series.start_s)} to "
        f"{utc_text(series.end_s)}). Set window_start to a day of that time to use it."
    ]


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
    fleet, floors = prepared.deployments.fleet, {}
    for fair in POLICIES.values():
        if not fair.raises_floors:
            continue
        seen = prepared.intensity_seen_by(fair)
        decisions = replay(fair, fleet, prepared.rules, placed, seen)
        quality = charge(fleet, prepared.k, placed, prepared.intensity, decisions).quality
        floors[fair.id] = raised_floors(
            scenario.quality_floor,
            scenario.fairness_weight,
            quality[rows],
            placed.user[rows],
            len(placed.user_regions),
        )
    return floors
