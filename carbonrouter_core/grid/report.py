"""What an import found in a carbon-intensity file, before anything is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from carbonrouter_core.grid.series import ZoneSeries, utc_text
from carbonrouter_core.reading.findings import FileReport


@dataclass(frozen=True)
class SeriesSummary:
    """One series of a file: a zone on one basis."""

    zone: str
    basis: str
    kind: str
    granularity: str
    step_s: int
    first_utc: str
    end_utc: str
    intervals: int
    estimated_intervals: int
    lowest_g_per_kwh: float
    mean_g_per_kwh: float
    highest_g_per_kwh: float
    has_forecast: bool

    @classmethod
    def of(cls, series: ZoneSeries) -> SeriesSummary:
        """The summary of a series."""
        values = series.g_per_kwh
        return cls(
            zone=series.zone,
            basis=series.basis,
            kind=series.kind,
            granularity=series.granularity,
            step_s=series.step_s,
            first_utc=utc_text(series.start_s),
            end_utc=utc_text(series.end_s),
            intervals=len(values),
            estimated_intervals=int((series.estimated_share > 0).sum()),
            lowest_g_per_kwh=float(values.min()),
            mean_g_per_kwh=float(values.mean()),
            highest_g_per_kwh=float(values.max()),
            has_forecast=series.forecast_g_per_kwh is not None,
        )


@dataclass(frozen=True, kw_only=True)
class IntensityReport(FileReport):
    """The validation report of a carbon-intensity file.

    ``facts``: unit, time zone and the like with where
    each is from; ``series``: what would be stored; ``zones_unknown``: zones that are neither
    built in nor yours.
    """

    facts: Mapping[str, str]
    series: tuple[SeriesSummary, ...]
    source: str
    licence: str
    zones_unknown: tuple[str, ...] = ()

    @property
    def refused(self) -> int:
        """What is wrong: nothing of the file can be stored until it is mended."""
        return self.count("refused") + self.count("unreadable")

    @property
    def can_store(self) -> bool:
        """Whether this may be stored."""
        return self.refused == 0 and bool(self.series)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        return super().to_dict() | {
            "facts": dict(self.facts),
            "series": [asdict(series) for series in self.series],
            "source": self.source,
            "licence": self.licence,
        }

    def __str__(self) -> str:
        series = [
            f"Series    {item.zone} ({item.kind}, {item.basis}): {item.granularity}, "
            f"{item.first_utc} "
            f"to {item.end_utc}, {item.lowest_g_per_kwh:.0f} to {item.highest_g_per_kwh:.0f} g/kWh "
            f"(mean {item.mean_g_per_kwh:.0f}), {item.estimated_intervals:,} of {item.intervals:,} "
            f"intervals estimated{', with forecast' if item.has_forecast else ''}"
            for item in self.series
        ]
        return self.in_words(
            *(f"{name:<10}{value}" for name, value in self.facts.items()),
            *series,
            f"Source    {self.source}; licence: {self.licence}",
        )
