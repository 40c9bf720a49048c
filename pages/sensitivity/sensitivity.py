"""Sensitivity: what the saving hangs on, where it turns, and how sure its factors are."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pages.sensitivity import choice, results
from pages.shared import kept_figures, page, sweep_progress

JOB = "sensitivity-job"
EMPTY = (
    "Every saving rests on choices and on measured factors. Here you see which of them it hangs "
    "on. Press <b>Run</b>: it takes some seconds, longer for a large trace, where a sample of the "
    "conversations shows what to look for before all of them are asked."
)


def draw(shown: page.Page) -> None:
    """Choose, run, and what has come of it."""
    asked = None
    kept_figures.prepared_beside(
        shown.scenario
    )  # a scenario that cannot run is said before anything is asked
    if not shown.present:
        asked = choice.choose(shown)
        if asked is not None and sweep_progress.can_run(asked):
            sweep_progress.button(JOB, asked, "Run")
    sweep_progress.follow(JOB, asked, partial(results.show, present=shown.present))
    if sweep_progress.current(JOB) is None:
        st.html(f'<div class="cr-empty"><p>{EMPTY}</p></div>')


shown = page.start("Sensitivity")
if shown.problem:
    page.problem("This scenario cannot be run", shown.problem)
else:
    with page.guard():
        draw(shown)
