"""Energy planning in words and tables."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import numpy as np
import pandas as pd

from carbonrouter_core import units
from carbonrouter_core.studies import planning
from carbonrouter_core.studies.planning import PROFILE_DAYS, HourlyLoad, YearProjection
from carbonrouter_core.units import DAYS_PER_YEAR, HOURS_PER_DAY, Scale
from carbonrouter_core.words import figures as fmt
from pages.parts.energy_planning.choice import Choice
from pages.shared import state, tables, theme

CLEANEST_HOURS = 4
PEAKS = (
    "The peak is the highest single hour of the window. It is too high for a small trace that is "
    "scaled up, since conversations that meet by chance are scaled too. Plan for a value between "
    "the peak of the typical day and this peak."
)


def money(amount: float) -> str:
    """A cost without its currency, which is the user's."""
    return fmt.number(amount, 2) if abs(amount) >= 1 else fmt.significant(amount)


def scaled(value: float, scale: Scale) -> str:
    """A figure in the unit that all of its table have."""
    return f"{fmt.significant(value * scale.factor)}{fmt.NARROW_SPACE}{scale.unit}"


def per_day(load: HourlyLoad) -> tuple[float, float]:
    """kWh and g a day."""
    return float(load.energy_kwh.sum()) / load.days, float(load.carbon_g.sum()) / load.days


def answer(loads: Mapping[str, HourlyLoad], choice: Choice) -> str:
    """The verdict: what one policy draws, emits and costs a day against the others. HTML."""
    energy_kwh, carbon_g = per_day(loads[choice.policy_id])
    mass = fmt.Mass.for_largest(carbon_g)
    others = []
    for name, load in loads.items():
        if name != choice.policy_id:
            theirs = per_day(load)[1]
            saved = 100 * (1 - carbon_g / theirs) if theirs else None
            words = fmt.less_or_more(saved)
            joint = "as" if words == "as much" else "than"
            others.append(f"<b>{words}</b> {joint} {theme.in_text(name)}")
    cost = planning.cost_of_carbon(carbon_g, choice.price)
    return (
        f'<div class="cr-verdict"><p class="cr-answer">At {fmt.number(choice.sessions_per_day)} '
        f"conversations a day, {theme.in_text(choice.policy_id)} draws "
        f"<b>{fmt.energy(energy_kwh)}</b> and emits <b>{mass.text(carbon_g)} CO2e</b> a day: "
        f"{fmt.joined(others)}.</p>"
        f'<p class="cr-muted">At {fmt.exact(choice.price, 6)} a tonne, that carbon costs '
        f"{money(cost)} a day and {money(cost * DAYS_PER_YEAR)} in a year of such days. "
        "All conversations count here, also those that the routers learned from.</p></div>"
    )


def totals_html(loads: Mapping[str, HourlyLoad], choice: Choice) -> str:
    """A row a policy: energy, carbon and its cost a day, mean power. HTML."""
    figures = {name: per_day(load) for name, load in loads.items()}
    mass = fmt.Mass.for_largest(max(carbon_g for _, carbon_g in figures.values()))
    most_kwh = max(energy_kwh for energy_kwh, _ in figures.values())
    energy, power = units.energy_scale(most_kwh), units.power_scale(most_kwh / HOURS_PER_DAY)
    rows = []
    for name, (energy_kwh, carbon_g) in figures.items():
        change = fmt.change_percent(carbon_g, figures[choice.against][1])
        against = "" if name == choice.against else fmt.percent(change, signed=True)
        cost = planning.cost_of_carbon(carbon_g, choice.price)
        rows.append(
            (
                escape(theme.name(name)),
                scaled(energy_kwh, energy),
                scaled(energy_kwh / HOURS_PER_DAY, power),
                mass.text(carbon_g),
                against,
                money(cost),
            )
        )
    against = f"Against {theme.name(choice.against)}"
    heads = ("Policy", "Energy a day", "Mean power", "CO2e a day", against, "Cost of carbon a day")
    return tables.html(heads, rows, label="Policies at this volume")


