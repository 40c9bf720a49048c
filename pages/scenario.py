"""Scenario: every choice a result depends on, how far it is from the preset, what it comes to."""

from __future__ import annotations

import streamlit as st

from pages.parts.scenario import form, own_catalog, saved, status
from pages.shared import page


def draw(shown: page.Page) -> None:
    """Choices on the left, what they come to on the right; on a phone the latter comes first."""
    if not shown.present:
        with page.guard():
            saved.draw()
        with page.guard():
            own_catalog.draw()
    with st.container(key="scenario-columns"):
        left, right = st.columns([5, 3], gap="medium")
    with left, page.guard():
        if shown.present:
            status.listing(shown.scenario)
        else:
            form.draw()
    with right:
        status.draw(shown)
    with left, page.guard():
        status.replicas(shown.scenario, shown.router)


draw(page.start("Scenario", brief=True))
