"""``by_session.csv``: a row for each policy and session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from carbonrouter_core.report.fields import Field, Names, number, text, time, whole
from carbonrouter_core.report.tables.rows import (
    CARBON,
    CHUNK_ROWS,
    FACILITY,
    IT,
    MEAN_INTENSITY,
    POLICY,
    PolicyRows,
    ratio,
)
from carbonrouter_core.results.comparison import Comparison
from carbonrouter_core.results.totals import FIGURES


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
        offsets = self.rows.trace.offsets
        return slice(int(offsets[self.first]), int(offsets[self.end]))

    @cached_property
    def index(self) -> np.ndarray:
        """Number of the session of each turn, within the chunk."""
        return self.rows.trace.session_index[self.turns] - self.first

    @cached_property
    def served(self) -> np.ndarray:
        """Turns served in each session."""
        return self.total(self.rows.decisions.deployment[self.turns] >= 0)

    def total(self, values: np.ndarray) -> np.ndarray:
        """Sum of ``values``, one a turn of the chunk, over each session.

        NaN of unserved turns is left out.
        """
        weights = np.nan_to_num(np.asarray(values, np.float64), nan=0.0)
        return np.bincount(self.index, weights, self.end - self.first)

    def charged(self, name: str) -> np.ndarray:
        """Sum of a charge over each session."""
        return self.total(getattr(self.rows.charges, name)[self.turns])

    def mean(self, name: str) -> np.ndarray:
        """Mean of a charge over the served turns of each session."""
        return ratio(self.charged(name), self.served)

    def counted(self, values: np.ndarray) -> np.ndarray:
        """Like :meth:`total`, as whole numbers."""
        return np.rint(self.total(values)).astype(np.int64)

    def served_output_tokens(self) -> np.ndarray:
        """Output tokens of each turn; 0 where it is unserved."""
        served = self.rows.decisions.deployment[self.turns] >= 0
        return self.rows.trace.output_tokens[self.turns] * served

    def start_utc_s(self) -> np.ndarray:
        """Start of the first turn of each session, epoch seconds; NaN where it has none."""
        trace = self.rows.trace
        first = np.minimum(trace.offsets[self.first : self.end], trace.n_turns - 1)
        start_s = self.rows.start_utc_s(first)
        return np.where(trace.session_turns[self.sessions] > 0, start_s, np.nan)


def _session_sum(name: str) -> Field[SessionRows]:
    return number(name, *FIGURES[name], lambda r: r.charged(name))


def _session_mean(name: str) -> Field[SessionRows]:
    return number(f"{name}_mean", *FIGURES[f"{name}_mean"], lambda r: r.mean(name))


BY_SESSION: tuple[Field[SessionRows], ...] = (
    text("policy", POLICY, lambda r: r.rows.policy_names(r.end - r.first)),
    text("session", "id of the session", lambda r: r.rows.trace.session_ids[r.sessions]),
    text(
        "half",
        "training: means, survival and gaps are learned from it; test: nothing is",
        lambda r: Names(
            r.rows.comparison.test_half[r.sessions].astype(np.int64), ("training", "test")
        ),
    ),
    time("start_utc", "start of the first turn", lambda r: r.start_utc_s()),
    whole(
        "turns",
        "",
        "turns of the session, unserved ones included",
        lambda r: r.rows.trace.session_turns[r.sessions],
    ),
    whole(
        "unserved_turns",
        "",
        "turns that no model holds",
        lambda r: r.counted(r.rows.decisions.deployment[r.turns] < 0),
    ),
    whole(
        "moves",
        "",
        "turns served away from the deployment of the last served turn",
        lambda r: r.counted(r.rows.moved[r.turns]),
    ),
    whole(
        "output_tokens",
        "tokens",
        "output tokens of the served turns",
        lambda r: r.counted(r.served_output_tokens()),
    ),
    whole(
        "recomputed_tokens",
        "tokens",
        "history tokens that were not cached where the turn was served",
        lambda r: r.counted(r.rows.recomputed_tokens(r.turns)),
    ),
    number("it_energy_kwh", *IT, lambda r: r.total(r.rows.it_energy_kwh(r.turns))),
    number("energy_kwh", *FACILITY, lambda r: r.charged("energy_kwh")),
    number(
        "intensity_g_per_kwh",
        *MEAN_INTENSITY,
        lambda r: ratio(r.charged("carbon_g"), r.charged("energy_kwh")),
    ),
    *(_session_sum(name) for name in CARBON),
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
