"""What the app keeps between reruns. Entries are keyed by :func:`key_of` the scenario: equal keys,
equal figures, whichever browser tab asked. Every cache is bounded.

A comparison is shared between tabs and must not be changed by a page.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pandas as pd
import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.progress import Progress, nobody_listens
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.results.advice import advice
from carbonrouter_core.results.unmet import unmet
from carbonrouter_core.routing.policies import ROUTERS
from carbonrouter_core.words import figures as fmt
from carbonrouter_core.words import notes as words
from pages.shared import jobs, theme

MAX_COMPARISONS = 24
MAX_FIGURES = 200

_has_replayed = threading.Event()
_data_changes = 0


def has_replayed() -> bool:
    """Whether this process has replayed before, so that the engine is compiled and loaded."""
    return _has_replayed.is_set()


def main(router: str) -> tuple[str, str]:
    """The two policies every page shows; the others come after the answer is on screen."""
    return router, core.FAIRCARBON


def others(router: str) -> list[str]:
    """The policies shown beside the main two, in the order they are drawn and replayed."""
    shown = [policy for policy in core.POLICIES.values() if policy.on_overview]
    # Routers first, and last what takes longest to replay.
    shown.sort(key=lambda policy: (policy.knows_future, policy.id not in ROUTERS))
    return [policy.id for policy in shown if policy.id != router]


@dataclass(frozen=True)
class Overview:
    """The figures of the two main policies, as the Overview page shows them."""

    summary: pd.DataFrame
    """One row a policy; a figure that does not exist is NaN."""
    saving: core.Interval
    saving_long: core.Interval
    """Of sessions over 30 turns."""
    saving_test: core.Interval
    """Of the half of the sessions that nothing was learned from."""
    unmet: tuple[str, ...]
    """Sentences on turns for which quality floor or latency ceiling could not be kept."""


@dataclass(frozen=True)
class Details:
    """What stands below the answer, and takes longer."""

    by_length: pd.DataFrame
    sites: pd.DataFrame
    traffic: pd.DataFrame
    """Turns, carbon and electricity of the router by region."""
    names: dict[str, str]
    """What a policy is called under this scenario, where it is not its usual name: the hindsight
    optimum where it is only the best found."""
    same_kwh_g: dict[str, float]
    """Carbon of each policy's electricity at the average intensity of the chosen zones."""
    notes: tuple[str, ...]
    """What the reader must know of these figures, in sentences."""
    warnings: tuple[str, ...]
    """What the reader may want to know besides."""


def key_of(scenario: core.Scenario) -> str:
    """The key of cached figures: the scenario, and the state of the user's data.

    Work that began before the data changed stores its figures under the old key, which is not read.
    """
    return f"{scenario.key}/{_data_changes}"


# Compiled code and the lists inside a scenario are shared as they are (cache_resource), not
# copied on every rerun (cache_data).
@st.cache_resource(max_entries=MAX_COMPARISONS, show_spinner=False)
def _prepared(scenario_key: str, _scenario: core.Scenario) -> Prepared:
    return core.prepare(_scenario)


def prepared(scenario: core.Scenario) -> Prepared:
    """What all policies share under ``scenario``; raises CarbonRouterError where it cannot run."""
    return _prepared(key_of(scenario), scenario)


def prepared_beside(scenario: core.Scenario) -> Prepared:
    """The same, for a page that waits for it as :func:`.jobs.wait` does."""
    return jobs.wait(
        ("prepared", key_of(scenario)),
        "Placing the conversations in time",
        lambda progress: prepared(scenario),
    )


@st.cache_resource(max_entries=MAX_COMPARISONS, show_spinner=False)
def _comparison(
    scenario_key: str,
    policies: tuple[str, ...],
    _scenario: core.Scenario,
    _progress: Progress = nobody_listens,
) -> core.Comparison:
    prepared = _prepared(scenario_key, _scenario)
    # The compiled replay lets other threads run, so two policies take the time of one.
    parts = jobs.together(_progress, len(policies))
    with ThreadPoolExecutor(len(policies)) as pool:
        runs = list(pool.map(partial(core.run_policy, prepared), policies, parts))
    _has_replayed.set()
    return core.Comparison(prepared, dict(zip(policies, runs, strict=True)))


def comparison(scenario: core.Scenario, router: str) -> core.Comparison:
    """The two main policies under ``scenario``, as :func:`several`."""
    return several(scenario, main(router))


def several(scenario: core.Scenario, policies: tuple[str, ...]) -> core.Comparison:
    """Any policies side by side.

    Waits as :func:`.jobs.wait` does; raises CarbonRouterError where they cannot run.
    """
    return jobs.wait(
        ("comparison", key_of(scenario), *policies),
        replaying(policies),
        partial(_comparison, key_of(scenario), policies, scenario),
    )


def replaying(policies: Sequence[str]) -> str:
    """What is done while policies are replayed, in words."""
    return f"Replaying {fmt.joined([theme.name(name) for name in policies])}"


