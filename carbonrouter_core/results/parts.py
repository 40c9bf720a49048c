"""Comparing policies on a trace in parts: constant memory a worker, the same figures.

First a look at every part (what a whole trace must be known by: mean context, last start, the
sessions that are learned from), then a replay of each part by itself. Sessions do not affect
each other, so a part's decisions are those of the whole trace.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from carbonrouter_core.errors import InputError, TraceError
from carbonrouter_core.fleet.catalog import Catalog
from carbonrouter_core.fleet.deployments import ContextSum, context_sum
from carbonrouter_core.fleet.volume import Workload
from carbonrouter_core.grid.choice import OwnSeries
from carbonrouter_core.progress import Progress, nobody_listens
from carbonrouter_core.replay.run import run_policy
from carbonrouter_core.replay.world import Prepared, Survey, placed_in, prepare, prepare_part
from carbonrouter_core.results.comparison import (
    Comparison,
    Interval,
    SideBySide,
    bootstrap_saving,
    gap_closed_percent,
)
from carbonrouter_core.results.totals import Totals, figures_of
from carbonrouter_core.routing.policies import FAIRCARBON, OPTIMUM, policy
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.store.sites import load_catalog
from carbonrouter_core.traces.parts import part_files, read_part
from carbonrouter_core.traces.schema import Trace, joined
from carbonrouter_core.traces.training import learned_from

WHICH = ("all", "long", "test")
"""Sessions that figures are of: all, those over 30 turns, those nothing was learned from."""

AHEAD = 256
"""Tasks that wait, run or have a result that waits for its turn, at most."""


# --- What a worker does ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Look:
    """What a first look at a part finds; ``keys``: uint64, one a session."""

    turns: int
    keys: np.ndarray
    in_training: np.ndarray
    contexts: Mapping[int, ContextSum]
    workload: Workload
    last_start_s: float
    user_regions: tuple[str, ...]
    movable: bool


def _look(scenario: Scenario, catalog: Catalog, path: str) -> _Look:
    trace = _read(path)
    placed = placed_in(scenario, trace, catalog)
    return _Look(
        turns=trace.n_turns,
        keys=trace.session_keys,
        in_training=trace.in_training,
        contexts={tokens: context_sum(trace, tokens) for tokens in catalog.context_windows},
        workload=Workload.of(trace),
        last_start_s=float(placed.start_s.max()),
        user_regions=placed.user_regions,
        movable=trace.start_s is None,
    )


def _learned(path: str, largest_key: int, from_all: bool) -> Trace:
    """The sessions of a part that are learned from."""
    trace = _read(path)
    return trace.subset(
        (from_all | trace.in_training) & (trace.session_keys <= np.uint64(largest_key))
    )


@dataclass(frozen=True)
class _Part:
    totals: Mapping[tuple[str, str], Totals]
    session_carbon_g: Mapping[str, np.ndarray]
    long: np.ndarray
    test: np.ndarray


def _shared(prepared: Prepared, catalog: Catalog, policies: Sequence[str]) -> bytes:
    """What all parts are replayed by, pickled once: without the turns that were learned from."""
    placed, training = prepared.placed, prepared.training
    no_turns = replace(
        placed,
        trace=placed.trace.subset(np.zeros(placed.trace.n_sessions, bool)),
        start_s=placed.start_s[:0],
        user=placed.user[:0],
        difficulty=placed.difficulty[:0],
    )
    lean = replace(
        prepared,
        placed=no_turns,
        intensity=prepared.intensity[:0],
        known=None,
        training=replace(training, gaps_s=training.gaps_s[:0]),  # the rules have what is used
    )
    return pickle.dumps((lean, catalog, tuple(policies)))


@lru_cache(maxsize=1)
def _loaded(shared: bytes) -> tuple[Prepared, Catalog, tuple[str, ...]]:
    """What :func:`_shared` made, read once a worker."""
    return pickle.loads(shared)


def _replay(shared: bytes, path: str) -> _Part:
    prepared, catalog, policies = _loaded(shared)
    part = prepare_part(prepared, _read(path), catalog)
    comparison = Comparison(part, {name: run_policy(part, name) for name in policies})
    masks = {"all": None, "long": comparison.long_sessions, "test": comparison.test_half}
    return _Part(
        {
            (name, which): comparison.totals(name, mask).binned()
            for name in policies
            for which, mask in masks.items()
        },
        {name: comparison.session_carbon_g(name) for name in policies},
        comparison.long_sessions,
        comparison.test_half,
    )


def _read(path: str) -> Trace:
    return read_part(Path(path))


P95_NOTE = (
    "The trace is in parts, so 95th percentiles of times are read from bins: they may differ by up "
    "to 0.4 % from those of a trace in one piece."
)

# --- What is asked ---------------------------------------------------------------------------


@dataclass(frozen=True)
class PartedTrace:
    """What is known of a trace in parts as a whole."""

    name: str
    n_sessions: int
    n_turns: int


@dataclass(frozen=True)
class PartedComparison(SideBySide):
    """Policies side by side on a trace in parts; answers to the names of a Comparison.

    ``prepared``: of the sessions learned from. ``session_carbon_g``: shape (sessions,) by
    policy; ``masks``: bool (sessions,), for "long" and "test" of :data:`WHICH`.
    """

    prepared: Prepared
    trace: PartedTrace
    totals: Mapping[tuple[str, str], Totals]
    session_carbon_g: Mapping[str, np.ndarray]
    masks: Mapping[str, np.ndarray]

    long_sessions = "long"
    test_half = "test"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader of the results should know."""
        return (*self.prepared.warnings, P95_NOTE)

    def gap_closed_percent(self, policy_id: str, sessions: str = "all") -> float | None:
        """How far a policy gets from the baseline to the hindsight optimum, as in a Comparison."""
        names = (policy_id, self.baseline, OPTIMUM)
        if any((name, sessions) not in self.totals for name in names):
            return None
        embodied = self.prepared.scenario.embodied
        sums = [self.totals[name, sessions].sums for name in names]
        return gap_closed_percent(
            *(total["carbon_g"] + total["embodied_g"] * embodied for total in sums)
        )

    def figures(self, policy_id: str, sessions: str = "all") -> dict[str, Any]:
        """:data:`~.results.FIGURES` of a policy; ``sessions``: one of :data:`WHICH`."""
        baseline_g, faircarbon_g = (
            self.totals[name, sessions].sums["carbon_g"] for name in (self.baseline, FAIRCARBON)
        )
        return figures_of(self.totals[policy_id, sessions], baseline_g, faircarbon_g)

    def saving(
        self, policy_id: str, baseline: str | None = None, sessions: str = "all"
    ) -> Interval:
        """Saving of a policy against another, the scenario's baseline if left out, with its
        bootstrap interval."""
        chosen: Any = slice(None) if sessions == "all" else self.masks[sessions]
        ours, theirs = (
            self.session_carbon_g[name] for name in (policy_id, baseline or self.baseline)
        )
        return bootstrap_saving(ours[chosen], theirs[chosen])


