"""What a scenario demands of every turn and could not be had: said, since figures hide it."""

from __future__ import annotations

import numpy as np

from carbonrouter_core.results.comparison import Comparison
from carbonrouter_core.routing.policies import AS_SERVED

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
    if policy_id == AS_SERVED.id:  # the log chose, whatever this scenario demands
        return []
    scenario, turns = run.prepared.scenario, run.figures(policy_id)["turns"]
    said: list[tuple[int, str]] = []
    if below := below_floor_turns(run, policy_id):
        text = (
            f"In {below:,} of {turns:,} turns no model that fits reaches the quality floor of "
            f"{scenario.quality_floor:g}; the best one serves them."
        )
        said.append((below, text))
    if missed := run.figures(policy_id)["missed_ceiling_turns"]:
        assert scenario.latency_ceiling_ms is not None, "no turn misses a ceiling that is not set"
        text = (
            f"In {missed:,} of {turns:,} turns nothing is within the latency ceiling of "
            f"{scenario.latency_ceiling_ms / 1000:g} s; what is fastest serves them."
        )
        said.append((missed, text))
    return [sentence for _, sentence in sorted(said, key=lambda one: -one[0])]
