"""A trace in parts: the figures of the whole, wherever the parts run."""

import dataclasses
import hashlib
import multiprocessing
import pickle
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from carbonrouter_core import FIGURES, Scenario, compare, find_trace
from carbonrouter_core.errors import InputError, TraceError
from carbonrouter_core.replay.executors import open_executor
from carbonrouter_core.results import parts as partitioned
from carbonrouter_core.results.parts import WHICH, compare_parts
from carbonrouter_core.traces import training
from carbonrouter_core.traces.loading import read_trace
from carbonrouter_core.traces.parts import part_files, read_part, repeat, split
from carbonrouter_core.traces.schema import Trace, joined
from carbonrouter_core.traces.staging import stage

POLICIES = ("carbonrouter-lookahead", "sticky", "hindsight-optimum")
SCENARIO = Scenario(fairness_weight=0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 chat sessions in parts of 60."""
    folder = tmp_path_factory.mktemp("parts") / "chat"
    repeat(find_trace("sharegpt"), folder, 400, seed=1, sessions_per_part=60)
    return folder


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The same sessions in one piece."""
    import pyarrow.parquet as pq

    path = tmp_path_factory.mktemp("whole") / "chat.parquet"
    pq.write_table(pq.read_table(folder), path)
    return read_trace(path, once=False)


@pytest.fixture(scope="module")
def parted(folder: Path):
    return compare_parts(SCENARIO, POLICIES, folder)


def test_parts_hold_whole_sessions_in_order(folder: Path, whole: Trace) -> None:
    parts = [read_part(path) for path in part_files(folder)]
    assert [part.n_sessions for part in parts] == [60] * 6 + [40]
    assert sorted(s for part in parts for s in part.session_ids) == sorted(whole.session_ids)
    assert len(set(whole.session_ids)) == 400


@pytest.mark.parametrize("limit", [50_000, 50])
def test_every_figure_is_that_of_the_whole(
    folder: Path, whole: Trace, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every training session learned from, and with a sample of them."""
    monkeypatch.setattr(training, "LEARN_SESSIONS", limit)
    parted = compare_parts(SCENARIO, POLICIES, folder)
    comparison = compare(SCENARIO, (*POLICIES, "faircarbon"), whole)
    assert (parted.trace.n_sessions, parted.trace.n_turns) == (whole.n_sessions, whole.n_turns)
    masks = {"all": None, "long": comparison.long_sessions, "test": comparison.test_half}
    assert tuple(masks) == WHICH
    for name in comparison.runs:
        for which, mask in masks.items():
            ours, theirs = parted.figures(name, which), comparison.figures(name, mask)
            assert ours.keys() == theirs.keys() == FIGURES.keys()
            for figure, value in theirs.items():
                # between two turns the exact percentile is interpolated, which is more than BIN
                close = 0.05 if figure.endswith("_p95") else 1e-9
                assert ours[figure] == pytest.approx(value, rel=close, abs=1e-12), (name, figure)
    assert parted.warnings == (*comparison.warnings, partitioned.P95_NOTE)
    for which, mask in masks.items():
        ours = parted.gap_closed_percent("sticky", which)
        assert ours == pytest.approx(comparison.gap_closed_percent("sticky", mask))


def test_the_interval_is_that_of_the_whole(folder: Path, parted) -> None:
    """Sessions in the order of the parts, since draws are by position."""
    whole = joined([read_part(path) for path in part_files(folder)])
    comparison = compare(SCENARIO, (*POLICIES, "faircarbon"), whole)
    ours = parted.saving("sticky", sessions="test")
    assert ours == pytest.approx(comparison.saving("sticky", sessions=comparison.test_half))


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_change_no_bit(folder: Path, parted, workers: int) -> None:
    with open_executor(workers) as executor:
        again = compare_parts(SCENARIO, POLICIES, folder, executor)
    for name in POLICIES:
        assert again.figures(name) == parted.figures(name)
        assert (again.session_carbon_g[name] == parted.session_carbon_g[name]).all()


def test_any_executor_will_do(folder: Path, parted, monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard library's processes, too; and few tasks at a time."""
    monkeypatch.setattr(partitioned, "AHEAD", 2)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        again = compare_parts(SCENARIO, POLICIES, folder, executor)
    for name in POLICIES:
        assert again.figures(name) == parted.figures(name)


class Recorder(Executor):
    """Runs each task when it is submitted, and keeps what it was given."""

    def __init__(self) -> None:
        self.given: list[bytes] = []

    def submit(self, work, /, *arguments):
        self.given.append(pickle.dumps(arguments))
        future: Future = Future()
        future.set_result(work(*arguments))
        return future


def test_a_task_carries_no_turns(folder: Path, tmp_path: Path) -> None:
    """Its size does not grow with the sessions that are learned from."""
    recorder = Recorder()
    compare_parts(Scenario(), ("sticky",), folder, recorder)
    few = max(map(len, recorder.given))
    recorder = Recorder()
    repeat(find_trace("sharegpt"), tmp_path / "many", 4_000)
    compare_parts(Scenario(), ("sticky",), tmp_path / "many", recorder)
    assert max(map(len, recorder.given)) < 1.02 * few


def test_progress_ends_at_1(folder: Path) -> None:
    seen: list[float] = []
    compare_parts(SCENARIO, ("sticky",), folder, progress=seen.append)
    assert seen == sorted(seen) and seen[-1] == pytest.approx(1.0)


def test_a_session_in_two_parts_is_refused(folder: Path, tmp_path: Path) -> None:
    for number in (0, 1):
        content = part_files(folder)[0].read_bytes()
        (tmp_path / f"part-{number}.parquet").write_bytes(content)
    with pytest.raises(TraceError, match="stands in two parts"):
        compare_parts(SCENARIO, ("sticky",), tmp_path)


def test_an_empty_folder_and_a_folder_in_use_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no Parquet file"):
        compare_parts(SCENARIO, ("sticky",), tmp_path)
    with pytest.raises(InputError, match="not empty"):
        repeat(find_trace("sharegpt"), folder, 10)
    with pytest.raises(InputError, match="1 or more"):
        repeat(find_trace("sharegpt"), tmp_path / "x", 0)
    with pytest.raises(InputError, match="1 or more"):
        repeat(find_trace("sharegpt"), tmp_path / "x", 10, sessions_per_part=0)


def test_as_served_needs_the_whole(folder: Path) -> None:
    with pytest.raises(InputError, match="one piece"):
        compare_parts(SCENARIO, ("as-served",), folder)


def test_a_file_is_split_at_sessions(tmp_path: Path) -> None:
    csv = tmp_path / "own.csv"
    rows = [f"s{s:02d},{t},{100 + s},{50}" for s in range(23) for t in range(1 + s % 4)]
    csv.write_text("session,turn,new_prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    with stage([csv]) as staged:
        paths = split(staged, tmp_path / "parts", sessions_per_part=5)
    parts = [read_part(path) for path in paths]
    assert [part.n_sessions for part in parts] == [5, 5, 5, 5, 3]
    whole, back = find_trace(str(csv)), joined(parts)
    assert back.session_ids == whole.session_ids
    assert (back.offsets == whole.offsets).all()
    assert (back.new_prompt_tokens == whole.new_prompt_tokens).all()


def test_split_leaves_copies_out_and_keeps_the_halves_of_the_whole(tmp_path: Path) -> None:
    """Also of what stands in another part."""
    csv = tmp_path / "own.csv"
    kinds = [s % 7 for s in range(40)]  # sessions of a kind open alike; most are copies
    rows = [
        f"s{s:02d},{t},{100 + kind},{50}"
        for s, kind in enumerate(kinds)
        for t in range(4 if s < 20 else 5)
    ]
    csv.write_text("session,turn,new_prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    with stage([csv]) as staged:
        paths = split(staged, tmp_path / "parts", sessions_per_part=9)
    back, whole = joined([read_part(path) for path in paths]), find_trace(str(csv))
    assert back.session_ids == whole.session_ids
    assert back.n_sessions == 14  # seven kinds, of four turns and of five
    assert back.in_training.tolist() == whole.in_training.tolist()
    assert back.in_training.tolist() != [
        int(hashlib.sha256(name.encode()).hexdigest(), 16) % 2 == 0 for name in back.session_ids
    ]


def test_joining_undoes_taking_apart(whole: Trace) -> None:
    odd = np.arange(whole.n_sessions) % 2 == 1
    first = np.arange(whole.n_sessions) < 150
    back = joined([whole.subset(first), whole.subset(~first)])
    assert back.sha256 == whole.sha256
    assert whole.subset(odd).n_turns == whole.session_turns[odd].sum()


def test_a_column_only_some_have_is_filled_or_refused(whole: Trace) -> None:
    first = np.arange(whole.n_sessions) < 150
    bare = dataclasses.replace(whole.subset(first), difficulty=None)
    back = joined([bare, whole.subset(~first)])
    assert np.isnan(back.difficulty[: bare.n_turns]).all()
    timed = dataclasses.replace(bare, t_s=np.zeros(bare.n_turns))
    with pytest.raises(TraceError, match="Only some parts"):
        joined([timed, whole.subset(~first)])