def compare_parts(
    scenario: Scenario,
    policies: Iterable[str],
    folder: Path,
    executor: Executor | None = None,
    *,
    catalog: Catalog | None = None,
    own_series: OwnSeries | None = None,
    progress: Progress = nobody_listens,
) -> PartedComparison:
    """Run ``policies``, the baseline and FairCarbon on the parts in ``folder``, one part a task.

    Figures are the same to the bit wherever the tasks run, and those of the whole trace in one
    piece but for the rounding of sums; percentiles of times are to :data:`BIN`.
    """
    catalog = catalog or load_catalog()
    chosen = list(
        dict.fromkeys(policy(name).id for name in (*policies, scenario.baseline, FAIRCARBON))
    )
    for name in chosen:
        if policy(name).from_log:
            raise InputError(f"{name} needs a trace in one piece.")
    paths = [str(path.absolute()) for path in part_files(folder)]
    looks = []
    for number, look in enumerate(
        _each(executor, _look, [(scenario, catalog, path) for path in paths])
    ):
        looks.append(look)
        progress(0.2 * (number + 1) / len(paths))
    sample, survey = _survey(folder.name, paths, looks, executor)
    prepared = prepare(scenario, sample, catalog, own_series, survey)
    shared = _shared(prepared, catalog, chosen)
    totals: dict[tuple[str, str], Totals] = {}
    session_carbon_g: dict[str, list[np.ndarray]] = {name: [] for name in chosen}
    masks: dict[str, list[np.ndarray]] = {"long": [], "test": []}
    parts = _each(executor, _replay, [(shared, path) for path in paths])
    for number, part in enumerate(parts):
        # added as they come, in the order of the parts: the same sums on any worker
        for key, part_totals in part.totals.items():
            totals[key] = totals[key] + part_totals if key in totals else part_totals
        for name, carbon_g in part.session_carbon_g.items():
            session_carbon_g[name].append(carbon_g)
        masks["long"].append(part.long)
        masks["test"].append(part.test)
        progress(0.2 + 0.8 * (number + 1) / len(paths))
    return PartedComparison(
        prepared=prepared,
        trace=PartedTrace(
            folder.name,
            sum(len(look.keys) for look in looks),
            sum(look.turns for look in looks),
        ),
        totals=totals,
        session_carbon_g={name: np.concatenate(some) for name, some in session_carbon_g.items()},
        masks={name: np.concatenate(some) for name, some in masks.items()},
    )


def _survey(
    name: str, paths: Sequence[str], looks: Sequence[_Look], executor: Executor | None
) -> tuple[Trace, Survey]:
    """The sessions that are learned from, and what must be known of the whole."""
    keys = np.concatenate([look.keys for look in looks])
    if len(np.unique(keys)) != len(keys):
        raise TraceError(
            f"A session stands in two parts of {name}; each session must be whole in one part."
        )
    training = np.concatenate([look.in_training for look in looks])
    chosen = learned_from(keys, training)
    largest = int(keys[chosen].max())
    samples = list(
        _each(executor, _learned, [(path, largest, not training.any()) for path in paths])
    )
    contexts = {
        tokens: reduce(ContextSum.plus, [look.contexts[tokens] for look in looks]).mean
        for tokens in looks[0].contexts
    }
    users = tuple(dict.fromkeys(region for look in looks for region in look.user_regions))
    survey = Survey(
        contexts,
        reduce(Workload.plus, [look.workload for look in looks]),
        max(look.last_start_s for look in looks),
        users,
        movable=all(look.movable for look in looks),
    )
    return replace(joined(samples), name=name), survey


def _each(executor: Executor | None, work: Any, tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """Results of ``work`` on each of ``tasks``, in their order; at once where there are workers."""
    if executor is None:
        for task in tasks:
            yield work(*task)
        return
    waiting = iter(tasks)
    pending: deque[Future[Any]] = deque()
    try:
        while True:
            some = islice(waiting, AHEAD - len(pending))
            pending.extend(executor.submit(work, *task) for task in some)
            if not pending:
                return
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
