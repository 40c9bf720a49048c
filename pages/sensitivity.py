"""Sensitivity: what the saving depends on, where it ends, and how sure its factors are."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pages.parts.sensitivity import choice, results
from pages.shared import cache, page, studies

JOB = "sensitivity-job"
EMPTY = (
    "Every saving depends on choices and on measured factors. Here you see which of them matter "
    "most. Press <b>Run</b>: it takes some seconds. A large trace takes longer: run a sample of "
    "the conversations first."
)


def draw(shown: page.Page) -> None:
    """Choose, run, and what has come of it."""
    study = None
    cache.prepared_beside(
        shown.scenario
    )  # a scenario that cannot run is said before anything is asked
    if not shown.present:
        study = choice.choose(shown)
        if study is not None and studies.can_run(study):
            studies.start_button(JOB, study, "Run")
    studies.follow(JOB, study, partial(results.show, present=shown.present))
    if studies.results(JOB) is None:
        st.html(f'<div class="cr-empty"><p>{EMPTY}</p></div>')


shown = page.start("Sensitivity")
page.draw(shown, draw)
