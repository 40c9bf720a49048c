"""Sweeps: one question asked of many scenarios, on as many processes as there are.

A sweep is a list of points. Each is a run of its own, so that the figures of a point are the
same to the bit whatever other points there are and wherever they ran.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import pyarrow as pa

from carbonrouter_core.errors import CarbonRouterError, InputError, StoreError
from carbonrouter_core.fleet.catalog import Catalog
from carbonrouter_core.grid.choice import OwnSeries
from carbonrouter_core.replay.run import run_policy
from carbonrouter_core.replay.world import prepare
from carbonrouter_core.results.comparison import Comparison, Interval
from carbonrouter_core.routing.policies import FAIRCARBON, ROUTER, policy
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.store.find_trace import find_trace
from carbonrouter_core.store.series import stored_series
from carbonrouter_core.store.sites import load_catalog
from carbonrouter_core.store.store import Store, open_store
from carbonrouter_core.studies.factors import with_factors
from carbonrouter_core.studies.inputs import Point, sweep_input
from carbonrouter_core.traces import draws
from carbonrouter_core.traces.builtin import BUILTIN_TRACES
from carbonrouter_core.traces.loading import read_trace
from carbonrouter_core.traces.schema import Trace

MAX_POINTS = 10_000
MAX_AXES = 2
STORED = "sweep"
"""Kind of the store's tables that keep finished points."""

HALVES = ("test", "all")
LOOK_S = 0.25
"""How often a sweep that waits for its workers looks whether it was cancelled."""


class WorkersLostError(InputError):
    """The executor ended while points were waiting; another one is needed."""


@dataclass(frozen=True)
class Question:
    """What is asked of every point of a study.

    Attributes
    ----------
    policies
        Ids of the policies to run.
    baseline
        Id of the policy that savings are against.
    half
        The sessions that figures are of: "test" (nothing was learned from them) or "all".
    sample
        How many sessions stand for the trace; all if None.
    sample_seed
        Seed that these sessions are drawn with.

    Raises
    ------
    InputError
        If a policy is unknown, ``half`` is another word, or ``sample`` is below 2.
    """

    policies: tuple[str, ...] = (ROUTER, FAIRCARBON)
    baseline: str = FAIRCARBON
    half: str = "test"
    sample: int | None = None
    sample_seed: int = 0

    def __post_init__(self) -> None:
        ids = [policy(name).id for name in (*self.policies, self.baseline)]
        object.__setattr__(self, "policies", tuple(dict.fromkeys(ids)))
        object.__setattr__(self, "baseline", ids[-1])
        if self.half not in HALVES:
            raise InputError(f"half is {self.half!r}; it must be one of {', '.join(HALVES)}.")
        if self.sample is not None and self.sample < 2:
            raise InputError(f"A sample of {self.sample} sessions says nothing; take 2 or more.")


