"""Compare: policies on one scenario, or scenarios under one policy, difference by difference."""

from __future__ import annotations

from html import escape

import streamlit as st

from pages.parts.compare import choice, entries, plots, sentences, tables
from pages.parts.compare.entries import Entry, Scale
from pages.shared import cache, charts, page

DIMENSIONS = {
    "model": "Model",
    "region": "Region",
    "gpu": "GPU type",
    "turns_per_session": "Turns of the session",
    "hour_utc": "Hour of the day (UTC)",
    "user_region": "Where users are",
}


def draw(shown: page.Page) -> None:
    """The whole page: choose, the answer, every figure, then where differences come from."""
    compared, reference = choice.choose(shown)
    others = [entry for entry in compared if entry is not reference]
    if reference is None or not others:
        st.html(f'<div class="cr-empty"><p>{sentences.NOTHING}</p></div>')
        return
    scale, on_front = Scale.of(compared), entries.front(compared)
    sentences.verdict(others, reference, scale)
    st.html(tables.figures(compared, reference, on_front, scale))
    left, right = st.columns(2, gap="medium")
    for column, axis in ((left, plots.LATENCY), (right, plots.QUALITY)):
        with column, page.guard():
            chart = plots.trade_off(compared, on_front, axis, scale, present=shown.present)
            charts.show(chart, key=f"trade-off-{axis.words}")
    page.note(sentences.front(compared, on_front))
    left, right = st.columns(2, gap="medium")
    for column, wait in ((left, "ttft_ms"), (right, "latency_ms")):
        with column, page.guard():
            charts.show(plots.waits(compared, wait, present=shown.present), key=f"waits-{wait}")
    with page.guard():
        draw_breakdown(shown, others, reference, scale)
    with page.guard():
        draw_fairness(shown, compared)
    run = cache.comparison(shown.scenario, shown.router)
    page.assumptions(cache.notes(run, shown.router), run.prepared.warnings)


def draw_breakdown(shown: page.Page, others: list[Entry], reference: Entry, scale: Scale) -> None:
    """One entry against the reference, group by group."""
    head = st.container(horizontal=True, vertical_alignment="bottom")
    names = [entry.name for entry in others]
    if st.session_state.get("compare-look") not in names:
        routers = [entry.name for entry in others if entry.policy_id == shown.router]
        st.session_state["compare-look"] = (routers or names)[0]
    looked = head.selectbox("Look at", names, key="compare-look", width=320)
    dimension = head.segmented_control(
        "By", list(DIMENSIONS), format_func=DIMENSIONS.__getitem__, default="model",
        required=True, key="compare-by",
    )  # fmt: skip
    ours, label = (
        next(entry for entry in others if entry.name == looked),
        DIMENSIONS[dimension],
    )
    chart = plots.breakdown(ours, reference, dimension, label, scale, present=shown.present)
    charts.show(chart, key="breakdown")
    with st.expander(f"The same as a table, with turns, moves, latency and quality by {label}"):
        st.html(tables.breakdown(ours, reference, dimension, label, scale))
        page.note(f"Differences are {escape(ours.name)} less {escape(reference.name)}.")


def draw_fairness(shown: page.Page, compared: list[Entry]) -> None:
    """Quality and latency by where users are."""
    st.html('<h2 class="cr-title">How evenly are user regions served?</h2>')
    left, right = st.columns(2, gap="medium")
    with left:
        quality = ("quality_mean", "Predicted quality", "%", 100.0)
        charts.show(plots.fairness(compared, *quality, present=shown.present), key="fair-quality")
    with right:
        latency = ("latency_ms_mean", "Mean turn latency", "s", 0.001)
        charts.show(plots.fairness(compared, *latency, present=shown.present), key="fair-latency")
    st.html(tables.fairness(compared))
    page.note(sentences.JAIN)


shown = page.start("Compare")
page.draw(shown, draw)
