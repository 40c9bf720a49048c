"""Checks of the rows of carbon-intensity files: zones, times, numbers and units."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from carbonrouter_core.errors import IntensityError
from carbonrouter_core.grid.even import EvenGrid
from carbonrouter_core.grid.importers.base import Fact, IntensityOptions, Rows
from carbonrouter_core.grid.series import ZoneSeries, builtin_series, utc_text
from carbonrouter_core.reading.findings import Findings, RowFindings
from carbonrouter_core.reading.numbers import G_PER_KWH, Numbers, read_numbers
from carbonrouter_core.reading.times import read_times
from carbonrouter_core.words.names import nearest

MOST_G_PER_KWH = 2000.0
"""No grid emits more: oil-fired plants alone come to about 1,200 g/kWh."""
LEAST_MEDIAN_G_PER_KWH = 2.0
"""A column whose median is below this is most likely in kg/kWh or t/MWh."""
LEAST_LIFECYCLE_G_PER_KWH = 1.0
"""Wind, water and nuclear power come to about 5 to 25 g/kWh over their life."""

VALUE_COLUMNS = ("lifecycle", "direct")
_TRUE = frozenset({"true", "1", "yes", "y", "t", "ja"})
_FACT_NAMES = {
    "column": "Values",
    "unit": "Unit",
    "timezone": "Time zone",
    "kind": "Kind",
    "basis": "Basis",
    "interval_end": "Times are",
    "decimal": "Decimals",
    "zone": "Zone",
}


class RowChecks:
    """Checks the rows of an import and makes series of them; counts what is wrong.

    ``facts``: what is known of all rows; facts given by the user go first, and facts found later
    is added.
    """

    def __init__(
        self, rows: Rows, options: IntensityOptions, findings: Findings, own: Collection[str]
    ) -> None:
        self.frame = rows.frame
        self.findings = RowFindings(findings, rows.frame["place"].to_numpy())
        self.options = options
        self.known_zones = {*builtin_series("lifecycle"), *own, *options.new_zones}
        self.zones_unknown: list[str] = []
        self.facts = dict(rows.facts)
        for name in ("zone", "timezone", "unit", "basis", "kind", "interval_end", "source",
                     "licence"):  # fmt: skip
            if (value := getattr(options, name)) is not None:
                self.facts[name] = Fact(value, "you")

    def fact(self, name: str, otherwise: Any = None) -> Any:
        """The value of a fact, ``otherwise`` where neither file nor user says."""
        return self.facts[name].value if name in self.facts else otherwise

    def shown_facts(self) -> dict[str, str]:
        """The facts in words, each with where it is from."""
        shown = {}
        for name, label in _FACT_NAMES.items():
            if name in self.facts:
                fact = self.facts[name]
                value = {True: "ends of intervals", False: "starts of intervals"}.get(
                    fact.value, fact.value
                )
                shown[label] = f"{value} ({fact.because})"
        return shown

    def series(self) -> tuple[ZoneSeries, ...]:
        """The series that the rows come to; none where something is wrong."""
        if not len(self.frame):
            return ()
        self._name_the_basis()
        zones = self._zones()
        utc_s = self._times(zones)
        unit = self._unit()
        columns = {name: self._numbers(name, unit) for name in (*VALUE_COLUMNS, "forecast")}
        estimated = self.frame["estimated"].fillna("").astype(str).str.lower().isin(_TRUE)
        self._plausible(columns)
        if "kind" not in self.facts:
            self.facts["kind"] = Fact("average", "assumed")
            self.findings.findings.guess("intensity is average, since nothing says marginal")
        if "interval_end" not in self.facts:
            self.facts["interval_end"] = Fact(False, "assumed")
            self.findings.findings.guess("times are starts of intervals")
        if self.findings.findings.count("refused") or self.findings.findings.count("unreadable"):
            return ()
        even = EvenGrid(self.facts, self.findings, self.options.hourly)
        made = []
        for zone in pd.unique(zones):
            rows = np.flatnonzero(zones == zone)
            for basis in VALUE_COLUMNS:
                values, forecast = columns[basis], columns["forecast"]
                if values is None or not np.isfinite(values[rows]).any():
                    continue
                series = even.series(
                    zone,
                    basis,
                    rows,
                    utc_s[rows],
                    values[rows],
                    estimated.to_numpy()[rows],
                    None if forecast is None else forecast[rows],
                )
                if series is not None:
                    made.append(series)
        if not made and not self.findings.findings.count("refused"):
            self.findings.refuse("there is no value in any row", np.arange(min(1, len(self.frame))))
        return () if self.findings.findings.count("refused") else tuple(made)

    def first_rows(self) -> pd.DataFrame:
        """What the rows come to, one line each: time (UTC), zone, g/kWh, and what is wrong."""
        self._name_the_basis()
        zones = self._zones()
        utc_s = self._times(zones)
        unit = self._unit()
        shown = {
            "Time (UTC)": [utc_text(s) if np.isfinite(s) else "" for s in utc_s],
            "Zone": zones,
        }
        for name in (*VALUE_COLUMNS, "forecast"):
            if (values := self._numbers(name, unit)) is not None:
                shown[f"{name} g/kWh"] = values
        frame = pd.DataFrame(shown)
        places = self.findings.places.tolist()
        wrong = [finding for finding in self.findings.findings.all() if finding.kind == "refused"]
        frame["Problem"] = [
            "; ".join(finding.reason for finding in wrong if place in finding.places)
            for place in places
        ]
        return frame

    def _name_the_basis(self) -> None:
        """Put a value column whose name says no basis where the user or the format says."""
        if "value" in self.frame:
            basis = self.fact("basis")
            if basis is None:
                raise IntensityError(
                    "The file does not say whether its intensity is lifecycle or direct, and the "
                    "two are never mixed; say which (--basis lifecycle or --basis direct)."
                )
            self.frame[basis] = self.frame.pop("value")
        present = [name for name in VALUE_COLUMNS if self.frame[name].notna().any()]
        if self.options.basis is not None and present and self.options.basis not in present:
            raise IntensityError(
                f"You say that the file is {self.options.basis}, but it says {present[0]}."
            )
        if present:
            because = self.facts["basis"].because if "basis" in self.facts else "the column name"
            self.facts["basis"] = Fact(" and ".join(present), because)

    def _zones(self) -> np.ndarray:
        given = self.frame["zone"]
        if self.options.zone is not None:
            other = given.dropna().unique()
            if len(other) > 1:
                raise IntensityError(
                    f"The file has {len(other)} zones ({', '.join(map(str, other[:6]))}); say for "
                    "each which it is (NAME=ZONE), not one for all."
                )
            given = pd.Series(self.options.zone, index=self.frame.index)
        elif given.isna().all():
            if "zone" not in self.facts:
                raise IntensityError(
                    "The file does not say of which zone it is; say so (--zone DE-LU)."
                )
            given = pd.Series(self.fact("zone"), index=self.frame.index)
        missing = given.isna() | (given == "")
        self.findings.refuse("the zone is missing", missing.to_numpy())
        of_format = self.fact("zone_names", {})
        names = {name: zone for name, zone in of_format.items() if name not in self.known_zones}
        given = given.fillna("").replace(names | dict(self.options.zones))
        for zone in given[~missing].unique():
            if zone not in self.known_zones:
                self.zones_unknown.append(zone)
                self.findings.refuse(
                    f"unknown zone {zone!r}; nearest known: {nearest(zone, self.known_zones)}. Say "
                    f"which it is ({zone}=ZONE), or that it is a zone of its own",
                    (given == zone).to_numpy(),
                )
        return given.to_numpy()

    def _times(self, zones: np.ndarray) -> np.ndarray:
        timezone = self.fact("timezone")
        times = read_times(self.frame["time"], pd.Series(zones), timezone)
        for reason in pd.unique(times.problem[times.problem != ""]):
            rows = times.problem == reason
            if reason.startswith("there is no such time"):
                # exports with a row for every clock hour leave that one empty
                blank = rows & self._empty()
                self.findings.repair(reason + "; the row is empty and left out", blank)
                rows &= ~blank
            self.findings.refuse(reason, rows)
        self.findings.repair(
            "this local hour comes twice, but stands there once: taken as the first",
            times.once,
        )
        if times.naive and timezone is None:
            self._hint_at_clock_changes()
        elif not times.naive:
            self.facts["timezone"] = Fact("as each time says", "the times")
        return times.utc_s

    def _empty(self) -> np.ndarray:
        cells = self.frame[list(VALUE_COLUMNS)]
        return (cells.isna() | (cells == "")).all(axis=1).to_numpy()

    def _hint_at_clock_changes(self) -> None:
        twice = self.frame.duplicated(["zone", "time"]).to_numpy()
        if twice.any():
            self.findings.note(
                "a time that stands there twice: local time with daylight saving?", twice
            )

    def _unit(self) -> float:
        if "unit" not in self.facts:
            self.facts["unit"] = Fact("g/kWh", "assumed")
            self.findings.findings.guess("intensity is in g/kWh, since nothing says otherwise")
        return G_PER_KWH[self.fact("unit")]

    def _numbers(self, name: str, g_per_kwh: float) -> np.ndarray | None:
        """A column in g/kWh, NaN where missing; None where the file has none."""
        if self.frame[name].isna().all():
            return None
        numbers: Numbers = read_numbers(self.frame[name], self.options.decimal)
        label = f"{name} intensity" if name in VALUE_COLUMNS else name
        if numbers.unclear:
            column = self.frame[name].fillna("").str.strip() == numbers.unclear
            self.findings.refuse(
                f"{label} {numbers.unclear!r} can be read in two ways; say what the decimal mark "
                'is ("," or ".")',
                column.to_numpy(),
            )
            return numbers.values * g_per_kwh
        if numbers.decimal == ",":
            self.facts["decimal"] = Fact(
                "decimal comma", "you" if self.options.decimal else "the numbers"
            )
        self.findings.refuse(f"{label} is not a number", numbers.wrong)
        values = numbers.values * g_per_kwh
        self.findings.refuse(f"{label} is negative", values < 0)
        zero = values == 0
        self.findings.repair(f"{label} of 0 is read as missing: no grid is free", zero)
        return np.where(zero, np.nan, values)

    def _plausible(self, columns: Mapping[str, np.ndarray | None]) -> None:
        you_say = self.options.unit is not None
        for name, values in columns.items():
            if values is None or not np.isfinite(values).any():
                continue
            high = values > MOST_G_PER_KWH
            self.findings.refuse(
                f"{name} is over {MOST_G_PER_KWH:,.0f} g/kWh; the unit is likely another, such as "
                "g/MWh or lb/MWh (--unit)",
                high,
            )
            median = float(np.nanmedian(values))
            stated = you_say or (name == "direct" and self.facts["unit"].because != "assumed")
            if median < LEAST_MEDIAN_G_PER_KWH and not stated:
                rows = values > 0
                what = f"{name} is about {median:.2g} g/kWh"
            elif name == "lifecycle":  # whatever the unit is said to be: no grid is so clean
                rows = (values < LEAST_LIFECYCLE_G_PER_KWH) & (values > 0)
                what = f"{name} is below {LEAST_LIFECYCLE_G_PER_KWH:g} g/kWh"
            else:
                continue
            self.findings.refuse(
                f"{what}; the unit is likely kg/kWh or t/MWh, or lb/kWh; say it (--unit)", rows
            )
