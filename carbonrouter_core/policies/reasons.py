"""Why a turn went where it went: the codes a decision carries, and their words."""

from __future__ import annotations

UNSERVED = 0
FIRST = 1
STAYED = 2
MOVED = 3
HELD = 4
EXPIRED = 5
RULE = 6

WORDS = {
    UNSERVED: "No model holds this context.",
    FIRST: "First turn: nothing is cached, the cheapest candidate serves.",
    STAYED: "Stays: with its history cached here this is the cheapest candidate.",
    MOVED: "Moves: another candidate is cheaper even with the history recomputed there.",
    HELD: "Held: moving would save a little now, but the session would likely come back.",
    EXPIRED: "No live cache: the history is recomputed wherever the turn goes.",
    RULE: "The rule of this policy, which does not weigh moves.",
}
"""Sentence for each code."""