def regions_html(load: HourlyLoad) -> str:
    """A row a region: energy, carbon, mean power, the peaks and when they are. HTML."""
    table = load.by_region()
    mass = fmt.Mass.for_largest(float(table["carbon_g_per_day"].max()))
    energy = units.energy_scale(float(table["energy_kwh_per_day"].max()))
    power = units.power_scale(float(table["peak_kw"].max()))
    rows = []
    for row in table.itertuples():
        draws = not pd.isna(row.peak_hour_utc)
        peak = row.peak_hour_utc.strftime("%a %d %b %Y, %H:%M UTC") if draws else "never"
        typical = f"{int(row.typical_peak_hour_utc):02d}:00 UTC" if draws else "never"
        rows.append(
            (
                escape(state.place(row.region)),
                scaled(row.energy_kwh_per_day, energy),
                mass.text(row.carbon_g_per_day),
                scaled(row.mean_kw, power),
                f"{scaled(row.typical_peak_kw, power)}<small>{typical}</small>",
                f"{scaled(row.peak_kw, power)}<small>{peak}</small>",
            )
        )
    heads = (
        *("Region", "Energy a day", "CO2e a day", "Mean power"),
        *("Peak of the typical day", "Highest hour of the window"),
    )
    return tables.html(heads, rows, label="Peaks by region")


def moved(power_kw: np.ndarray, regions: tuple[str, ...], choice: Choice) -> str:
    """The change of power by region, as a grid operator sees it, in sentences. HTML."""
    mean_kw, scale = power_kw.mean(axis=1), units.power_scale(float(np.abs(power_kw).max()))
    parts = [
        f"{escape(state.place(region))} {scaled(abs(change), scale)} "
        f"{'more' if change > 0 else 'less'}"
        for region, change in zip(regions, mean_kw, strict=True)
        if change != 0
    ]
    ours, theirs = theme.in_text(choice.policy_id), theme.in_text(choice.against)
    if not parts:
        return f"{ours} draws the same power as {theirs} in every region."
    region, hour = np.unravel_index(int(np.abs(power_kw).argmax()), power_kw.shape)
    largest = power_kw[region, hour]
    return (
        f"If {ours} replaces {theirs}, the mean power changes: {fmt.joined(parts)}. The largest "
        f"change is {scaled(abs(largest), scale)} {'more' if largest > 0 else 'less'} in "
        f"{escape(state.place(regions[region]))} at {hour:02d}:00 UTC."
    )


def clean_hours(profile: pd.DataFrame) -> str:
    """The cleanest hours of each region, and which region is the cleanest at most hours. HTML."""
    parts = []
    for region, rows in profile.groupby("region", sort=False):
        best = sorted(rows.loc[rows["rank"] <= CLEANEST_HOURS, "hour_utc"])
        low, high = rows["intensity_g_per_kwh"].min(), rows["intensity_g_per_kwh"].max()
        hours = fmt.joined([f"{hour:02d}" for hour in best])
        parts.append(
            f"<b>{escape(state.place(str(region)))}</b>: {hours} h UTC are cleanest "
            f"({fmt.number(low)} g/kWh at best, {fmt.number(high)} at worst)"
        )
    text = "; ".join(parts) + f". Means of up to {PROFILE_DAYS} days before the window."
    own = sorted({state.place(region) for region in profile.loc[profile["from_window"], "region"]})
    if own:
        text += (
            f" There is no data before the window for {escape(fmt.joined(own))}: these hours "
            "are means of the window itself."
        )
    return text


def year_html(years: Mapping[str, YearProjection], choice: Choice) -> str:
    """A row a policy: a year, its cost, and the seasons it is made of. HTML."""
    mass = fmt.Mass.for_largest(max(year.carbon_g for year in years.values()))
    seasons = next(iter(years.values())).seasons
    day = fmt.Mass.for_largest(
        max(season["carbon_g_per_day"] for year in years.values() for season in year.seasons)
    )
    rows = []
    for name, year in years.items():
        change = fmt.change_percent(year.carbon_g, years[choice.against].carbon_g)
        against = "" if name == choice.against else fmt.percent(change, signed=True)
        cost = planning.cost_of_carbon(year.carbon_g, choice.price)
        rows.append(
            (
                escape(theme.name(name)),
                fmt.energy(year.energy_kwh),
                mass.text(year.carbon_g),
                against,
                money(cost),
                *(day.text(season["carbon_g_per_day"]) for season in year.seasons),
            )
        )
    heads = (
        *("Policy", "Energy a year", "CO2e a year", f"Against {theme.name(choice.against)}"),
        *("Cost of carbon", *(f"A day from {season['window_start']}" for season in seasons)),
    )
    return tables.html(heads, rows, label="Policies over the year")
