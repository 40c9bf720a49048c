"""Asking for one turn of a run: by what happens in it, or by its session and number."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

import carbonrouter_core as core
from pages.shared import page
from pages.shared.markdown import plain

OWN_CHOICE = "A turn of your choice"


def ask(run: core.Comparison, examples: Mapping[str, int]) -> int | None:
    """The row of the turn to work through; None, with the reason shown, where there is none."""
    if not examples:
        page.note("No turn is served in this scenario, so there is none to work through.")
        return None
    kind = st.selectbox("Turn to work through", [*examples, OWN_CHOICE], key="method-kind")
    if kind != OWN_CHOICE:
        return examples[kind]
    trace = run.trace
    left, right = st.columns([3, 1])
    name = left.text_input("Session id", trace.session_ids[0], key="method-session").strip()
    if name not in trace.session_ids:
        first = plain(trace.session_ids[0])
        st.warning(f"No session has this id; an id of this data set looks like {first}.")
        return None
    session = trace.session_ids.index(name)
    turns = int(trace.session_turns[session])
    turn = right.number_input(f"Turn, 1 to {turns}", 1, turns, key=f"method-turn-{session}")
    return int(trace.offsets[session]) + int(turn) - 1
