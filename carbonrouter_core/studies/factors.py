"""Uncertain factors of the cost model, and a scenario run with other values of them.

What a user chooses stands in the :class:`~.scenario.Scenario`; what is measured or estimated
stands in the tables. A factor scales such a figure for every model and GPU at once, which is
how the errors of a measuring method go: to see what the answer owes to it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from carbonrouter_core.errors import ScenarioError
from carbonrouter_core.replay.world import Prepared, fair_floors
from carbonrouter_core.routing.kernel import make_rules


@dataclass(frozen=True)
class Factors:
    """Multipliers of measured figures, 1 as in the tables, and a shift of difficulty in logits.

    ``pue_overhead`` scales PUE - 1, so that no PUE falls below 1.
    """

    prefill_energy: float = 1.0
    decode_energy: float = 1.0
    attention: float = 1.0
    context_read: float = 1.0
    pue_overhead: float = 1.0
    difficulty_shift: float = 0.0

    def __post_init__(self) -> None:
        for spec in fields(self):
            value = getattr(self, spec.name)
            low, high = (-10.0, 10.0) if spec.name == "difficulty_shift" else (0.0, 100.0)
            if not low <= value <= high:
                raise ScenarioError(f"{spec.name} is {value}; it must be from {low:g} to {high:g}.")

    def to_dict(self) -> dict[str, Any]:
        """The factors as plain values."""
        return asdict(self)


AS_MEASURED = Factors()


def with_factors(prepared: Prepared, factors: Factors) -> Prepared:
    """``prepared`` with every energy, PUE and difficulty scaled by ``factors``.

    The batch of a replica depends on memory, not on energy, so it does not change.
    """
    if factors == AS_MEASURED:
        return prepared
    fleet = prepared.deployments.fleet
    prefill_j = fleet.prefill_j * factors.prefill_energy
    decode_j = fleet.decode_j * factors.decode_energy
    host_work_j, host_output_j = fleet.work_j - fleet.prefill_j, fleet.output_j - fleet.decode_j
    fleet = fleet._replace(
        alpha=fleet.alpha * factors.attention,
        prefill_j=prefill_j,
        decode_j=decode_j,
        context_j=fleet.context_j * factors.context_read,
        work_j=prefill_j + host_work_j,
        output_j=decode_j + host_output_j,
        pue=1.0 + (fleet.pue - 1.0) * factors.pue_overhead,
    )
    shift = factors.difficulty_shift
    placed, training = prepared.placed, prepared.training
    training = replace(training, difficulty_mean=training.difficulty_mean + shift)
    n_users = len(prepared.deployments.user_regions)
    changed = replace(
        prepared,
        deployments=replace(prepared.deployments, fleet=fleet),
        placed=replace(placed, difficulty=placed.difficulty + shift),
        training=training,
        rules=make_rules(prepared.scenario, training, prepared.k, n_users),
    )
    return replace(changed, fair_floors=fair_floors(changed))
