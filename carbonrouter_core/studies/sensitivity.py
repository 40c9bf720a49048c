"""What the saving depends on: one input at a time, break-even, and measured factors drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import numpy as np

from carbonrouter_core.errors import InputError, ScenarioError
from carbonrouter_core.results.comparison import Interval
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.studies.factors import AS_MEASURED
from carbonrouter_core.studies.inputs import SWEEP_INPUTS, Point, SweepInput, sweep_input
from carbonrouter_core.studies.sweep import MAX_POINTS, Outcome

SEARCH_POINTS = 9
"""Values that are computed first in the search for the value where a policy stops saving."""
SEARCH_STEPS = 8
"""Halvings after that: to 1/2000 of the range."""

Ask = Callable[[Sequence[Point]], Sequence[Outcome]]
"""Runs points and gives their outcomes in the same order."""


# --- One at a time -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Swing:
    """Saving of a policy, in percent of the baseline, at a low and a high value of an input."""

    input: SweepInput
    base_percent: float
    low: Outcome
    high: Outcome
    low_percent: float | None
    high_percent: float | None

    @property
    def span_percent(self) -> float:
        """Points of saving between the lowest and the highest of the three."""
        known = [
            v for v in (self.low_percent, self.high_percent, self.base_percent) if v is not None
        ]
        return max(known) - min(known)


def one_at_a_time(base: Scenario, inputs: Sequence[str] | None = None) -> list[Point]:
    """The points of a tornado: the base, then low and high of each input."""
    points = [Point(base)]
    for name in inputs or SWEEP_INPUTS:
        swept = sweep_input(name)
        points += [swept.set_on(points[0], swept.low), swept.set_on(points[0], swept.high)]
    return points


def swings(
    outcomes: Sequence[Outcome], policy_id: str, inputs: Sequence[str] | None = None
) -> list[Swing]:
    """The bars of a tornado, widest first, from the outcomes of :func:`one_at_a_time`.

    An input that can run at neither value, or that does nothing, stands last.
    """
    base = saving_of(outcomes[0], policy_id)
    if base is None:
        raise InputError(f"The base scenario cannot run: {outcomes[0].error}")
    bars = []
    for number, name in enumerate(inputs or SWEEP_INPUTS):
        low, high = outcomes[1 + 2 * number], outcomes[2 + 2 * number]
        ends = saving_of(low, policy_id), saving_of(high, policy_id)
        bars.append(Swing(sweep_input(name), base, low, high, *ends))
    return sorted(bars, key=lambda bar: -bar.span_percent)


def saving_of(outcome: Outcome, policy_id: str) -> float | None:
    """Saving of a policy at a point, in percent of the baseline; None where it could not run."""
    return outcome.savings[policy_id].value_percent if policy_id in outcome.savings else None


def most_important(bars: Sequence[Swing]) -> str:
    """The tornado in words: what moves the answer most, what hardly does, and chance beside."""
    moving = [bar for bar in bars if bar.input.id != "seed"]
    noise = next((bar.span_percent for bar in bars if bar.input.id == "seed"), None)
    first = moving[0]
    text = (
        f"{first.input.label} matters most: between {_shown(first.input, first.input.low)} and "
        f"{_shown(first.input, first.input.high)} the saving goes from "
        f"{_percent(first.low_percent)} to {_percent(first.high_percent)}"
    )
    if len(moving) > 1:
        text += f"; next is {label_in_text(moving[1].input)} ({moving[1].span_percent:.1f} points)"
    text += "."
    if noise is not None:
        small = [label_in_text(bar.input) for bar in moving if bar.span_percent <= noise]
        text += f" Another draw of times and users alone moves it by {noise:.1f} points"
        text += f"; no more than that do {', '.join(small)}." if small else "."
    return text


def label_in_text(swept: SweepInput) -> str:
    """What an input is called within a sentence: "quality floor", "PUE of all regions"."""
    return swept.label if swept.label[:2].isupper() else swept.label[:1].lower() + swept.label[1:]


def _percent(value: float | None) -> str:
    return "no result" if value is None else f"{value:.1f} %"


def _shown(swept: SweepInput, value: Any) -> str:
    number = f"{value:,g}" if isinstance(value, int | float) else str(value)
    return f"{number} {swept.unit}".strip()


# --- Where does it stop winning? -----------------------------------------------------------------


@dataclass(frozen=True)
class BreakEven:
    """Where the saving of a policy crosses 0 as one input goes from low to high.

    ``crossings``: values of the input, empty where the sign never changes; ``looked_at``: every
    value that was run with its saving in percent (None: it cannot run), ascending.
    """

    input: SweepInput
    low: float
    high: float
    crossings: tuple[float, ...]
    looked_at: tuple[tuple[float, float | None], ...]

    def in_words(self, policy_label: str, baseline_label: str) -> str:
        """The finding as one sentence."""
        known = [saving for _, saving in self.looked_at if saving is not None]
        between = f"between {_shown(self.input, self.low)} and {_shown(self.input, self.high)}"
        if not known:
            return f"No value of {label_in_text(self.input)} {between} can run."
        if not self.crossings:
            if min(known) > 0:
                return f"{policy_label} emits less than {baseline_label} everywhere {between}."
            if max(known) < 0:
                return f"{policy_label} emits more than {baseline_label} everywhere {between}."
            return f"{policy_label} and {baseline_label} never change places {between}."
        where = ", ".join(f"{value:,.4g} {self.input.unit}".strip() for value in self.crossings)
        wins = "stops" if known[0] > 0 else "begins"
        return f"{policy_label} {wins} winning at {label_in_text(self.input)} = {where}."


def break_even(
    base: Point,
    name: str,
    policy_id: str,
    ask: Ask,
    low: float | None = None,
    high: float | None = None,
) -> BreakEven:
    """Search where ``policy_id`` and the baseline emit the same as input ``name`` varies.

    Evenly spaced values first, then every change of sign between neighbours is halved; a
    crossing back and forth between two of the first values is not seen.
    """
    swept = sweep_input(name)
    if not swept.numeric:
        raise InputError(f"{swept.label} has no values in between to search.")
    low = float(swept.low if low is None else low)
    high = float(swept.high if high is None else high)
    if not low < high:
        raise InputError(f"The search needs a range; {low:g} is not below {high:g}.")
    whole = isinstance(swept.low, int)

    def savings(values: Sequence[float]) -> list[float | None]:
        return [saving_of(outcome, policy_id) for outcome in ask([put(value) for value in values])]

    def put(value: float) -> Point:
        return swept.set_on(base, int(value) if whole else value)

    def rounded(value: float) -> float:
        return float(round(value)) if whole else float(value)

    grid = sorted({rounded(value) for value in np.linspace(low, high, SEARCH_POINTS)})
    seen: dict[float, float | None] = dict(zip(grid, savings(grid), strict=True))
    brackets = [
        (a, b) for a, b in zip(grid, grid[1:], strict=False) if _sign_changes(seen[a], seen[b])
    ]
    for _ in range(SEARCH_STEPS):
        middles = [rounded((a + b) / 2) for a, b in brackets]
        new = [m for m in middles if m not in seen]
        seen.update(zip(new, savings(new), strict=True) if new else ())
        brackets = [
            (a, m) if _sign_changes(seen[a], seen[m]) else (m, b)
            for (a, b), m in zip(brackets, middles, strict=True)
        ]
    crossings = tuple(_crossing(a, seen[a], b, seen[b]) for a, b in brackets)
    return BreakEven(swept, low, high, crossings, tuple(sorted(seen.items())))


def _sign_changes(first: float | None, second: float | None) -> bool:
    return first is not None and second is not None and (first > 0) != (second > 0)


def _crossing(low: float, at_low: float | None, high: float, at_high: float | None) -> float:
    """Where the line between two values crosses 0; the middle where one of them is unknown."""
    if at_low is None or at_high is None or at_low == at_high:
        return (low + high) / 2
    return low + (high - low) * at_low / (at_low - at_high)


# --- Uncertain factors ---------------------------------------------------------------------------


def drawn_factors(base: Scenario, draws: int, seed: int) -> list[Point]:
    """``draws`` points with every measured factor drawn between its low and its high value.

    Multipliers are drawn evenly on a log scale, so that half and double are as likely; the
    shift of difficulty evenly. Factors are independent. The first point has them as measured.
    """
    if draws < 1:
        raise InputError("Monte Carlo needs 1 draw or more.")
    if draws > MAX_POINTS:
        raise InputError(f"{draws:,} draws are too many; at most {MAX_POINTS:,}.")
    rng = np.random.default_rng([seed, 8])
    measured = [swept for swept in SWEEP_INPUTS.values() if swept.measured]
    points = [Point(base)]
    for row in rng.random((draws, len(measured))):
        values = {
            swept.id: float(
                swept.low * (swept.high / swept.low) ** u
                if swept.low > 0
                else swept.low + (swept.high - swept.low) * u
            )
            for swept, u in zip(measured, row, strict=True)
        }
        points.append(Point(base, replace(AS_MEASURED, **values)))
    return points


def factor_interval(outcomes: Sequence[Outcome], policy_id: str) -> Interval:
    """The saving as measured, and the middle 95 % of it over the drawn factors."""
    values = [saving_of(outcome, policy_id) for outcome in outcomes]
    drawn = [value for value in values[1:] if value is not None]
    if len(drawn) < 2:
        return Interval(values[0], None, None)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Interval(values[0], float(low), float(high))


# --- Values of an axis ---------------------------------------------------------------------------


def spaced_values(name: str, count: int, low: Any = None, high: Any = None) -> tuple[Any, ...]:
    """``count`` values of input ``name`` from low to high, evenly spaced; dates and whole
    numbers rounded, doubles left out; of an input without values in between, its two."""
    swept = sweep_input(name)
    low, high = swept.low if low is None else low, swept.high if high is None else high
    if count < 2:
        raise InputError(f"{count} values are no sweep; take 2 or more.")
    if count > MAX_POINTS:  # before they take memory
        raise InputError(f"{count:,} values of {name} are too many; at most {MAX_POINTS:,}.")
    if isinstance(low, date):
        if not low < high:
            raise ScenarioError(f"{name}: {low} is not before {high}.")
        days = sorted({round(d) for d in np.linspace(0, (high - low).days, count)})
        return tuple(low + timedelta(days=day) for day in days)
    if not swept.numeric:
        return (low, high)
    if not low < high:
        raise ScenarioError(f"{name}: {low:g} is not below {high:g}.")
    values = np.linspace(float(low), float(high), count)
    if isinstance(swept.low, int):
        return tuple(sorted({round(value) for value in values}))
    return tuple(float(f"{value:.6g}") for value in values)
