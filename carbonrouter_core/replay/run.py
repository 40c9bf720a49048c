"""Running a policy on a prepared scenario: what it decides, and what that comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from carbonrouter_core.progress import Progress, nobody_listens, part_of
from carbonrouter_core.replay.as_served import NamesSaid, decisions_of_log
from carbonrouter_core.replay.charging import Charges, charge
from carbonrouter_core.replay.decisions import Decisions, replay
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.routing.policies import AS_SERVED, POLICIES, Policy, policy

SEEDS_SHARE = 0.2
"""Part of the time of a search that goes into the paths of other policies, roughly."""


@dataclass(frozen=True)
class Run:
    """One policy's decisions on a prepared scenario, with what they cost.

    Attributes
    ----------
    policy
        The policy.
    decisions
        Deployment, reason and cached tokens of each turn, columns of shape (turns,).
    charges
        Carbon in gCO2e, energy in kWh, times in ms and predicted quality, columns of shape
        (turns,).
    notes
        What the reader must know of this run, in sentences.
    """

    policy: Policy
    decisions: Decisions
    charges: Charges
    notes: tuple[str, ...] = ()


def run_policy(prepared: Prepared, policy_id: str, progress: Progress = nobody_listens) -> Run:
    """Replay a policy on a prepared scenario and charge each turn.

    Parameters
    ----------
    prepared
        The result of :func:`prepare`.
    policy_id
        Id from :data:`POLICIES`, or ``as-served`` for a log that says how it was served.
    progress
        Called after each block of sessions with the share that is done, 0 to 1; an error that
        it raises ends the run.

    Returns
    -------
    Run
        Decisions and charges, columns of shape (turns,).

    Raises
    ------
    InputError
        If the policy is unknown, or the log does not say how it was served.
    """
    chosen = policy(policy_id)
    if chosen.from_log:
        return run_as_served(prepared)
    seeds: list[np.ndarray] = []
    begun = 0.0
    if chosen.knows_future and not prepared.optimum_is_exact:
        charged_alike = [p for p in POLICIES.values() if not (p.knows_future or p.free_history)]
        step = SEEDS_SHARE / len(charged_alike)
        for other in charged_alike:
            seeds.append(_decide(prepared, other, (), part_of(progress, begun, step)).deployment)
            begun += step
    decisions = _decide(prepared, chosen, seeds, part_of(progress, begun, 1.0 - begun))
    return _charged(prepared, chosen, decisions)


def run_as_served(prepared: Prepared, gpu: str | None = None, said: NamesSaid | None = None) -> Run:
    """Charge what the log says was served where.

    ``gpu``: the GPU type to take where possible; ``said``: what the user says that names in the
    log are. Raises :class:`~.errors.TraceError` for a trace
    that does not say how it was served.
    """
    decisions, notes = decisions_of_log(prepared, gpu, said)
    return _charged(prepared, AS_SERVED, decisions, notes)


def _charged(
    prepared: Prepared, chosen: Policy, decisions: Decisions, notes: tuple[str, ...] = ()
) -> Run:
    fleet, placed = prepared.deployments.fleet, prepared.placed
    charges = charge(fleet, prepared.k, placed, prepared.intensity, decisions)
    return Run(chosen, decisions, charges, notes)


def _decide(
    prepared: Prepared, chosen: Policy, seeds: Sequence[np.ndarray], progress: Progress
) -> Decisions:
    seen = prepared.intensity_seen_by(chosen)
    fleet, rules = prepared.deployments.fleet, prepared.rules_for(chosen.id)
    return replay(chosen, fleet, rules, prepared.placed, seen, seeds, progress)
