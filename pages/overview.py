"""Overview: how much carbon CarbonRouter saves against FairCarbon, how sure that is, and why."""

from __future__ import annotations

import time
from functools import partial
from html import escape

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

import carbonrouter_core as core
from carbonrouter_core.results.quoted_range import quoted_range
from carbonrouter_core.routing.policies import BOUND
from carbonrouter_core.words import figures as fmt
from pages.parts.overview import faircarbon, kpis, newcomers, simple, site_maps
from pages.shared import answer, cache, charts, jobs, page

REDRAW_S = 1.0
"""Bars that take longer than this to come are drawn as they come."""


def draw(shown: page.Page) -> None:
    """The whole page: the two main policies at once, the others as they come."""
    router = shown.router
    with page.busy("Replaying every conversation under both routers\N{HORIZONTAL ELLIPSIS}"):
        figures = cache.overview(shown.scenario, router)
    summary = figures.summary
    mass = fmt.Mass.for_largest(float(summary["carbon_g"].max()))

    if not shown.present:
        page.note(newcomers.LEAD)
    with page.guard():
        sentence = cache.advice_against_today(shown.scenario, router)
        st.html(f'<p class="cr-advice"><b>{escape(sentence)}</b></p>')
    savings = (figures.saving, figures.saving_long, figures.saving_test)
    st.html(answer.hero_html(*savings, summary, router, figures.unmet))
    beaten = st.empty()
    if quoted := quoted_range(figures.saving_test, shown.scenario.trace, router):
        page.note(quoted.text)
    st.html(kpis.html(kpis.key_figures(summary, figures.saving, router)))
    below = cache.details(shown.scenario, router)
    left, right = st.container(key="overview-body").columns([3, 2], gap="medium")
    with right:
        bars = st.empty()
        page.note(answer.electricity(summary, router), answer.by_city(below.sites, below.traffic))
        waiting, gap = st.empty(), st.empty()
    with left:
        with page.guard():
            site_maps.draw(shown, below.sites, mass)
        page.note(answer.scale(summary, router))
        page.note(answer.KV_CACHE_SENTENCE)
        with page.guard():
            chart = charts.saving_by_length(
                below.by_length, router, core.FAIRCARBON, present=shown.present
            )
            charts.show(chart, key="saving-by-length")
        page.note(answer.tail(below.by_length))
        both_readings = st.empty()
    # What was not kept stands beside the headline already.
    page.assumptions([note for note in below.notes if note not in figures.unmet], below.warnings)
    newcomers.words()
    with both_readings.container(), page.guard():
        faircarbon.draw(shown, figures)
    # Last, since it takes longest: what is above stands on the page meanwhile.
    with page.guard():
        draw_other_policies(shown, summary, below, mass, beaten, bars, waiting, gap)


def draw_other_policies(
    shown: page.Page,
    summary: pd.DataFrame,
    below: cache.Details,
    mass: fmt.Mass,
    beaten: DeltaGenerator,
    bars: DeltaGenerator,
    waiting: DeltaGenerator,
    gap: DeltaGenerator,
) -> None:
    """The bars of all policies, and how much of the possible saving is reached."""
    others = cache.others(shown.router)
    rows, reference_g = summary.copy(), dict(below.same_kwh_g)
    draw_bars = partial(charts.policy_bars, names=below.names, present=shown.present)

    def redraw(key: str) -> None:
        order = [*cache.main(shown.router), *others]
        chart = draw_bars(rows, reference_g, mass, order=order)
        with bars:
            charts.show(chart, key=key)

    redraw("policy-bars")
    drawn_at = time.monotonic()
    stopped: list[jobs.StoppedError] = []
    for name in others:
        try:
            with waiting:
                rows.loc[name], reference_g[name] = cache.policy_row(shown.scenario, name)
        except jobs.StoppedError as error:
            stopped.append(error)
        if time.monotonic() - drawn_at > REDRAW_S or name == others[-1]:
            redraw(f"policy-bars-{name}")
            drawn_at = time.monotonic()
    with gap.container():
        jobs.offer_again(stopped)
        carbon_g = answer.minimised_g(rows, shown.scenario)
        simple.draw(shown, rows, mass, beaten)
        if not {core.OPTIMUM, BOUND} <= set(carbon_g.index):
            return
        closed = charts.gap_closed(
            carbon_g, shown.router, mass, names=below.names, present=shown.present
        )
        charts.show(closed, key="gap")
        page.note(answer.possible(carbon_g, shown.scenario, below.names, mass))


shown = page.start("Overview")
page.draw(shown, draw)
