"""What the app keeps between reruns. Entries are keyed on a hash of the scenario alone: equal
keys, equal figures, whichever browser tab asked. Every cache is bounded.

A comparison is shared between tabs and must not be changed by a page.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import pandas as pd
import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.carbon_intensity import builtin_series
from pages.components import formatting as fmt

MAIN = ("carbonrouter", "faircarbon")
"""The two policies every page shows; the others are replayed after the answer is on screen."""

MAX_COMPARISONS = 24
MAX_FIGURES = 200


@dataclass(frozen=True)
class Overview:
    """The figures of the two main policies, as the Overview page shows them."""

    summary: pd.DataFrame
    """One row a policy; a figure that does not exist is NaN."""
    saving: core.Interval
    saving_long: core.Interval
    by_length: pd.DataFrame
    sites: pd.DataFrame
    same_kwh_g: dict[str, float]
    """Carbon of each policy's electricity at the average intensity of the chosen zones."""
    notes: tuple[str, ...]
    """What the reader should know of these figures, in sentences."""


@st.cache_resource(max_entries=MAX_COMPARISONS, show_spinner=False)
def _comparison(
    scenario_key: str, policies: tuple[str, ...], _scenario: core.Scenario
) -> core.Comparison:
    return core.compare(_scenario, policies=policies)


def comparison(scenario: core.Scenario, policies: tuple[str, ...] = MAIN) -> core.Comparison:
    """``policies`` replayed under ``scenario``; raises CarbonRouterError where it cannot run."""
    return _comparison(scenario.key, policies, scenario)


@st.cache_resource(max_entries=MAX_FIGURES, show_spinner=False)
def _overview(scenario_key: str, _scenario: core.Scenario) -> Overview:
    run = comparison(_scenario)
    summary = run.summary().astype(float)
    return Overview(
        summary=summary,
        saving=run.saving("carbonrouter"),
        saving_long=run.saving("carbonrouter", sessions=run.long_sessions),
        by_length=run.saving_by_length("carbonrouter"),
        sites=run.sites(),
        same_kwh_g={name: run.same_energy_at_mean_intensity_g(name) for name in MAIN},
        notes=_notes(run, summary),
    )


def _notes(run: core.Comparison, summary: pd.DataFrame) -> tuple[str, ...]:
    difficulty = run.prepared.placed.difficulty_source
    notes = [
        "FairCarbon is reconstructed from its published abstract.",
        "Times are estimates without queueing.",
        f"Difficulty of prompts, for the predicted quality: {difficulty}.",
    ]
    unserved = summary["unserved_turns"].max()
    if unserved:
        notes.append(
            f"{fmt.plural(unserved, 'turn')} of {fmt.number(summary['turns'].max())} "
            "fit in no model and are not served."
        )
    assumed = [
        f"{site.city} ({fmt.number(site.pue, 2)})"
        for site in run.sites().itertuples()
        if site.pue_assumed
    ]
    if assumed:
        notes.append(f"PUE assumed, since none is published: {fmt.joined(assumed)}.")
    return (*notes, *run.prepared.warnings)


def overview(scenario: core.Scenario) -> Overview:
    """All figures of CarbonRouter and FairCarbon under ``scenario``."""
    return _overview(scenario.key, scenario)


@st.cache_data(max_entries=MAX_FIGURES, show_spinner=False)
def _policy(
    scenario_key: str, policy_id: str, _scenario: core.Scenario
) -> tuple[dict[str, float], float]:
    run = core.compare(_scenario, policies=(policy_id,))
    row = run.summary().astype(float).loc[policy_id].to_dict()
    return row, run.same_energy_at_mean_intensity_g(policy_id)


def policy_row(scenario: core.Scenario, policy_id: str) -> tuple[dict[str, float], float]:
    """One policy's figures, and its electricity at the zones' mean intensity (g).

    Its saving is left open (NaN): that is against FairCarbon, which is not replayed again.
    """
    return _policy(scenario.key, policy_id, scenario)


@st.cache_data(max_entries=2, show_spinner=False)
def covered_days(basis: str) -> dict[str, tuple[date, date]]:
    """First and last day with carbon intensity, by zone."""
    days = {}
    for zone, series in builtin_series(basis).items():
        first = datetime.fromtimestamp(series.start_s, UTC).date()
        # A series that ends at midnight has no value for the day that begins there.
        last = (datetime.fromtimestamp(series.end_s, UTC) - timedelta(seconds=1)).date()
        days[zone] = (first, last)
    return days
