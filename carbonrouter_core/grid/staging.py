"""From files to checked carbon-intensity series, ready to be stored. Nothing is stored here.

What is wrong is counted with its lines in a report; a wrong row stops the import. Nothing is
filled in but holes of up to three hours, linearly, and they count as estimated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from carbonrouter_core.errors import IntensityError
from carbonrouter_core.grid.importers import INTENSITY_IMPORTERS
from carbonrouter_core.grid.importers.base import Fact, IntensityOptions, Rows
from carbonrouter_core.grid.report import IntensityReport, SeriesSummary
from carbonrouter_core.grid.series import (
    MAX_HOLE_S,
    MAX_STEP_S,
    MIN_STEP_S,
    ZoneSeries,
    builtin_series,
    utc_text,
)
from carbonrouter_core.progress import Progress, nobody_listens, part_of
from carbonrouter_core.reading.files import Source, reading_errors_as, sources_of
from carbonrouter_core.reading.findings import MAX_PLACES, Findings
from carbonrouter_core.reading.numbers import G_PER_KWH, Numbers, read_numbers
from carbonrouter_core.reading.times import read_times, time_zone
from carbonrouter_core.scenario import BASES, KINDS
from carbonrouter_core.units import S_PER_HOUR
from carbonrouter_core.words.names import nearest

MOST_G_PER_KWH = 2000.0
"""No grid emits more: oil-fired plants alone come to about 1,200 g/kWh."""
LEAST_MEDIAN_G_PER_KWH = 2.0
"""A column whose median is below this is most likely in kg/kWh or t/MWh."""
LEAST_LIFECYCLE_G_PER_KWH = 1.0
"""Wind, water and nuclear power come to about 5 to 25 g/kWh over their life."""

NOT_STATED = "not stated"
VALUE_COLUMNS = ("lifecycle", "direct")
_TRUE = frozenset({"true", "1", "yes", "y", "t", "ja"})
_FACT_NAMES = {
    "unit": "Unit",
    "timezone": "Time zone",
    "kind": "Kind",
    "basis": "Basis",
    "interval_end": "Times are",
    "decimal": "Decimals",
    "zone": "Zone",
}


@dataclass(frozen=True)
class StagedIntensity:
    """Series that were read and checked, but are stored nowhere yet."""

    report: IntensityReport
    series: tuple[ZoneSeries, ...]

    def require(self, *, done: str = "stored") -> None:
        """Raise :class:`IntensityError` unless this may be stored."""
        report = self.report
        name = ", ".join(report.files)
        if report.refused:
            raise IntensityError(f"{name}, {report.first_refusal}. Nothing was {done}.")
        if not report.series:
            raise IntensityError(f"{name} has no carbon intensity; nothing was {done}.")


def stage_intensity(
    paths: Sequence[Path],
    format_id: str | None = None,
    *,
    names: Sequence[str] | None = None,
    options: IntensityOptions | None = None,
    own_zones: Collection[str] = (),
    progress: Progress = nobody_listens,
) -> StagedIntensity:
    """Read and check the series in ``paths``, which are one series cut into files, or several.

    ``own_zones``: zones that the user has beside the built-in ones. Raises
    :class:`IntensityError` for a file that holds no carbon intensity; wrong rows are in the
    report instead.
    """
    options = options or IntensityOptions()
    findings = Findings()
    with reading_errors_as(IntensityError):
        _check_options(options)
        sources = sources_of(paths, names)
        importer, reason = INTENSITY_IMPORTERS.find(sources[0], format_id) or (
            INTENSITY_IMPORTERS["own"],
            "no other format is recognised",
        )
        share = 1 / len(sources)
        parts = [
            importer.read(source, findings, part_of(progress, source.number * share, share))
            for source in sources
        ]
    work = _Work(_joined(parts, sources), options, findings, own_zones)
    series = work.series()
    progress(1.0)
    report = IntensityReport(
        files=tuple(source.name for source in sources),
        format_id=importer.id,
        format_label=importer.label,
        format_reason=reason,
        rows_read=findings.rows_read,
        facts=work.shown_facts(),
        series=tuple(SeriesSummary.of(one) for one in series),
        findings=findings.all(),
        guesses=findings.guesses,
        source=work.fact("source", NOT_STATED),
        licence=work.fact("licence", NOT_STATED),
        zones_unknown=tuple(work.zones_unknown),
    )
    return StagedIntensity(report, series)


def _check_options(options: IntensityOptions) -> None:
    for name, value, allowed in (
        ("unit", options.unit, G_PER_KWH),
        ("basis", options.basis, BASES),
        ("kind", options.kind, KINDS),
        ("decimal", options.decimal, (",", ".")),
    ):
        if value is not None and value not in allowed:
            raise IntensityError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}.")
    if options.timezone is not None:
        time_zone(options.timezone)


def _joined(parts: Sequence[Rows], sources: Sequence[Source]) -> Rows:
    first = {name: fact.value for name, fact in parts[0].facts.items()}
    for part, source in zip(parts, sources, strict=True):
        if {name: fact.value for name, fact in part.facts.items()} != first:
            raise IntensityError(
                f"{source.name} differs from {sources[0].name} in unit, kind or time zone; import "
                "them one by one."
            )
    return Rows(pd.concat([part.frame for part in parts], ignore_index=True), parts[0].facts)


class _Work:
    """One import: the rows, what is known of them, and what is found wrong."""

    def __init__(
        self, rows: Rows, options: IntensityOptions, findings: Findings, own: Collection[str]
    ) -> None:
        self.frame = rows.frame
        self.findings = findings
        self.options = options
        self.known_zones = {*builtin_series("lifecycle"), *own, *options.new_zones}
        self.zones_unknown: list[str] = []
        self.facts = dict(rows.facts)
        for name in ("zone", "timezone", "unit", "basis", "kind", "interval_end", "source",
                     "licence"):  # fmt: skip
            if (said := getattr(options, name)) is not None:
                self.facts[name] = Fact(said, "you")

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

    def refuse(self, reason: str, rows: np.ndarray) -> None:
        """Count rows (a mask or their numbers) that are wrong."""
        self._count("refused", reason, rows)

    def _count(self, kind: Any, reason: str, rows: np.ndarray) -> None:
        places = self.frame["place"].to_numpy()[rows]
        if len(places):
            self.findings.add(kind, reason, places[:MAX_PLACES].tolist(), len(places))

    # --- From rows to series -----------------------------------------------------------------

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
            self.findings.guess("intensity is average, since nothing says marginal")
        if "interval_end" not in self.facts:
            self.facts["interval_end"] = Fact(False, "assumed")
            self.findings.guess("times are starts of intervals")
        if self.findings.count("refused") or self.findings.count("unreadable"):
            return ()
        made = []
        for zone in pd.unique(zones):
            rows = np.flatnonzero(zones == zone)
            for basis in VALUE_COLUMNS:
                values, forecast = columns[basis], columns["forecast"]
                if values is None or not np.isfinite(values[rows]).any():
                    continue
                one = self._one(
                    zone,
                    basis,
                    rows,
                    utc_s[rows],
                    values[rows],
                    estimated.to_numpy()[rows],
                    None if forecast is None else forecast[rows],
                )
                if one is not None:
                    made.append(one)
        if not made and not self.findings.count("refused"):
            self.refuse("there is no value in any row", np.arange(min(1, len(self.frame))))
        return () if self.findings.count("refused") else tuple(made)

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
        self.refuse("the zone is missing", missing.to_numpy())
        given = given.fillna("").replace(dict(self.options.zones))
        for zone in given[~missing].unique():
            if zone not in self.known_zones:
                self.zones_unknown.append(zone)
                self.refuse(
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
                self._count("repaired", reason + "; the row is empty and left out", blank)
                rows &= ~blank
            self.refuse(reason, rows)
        self._count(
            "repaired",
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
            self._count(
                "note", "a time that stands there twice: local time with daylight saving?", twice
            )

    def _unit(self) -> float:
        if "unit" not in self.facts:
            self.facts["unit"] = Fact("g/kWh", "assumed")
            self.findings.guess("intensity is in g/kWh, since nothing says otherwise")
        return G_PER_KWH[self.fact("unit")]

    def _numbers(self, name: str, g_per_kwh: float) -> np.ndarray | None:
        """A column in g/kWh, NaN where missing; None where the file has none."""
        if self.frame[name].isna().all():
            return None
        numbers: Numbers = read_numbers(self.frame[name], self.options.decimal)
        label = f"{name} intensity" if name in VALUE_COLUMNS else name
        if numbers.unclear:
            column = self.frame[name].fillna("").str.strip() == numbers.unclear
            self.refuse(
                f"{label} {numbers.unclear!r} can be read in two ways; say what the decimal mark "
                'is ("," or ".")',
                column.to_numpy(),
            )
            return numbers.values * g_per_kwh
        if numbers.decimal == ",":
            self.facts["decimal"] = Fact(
                "decimal comma", "you" if self.options.decimal else "the numbers"
            )
        self.refuse(f"{label} is not a number", numbers.wrong)
        values = numbers.values * g_per_kwh
        self.refuse(f"{label} is negative", values < 0)
        zero = values == 0
        self._count("repaired", f"{label} of 0 is read as missing: no grid is free", zero)
        return np.where(zero, np.nan, values)

    def _plausible(self, columns: Mapping[str, np.ndarray | None]) -> None:
        you_say = self.options.unit is not None
        for name, values in columns.items():
            if values is None or not np.isfinite(values).any():
                continue
            high = values > MOST_G_PER_KWH
            self.refuse(
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
            self.refuse(f"{what}; the unit is likely kg/kWh or t/MWh (--unit)", rows)

    def _one(
        self,
        zone: str,
        basis: str,
        rows: np.ndarray,
        utc_s: np.ndarray,
        values: np.ndarray,
        estimated: np.ndarray,
        forecast: np.ndarray | None,
    ) -> ZoneSeries | None:
        """One series on an even grid, or None with the reason among the findings."""
        table = pd.DataFrame(
            {"row": rows, "utc_s": utc_s, "value": values, "estimated": estimated,
             "forecast": np.nan if forecast is None else forecast}
        ).dropna(subset="utc_s")  # fmt: skip
        table = self._without_duplicates(table)
        step_s = self._step(table, zone)
        if step_s is None:
            return None
        if self.fact("interval_end"):
            table["utc_s"] -= step_s
        known = table[table["value"].notna()]
        first_s, last_s = known["utc_s"].iloc[0], known["utc_s"].iloc[-1]
        outside = (table["utc_s"] < first_s) | (table["utc_s"] > last_s)
        self._count(
            "repaired",
            "no value at the beginning or the end: the series is that much shorter",
            table["row"].to_numpy()[outside],
        )
        count = int((last_s - first_s) / step_s) + 1
        index = ((known["utc_s"] - first_s) / step_s).astype(np.int64).to_numpy()
        holes = self._holes(zone, index, first_s, step_s, table)
        if holes is None:
            return None
        series = ZoneSeries(
            zone=zone,
            basis=basis,
            start_s=int(first_s),
            step_s=step_s,
            g_per_kwh=np.interp(np.arange(count), index, known["value"]),
            estimated_share=np.zeros(count),
            source=self.fact("source", NOT_STATED),
            licence=self.fact("licence", NOT_STATED),
            kind=self.fact("kind"),
            name="(not stored)",
        )
        series.estimated_share[index] = known["estimated"].to_numpy(np.float64)
        series.estimated_share[holes] = 1.0
        if forecast is not None:
            inside = table[~outside]
            series = dataclasses.replace(series, forecast_g_per_kwh=np.full(count, np.nan))
            at = ((inside["utc_s"] - first_s) / step_s).astype(np.int64).to_numpy()
            assert series.forecast_g_per_kwh is not None
            series.forecast_g_per_kwh[at] = inside["forecast"]
        if not self.options.hourly or step_s >= S_PER_HOUR:
            return series
        hourly = _hourly(series)
        if not len(hourly.g_per_kwh):
            self.refuse(f"{zone} has no whole hour to take a mean of", rows[:1])
            return None
        return hourly

    def _without_duplicates(self, table: pd.DataFrame) -> pd.DataFrame:
        # of equal times, a row with a value goes before one without
        table = table.assign(none=table["value"].isna())
        table = table.sort_values(["utc_s", "none", "row"], kind="stable").drop(columns="none")
        twice = table.duplicated("utc_s").to_numpy()
        if not twice.any():
            return table
        first = table.groupby("utc_s")["value"].transform("first")
        differs = twice & (table["value"].notna() & (table["value"] != first)).to_numpy()
        numbers = table["row"].to_numpy()
        self.refuse("the same time stands there twice, with different values", numbers[differs])
        self._count(
            "repaired",
            "the same time stands there twice, with the same value",
            numbers[twice & ~differs],
        )
        return table[~twice]

    def _step(self, table: pd.DataFrame, zone: str) -> int | None:
        """Seconds from one interval to the next, the same for all."""
        times = table["utc_s"].to_numpy()
        gaps = np.diff(times)
        stated = self.fact("step_s")
        if stated is None and not len(gaps):
            self.refuse(
                f"{zone} has a single row: how long its interval is cannot be told",
                table["row"].to_numpy(),
            )
            return None
        step = float(stated or pd.Series(gaps).mode().iloc[0])
        if not MIN_STEP_S <= step <= MAX_STEP_S or step % 1:
            self.refuse(
                f"{zone} has a value every {_span(step)}; what can be used is every 5 minutes to "
                "every 3 hours",
                table["row"].to_numpy()[:1],
            )
            return None
        uneven = (times - times[0]) % step != 0
        if uneven.any():
            self.refuse(
                f"this does not lie on the even grid of {_span(step)} that {zone} begins with",
                table["row"].to_numpy()[uneven],
            )
            return None
        return int(step)

    def _holes(
        self, zone: str, index: np.ndarray, first_s: float, step_s: int, table: pd.DataFrame
    ) -> np.ndarray | None:
        """Intervals without a value, which are filled linearly; None where a hole is too long."""
        gaps = np.diff(index) - 1
        long = np.flatnonzero(gaps * step_s > MAX_HOLE_S)
        for at in long:
            begin_s = first_s + (index[at] + 1) * step_s
            end_s = first_s + index[at + 1] * step_s
            after = table.loc[table["utc_s"] >= end_s, "row"].to_numpy()[:1]
            self.refuse(
                f"{zone} has no value from {utc_text(begin_s)} to {utc_text(end_s)} "
                f"({_span(end_s - begin_s)}); holes of over 3 h are not filled in: bring the "
                "missing hours, or import the parts before and after by themselves",
                after,
            )
        if len(long):
            return None
        holes = np.setdiff1d(np.arange(index[-1] + 1), index)
        if len(holes):
            where = [f"{zone} {utc_text(first_s + hole * step_s)}" for hole in holes[:MAX_PLACES]]
            self.findings.add(
                "repaired",
                "an interval without a value: filled in linearly, counted as estimated",
                where,
                len(holes),
            )
        return holes


def _hourly(series: ZoneSeries) -> ZoneSeries:
    """Hourly means of a finer series: of the whole hours that it has."""
    each = S_PER_HOUR // series.step_s
    skip = -series.start_s % S_PER_HOUR // series.step_s
    count = (len(series.g_per_kwh) - skip) // each

    def means(values: np.ndarray) -> np.ndarray:
        return values[skip : skip + count * each].reshape(count, each).mean(axis=1)

    forecast = series.forecast_g_per_kwh
    return dataclasses.replace(
        series,
        start_s=series.start_s + skip * series.step_s,
        step_s=S_PER_HOUR,
        g_per_kwh=means(series.g_per_kwh),
        estimated_share=means(series.estimated_share),
        forecast_g_per_kwh=None if forecast is None else means(forecast),
    )


def _span(seconds: float) -> str:
    if seconds < S_PER_HOUR:
        return f"{seconds / 60:g} min"
    return f"{seconds / S_PER_HOUR:g} h"
