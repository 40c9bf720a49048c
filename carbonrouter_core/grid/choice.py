"""Which series each zone of a scenario is read from, and where there is none, what to do.

A series of the user goes before the built-in one; lifecycle and direct, average and marginal
are never mixed. A zone that no series covers is an error that names the range it has and the
nearest window that all chosen zones have; it is never filled in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from carbonrouter_core.errors import IntensityError
from carbonrouter_core.grid.knowledge import USUAL_DAYS, seconds_before
from carbonrouter_core.grid.series import ZoneSeries, builtin_series, utc_text
from carbonrouter_core.units import S_PER_DAY, S_PER_HOUR
from carbonrouter_core.words.names import unknown

if TYPE_CHECKING:
    from carbonrouter_core.scenario import Scenario

EPOCH = date(1970, 1, 1)

MOSTLY_ESTIMATED = 0.5
"""Share of estimated hours in the window from which a zone gets a warning."""

OwnSeries = Mapping[str, Sequence[ZoneSeries]]
"""Series of the user by zone, those that go first in front."""


@dataclass(frozen=True)
class IntensitySource:
    """Where the carbon intensity of one zone comes from; one a region, in their order.

    ``own``: whether it is a series of the user (stored as ``series``) or the built-in one.
    ``estimated_share``: mean over the window, None where the source does not say.
    """

    region: str
    zone: str
    own: bool
    series: str
    source: str
    licence: str
    basis: str
    kind: str
    granularity: str
    step_s: int
    first_utc: str
    end_utc: str
    estimated_share: float | None
    sha256: str

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values."""
        return dict(vars(self))

    def __str__(self) -> str:
        which = f"your series {self.series!r}" if self.own else "built in"
        return f"{self.zone}: {which}, {self.granularity}, {self.kind}, {self.basis}"


@dataclass(frozen=True)
class Chosen:
    """The series of each region, what they are, and what the reader should know of them."""

    series: tuple[ZoneSeries, ...]
    sources: tuple[IntensitySource, ...]
    notes: tuple[str, ...]
    unused: tuple[ZoneSeries, ...] = ()
    """The user's series that do not cover the window."""


def candidates(zone: str, basis: str, kind: str, own: OwnSeries) -> list[ZoneSeries]:
    """The series that ``zone`` could be read from, those that go first in front.

    Raises :class:`IntensityError` with what there is instead where there is none.
    """
    mine = [
        zone_series
        for zone_series in own.get(zone, ())
        if (zone_series.basis, zone_series.kind) == (basis, kind)
    ]
    builtin = builtin_series(basis).get(zone) if kind == "average" else None
    offers = mine + ([builtin] if builtin is not None else [])
    if offers:
        return offers
    lifecycle = builtin_series("lifecycle")
    there = {(zone_series.basis, zone_series.kind) for zone_series in own.get(zone, ())}
    there |= {(name, "average") for name in ("lifecycle", "direct") if zone in builtin_series(name)}
    if not there:
        raise IntensityError(unknown("zone", zone, sorted({*lifecycle, *own})))
    if there == {("lifecycle", "average")} and kind == "average":
        raise IntensityError(
            f"Zone {zone} has lifecycle intensity only; choose the lifecycle basis "
            "or leave its region out."
        )
    has = " and ".join(sorted(f"{one_kind} {one_basis}" for one_basis, one_kind in there))
    raise IntensityError(
        f"Zone {zone} has {has} intensity, but the scenario asks for {kind} {basis}; they are "
        f"never mixed. Import a {kind} {basis} series for {zone}, change intensity_kind or "
        "carbon_basis, or leave its region out."
    )


def choose(
    scenario: Scenario,
    regions: Sequence[str],
    zones: Sequence[str],
    own: OwnSeries,
    *,
    last_s: float,
    movable: bool = True,
) -> Chosen:
    """The series of each of ``zones``, the grids of ``regions``, for ``scenario``.

    ``last_s``: when the last turn starts, epoch seconds. ``movable``: whether a trace could be
    placed in another window.
    """
    basis, kind = scenario.carbon_basis, scenario.intensity_kind
    offered = [candidates(zone, basis, kind, own) for zone in zones]
    first_s, end_s = scenario.window_start_s, scenario.window_end_s
    knowledge = scenario.intensity_knowledge
    nearest = nearest_start(
        offered,
        scenario.window_start,
        scenario.window_days,
        days_before=_days_before(knowledge),
        tail_s=max(0.0, last_s - (end_s - 1)) if movable else 0.0,
    )
    series, notes = [], []
    unused_series: list[ZoneSeries] = []
    for zone, offers in zip(zones, offered, strict=True):
        whole = [
            zone_series
            for zone_series in offers
            if _reaches(zone_series, first_s, max(last_s, end_s - 1), knowledge)
        ]
        window = [
            zone_series
            for zone_series in offers
            if _reaches(zone_series, first_s, end_s - 1, knowledge)
        ]
        best = next(iter(whole or window), None)
        if best is None:
            raise _not_covered(zone, offers, scenario, nearest)
        series.append(best)
        unused_series += offers[: offers.index(best)]
        notes += [
            f"Your series {unused.name!r} of {zone} does not cover the window and the turns that "
            f"run past it ({utc_text(unused.start_s)} to {utc_text(unused.end_s)}): not used."
            for unused in offers[: offers.index(best)]
        ]
    late_s = last_s - min((zone_series.end_s for zone_series in series), default=math.inf)
    if late_s >= 0 and movable:
        raise IntensityError(
            f"Conversations that begin in the window go on to {utc_text(last_s)}, past the end of "
            f"the carbon-intensity data; end the window {math.floor(late_s / S_PER_DAY) + 1} d "
            "earlier.",
            nearest_start=nearest,
        )
    require_one_accounting(series)
    hours_s = np.arange(first_s, end_s, S_PER_HOUR, dtype=np.float64)
    sources = tuple(
        source_of(region, zone_series, hours_s)
        for region, zone_series in zip(regions, series, strict=True)
    )
    all_notes = (*dict.fromkeys([*notes, *_notes(sources)]),)
    return Chosen(tuple(series), sources, all_notes, tuple(unused_series))


