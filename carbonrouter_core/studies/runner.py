"""Running lists of points: finished points are stored and not run again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path

from carbonrouter_core.compiled import sources_sha256
from carbonrouter_core.fleet.catalog import Catalog
from carbonrouter_core.paths import data_sha256
from carbonrouter_core.store.sites import load_catalog
from carbonrouter_core.store.store import Store
from carbonrouter_core.studies.inputs import Point
from carbonrouter_core.studies.sweep import (
    STORED,
    Outcome,
    Question,
    own_series_for,
    run_points,
    save_outcomes,
    saved_outcomes,
    sweep_key,
)

SAVE_EVERY_S = 5.0
"""Time between two writes of finished points; the end and a stop write them too."""
KEPT_SWEEPS = 100
"""Most sweeps whose points stay in the store; the oldest are deleted."""


class Stopped(Exception):  # noqa: N818 - no failure: what the user asked for
    """The run was cancelled; finished points are in the store."""


class Runner:
    """Runs lists of points of one question on an executor.

    ``folder``: where workers find a stored trace. ``catalog``: left out, the built-in one with
    what the user stored. ``store``: where finished points are kept, so
    that a stopped run goes on where it stopped; None: nowhere. ``on_outcome(outcome, finished,
    total)`` is called for each outcome as it comes.
    """

    def __init__(
        self,
        question: Question,
        executor: Executor,
        folder: Path,
        *,
        catalog: Catalog | None = None,
        store: Store | None = None,
        on_outcome: Callable[[Outcome, int, int], None] = lambda outcome, finished, total: None,
        cancelled: Callable[[], bool] = lambda: False,
        ahead: int | None = None,
    ) -> None:
        self._question, self._executor, self._folder = question, executor, folder
        self._store, self._on_outcome, self._cancelled = store, on_outcome, cancelled
        self._ahead = ahead
        self._catalog = catalog or load_catalog()  # the same for all that this runner is asked

    def __call__(self, points: Sequence[Point]) -> list[Outcome]:
        """The outcome of each point, in their order; equal points run once.

        Raises :class:`Stopped` once it was cancelled.
        """
        distinct = list(dict.fromkeys(points))
        own_series = own_series_for([point.scenario for point in distinct], self._catalog)
        version = sources_sha256() + data_sha256()
        key = sweep_key(distinct, self._question, version, self._catalog, own_series)
        outcomes: dict[Point, Outcome] = {}
        saved_at = time.monotonic()
        try:
            for number, outcome in run_points(
                distinct,
                self._question,
                self._executor,
                folder=self._folder,
                catalog=self._catalog,
                own_series=own_series,
                done=saved_outcomes(self._store, key) if self._store else None,
                cancelled=self._cancelled,
                ahead=self._ahead,
            ):
                outcomes[distinct[number]] = outcome
                self._on_outcome(outcome, len(outcomes), len(distinct))
                if time.monotonic() - saved_at > SAVE_EVERY_S:
                    self._keep(key, outcomes)
                    saved_at = time.monotonic()
        finally:
            self._keep(key, outcomes)
        if len(outcomes) < len(distinct):
            raise Stopped
        return [outcomes[point] for point in points]

    def _keep(self, key: str, outcomes: dict[Point, Outcome]) -> None:
        if self._store is None or not outcomes:
            return
        save_outcomes(self._store, key, list(outcomes.values()))
        for old in self._store.tables(STORED)[KEPT_SWEEPS:]:
            self._store.delete_table(STORED, old.name)