@st.cache_resource(max_entries=MAX_FIGURES, show_spinner=False)
def _overview(
    scenario_key: str, router: str, _scenario: core.Scenario, _progress: Progress = nobody_listens
) -> Overview:
    run = _comparison(scenario_key, main(router), _scenario, _progress)
    return Overview(
        summary=run.summary(),
        saving=run.saving(router, core.FAIRCARBON),
        saving_long=run.saving(router, core.FAIRCARBON, run.long_sessions),
        saving_test=run.saving(router, core.FAIRCARBON, run.test_half),
        unmet=tuple(unmet(run, router)),
    )


def overview(scenario: core.Scenario, router: str) -> Overview:
    """The answer: figures of ``router`` and FairCarbon under ``scenario``."""
    return jobs.wait(
        ("overview", key_of(scenario), router),
        replaying(main(router)),
        partial(_overview, key_of(scenario), router, scenario),
    )


@st.cache_resource(max_entries=MAX_FIGURES, show_spinner=False)
def _advice(
    scenario_key: str, router: str, _scenario: core.Scenario, _progress: Progress = nobody_listens
) -> str:
    known = _comparison(scenario_key, main(router), _scenario, _progress)
    runs = dict(known.runs)
    if _scenario.baseline not in runs:
        runs[_scenario.baseline] = core.run_policy(known.prepared, _scenario.baseline)
    return advice(core.Comparison(known.prepared, runs), router)


def advice_against_today(scenario: core.Scenario, router: str) -> str:
    """What to do against today's practice, in a sentence; raises CarbonRouterError where the
    practice cannot be run on this workload."""
    return jobs.wait(
        ("advice", key_of(scenario), router),
        replaying([scenario.baseline]),
        partial(_advice, key_of(scenario), router, scenario),
    )


@st.cache_resource(max_entries=MAX_FIGURES, show_spinner=False)
def _details(
    scenario_key: str, router: str, _scenario: core.Scenario, _progress: Progress = nobody_listens
) -> Details:
    run = _comparison(scenario_key, main(router), _scenario, _progress)
    sites = run.sites()
    return Details(
        by_length=run.saving_by_length(router, core.FAIRCARBON),
        sites=sites,
        traffic=run.traffic(router),
        names={} if run.optimum_is_exact else {core.OPTIMUM: run.optimum_label},
        same_kwh_g={name: run.same_energy_at_mean_intensity_g(name) for name in run.runs},
        notes=notes(run, router),
        warnings=(*_assumed_pue(sites), *run.prepared.warnings),
    )


def details(scenario: core.Scenario, router: str) -> Details:
    """What stands below the answer, for the same two policies."""
    return jobs.wait(
        ("details", key_of(scenario), router),
        replaying(main(router)),
        partial(_details, key_of(scenario), router, scenario),
    )


def notes(run: core.Comparison, router: str) -> tuple[str, ...]:
    """What the reader must know of these figures, in sentences."""
    sentences = [
        words.FAIRCARBON,
        words.TIMES,
        words.difficulty(run.prepared.placed.difficulty_source),
    ]
    figures = run.figures(router)
    if figures["unserved_turns"]:
        sentences.append(words.unserved(figures["unserved_turns"], figures["turns"]))
    return (*sentences, *unmet(run, router))


def _assumed_pue(sites: pd.DataFrame) -> list[str]:
    assumed = [
        f"{site.city} ({fmt.number(site.pue, 2)})"
        for site in sites.itertuples()
        if site.pue_assumed
    ]
    return [words.assumed_pue(assumed)] if assumed else []


@st.cache_data(max_entries=MAX_FIGURES, show_spinner=False)
def _policy(
    scenario_key: str,
    policy_id: str,
    _scenario: core.Scenario,
    _progress: Progress = nobody_listens,
) -> tuple[dict[str, float], float]:
    # The replay itself is not kept: a row of figures is all that is shown of it.
    prepared = _prepared(scenario_key, _scenario)
    run = core.Comparison(prepared, {policy_id: core.run_policy(prepared, policy_id, _progress)})
    row = run.summary().loc[policy_id].to_dict()
    return row, run.same_energy_at_mean_intensity_g(policy_id)


def policy_row(scenario: core.Scenario, policy_id: str) -> tuple[dict[str, float], float]:
    """One policy's figures, and its electricity at the zones' mean intensity (g).

    Its saving is left open (NaN): that is against FairCarbon, which is not replayed again.
    """
    return jobs.wait(
        ("policy", key_of(scenario), policy_id),
        replaying([policy_id]),
        partial(_policy, key_of(scenario), policy_id, scenario),
    )


def forget() -> None:
    """Drop all figures: data of the user that they rest on has changed under the same name."""
    global _data_changes
    _data_changes += 1
    st.cache_resource.clear()
    st.cache_data.clear()
