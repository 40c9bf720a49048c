"""Ways from one page to another that make a choice there."""

from __future__ import annotations

import streamlit as st

from pages.shared import choices

COMPARE_MODE, COMPARE_SCENARIOS = "compare-mode", "compare-scenarios"
"""Choices of page Compare: what it compares, and which scenarios."""
ON_SCREEN = "screen"
"""The scenario of the tab among them."""


def compare_with(name: str) -> None:
    """Go to page Compare, with the scenario on screen beside the saved one ``name``."""
    for key, value in (
        (COMPARE_MODE, "scenarios"),
        (COMPARE_SCENARIOS, [ON_SCREEN, f"saved:{name}"]),
    ):
        st.session_state.pop(key, None)
        choices.keep(key, value)
    st.switch_page("pages/compare.py")
