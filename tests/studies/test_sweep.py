"""Sweeps: the same figures wherever they run, whatever stops them on the way."""

import dataclasses
import itertools
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from carbonrouter_core import Scenario, compare, find_trace
from carbonrouter_core.errors import InputError, ScenarioError
from carbonrouter_core.grid.series import ZoneSeries
from carbonrouter_core.replay.executors import open_executor
from carbonrouter_core.store.sites import load_catalog
from carbonrouter_core.store.store import open_store
from carbonrouter_core.studies.factors import Factors
from carbonrouter_core.studies.inputs import SWEEP_INPUTS, Point, sweep_input
from carbonrouter_core.studies.sweep import (
    Axis,
    Outcome,
    Question,
    Sweep,
    WorkersLostError,
    run_points,
    save_outcomes,
    saved_outcomes,
    sweep_key,
)

BASE = Scenario()
POLICIES = ("carbonrouter", "faircarbon")
ASKED = Question(POLICIES, sample=300)
SWEEP = Sweep(
    BASE,
    (Axis("idle_s", (60.0, 3600.0)), Axis("quality_floor", (0.5, 0.65, 0.8))),
    ASKED,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path))
    yield tmp_path


@pytest.fixture(scope="module")
def alone() -> dict[int, Outcome]:
    """Every point, run here one after the other."""
    return dict(run_points(SWEEP.points(), ASKED))


def test_a_sweep_runs_every_pair_of_values() -> None:
    values = [(p.scenario.idle_s, p.scenario.quality_floor) for p in SWEEP.points()]
    assert values == list(itertools.product((60.0, 3600.0), (0.5, 0.65, 0.8)))
    assert values == SWEEP.settings() and len(SWEEP) == 6


def test_a_point_is_what_compare_says(alone: dict[int, Outcome]) -> None:
    whole = dict(run_points([Point(BASE)], Question(POLICIES)))[0]
    comparison = compare(BASE, POLICIES)
    assert whole.figures["carbonrouter"] == comparison.figures("carbonrouter", comparison.test_half)
    saving = comparison.saving("carbonrouter", sessions=comparison.test_half)
    assert whole.savings["carbonrouter"] == saving


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_give_the_same_bits(alone: dict[int, Outcome], workers: int) -> None:
    with open_executor(workers) as executor:
        assert dict(run_points(SWEEP.points(), ASKED, executor)) == alone


def test_a_worker_is_not_ended_for_what_it_keeps() -> None:
    with open_executor(1) as executor:
        assert executor.submit(most_growth_bytes).result() > 1e12


def most_growth_bytes() -> int:
    from loky import process_executor

    return process_executor._MAX_MEMORY_LEAK_SIZE


def test_eight_threads_give_the_same_bits(alone: dict[int, Outcome]) -> None:
    with ThreadPoolExecutor(8) as executor:
        assert dict(run_points(SWEEP.points(), ASKED, executor)) == alone


def test_a_dask_cluster_gives_the_same_bits(alone: dict[int, Outcome]) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask, an extra, is not installed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        open_executor(cluster=cluster.scheduler_address) as executor,
    ):
        assert dict(run_points(SWEEP.points(), ASKED, executor)) == alone


