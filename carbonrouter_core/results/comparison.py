"""Results: the figures of each policy, their differences, and how sure they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from carbonrouter_core.fleet.catalog import Catalog
from carbonrouter_core.grid.choice import OwnSeries
from carbonrouter_core.memory import give_back
from carbonrouter_core.progress import Progress, nobody_listens, part_of
from carbonrouter_core.replay.decisions import blocks
from carbonrouter_core.replay.fairness import mean_by_user
from carbonrouter_core.replay.on_disk import run_on_disk
from carbonrouter_core.replay.run import Run, run_policy
from carbonrouter_core.replay.world import Prepared, prepare
from carbonrouter_core.results.per_year import PerYear, per_year
from carbonrouter_core.results.run_cost import cost_of
from carbonrouter_core.results.site_energy import site_energy
from carbonrouter_core.results.totals import (
    FIGURES,
    MEANS,
    TIMES,
    ExactTimes,
    Totals,
    figures_of,
    saving_percent,
)
from carbonrouter_core.results.water import water
from carbonrouter_core.routing.policies import FAIRCARBON, OPTIMUM, ROUTER, policy, reasons
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.traces.schema import LONG_SESSION_TURNS, Trace
from carbonrouter_core.words.figures import NOT_AVAILABLE

BOOTSTRAP_RESAMPLES = 1000
BOOTSTRAP_SEED = 20240513
BOOTSTRAP_CHUNK = 2**20
"""Draws held in memory at a time."""
BOOTSTRAP_KEPT_BYTES = 2**25
"""Draws of so many sessions are kept for the next policy; a byte for each session and resample."""

BLOCK_ROWS = 2**16
"""Turns of which intermediate results are in memory at a time, where the result is not."""
ALL = slice(None)
"""All rows: a view, where a mask would make a copy."""

ADDED_CHARGES = (
    "carbon_g",
    "recompute_g",
    "prompt_g",
    "decode_g",
    "host_g",
    "embodied_g",
    "energy_kwh",
)
"""Columns of the charges that are added up over all turns."""

LENGTH_BUCKETS = (
    ("1", 1, 1),
    ("2-5", 2, 5),
    ("6-10", 6, 10),
    ("11-30", 11, 30),
    ("> 30", 31, None),
)
"""Label, fewest and most turns of each class of session length."""


class Interval(NamedTuple):
    """A saving with its 95 % bootstrap interval over sessions.

    Attributes
    ----------
    value_percent
        The saving in percent; None if the baseline emitted nothing.
    low_percent, high_percent
        The ends of the interval, in percent; None for fewer than two sessions.
    """

    value_percent: float | None
    low_percent: float | None
    high_percent: float | None


def gap_closed_percent(own_g: float, worst_g: float, best_g: float) -> float | None:
    """How far ``own_g`` is on the way from the worst to the best; None where they do not differ."""
    return 100.0 * (worst_g - own_g) / (worst_g - best_g) if worst_g > best_g else None


NO_INTERVAL = Interval(None, None, None)
"""Where there is nothing to compare with."""


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
    both = np.stack([carbon_g, baseline_g], axis=1)
    keep = BOOTSTRAP_RESAMPLES * n <= BOOTSTRAP_KEPT_BYTES
    sums = [times.astype(np.float64) @ both for times in (_draws(n) if keep else _drawn(n))]
    ours, theirs = np.concatenate(sums).T
    ratios = ours[theirs > 0] / theirs[theirs > 0]
    low, high = np.percentile(100.0 * (1.0 - ratios), [2.5, 97.5])
    return Interval(value, float(low), float(high))


def _drawn(n: int) -> Iterator[np.ndarray]:
    """How often each resample draws each of ``n`` sessions, in blocks of resamples.

    A sum over a resample is then a product of matrices. Always the same draws, shape
    (resamples, n).
    """
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    block = max(1, min(BOOTSTRAP_RESAMPLES, BOOTSTRAP_CHUNK // n))
    for first in range(0, BOOTSTRAP_RESAMPLES, block):
        rows = min(block, BOOTSTRAP_RESAMPLES - first)
        drawn = rng.integers(0, n, (rows, n), dtype=np.int32)
        cells = drawn + (np.arange(rows, dtype=np.int64) * n)[:, None]
        times = np.bincount(cells.ravel(), minlength=rows * n).reshape(rows, n)
        # A byte is enough: each session is drawn once on average, and at most n times.
        yield times.astype(np.uint8)


@lru_cache(maxsize=3)
def _draws(n: int) -> tuple[np.ndarray, ...]:
    """The same, kept: all policies of a comparison have the same number of sessions."""
    return tuple(_drawn(n))


class SideBySide:
    """What a comparison of a trace in one piece and one of a trace in parts have in common."""

    prepared: Prepared

    @property
    def baseline(self) -> str:
        """Id of the policy that savings are against: today's practice, by the scenario."""
        return self.prepared.scenario.baseline

    @property
    def optimum_is_exact(self) -> bool:
        """Whether the hindsight optimum is proven to be the least, not only the best found."""
        return self.prepared.optimum_is_exact

    @property
    def optimum_label(self) -> str:
        """What the hindsight optimum may be called here."""
        return optimum_label(self.optimum_is_exact)


