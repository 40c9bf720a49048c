"""The totals of a policy over some sessions, and the figures that follow from them.

A run in memory, on disk or in parts is added up into the same totals; the figures are worked
out in one place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from carbonrouter_core.replay.fairness import jain_index, largest_gap

FIGURES: Mapping[str, tuple[str, str]] = {
    "turns": ("", "turns of the trace, unserved ones included"),
    "sessions": ("", "sessions"),
    "unserved_turns": ("", "turns that no model holds"),
    "output_tokens": ("tokens", "output tokens of the served turns"),
    "carbon_g": ("gCO2e", "operational carbon: recompute, prompt, decode and host"),
    "recompute_g": ("gCO2e", "GPU carbon of recomputing history that was not cached"),
    "prompt_g": ("gCO2e", "GPU carbon of prefilling the new prompts"),
    "decode_g": ("gCO2e", "GPU carbon of decoding"),
    "host_g": ("gCO2e", "carbon of the hosts of the busy GPUs"),
    "embodied_g": ("gCO2e", "embodied carbon of the GPU time; in no other figure"),
    "energy_kwh": ("kWh", "energy with PUE"),
    "estimated_intensity_share": (
        "",
        "share of the energy whose carbon intensity its source had estimated; none: not said",
    ),
    "recompute_share": ("", "recompute_g / carbon_g"),
    "moves_per_session": ("", "turns served away from the last one's deployment, a session"),
    "quality_mean": ("", "mean predicted quality of the served turns"),
    "ttft_ms_mean": ("ms", "mean time to first token, without queueing"),
    "ttft_ms_p95": ("ms", "95th percentile of the time to first token"),
    "latency_ms_mean": ("ms", "mean time to the last token, without queueing"),
    "latency_ms_p95": ("ms", "95th percentile of the time to the last token"),
    "missed_ceiling_turns": ("", "turns for which no candidate was within the latency ceiling"),
    "held_turns": ("", "turns that the gate held"),
    "quality_gap": ("", "mean predicted quality of the best-served user region less the worst"),
    "quality_jain": ("", "Jain index of mean predicted quality by user region; 1: all equal"),
    "latency_gap_ms": ("ms", "mean latency of the slowest-served user region less the fastest"),
    "latency_jain": ("", "Jain index of mean latency by user region; 1: all equal"),
    "saving_percent": ("%", "carbon saved against the scenario's baseline; negative: more"),
    "saving_vs_faircarbon_percent": ("%", "carbon saved against FairCarbon; negative: more"),
}
"""Unit and meaning of each figure of a policy."""

SUMS = (
    "turns",
    "sessions",
    "unserved_turns",
    "output_tokens",
    "carbon_g",
    "recompute_g",
    "prompt_g",
    "decode_g",
    "host_g",
    "embodied_g",
    "energy_kwh",
    "missed_ceiling_turns",
    "held_turns",
)
"""The figures that are sums."""
MEANS = ("quality", "ttft_ms", "latency_ms")
"""Columns of the charges that have a mean over the served turns."""
TIMES = ("ttft_ms", "latency_ms")
"""Columns of the charges that have a percentile over the served turns."""

BIN = 0.002
"""Relative width of the bins that percentiles of times in parts are read from."""
_LOWEST_MS, _BINS = 1e-3, 16_384


class Times(Protocol):
    """Times of turns, from which a percentile can be read."""

    def percentile_ms(self, percent: float) -> float | None:
        """The time that ``percent`` of the turns do not exceed; None without turns."""


@dataclass(frozen=True)
class ExactTimes:
    """The time of each turn, ms."""

    times_ms: np.ndarray

    def percentile_ms(self, percent: float) -> float | None:
        """Interpolated between two turns."""
        return float(np.percentile(self.times_ms, percent)) if len(self.times_ms) else None


@dataclass(frozen=True)
class BinnedTimes:
    """How many turns there are in each bin of :data:`BIN`: of fixed size, and adds up."""

    counts: np.ndarray

    @classmethod
    def of(cls, times: ExactTimes) -> BinnedTimes:
        """The bins of known times."""
        at = np.log(np.maximum(times.times_ms, _LOWEST_MS) / _LOWEST_MS)
        number = np.minimum((at / np.log1p(BIN)).astype(np.int64), _BINS - 1)
        return cls(np.bincount(number, minlength=_BINS))

    def percentile_ms(self, percent: float) -> float | None:
        """The middle of the bin in which that share of the turns is reached."""
        total = int(self.counts.sum())
        if not total:
            return None
        number = int(np.searchsorted(np.cumsum(self.counts), percent / 100.0 * total))
        return float(_LOWEST_MS * np.exp((number + 0.5) * np.log1p(BIN)))


@dataclass(frozen=True)
class Totals:
    """What the figures of one policy over some sessions are made of.

    ``sums``: :data:`SUMS`, the sums of :data:`MEANS` over the served turns, ``moves``, and
    ``known_kwh`` and ``estimated_kwh``: the energy of the served turns, and of it that whose
    intensity was estimated (NaN: not said). ``by_user``: for each user region the served turns,
    and their sums of quality and latency. ``times``: of the served turns, by :data:`TIMES`.
    """

    sums: Mapping[str, float]
    by_user: Mapping[str, np.ndarray]
    times: Mapping[str, Times]

    def __add__(self, other: Totals) -> Totals:
        """The totals of both; their times must be :class:`BinnedTimes`."""
        sums = {name: value + other.sums[name] for name, value in self.sums.items()}
        # a user region may be in one of them only
        users = dict.fromkeys([*self.by_user, *other.by_user])
        by_user = {
            name: self.by_user.get(name, np.zeros(3)) + other.by_user.get(name, np.zeros(3))
            for name in users
        }
        times: dict[str, Times] = {}
        for name, ours in self.times.items():
            theirs = other.times[name]
            if not isinstance(ours, BinnedTimes) or not isinstance(theirs, BinnedTimes):
                raise TypeError("Only binned times add up.")
            times[name] = BinnedTimes(ours.counts + theirs.counts)
        return Totals(sums, by_user, times)

    def binned(self) -> Totals:
        """The same in a form of fixed size that adds up."""
        times = {
            name: BinnedTimes.of(some) if isinstance(some, ExactTimes) else some
            for name, some in self.times.items()
        }
        return Totals(self.sums, self.by_user, times)


def figures_of(
    totals: Totals, baseline_g: float | None, faircarbon_g: float | None
) -> dict[str, Any]:
    """The :data:`FIGURES` that ``totals`` come to; ``baseline_g`` and ``faircarbon_g``: carbon of
    the scenario's baseline and of FairCarbon, None where not run.

    A figure that means nothing (a mean of no turns) is None.
    """
    sums = totals.sums
    served = sums["turns"] - sums["unserved_turns"]
    carbon_g, sessions = sums["carbon_g"], sums["sessions"]
    share = sums["estimated_kwh"] / sums["known_kwh"] if sums["known_kwh"] else np.nan
    figures: dict[str, Any] = {name: sums[name] for name in SUMS}
    figures["estimated_intensity_share"] = float(share) if np.isfinite(share) else None
    figures["recompute_share"] = sums["recompute_g"] / carbon_g if carbon_g else None
    figures["moves_per_session"] = sums["moves"] / sessions if sessions else None
    for name in MEANS:
        figures[f"{name}_mean"] = sums[name] / served if served else None
    for name in TIMES:
        figures[f"{name}_p95"] = totals.times[name].percentile_ms(95)
    of_users = [of_user for of_user in totals.by_user.values() if of_user[0]]
    quality = np.array([of_user[1] / of_user[0] for of_user in of_users])
    latency_ms = np.array([of_user[2] / of_user[0] for of_user in of_users])
    figures["quality_gap"], figures["quality_jain"] = largest_gap(quality), jain_index(quality)
    figures["latency_gap_ms"] = largest_gap(latency_ms)
    figures["latency_jain"] = jain_index(latency_ms)
    for name, other_g in (
        ("saving_percent", baseline_g),
        ("saving_vs_faircarbon_percent", faircarbon_g),
    ):
        figures[name] = None if other_g is None else saving_percent(carbon_g, other_g)
    return {name: figures[name] for name in FIGURES}


def saving_percent(carbon_g: float, baseline_g: float) -> float | None:
    """Saving in percent of the baseline; None against a baseline of 0."""
    return 100.0 * (1.0 - carbon_g / baseline_g) if baseline_g > 0 else None
