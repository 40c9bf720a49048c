"""Turns for which a limit of the scenario could not be kept, in sentences: means hide them."""

from __future__ import annotations

import numpy as np

from carbonrouter_core.results.comparison import Comparison
from carbonrouter_core.words import notes

ROUNDING = 1e-9
"""Predicted quality this far below the floor reaches it."""


def below_floor_turns(run: Comparison, policy_id: str) -> int:
    """Served turns whose predicted quality is below the scenario's floor.

    A router serves such a turn only if no model that fits reaches the floor (docs/design.md,
    section 7).
    """
    quality = run.runs[policy_id].charges.quality
    return int(np.sum(quality < run.prepared.scenario.quality_floor - ROUNDING))


def unmet(run: Comparison, policy_id: str) -> list[str]:
    """Sentences on the turns for which quality floor or latency ceiling could not be kept, the
    one that concerns most turns first.
    """
    if run.runs[policy_id].policy.from_log:  # the log chose, whatever this scenario demands
        return []
    scenario, turns = run.prepared.scenario, run.figures(policy_id)["turns"]
    sentences: list[tuple[int, str]] = []
    if below := below_floor_turns(run, policy_id):
        sentences.append((below, notes.below_floor(below, turns, scenario.quality_floor)))
    if missed := run.figures(policy_id)["missed_ceiling_turns"]:
        assert scenario.latency_ceiling_ms is not None, "no turn misses a ceiling that is not set"
        sentences.append((missed, notes.over_ceiling(missed, turns, scenario.latency_ceiling_ms)))
    return [sentence for _, sentence in sorted(sentences, key=lambda counted: -counted[0])]
