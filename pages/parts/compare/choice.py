"""The choices of page Compare, and the entries with their figures as they are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

import carbonrouter_core as core
from pages.parts.compare import entries
from pages.parts.compare.entries import Entry
from pages.shared import choices, jobs, page, stored, theme, ways
from pages.shared.markdown import plain

MODES = {"policies": "Policies on this scenario", "scenarios": "Scenarios under one policy"}
MOST_SCENARIOS = 6


def choose(shown: page.Page) -> tuple[list[Entry], Entry | None]:
    """The entries to compare, and the reference among them.

    None where there is nothing to compare; the page then says why.
    """
    with st.container(key="compare-choice"):
        mode = choices.segments(st, "Compare", MODES, ways.COMPARE_MODE, "policies")
        replays = _policies(shown) if mode == "policies" else _scenarios(shown)
    compared = _run(replays)
    if not compared:
        return [], None
    by_name = {f"{number}:{entry.name}": entry for number, entry in enumerate(compared)}
    key = f"compare-against-{mode}"
    usual = next(
        (n for n, entry in by_name.items() if _is_usual(entry, mode)),
        next(iter(by_name)),
    )
    against = choices.select(
        st,
        "Reference",
        list(by_name),
        key,
        usual,
        format_func=lambda name: by_name[name].name,
        width=420,
    )
    return compared, by_name[against]


def _is_usual(entry: Entry, mode: str) -> bool:
    return mode == "policies" and entry.policy_id == core.FAIRCARBON


# --- Choices ----------------------------------------------------------------------------------

Replays = list[tuple[str, Callable[[], Entry]]]
"""What is to be run, by the name it has on the page."""


def _policies(shown: page.Page) -> Replays:
    key = "compare-policies"
    is_slow = shown.scenario.copies == "all"  # there the optimum is a search that takes its time
    first = [
        policy.id
        for policy in core.POLICIES.values()
        if policy.compared_at_first and not (policy.knows_future and is_slow)
    ]
    choices.restore(key, first, core.POLICIES.__contains__)
    chosen = st.multiselect("Policies", list(core.POLICIES), format_func=theme.name, key=key)
    choices.keep(key, chosen)
    # Dash and mark go by the place among all policies: adding one changes no other.
    return [
        (theme.name(name), partial(entries.of_policy, shown.scenario, name, number))
        for number, name in enumerate(core.POLICIES)
        if name in chosen
    ]


def _scenarios(shown: page.Page) -> Replays:
    saved, _ = stored.scenarios()
    texts = {f"saved:{name}": saved_text.text for name, saved_text in saved.items()}
    names = {ways.ON_SCREEN: f"On screen: {shown.scenario.name}"}
    names |= {f"saved:{name}": name for name in saved}
    names |= {f"preset:{name}": f"Preset {name}" for name in core.PRESETS}
    choices.restore(ways.COMPARE_SCENARIOS, _first_two(shown, list(saved)), names.__contains__)
    left, right = st.columns([2, 1], gap="medium", vertical_alignment="bottom")
    chosen = left.multiselect(
        "Scenarios",
        list(names),
        format_func=names.__getitem__,
        key=ways.COMPARE_SCENARIOS,
        max_selections=MOST_SCENARIOS,
        help="Scenarios that you save on page Scenario are listed here.",
    )
    choices.keep(ways.COMPARE_SCENARIOS, chosen)
    policy_id = choices.select(
        right,
        "Policy",
        list(core.POLICIES),
        "compare-policy",
        shown.router,
        format_func=theme.name,
    )

    def scenario(name: str) -> core.Scenario:
        if name == ways.ON_SCREEN:
            return shown.scenario
        kind, _, own = name.partition(":")
        return core.PRESETS[own] if kind == "preset" else core.Scenario.from_json(texts[name])

    def entry(name: str, number: int) -> Entry:
        return entries.of_scenario(scenario(name), policy_id, names[name], number)

    return [(names[name], partial(entry, name, number)) for number, name in enumerate(chosen)]


def _first_two(shown: page.Page, saved: Sequence[str]) -> list[str]:
    if saved:
        return [ways.ON_SCREEN, f"saved:{saved[0]}"]
    other = next(name for name, preset in core.PRESETS.items() if preset.key != shown.scenario.key)
    return [ways.ON_SCREEN, f"preset:{other}"]


# --- Running ----------------------------------------------------------------------------------


def _run(replays: Replays) -> list[Entry]:
    """The entries that can be run, with progress; what cannot is said, and the others go on.

    What is done is kept, whatever is changed or stopped meanwhile.
    """
    compared: list[Entry] = []
    stopped: list[jobs.StoppedError] = []
    bar, waiting = st.empty(), st.empty()
    for number, (name, replay) in enumerate(replays):
        bar.progress(number / len(replays), f"{number} of {len(replays)} done; now {plain(name)}")
        try:
            with waiting:
                compared.append(replay())
        except jobs.StoppedError as error:
            stopped.append(error)
        except core.CarbonRouterError as error:
            page.problem(f"{name} cannot be run", str(error))
    bar.empty()
    jobs.offer_again(stopped)
    return compared
