"""A runner keeps what is finished, runs equal points once, and stops where it is told to."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from carbonrouter_core import Scenario
from carbonrouter_core.store.store import Store, open_store
from carbonrouter_core.studies import runner as module
from carbonrouter_core.studies.inputs import Point
from carbonrouter_core.studies.runner import Runner, Stopped
from carbonrouter_core.studies.sweep import STORED, Outcome, Question, run_points, saved_outcomes

ASKED = Question(sample=200)
POINTS = [Point(Scenario(idle_s=idle_s)) for idle_s in (60.0, 600.0, 3600.0, 60.0)]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path))
    return open_store()


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as one:
        yield one


def test_outcomes_come_in_the_order_of_the_points_and_equal_ones_run_once(
    executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    told: list[tuple[Outcome, int, int]] = []
    run = Runner(ASKED, executor, tmp_path, on_outcome=lambda *what: told.append(what))
    outcomes = run(POINTS)
    alone = dict(run_points(POINTS, ASKED))
    assert outcomes == [alone[number] for number in range(4)]
    assert [(finished, total) for _, finished, total in told] == [(1, 3), (2, 3), (3, 3)]


def test_a_stopped_run_goes_on_where_it_stopped(
    store: Store, executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    came: list[Outcome] = []
    stopping = Runner(
        ASKED,
        executor,
        tmp_path,
        store=store,
        on_outcome=lambda outcome, *_: came.append(outcome),
        cancelled=lambda: bool(came),
        ahead=1,
    )
    with pytest.raises(Stopped):
        stopping(POINTS)
    assert len(came) == 1
    (kept,) = store.table_names(STORED)
    assert list(saved_outcomes(store, kept).values()) == came

    asked: list[Point] = []

    class Counting(ThreadPoolExecutor):
        def submit(self, function, point, *rest):
            asked.append(point)
            return super().submit(function, point, *rest)

    with Counting(1) as counting:
        outcomes = Runner(ASKED, counting, tmp_path, store=store)(POINTS)
        assert len(asked) == 2 and came[0].point not in asked
        assert Runner(ASKED, counting, tmp_path, store=store)(POINTS) == outcomes
        assert len(asked) == 2


def test_the_oldest_sweeps_are_forgotten(
    store: Store, executor: ThreadPoolExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_SWEEPS", 2)
    run = Runner(ASKED, executor, tmp_path, store=store)
    first = store.table_names(STORED)
    for point in POINTS[:3]:
        run([point])
    assert first == [] and len(store.table_names(STORED)) == 2
