"""The tables of the CSV bundle, column by column.

Energy comes twice: ``it_energy_kwh`` at the servers, and ``energy_kwh`` drawn by the facility,
which is that times PUE. Carbon is the facility's energy times the carbon intensity that stands
in the same row; a row that sums up several has their energy-weighted mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from carbonrouter_core.replay.run import Run
from carbonrouter_core.report.fields import Field, Names
from carbonrouter_core.results.comparison import FIGURES, Comparison, Interval
from carbonrouter_core.routing.policies import BASELINE, OPTIMUM, policy, reasons
from carbonrouter_core.units import S_PER_HOUR

CHUNK_ROWS = 16_384
"""Rows of a table that are in memory at a time."""

ALL = slice(None)
"""All turns."""

TOKENS_OF_UNIT = 1000
"""Output tokens of the third functional unit."""

_IT = "kWh", "energy at the servers (GPU and host), without PUE"
_FACILITY = "kWh", "facility energy: it_energy_kwh x PUE; carbon_g = this x intensity_g_per_kwh"
_MEAN_INTENSITY = "gCO2e/kWh", "energy-weighted mean carbon intensity of the rows summed up"
_POLICY = "id of the policy"

_CARBON = ("recompute_g", "prompt_g", "decode_g", "host_g", "carbon_g", "embodied_g")
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

    @cached_property
    def moved(self) -> np.ndarray:
        """Which turns moved, (turns,)."""
        return self.comparison.moved(self.policy_id)

    def region(self, turns: Any) -> np.ndarray:
        """Region of ``turns`` (a slice or row numbers), -1 where one is unserved."""
        decided = self.run.decisions.deployment[turns]
        return np.where(
            decided >= 0, self.comparison.prepared.deployments.fleet.region[decided], -1
        )

    def start_utc_s(self, turns: Any) -> np.ndarray:
        """Start of ``turns``, epoch seconds."""
        prepared = self.comparison.prepared
        return prepared.scenario.window_start_s + prepared.placed.start_s[turns]

    def recomputed_tokens(self, turns: Any) -> np.ndarray:
        """History that was not cached where the turn was served; 0 where it is unserved."""
        decisions = self.run.decisions
        missing = self.comparison.trace.history_tokens[turns] - decisions.cached_tokens[turns]
        return np.where(decisions.deployment[turns] >= 0, missing, 0)

    def it_energy_kwh(self, turns: Any) -> np.ndarray:
        """Energy of ``turns`` without PUE."""
        pue = self.comparison.prepared.deployments.fleet.pue
        # 0 where it is unserved
        return self.run.charges.energy_kwh[turns] / pue[self.region(turns)]


# --- summary.csv -----------------------------------------------------------------------------


@dataclass(frozen=True)
class SummaryRows:
    """One row a policy."""

    comparison: Comparison

    @cached_property
    def figures(self) -> list[dict[str, Any]]:
        """The figures of each policy."""
        return [self.comparison.figures(name) for name in self.comparison.runs]

    def savings(self, sessions: np.ndarray | None = None) -> list[Interval]:
        """Saving of each policy against FairCarbon with its interval."""
        if BASELINE not in self.comparison.runs:
            return [Interval(None, None, None)] * len(self.comparison.runs)
        return [self.comparison.saving(name, sessions=sessions) for name in self.comparison.runs]

    @cached_property
    def all_savings(self) -> list[Interval]:
        """Of all sessions."""
        return self.savings()

    @cached_property
    def long_savings(self) -> list[Interval]:
        """Of the sessions over 30 turns."""
        return self.savings(self.comparison.long_sessions)

    @cached_property
    def test_savings(self) -> list[Interval]:
        """Of the half that nothing was learned from."""
        return self.savings(self.comparison.test_half)

    def per(self, count: Callable[[dict[str, Any]], float]) -> np.ndarray:
        """SCI of each policy: operational and embodied carbon over a number of units."""
        total = [one["carbon_g"] + one["embodied_g"] for one in self.figures]
        return ratio(total, [count(one) for one in self.figures])


def served_turns(figures: Mapping[str, Any]) -> float:
    """Turns that were served: the functional unit."""
    return float(figures["turns"] - figures["unserved_turns"])


def _figure(name: str, unit: str, meaning: str) -> Field[SummaryRows]:
    return Field(name, "number", unit, meaning, lambda rows: [one[name] for one in rows.figures])


def _interval(prefix: str, what: str, of: str) -> list[Field[SummaryRows]]:
    ends = (("low", 1), ("high", 2)) if not prefix else (("value", 0), ("low", 1), ("high", 2))
    words = ("saving against FairCarbon", "lower end", "upper end")

    def field(end: str, at: int) -> Field[SummaryRows]:
        name = f"{prefix}saving_{end}_percent".replace("_value", "_vs_faircarbon")
        meaning = words[0] if at == 0 else f"{words[at]} of its 95 % bootstrap interval"
        return Field(
            name,
            "number",
            "%",
            f"{meaning}, {what}",
            lambda rows: [one[at] for one in getattr(rows, of)],
        )

    return [field(end, at) for end, at in ends]


SUMMARY: tuple[Field[SummaryRows], ...] = (
    Field("policy", "text", "", _POLICY, lambda rows: list(rows.comparison.runs)),
    Field(
        "label",
        "text",
        "",
        "name of the policy",
        lambda rows: [
            rows.comparison.optimum_label if name == OPTIMUM else policy(name).label
            for name in rows.comparison.runs
        ],
    ),
    *(_figure(name, unit, meaning) for name, (unit, meaning) in FIGURES.items()),
    Field(
        "gap_closed_percent",
        "number",
        "%",
        "way from FairCarbon to the hindsight optimum or the best found; empty where that was not "
        "run",
        lambda rows: [rows.comparison.gap_closed_percent(name) for name in rows.comparison.runs],
    ),
    *_interval("", "over sessions", "all_savings"),
    *_interval("long_sessions_", "sessions over 30 turns only", "long_savings"),
    *_interval("test_half_", "only the sessions that nothing was learned from", "test_savings"),
    Field(
        "it_energy_kwh",
        "number",
        *_IT,
        lambda rows: [
            PolicyRows(rows.comparison, name).it_energy_kwh(ALL).sum()
            for name in rows.comparison.runs
        ],
    ),
    Field(
        "intensity_g_per_kwh",
        "number",
        *_MEAN_INTENSITY,
        lambda rows: ratio(
            [one["carbon_g"] for one in rows.figures], [one["energy_kwh"] for one in rows.figures]
        ),
    ),
    Field(
        "same_energy_at_mean_intensity_g",
        "number",
        "gCO2e",
        "energy_kwh at the plain mean intensity of the chosen zones in the window",
        lambda rows: [
            rows.comparison.same_energy_at_mean_intensity_g(name) for name in rows.comparison.runs
        ],
    ),
    Field(
        "sci_g_per_turn",
        "number",
        "gCO2e/turn",
        "SCI (E x I + M) / R = (carbon_g + embodied_g) / served turns",
        lambda rows: rows.per(served_turns),
    ),
    Field(
        "sci_g_per_session",
        "number",
        "gCO2e/session",
        "SCI (E x I + M) / R = (carbon_g + embodied_g) / sessions",
        lambda rows: rows.per(lambda one: one["sessions"]),
    ),
    Field(
        "sci_g_per_1000_output_tokens",
        "number",
        "gCO2e/1000 tokens",
        "SCI (E x I + M) / R = (carbon_g + embodied_g) / (output tokens of served turns / 1000)",
        lambda rows: rows.per(lambda one: one["output_tokens"] / TOKENS_OF_UNIT),
    ),
)

# --- by_session.csv --------------------------------------------------------------------------


@dataclass(frozen=True)
class SessionRows:
    """One row a session, for one policy."""

    rows: PolicyRows
    first: int
    end: int

    @property
    def sessions(self) -> slice:
        """The sessions of this chunk."""
        return slice(self.first, self.end)

    @cached_property
    def turns(self) -> slice:
        """Their turns."""
        offsets = self.rows.comparison.trace.offsets
        return slice(int(offsets[self.first]), int(offsets[self.end]))

    @cached_property
    def index(self) -> np.ndarray:
        """Number of the session of each turn, within the chunk."""
        return self.rows.comparison.trace.session_index[self.turns] - self.first

    @cached_property
    def served(self) -> np.ndarray:
        """Turns served in each session."""
        return self.total(self.rows.run.decisions.deployment[self.turns] >= 0)

    def total(self, values: np.ndarray) -> np.ndarray:
        """Sum of ``values``, one a turn of the chunk, over each session; what is NaN of unserved
        turns is left out."""
        weights = np.nan_to_num(np.asarray(values, np.float64), nan=0.0)
        return np.bincount(self.index, weights, self.end - self.first)

    def charged(self, name: str) -> np.ndarray:
        """Sum of a charge over each session."""
        return self.total(getattr(self.rows.run.charges, name)[self.turns])

    def mean(self, name: str) -> np.ndarray:
        """Mean of a charge over the served turns of each session."""
        return ratio(self.charged(name), self.served)

    def counted(self, values: np.ndarray) -> np.ndarray:
        """Like :meth:`total`, as whole numbers."""
        return np.rint(self.total(values)).astype(np.int64)

    def served_output_tokens(self) -> np.ndarray:
        """Output tokens of each turn; 0 where it is unserved."""
        served = self.rows.run.decisions.deployment[self.turns] >= 0
        return self.rows.comparison.trace.output_tokens[self.turns] * served

    def start_utc_s(self) -> np.ndarray:
        """Start of the first turn of each session, epoch seconds; NaN where it has none."""
        trace = self.rows.comparison.trace
        first = np.minimum(trace.offsets[self.first : self.end], trace.n_turns - 1)
        start_s = self.rows.start_utc_s(first)
        return np.where(trace.session_turns[self.sessions] > 0, start_s, np.nan)


def _session_sum(name: str) -> Field[SessionRows]:
    return Field(name, "number", *FIGURES[name], lambda r: r.charged(name))


def _session_mean(name: str) -> Field[SessionRows]:
    return Field(f"{name}_mean", "number", *FIGURES[f"{name}_mean"], lambda r: r.mean(name))


BY_SESSION: tuple[Field[SessionRows], ...] = (
    Field(
        "policy",
        "text",
        "",
        _POLICY,
        lambda r: Names(np.zeros(r.end - r.first, np.int64), [r.rows.policy_id]),
    ),
    Field(
        "session",
        "text",
        "",
        "id of the session",
        lambda r: r.rows.comparison.trace.session_ids[r.sessions],
    ),
    Field(
        "half",
        "text",
        "",
        "training: means, survival and gaps are learned from it; test: nothing is",
        lambda r: Names(
            r.rows.comparison.test_half[r.sessions].astype(np.int64), ("training", "test")
        ),
    ),
    Field(
        "start_utc",
        "time",
        "",
        "start of the first turn",
        lambda r: r.start_utc_s(),
    ),
    Field(
        "turns",
        "whole",
        "",
        "turns of the session, unserved ones included",
        lambda r: r.rows.comparison.trace.session_turns[r.sessions],
    ),
    Field(
        "unserved_turns",
        "whole",
        "",
        "turns that no model holds",
        lambda r: r.counted(r.rows.run.decisions.deployment[r.turns] < 0),
    ),
    Field(
        "moves",
        "whole",
        "",
        "turns served away from the deployment of the last served turn",
        lambda r: r.counted(r.rows.moved[r.turns]),
    ),
    Field(
        "output_tokens",
        "whole",
        "tokens",
        "output tokens of the served turns",
        lambda r: r.counted(r.served_output_tokens()),
    ),
    Field(
        "recomputed_tokens",
        "whole",
        "tokens",
        "history tokens that were not cached where the turn was served",
        lambda r: r.counted(r.rows.recomputed_tokens(r.turns)),
    ),
    Field("it_energy_kwh", "number", *_IT, lambda r: r.total(r.rows.it_energy_kwh(r.turns))),
    Field("energy_kwh", "number", *_FACILITY, lambda r: r.charged("energy_kwh")),
    Field(
        "intensity_g_per_kwh",
        "number",
        *_MEAN_INTENSITY,
        lambda r: ratio(r.charged("carbon_g"), r.charged("energy_kwh")),
    ),
    *(_session_sum(name) for name in _CARBON),
    *(_session_mean(name) for name in ("quality", "ttft_ms", "latency_ms")),
)


def by_session(comparison: Comparison) -> Iterator[SessionRows]:
    """The rows of every policy, in chunks."""
    offsets = comparison.trace.offsets
    for name in comparison.runs:
        rows = PolicyRows(comparison, name)
        first = 0
        while first < comparison.trace.n_sessions:
            # as many sessions as hold a chunk of turns, one at least
            end = int(np.searchsorted(offsets, offsets[first] + CHUNK_ROWS, "right")) - 1
            end = min(max(end, first + 1), first + CHUNK_ROWS, comparison.trace.n_sessions)
            yield SessionRows(rows, first, end)
            first = end


# --- by_region_hour.csv ----------------------------------------------------------------------


@dataclass(frozen=True)
class RegionHourRows:
    """One row a region and hour, for one policy: all hours from the window's start to its end,
    or to the last turn where that is later."""

    rows: PolicyRows

    @cached_property
    def first_s(self) -> int:
        """Start of the first hour, epoch seconds."""
        start_s = self.rows.comparison.prepared.scenario.window_start_s
        early_s = float(self.rows.comparison.prepared.placed.start_s.min(initial=0.0))
        return start_s + int(np.floor(min(0.0, early_s) / S_PER_HOUR)) * S_PER_HOUR

    def hour(self, turns: Any) -> np.ndarray:
        """Hour of each of ``turns``, from the first."""
        return ((self.rows.start_utc_s(turns) - self.first_s) // S_PER_HOUR).astype(np.int64)

    @cached_property
    def hours(self) -> int:
        """How many hours there are."""
        end_s = self.rows.comparison.prepared.scenario.window_end_s
        start_s = self.rows.comparison.prepared.placed.start_s
        last = self.hour([int(start_s.argmax())])[0] if len(start_s) else -1
        return max((end_s - self.first_s) // S_PER_HOUR, int(last) + 1)

    @cached_property
    def regions(self) -> int:
        """How many regions there are."""
        return len(self.rows.comparison.prepared.deployments.regions)

    def total(self, values: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Sum over the served turns of each row; ``values`` gives one for each of some turns."""
        rows = np.zeros(self.regions * self.hours)
        decided = self.rows.run.decisions.deployment
        for first in range(0, len(decided), CHUNK_ROWS):
            turns = first + np.flatnonzero(decided[first : first + CHUNK_ROWS] >= 0)
            # one after the other, in the order of the turns, wherever a chunk ends
            np.add.at(rows, self.rows.region(turns) * self.hours + self.hour(turns), values(turns))
        return rows

    def counted(self, values: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Like :meth:`total`, as whole numbers."""
        return np.rint(self.total(values)).astype(np.int64)

    def charged(self, name: str) -> np.ndarray:
        """Sum of a charge over each row."""
        return self.total(lambda turns: getattr(self.rows.run.charges, name)[turns])

    @cached_property
    def energy_kwh(self) -> np.ndarray:
        """Facility energy of each row."""
        return self.charged("energy_kwh")

    @cached_property
    def start_s(self) -> np.ndarray:
        """Start of each row's hour, epoch seconds."""
        return np.tile(self.first_s + S_PER_HOUR * np.arange(self.hours), self.regions)

    def by_region(self, values: Any) -> np.ndarray:
        """One of ``values`` (regions,) for each row."""
        return np.repeat(np.asarray(values), self.hours)

    def intensity(self) -> np.ndarray:
        """Energy-weighted mean where energy was used, else the zone's in the middle of the hour."""
        series = self.rows.comparison.prepared.series
        middle_s = self.start_s[: self.hours] + S_PER_HOUR / 2
        zone = [one.at(np.clip(middle_s, one.start_s, one.end_s - 1.0)) for one in series]
        used = ratio(self.charged("carbon_g"), self.energy_kwh)
        return np.where(np.isnan(used), np.concatenate(zone), used)


def _region_names(rows: PolicyRows, attribute: str) -> list[str]:
    return [getattr(one, attribute) for one in rows.comparison.prepared.deployments.regions]


def _region_hour_sum(name: str) -> Field[RegionHourRows]:
    return Field(name, "number", *FIGURES[name], lambda r: r.charged(name))


BY_REGION_HOUR: tuple[Field[RegionHourRows], ...] = (
    Field(
        "policy",
        "text",
        "",
        _POLICY,
        lambda r: Names(np.zeros(len(r.start_s), np.int64), [r.rows.policy_id]),
    ),
    Field(
        "region",
        "text",
        "",
        "region that served",
        lambda r: Names(r.by_region(np.arange(r.regions)), _region_names(r.rows, "region")),
    ),
    Field(
        "zone",
        "text",
        "",
        "grid zone of the region",
        lambda r: Names(r.by_region(np.arange(r.regions)), _region_names(r.rows, "zone")),
    ),
    Field("start_utc", "time", "", "start of the hour", lambda r: r.start_s),
    Field(
        "turns",
        "whole",
        "",
        "turns served there that start in the hour",
        lambda r: r.counted(lambda turns: np.ones(len(turns))),
    ),
    Field(
        "output_tokens",
        "whole",
        "tokens",
        "output tokens of these turns",
        lambda r: r.counted(lambda turns: r.rows.comparison.trace.output_tokens[turns]),
    ),
    Field("it_energy_kwh", "number", *_IT, lambda r: r.total(r.rows.it_energy_kwh)),
    Field(
        "pue",
        "number",
        "",
        "power usage effectiveness of the region",
        lambda r: r.by_region(r.rows.comparison.prepared.deployments.fleet.pue),
    ),
    Field("energy_kwh", "number", *_FACILITY, lambda r: r.energy_kwh),
    Field(
        "intensity_g_per_kwh",
        "number",
        "gCO2e/kWh",
        "energy-weighted mean carbon intensity of these turns; "
        "without energy, the zone's in the middle of the hour",
        lambda r: r.intensity(),
    ),
    *(_region_hour_sum(name) for name in _CARBON),
)


def by_region_hour(comparison: Comparison) -> Iterator[RegionHourRows]:
    """The rows of every policy; all energy of a turn stands in the hour in which it starts."""
    for name in comparison.runs:
        yield RegionHourRows(PolicyRows(comparison, name))


# --- decisions.csv ---------------------------------------------------------------------------


@dataclass(frozen=True)
class TurnRows:
    """Served turns of one policy: ``turns`` are their row numbers in the trace."""

    rows: PolicyRows
    turns: np.ndarray

    def of(self, values: np.ndarray) -> np.ndarray:
        """``values`` (turns,) of these turns."""
        return values[self.turns]

    def charge(self, name: str) -> np.ndarray:
        """A charge of each turn."""
        return self.of(getattr(self.rows.run.charges, name))

    @cached_property
    def deployment(self) -> np.ndarray:
        """Number of the deployment of each turn."""
        return self.of(self.rows.run.decisions.deployment)

    @cached_property
    def region(self) -> np.ndarray:
        """Number of the region of each turn."""
        return self.rows.region(self.turns)

    def session_names(self) -> Names:
        """Id of the session of each turn."""
        trace = self.rows.comparison.trace
        index = self.of(trace.session_index)
        first, end = int(index[0]), int(index[-1]) + 1
        return Names(index - first, trace.session_ids[first:end])

    def turn_numbers(self) -> np.ndarray:
        """Number of each turn in its session, from 0."""
        trace = self.rows.comparison.trace
        return self.turns - trace.offsets[trace.session_index[self.turns]]

    def replica_names(self, attribute: str) -> Names:
        """Model or GPU type of each turn."""
        deployments = self.rows.comparison.prepared.deployments
        names = [getattr(one, attribute) for one in deployments.replicas]
        return Names(deployments.fleet.pair[self.deployment], names)

    def home_names(self) -> Names:
        """Deployment that held the most cached tokens; empty where none did."""
        frame = self.rows.comparison.prepared.deployments.to_frame()
        names = (frame["model"] + " " + frame["gpu"] + " " + frame["region"]).tolist()
        return Names(self.of(self.rows.run.decisions.home).astype(np.int64), names)

    def estimated_share(self) -> np.ndarray:
        """Share of the intensity that its source had estimated; NaN where it does not say."""
        return self.rows.comparison.prepared.estimated_share(self.turns, self.region)


REASONS: dict[int, str] = {
    code: name.lower().replace("_", "-")
    for name, code in vars(reasons).items()
    if name.isupper() and isinstance(code, int)
}
"""Word for each reason code."""


def _from_trace(name: str, meaning: str) -> Field[TurnRows]:
    return Field(
        name, "whole", "tokens", meaning, lambda r: r.of(getattr(r.rows.comparison.trace, name))
    )


def _turn_charge(name: str) -> Field[TurnRows]:
    return Field(name, "number", *FIGURES[name], lambda r: r.charge(name))


def _gate(name: str, unit: str, meaning: str) -> Field[TurnRows]:
    return Field(
        name,
        "number",
        unit,
        f"{meaning}; empty where the gate was not asked",
        lambda r: r.of(getattr(r.rows.run.decisions, name)),
    )


DECISIONS: tuple[Field[TurnRows], ...] = (
    Field(
        "policy",
        "text",
        "",
        _POLICY,
        lambda r: Names(np.zeros(len(r.turns), np.int64), [r.rows.policy_id]),
    ),
    Field("session", "text", "", "id of the session", lambda r: r.session_names()),
    Field(
        "turn",
        "whole",
        "",
        "number of the turn in its session, from 0",
        lambda r: r.turn_numbers(),
    ),
    Field(
        "start_utc",
        "time",
        "",
        "start of the turn, to the millisecond",
        lambda r: r.rows.start_utc_s(r.turns),
    ),
    Field(
        "user_region",
        "text",
        "",
        "region the user is in",
        lambda r: Names(
            r.of(r.rows.comparison.prepared.placed.user),
            r.rows.comparison.prepared.placed.user_regions,
        ),
    ),
    Field("model", "text", "", "model that served", lambda r: r.replica_names("model")),
    Field("gpu", "text", "", "GPU type that served", lambda r: r.replica_names("gpu")),
    Field(
        "region",
        "text",
        "",
        "region that served",
        lambda r: Names(r.region, _region_names(r.rows, "region")),
    ),
    Field(
        "zone",
        "text",
        "",
        "grid zone of that region",
        lambda r: Names(r.region, _region_names(r.rows, "zone")),
    ),
    Field(
        "moved",
        "yes/no",
        "",
        "served away from the deployment of the last served turn",
        lambda r: r.of(r.rows.moved),
    ),
    Field(
        "reason",
        "text",
        "",
        "why: " + " ".join(f"{word}: {reasons.WORDS[code]}" for code, word in REASONS.items()),
        lambda r: Names(
            np.searchsorted(sorted(REASONS), r.of(r.rows.run.decisions.reason)),
            [REASONS[code] for code in sorted(REASONS)],
        ),
    ),
    Field(
        "home",
        "text",
        "",
        "deployment with most cached tokens of the session; empty where none has any",
        lambda r: r.home_names(),
    ),
    _from_trace("history_tokens", "all earlier tokens of the session"),
    Field(
        "cached_tokens",
        "whole",
        "tokens",
        "history tokens cached where the turn was served",
        lambda r: r.of(r.rows.run.decisions.cached_tokens),
    ),
    Field(
        "recomputed_tokens",
        "whole",
        "tokens",
        "history_tokens - cached_tokens",
        lambda r: (
            r.of(r.rows.comparison.trace.history_tokens) - r.of(r.rows.run.decisions.cached_tokens)
        ),
    ),
    _from_trace("new_prompt_tokens", "prompt tokens beyond the history"),
    _from_trace("output_tokens", "output tokens"),
    Field("it_energy_kwh", "number", *_IT, lambda r: r.rows.it_energy_kwh(r.turns)),
    Field(
        "pue",
        "number",
        "",
        "power usage effectiveness of the region",
        lambda r: r.rows.comparison.prepared.deployments.fleet.pue[r.region],
    ),
    Field("energy_kwh", "number", *_FACILITY, lambda r: r.charge("energy_kwh")),
    Field(
        "intensity_g_per_kwh",
        "number",
        "gCO2e/kWh",
        "carbon intensity of the zone at the start of the turn",
        lambda r: r.charge("intensity_g_per_kwh"),
    ),
    Field(
        "intensity_estimated_share",
        "number",
        "",
        "share of that intensity its source estimated; empty where the source does not say",
        lambda r: r.estimated_share(),
    ),
    *(_turn_charge(name) for name in _CARBON),
    Field(
        "ttft_ms",
        "number",
        "ms",
        "time to the first token, without queueing",
        lambda r: r.charge("ttft_ms"),
    ),
    Field(
        "latency_ms",
        "number",
        "ms",
        "time to the last token, without queueing",
        lambda r: r.charge("latency_ms"),
    ),
    Field(
        "missed_ceiling",
        "yes/no",
        "",
        "no candidate was within the latency ceiling",
        lambda r: r.of(r.rows.run.decisions.missed_ceiling),
    ),
    Field(
        "difficulty",
        "number",
        "logit",
        "difficulty of the prompt",
        lambda r: r.of(r.rows.comparison.prepared.placed.difficulty),
    ),
    Field("quality", "number", "", "predicted quality", lambda r: r.charge("quality")),
    _gate("p_back", "", "chance that the session comes back to its home"),
    _gate("saving_g", "gCO2e", "carbon that the move would save on this turn"),
    _gate("rebuild_g", "gCO2e", "carbon of recomputing the history at home when it comes back"),
    _gate("next_gain_g", "gCO2e", "carbon that the next turn is expected to gain by holding"),
)


def decisions(comparison: Comparison) -> Iterator[TurnRows]:
    """The served turns of every policy, in chunks."""
    for name in comparison.runs:
        rows = PolicyRows(comparison, name)
        served = np.flatnonzero(rows.run.decisions.served)
        for first in range(0, len(served), CHUNK_ROWS):
            yield TurnRows(rows, served[first : first + CHUNK_ROWS])
