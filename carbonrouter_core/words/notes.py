"""Sentences about the basis of figures, and about limits of the scenario that were not kept."""

from __future__ import annotations

from collections.abc import Sequence

from carbonrouter_core import units
from carbonrouter_core.words import figures as fmt

FAIRCARBON = "FairCarbon is reconstructed from its published abstract."
TIMES = "Times are estimates without queueing."
QUALITY = "Predicted quality is one scale for all policies, not a measured rate of good answers."


def difficulty(source: str) -> str:
    """Where the difficulty of prompts comes from; ``source``: "as the trace gives it"."""
    return f"Difficulty of prompts, for predicted quality: {source}."


def unserved(turns: int, all_turns: int) -> str:
    """Turns that no model can take."""
    return (
        f"{fmt.number(turns)} of {fmt.number(all_turns)} turns fit in no model; they are not "
        "served and are in no figure."
    )


def copies(sessions: int) -> str:
    """Sessions of a trace that were left out as copies of others."""
    verb = "is a copy of another one and is" if sessions == 1 else "are copies of others and are"
    return (
        f"{fmt.number(sessions)} of the conversations {verb} left out: equal token counts in every "
        "turn, three turns or more."
    )


def below_floor(turns: int, all_turns: int, quality_floor: float) -> str:
    """Turns whose predicted quality is below the scenario's floor."""
    return (
        f"In {fmt.number(turns)} of {fmt.number(all_turns)} turns no model that fits reaches the "
        f"quality floor of {quality_floor:g}; the best one serves them."
    )


def over_ceiling(turns: int, all_turns: int, latency_ceiling_ms: float) -> str:
    """Turns that take longer than the scenario's latency ceiling."""
    return (
        f"In {fmt.number(turns)} of {fmt.number(all_turns)} turns no candidate is within the "
        f"latency ceiling of {latency_ceiling_ms / units.MS_PER_S:g} s; the fastest serves them."
    )


def assumed_pue(cities: Sequence[str]) -> str:
    """Sites whose operator publishes no PUE."""
    return f"PUE is assumed for {fmt.joined(list(cities))}: none is published."
