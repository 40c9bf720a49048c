"""Energy planning: what each region draws and when, at a volume; what a grid operator sees."""

from __future__ import annotations

import streamlit as st

import carbonrouter_core as core
from carbonrouter_core import units
from carbonrouter_core.studies import planning
from carbonrouter_core.studies.planning import HourlyLoad
from pages.parts.energy_planning import plots, sentences, year
from pages.parts.energy_planning.choice import Choice, choose, policies
from pages.shared import cache, charts, page


def draw(shown: page.Page) -> None:
    """The whole page."""
    names = policies(shown.router)
    with page.busy("Replaying every conversation under three routers\N{HORIZONTAL ELLIPSIS}"):
        run = cache.several(shown.scenario, names)
    choice = choose(shown, planning.own_sessions_per_day(run))
    factor = planning.volume_factor(run, choice.sessions_per_day)
    loads = {name: planning.hourly_load(run, name).times(factor) for name in names}
    st.html(sentences.answer(loads, choice))
    st.html(sentences.totals_html(loads, choice))
    with page.guard():
        draw_hours(shown, loads[choice.policy_id], choice)
    with page.guard():
        draw_regions(loads[choice.policy_id])
    with page.guard():
        draw_grid(shown, run, loads, choice)
    with page.guard():
        year.draw(shown, choice)
    if not shown.present:
        with page.guard():
            draw_schedule(run, loads)
    page.assumptions(cache.notes(run, shown.router), run.prepared.warnings)


def draw_hours(shown: page.Page, load: HourlyLoad, choice: Choice) -> None:
    """Energy or carbon by region: the typical day, and hour by hour."""
    if choice.amount == "energy":
        values, what = load.energy_kwh, "energy"
        scale = units.energy_scale(float(load.energy_kwh.max()))
    else:
        values, what = load.carbon_g, "CO2e"
        scale = units.mass_scale(float(load.carbon_g.max()))
    left, right = st.columns(2, gap="medium")
    with left:
        day = plots.typical_day(load, values, scale, what, present=shown.present)
        charts.show(day, key="plan-day")
    with right:
        hours = plots.stacked(load, values, scale, what, present=shown.present)
        charts.show(hours, key="plan-hours")


def draw_regions(load: HourlyLoad) -> None:
    """Peaks by region, and what they are worth."""
    st.html('<h2 class="cr-title">Peaks by region</h2>')
    st.html(sentences.regions_html(load))
    page.note(sentences.PEAKS)


def draw_grid(
    shown: page.Page, run: core.Comparison, loads: dict[str, HourlyLoad], choice: Choice
) -> None:
    """Power moved between regions, and the hours in which grids are usually clean."""
    ours, theirs = loads[choice.policy_id], loads[choice.against]
    power_kw, profile = planning.moved_power_kw(ours, theirs), planning.usual_profile(run)
    left, right = st.columns(2, gap="medium")
    with left:
        chart = plots.moved(
            power_kw, ours.regions, choice.policy_id, choice.against, present=shown.present
        )
        charts.show(chart, key="plan-moved")
        page.note(sentences.moved(power_kw, ours.regions, choice))
    with right:
        charts.show(plots.clean_hours(profile, present=shown.present), key="plan-clean")
        page.note(sentences.clean_hours(profile))


def draw_schedule(run: core.Comparison, loads: dict[str, HourlyLoad]) -> None:
    """The schedule as CSV."""
    st.html('<h2 class="cr-title">Schedule</h2>')
    page.note(
        "Turns, energy and carbon of every policy, region and hour of the window at this volume, "
        "in UTC and in the local time of the site (without summer time)."
    )
    st.download_button(
        "Download the schedule as CSV",
        lambda: planning.schedule_csv(run, loads.values()).encode(),
        "carbonrouter-schedule.csv",
        "text/csv",
        on_click="ignore",
        key="plan-schedule",
    )


shown = page.start("Energy planning")
page.draw(shown, draw)
