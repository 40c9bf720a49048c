"""``summary.csv``: a row for each policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from carbonrouter_core.report.fields import Field, number, text
from carbonrouter_core.report.tables.rows import ALL, IT, MEAN_INTENSITY, POLICY, PolicyRows, ratio
from carbonrouter_core.results.comparison import Comparison, Interval
from carbonrouter_core.results.totals import FIGURES
from carbonrouter_core.routing.policies import FAIRCARBON, OPTIMUM, policy

TOKENS_OF_UNIT = 1000
"""Output tokens of the third functional unit."""


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
        if FAIRCARBON not in self.comparison.runs:
            return [Interval(None, None, None)] * len(self.comparison.runs)
        return [self.comparison.saving(name, FAIRCARBON, sessions) for name in self.comparison.runs]

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
        total = [row["carbon_g"] + row["embodied_g"] for row in self.figures]
        return ratio(total, [count(row) for row in self.figures])


def served_turns(figures: Mapping[str, Any]) -> float:
    """Turns that were served: the functional unit."""
    return float(figures["turns"] - figures["unserved_turns"])


def _figure(name: str, unit: str, meaning: str) -> Field[SummaryRows]:
    return number(name, unit, meaning, lambda rows: [row[name] for row in rows.figures])


def _interval(prefix: str, what: str, of: str) -> list[Field[SummaryRows]]:
    ends = (("low", 1), ("high", 2)) if not prefix else (("value", 0), ("low", 1), ("high", 2))
    words = ("saving against FairCarbon", "lower end", "upper end")

    def field(end: str, at: int) -> Field[SummaryRows]:
        name = f"{prefix}saving_{end}_percent".replace("_value", "_vs_faircarbon")
        meaning = words[0] if at == 0 else f"{words[at]} of its 95 % bootstrap interval"
        return number(
            name, "%", f"{meaning}, {what}", lambda rows: [row[at] for row in getattr(rows, of)]
        )

    return [field(end, at) for end, at in ends]


SUMMARY: tuple[Field[SummaryRows], ...] = (
    text("policy", POLICY, lambda rows: list(rows.comparison.runs)),
    text(
        "label",
        "name of the policy",
        lambda rows: [
            rows.comparison.optimum_label if name == OPTIMUM else policy(name).label
            for name in rows.comparison.runs
        ],
    ),
    *(_figure(name, unit, meaning) for name, (unit, meaning) in FIGURES.items()),
    number(
        "gap_closed_percent",
        "%",
        "way from the scenario's baseline to the hindsight optimum or the best found; "
        "empty where that was not run",
        lambda rows: [rows.comparison.gap_closed_percent(name) for name in rows.comparison.runs],
    ),
    *_interval("", "over sessions", "all_savings"),
    *_interval("long_sessions_", "sessions over 30 turns only", "long_savings"),
    *_interval("test_half_", "only the sessions that nothing was learned from", "test_savings"),
    number(
        "it_energy_kwh",
        *IT,
        lambda rows: [
            PolicyRows(rows.comparison, name).it_energy_kwh(ALL).sum()
            for name in rows.comparison.runs
        ],
    ),
    number(
        "intensity_g_per_kwh",
        *MEAN_INTENSITY,
        lambda rows: ratio(
            [row["carbon_g"] for row in rows.figures], [row["energy_kwh"] for row in rows.figures]
        ),
    ),
    number(
        "same_energy_at_mean_intensity_g",
        "gCO2e",
        "energy_kwh at the plain mean intensity of the chosen zones in the window",
        lambda rows: [
            rows.comparison.same_energy_at_mean_intensity_g(name) for name in rows.comparison.runs
        ],
    ),
    number(
        "sci_g_per_turn",
        "gCO2e/turn",
        "SCI (E x I + M) / R = (carbon_g + embodied_g) / served turns",
        lambda rows: rows.per(served_turns),
    ),
    number(
        "sci_g_per_session",
        "gCO2e/session",
        "SCI (E x I + M) / R = (carbon_g + embodied_g) / sessions",
        lambda rows: rows.per(lambda row: row["sessions"]),
    ),
    number(
        "sci_g_per_1000_output_tokens",
        "gCO2e/1000 tokens",
        "SCI (E x I + M) / R = (carbon_g + embodied_g) / (output tokens of served turns / 1000)",
        lambda rows: rows.per(lambda row: row["output_tokens"] / TOKENS_OF_UNIT),
    ),
)
