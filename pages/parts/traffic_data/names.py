"""What the models and regions that a log names are taken for, and what the user says they are."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.replay.as_served import NameMatch, NamesSaid
from pages.shared import page, state

_SAID = "observed-names"
NOT_SAID = ""


def said(scenario: core.Scenario) -> NamesSaid:
    """What the user has said of the names in the scenario's log, as far as it still can be."""
    models, regions = st.session_state.get(f"{_SAID}-{scenario.trace}", ({}, {}))
    return NamesSaid(
        {name: ours for name, ours in models.items() if ours in scenario.models},
        {name: ours for name, ours in regions.items() if ours in scenario.regions},
    )


def in_log(names: NamesSaid, trace: core.Trace) -> NamesSaid:
    """``names`` without those that the log does not have: another file may have its name now."""
    models, regions = set(trace.served_model or ()), set(trace.served_region or ())
    return NamesSaid(
        {name: ours for name, ours in names.models.items() if name in models},
        {name: ours for name, ours in names.regions.items() if name in regions},
    )


def ask(matches: Sequence[NameMatch], scenario: core.Scenario) -> None:
    """The names with what each is taken for, and a choice for each that can be changed."""
    unknown = [match for match in matches if not match.ours]
    label = "Names in the log"
    if unknown:
        label += f": {len(unknown)} of {len(matches)} are not in the scenario"
    with st.expander(label, expanded=bool(unknown)):
        st.dataframe(
            pd.DataFrame(
                {
                    "In the log": [match.name for match in matches],
                    "Kind": [match.kind for match in matches],
                    "Turns": [match.turns for match in matches],
                    "Taken for": [match.ours or "not in the scenario" for match in matches],
                    "How": [match.how for match in matches],
                }
            ),
            hide_index=True,
            key="observed-names-table",
        )
        with st.form("observed-names-form", border=False):
            models: dict[str, str] = {}
            regions: dict[str, str] = {}
            before = said(scenario)
            for match in matches:
                mine = before.models if match.kind == "model" else before.regions
                if match.ours and match.name not in mine:
                    continue
                options = [*(scenario.models if match.kind == "model" else scenario.regions)]
                first = options.index(mine[match.name]) + 1 if match.name in mine else 0
                choice = st.selectbox(
                    f"{match.kind.capitalize()} {match.name}",
                    [NOT_SAID, *options],
                    index=first,
                    format_func=lambda name: _shown(name, scenario),
                    key=f"observed-{match.kind}-{match.name}",
                )
                if choice != NOT_SAID:
                    (models if match.kind == "model" else regions)[match.name] = choice
            sent = st.form_submit_button("Take them so")
        page.note(
            "A closed model may stand for the open one that comes nearest. That is your "
            "assumption: its carbon and quality are not known, and the note above says so."
        )
    if sent:
        st.session_state[f"{_SAID}-{scenario.trace}"] = (models, regions)
        st.rerun()


def _shown(name: str, scenario: core.Scenario) -> str:
    if name == NOT_SAID:
        return "Not in the scenario"
    return state.place(name) if name in scenario.regions else name
