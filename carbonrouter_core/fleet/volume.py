"""How many turns a service has in progress: what its volume leaves for a batch.

By Little's law the turns in progress are the turns a second times the mean time of a turn. A
replica cannot decode more sequences together than there are turns in progress. Fleets of several
replicas are not modelled: the batch is charged as if all turns in progress were on one replica,
which is the most that the volume allows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.units import S_PER_DAY

ROUNDS = 200
"""Steps of the search at most; it ends where a step changes nothing that counts."""
SETTLED = 1e-9
"""Relative change of the turns in progress that counts as none."""


class Workload(NamedTuple):
    """Sums over a trace, in whole numbers, so that they add up the same in any order."""

    sessions: int
    turns: int
    prompt_tokens: int
    output_tokens: int

    @classmethod
    def of(cls, trace: Trace) -> Workload:
        """The sums over all turns of ``trace``."""
        return cls(
            trace.n_sessions,
            trace.n_turns,
            int(trace.new_prompt_tokens.sum()),
            int(trace.output_tokens.sum()),
        )

    def plus(self, other: Workload) -> Workload:
        """The sums over both."""
        return Workload(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def turns_per_s(self, conversations_per_day: float) -> float:
        """Turns that start in a second, on average, at that many conversations a day."""
        return conversations_per_day * self.turns / self.sessions / S_PER_DAY

    def turn_s(self, prefill_ms_per_token: float, inter_token_ms: float) -> float:
        """Mean time of a turn: its new prompt, then its output.

        Recomputed history is left out; it depends on the policy.
        """
        prompt, output = self.prompt_tokens / self.turns, self.output_tokens / self.turns
        return (prompt * prefill_ms_per_token + output * inter_token_ms) / 1e3


def turns_in_progress(
    turns_per_s: float, assumed: float, turn_s_at: Callable[[float], float]
) -> float:
    """Turns in progress, as far as they limit a batch of ``assumed`` sequences.

    ``turn_s_at(batch)``: mean time of a turn in a batch. A smaller batch makes turns faster, and so
    fewer are in progress: the largest batch that can be filled is looked for, from ``assumed``
    down.
    """
    batch = assumed
    in_progress = turns_per_s * turn_s_at(batch)
    for _ in range(ROUNDS):
        if in_progress >= batch or in_progress <= 1.0:
            break
        settled = batch - in_progress < SETTLED * batch
        batch = in_progress
        in_progress = turns_per_s * turn_s_at(batch)
        if settled:
            break
    return in_progress
