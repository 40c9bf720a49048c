"""A year from windows in its four seasons, run beside the page."""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import partial

import streamlit as st

from carbonrouter_core.studies import planning
from carbonrouter_core.studies.seasons import usable_starts
from carbonrouter_core.studies.sweep import Question
from carbonrouter_core.units import DAYS_PER_YEAR, S_PER_DAY
from carbonrouter_core.words import figures as fmt
from pages.parts.energy_planning import sentences
from pages.parts.energy_planning.choice import Choice, policies
from pages.shared import choices, page, studies
from pages.shared.studies import Results, Study

JOB = "year-job"


def years(spans: list[tuple[int, int]]) -> list[int]:
    """Years of which all four windows can begin within ``spans`` of days since 1970."""
    if not spans:
        return []
    first, last = (
        datetime.fromtimestamp(day * S_PER_DAY, UTC).year for day in (spans[0][0], spans[-1][1])
    )
    epoch = date(1970, 1, 1)
    return [
        year
        for year in range(first, last + 1)
        if all(
            any(a <= (date(year, month, day) - epoch).days <= b for a, b in spans)
            for month, day in planning.SEASONS
        )
    ]


def draw(shown: page.Page, choice: Choice) -> None:
    """The year to project, the button, and what came of it."""
    st.html('<h2 class="cr-title">A year</h2>')
    names = policies(shown.router)
    study = None
    if not shown.present:
        offered = years(usable_starts(shown.scenario))
        if not offered:
            page.note(
                "No year can be projected: in no year do all chosen grids have data for a window "
                f"of {fmt.plural(shown.scenario.window_days, 'day')} in each season."
            )
            return
        key = "plan-year"
        year = choices.select(st, "Grid of the year", offered, key, offered[-1], width=150)
        question = Question(names, names[0], half="all")
        study = Study(studies.YEAR, shown.scenario, question, shown.router, year=year)
        studies.start_button(JOB, study, "Project a year")
        page.note(
            "The same traffic in a window from mid-January, mid-April, mid-July and mid-October; "
            f"the year is the mean of their days times {DAYS_PER_YEAR:g}."
        )
    studies.follow(JOB, study, partial(show, choice=choice))


def show(results: Results, choice: Choice) -> None:
    """The projection, once all seasons have come."""
    outcomes = [outcome for outcome in results.in_order() if outcome is not None]
    if not results.complete:
        page.note(f"{fmt.plural(len(outcomes), 'season')} of {len(planning.SEASONS)} so far.")
        return
    years_by_policy = {
        name: planning.project_year(outcomes, name, choice.sessions_per_day)
        for name in results.study.question.policies
    }
    if choice.against in years_by_policy:
        st.html(sentences.year_html(years_by_policy, choice))
