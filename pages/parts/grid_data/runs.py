"""Longer questions to the grid: the same workload in every season, and with less knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.grid.knowledge import MEANING
from carbonrouter_core.studies.seasons import KnowledgeResult, WindowResult, seasons
from carbonrouter_core.words import figures as fmt
from pages.parts.grid_data import work
from pages.shared import cache, charts, grid_charts, page, state, theme
from pages.shared.markdown import plain

SEASONS, KNOWLEDGE = "grid-seasons", "grid-knowledge"
"""Where a tab keeps its results, with the subject they belong to."""


def ask(shown: page.Page) -> None:
    """Buttons that start the work, and the results of the present scenario."""
    scenario, router = shown.scenario, shown.router
    key = cache.key_of(scenario)
    st.html('<h2 class="cr-title">Seasons, and what routers know</h2>')
    busy = work.KEY in st.session_state
    buttons = st.container(horizontal=True)
    if buttons.button("Compare the seasons", disabled=busy, key="grid-run-seasons"):
        starts = seasons(scenario)
        if starts:
            work.seasons(scenario, starts, router, (SEASONS, key, router))
            st.rerun()
        st.warning("There is no window that all chosen grids have.", icon=":material/event:")
    if buttons.button("What does less knowledge cost?", disabled=busy, key="grid-run-knowledge"):
        work.knowledge(scenario, router, (KNOWLEDGE, key, router))
        st.rerun()
    page.note(
        "The same conversations are replayed in a window of each season, or with less knowledge "
        "of the grid. Carbon is always charged at the true intensity."
    )
    for kind, draw in ((SEASONS, _seasons), (KNOWLEDGE, _knowledge)):
        subject, results = st.session_state.get(kind, (None, ()))
        if subject == (kind, key, router):
            draw(results, present=shown.present)


def keep(subject: Any, results: Sequence[WindowResult] | Sequence[KnowledgeResult]) -> None:
    """Keep the results of a job that has ended; ``subject`` begins with their kind."""
    st.session_state[subject[0]] = (subject, results)


def _seasons(results: Sequence[WindowResult], *, present: bool) -> None:
    rows, table = [], []
    labels = [f"from {window.start}" for window in results]
    for label, window in zip(labels, results, strict=True):
        if window.problem:
            st.warning(f"{label}: {plain(window.problem)}", icon=":material/event:")
            continue
        rows += [
            {"label": label, "policy": policy, **saving._asdict()}
            for policy, saving in window.saving.items()
        ]
        mass = fmt.Mass.for_largest(window.figures[core.FAIRCARBON]["carbon_g"])
        table.append(
            {"Window": f"{window.start}, {fmt.plural(window.days, 'day')}"}
            | {
                f"{theme.name(policy)} (CO2e)": mass.text(figures["carbon_g"])
                for policy, figures in window.figures.items()
            }
            | {
                f"{state.place(region)} (g/kWh)": fmt.number(mean)
                for region, mean in window.intensity.items()
            }
        )
    if rows:
        chart = grid_charts.savings(
            labels,
            pd.DataFrame(rows),
            "Saving by season",
            "Same conversations, another window; lines: 95 % interval",
            present=present,
        )
        charts.show(chart, key="grid-season-chart")
        st.dataframe(pd.DataFrame(table), hide_index=True, key="grid-season-table")


def _knowledge(results: Sequence[KnowledgeResult], *, present: bool) -> None:
    del present
    mass = fmt.Mass.for_largest(max((result.carbon_g or 0.0 for result in results), default=0.0))
    st.dataframe(
        pd.DataFrame(
            [
                {
                    "Router": theme.name(result.policy),
                    "What it knows": MEANING[result.knowledge],
                    "CO2e": mass.text(result.carbon_g),
                    "Against knowing the current intensity": fmt.percent(
                        result.cost_percent, 2, signed=True
                    ),
                    "Saving against FairCarbon": fmt.percent(result.saving.value_percent),
                    "95 % interval": fmt.between(*result.saving[1:]),
                    "Note": result.problem,
                }
                for result in sorted(results, key=lambda result: result.policy != results[0].policy)
            ]
        ),
        hide_index=True,
        key="grid-knowledge-table",
    )
    page.note(
        "FairCarbon has the same knowledge. The saving against it can stay the same although both "
        "emit more."
    )
