"""What has come of a sweep, drawn: words first, then the chart, then the figures to take away."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import pandas as pd
import streamlit as st

from carbonrouter_core.studies import sensitivity
from carbonrouter_core.studies.inputs import SWEEP_INPUTS
from carbonrouter_core.words import figures as fmt
from pages.sensitivity import charts as sweep_charts
from pages.sensitivity import words
from pages.shared import charts, page, sweep_jobs
from pages.shared.markdown import plain
from pages.shared.sweep_jobs import Run

POINTS = st.column_config.NumberColumn(format="%.1f")


def show(run: Run, *, present: bool = False) -> None:
    """Draw what has come of ``run``."""
    draw: dict[str, Callable[[Run, bool], None]] = {
        sweep_jobs.TORNADO: _tornado,
        sweep_jobs.LINE: _line,
        sweep_jobs.GRID: _grid,
        sweep_jobs.BREAK_EVEN: _search,
        sweep_jobs.DRAWS: _draws,
    }
    draw[run.asked.kind](run, present)


def _verdict(*sentences: str) -> None:
    first, *rest = sentences
    more = "".join(f'<p class="cr-muted">{text}</p>' for text in rest if text)
    st.html(f'<div class="cr-verdict"><p class="cr-answer">{first}</p>{more}</div>')


def _take_away(run: Run, table: pd.DataFrame, *, opened: bool = False) -> None:
    """The table, and the same as CSV once it has ended."""
    kind = run.asked.kind
    numbers = {name: POINTS for name in table if name.endswith("(%)") or name == "Points"}
    if "Cannot run" in table and not table["Cannot run"].any():
        table = table.drop(columns="Cannot run")
    with st.expander("The figures as a table", expanded=opened):
        st.dataframe(table, hide_index=True, key=f"sweep-table-{kind}", column_config=numbers)
        if run.ended.is_set():
            st.download_button(
                "Download as CSV",
                table.to_csv(index=False).encode(),
                f"carbonrouter-{kind}.csv",
                "text/csv",
                on_click="ignore",
                key=f"sweep-csv-{kind}",
            )


def _tornado(run: Run, present: bool) -> None:
    base = run.outcomes()[0]
    if base is None:
        return
    if base.error:
        page.problem("This scenario cannot be run", base.error)
        return
    bars = words.bars(run)
    if not bars:
        return
    if run.complete:
        _verdict(escape(sensitivity.most_important(bars)), words.base(run, base))
    else:
        page.note(f"{len(bars)} of {len(SWEEP_INPUTS)} inputs so far.")
    charts.show(sweep_charts.tornado(run, bars, present=present), key="tornado")
    if not present:
        _take_away(run, words.tornado_table(bars), opened=run.complete)


def _line(run: Run, present: bool) -> None:
    asked = run.asked
    (axis,) = asked.axes
    points = [
        (value, outcome)
        for value, outcome in zip(axis.values, run.outcomes(), strict=True)
        if outcome is not None
    ]
    if run.ended.is_set():
        _verdict(words.sweep_words(run))
    chart = sweep_charts.line(asked, SWEEP_INPUTS[axis.input], points, present=present)
    charts.show(chart, key="line")
    _cannot_run(run)
    if not present:
        _take_away(run, words.sweep_table(run))


def _grid(run: Run, present: bool) -> None:
    if run.ended.is_set():
        _verdict(words.sweep_words(run))
    charts.show(sweep_charts.grid(run, present=present), key="grid")
    _cannot_run(run)
    if not present:
        _take_away(run, words.sweep_table(run))


def _search(run: Run, present: bool) -> None:
    asked = run.asked
    if run.ended.is_set() and run.found:
        _verdict(words.search_words(run))
    chart = sweep_charts.line(
        asked,
        SWEEP_INPUTS[asked.search],
        words.looked_at(run),
        run.found.crossings if run.found else (),
        present=present,
    )
    charts.show(chart, key="search")
    _cannot_run(run)
    if not present:
        _take_away(run, words.search_table(run))


def _draws(run: Run, present: bool) -> None:
    base, drawn = run.outcomes()[0], words.drawn(run)
    if base is None:
        return
    if base.error:
        page.problem("This scenario cannot be run", base.error)
        return
    if run.ended.is_set():
        _verdict(words.draws_words(run))
    outcomes = [one for one in run.outcomes() if one is not None]
    interval = sensitivity.factor_interval(outcomes, run.asked.policy_id)
    chart = sweep_charts.histogram(run.asked, drawn, interval, present=present)
    charts.show(chart, key="draws")
    if not present:
        with st.expander("Between which values factors are drawn, and why"):
            st.dataframe(words.ranges_table(), hide_index=True, key="sweep-ranges")
            page.note(
                "Multipliers are drawn evenly on a log scale, each by itself. Page Method has "
                "another reading, with errors of each model and GPU type apart."
            )
        _take_away(run, words.draws_table(run))


def _cannot_run(run: Run) -> None:
    """Why points could not run, each reason once."""
    reasons = [one.error for one in list(run.seen.values()) if one.error]
    for reason in dict.fromkeys(reasons):
        st.warning(
            f"{fmt.plural(reasons.count(reason), 'value')} could not run: {plain(reason)}",
            icon=":material/block:",
        )
