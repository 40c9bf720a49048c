"""Results: the figures of each policy, their differences, and how sure they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from carbonrouter_core.fleet.catalog import Catalog
from carbonrouter_core.grid.choice import OwnSeries
from carbonrouter_core.memory import give_back
from carbonrouter_core.progress import Progress, nobody_listens, part_of
from carbonrouter_core.replay.decisions import blocks
from carbonrouter_core.replay.fairness import jain_index, largest_gap, mean_by_user
from carbonrouter_core.replay.on_disk import run_on_disk
from carbonrouter_core.replay.run import Run, run_policy
from carbonrouter_core.replay.world import Prepared, prepare
from carbonrouter_core.routing.policies import BASELINE, OPTIMUM, ROUTER, policy, reasons
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.traces.schema import LONG_SESSION_TURNS, Trace
from carbonrouter_core.words.figures import NOT_AVAILABLE

BOOTSTRAP_RESAMPLES = 1000
BOOTSTRAP_SEED = 20240513
BOOTSTRAP_CHUNK = 2**20
"""Draws held in memory at a time."""

BLOCK_ROWS = 2**16
"""Turns of which intermediate results are in memory at a time, where the result is not."""
ALL = slice(None)
"""All rows: a view, where a mask would make a copy."""

FAIRNESS_OF = ("quality_mean", "latency_ms_mean")
"""What fairness between user regions is measured by."""

LENGTH_BUCKETS = (
    ("1", 1, 1),
    ("2-5", 2, 5),
    ("6-10", 6, 10),
    ("11-30", 11, 30),
    ("> 30", 31, None),
)
"""Label, fewest and most turns of each class of session length."""

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
    "saving_vs_faircarbon_percent": ("%", "carbon saved against FairCarbon; negative: more"),
}
"""Unit and meaning of each figure of a policy."""


class Interval(NamedTuple):
    """A saving in percent with its 95 % bootstrap interval; None where it means nothing."""

    value_percent: float | None
    low_percent: float | None
    high_percent: float | None


def saving_percent(carbon_g: float, baseline_g: float) -> float | None:
    """Saving in percent of the baseline; None against a baseline of 0."""
    return 100.0 * (1.0 - carbon_g / baseline_g) if baseline_g > 0 else None


def gap_closed_percent(own_g: float, worst_g: float, best_g: float) -> float | None:
    """How far ``own_g`` is on the way from the worst to the best; None where they do not differ."""
    return 100.0 * (worst_g - own_g) / (worst_g - best_g) if worst_g > best_g else None


def optimum_label(exact: bool) -> str:
    """What the hindsight optimum may be called."""
    return "Hindsight optimum" if exact else "Best found in hindsight"


def bootstrap_saving(carbon_g: np.ndarray, baseline_g: np.ndarray) -> Interval:
    """Saving of one array of session totals over another, with its bootstrap interval.

    Sessions are drawn with replacement (percentile bootstrap, fixed seed), since a few long
    ones hold most of the carbon. Shapes (sessions,).
    """
    n = len(carbon_g)
    value = saving_percent(float(carbon_g.sum()), float(baseline_g.sum()))
    if value is None or n < 2:
        return Interval(value, None, None)
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    chunk = max(1, min(BOOTSTRAP_RESAMPLES, BOOTSTRAP_CHUNK // n))
    ratios: list[np.ndarray] = []
    for first in range(0, BOOTSTRAP_RESAMPLES, chunk):
        rows = min(chunk, BOOTSTRAP_RESAMPLES - first)
        drawn = rng.integers(0, n, (rows, n), dtype=np.int32)
        ours, theirs = carbon_g[drawn].sum(axis=1), baseline_g[drawn].sum(axis=1)
        ratios.append(ours[theirs > 0] / theirs[theirs > 0])
    low, high = np.percentile(100.0 * (1.0 - np.concatenate(ratios)), [2.5, 97.5])
    return Interval(value, float(low), float(high))


@dataclass(frozen=True)
class Comparison:
    """Policies side by side on one scenario.

    A notebook shows it as a table of :meth:`overview`.
    """

    prepared: Prepared
    runs: Mapping[str, Run]

    def __repr__(self) -> str:
        return (
            f"<Comparison of {', '.join(self.runs)} on {self.trace.name}: "
            f"{self.trace.n_sessions:,} sessions, {self.trace.n_turns:,} turns>"
        )

    def _repr_html_(self) -> str:
        table: str = self.overview().to_html(
            na_rep=NOT_AVAILABLE, float_format=lambda value: f"{value:,.3g}"
        )
        return table

    @property
    def trace(self) -> Trace:
        """The trace they ran on."""
        return self.prepared.placed.trace

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader should know of the scenario and of each run."""
        own = (note for run in self.runs.values() for note in run.notes)
        return (*self.prepared.warnings, *own)

    @property
    def optimum_is_exact(self) -> bool:
        """Whether the hindsight optimum is proven to be the least, not only the best found."""
        return self.prepared.optimum_is_exact

    @property
    def optimum_label(self) -> str:
        """What the hindsight optimum may be called here."""
        return optimum_label(self.optimum_is_exact)

    @cached_property
    def long_sessions(self) -> np.ndarray:
        """Which sessions have over 30 turns."""
        return self.trace.session_turns > LONG_SESSION_TURNS

    @cached_property
    def test_half(self) -> np.ndarray:
        """Which sessions nothing was learned from: figures used as evidence are theirs."""
        return ~self.trace.in_training

    def session_carbon_g(self, policy_id: str) -> np.ndarray:
        """Carbon of each session under a policy, shape (sessions,)."""
        carbon_g = self.runs[policy_id].charges.carbon_g
        return np.bincount(self.trace.session_index, carbon_g, self.trace.n_sessions)

    def objective_g(self, policy_id: str, sessions: np.ndarray | None = None) -> float:
        """What policies minimise: carbon, with embodied carbon if the scenario says so.

        Of all sessions or those where ``sessions`` is true.
        """
        charges = self.runs[policy_id].charges
        grams = charges.carbon_g + charges.embodied_g * self.prepared.scenario.embodied
        return float(
            grams.sum() if sessions is None else grams[sessions[self.trace.session_index]].sum()
        )

    def gap_closed_percent(
        self, policy_id: str, sessions: np.ndarray | None = None
    ) -> float | None:
        """How far a policy gets from FairCarbon's objective to the hindsight optimum's, in percent.

        Negative where it does worse than FairCarbon; None where one of the two was not run, or
        nothing is to be gained. Where the optimum is only the best found
        (:attr:`optimum_is_exact`), a proven one would make it smaller.
        """
        if BASELINE not in self.runs or OPTIMUM not in self.runs:
            return None
        names = (policy_id, BASELINE, OPTIMUM)
        return gap_closed_percent(*(self.objective_g(name, sessions) for name in names))

    def figures(self, policy_id: str, sessions: np.ndarray | None = None) -> dict[str, Any]:
        """The :data:`FIGURES` of a policy, of all sessions or those where ``sessions`` is true.

        A figure that means nothing (a mean of no turns) is None.
        """
        trace, run = self.trace, self.runs[policy_id]
        rows = ALL if sessions is None else sessions[trace.session_index]
        n_sessions = trace.n_sessions if sessions is None else int(sessions.sum())
        served = run.decisions.served[rows]
        of_served = ALL if served.all() else served  # a view where nothing is left out

        def total(values: np.ndarray) -> float:
            return float(values[rows].sum())

        def mean(values: np.ndarray) -> float | None:
            return float(values[rows][of_served].mean()) if served.any() else None

        def p95(values: np.ndarray) -> float | None:
            return float(np.percentile(values[rows][of_served], 95)) if served.any() else None

        by_user = self.fairness(policy_id, sessions)
        quality, latency_ms = (by_user[name].to_numpy() for name in FAIRNESS_OF)
        carbon_g = total(run.charges.carbon_g)
        baseline = self.runs.get(BASELINE)
        return {
            "turns": len(served),
            "sessions": n_sessions,
            "unserved_turns": int((~served).sum()),
            "output_tokens": int(trace.output_tokens[rows][of_served].sum()),
            "carbon_g": carbon_g,
            "recompute_g": total(run.charges.recompute_g),
            "prompt_g": total(run.charges.prompt_g),
            "decode_g": total(run.charges.decode_g),
            "host_g": total(run.charges.host_g),
            "embodied_g": total(run.charges.embodied_g),
            "energy_kwh": total(run.charges.energy_kwh),
            "estimated_intensity_share": self._estimated_share(policy_id, rows),
            "recompute_share": total(run.charges.recompute_g) / carbon_g if carbon_g else None,
            "moves_per_session": total(self.moved(policy_id)) / n_sessions if n_sessions else None,
            "quality_mean": mean(run.charges.quality),
            "ttft_ms_mean": mean(run.charges.ttft_ms),
            "ttft_ms_p95": p95(run.charges.ttft_ms),
            "latency_ms_mean": mean(run.charges.latency_ms),
            "latency_ms_p95": p95(run.charges.latency_ms),
            "missed_ceiling_turns": int(total(run.decisions.missed_ceiling)),
            "held_turns": int((run.decisions.reason[rows] == reasons.HELD).sum()),
            "quality_gap": largest_gap(quality),
            "quality_jain": jain_index(quality),
            "latency_gap_ms": largest_gap(latency_ms),
            "latency_jain": jain_index(latency_ms),
            "saving_vs_faircarbon_percent": (
                saving_percent(carbon_g, total(baseline.charges.carbon_g)) if baseline else None
            ),
        }

    def fairness(self, policy_id: str, sessions: np.ndarray | None = None) -> pd.DataFrame:
        """One row a user region that has turns: the floor its turns had, and means of its turns.

        Of all sessions or those where ``sessions`` is true; a mean of no served turn is NaN.
        Their gaps and Jain indices are among :meth:`figures`.
        """
        prepared, run = self.prepared, self.runs[policy_id]
        names = prepared.placed.user_regions
        rows = ALL if sessions is None else sessions[self.trace.session_index]
        user, served = prepared.placed.user[rows], run.decisions.served[rows]
        of_served = ALL if served.all() else served
        turns = np.bincount(user, minlength=len(names))
        frame = pd.DataFrame(
            {
                "user_region": names,
                "quality_floor": prepared.floors_of(policy_id),
                "turns": turns,
                "unserved_turns": turns - np.bincount(user[of_served], minlength=len(names)),
            }
        )
        for name in ("quality", "ttft_ms", "latency_ms"):
            values = getattr(run.charges, name)[rows]
            frame[f"{name}_mean"] = mean_by_user(values[of_served], user[of_served], len(names))
        return frame[frame["turns"] > 0].reset_index(drop=True)

    def _estimated_share(self, policy_id: str, rows: Any) -> float | None:
        run, fleet = self.runs[policy_id], self.prepared.deployments.fleet
        decided = run.decisions.deployment
        served = np.arange(len(decided))[rows]
        if not (fits := decided[served] >= 0).all():
            served = served[fits]
        share = np.empty(len(served))
        for first in range(0, len(served), BLOCK_ROWS):
            some = served[first : first + BLOCK_ROWS]
            region = fleet.region[decided[some]]
            share[first : first + BLOCK_ROWS] = self.prepared.estimated_share(some, region)
        kwh = run.charges.energy_kwh
        if len(served) < len(kwh):
            kwh = kwh[served]
        if not kwh.any():
            return None
        value = float(np.average(share, weights=kwh))
        return value if np.isfinite(value) else None

    def summary(self, sessions: np.ndarray | None = None) -> pd.DataFrame:
        """The figures of all policies.

        Parameters
        ----------
        sessions
            Which sessions count, booleans of shape (sessions,); all if left out.

        Returns
        -------
        pandas.DataFrame
            A row for each policy id and a column for each of :data:`FIGURES`, which has the
            units. All columns are float; a figure that means nothing is NaN.
        """
        rows = {name: self.figures(name, sessions) for name in self.runs}
        return pd.DataFrame.from_dict(rows, orient="index", columns=list(FIGURES), dtype=float)

    def overview(self) -> pd.DataFrame:
        """The most important figures of all policies, with the interval of each saving.

        Returns
        -------
        pandas.DataFrame
            A row for each policy, by its label. ``carbon_g`` in gCO2e; savings against
            FairCarbon in percent with the ends of their 95 % interval, NaN if FairCarbon was
            not run; predicted quality, 0 to 1; ``ttft_ms`` and ``latency_ms`` are means.
        """
        rows = {}
        for name, run in self.runs.items():
            values = self.figures(name)
            saving = self.saving(name) if BASELINE in self.runs else Interval(None, None, None)
            rows[run.policy.label] = {
                "carbon_g": values["carbon_g"],
                "saving_percent": saving.value_percent,
                "low_percent": saving.low_percent,
                "high_percent": saving.high_percent,
                "quality": values["quality_mean"],
                "ttft_ms": values["ttft_ms_mean"],
                "latency_ms": values["latency_ms_mean"],
            }
        return pd.DataFrame.from_dict(rows, orient="index", dtype=float)

    def moved(self, policy_id: str) -> np.ndarray:
        """Which turns were served away from the deployment of the last served turn, (turns,)."""
        return self._from(policy_id) >= 0

    def _from(self, policy_id: str) -> np.ndarray:
        """Deployment a move came from, -1 where the turn is none, shape (turns,)."""
        deployment = self.runs[policy_id].decisions.deployment
        before = np.full(len(deployment), -1, np.int32)
        offsets = self.trace.offsets
        for first, end, _ in blocks(offsets, BLOCK_ROWS):
            rows = offsets[first] + np.flatnonzero(deployment[offsets[first] : offsets[end]] >= 0)
            session, served_by = self.trace.session_index[rows], deployment[rows]
            moves = (session[1:] == session[:-1]) & (served_by[1:] != served_by[:-1])
            before[rows[1:][moves]] = served_by[:-1][moves]
        return before

    def saving(
        self,
        policy_id: str = ROUTER,
        baseline: str = BASELINE,
        sessions: np.ndarray | None = None,
    ) -> Interval:
        """Saving of a policy against another over ``sessions`` (a mask; all if left out)."""
        chosen = slice(None) if sessions is None else sessions
        return bootstrap_saving(
            self.session_carbon_g(policy_id)[chosen], self.session_carbon_g(baseline)[chosen]
        )

    def saving_by_length(self, policy_id: str, baseline: str = BASELINE) -> pd.DataFrame:
        """One row for each class of session length that has sessions."""
        turns = self.trace.session_turns
        whole_g = self.session_carbon_g(baseline)
        rows = []
        for label, fewest, most in LENGTH_BUCKETS:
            chosen = (turns >= fewest) & (turns <= (most or turns.max()))
            if chosen.any():
                rows.append(
                    {
                        "turns_per_session": label,
                        "sessions": int(chosen.sum()),
                        "turns": int(turns[chosen].sum()),
                        **self.saving(policy_id, baseline, chosen)._asdict(),
                        "share_of_baseline_carbon": (
                            float(whole_g[chosen].sum() / whole_g.sum()) if whole_g.any() else None
                        ),
                    }
                )
        return pd.DataFrame(rows)

    def sites(self) -> pd.DataFrame:
        """One row a region: where it is, its PUE, its mean intensity over the window."""
        scenario, deployments = self.prepared.scenario, self.prepared.deployments
        hours_s = np.arange(scenario.window_start_s, scenario.window_end_s, 3600)
        return pd.DataFrame(
            [
                {
                    "region": site.region,
                    "city": site.city,
                    "zone": site.zone,
                    "latitude": site.latitude,
                    "longitude": site.longitude,
                    "pue": float(pue),
                    "pue_assumed": site.pue_assumed and site.region not in scenario.pue_overrides,
                    "mean_intensity_g_per_kwh": float(series.at(hours_s).mean()),
                    "estimated_share": float(np.mean(series.estimated_at(hours_s))),
                }
                for site, pue, series in zip(
                    deployments.regions, deployments.fleet.pue, self.prepared.series, strict=True
                )
            ]
        )

    def traffic(self, policy_id: str) -> pd.DataFrame:
        """One row a region: turns served there, their carbon and energy."""
        run, deployments = self.runs[policy_id], self.prepared.deployments
        served = run.decisions.served
        region = deployments.fleet.region[run.decisions.deployment[served]]
        n = len(deployments.regions)
        return pd.DataFrame(
            {
                "region": [site.region for site in deployments.regions],
                "turns": np.bincount(region, minlength=n),
                "carbon_g": np.bincount(region, run.charges.carbon_g[served], n),
                "energy_kwh": np.bincount(region, run.charges.energy_kwh[served], n),
            }
        )

    def region_moves(self, policy_id: str) -> pd.DataFrame:
        """One row for each pair of regions that sessions moved between, most moves first."""
        run, deployments = self.runs[policy_id], self.prepared.deployments
        before = self._from(policy_id)
        moved = before >= 0
        region = deployments.fleet.region
        names = np.array([site.region for site in deployments.regions], dtype=object)
        recomputed = self.trace.history_tokens - run.decisions.cached_tokens
        frame = pd.DataFrame(
            {
                "from_region": names[region[before[moved]]],
                "to_region": names[region[run.decisions.deployment[moved]]],
                "moves": 1,
                "recomputed_tokens": recomputed[moved],
            }
        )
        frame = frame[frame["from_region"] != frame["to_region"]]
        grouped = frame.groupby(["from_region", "to_region"], as_index=False).sum()
        return grouped.sort_values("moves", ascending=False, ignore_index=True)

    def move_kinds(self, policy_id: str) -> dict[str, int]:
        """How many moves changed the model, the GPU type only, and the region only."""
        fleet = self.prepared.deployments.fleet
        before = self._from(policy_id)
        moved = before >= 0
        was, now = before[moved], self.runs[policy_id].decisions.deployment[moved]
        pair_was, pair_now = fleet.pair[was], fleet.pair[now]
        model = fleet.pair_model[pair_was] != fleet.pair_model[pair_now]
        gpu = ~model & (pair_was != pair_now)
        region = fleet.region[was] != fleet.region[now]
        return {
            "model": int(model.sum()),
            "gpu": int(gpu.sum()),
            "region_only": int((~model & ~gpu & region).sum()),
            "with_region": int(region.sum()),
        }

    def same_energy_at_mean_intensity_g(self, policy_id: str) -> float:
        """Carbon of the same kWh at the average intensity of the chosen zones in the window."""
        mean = self.sites()["mean_intensity_g_per_kwh"].mean()
        return float(self.runs[policy_id].charges.energy_kwh.sum() * mean)

    def to_dict(self) -> dict[str, Any]:
        """All figures as plain JSON values: what the command line prints."""
        policies = {}
        for name in self.runs:
            policies[name] = self.figures(name) | {
                "long_sessions": self.figures(name, self.long_sessions),
                "test_half": self.figures(name, self.test_half),
                "by_user_region": _records(self.fairness(name)),
            }
            if OPTIMUM in self.runs and BASELINE in self.runs:
                policies[name]["gap_closed_percent"] = self.gap_closed_percent(name)
            if name == OPTIMUM:
                policies[name]["exact"] = self.optimum_is_exact
            if BASELINE in self.runs:
                policies[name]["saving_interval_percent"] = self.saving(name)[1:]
                long = policies[name]["long_sessions"]
                long["saving_interval_percent"] = self.saving(name, sessions=self.long_sessions)[1:]
                half = policies[name]["test_half"]
                half["saving_interval_percent"] = self.saving(name, sessions=self.test_half)[1:]
        return {
            "scenario": self.prepared.scenario.to_dict(),
            "trace": {
                "name": self.trace.name,
                "sessions": self.trace.n_sessions,
                "turns": self.trace.n_turns,
                "sha256": self.trace.sha256,
                "difficulty": self.prepared.placed.difficulty_source,
            },
            "intensity": [one.to_dict() for one in self.prepared.intensity_sources],
            "policies": policies,
            "warnings": list(self.warnings),
        }


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as plain JSON values; what is no number is None."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def compare(
    scenario: Scenario,
    policies: Iterable[str] = (ROUTER, BASELINE),
    trace: Trace | None = None,
    catalog: Catalog | None = None,
    own_series: OwnSeries | None = None,
    progress: Progress = nobody_listens,
    on_disk: bool = False,
) -> Comparison:
    """Run policies on a scenario and compare them.

    Parameters
    ----------
    scenario
        All inputs of the runs.
    policies
        Ids from :data:`POLICIES`.
    trace
        Replaces the trace that the scenario names.
    catalog
        Replaces the built-in models, GPU types and regions, and those in the store.
    own_series
        Carbon-intensity series by zone, used before the built-in ones; the stored ones if left
        out.
    progress
        Called with the share that is done, 0 to 1; an error that it raises ends the work.
    on_disk
        Whether the runs are kept in files: for traces of millions of turns.

    Returns
    -------
    Comparison
        The runs by policy id, with their figures and savings.

    Raises
    ------
    InputError
        If a policy, the trace or the scenario cannot be used; the message says what to change.
    """
    prepared = prepare(scenario, trace, catalog, own_series)
    chosen = list(dict.fromkeys(policy(name).id for name in policies))
    share = 1.0 / max(len(chosen), 1)
    run = run_on_disk if on_disk else run_policy
    if on_disk:
        give_back()
    runs = {
        name: run(prepared, name, part_of(progress, number * share, share))
        for number, name in enumerate(chosen)
    }
    if on_disk:
        give_back()
    return Comparison(prepared, runs)