def source_of(region: str, series: ZoneSeries, hours_s: np.ndarray) -> IntensitySource:
    """What ``series`` is; its share of estimated hours is the mean over ``hours_s``."""
    estimated = float(np.mean(series.estimated_at(hours_s)))
    return IntensitySource(
        region=region,
        zone=series.zone,
        own=bool(series.name),
        series=series.name,
        source=series.source,
        licence=series.licence,
        basis=series.basis,
        kind=series.kind,
        granularity=series.granularity,
        step_s=series.step_s,
        first_utc=utc_text(series.start_s),
        end_utc=utc_text(series.end_s),
        estimated_share=estimated if math.isfinite(estimated) else None,
        sha256=series.sha256,
    )


def require_one_accounting(series: Iterable[ZoneSeries]) -> None:
    """Refuse series of which some are lifecycle and some direct, some average, some marginal."""
    for what in ("basis", "kind"):
        by_value: dict[str, list[str]] = {}
        for zone_series in series:
            by_value.setdefault(getattr(zone_series, what), []).append(zone_series.zone)
        if len(by_value) > 1:
            has = "; ".join(f"{value}: {', '.join(zones)}" for value, zones in by_value.items())
            raise IntensityError(
                f"Carbon intensity is not of one {what} ({has}); figures would not compare. "
                "Use series of the same kind for all zones."
            )


def _notes(sources: Sequence[IntensitySource]) -> list[str]:
    notes = [
        f"Carbon intensity of {source.zone} is from your series {source.series!r} "
        f"({source.granularity})."
        for source in sources
        if source.own
    ]
    notes += [
        f"Carbon intensity of {source.zone} is to {100 * source.estimated_share:.0f} % estimated "
        "by its source in this window."
        for source in sources
        if source.estimated_share is not None and source.estimated_share >= MOSTLY_ESTIMATED
    ]
    if any(source.kind == "marginal" for source in sources):
        notes.append(
            "Carbon intensity is marginal: figures say what a change of load causes, and are no "
            "location-based inventory."
        )
    return notes


# --- Windows ---------------------------------------------------------------------------------


def _days_before(knowledge: str) -> int:
    return USUAL_DAYS.get(knowledge, 1 if knowledge == "persistence" else 0)


def _reaches(series: ZoneSeries, first_s: float, last_s: float, knowledge: str) -> bool:
    return series.covers(first_s - seconds_before(knowledge, series.step_s), last_s)


def nearest_start(
    offered: Sequence[Sequence[ZoneSeries]],
    wanted: date,
    days: int,
    *,
    days_before: int = 0,
    tail_s: float = 0.0,
) -> date | None:
    """The first day nearest to ``wanted`` of a window of ``days`` that every zone has.

    ``offered``: the series of each zone. ``days_before``: what must be there before the
    window; ``tail_s``: what must be there after it. None where there is no such window.
    """
    spans = common_starts(offered, days, days_before=days_before, tail_s=tail_s)
    asked = (wanted - EPOCH).days
    nearest = [min(max(asked, low), high) for low, high in spans]
    best = min(nearest, key=lambda day: abs(day - asked), default=None)
    return None if best is None else EPOCH + timedelta(days=best)


def common_starts(
    offered: Sequence[Sequence[ZoneSeries]],
    days: int,
    *,
    days_before: int = 0,
    tail_s: float = 0.0,
) -> list[tuple[int, int]]:
    """Spans of days since 1970 (first, last) on which a window that every zone has can begin."""
    common = [(-(10**7), 10**7)]
    for offers in offered:
        spans = []
        for zone_series in offers:
            low = math.ceil(zone_series.start_s / S_PER_DAY) + days_before
            high = math.floor((zone_series.end_s - tail_s) / S_PER_DAY) - days
            if low <= high:
                spans.append((low, high))
        common = [
            (max(a, low), min(b, high))
            for a, b in common
            for low, high in spans
            if max(a, low) <= min(b, high)
        ]
    return sorted(common) if offered else []


def _not_covered(
    zone: str, offers: Sequence[ZoneSeries], scenario: Scenario, nearest: date | None
) -> IntensityError:
    ranges = " and ".join(
        f"from {utc_text(zone_series.start_s)} to {utc_text(zone_series.end_s)}"
        + (f" (your series {zone_series.name!r})" if zone_series.name else "")
        for zone_series in offers
    )
    back = _days_before(scenario.intensity_knowledge)
    needs = f", and {scenario.intensity_knowledge} needs {back} d before it" if back else ""
    days = f"{scenario.window_days} d"
    advice = (
        f"The nearest window of {days} that all chosen zones have begins on {nearest}."
        if nearest
        else f"There is no window of {days} that all chosen zones have: shorten it, leave the "
        "region out, or bring a series that covers it."
    )
    return IntensityError(
        f"Carbon intensity of zone {zone} ({scenario.carbon_basis}) runs {ranges}, but the window "
        f"is {utc_text(scenario.window_start_s)} to {utc_text(scenario.window_end_s)}{needs}. "
        + advice,
        nearest_start=nearest,
    )
