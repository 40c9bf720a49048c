"""Scenario: every choice a result depends on, how far it is from the preset, what it comes to."""

from __future__ import annotations

import streamlit as st

from pages.components import page, scenario_form, scenario_saved, scenario_status


def draw(shown: page.Page) -> None:
    """Choices on the left, what they come to on the right; on a phone the latter comes first."""
    if not shown.present:
        with page.guard():
            scenario_saved.draw()
    with st.container(key="scenario-columns"):
        left, right = st.columns([5, 3], gap="medium")
    with left, page.guard():
        if shown.present:
            scenario_status.listing(shown.scenario)
        else:
            scenario_form.draw()
    with right:
        scenario_status.draw(shown)
    with left, page.guard():
        scenario_status.replicas(shown.scenario, shown.router)


draw(page.start("Scenario", brief=True))
