"""Method: every formula and factor, one turn of the present run worked through, and the limits."""

from __future__ import annotations

import pandas as pd
import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.paths import data_path
from carbonrouter_core.results import provenance, worked_turn
from pages.parts.method import factors, sections, turn_choice, worked
from pages.shared import cache, page, theme


def draw_worked_turn(shown: page.Page) -> None:
    """A turn of the run, with all its figures, on two deployments."""
    run = cache.comparison(shown.scenario, shown.router)
    row = turn_choice.ask(run, worked_turn.examples(run, shown.router))
    if row is None:
        return
    prepared, catalog = run.prepared, core.load_catalog()
    turn = worked_turn.work_out_turn(prepared, run.runs[shown.router], row)
    city = catalog.regions[turn.user_region].city
    st.html(worked.turn_html(turn, theme.in_text(shown.router), city))
    if turn.deployment < 0:
        page.note("No deployment served this turn, so there is nothing to charge.")
        return
    others = [d for d in range(len(prepared.deployments)) if d != turn.deployment]
    chosen = [turn.deployment]
    if others:
        chosen.append(
            st.selectbox(
                "Compare with",
                others,
                index=others.index(worked_turn.contrast(run, turn)),
                format_func=prepared.deployments.label,
                key=f"method-other-{row}",
            )
        )
    candidates = [worked_turn.work_out(prepared, catalog, turn, d) for d in chosen]
    if others:
        page.note(worked.difference(*candidates))
    embodied = shown.scenario.embodied
    for place, d, candidate in zip(st.columns(len(chosen)), chosen, candidates, strict=True):
        why_not = turn.why_not[d]
        served = d == turn.deployment
        place.html(worked.candidate_html(candidate, why_not, served=served, embodied=embodied))
    page.note(
        "Figures are rounded, results to five digits. If you compute a result from the rounded "
        "figures, its last digit may differ by one. ^ is 'to the power of', ln the natural "
        "logarithm."
    )


def draw_factors(shown: page.Page) -> None:
    """The factors of the scenario."""
    prepared, catalog = cache.prepared_beside(shown.scenario), core.load_catalog()
    tables = {
        "Energy points": (factors.energy(prepared, catalog), "energy_points.csv"),
        "Models": (factors.models(prepared, catalog), "models.csv"),
        "GPUs": (factors.gpus(prepared, catalog), "gpus.csv"),
        "Regions": (factors.sites(prepared), "regions.csv"),
        "Round-trip times": (factors.round_trips(prepared, catalog), "region_rtt_ms.csv"),
    }
    for title, (frame, source) in tables.items():
        st.html(f'<h3 class="cr-title">{title}</h3>')
        st.dataframe(frame, hide_index=True, key=f"factors-{source}")
        with st.expander(factors.from_table(source)):
            st.markdown(factors.background(title))
            if source == "regions.csv":
                st.markdown(factors.background("Carbon intensity"))
    st.html('<h3 class="cr-title">All built-in tables</h3>')
    st.dataframe(factors.sources(), hide_index=True, key="sources")


def draw(shown: page.Page) -> None:
    """The whole text, with what belongs to this run where it has its place."""
    sections.contents()
    for title in sections.sections():
        sections.show(title)
        with page.guard():
            if title == "One turn, worked through" and not shown.problem:
                with page.busy("Replaying every conversation\N{HORIZONTAL ELLIPSIS}"):
                    draw_worked_turn(shown)
            elif title == "Factors and their sources" and not shown.problem:
                draw_factors(shown)
            elif title == "How well it matches measurements":
                with st.expander("By model and GPU type"):
                    st.dataframe(pd.read_csv(data_path("cost_model_errors.csv")), hide_index=True)
            elif title == "How to cite" and not shown.problem:
                prepared = cache.prepared_beside(shown.scenario)
                run_id = provenance.run_id(prepared, cache.main(shown.router))
                st.code(sections.citation(shown.scenario, run_id), language=None, wrap_lines=True)


shown = page.start("Method")
if shown.problem:
    page.problem(page.CANNOT_RUN, shown.problem)
with page.guard(), st.container(key="method"):
    draw(shown)
