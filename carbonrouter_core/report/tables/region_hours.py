"""``by_region_hour.csv``: a row for each policy, region and hour."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from carbonrouter_core.report.fields import Field, Names, number, text, time, whole
from carbonrouter_core.report.tables.rows import (
    CARBON,
    CHUNK_ROWS,
    FACILITY,
    IT,
    POLICY,
    PolicyRows,
    ratio,
)
from carbonrouter_core.results.comparison import Comparison
from carbonrouter_core.results.totals import FIGURES
from carbonrouter_core.units import S_PER_HOUR


@dataclass(frozen=True)
class RegionHourRows:
    """One row a region and hour, for one policy: all hours from the window's start to its end,
    or to the last turn where that is later."""

    rows: PolicyRows

    @cached_property
    def first_s(self) -> int:
        """Start of the first hour, epoch seconds."""
        start_s = self.rows.prepared.scenario.window_start_s
        early_s = float(self.rows.prepared.placed.start_s.min(initial=0.0))
        return start_s + int(np.floor(min(0.0, early_s) / S_PER_HOUR)) * S_PER_HOUR

    def hour(self, turns: Any) -> np.ndarray:
        """Hour of each of ``turns``, from the first."""
        return ((self.rows.start_utc_s(turns) - self.first_s) // S_PER_HOUR).astype(np.int64)

    @cached_property
    def hours(self) -> int:
        """How many hours there are."""
        end_s = self.rows.prepared.scenario.window_end_s
        start_s = self.rows.prepared.placed.start_s
        last = self.hour([int(start_s.argmax())])[0] if len(start_s) else -1
        return max((end_s - self.first_s) // S_PER_HOUR, int(last) + 1)

    @cached_property
    def regions(self) -> int:
        """How many regions there are."""
        return len(self.rows.prepared.deployments.regions)

    def total(self, values: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Sum over the served turns of each row; ``values`` gives one for each of some turns."""
        rows = np.zeros(self.regions * self.hours)
        decided = self.rows.decisions.deployment
        for first in range(0, len(decided), CHUNK_ROWS):
            turns = first + np.flatnonzero(decided[first : first + CHUNK_ROWS] >= 0)
            # one after the other, in the order of the turns, wherever a chunk ends
            np.add.at(rows, self.rows.region(turns) * self.hours + self.hour(turns), values(turns))
        return rows

    def counted(self, values: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Like :meth:`total`, as whole numbers."""
        return np.rint(self.total(values)).astype(np.int64)

    def charged(self, name: str) -> np.ndarray:
        """Sum of a charge over each row."""
        return self.total(lambda turns: getattr(self.rows.charges, name)[turns])

    @cached_property
    def energy_kwh(self) -> np.ndarray:
        """Facility energy of each row."""
        return self.charged("energy_kwh")

    @cached_property
    def start_s(self) -> np.ndarray:
        """Start of each row's hour, epoch seconds."""
        return np.tile(self.first_s + S_PER_HOUR * np.arange(self.hours), self.regions)

    def by_region(self, values: Any) -> np.ndarray:
        """One of ``values`` (regions,) for each row."""
        return np.repeat(np.asarray(values), self.hours)

    def intensity(self) -> np.ndarray:
        """Energy-weighted mean where energy was used, else the zone's in the middle of the hour."""
        series = self.rows.prepared.series
        middle_s = self.start_s[: self.hours] + S_PER_HOUR / 2
        zone = [
            zone_series.at(np.clip(middle_s, zone_series.start_s, zone_series.end_s - 1.0))
            for zone_series in series
        ]
        used = ratio(self.charged("carbon_g"), self.energy_kwh)
        return np.where(np.isnan(used), np.concatenate(zone), used)


def _region_hour_sum(name: str) -> Field[RegionHourRows]:
    return number(name, *FIGURES[name], lambda r: r.charged(name))


BY_REGION_HOUR: tuple[Field[RegionHourRows], ...] = (
    text("policy", POLICY, lambda r: r.rows.policy_names(len(r.start_s))),
    text(
        "region",
        "region that served",
        lambda r: Names(r.by_region(np.arange(r.regions)), r.rows.region_names("region")),
    ),
    text(
        "zone",
        "grid zone of the region",
        lambda r: Names(r.by_region(np.arange(r.regions)), r.rows.region_names("zone")),
    ),
    time("start_utc", "start of the hour", lambda r: r.start_s),
    whole(
        "turns",
        "",
        "turns served there that start in the hour",
        lambda r: r.counted(lambda turns: np.ones(len(turns))),
    ),
    whole(
        "output_tokens",
        "tokens",
        "output tokens of these turns",
        lambda r: r.counted(lambda turns: r.rows.trace.output_tokens[turns]),
    ),
    number("it_energy_kwh", *IT, lambda r: r.total(r.rows.it_energy_kwh)),
    number(
        "pue",
        "",
        "power usage effectiveness of the region",
        lambda r: r.by_region(r.rows.fleet.pue),
    ),
    number("energy_kwh", *FACILITY, lambda r: r.energy_kwh),
    number(
        "intensity_g_per_kwh",
        "gCO2e/kWh",
        "energy-weighted mean carbon intensity of these turns; "
        "without energy, the zone's in the middle of the hour",
        lambda r: r.intensity(),
    ),
    *(_region_hour_sum(name) for name in CARBON),
)


def by_region_hour(comparison: Comparison) -> Iterator[RegionHourRows]:
    """The rows of every policy; all energy of a turn stands in the hour in which it starts."""
    for name in comparison.runs:
        yield RegionHourRows(PolicyRows(comparison, name))
