"""Why a turn went where it went: the codes a decision carries, and their words."""

from __future__ import annotations

UNSERVED = 0
FRESH = 1
STAYED = 2
MOVED = 3
HELD = 4
RULE = 5
FORCED = 6
AHEAD_STAYED = 7
AHEAD_MOVED = 8
NOT_IN_SCENARIO = 9

WORDS = {
    UNSERVED: "No model holds this context.",
    FRESH: "Nothing of this session is cached anywhere: the cheapest candidate serves.",
    STAYED: "Stays: with its history cached here this is the cheapest candidate.",
    MOVED: "Moves: another candidate is cheaper even with the history recomputed there.",
    HELD: "Held: moving would save a little now, but the session would likely come back.",
    RULE: "The rule of this policy, which does not weigh moves.",
    FORCED: "Has to move: where the history is cached, this turn is not feasible.",
    AHEAD_STAYED: "Stays: moving is cheaper now, but dearer over the turns likely to follow.",
    AHEAD_MOVED: "Moves: not the cheapest now, but over the turns likely to follow.",
    NOT_IN_SCENARIO: "The log names a model or region that the scenario does not have.",
}
"""Sentence for each code."""
