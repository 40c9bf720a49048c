"""Choosing a conversation, and the policy to compare with.

The choice is kept in the session of the browser tab, so that it outlives its widgets, which are
not there while presenting or on another page.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import pandas as pd
import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.replay.as_served import has_served
from carbonrouter_core.results.session_story import Story, session_table, tell
from carbonrouter_core.results.totals import saving_percent
from carbonrouter_core.routing.policies import AS_SERVED
from carbonrouter_core.words import figures as fmt
from carbonrouter_core.words.names import unknown
from pages.parts.session_replay import decisions, player
from pages.shared import cache, choices, theme
from pages.shared.page import Page

BY_ID = "By id"
ORDERS: dict[str, tuple[str, int]] = {
    "Longest": ("turns", 1),
    "Most moves": ("moves", 1),
    "Most holds": ("holds", 1),
    "Biggest saving": ("saving_g", 1),
    "Biggest loss": ("saving_g", -1),
}
"""Column that a conversation is interesting for, and whether large (1) or small (-1)."""
OFFERED = 20
"""Conversations listed for each of them."""
FEW_IDS = 5
MOST_CANDIDATES = 250_000
"""Turns times deployments that are handed to a browser at once: about 15 MB. A conversation with
more is replayed stretch by stretch."""
STRETCH_ROUND = 100
"""Turns of a stretch are a multiple of this, where there can be as many."""

COMPARED_WITH = (
    "Another router on the same conversations. If the log of your own traffic says which model "
    "served each turn and where, you can also choose As served."
)


@dataclass(frozen=True)
class Choice:
    """The chosen conversation: ``session`` is its number in the trace, None where there is none."""

    run: core.Comparison
    table: pd.DataFrame
    other: str
    session: int | None
    problem: str = ""
    """Why there is none."""
    turns: range = range(0)
    """The turns of it that are replayed, from 0."""


SESSION = "replay-session"
LISTED = "replay-listed"
"""Keys in the tab: the chosen conversation, and what the list that it stood in was picked by."""


def _last_session(table: pd.DataFrame) -> int:
    """The conversation that was shown last, if this traffic has it."""
    last = st.session_state.get(choices.place(SESSION), 0)
    return last if last < len(table) else 0


def policies(shown: Page) -> list[str]:
    """The policies that the router can be compared with, FairCarbon first. A log that says how its
    turns were served is among them.
    """
    trace = cache.prepared(shown.scenario).placed.trace
    logged = [AS_SERVED.id] if has_served(trace) else []
    return [core.FAIRCARBON, *logged, *cache.others(shown.router)]


@st.cache_resource(max_entries=cache.MAX_COMPARISONS, show_spinner=False)
def _table(scenario_key: str, router: str, other: str, _run: core.Comparison) -> pd.DataFrame:
    return session_table(_run, router, other)


def pick(shown: Page) -> Choice:
    """The choice; its widgets unless the page is being presented."""
    choice = _pick(shown)
    if choice.session is None:
        return choice
    turns = int(choice.table.at[choice.session, "turns"])
    return replace(choice, turns=_stretch(shown, turns, len(choice.run.prepared.deployments)))


def stretches(turns: int, deployments: int) -> list[range]:
    """The parts that a conversation of so many turns is handed over in."""
    most = max(MOST_CANDIDATES // deployments, 1)
    if turns <= most:
        return [range(turns)]
    most = most // STRETCH_ROUND * STRETCH_ROUND or most
    return [range(first, min(first + most, turns)) for first in range(0, turns, most)]


def _stretch(shown: Page, turns: int, deployments: int) -> range:
    parts = stretches(turns, deployments)
    if len(parts) == 1:
        return parts[0]
    numbers, key = range(len(parts)), "replay-stretch"
    if shown.present:
        return parts[choices.restore(key, 0, numbers.__contains__)]
    return parts[
        choices.select(
            st,
            "Turns",
            numbers,
            key,
            0,
            format_func=lambda part: in_words(parts[part]),
            help="A conversation this long is replayed in parts. Carbon so far counts from its "
            "start.",
            width=260,
        )
    ]


def in_words(turns: range) -> str:
    """Turns as they are called: "1 to 5,500"."""
    return f"{fmt.number(turns.start + 1)} to {fmt.number(turns.stop)}"


def _pick(shown: Page) -> Choice:
    prepared = cache.prepared_beside(shown.scenario)
    names, key = policies(shown), "replay-other"
    named = partial(decisions.policy_name, prepared=prepared)
    if shown.present:
        other = choices.restore(key, names[0], names.__contains__)
    else:
        columns = st.columns([1.3, 3, 1.6])
        other = choices.select(
            columns[2],
            "Compared with",
            names,
            key,
            names[0],
            format_func=named,
            help=COMPARED_WITH,
        )
    run = cache.several(shown.scenario, (shown.router, other))
    table = _table(cache.key_of(shown.scenario), shown.router, other, run)
    if shown.present:
        return Choice(run, table, other, _last_session(table))
    by = choices.select(columns[0], "Pick by", [*ORDERS, BY_ID], "replay-by", next(iter(ORDERS)))
    with columns[1]:
        return _session(run, table, shown.router, other, by)


def _session(run: core.Comparison, table: pd.DataFrame, router: str, other: str, by: str) -> Choice:
    if by == BY_ID:
        return _by_id(run, table, other)
    column, sign = ORDERS[by]
    worth = table[sign * table[column] > 0]
    offered = worth.sort_values(column, ascending=sign < 0, kind="stable").head(OFFERED)
    if offered.empty:
        return Choice(run, table, other, None, _none(by, router, other))
    numbers = [int(row) for row in offered.index]
    if choices.restore(LISTED, by, lambda listed: True) != by:  # another list begins at its top
        st.session_state[SESSION] = numbers[0]
    st.session_state[LISTED] = choices.keep(LISTED, by)
    number = choices.select(
        st,
        "Conversation",
        numbers,
        SESSION,
        numbers[0],
        format_func=lambda row: describe(table.loc[row]),
    )
    return Choice(run, table, other, number)


def _none(by: str, router: str, other: str) -> str:
    ours, theirs = theme.name(router), theme.name(other)
    return {
        "Most moves": f"{ours} moves no conversation of this workload.",
        "Most holds": f"{ours} never holds a conversation: every turn went where it was cheapest.",
        "Biggest saving": f"{ours} emits less than {theirs} in no conversation.",
        "Biggest loss": f"{ours} emits more than {theirs} in no conversation.",
    }.get(by, "There is no conversation.")


def _by_id(run: core.Comparison, table: pd.DataFrame, other: str) -> Choice:
    st.session_state[LISTED] = choices.keep(LISTED, BY_ID)
    if "replay-id" not in st.session_state:
        st.session_state["replay-id"] = str(table["session"].iloc[_last_session(table)])
    wanted = st.text_input("Id of the conversation", key="replay-id").strip()
    rows = table.index[table["session"] == wanted]
    if not len(rows):
        ids = table["session"].head(FEW_IDS if len(table) > 10_000 else None)
        return Choice(run, table, other, None, unknown("conversation", wanted, list(ids)))
    return Choice(run, table, other, choices.keep(SESSION, int(rows[0])))


def describe(row: pd.Series) -> str:
    """A conversation in a line: "300 turns, 17 moves, 63.7 % less (37.5 g CO2e), id 336"."""
    saving = saving_percent(row["carbon_g"], row["other_carbon_g"])
    grams = abs(row["saving_g"])
    amount = fmt.Mass.for_largest(grams)
    carbon = f", {fmt.less_or_more(saving)}"
    if grams and fmt.known(saving):
        carbon += f" ({amount.text(grams)} CO2e)"
    held = f", {fmt.plural(row['holds'], 'hold')}" if row["holds"] else ""
    return (
        f"{fmt.plural(row['turns'], 'turn')}, {fmt.plural(row['moves'], 'move')}{held}{carbon}, "
        f"id {row['session']}"
    )


@st.cache_resource(max_entries=8, show_spinner=False)
def _stories(
    scenario_key: str,
    router: str,
    other: str,
    session: int,
    first: int,
    end: int,
    _run: core.Comparison,
) -> tuple[Story, Story]:
    ours, theirs = (
        tell(_run.prepared, _run.runs[name], session, first, end) for name in (router, other)
    )
    return ours, theirs


@st.cache_resource(max_entries=8, show_spinner=False)
def _message(
    scenario_key: str,
    router: str,
    other: str,
    session: int,
    first: int,
    present: bool,
    _stories: tuple[Story, Story],
) -> bytes:
    return player.message(*_stories, present=present)


def replay(shown: Page, choice: Choice) -> tuple[Story, Story]:
    """Put the player on the page; gives the two stories it shows."""
    assert choice.session is not None
    first = choice.turns.start
    key = cache.key_of(shown.scenario)
    chosen = (key, shown.router, choice.other, choice.session, first)
    stories = _stories(*chosen, choice.turns.stop, choice.run)
    player.show(_message(*chosen, shown.present, stories), key="session-player")
    return stories