def test_no_scheduler_is_a_clear_error(unused_port: int) -> None:
    pytest.importorskip("distributed", reason="Dask, an extra, is not installed")
    with (
        pytest.raises(InputError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1"),
        open_executor(cluster=f"tcp://127.0.0.1:{unused_port}", timeout_s=1),
    ):
        pass


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_no_workers_is_refused() -> None:
    with pytest.raises(InputError, match="0 workers"), open_executor(0):
        pass


def test_what_is_finished_is_not_run_again(alone: dict[int, Outcome]) -> None:
    """The finished points come back as they were; one of them is marked, to see it."""
    points = SWEEP.points()
    marked = dataclasses.replace(alone[2], error="kept")
    outcomes = dict(run_points(points, ASKED, done={points[2]: marked}))
    assert outcomes[2] is marked
    assert {n: one for n, one in outcomes.items() if n != 2} == {
        n: one for n, one in alone.items() if n != 2
    }


def test_a_stopped_sweep_goes_on_from_the_store(home: Path, alone: dict[int, Outcome]) -> None:
    points, store = SWEEP.points(), open_store()
    key = sweep_key(points, ASKED, "1")
    assert saved_outcomes(store, key) == {}
    some = [outcome for _, outcome in itertools.islice(run_points(points, ASKED), 2)]
    save_outcomes(store, key, some)
    again = saved_outcomes(open_store(), key)
    assert again == {points[0]: alone[0], points[1]: alone[1]}
    assert dict(run_points(points, ASKED, done=again)) == alone


def test_the_key_hangs_on_all_that_figures_hang_on() -> None:
    points = SWEEP.points()
    other = [dataclasses.replace(points[0], factors=Factors(attention=1.1)), *points[1:]]
    keys = {
        sweep_key(points, ASKED, "1"),
        sweep_key(points, ASKED, "2"),
        sweep_key(points, Question(POLICIES, sample=301), "1"),
        sweep_key(points[:-1], ASKED, "1"),
        sweep_key(other, ASKED, "1"),
    }
    catalog = load_catalog()
    one = catalog.regions["us-west2"]
    moved = {**catalog.regions, "us-west2": dataclasses.replace(one, pue=1.5)}
    own = ZoneSeries("GB", "lifecycle", 0, 3600, np.full(48, 100.0), np.zeros(48))
    keys |= {
        sweep_key(points, ASKED, "1", dataclasses.replace(catalog, regions=moved)),
        sweep_key(points, ASKED, "1", own_series={"GB": [own]}),
        sweep_key(
            points,
            ASKED,
            "1",
            own_series={"GB": [dataclasses.replace(own, g_per_kwh=np.full(48, 101.0))]},
        ),
    }
    assert len(keys) == 8 and sweep_key(SWEEP.points(), ASKED, "1") in keys


def test_cancelling_ends_it_between_points() -> None:
    seen = []

    def cancelled() -> bool:
        return len(seen) >= 2

    for number, _ in run_points(SWEEP.points(), ASKED, cancelled=cancelled):
        seen.append(number)
    assert seen == [0, 1]


class SlowExecutor(Executor):
    """Takes points and never finishes one."""

    def __init__(self) -> None:
        self.futures: list[Future] = []

    def submit(self, *_: object, **__: object) -> Future:
        self.futures.append(Future())
        return self.futures[-1]


def test_cancelling_does_not_wait_for_a_point() -> None:
    executor, asked = SlowExecutor(), []

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) > 1

    assert list(run_points(SWEEP.points(), ASKED, executor, cancelled=cancelled)) == []
    assert len(executor.futures) == 6 and all(one.cancelled() for one in executor.futures)


def test_no_more_points_wait_than_asked_for(alone: dict[int, Outcome]) -> None:
    slow = SlowExecutor()
    looks = iter([False, True])
    points = SWEEP.points()
    list(run_points(points, ASKED, slow, ahead=2, cancelled=lambda: next(looks)))
    assert len(slow.futures) == 2
    with ThreadPoolExecutor(2) as executor:
        assert dict(run_points(points, ASKED, executor, ahead=1)) == alone


def test_workers_that_end_are_a_clear_error() -> None:
    class Broken(SlowExecutor):
        def submit(self, *_: object, **__: object) -> Future:
            raise BrokenExecutor("killed")

    with pytest.raises(WorkersLostError, match="run it again"):
        list(run_points(SWEEP.points(), ASKED, Broken()))


