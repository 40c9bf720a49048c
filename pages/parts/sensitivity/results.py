"""What has come of a sweep, drawn: words first, then the chart, then the figures to take away."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import pandas as pd
import streamlit as st

from carbonrouter_core.studies import sensitivity
from carbonrouter_core.studies.inputs import SWEEP_INPUTS
from carbonrouter_core.words import figures as fmt
from pages.parts.sensitivity import plots, sentences
from pages.shared import charts, page, studies
from pages.shared.markdown import plain
from pages.shared.studies import Results

POINTS = st.column_config.NumberColumn(format="%.1f")


def show(results: Results, *, present: bool = False) -> None:
    """Draw the results that have come so far."""
    draw: dict[str, Callable[[Results, bool], None]] = {
        studies.TORNADO: _tornado,
        studies.LINE: _line,
        studies.GRID: _grid,
        studies.BREAK_EVEN: _search,
        studies.DRAWS: _draws,
    }
    draw[results.study.kind](results, present)


def _verdict(*sentences: str) -> None:
    first, *further = sentences
    more = "".join(f'<p class="cr-muted">{text}</p>' for text in further if text)
    st.html(f'<div class="cr-verdict"><p class="cr-answer">{first}</p>{more}</div>')


def _take_away(results: Results, table: pd.DataFrame, *, opened: bool = False) -> None:
    """The table, and the same as CSV once it has ended."""
    kind = results.study.kind
    numbers = {name: POINTS for name in table if name.endswith("(%)") or name == "Points"}
    if "Cannot run" in table and not table["Cannot run"].any():
        table = table.drop(columns="Cannot run")
    with st.expander("The figures as a table", expanded=opened):
        st.dataframe(table, hide_index=True, key=f"sweep-table-{kind}", column_config=numbers)
        if results.ended:
            st.download_button(
                "Download as CSV",
                table.to_csv(index=False).encode(),
                f"carbonrouter-{kind}.csv",
                "text/csv",
                on_click="ignore",
                key=f"sweep-csv-{kind}",
            )


def _tornado(results: Results, present: bool) -> None:
    base = results.in_order()[0]
    if base is None:
        return
    if base.error:
        page.problem(page.CANNOT_RUN, base.error)
        return
    bars = sentences.bars(results)
    if not bars:
        return
    if results.complete:
        _verdict(escape(sensitivity.most_important(bars)), sentences.base(results, base))
    else:
        page.note(f"{len(bars)} of {len(SWEEP_INPUTS)} inputs so far.")
    charts.show(plots.tornado(results, bars, present=present), key="tornado")
    if not present:
        _take_away(results, sentences.tornado_table(bars), opened=results.complete)


def _line(results: Results, present: bool) -> None:
    study = results.study
    (axis,) = study.axes
    points = [
        (value, outcome)
        for value, outcome in zip(axis.values, results.in_order(), strict=True)
        if outcome is not None
    ]
    if results.ended:
        _verdict(sentences.sentences(results))
    chart = plots.line(study, SWEEP_INPUTS[axis.input], points, present=present)
    charts.show(chart, key="line")
    _cannot_run(results)
    if not present:
        _take_away(results, sentences.sweep_table(results))


def _grid(results: Results, present: bool) -> None:
    if results.ended:
        _verdict(sentences.sentences(results))
    charts.show(plots.grid(results, present=present), key="grid")
    _cannot_run(results)
    if not present:
        _take_away(results, sentences.sweep_table(results))


def _search(results: Results, present: bool) -> None:
    study = results.study
    if results.ended and results.break_even:
        _verdict(sentences.search_words(results))
    chart = plots.line(
        study,
        SWEEP_INPUTS[study.search],
        sentences.looked_at(results),
        results.break_even.crossings if results.break_even else (),
        present=present,
    )
    charts.show(chart, key="search")
    _cannot_run(results)
    if not present:
        _take_away(results, sentences.search_table(results))


def _draws(results: Results, present: bool) -> None:
    base, drawn = results.in_order()[0], sentences.drawn(results)
    if base is None:
        return
    if base.error:
        page.problem(page.CANNOT_RUN, base.error)
        return
    if results.ended:
        _verdict(sentences.draws_words(results))
    outcomes = [outcome for outcome in results.in_order() if outcome is not None]
    interval = sensitivity.factor_interval(outcomes, results.study.policy_id)
    chart = plots.histogram(results.study, drawn, interval, present=present)
    charts.show(chart, key="draws")
    if not present:
        with st.expander("Between which values factors are drawn, and why"):
            st.dataframe(sentences.ranges_table(), hide_index=True, key="sweep-ranges")
            page.note(
                "Multipliers are drawn evenly on a log scale, each by itself. Page Method has "
                "another reading, with errors of each model and GPU type apart."
            )
        _take_away(results, sentences.draws_table(results))


def _cannot_run(results: Results) -> None:
    """Why points could not run, each reason once."""
    reasons = [outcome.error for outcome in results.outcomes.values() if outcome.error]
    for reason in dict.fromkeys(reasons):
        st.warning(
            f"{fmt.plural(reasons.count(reason), 'value')} could not run: {plain(reason)}",
            icon=":material/block:",
        )
