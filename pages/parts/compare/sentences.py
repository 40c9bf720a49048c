"""The answer of page Compare in words."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import streamlit as st

from carbonrouter_core.words import figures as fmt
from carbonrouter_core.words.answer import compared, no_saving
from pages.parts.compare import entries
from pages.parts.compare.entries import Entry, Scale
from pages.shared import answer, state

NOTHING = (
    "Choose at least two above: one is the reference, and the others are compared with it. "
    "Scenarios that you save on page Scenario are listed here."
)
WAIT_MEANS = ("ttft_ms_mean", "latency_ms_mean")
SAME_WAIT = 0.005
"""Waits that differ by less than this share count as equal."""
JAIN = (
    "Jain index: 1 if users of all regions get the same, lower if they do not. The gap is between "
    "the best and the worst served region."
)


def verdict(others: Sequence[Entry], reference: Entry, scale: Scale) -> None:
    """Who emits least, against the reference, and what it costs in latency and quality."""
    reachable = [entry for entry in others if not entry.out_of_reach] or list(others)
    best = min(reachable, key=lambda entry: scale.grams(entry, entry.results.figures["carbon_g"]))
    st.html(
        f'<div class="cr-verdict"><p class="cr-answer">{sentence(best, reference)}</p>'
        f'<p class="cr-muted">{sureness(best, reference, scale)}</p>{changes(others, reference)}'
        "</div>"
    )


def changes(others: Sequence[Entry], reference: Entry) -> str:
    """What the scenarios differ in, where they do."""
    sentences = []
    for entry in others:
        fields = entry.scenario.differences(reference.scenario).items()
        words = [
            f"{state.field_name(name)} {state.change_words(name, before, now)}"
            for name, (before, now) in fields
        ]
        if words:
            sentences.append(
                f"<b>{escape(entry.name)}</b> differs from {escape(reference.name)}: "
                f"{escape('; '.join(words))}."
            )
    return "".join(f'<p class="cr-muted">{text}</p>' for text in sentences)


def sentence(entry: Entry, reference: Entry) -> str:
    """One entry against another: carbon, first token, quality. Names are the user's own text."""
    value = entries.saving(entry, reference).value_percent
    mine, other = entry.results.figures, reference.results.figures
    if value is None:
        return escape(no_saving(reference.name))
    first, whole = (_sooner(mine[name], other[name]) for name in WAIT_MEANS)
    quality = 100 * (mine["quality_mean"] - other["quality_mean"])
    return (
        f"{escape(entry.in_text)} emits <b>{escape(compared(value, reference.in_text))}</b>; "
        f"the first token comes {first}, the whole turn {whole}, and predicted quality is "
        f"{_points(quality)}."
    )


def _sooner(mine_ms: float, other_ms: float) -> str:
    difference_ms = mine_ms - other_ms
    if not fmt.known(difference_ms):
        return fmt.NOT_AVAILABLE
    if abs(difference_ms) < SAME_WAIT * other_ms:
        return "as soon"
    return f"{fmt.duration(abs(difference_ms))} {'sooner' if difference_ms < 0 else 'later'}"


def _points(points: float) -> str:
    if not fmt.known(points) or abs(points) < fmt.SAME_PERCENT:
        return "the same"
    return f"{fmt.number(abs(points), 1)} points {'higher' if points > 0 else 'lower'}"


def sureness(entry: Entry, reference: Entry, scale: Scale) -> str:
    """How sure the difference is, or why that is not known."""
    saving = entries.saving(entry, reference)
    if scale.per_turns:
        return (
            "The traffic is not the same, so carbon is for a million turns of each, and the "
            "difference has no interval over sessions."
        )
    return answer.sureness(saving, entry.results.figures["sessions"])


def front(compared: Sequence[Entry], on_front: Sequence[bool]) -> str:
    """Who is on the Pareto front."""
    names = [escape(entry.name) for entry, on in zip(compared, on_front, strict=True) if on]
    verb = "is" if len(names) == 1 else "are"
    text = (
        f"<b>{fmt.joined(names)}</b> {verb} on the Pareto front: no other is at least as good on "
        "carbon, latency and quality and better on one of them."
    )
    if any(entry.out_of_reach for entry in compared):
        text += (
            " Policies that know the future or move at no cost do not count here: no router can."
        )
    return text