@dataclass(frozen=True)
class Comparison(SideBySide):
    """Policies side by side on one scenario.

    A notebook shows it as a table of :meth:`overview`. Every method that takes a policy id needs
    this policy among ``runs``.

    Attributes
    ----------
    prepared
        What all policies share: the placed trace, deployments and intensity.
    runs
        Decisions and charges by policy id.
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

    @cached_property
    def long_sessions(self) -> np.ndarray:
        """Which sessions have over 30 turns."""
        return self.trace.session_turns > LONG_SESSION_TURNS

    @cached_property
    def test_half(self) -> np.ndarray:
        """Which sessions nothing was learned from: figures used as evidence are theirs."""
        return ~self.trace.in_training

    def session_carbon_g(self, policy_id: str) -> np.ndarray:
        """Carbon of each session under a policy.

        Parameters
        ----------
        policy_id
            A policy of the comparison.

        Returns
        -------
        numpy.ndarray
            gCO2e, shape (sessions,).
        """
        carbon_g = self.runs[policy_id].charges.carbon_g
        return np.bincount(self.trace.session_index, carbon_g, self.trace.n_sessions)

    def objective_g(self, policy_id: str, sessions: np.ndarray | None = None) -> float:
        """What policies minimise: carbon, with embodied carbon if the scenario says so.

        Parameters
        ----------
        policy_id
            A policy of the comparison.
        sessions
            Which sessions count, booleans of shape (sessions,); all if left out.

        Returns
        -------
        float
            gCO2e of all these sessions.
        """
        charges = self.runs[policy_id].charges
        grams = charges.carbon_g + charges.embodied_g * self.prepared.scenario.embodied
        return float(
            grams.sum() if sessions is None else grams[sessions[self.trace.session_index]].sum()
        )

    def gap_closed_percent(
        self, policy_id: str, sessions: np.ndarray | None = None
    ) -> float | None:
        """How far a policy gets from the baseline's objective to the hindsight optimum's.

        Where the optimum is only the best found (:attr:`optimum_is_exact`), a proven one would make
        it smaller.

        Parameters
        ----------
        policy_id
            A policy of the comparison.
        sessions
            Which sessions count, booleans of shape (sessions,); all if left out.

        Returns
        -------
        float or None
            Percent; negative where the policy does worse than the baseline; None where the
            baseline or the optimum was not run, or nothing is to be gained.
        """
        if self.baseline not in self.runs or OPTIMUM not in self.runs:
            return None
        names = (policy_id, self.baseline, OPTIMUM)
        return gap_closed_percent(*(self.objective_g(name, sessions) for name in names))

    def figures(self, policy_id: str, sessions: np.ndarray | None = None) -> dict[str, Any]:
        """The headline figures of a policy.

        Parameters
        ----------
        policy_id
            A policy of the comparison.
        sessions
            Which sessions count, booleans of shape (sessions,); all if left out.

        Returns
        -------
        dict
            A value for each of :data:`FIGURES`, which has the units. A figure that means nothing (a
            mean of no turns) is None.
        """
        rows = self._rows(sessions)
        others = [
            float(self.runs[name].charges.carbon_g[rows].sum()) if name in self.runs else None
            for name in (self.baseline, FAIRCARBON)
        ]
        return figures_of(self.totals(policy_id, sessions), *others)

    def per_year(self, policy_id: str) -> PerYear:
        """What a policy comes to in a year, at the scenario's conversations a day.

        Parameters
        ----------
        policy_id
            A policy of the comparison.

        Returns
        -------
        PerYear
            Carbon in t, energy in kWh; cost and water are None where they are not known.
        """
        energy = site_energy(self.prepared, self.runs[policy_id])
        return per_year(
            self.figures(policy_id),
            self.prepared.scenario.conversations_per_day,
            cost_of(self.prepared, self.runs[policy_id]).total,
            water(energy).litres,
        )

    @property
    def unknown_per_year(self) -> tuple[str, ...]:
        """Why figures of :meth:`per_year` are None, in sentences."""
        prices: dict[str, None] = {}
        sites: dict[str, None] = {}
        for run in self.runs.values():
            energy = site_energy(self.prepared, run)
            cost = cost_of(self.prepared, run)
            prices |= dict.fromkeys(f"electricity in {zone}" for zone in cost.zones_without_price)
            prices |= dict.fromkeys(cost.gpus_without_price)
            sites |= dict.fromkeys(water(energy).unknown)
        sentences = []
        if prices:
            sentences.append(f"per_year.cost is not known: {'; '.join(prices)}.")
        if sites:
            sentences.append(f"per_year.water_l is not known: {'; '.join(sites)}.")
        return tuple(sentences)

    def totals(self, policy_id: str, sessions: np.ndarray | None = None) -> Totals:
        """The sums that :meth:`figures` of the same arguments are made of.

        Parameters
        ----------
        policy_id
            A policy of the comparison.
        sessions
            Which sessions count, booleans of shape (sessions,); all if left out.

        Returns
        -------
        Totals
            Sums over turns; those of other sessions can be added.
        """
        trace, run = self.trace, self.runs[policy_id]
        rows = self._rows(sessions)
        served = run.decisions.served[rows]
        of_served = ALL if served.all() else served  # a view where nothing is left out
        user = self.prepared.placed.user[rows][of_served]
        of_turns = {name: getattr(run.charges, name)[rows][of_served] for name in MEANS}
        known_kwh, estimated_kwh = self._estimated_kwh(policy_id, rows)
        sums: dict[str, float] = {
            "turns": len(served),
            "sessions": trace.n_sessions if sessions is None else int(sessions.sum()),
            "unserved_turns": int((~served).sum()),
            "output_tokens": int(trace.output_tokens[rows][of_served].sum()),
            "missed_ceiling_turns": int(run.decisions.missed_ceiling[rows].sum()),
            "held_turns": int((run.decisions.reason[rows] == reasons.HELD).sum()),
            "moves": float(self.moved(policy_id)[rows].sum()),
            "known_kwh": known_kwh,
            "estimated_kwh": estimated_kwh,
        }
        for name in ADDED_CHARGES:
            sums[name] = float(getattr(run.charges, name)[rows].sum())
        for name in MEANS:
            sums[name] = float(of_turns[name].sum())
        names = self.prepared.placed.user_regions
        of_users = np.stack(
            [
                np.bincount(user, minlength=len(names)),
                *(
                    np.bincount(user, of_turns[name], len(names))
                    for name in ("quality", "latency_ms")
                ),
            ],
            axis=1,
        )
        return Totals(
            sums=sums,
            by_user={name: of_users[number] for number, name in enumerate(names)},
            times={name: ExactTimes(of_turns[name]) for name in TIMES},
        )

    def _rows(self, sessions: np.ndarray | None) -> Any:
        return ALL if sessions is None else sessions[self.trace.session_index]

    def fairness(self, policy_id: str, sessions: np.ndarray | None = None) -> pd.DataFrame:
        """How a policy serves each user region; the gaps between them are among :meth:`figures`.

        Parameters
        ----------
        policy_id
            A policy of the comparison.
        sessions
            Which sessions count, booleans of shape (sessions,); all if left out.

        Returns
        -------
        pandas.DataFrame
            A row for each user region that has turns: its quality floor, its turns and unserved
            turns, and the means of predicted quality (0 to 1), ``ttft_ms`` and ``latency_ms`` over
            its served turns, NaN if there are none.
        """
        prepared, run = self.prepared, self.runs[policy_id]
        names = prepared.placed.user_regions
        rows = self._rows(sessions)
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

    def _estimated_kwh(self, policy_id: str, rows: Any) -> tuple[float, float]:
        """Energy of the served turns among ``rows``, and of it that of estimated intensity."""
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
        return float(kwh.sum()), float((share * kwh).sum())

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
            the scenario's baseline in percent with the ends of their 95 % interval, NaN if that
            was not run; predicted quality, 0 to 1; ``ttft_ms`` and ``latency_ms`` are means.
        """
        rows = {}
        for name, run in self.runs.items():
            values = self.figures(name)
            saving = self.saving(name) if self.baseline in self.runs else NO_INTERVAL
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
        """Which turns were served by another deployment than the last served turn of the session.

        Parameters
        ----------
        policy_id
            A policy of the comparison.

        Returns
        -------
        numpy.ndarray
            Booleans, shape (turns,).
        """
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
        baseline: str | None = None,
        sessions: np.ndarray | None = None,
    ) -> Interval:
        """Saving of a policy against another.

        Parameters
        ----------
        policy_id
            The policy that saves.
        baseline
            The policy that it is compared with; the scenario's baseline if left out.
        sessions
            Which sessions count, booleans of shape (sessions,); all if left out.

        Returns
        -------
        Interval
            Percent, with its 95 % bootstrap interval over these sessions.
        """
        chosen = slice(None) if sessions is None else sessions
        return bootstrap_saving(
            self.session_carbon_g(policy_id)[chosen],
            self.session_carbon_g(baseline or self.baseline)[chosen],
        )

    def saving_by_length(self, policy_id: str, baseline: str | None = None) -> pd.DataFrame:
        """Saving of a policy against another by the number of turns of a session.

        Parameters
        ----------
        policy_id
            The policy that saves.
        baseline
            The policy that it is compared with; the scenario's baseline if left out.

        Returns
        -------
        pandas.DataFrame
            A row for each class of session length that has sessions: how many, their turns, the
            saving in percent with its interval, and their share (0 to 1) of the baseline's carbon.
        """
        turns = self.trace.session_turns
        whole_g = self.session_carbon_g(baseline or self.baseline)
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
        """The regions of the scenario.

        Returns
        -------
        pandas.DataFrame
            A row for each region: city, zone, coordinates in degrees, PUE and whether it is
            assumed, mean intensity over the window in gCO2e/kWh, and the share (0 to 1) of it that
            the source had estimated.
        """
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
        """What each region serves under a policy.

        Parameters
        ----------
        policy_id
            A policy of the comparison.

        Returns
        -------
        pandas.DataFrame
            A row for each region: its turns, their carbon in gCO2e and their energy in kWh with
            PUE.
        """
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
        """The moves of sessions between regions.

        Parameters
        ----------
        policy_id
            A policy of the comparison.

        Returns
        -------
        pandas.DataFrame
            A row for each pair of regions, most moves first: how many, and the tokens recomputed.
        """
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
        """What changed in the moves of a policy.

        Parameters
        ----------
        policy_id
            A policy of the comparison.

        Returns
        -------
        dict
            Moves that changed the ``model``, the ``gpu`` but not the model, the ``region_only``;
            and all moves ``with_region``, which changed the region whatever else they changed.
        """
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
        """Carbon of a policy's energy at the mean intensity of the regions over the window.

        Parameters
        ----------
        policy_id
            A policy of the comparison.

        Returns
        -------
        float
            gCO2e.
        """
        mean = self.sites()["mean_intensity_g_per_kwh"].mean()
        return float(self.runs[policy_id].charges.energy_kwh.sum() * mean)

    def to_dict(self) -> dict[str, Any]:
        """All figures, as the command line prints them.

        Returns
        -------
        dict
            Scenario, trace, sources of intensity, figures by policy, and warnings: plain JSON
            values.
        """
        policies = {}
        for name in self.runs:
            policies[name] = self.figures(name) | {
                "long_sessions": self.figures(name, self.long_sessions),
                "test_half": self.figures(name, self.test_half),
                "by_user_region": _records(self.fairness(name)),
            }
            policies[name]["per_year"] = self.per_year(name)._asdict()
            if OPTIMUM in self.runs and self.baseline in self.runs:
                policies[name]["gap_closed_percent"] = self.gap_closed_percent(name)
            if name == OPTIMUM:
                policies[name]["exact"] = self.optimum_is_exact
            if self.baseline in self.runs:
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
            "intensity": [source.to_dict() for source in self.prepared.intensity_sources],
            "policies": policies,
            "warnings": [*self.warnings, *self.unknown_per_year],
        }


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as plain JSON values; what is no number is None."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def compare(
    scenario: Scenario,
    policies: Iterable[str] | None = None,
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
        Ids from :data:`POLICIES` or of today's practice; the router, the scenario's baseline and
        FairCarbon if left out.
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
    if policies is None:
        policies = (ROUTER, scenario.baseline, FAIRCARBON)
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
