"""FairCarbon's abstract can be read in two ways: the saving against each, with its interval."""

from __future__ import annotations

from functools import partial
from html import escape

import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.progress import Progress
from carbonrouter_core.routing.policies import FULL_PROMPT, ROUTER
from carbonrouter_core.words import figures as fmt
from pages.shared import answer, cache, jobs, page, tables, theme

HEADS = ("All sessions", "Over 30 turns", "Test half")
WORDS = {
    core.FAIRCARBON: "looks at the new question alone",
    FULL_PROMPT: "the more favourable reading: expects every site to read the whole conversation",
}
Savings = tuple[core.Interval, core.Interval, core.Interval]
"""Of all sessions, of sessions over 30 turns, and of the half that nothing was learned from."""


@st.cache_resource(max_entries=cache.MAX_FIGURES, show_spinner=False)
def _savings_against_full_prompt(
    scenario_key: str, router: str, _known: core.Comparison, _progress: Progress
) -> Savings:
    full = core.run_policy(_known.prepared, FULL_PROMPT, _progress)
    run = core.Comparison(_known.prepared, {**_known.runs, FULL_PROMPT: full})
    return (
        run.saving(router, FULL_PROMPT),
        run.saving(router, FULL_PROMPT, run.long_sessions),
        run.saving(router, FULL_PROMPT, run.test_half),
    )


def draw(shown: page.Page, figures: cache.Overview) -> None:
    """Both readings as a table, and why look-ahead is the default."""
    question_alone = (figures.saving, figures.saving_long, figures.saving_test)
    known = cache.comparison(shown.scenario, shown.router)
    key = cache.key_of(shown.scenario)
    full_prompt = jobs.wait(
        ("readings", key, shown.router),
        cache.replaying([FULL_PROMPT]),
        partial(_savings_against_full_prompt, key, shown.router, known),
    )
    st.html(html({core.FAIRCARBON: question_alone, FULL_PROMPT: full_prompt}, shown.router))
    if shown.router == ROUTER:
        page.note(answer.WHY_LOOKAHEAD)


def html(by_reading: dict[str, Savings], router: str) -> str:
    """What the router emits against each reading, with its interval."""
    rows = [
        (f"{escape(theme.name(name))}<small>{WORDS[name]}</small>", *map(_cell, savings))
        for name, savings in by_reading.items()
    ]
    return (
        f'<h2 class="cr-title">{escape(theme.name(router))} against both readings of FairCarbon'
        "</h2>"
        '<p class="cr-note">Only the abstract of FairCarbon is published, and it can be read in '
        "two ways. CO2e compared with each, with the 95 % interval over sessions:</p>"
    ) + tables.html(("", *HEADS), rows, style="cr-readings")


def _cell(saving: core.Interval) -> str:
    return (
        f"<b>{fmt.less_or_more(saving.value_percent)}</b><small>{fmt.between(*saving[1:])}</small>"
    )
