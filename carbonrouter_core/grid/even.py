"""Intervals of one zone on an even grid: duplicates, steps, holes, and hourly means."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from carbonrouter_core.grid.importers.base import Fact
from carbonrouter_core.grid.series import (
    MAX_HOLE_S,
    MAX_STEP_S,
    MIN_STEP_S,
    ZoneSeries,
    utc_text,
)
from carbonrouter_core.reading.findings import MAX_PLACES, RowFindings
from carbonrouter_core.units import S_PER_HOUR

NOT_STATED = "not stated"
MIN_KNOWN_ROWS = 6
"""Values that a table must have before its blank rows are taken for a coarser step."""


@dataclass(frozen=True)
class EvenGrid:
    """Puts the values of a zone on an even grid, as the facts of their file say.

    ``findings``: where repairs and errors are counted. ``hourly``: whether finer series become
    hourly means.
    """

    facts: Mapping[str, Fact]
    findings: RowFindings
    hourly: bool

    def series(
        self,
        zone: str,
        basis: str,
        rows: np.ndarray,
        utc_s: np.ndarray,
        values: np.ndarray,
        estimated: np.ndarray,
        forecast: np.ndarray | None,
    ) -> ZoneSeries | None:
        """The series of a zone on one basis, or None with the reason among the findings.

        ``rows``: numbers of the rows in their file; the other arrays have an entry for each.
        """
        table = pd.DataFrame(
            {"row": rows, "utc_s": utc_s, "value": values, "estimated": estimated,
             "forecast": np.nan if forecast is None else forecast}
        ).dropna(subset="utc_s")  # fmt: skip
        table = self._without_blank_rows(self._without_duplicates(table), zone)
        step_s = self._step(table, zone)
        if step_s is None:
            return None
        if self.facts["interval_end"].value:
            table["utc_s"] -= step_s
        known = table[table["value"].notna()]
        first_s, last_s = known["utc_s"].iloc[0], known["utc_s"].iloc[-1]
        outside = (table["utc_s"] < first_s) | (table["utc_s"] > last_s)
        self.findings.repair(
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
            source=stated(self.facts, "source"),
            licence=stated(self.facts, "licence"),
            kind=self.facts["kind"].value,
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
        if not self.hourly or step_s >= S_PER_HOUR:
            return series
        hourly = _hourly(series)
        if not len(hourly.g_per_kwh):
            self.findings.refuse(f"{zone} has no whole hour to take a mean of", rows[:1])
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
        self.findings.refuse(
            "the same time stands there twice, with different values", numbers[differs]
        )
        self.findings.repair(
            "the same time stands there twice, with the same value",
            numbers[twice & ~differs],
        )
        return table[~twice]

    def _without_blank_rows(self, table: pd.DataFrame, zone: str) -> pd.DataFrame:
        """Without the rows between that are always blank: half-hours in a table of quarter-hours.

        They are no holes, which would be filled in and counted as estimated.
        """
        known = table["value"].notna().to_numpy()
        times = table["utc_s"].to_numpy()
        if "step_s" in self.facts or known.sum() < MIN_KNOWN_ROWS:
            return table
        step, coarse = (pd.Series(np.diff(t)).mode().iloc[0] for t in (times, times[known]))
        between = (times - times[known][0]) % coarse != 0
        if coarse <= step or coarse % step or known[between].any():
            return table
        self.findings.note(
            f"{zone} has a value every {_span(coarse)} in rows of {_span(step)}: the rows between "
            "are blank and left out",
            table["row"].to_numpy()[between],
        )
        return table[~between]

    def _step(self, table: pd.DataFrame, zone: str) -> int | None:
        """Seconds from one interval to the next, the same for all."""
        times = table["utc_s"].to_numpy()
        gaps = np.diff(times)
        stated_s = self.facts["step_s"].value if "step_s" in self.facts else None
        if stated_s is None and not len(gaps):
            self.findings.refuse(
                f"{zone} has a single row: how long its interval is cannot be told",
                table["row"].to_numpy(),
            )
            return None
        step = float(stated_s or pd.Series(gaps).mode().iloc[0])
        if not MIN_STEP_S <= step <= MAX_STEP_S or step % 1:
            self.findings.refuse(
                f"{zone} has a value every {_span(step)}; what can be used is every 5 minutes to "
                "every 3 hours",
                table["row"].to_numpy()[:1],
            )
            return None
        uneven = (times - times[0]) % step != 0
        if uneven.any():
            self.findings.refuse(
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
            self.findings.refuse(
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
            self.findings.findings.add(
                "repaired",
                "an interval without a value: filled in linearly, counted as estimated",
                where,
                len(holes),
            )
        return holes


def stated(facts: Mapping[str, Fact], name: str) -> str:
    """What is said of the source or the licence of a file."""
    return str(facts[name].value) if name in facts else NOT_STATED


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
