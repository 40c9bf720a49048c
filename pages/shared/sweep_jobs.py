"""Sweeps beside the page: a click elsewhere neither stops nor repeats one.

A sweep belongs to one browser tab. It goes on while its page is left, ends when the tab is
closed, and leaves its finished points in the store. All share one pool of processes, which end
and give back their memory once they have had nothing to do for a while.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import weakref
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import carbonrouter_core as core
from carbonrouter_core.errors import StoreError
from carbonrouter_core.replay.executors import cores, process_pool
from carbonrouter_core.store.store import Store, open_store
from carbonrouter_core.studies import planning, sensitivity
from carbonrouter_core.studies.inputs import Point
from carbonrouter_core.studies.runner import Runner, Stopped
from carbonrouter_core.studies.sweep import Axis, Outcome, Question, Sweep, WorkersLostError

IDLE_S = 120.0
"""Processes without work for this long end."""
WORKER_BYTES = 600e6
"""Memory to allow for a process; on the built-in data it takes about 400 MB."""
MEMORY_SHARE = 0.25
"""Part of the machine's memory that the processes may have."""

TORNADO, LINE, GRID, BREAK_EVEN, DRAWS, YEAR = (
    "tornado",
    "line",
    "grid",
    "break-even",
    "draws",
    "year",
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asked:
    """What is to be found out: enough to run it, and to tell its result from others.

    ``policy_id``: whose saving, against the question's baseline. ``axes``: one or two swept
    inputs; ``bounds``: the range of the one input that is searched; ``draws``: of the factors;
    ``year``: to project.
    """

    kind: str
    scenario: core.Scenario
    question: Question
    policy_id: str
    axes: tuple[Axis, ...] = ()
    search: str = ""
    bounds: tuple[float, float] = (0.0, 0.0)
    draws: int = 0
    year: int = 0

    def points(self) -> list[Point]:
        """What will be run; of a search only the first look.

        Raises :class:`~carbonrouter_core.errors.InputError` for a value that is out of range.
        """
        if self.kind == TORNADO:
            return sensitivity.one_at_a_time(self.scenario)
        if self.kind == DRAWS:
            return sensitivity.drawn_factors(self.scenario, self.draws, self.scenario.seed)
        if self.kind == YEAR:
            return planning.season_points(self.scenario, self.year)
        if self.kind == BREAK_EVEN:
            values = sensitivity.spaced_values(self.search, sensitivity.SEARCH_POINTS, *self.bounds)
            return Sweep(self.scenario, (Axis(self.search, values),), self.question).points()
        return Sweep(self.scenario, self.axes, self.question).points()

    def runs(self) -> int:
        """How many points are run; of a search with one crossing at most."""
        more = sensitivity.SEARCH_STEPS if self.kind == BREAK_EVEN else 0
        return len(set(self.points())) + more


@dataclass
class Run:
    """A sweep that runs, or has ended: what it was asked and what has come of it so far."""

    asked: Asked
    total: int
    stop: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    seen: dict[Point, Outcome] = field(default_factory=dict)
    found: sensitivity.BreakEven | None = None
    stopped: bool = False
    error: str = ""
    note: str = ""

    @property
    def share(self) -> float:
        """How far it is, 0 to 1."""
        return 1.0 if self.complete else min(len(self.seen) / max(self.total, 1), 0.99)

    @property
    def complete(self) -> bool:
        """Whether all has come that was asked for."""
        return self.ended.is_set() and not self.stopped and not self.error

    def outcomes(self) -> list[Outcome | None]:
        """The outcome of each point asked for, None where it has not come yet."""
        return [self.seen.get(point) for point in self.asked.points()]


class Job:
    """A tab's hold on its sweep: once the tab is gone, the sweep stops."""

    def __init__(self, run: Run) -> None:
        self.run = run
        weakref.finalize(self, run.stop.set)


def start(asked: Asked) -> Job:
    """Begin a sweep; raises CarbonRouterError where it cannot be."""
    run = Run(asked, asked.runs())
    executor = _pool.get()
    # Not kept from ending with the server: what is finished is on disk.
    threading.Thread(target=_work, args=(run, executor), name="sweep", daemon=True).start()
    return Job(run)


def _work(run: Run, executor: Executor) -> None:
    asked = run.asked
    try:
        with tempfile.TemporaryDirectory(prefix="carbonrouter-") as folder:
            ask = Runner(
                asked.question,
                executor,
                Path(folder),
                store=_store(run),
                told=lambda outcome, finished, total: run.seen.update({outcome.point: outcome}),
                cancelled=run.stop.is_set,
                ahead=2 * workers(),
            )
            if asked.kind == BREAK_EVEN:
                run.found = sensitivity.break_even(
                    Point(asked.scenario), asked.search, asked.policy_id, ask, *asked.bounds
                )
            else:
                ask(asked.points())
    except Stopped:
        run.stopped = True
    except WorkersLostError as error:
        _pool.drop(executor)
        run.error = str(error)
    except core.CarbonRouterError as error:
        run.error = str(error)
    except Exception:
        _log.exception("sweep failed")
        run.error = "This is a defect of CarbonRouter; what happened is in the log of the server."
    finally:
        run.ended.set()


def _store(run: Run) -> Store | None:
    try:
        return open_store()
    except StoreError as error:
        run.note = f"Finished points are not kept: {error}"
        return None


# --- Processes --------------------------------------------------------------------------------


def workers() -> int:
    """Processes that sweeps of this server share: one a core, as far as memory goes."""
    fit = int(MEMORY_SHARE * _memory_bytes() / WORKER_BYTES)
    return max(1, min(cores(), fit))


def _memory_bytes() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # not on this system
        return 8e9


class _Pool:
    """The pool of this server, made when it is first needed and anew when it has been lost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: Any = None

    def get(self) -> Executor:
        with self._lock:
            if self._executor is None:
                self._executor = process_pool(workers(), IDLE_S)
            return self._executor

    def drop(self, executor: Executor) -> None:
        with self._lock:
            if self._executor is executor:
                self._executor = None


_pool = _Pool()
