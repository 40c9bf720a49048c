"""What a router could have known of carbon intensity when it decided.

Accounting always uses the true series; policies may be given less than that. Nothing here
reads an interval that has not ended yet, but for ``current`` (what live grid APIs give) and
for a forecast of the user, which is whatever had been forecast.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from carbonrouter_core.errors import IntensityError
from carbonrouter_core.grid.series import ZoneSeries, utc_text
from carbonrouter_core.scenario import KNOWLEDGE
from carbonrouter_core.units import S_PER_DAY

USUAL_DAYS = {"usual-7d": 7, "usual-28d": 28}
"""Days of each usual profile: the mean at the same time of so many previous days."""

MEANING = {
    "current": "the present intensity is known, as live grid services give it",
    "usual-7d": "mean at the same time of day over the 7 days before",
    "usual-28d": "mean at the same time of day over the 28 days before",
    "persistence": "the last interval that had ended",
    "forecast": "the forecast that your series brings",
}


def seconds_before(knowledge: str, step_s: int) -> int:
    """How far before a turn a series of intervals of ``step_s`` must reach."""
    if knowledge == "persistence":
        return step_s
    return USUAL_DAYS.get(knowledge, 0) * S_PER_DAY


def known_by_region(series: Sequence[ZoneSeries], time_s: np.ndarray, knowledge: str) -> np.ndarray:
    """What is known of each region's intensity at ``time_s`` (epoch seconds, (turns,)).

    g/kWh, shape (turns, regions). Raises :class:`IntensityError` where a series does not
    reach back far enough, or brings no forecast.
    """
    columns = [known_at(zone_series, time_s, knowledge) for zone_series in series]
    return np.ascontiguousarray(np.stack(columns, axis=1))


def known_at(series: ZoneSeries, time_s: np.ndarray, knowledge: str) -> np.ndarray:
    """What is known of one zone's intensity at ``time_s`` (epoch seconds, any shape), g/kWh."""
    time_s = np.asarray(time_s, np.float64)
    if knowledge == "current":
        return series.at(time_s)
    if knowledge == "forecast":
        known = _forecast(series).at(time_s)
        if (missing := np.isnan(known)).any():
            raise IntensityError(
                f"The forecast of zone {series.zone} in your series {series.name!r} has no value "
                f"for {utc_text(float(time_s[missing].min()))}. Choose a window that it covers, or "
                "other knowledge."
            )
        return known
    if time_s.size:
        first_s = float(time_s.min()) - seconds_before(knowledge, series.step_s)
        if first_s < series.start_s:
            raise IntensityError(
                f"{knowledge} looks back to {utc_text(first_s)}, but carbon intensity of zone "
                f"{series.zone} begins at {utc_text(series.start_s)}. Begin the window later, or "
                "choose other knowledge."
            )
        series.require(first_s, float(time_s.max()))
    if knowledge == "persistence":
        index = np.floor((time_s - series.start_s) / series.step_s).astype(np.int64) - 1
        return series.g_per_kwh[index]
    if knowledge not in USUAL_DAYS:
        raise IntensityError(f"Unknown knowledge {knowledge!r}; choose {', '.join(KNOWLEDGE)}.")
    days = USUAL_DAYS[knowledge]
    total = np.zeros(time_s.shape)
    for day in range(1, days + 1):
        total += series.at(time_s - day * S_PER_DAY)
    return total / days


def _forecast(series: ZoneSeries) -> ZoneSeries:
    values = series.forecast_g_per_kwh
    if values is None:
        what = f"your series {series.name!r}" if series.name else "the built-in series"
        raise IntensityError(
            f"Carbon intensity of zone {series.zone} comes from {what}, which has no forecast. "
            "Import a series with a forecast column, or choose other knowledge."
        )
    return dataclasses.replace(series, g_per_kwh=values, forecast_g_per_kwh=None)
