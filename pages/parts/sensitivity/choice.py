"""The choices of page Sensitivity."""

from __future__ import annotations

from datetime import date
from typing import Any

import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.studies import sensitivity
from carbonrouter_core.studies.inputs import SWEEP_INPUTS, SweepInput
from carbonrouter_core.studies.sweep import Axis, Question
from carbonrouter_core.words import figures as fmt
from pages.parts.sensitivity import sentences
from pages.shared import cache, choices, page, studies, theme
from pages.shared.markdown import plain
from pages.shared.studies import Study

KINDS = {
    studies.TORNADO: "What matters most",
    studies.LINE: "One input",
    studies.GRID: "Two inputs",
    studies.BREAK_EVEN: "Where it stops winning",
    studies.DRAWS: "How sure the factors are",
}
MEANING = {
    studies.TORNADO: "Every input alone, at a low and a high value, the others as they are.",
    studies.LINE: "The saving while one input goes from one value to another.",
    studies.GRID: "The saving at every pair of values of two inputs.",
    studies.BREAK_EVEN: "Searches for values of an input at which both emit the same.",
    studies.DRAWS: "All measured factors drawn at random within their ranges, many times.",
}
HALVES = {"test": "those that the routers did not learn from", "all": "all of them"}
SAMPLE_TURNS = 8_000
"""About this many turns in a sample: all inputs at two values take a few seconds."""
ALL_TURNS = 100_000
"""Traces of at most this many turns start with all sessions. A sample of the built-in chats can
say 42 % where all of them say 24 %; all inputs at two values take half a minute at most."""
DRAWS = (50, 100, 200, 500)
FIRST_SECOND = "quality_floor"
KEY = "sensitivity"


def choose(shown: page.Page) -> Study | None:
    """The study that the choices describe; None, with the reason shown, if it cannot run."""
    with st.container(key="sensitivity-choice"):
        kind = choices.segments(st, "Question", KINDS, f"{KEY}-kind", studies.TORNADO)
        page.note(MEANING[kind])
        try:
            policy_id, question = _question(shown)
            return Study(kind, shown.scenario, question, policy_id, **_details(kind))
        except core.CarbonRouterError as error:
            st.warning(plain(fmt.sentence_case(str(error))), icon=":material/block:")
            return None


def sample_sessions(sessions: int, turns: int) -> int:
    """Sessions that have about :data:`SAMPLE_TURNS` turns, in hundreds; all where few do."""
    wanted = max(100, round(SAMPLE_TURNS * sessions / max(turns, 1) / 100) * 100)
    return min(wanted, sessions)


def _question(shown: page.Page) -> tuple[str, Question]:
    row = st.container(horizontal=True)
    policies = list(core.POLICIES)
    policy_id = _select(row, "Saving of", "policy", policies, shown.router, theme.name, 260)
    others = [name for name in policies if name != policy_id]
    first = core.FAIRCARBON if policy_id != core.FAIRCARBON else shown.router
    baseline = _select(row, "Against", "baseline", others, first, theme.name, 220)
    trace = cache.prepared(shown.scenario).placed.trace
    few = sample_sessions(trace.n_sessions, trace.n_turns)
    sizes = {"sample": f"a sample of {few:,}", "all": f"all {trace.n_sessions:,}"}
    if few == trace.n_sessions:
        del sizes["sample"]
    usual = "all" if trace.n_turns <= ALL_TURNS else next(iter(sizes))
    size = _select(row, "Sessions", "size", list(sizes), usual, sizes.__getitem__, 190)
    half = _select(row, "Figures of", "half", list(HALVES), "test", HALVES.__getitem__, 270)
    sample = few if size == "sample" else None
    return policy_id, Question((policy_id, baseline), baseline, half, sample)


def _select(
    where: Any, label: str, key: str, options: list[str], default: str, words: Any, width: int
) -> str:
    key = f"{KEY}-{key}"
    return choices.select(where, label, options, key, default, format_func=words, width=width)


def _details(kind: str) -> dict[str, Any]:
    """What a question needs beside the policies and the sessions."""
    if kind == studies.LINE:
        return {"axes": (_axis("x", "idle_s", 25, 9),)}
    if kind == studies.GRID:
        first = _axis("x", "idle_s", 12, 5)
        return {"axes": (first, _axis("y", FIRST_SECOND, 12, 5))}
    if kind == studies.BREAK_EVEN:
        row = st.container(horizontal=True)
        searched = [
            name for name, swept in SWEEP_INPUTS.items() if swept.numeric and name != "seed"
        ]
        swept = _input(row, "Input", "search", searched, "latency_ceiling_ms")
        return {"search": swept.id, "bounds": _range(row, swept, "search")}
    if kind == studies.DRAWS:
        row = st.container(horizontal=True)
        key = f"{KEY}-draws"
        return {"draws": choices.select(row, "Draws", DRAWS, key, DRAWS[1], width=120)}
    return {}


def _axis(place: str, first: str, most: int, usual: int) -> Axis:
    """A swept input with its values."""
    row = st.container(horizontal=True)
    swept = _input(row, "Input" if place == "x" else "and", place, list(SWEEP_INPUTS), first)
    low, high = _range(row, swept, place)
    if swept.id == "copies":
        return Axis(swept.id, (low, high))
    key = f"{KEY}-{place}-count"
    choices.restore(key, usual, lambda value: 2 <= value <= most)
    count = row.number_input("Values", 2, most, key=key, width=110)
    return Axis(swept.id, sensitivity.spaced_values(swept.id, choices.keep(key, count), low, high))


def _input(where: Any, label: str, place: str, names: list[str], first: str) -> SweepInput:
    def words(name: str) -> str:
        swept = SWEEP_INPUTS[name]
        return f"{swept.label} ({sentences.kind(swept)})"

    return SWEEP_INPUTS[_select(where, label, place, names, first, words, 300)]


def _range(where: Any, swept: SweepInput, place: str) -> tuple[Any, Any]:
    """From where to where an input goes; its usual low and high values at first."""
    if not swept.numeric and not isinstance(swept.low, date):
        return swept.low, swept.high
    ends = []
    for label, end, usual in (("From", "low", swept.low), ("To", "high", swept.high)):
        key = f"{KEY}-{place}-{swept.id}-{end}"
        choices.restore(key, usual, lambda _: True)
        if isinstance(usual, date):
            value = where.date_input(label, key=key, format="YYYY-MM-DD", width=150)
        else:
            unit = f" ({swept.unit})" if swept.unit else ""
            step = 1 if isinstance(usual, int) else None
            number_format = None if isinstance(usual, int) else "%g"
            value = where.number_input(
                f"{label}{unit}", key=key, step=step, format=number_format, width=150
            )
        ends.append(choices.keep(key, value))
    return ends[0], ends[1]
