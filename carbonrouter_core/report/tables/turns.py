"""``decisions.csv``: a row for each policy and served turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from carbonrouter_core.report.fields import Field, Names, number, text, time, whole, yes_no
from carbonrouter_core.report.tables.rows import (
    CARBON,
    CHUNK_ROWS,
    FACILITY,
    IT,
    POLICY,
    PolicyRows,
)
from carbonrouter_core.results.comparison import Comparison
from carbonrouter_core.results.totals import FIGURES
from carbonrouter_core.routing.policies import reasons


@dataclass(frozen=True)
class TurnRows:
    """Served turns of one policy: ``turns`` are their row numbers in the trace."""

    rows: PolicyRows
    turns: np.ndarray

    def of(self, values: np.ndarray) -> np.ndarray:
        """``values`` (turns,) of these turns."""
        return values[self.turns]

    @cached_property
    def deployment(self) -> np.ndarray:
        """Number of the deployment of each turn."""
        return self.of(self.rows.decisions.deployment)

    @cached_property
    def region(self) -> np.ndarray:
        """Number of the region of each turn."""
        return self.rows.region(self.turns)

    def session_names(self) -> Names:
        """Id of the session of each turn."""
        trace = self.rows.trace
        index = self.of(trace.session_index)
        first, end = int(index[0]), int(index[-1]) + 1
        return Names(index - first, trace.session_ids[first:end])

    def turn_numbers(self) -> np.ndarray:
        """Number of each turn in its session, from 0."""
        trace = self.rows.trace
        return self.turns - trace.offsets[trace.session_index[self.turns]]

    def replica_names(self, attribute: str) -> Names:
        """Model or GPU type of each turn."""
        deployments = self.rows.prepared.deployments
        names = [getattr(replica, attribute) for replica in deployments.replicas]
        return Names(deployments.fleet.pair[self.deployment], names)

    def home_names(self) -> Names:
        """Deployment that held the most cached tokens; empty where none did."""
        frame = self.rows.prepared.deployments.to_frame()
        names = (frame["model"] + " " + frame["gpu"] + " " + frame["region"]).tolist()
        return Names(self.of(self.rows.decisions.home).astype(np.int64), names)

    def estimated_share(self) -> np.ndarray:
        """Share of the intensity that its source had estimated; NaN where it does not say."""
        return self.rows.prepared.estimated_share(self.turns, self.region)


REASONS: dict[int, str] = {
    code: name.lower().replace("_", "-")
    for name, code in vars(reasons).items()
    if name.isupper() and isinstance(code, int)
}
"""Word for each reason code."""


def _from_trace(name: str, meaning: str) -> Field[TurnRows]:
    return whole(name, "tokens", meaning, lambda r: r.of(getattr(r.rows.trace, name)))


def _charge(name: str, unit: str, meaning: str) -> Field[TurnRows]:
    return number(name, unit, meaning, lambda r: r.of(getattr(r.rows.charges, name)))


def _gate(name: str, unit: str, meaning: str) -> Field[TurnRows]:
    return number(
        name,
        unit,
        f"{meaning}; empty where the gate was not asked",
        lambda r: r.of(getattr(r.rows.decisions, name)),
    )


DECISIONS: tuple[Field[TurnRows], ...] = (
    text("policy", POLICY, lambda r: r.rows.policy_names(len(r.turns))),
    text("session", "id of the session", lambda r: r.session_names()),
    whole("turn", "", "number of the turn in its session, from 0", lambda r: r.turn_numbers()),
    time(
        "start_utc", "start of the turn, to the millisecond", lambda r: r.rows.start_utc_s(r.turns)
    ),
    text(
        "user_region",
        "region the user is in",
        lambda r: Names(r.of(r.rows.prepared.placed.user), r.rows.prepared.placed.user_regions),
    ),
    text("model", "model that served", lambda r: r.replica_names("model")),
    text("gpu", "GPU type that served", lambda r: r.replica_names("gpu")),
    text("region", "region that served", lambda r: Names(r.region, r.rows.region_names("region"))),
    text(
        "zone", "grid zone of that region", lambda r: Names(r.region, r.rows.region_names("zone"))
    ),
    yes_no(
        "moved",
        "served away from the deployment of the last served turn",
        lambda r: r.of(r.rows.moved),
    ),
    text(
        "reason",
        "why: " + " ".join(f"{word}: {reasons.WORDS[code]}" for code, word in REASONS.items()),
        lambda r: Names(
            np.searchsorted(sorted(REASONS), r.of(r.rows.decisions.reason)),
            [REASONS[code] for code in sorted(REASONS)],
        ),
    ),
    text(
        "home",
        "deployment with most cached tokens of the session; empty where none has any",
        lambda r: r.home_names(),
    ),
    _from_trace("history_tokens", "all earlier tokens of the session"),
    whole(
        "cached_tokens",
        "tokens",
        "history tokens cached where the turn was served",
        lambda r: r.of(r.rows.decisions.cached_tokens),
    ),
    whole(
        "recomputed_tokens",
        "tokens",
        "history_tokens - cached_tokens",
        lambda r: r.of(r.rows.trace.history_tokens) - r.of(r.rows.decisions.cached_tokens),
    ),
    _from_trace("new_prompt_tokens", "prompt tokens beyond the history"),
    _from_trace("output_tokens", "output tokens"),
    number("it_energy_kwh", *IT, lambda r: r.rows.it_energy_kwh(r.turns)),
    number(
        "pue", "", "power usage effectiveness of the region", lambda r: r.rows.fleet.pue[r.region]
    ),
    _charge("energy_kwh", *FACILITY),
    _charge(
        "intensity_g_per_kwh", "gCO2e/kWh", "carbon intensity of the zone at the start of the turn"
    ),
    number(
        "intensity_estimated_share",
        "",
        "share of that intensity its source estimated; empty where the source does not say",
        lambda r: r.estimated_share(),
    ),
    *(_charge(name, *FIGURES[name]) for name in CARBON),
    _charge("ttft_ms", "ms", "time to the first token, without queueing"),
    _charge("latency_ms", "ms", "time to the last token, without queueing"),
    yes_no(
        "missed_ceiling",
        "no candidate was within the latency ceiling",
        lambda r: r.of(r.rows.decisions.missed_ceiling),
    ),
    number(
        "difficulty",
        "logit",
        "difficulty of the prompt",
        lambda r: r.of(r.rows.prepared.placed.difficulty),
    ),
    _charge("quality", "", "predicted quality"),
    _gate("p_back", "", "chance that the session comes back to its home"),
    _gate("saving_g", "gCO2e", "carbon that the move would save on this turn"),
    _gate("rebuild_g", "gCO2e", "carbon of recomputing the history at home when it comes back"),
    _gate("next_gain_g", "gCO2e", "carbon that the next turn is expected to gain by holding"),
)


def decisions(comparison: Comparison) -> Iterator[TurnRows]:
    """The served turns of every policy, in chunks."""
    for name in comparison.runs:
        rows = PolicyRows(comparison, name)
        served = np.flatnonzero(rows.decisions.served)
        for first in range(0, len(served), CHUNK_ROWS):
            yield TurnRows(rows, served[first : first + CHUNK_ROWS])
