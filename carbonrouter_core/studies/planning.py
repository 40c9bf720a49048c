"""Energy planning: energy and carbon by region and hour, at the volume a service has.

Energy and carbon of a turn count in the hour in which it starts, the hour whose carbon
intensity it is charged at. All energy is with PUE: what the site draws from the grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime
from typing import Any

import numpy as np
import pandas as pd

from carbonrouter_core.errors import InputError
from carbonrouter_core.results.comparison import Comparison
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.studies.inputs import Point
from carbonrouter_core.studies.sweep import Outcome
from carbonrouter_core.units import DAYS_PER_YEAR, G_PER_T, HOURS_PER_DAY, S_PER_DAY, S_PER_HOUR

PROFILE_DAYS = 28
"""Days before the window that the usual daily profile of a grid is the mean of."""
MAX_SESSIONS_PER_DAY = 1e12
"""A hundred conversations a day for everybody on earth; more is a slip of the keyboard."""
MAX_CARBON_PRICE = 1e9
"""Of a tonne, in any currency."""
SEASONS = ((1, 15), (4, 15), (7, 15), (10, 15))
"""First day, (month, day), of the windows that stand for a year."""

SCHEDULE_COLUMNS: Mapping[str, tuple[str, str]] = {
    "policy": ("", "who routes"),
    "region": ("", "where the turns are served"),
    "city": ("", "its city"),
    "zone": ("", "its grid zone"),
    "hour_utc": ("", "start of the hour, UTC"),
    "hour_local": ("", "the same at the site: UTC + round(longitude / 15) h, without summer time"),
    "turns": ("turns", "turns that start in the hour, at the chosen volume"),
    "energy_kwh": ("kWh", "their energy with PUE; also the mean power of the hour in kW"),
    "carbon_g": ("gCO2e", "their operational carbon"),
}
"""Columns of the schedule: unit and meaning."""


@dataclass(frozen=True)
class HourlyLoad:
    """What a policy has each region draw in each hour of the window and of its tail.

    Attributes
    ----------
    policy_id
        The policy.
    regions
        Names of the regions.
    start_s
        Start of each hour, seconds since 1970-01-01 UTC, shape (hours,).
    turns
        Turns that start in the hour, shape (regions, hours); not whole after :meth:`times`.
    energy_kwh
        Their energy in kWh with PUE, shape (regions, hours).
    carbon_g
        Their carbon in gCO2e, shape (regions, hours).
    days
        Length of the window, in which the conversations began. Totals are divided by it.
    """

    policy_id: str
    regions: tuple[str, ...]
    start_s: np.ndarray
    turns: np.ndarray
    energy_kwh: np.ndarray
    carbon_g: np.ndarray
    days: float

    def times(self, factor: float) -> HourlyLoad:
        """The load of more or fewer conversations, spread over regions and hours as these are.

        Parameters
        ----------
        factor
            What turns, energy and carbon are multiplied by.

        Returns
        -------
        HourlyLoad
            The same hours.
        """
        return replace(
            self,
            turns=self.turns * factor,
            energy_kwh=self.energy_kwh * factor,
            carbon_g=self.carbon_g * factor,
        )

    def by_region(self) -> pd.DataFrame:
        """Energy and carbon a day of each region, its mean power, and when it draws most.

        The peak of a small trace that is scaled up is too high: conversations that happen to meet
        in one hour are scaled too. The peak of the typical day does not have this error.

        Returns
        -------
        pandas.DataFrame
            A row for each region. ``energy_kwh_per_day``, ``carbon_g_per_day`` (gCO2e) and
            ``mean_kw``; ``peak_kw`` of the one hour that begins at ``peak_hour_utc``;
            ``typical_peak_kw`` of the hour of the typical day that begins at
            ``typical_peak_hour_utc`` (0 to 23). The hours are missing where a region draws nothing.
        """
        day_kwh = self.energy_kwh.sum(axis=1) / self.days
        typical_kw = self.typical_day(self.energy_kwh)
        peak_hour = pd.to_datetime(
            self.start_s[self.energy_kwh.argmax(axis=1)], unit="s", utc=True
        ).to_series(index=range(len(self.regions)))
        typical_hour = pd.Series(typical_kw.argmax(axis=1), dtype="Int64")
        return pd.DataFrame(
            {
                "region": self.regions,
                "energy_kwh_per_day": day_kwh,
                "carbon_g_per_day": self.carbon_g.sum(axis=1) / self.days,
                "mean_kw": day_kwh / HOURS_PER_DAY,
                "peak_kw": self.energy_kwh.max(axis=1),
                "peak_hour_utc": peak_hour.where(day_kwh > 0),
                "typical_peak_kw": typical_kw.max(axis=1),
                "typical_peak_hour_utc": typical_hour.where(day_kwh > 0),
            }
        )

    def typical_day(self, values: np.ndarray) -> np.ndarray:
        """Sums by hour of the day, divided by the days of the window.

        They add up to the total a day. Conversations may go on after the window; their turns count
        in their hour of the day.

        Parameters
        ----------
        values
            A value for each hour, shape (regions, hours), such as ``energy_kwh``.

        Returns
        -------
        numpy.ndarray
            In the unit of ``values``, shape (regions, 24), by hour in UTC.
        """
        hour = (self.start_s // S_PER_HOUR % HOURS_PER_DAY).astype(np.int64)
        total = np.zeros((len(self.regions), HOURS_PER_DAY))
        np.add.at(total.T, hour, values.T)
        return total / self.days


def hourly_load(comparison: Comparison, policy_id: str) -> HourlyLoad:
    """Load of each region by hour under a policy; the sums are the totals of the policy.

    The hours are those of the window. Conversations may go on after it, and a trace with its own
    start times may begin before it: then there are more hours.

    Parameters
    ----------
    comparison
        The runs.
    policy_id
        A policy of the comparison.

    Returns
    -------
    HourlyLoad
        Turns, energy in kWh and carbon in gCO2e, each of shape (regions, hours).
    """
    prepared, run = comparison.prepared, comparison.runs[policy_id]
    scenario, fleet = prepared.scenario, prepared.deployments.fleet
    served = run.decisions.served
    at_s = scenario.window_start_s + prepared.placed.start_s[served]
    hour = (at_s // S_PER_HOUR).astype(np.int64)
    first = min(scenario.window_start_s // S_PER_HOUR, int(hour.min(initial=2**62)))
    last = max(scenario.window_end_s // S_PER_HOUR - 1, int(hour.max(initial=0)))
    region = fleet.region[run.decisions.deployment[served]]
    shape = len(prepared.deployments.regions), last - first + 1
    cell = region * shape[1] + hour - first

    def by_cell(weights: np.ndarray | None = None) -> np.ndarray:
        total = np.bincount(cell, weights, shape[0] * shape[1])
        return total.astype(np.float64).reshape(shape)

    return HourlyLoad(
        policy_id=policy_id,
        regions=tuple(site.region for site in prepared.deployments.regions),
        start_s=np.arange(first, last + 1) * S_PER_HOUR,
        turns=by_cell(),
        energy_kwh=by_cell(run.charges.energy_kwh[served]),
        carbon_g=by_cell(run.charges.carbon_g[served]),
        days=float(scenario.window_days),
    )


def volume_factor(comparison: Comparison, sessions_per_day: float) -> float:
    """The factor that scales the load of the trace to this number of conversations a day."""
    check_volume(sessions_per_day)
    return sessions_per_day / own_sessions_per_day(comparison)


def check_volume(sessions_per_day: float) -> None:
    """An :class:`InputError` where no service has so many conversations a day."""
    if not 0 < sessions_per_day <= MAX_SESSIONS_PER_DAY:
        raise InputError(
            f"{sessions_per_day:g} conversations a day; give a number above 0, at most "
            f"{MAX_SESSIONS_PER_DAY:.0e}."
        )


def own_sessions_per_day(comparison: Comparison) -> float:
    """Conversations a day in the trace as it is."""
    return comparison.trace.n_sessions / comparison.prepared.scenario.window_days


def cost_of_carbon(carbon_g: float, price_per_t: float) -> float:
    """What so much carbon costs, in the currency that the price of a tonne is in."""
    if not 0 <= price_per_t <= MAX_CARBON_PRICE:
        raise InputError(
            f"A tonne at {price_per_t:g}; give a price of 0 or more, at most "
            f"{MAX_CARBON_PRICE:.0e}."
        )
    return carbon_g / G_PER_T * price_per_t


def moved_power_kw(ours: HourlyLoad, theirs: HourlyLoad) -> np.ndarray:
    """Mean power that ``ours`` draws beyond ``theirs`` by region and hour of the day in UTC.

    What a grid operator sees of the change of policy, shape (regions, 24).
    """
    return ours.typical_day(ours.energy_kwh) - theirs.typical_day(theirs.energy_kwh)


def schedule(comparison: Comparison, load: HourlyLoad) -> pd.DataFrame:
    """A load as a table to export.

    Parameters
    ----------
    comparison
        The runs that the load is from.
    load
        A result of :func:`hourly_load`.

    Returns
    -------
    pandas.DataFrame
        A row for each region and hour, with the columns :data:`SCHEDULE_COLUMNS`: energy in kWh,
        carbon in gCO2e.
    """
    rows = []
    for number, site in enumerate(comparison.prepared.deployments.regions):
        local_s = load.start_s + site.utc_offset_h * S_PER_HOUR
        rows.append(
            pd.DataFrame(
                {
                    "policy": load.policy_id,
                    "region": site.region,
                    "city": site.city,
                    "zone": site.zone,
                    "hour_utc": [_utc(s) + "Z" for s in load.start_s],
                    "hour_local": [_utc(s) + f"{site.utc_offset_h:+03d}:00" for s in local_s],
                    "turns": load.turns[number],
                    "energy_kwh": load.energy_kwh[number],
                    "carbon_g": load.carbon_g[number],
                }
            )
        )
    return pd.concat(rows, ignore_index=True)


def schedule_csv(comparison: Comparison, loads: Iterable[HourlyLoad]) -> str:
    """The schedules of several policies, one after the other, as CSV."""
    frames = [schedule(comparison, load) for load in loads]
    return str(pd.concat(frames).to_csv(index=False, lineterminator="\r\n"))


def _utc(epoch_s: float) -> str:
    return datetime.fromtimestamp(int(epoch_s), UTC).strftime("%Y-%m-%dT%H:%M:%S")


def usual_profile(comparison: Comparison) -> pd.DataFrame:
    """Usual carbon intensity of each region by hour of the day, from the days before the window.

    Columns region, hour_utc (0 to 23), intensity_g_per_kwh, rank (1: the cleanest hour). Fewer
    than :data:`PROFILE_DAYS` days where the series begins later; where it has not one, the
    window itself, and ``from_window`` says so.
    """
    start_s = comparison.prepared.scenario.window_start_s
    frames = []
    for site, series in zip(
        comparison.prepared.deployments.regions, comparison.prepared.series, strict=True
    ):
        first_s = max(start_s - PROFILE_DAYS * S_PER_DAY, int(np.ceil(series.start_s)))
        hours_s = np.arange(first_s, start_s, S_PER_HOUR)
        from_window = len(hours_s) < HOURS_PER_DAY
        if from_window:
            hours_s = np.arange(start_s, comparison.prepared.scenario.window_end_s, S_PER_HOUR)
        hour = hours_s // S_PER_HOUR % HOURS_PER_DAY
        total = np.bincount(hour, series.at(hours_s), HOURS_PER_DAY)
        mean = total / np.maximum(np.bincount(hour, minlength=HOURS_PER_DAY), 1)
        frames.append(
            pd.DataFrame(
                {
                    "region": site.region,
                    "hour_utc": np.arange(HOURS_PER_DAY),
                    "intensity_g_per_kwh": mean,
                    "rank": np.argsort(np.argsort(mean, kind="stable")) + 1,
                    "from_window": from_window,
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


# --- A year -----------------------------------------------------------------------------------


def season_points(base: Scenario, year: int) -> list[Point]:
    """The base scenario in four windows of ``year``, one a season."""
    if not MINYEAR <= year <= MAXYEAR:
        raise InputError(f"{year} is no year that has dates; give one such as 2023.")
    return [Point(base.replace(window_start=date(year, month, day))) for month, day in SEASONS]


@dataclass(frozen=True)
class YearProjection:
    """A year of a policy at a volume: the mean of the seasons' days times the days of a year."""

    policy_id: str
    energy_kwh: float
    carbon_g: float
    seasons: tuple[Mapping[str, Any], ...]


def project_year(
    outcomes: Sequence[Outcome], policy_id: str, sessions_per_day: float
) -> YearProjection:
    """From the outcomes of :func:`season_points`, asked of all sessions; the same traffic in
    each season. An :class:`InputError` names a season that cannot run."""
    seasons = []
    for outcome in outcomes:
        start = outcome.point.scenario.window_start
        if outcome.error:
            raise InputError(f"The window from {start} cannot run: {outcome.error}")
        figures = outcome.figures[policy_id]
        a_session = sessions_per_day / figures["sessions"]
        seasons.append(
            {
                "window_start": start.isoformat(),
                "energy_kwh_per_day": figures["energy_kwh"] * a_session,
                "carbon_g_per_day": figures["carbon_g"] * a_session,
            }
        )
    return YearProjection(
        policy_id,
        float(np.mean([season["energy_kwh_per_day"] for season in seasons])) * DAYS_PER_YEAR,
        float(np.mean([season["carbon_g_per_day"] for season in seasons])) * DAYS_PER_YEAR,
        tuple(seasons),
    )