@dataclass(frozen=True)
class Outcome:
    """The result of one point.

    Attributes
    ----------
    point
        The point.
    figures
        The figures of each policy, by id, as :meth:`Comparison.figures`.
    savings
        The saving of each policy in percent of the baseline, by id, with its bootstrap interval.
    error
        Why the point could not run; empty if it ran.
    """

    point: Point
    figures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    savings: Mapping[str, Interval] = field(default_factory=dict)
    error: str = ""

    def to_json(self) -> str:
        """The outcome as JSON.

        Returns
        -------
        str
            What :meth:`from_json` reads, equal to the bit.
        """
        values = {"point": self.point.to_dict(), "figures": self.figures, "error": self.error}
        return json.dumps(values | {"savings": self.savings}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """The outcome that :meth:`to_json` wrote.

        Parameters
        ----------
        text
            JSON of an outcome.

        Returns
        -------
        Outcome
            Equal to the one written.
        """
        values = json.loads(text)
        savings = {name: Interval(*three) for name, three in values["savings"].items()}
        point = Point.from_dict(values["point"])
        return cls(point, values["figures"], savings, values["error"])


@dataclass(frozen=True)
class Axis:
    """One input of a sweep, with its values.

    Attributes
    ----------
    input
        Id from :data:`SWEEP_INPUTS`, which has the units.
    values
        The values, each once.

    Raises
    ------
    InputError
        If the input is unknown, or a value is missing or stands twice.
    """

    input: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        sweep_input(self.input)
        if not self.values:
            raise InputError(f"No values to sweep {self.input} over; give at least one.")
        if len(set(map(str, self.values))) != len(self.values):
            raise InputError(f"A value of {self.input} stands twice in the sweep.")


@dataclass(frozen=True)
class Sweep:
    """A base scenario, one or two inputs to vary, and what is asked of every point.

    Attributes
    ----------
    base
        The scenario; what is not varied is as here.
    axes
        One or two different inputs with their values.
    question
        Policies, baseline and sessions.

    Raises
    ------
    InputError
        If there are no axes or more than two, or more than :data:`MAX_POINTS` points.
    """

    base: Scenario
    axes: tuple[Axis, ...]
    question: Question = Question()

    def __post_init__(self) -> None:
        names = [axis.input for axis in self.axes]
        if not 1 <= len(names) <= MAX_AXES or len(set(names)) != len(names):
            raise InputError("A sweep varies one input, or two different ones.")
        if len(self) > MAX_POINTS:
            raise InputError(f"{len(self):,} points are too many; at most {MAX_POINTS:,}.")

    def __len__(self) -> int:
        return int(np.prod([len(axis.values) for axis in self.axes]))

    def settings(self) -> list[tuple[Any, ...]]:
        """The values of each point.

        Returns
        -------
        list of tuple
            A value for each axis, in the order of :meth:`points`: the last axis varies fastest.
        """
        return list(product(*(axis.values for axis in self.axes)))

    def points(self) -> list[Point]:
        """The points of the sweep.

        Returns
        -------
        list of Point
            One for each of :meth:`settings`.

        Raises
        ------
        ScenarioError
            If a value is out of range.
        """
        points = []
        for values in self.settings():
            point = Point(self.base)
            for axis, value in zip(self.axes, values, strict=True):
                point = sweep_input(axis.input).set_on(point, value)
            points.append(point)
        return points


def run_points(
    points: Sequence[Point],
    question: Question,
    executor: Executor | None = None,
    *,
    folder: Path | None = None,
    catalog: Catalog | None = None,
    own_series: OwnSeries | None = None,
    done: Mapping[Point, Outcome] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    ahead: int | None = None,
) -> Iterator[tuple[int, Outcome]]:
    """Run points, each a scenario with its factors; leaving the iterator cancels the rest.

    Parameters
    ----------
    points
        What to run, such as :meth:`Sweep.points`.
    question
        Policies, baseline and sessions; the same for every point.
    executor
        Where the points run, see :func:`open_executor`; in this process if left out.
    folder
        A folder that workers can read; needed for a stored trace.
    catalog, own_series
        As in :func:`prepare`; looked up here if left out.
    done
        Outcomes that are known; their points are not run.
    cancelled
        Called between points; the iterator ends if it returns True.
    ahead
        Most points that wait or run at the executor at a time; all if left out. A limit lets
        others use the executor meanwhile.

    Yields
    ------
    tuple of int and Outcome
        Number of a point in ``points`` and its outcome, as they finish.

    Raises
    ------
    WorkersLostError
        If the workers end while points are waiting.
    """
    done = done or {}
    catalog = catalog or load_catalog()  # looked up once, for all workers
    missing = []
    for number, point in enumerate(points):
        if point in done:
            yield number, done[point]
        else:
            missing.append(number)
    if own_series is None:
        scenarios = [points[number].scenario for number in missing]
        own_series = own_series_for(scenarios, catalog)
    paths = _paths({points[number].scenario.trace for number in missing}, folder)
    if executor is None:
        for number in missing:
            if cancelled():
                return
            yield number, ask(points[number], question, paths, catalog, own_series)
        return
    pending: dict[Future[Outcome], int] = {}
    finished: SimpleQueue[Future[Outcome]] = SimpleQueue()
    waiting = missing[::-1]
    try:
        while (waiting or pending) and not cancelled():
            while waiting and (ahead is None or len(pending) < ahead):
                number = waiting.pop()
                future = executor.submit(ask, points[number], question, paths, catalog, own_series)
                pending[future] = number
                future.add_done_callback(finished.put)
            try:
                future = finished.get(timeout=LOOK_S)
            except Empty:
                continue
            yield pending.pop(future), future.result()
    except (CancelledError, BrokenExecutor) as error:
        raise WorkersLostError(
            "The workers were stopped, or one ran out of memory, while the sweep ran; run it again."
        ) from error
    finally:
        for future in pending:
            future.cancel()


def own_series_for(scenarios: Sequence[Scenario], catalog: Catalog) -> OwnSeries:
    """The user's carbon-intensity series that ``scenarios`` may use, for workers."""
    names = {name for scenario in scenarios if scenario.own_intensity for name in scenario.regions}
    zones = {catalog.regions[name].zone for name in names if name in catalog.regions}
    own, locked = stored_series(zones) if zones else ({}, "")
    if locked:
        raise StoreError(f"{locked} Set own_intensity to false to run without them.")
    return own


def ask(
    point: Point,
    question: Question,
    paths: Mapping[str, str],
    catalog: Catalog | None = None,
    own_series: OwnSeries | None = None,
) -> Outcome:
    """Run one point: what a worker does. ``paths``: files of the traces not built in."""
    try:
        name = point.scenario.trace
        trace = _sampled(name, paths.get(name), question.sample, question.sample_seed)
        prepared = with_factors(
            prepare(
                point.scenario, trace, catalog, own_series if point.scenario.own_intensity else {}
            ),
            point.factors,
        )
        runs = {name: run_policy(prepared, name) for name in question.policies}
        comparison = Comparison(prepared, runs)
        chosen = comparison.test_half if question.half == "test" else None
        return Outcome(
            point,
            {name: comparison.figures(name, chosen) for name in runs},
            {
                name: comparison.saving(name, question.baseline, chosen)
                for name in runs
                if name != question.baseline
            },
        )
    except CarbonRouterError as error:
        return Outcome(point, error=str(error))


@lru_cache(maxsize=2)
def _sampled(name: str, path: str | None, sample: int | None, seed: int) -> Trace:
    trace = find_trace(name) if path is None else replace(read_trace(Path(path)), name=name)
    if sample is None or sample >= trace.n_sessions:
        return trace
    drawn = draws.uniform(seed, "sample", trace.session_keys)
    return trace.subset(drawn <= np.partition(drawn, sample - 1)[sample - 1])


def _paths(names: set[str], folder: Path | None) -> dict[str, str]:
    """File of each trace that is not built in; a stored one is written to ``folder`` first."""
    paths = {}
    for name in sorted(names - set(BUILTIN_TRACES)):
        if Path(name).is_file():
            paths[name] = str(Path(name).absolute())
            continue
        if folder is None:
            raise InputError(f"Trace {name} is stored; a sweep needs a folder to share it in.")
        path = folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.parquet"
        open_store().export_trace(name, path)
        paths[name] = str(path)
    return paths


# --- Going on with a sweep that was stopped ------------------------------------------------------


def sweep_key(
    points: Sequence[Point],
    question: Question,
    version: str,
    catalog: Catalog | None = None,
    own_series: OwnSeries | None = None,
) -> str:
    """Fingerprint of a list of points and what is asked, and of all that figures depend on: the
    traces, the catalog with the user's sites, the user's carbon-intensity series, and
    ``version``, which tells the program and its built-in data from others."""
    traces = {name: find_trace(name).sha256 for name in {p.scenario.trace for p in points}}
    parts = [json.dumps(point.to_dict()) for point in points]
    parts += [repr(question), repr(sorted(traces.items())), version]
    parts.append(repr(catalog or load_catalog()))
    digest = hashlib.sha256("\x1f".join(parts).encode())
    for zone, several in sorted((own_series or {}).items()):
        for zone_series in several:
            facts = [
                zone,
                zone_series.name,
                zone_series.basis,
                zone_series.kind,
                zone_series.start_s,
                zone_series.step_s,
            ]
            digest.update(repr(facts).encode())
            for values in (
                zone_series.g_per_kwh,
                zone_series.estimated_share,
                zone_series.forecast_g_per_kwh,
            ):
                digest.update(b"" if values is None else np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def save_outcomes(store: Store, key: str, outcomes: Sequence[Outcome]) -> None:
    """Keep the finished points of the sweep ``key``."""
    table = pa.table({"outcome": [outcome.to_json() for outcome in outcomes]})
    store.save_table(STORED, key, table, replace=True)


def saved_outcomes(store: Store, key: str) -> dict[Point, Outcome]:
    """The finished points of the sweep ``key``; none where it never began."""
    if key not in store.table_names(STORED):
        return {}
    table, _ = store.load_table(STORED, key)
    outcomes = map(Outcome.from_json, table["outcome"].to_pylist())
    return {outcome.point: outcome for outcome in outcomes}
