"""The same workload in several windows, and under several kinds of knowledge of the grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from carbonrouter_core.errors import IntensityError, ScenarioError
from carbonrouter_core.fleet.catalog import Catalog
from carbonrouter_core.grid.choice import OwnSeries, candidates, common_starts, nearest_start
from carbonrouter_core.progress import Progress, nobody_listens, part_of
from carbonrouter_core.results.comparison import Comparison, Interval, compare
from carbonrouter_core.routing.policies import CLEANEST_REGION, FAIRCARBON, ROUTER, ROUTERS
from carbonrouter_core.scenario import KNOWLEDGE, Scenario
from carbonrouter_core.store.series import own_series_of
from carbonrouter_core.store.sites import load_catalog
from carbonrouter_core.units import S_PER_DAY

SEASONS = ((1, 15), (4, 15), (7, 15), (10, 15))
"""Month and day on which a window of each season begins: the middle of its first month."""

TAIL_DAYS = 3
"""Days that a series should have after a window, for conversations that go on after it."""


@dataclass(frozen=True)
class WindowResult:
    """One window: what each policy comes to in it, or why it cannot be run.

    ``figures``: by policy, as in :data:`.results.FIGURES`; ``saving``: against FairCarbon, by
    policy; ``intensity``: mean g/kWh in the window by region.
    """

    start: date
    days: int
    figures: dict[str, dict[str, Any]]
    saving: dict[str, Interval]
    intensity: dict[str, float]
    problem: str = ""


@dataclass(frozen=True)
class KnowledgeResult:
    """One kind of knowledge: what a policy emits with it, or why it cannot be run.

    ``cost_percent``: how much more than with the present intensity known; ``saving``: against
    FairCarbon with the same knowledge.
    """

    knowledge: str
    policy: str
    carbon_g: float | None
    cost_percent: float | None
    saving: Interval
    problem: str = ""


NO_INTERVAL = Interval(None, None, None)


def offered_series(
    scenario: Scenario, catalog: Catalog | None = None, own_series: OwnSeries | None = None
) -> dict[str, list[Any]]:
    """The series that each region of ``scenario`` could be read from, those that go first first.

    Raises :class:`IntensityError` for a zone that has none of the kind asked for.
    """
    catalog = catalog or load_catalog()
    zones = {name: catalog.regions[name].zone for name in scenario.regions
             if name in catalog.regions}  # fmt: skip
    own, _ = own_series_of(scenario, zones.values(), own_series)
    return {
        name: candidates(zone, scenario.carbon_basis, scenario.intensity_kind, own)
        for name, zone in zones.items()
    }


def usable_starts(scenario: Scenario, own_series: OwnSeries | None = None) -> list[tuple[int, int]]:
    """Spans of days since 1970 on which a window that all zones have can begin."""
    offered = offered_series(scenario, own_series=own_series)
    return common_starts(list(offered.values()), scenario.window_days)


def seasons(scenario: Scenario, own_series: OwnSeries | None = None) -> tuple[date, ...]:
    """First days of four windows, one a season, in the year of the scenario's window.

    Moved to the nearest day that all zones have; none where they have none in common.
    """
    offered = list(offered_series(scenario, own_series=own_series).values())
    year = scenario.window_start.year
    starts = [
        nearest_start(
            offered, date(year, month, day), scenario.window_days, tail_s=TAIL_DAYS * S_PER_DAY
        )
        for month, day in SEASONS
    ]
    return tuple(dict.fromkeys(start for start in starts if start is not None))


def compare_windows(
    scenario: Scenario,
    starts: Sequence[date],
    policies: Sequence[str] = ROUTERS,
    catalog: Catalog | None = None,
    own_series: OwnSeries | None = None,
    progress: Progress = nobody_listens,
) -> Iterator[WindowResult]:
    """Run ``scenario`` in a window from each of ``starts``; yields a result after each.

    ``progress`` as in :func:`~.run.run_policy`. A window that cannot be run says why.
    Raises :class:`ScenarioError` for no starts.
    """
    if not starts:
        raise ScenarioError("There is no window to compare; name at least one first day.")
    for number, start in enumerate(starts):
        moved = scenario.replace(window_start=start)
        window_progress = part_of(progress, number / len(starts), 1 / len(starts))
        try:
            result = compare(
                moved,
                [*policies, FAIRCARBON],
                catalog=catalog,
                own_series=own_series,
                progress=window_progress,
            )
        except IntensityError as error:
            yield WindowResult(start, scenario.window_days, {}, {}, {}, str(error))
        else:
            yield _window(result, start, policies)


def _window(result: Comparison, start: date, policies: Sequence[str]) -> WindowResult:
    sites = result.sites()
    return WindowResult(
        start=start,
        days=result.prepared.scenario.window_days,
        figures={name: result.figures(name) for name in result.runs},
        saving={name: result.saving(name, FAIRCARBON) for name in policies},
        intensity=dict(zip(sites["region"], sites["mean_intensity_g_per_kwh"], strict=True)),
    )


def compare_knowledge(
    scenario: Scenario,
    policies: Sequence[str] = (ROUTER, CLEANEST_REGION),
    kinds: Sequence[str] = KNOWLEDGE,
    catalog: Catalog | None = None,
    own_series: OwnSeries | None = None,
    progress: Progress = nobody_listens,
) -> Iterator[KnowledgeResult]:
    """Run ``scenario`` with each of ``kinds`` of knowledge; yields a result after each.

    ``progress`` as in :func:`~.run.run_policy`.
    Carbon is always charged by the true intensity. A kind that cannot be used (a forecast that the
    series does not have) gives the reason.
    """
    known: dict[str, float] = {}
    asked = list(dict.fromkeys(["current", *kinds]))
    for number, kind in enumerate(asked):
        try:
            result = compare(
                scenario.replace(intensity_knowledge=kind),
                [*policies, FAIRCARBON],
                catalog=catalog,
                own_series=own_series,
                progress=part_of(progress, number / len(asked), 1 / len(asked)),
            )
        except IntensityError as error:
            for name in policies:
                yield KnowledgeResult(kind, name, None, None, NO_INTERVAL, str(error))
            continue
        for name in policies:
            carbon_g = float(result.figures(name)["carbon_g"])
            known.setdefault(name, carbon_g)
            base_g = known[name]
            yield KnowledgeResult(
                knowledge=kind,
                policy=name,
                carbon_g=carbon_g,
                cost_percent=100.0 * (carbon_g / base_g - 1.0) if base_g > 0 else None,
                saving=result.saving(name, FAIRCARBON),
            )
