"""What series say about days: daily means, a typical day, and which region is the cleanest when.

For finding windows worth running: windy or sunny weeks, winter, holidays. All days are UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd

from carbonrouter_core.grid.series import ZoneSeries
from carbonrouter_core.units import HOURS_PER_DAY, S_PER_DAY, S_PER_HOUR

LOW_PERCENTILE, HIGH_PERCENTILE = 10, 90
"""The band around a typical day: eight days in ten lie in it at that hour."""


def epoch_of(day: date) -> int:
    """Midnight UTC of ``day``, epoch seconds."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


def whole_days(series: ZoneSeries) -> tuple[date, date]:
    """First and last day that ``series`` covers as a whole; the first is later if there is none."""
    first = -(-series.start_s // S_PER_DAY)
    last = series.end_s // S_PER_DAY - 1
    origin = date(1970, 1, 1)
    return origin + timedelta(days=first), origin + timedelta(days=last)


def _hour_means(series: ZoneSeries, first: date, last: date) -> np.ndarray:
    """Mean of each hour from ``first`` to ``last`` (whole days), shape (days, 24), g/kWh."""
    each = max(1, S_PER_HOUR // series.step_s)
    width_s = S_PER_HOUR / each
    count = ((last - first).days + 1) * HOURS_PER_DAY * each
    read = series.at(epoch_of(first) + width_s * (np.arange(count) + 0.5))
    return read.reshape(-1, HOURS_PER_DAY, each).mean(axis=2)


def daily_means(series: ZoneSeries, first: date, last: date) -> pd.DataFrame:
    """One row a day from ``first`` to ``last``: mean intensity and share of estimated hours.

    Days that the series does not cover as a whole are left out.
    """
    begins, ends = whole_days(series)
    first, last = max(first, begins), min(last, ends)
    if first > last:
        return pd.DataFrame({"day": [], "g_per_kwh": [], "estimated_share": []})
    hours = _hour_means(series, first, last)
    hours_s = epoch_of(first) + S_PER_HOUR * (np.arange(hours.size) + 0.5)
    estimated = series.estimated_at(hours_s).reshape(hours.shape)
    return pd.DataFrame(
        {
            "day": [first + timedelta(days=i) for i in range(len(hours))],
            "g_per_kwh": hours.mean(axis=1),
            "estimated_share": estimated.mean(axis=1),
        }
    )


def typical_day(series: ZoneSeries, first: date, last: date) -> pd.DataFrame:
    """One row an hour (UTC): mean over the days, and the band that most days lie in."""
    hours = _hour_means(series, first, last)
    low, high = np.percentile(hours, [LOW_PERCENTILE, HIGH_PERCENTILE], axis=0)
    return pd.DataFrame(
        {
            "hour": np.arange(HOURS_PER_DAY),
            "g_per_kwh": hours.mean(axis=0),
            "low_g_per_kwh": low,
            "high_g_per_kwh": high,
        }
    )


def cleanest(series: Mapping[str, ZoneSeries], first: date, last: date) -> pd.DataFrame:
    """One row a region: share of the hours in which it is the cleanest, and its mean intensity.

    Without PUE, as policy cleanest-region chooses; hours in which several are the cleanest
    count for the first of them.
    """
    hours = np.stack(
        [_hour_means(zone_series, first, last).ravel() for zone_series in series.values()]
    )
    won = np.bincount(hours.argmin(axis=0), minlength=len(series))
    return pd.DataFrame(
        {
            "region": list(series),
            "cleanest_share": won / hours.shape[1],
            "mean_g_per_kwh": hours.mean(axis=1),
        }
    )


def common_days(series: Sequence[ZoneSeries]) -> tuple[date, date] | None:
    """First and last day that all of ``series`` cover as a whole; None where there is none."""
    spans = [whole_days(zone_series) for zone_series in series]
    first, last = max(a for a, _ in spans), min(b for _, b in spans)
    return (first, last) if first <= last else None