def test_a_point_that_cannot_run_says_why_and_the_others_run() -> None:
    axis = Axis("window_start", (date(2024, 5, 13), date(2031, 1, 1)))
    sweep = Sweep(BASE, (axis,), ASKED)
    outcomes = dict(run_points(sweep.points(), ASKED))
    assert not outcomes[0].error and outcomes[0].savings
    assert "2031" in outcomes[1].error and not outcomes[1].figures


def test_an_outcome_reads_back_to_the_bit(alone: dict[int, Outcome]) -> None:
    for outcome in alone.values():
        assert Outcome.from_json(outcome.to_json()) == outcome


def test_a_sample_is_seeded_and_a_part_of_the_trace() -> None:
    trace = find_trace("sharegpt")
    counts = []
    for seed in (0, 0, 1):
        asked = Question(POLICIES, sample=300, sample_seed=seed, half="all")
        outcome = dict(run_points([Point(BASE)], asked))[0]
        assert outcome.figures["faircarbon"]["sessions"] == 300
        counts.append(outcome.figures["faircarbon"]["turns"])
    assert counts[0] == counts[1] != counts[2] and max(counts) < trace.n_turns


def test_a_stored_trace_reaches_the_workers(home: Path, tmp_path: Path) -> None:
    """One process holds the store: its workers read a file instead, to the same figures."""
    from carbonrouter_core.traces.staging import stage

    csv = tmp_path / "own.csv"
    rows = [f"s{s},{t},{100 + 7 * s},{50 + s}" for s in range(40) for t in range(3)]
    csv.write_text("session,turn,new_prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    with stage([csv]) as staged:
        open_store().save_trace(staged, "mine")
    point, asked = Point(BASE.replace(trace="mine")), Question(POLICIES, half="all")
    with pytest.raises(InputError, match="folder"):
        list(run_points([point], asked))
    with open_executor(1) as executor:
        outcome = dict(run_points([point], asked, executor, folder=tmp_path))[0]
    expected = compare(point.scenario, POLICIES)
    assert outcome.figures["carbonrouter"] == expected.figures("carbonrouter")


@pytest.mark.parametrize("name", SWEEP_INPUTS)
def test_every_input_is_set_and_read_back(name: str) -> None:
    one = sweep_input(name)
    for value in (one.low, one.high):
        changed = one.set_on(Point(BASE), value)
        assert one.get(changed) == value
        assert changed != Point(BASE) or one.get(Point(BASE)) == value


def test_pue_of_all_regions_is_none_where_they_differ() -> None:
    pue = sweep_input("pue")
    assert pue.get(Point(BASE)) is None
    mixed = BASE.replace(pue_overrides={"europe-west2": 1.3})
    assert pue.get(Point(mixed)) is None


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda: Sweep(BASE, ()), "one input, or two"),
        (lambda: Sweep(BASE, (Axis("idle_s", (1.0,)), Axis("idle_s", (2.0,)))), "two different"),
        (lambda: Axis("idle_s", ()), "No values"),
        (lambda: Axis("idle_s", (1.0, 1.0)), "twice"),
        (lambda: Axis("idle", (1.0,)), "Nearest known: idle_s"),
        (lambda: Sweep(BASE, (Axis("seed", tuple(range(10_001))),)), "too many"),
        (lambda: Question(half="both"), "half is 'both'"),
        (lambda: Question(sample=1), "sample of 1"),
        (lambda: Question(("nobody",)), "nobody"),
    ],
)
def test_what_is_no_sweep_is_refused(build, what: str) -> None:
    with pytest.raises(InputError, match=what):
        build()


def test_a_value_out_of_range_is_refused_before_anything_runs() -> None:
    with pytest.raises(ScenarioError, match="quality_floor is 1.5"):
        Sweep(BASE, (Axis("quality_floor", (0.5, 1.5)),)).points()
    with pytest.raises(ScenarioError, match="attention"):
        Sweep(BASE, (Axis("attention", (-1.0,)),)).points()
    with pytest.raises(ScenarioError, match="attention"):
        Sweep(BASE, (Axis("attention", (float("nan"),)),)).points()
