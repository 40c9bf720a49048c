"""The inputs that can be varied: what each is, between which values, and how it is set.

The low and high values are stated, not chosen for effect: each with the reason for it, shown
beside the chart that uses them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from types import MappingProxyType
from typing import Any

from carbonrouter_core.errors import InputError, ScenarioError
from carbonrouter_core.scenario import FIELDS, Scenario
from carbonrouter_core.studies.factors import AS_MEASURED, Factors
from carbonrouter_core.words.names import unknown


@dataclass(frozen=True)
class Point:
    """A point of a study: a scenario, with measured factors as they are or scaled.

    Attributes
    ----------
    scenario
        The inputs of the run.
    factors
        What measured figures are multiplied by; as measured if left out.
    """

    scenario: Scenario
    factors: Factors = AS_MEASURED

    def to_dict(self) -> dict[str, Any]:
        """Scenario and factors as plain JSON values.

        Returns
        -------
        dict
            What :meth:`from_dict` reads.
        """
        return {"scenario": self.scenario.to_dict(), "factors": self.factors.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Point:
        """The point that :meth:`to_dict` wrote.

        Parameters
        ----------
        values
            A result of :meth:`to_dict`.

        Returns
        -------
        Point
            Equal to the one written.

        Raises
        ------
        ScenarioError
            If a field of the scenario is unknown or out of range.
        """
        return cls(Scenario.from_dict(values["scenario"]), Factors(**values["factors"]))


@dataclass(frozen=True)
class SweepInput:
    """An input that can be varied.

    ``low`` and ``high``: the values of a one-at-a-time comparison, ``why`` they are those;
    ``measured``: whether it is a figure from a table rather than a choice of the user.
    """

    id: str
    label: str
    unit: str
    low: Any
    high: Any
    why: str
    measured: bool
    set_on: Callable[[Point, Any], Point]
    get: Callable[[Point], Any]

    @property
    def numeric(self) -> bool:
        """Whether values in between mean something: it can be a line or searched."""
        return isinstance(self.low, int | float) and not isinstance(self.low, bool)


def _field(name: str, label: str, low: Any, high: Any, why: str) -> SweepInput:
    return SweepInput(
        name,
        label,
        FIELDS[name]["unit"],
        low,
        high,
        why,
        False,
        lambda point, value: replace(point, scenario=point.scenario.replace(**{name: value})),
        lambda point: getattr(point.scenario, name),
    )


def _factor(
    name: str, label: str, low: float, high: float, why: str, unit: str = "×"
) -> SweepInput:
    def set_on(point: Point, value: Any) -> Point:
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            raise ScenarioError(f"{name} is {value!r}; it must be a number.")
        return replace(point, factors=replace(point.factors, **{name: float(value)}))

    return SweepInput(
        name, label, unit, low, high, why, True, set_on, lambda point: getattr(point.factors, name)
    )


def _set_pue(point: Point, value: Any) -> Point:
    scenario = point.scenario
    overrides = dict.fromkeys(scenario.regions, value)
    return replace(point, scenario=scenario.replace(pue_overrides=overrides))


def _get_pue(point: Point) -> float | None:
    """The one PUE of all regions, None where they differ or come from the table."""
    chosen = [point.scenario.pue_overrides.get(region) for region in point.scenario.regions]
    return chosen[0] if len(set(chosen)) == 1 else None


_MEASURED = (
    "independent measurements are 0.8 to 1.9 times what we compute (data/cost_model_errors.csv)"
)

_ALL = (
    _field("quality_floor", "Quality floor", 0.5, 0.8, "from lenient to as strict as two models"),
    _field("idle_s", "Cache kept unused", 120.0, 7200.0, "2 minutes to 2 hours"),
    _field("copies", "Copies of a cache kept", "latest", "all", "the two readings of a cache"),
    _field("concurrency", "Concurrency", 16.0, 256.0, "a quiet and a busy replica"),
    _field("gate_threshold", "Gate threshold", 0.0, 1.0, "the whole range; 1 is no gate"),
    _field("gap_median_s", "Median gap between turns", 38.0, 600.0, "RAGPulse's, and 10 minutes"),
    _field("latency_ceiling_ms", "Latency ceiling", 5_000.0, 60_000.0, "5 s and 60 s"),
    _field("window_days", "Length of the window", 7, 28, "one week and four"),
    _field(
        "window_start",
        "First day",
        date(2024, 1, 15),
        date(2024, 7, 15),
        "winter and summer in the north, of one year",
    ),
    _field("seed", "Seed of the draws", 1, 2, "chance alone: what a difference must exceed"),
    SweepInput(
        "pue",
        "PUE of all regions",
        "",
        1.05,
        1.5,
        "best practice, and about the mean of the industry",
        False,
        _set_pue,
        _get_pue,
    ),
    _factor(
        "prefill_energy",
        "Energy of prefill",
        0.8,
        1.9,
        f"{_MEASURED}; prefill alone was measured on one pair, at 1.4 times",
    ),
    _factor("decode_energy", "Energy of decoding", 0.8, 1.9, _MEASURED),
    _factor("attention", "Cost of attention (α)", 0.5, 2.0, "half and double the counted FLOPs"),
    _factor("context_read", "Reading the cache (ε)", 0.5, 2.0, "half and double the estimate"),
    _factor("pue_overhead", "PUE beyond 1", 0.5, 2.0, "half and double each region's overhead"),
    _factor(
        "difficulty_shift",
        "Difficulty of prompts",
        -0.5,
        0.5,
        "half a logit: a third of the residual of the prediction (1.53)",
        unit="logit",
    ),
)

SWEEP_INPUTS: Mapping[str, SweepInput] = MappingProxyType({swept.id: swept for swept in _ALL})
"""Every input that can be varied, by id."""


def sweep_input(name: str) -> SweepInput:
    """The input ``name``; an :class:`InputError` names the nearest where there is none."""
    if name not in SWEEP_INPUTS:
        raise InputError(unknown("input to vary", name, SWEEP_INPUTS))
    return SWEEP_INPUTS[name]
