"""What the grids of the scenario look like: sources, calendar, typical day, cleanest region."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pandas as pd
import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.grid.calendar import (
    cleanest,
    common_days,
    daily_means,
    epoch_of,
    typical_day,
    whole_days,
)
from carbonrouter_core.grid.choice import source_of
from carbonrouter_core.grid.series import ZoneSeries
from carbonrouter_core.studies.seasons import offered_series
from carbonrouter_core.words import figures as fmt
from pages.shared import charts, grid_charts, page, state
from pages.shared.markdown import plain


def chosen_series(scenario: core.Scenario) -> dict[str, ZoneSeries]:
    """The series that each region is read from in the window; where none covers it, the first."""
    first_s, last_s = scenario.window_start_s, scenario.window_end_s - 1
    return {
        name: next(
            (series for series in candidates if series.covers(first_s, last_s)), candidates[0]
        )
        for name, candidates in offered_series(scenario).items()
    }


def show(shown: page.Page) -> None:
    """Sources and charts of the scenario's grids."""
    scenario = shown.scenario
    series = chosen_series(scenario)
    st.html('<h2 class="cr-title">The grids of this scenario</h2>')
    st.dataframe(_sources(scenario, series), hide_index=True, key="grid-sources")
    first = scenario.window_start
    last = first + timedelta(days=scenario.window_days - 1)
    covered = {
        name: grid
        for name, grid in series.items()
        if grid.covers(epoch_of(first), epoch_of(last + timedelta(days=1)) - 1)
    }
    left, right = st.columns([3, 2], gap="medium")
    with left:
        chosen = st.selectbox("Region", list(series), format_func=state.place, key="grid-region")
        _calendar(scenario, chosen, series[chosen], (first, last), present=shown.present)
    with right:
        if not covered:
            st.warning("No chosen grid has data for the whole window.", icon=":material/event:")
            return
        days = {
            state.place(name): typical_day(grid, first, last).set_index("hour", drop=False)
            for name, grid in covered.items()
        }
        chart = grid_charts.typical_day(days, state.place(chosen), present=shown.present)
        charts.show(chart, key="grid-day")
        table = cleanest(covered, first, last)
        table["city"] = [state.place(name) for name in table["region"]]
        table = table.sort_values("cleanest_share", ascending=False)
        charts.show(grid_charts.cleanest(table, present=shown.present), key="grid-cleanest-share")
        left_out = [state.place(name) for name in series if name not in covered]
        if left_out:
            page.note(f"Without data for the whole window: {fmt.joined(left_out)}.")


def _sources(scenario: core.Scenario, series: dict[str, ZoneSeries]) -> pd.DataFrame:
    rows = []
    for name, grid in series.items():
        hours_s = pd.RangeIndex(scenario.window_start_s, scenario.window_end_s, 3600).to_numpy()
        covers = grid.covers(scenario.window_start_s, scenario.window_end_s - 1)
        source = source_of(name, grid, hours_s.astype(float))
        share = source.estimated_share if covers else None
        rows.append(
            {
                "Region": state.place(name),
                "Zone": grid.zone,
                "Used": f"yours: {grid.name}" if grid.name else "built in",
                "Values": f"{grid.granularity}, {grid.kind}, {grid.basis}",
                "Mean in the window (g/kWh)": fmt.number(grid.at(hours_s).mean())
                if covers
                else "no data",
                "Estimated by the source": fmt.NOT_AVAILABLE
                if share is None
                else fmt.percent(100 * share),
                "From": source.first_utc[:10],
                "To": source.end_utc[:10],
                "Source": grid.source,
                "Licence": grid.licence,
            }
        )
    return pd.DataFrame(rows)


def _calendar(
    scenario: core.Scenario,
    name: str,
    series: ZoneSeries,
    window: tuple[date, date],
    *,
    present: bool,
) -> None:
    first, last = whole_days(series)
    years = list(range(first.year, last.year + 1))
    if not years:
        page.note("This series covers no whole day.")
        return
    # another series is another widget, so that it never holds a year that is gone
    year = st.segmented_control(
        "Year",
        years,
        default=window[0].year if window[0].year in years else years[-1],
        required=True,
        key=f"grid-year-{series.zone}-{years[0]}-{years[-1]}",
    )
    days = daily_means(series, date(year, 1, 1), date(year, 12, 31))
    city = state.place(name)
    chart = grid_charts.calendar(days, city, year, window, present=present)
    charts.show(chart, key=f"grid-calendar-{name}-{year}")
    if not present:
        _offer_windows(scenario, days, city)


def _offer_windows(scenario: core.Scenario, days: pd.DataFrame, city: str) -> None:
    """The cleanest and the dirtiest window of the year, to be used at a click."""
    length = scenario.window_days
    means = days["g_per_kwh"].rolling(length).mean()
    shared = common_days(list(chosen_series(scenario).values()))
    starts = pd.Series(days["day"]).shift(length - 1)
    if shared:
        ends = days["day"] <= shared[1]
        means = means[ends & (starts >= shared[0]).fillna(False)]
    means = means.dropna()
    if means.empty:
        return
    buttons = st.container(horizontal=True)
    for word, row in (("Cleanest", means.idxmin()), ("Dirtiest", means.idxmax())):
        start = starts[row]
        buttons.button(
            f"{word} {fmt.plural(length, 'day')} of {plain(city)}: from {start}, "
            f"{fmt.number(means[row])} g/kWh",
            on_click=_use,
            args=({"window_start": start},),
            key=f"grid-{word.lower()}",
        )


def _use(changes: dict[str, Any]) -> None:
    state.adopt(state.current().replace(**changes))
