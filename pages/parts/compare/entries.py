"""Entries of page Compare: policies on one scenario, or scenarios under one policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape

import numpy as np
import pandas as pd
import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.progress import Progress
from carbonrouter_core.results.breakdowns import DIMENSIONS, breakdown
from carbonrouter_core.results.comparison import bootstrap_saving
from carbonrouter_core.results.tradeoffs import distribution, pareto_front
from carbonrouter_core.words import figures as fmt
from pages.shared import cache, jobs, theme

WAITS = ("ttft_ms", "latency_ms")
TURNS_OF_REFERENCE = 1_000_000
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "pentagon", "hexagon")


@dataclass(frozen=True)
class Results:
    """Figures of one policy on one scenario; the replay itself is not kept."""

    figures: Mapping[str, float]
    by: Mapping[str, pd.DataFrame]
    """A breakdown for each dimension."""
    waits: Mapping[str, np.ndarray]
    """Distribution of each wait at :data:`carbonrouter_core.results.tradeoffs.SHARES`, ms."""
    fairness: pd.DataFrame
    session_g: np.ndarray
    """Carbon of each session, shape (sessions,)."""
    traffic: str
    """Hash of the trace: equal ones have the same sessions."""
    optimum_label: str
    """Name of the hindsight optimum in this scenario: it is not always proven to be the least."""


@dataclass(frozen=True)
class Entry:
    """A policy on a scenario: its name, how it is drawn, and its results."""

    name: str
    short: str
    policy_id: str
    scenario: core.Scenario
    colour: str
    dash: str
    symbol: str
    results: Results

    @property
    def out_of_reach(self) -> bool:
        """Whether no router can do it: it knows the future, or moves at no cost."""
        policy = core.POLICIES[self.policy_id]
        return policy.knows_future or policy.free_history

    @property
    def in_text(self) -> str:
        """What it is called in a sentence."""
        is_policy = self.name == theme.name(self.policy_id)
        return theme.in_text(self.policy_id) if is_policy else self.name

    @property
    def swatch(self) -> str:
        """Its colour and name, as HTML."""
        return f'<span style="color:{self.colour}">\N{BLACK SQUARE}</span> {escape(self.name)}'


@st.cache_resource(max_entries=cache.MAX_FIGURES, show_spinner=False)
def _results(
    scenario_key: str, policy_id: str, _scenario: core.Scenario, _progress: Progress
) -> Results:
    prepared = cache.prepared(_scenario)
    run = core.Comparison(prepared, {policy_id: core.run_policy(prepared, policy_id, _progress)})
    figures = run.figures(policy_id)
    charges = run.runs[policy_id].charges
    return Results(
        figures={k: np.nan if v is None else float(v) for k, v in figures.items()},
        by={name: breakdown(run, policy_id, name) for name in DIMENSIONS},
        waits={name: distribution(getattr(charges, name)) for name in WAITS},
        fairness=run.fairness(policy_id).set_index("user_region"),
        session_g=run.session_carbon_g(policy_id),
        traffic=run.trace.sha256,
        optimum_label=run.optimum_label,
    )


def _wait(scenario: core.Scenario, policy_id: str, what: str) -> Results:
    key = cache.key_of(scenario)
    work = partial(_results, key, policy_id, scenario)
    return jobs.wait(("side", key, policy_id), what, work)


def of_policy(scenario: core.Scenario, policy_id: str, number: int) -> Entry:
    """A policy on the scenario of the tab; raises CarbonRouterError where it cannot run."""
    results = _wait(scenario, policy_id, cache.replaying([policy_id]))
    is_best_found = policy_id == core.OPTIMUM and results.optimum_label != theme.name(policy_id)
    return Entry(
        name=results.optimum_label if is_best_found else theme.name(policy_id),
        short="Best found" if is_best_found else theme.short(policy_id),
        policy_id=policy_id,
        scenario=scenario,
        colour=theme.colour(policy_id),
        dash=DASHES[number % len(DASHES)],
        symbol=SYMBOLS[number % len(SYMBOLS)],
        results=results,
    )


def of_scenario(scenario: core.Scenario, policy_id: str, name: str, number: int) -> Entry:
    """A scenario under a policy; raises CarbonRouterError where it cannot run."""
    return Entry(
        name=name,
        short=name if len(name) <= 24 else f"{name[:22]}\N{HORIZONTAL ELLIPSIS}",
        policy_id=policy_id,
        scenario=scenario,
        colour=theme.scenario_colour(number),
        dash=DASHES[number % len(DASHES)],
        symbol=SYMBOLS[number % len(SYMBOLS)],
        results=_wait(scenario, policy_id, f"Replaying {name}"),
    )


# --- Figures of several entries ---------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """How carbon is shown: as a total, or per million turns where traffic differs."""

    mass: fmt.Mass
    per_turns: bool

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Scale:
        """The one scale for all of ``entries``."""
        per_turns = len({entry.results.traffic for entry in entries}) > 1
        largest = max(
            _grams(entry, entry.results.figures["carbon_g"], per_turns) for entry in entries
        )
        return cls(fmt.Mass.for_largest(largest), per_turns)

    @property
    def unit(self) -> str:
        """The unit, as written on an axis."""
        return f"{self.mass.unit} {'a million turns' if self.per_turns else 'of the workload'}"

    def grams(self, entry: Entry, grams: float) -> float:
        """Grams as they are shown."""
        return _grams(entry, grams, self.per_turns)


def _grams(entry: Entry, grams: float, per_turns: bool) -> float:
    if not per_turns:
        return grams
    served = entry.results.figures["turns"] - entry.results.figures["unserved_turns"]
    return grams * TURNS_OF_REFERENCE / served if served else float("nan")


def front(entries: Sequence[Entry]) -> list[bool]:
    """Which entries no other beats on carbon, latency and quality at once.

    What no router can do does not count.
    """
    scale = Scale.of(entries)
    costs = np.array(
        [
            [np.nan] * 3
            if entry.out_of_reach
            else [
                scale.grams(entry, entry.results.figures["carbon_g"]),
                entry.results.figures["latency_ms_mean"],
                -entry.results.figures["quality_mean"],
            ]
            for entry in entries
        ]
    )
    return [bool(on) for on in pareto_front(costs)]


@st.cache_data(max_entries=cache.MAX_FIGURES, show_spinner=False)
def _saving(key: tuple[str, ...], _ours: np.ndarray, _theirs: np.ndarray) -> core.Interval:
    return bootstrap_saving(_ours, _theirs)


def saving(ours: Entry, theirs: Entry) -> core.Interval:
    """What ``ours`` saves against ``theirs``, with its interval where the sessions are the same."""
    if ours.results.traffic == theirs.results.traffic:
        keys = (cache.key_of(entry.scenario) for entry in (ours, theirs))
        pair = (*keys, ours.policy_id, theirs.policy_id)
        return _saving(pair, ours.results.session_g, theirs.results.session_g)
    ours_g, theirs_g = (
        _grams(entry, entry.results.figures["carbon_g"], True) for entry in (ours, theirs)
    )
    return core.Interval(100.0 * (1.0 - ours_g / theirs_g) if theirs_g else None, None, None)
