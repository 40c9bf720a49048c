"""What several tables of the CSV bundle read of a policy's run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.replay.charging import Charges
from carbonrouter_core.replay.decisions import Decisions
from carbonrouter_core.replay.run import Run
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.report.fields import Names
from carbonrouter_core.results.comparison import Comparison
from carbonrouter_core.traces.schema import Trace

CHUNK_ROWS = 16_384
"""Rows of a table that are in memory at a time."""

ALL = slice(None)
"""All turns."""

IT = "kWh", "energy at the servers (GPU and host), without PUE"
FACILITY = "kWh", "facility energy: it_energy_kwh x PUE; carbon_g = this x intensity_g_per_kwh"
MEAN_INTENSITY = "gCO2e/kWh", "energy-weighted mean carbon intensity of the rows summed up"
POLICY = "id of the policy"

CARBON = ("recompute_g", "prompt_g", "decode_g", "host_g", "carbon_g", "embodied_g")
"""The four parts of carbon, their total, and what is in none of them."""


def ratio(top: Any, bottom: Any) -> np.ndarray:
    """``top / bottom``, NaN (an empty cell) where ``bottom`` is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(top, np.float64), np.asarray(bottom, np.float64))
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)


@dataclass(frozen=True)
class PolicyRows:
    """One policy of a comparison, with what several tables need of it."""

    comparison: Comparison
    policy_id: str

    @property
    def run(self) -> Run:
        """Its decisions and charges."""
        return self.comparison.runs[self.policy_id]

    @property
    def prepared(self) -> Prepared:
        """The scenario and its trace, ready to run."""
        return self.comparison.prepared

    @property
    def trace(self) -> Trace:
        """The trace that was replayed."""
        return self.comparison.trace

    @property
    def fleet(self) -> Fleet:
        """The deployments as arrays."""
        return self.prepared.deployments.fleet

    @property
    def decisions(self) -> Decisions:
        """Where each turn was served, and why."""
        return self.run.decisions

    @property
    def charges(self) -> Charges:
        """What each turn cost."""
        return self.run.charges

    @cached_property
    def moved(self) -> np.ndarray:
        """Which turns moved, (turns,)."""
        return self.comparison.moved(self.policy_id)

    def region(self, turns: Any) -> np.ndarray:
        """Region of ``turns`` (a slice or row numbers), -1 where one is unserved."""
        decided = self.decisions.deployment[turns]
        return np.where(decided >= 0, self.fleet.region[decided], -1)

    def start_utc_s(self, turns: Any) -> np.ndarray:
        """Start of ``turns``, epoch seconds."""
        return self.prepared.scenario.window_start_s + self.prepared.placed.start_s[turns]

    def recomputed_tokens(self, turns: Any) -> np.ndarray:
        """History that was not cached where the turn was served; 0 where it is unserved."""
        missing = self.trace.history_tokens[turns] - self.decisions.cached_tokens[turns]
        return np.where(self.decisions.deployment[turns] >= 0, missing, 0)

    def it_energy_kwh(self, turns: Any) -> np.ndarray:
        """Energy of ``turns`` without PUE."""
        # 0 where it is unserved
        return self.charges.energy_kwh[turns] / self.fleet.pue[self.region(turns)]

    def policy_names(self, rows: int) -> Names:
        """The policy's id for each of ``rows``."""
        return Names(np.zeros(rows, np.int64), [self.policy_id])

    def region_names(self, attribute: str) -> list[str]:
        """``attribute`` of each region: "region" or "zone"."""
        return [getattr(region, attribute) for region in self.prepared.deployments.regions]
