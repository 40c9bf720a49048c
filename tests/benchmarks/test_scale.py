"""How run time and memory grow with a trace in parts, and what a sweep of 100 points takes."""

import time
from concurrent.futures import Executor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from carbonrouter_core import Scenario, find_trace
from carbonrouter_core.replay.executors import open_executor
from carbonrouter_core.results.parts import WHICH, compare_parts
from carbonrouter_core.studies.sweep import Axis, Question, Sweep, run_points
from carbonrouter_core.traces.parts import repeat

pytestmark = pytest.mark.benchmark

POLICIES = ("carbonrouter", "carbonrouter-lookahead", "faircarbon", "sticky", "cleanest-region")
SESSIONS = (10_000, 100_000, 1_000_000)
SESSIONS_PER_PART = 5_000
WORKERS = 2
MAX_WORKER_BYTES = 2 * 2**30
MAX_FROM_LINEAR = 0.15
MAX_GROWTH = 0.1
MAX_SWEEP_S = 20.0


def workers_of(executor: Executor) -> list[psutil.Process]:
    return [psutil.Process(pid) for pid in executor._processes]


def peak_bytes(process: psutil.Process) -> int:
    """Most memory the process ever held, where the system says so; else what it holds now."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return int(process.memory_info().rss)
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def cpu_s(processes: list[psutil.Process]) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in processes)


def test_time_grows_with_the_sessions_and_memory_of_workers_does_not(tmp_path: Path) -> None:
    """CPU time of all processes together, and the most memory that a worker and the process that
    asks ever held."""
    trace, own = find_trace("sharegpt"), psutil.Process()
    taken, held = [], []  # turns and seconds; bytes of the larger worker
    for sessions in SESSIONS:
        folder = tmp_path / str(sessions)
        repeat(trace, folder, sessions, sessions_per_part=SESSIONS_PER_PART)
        forget_peak()
        before = own.cpu_times()[:2]
        with open_executor(WORKERS) as executor:
            found = compare_parts(Scenario(), POLICIES, folder, executor)
            workers = workers_of(executor)
            used_s = cpu_s(workers) + sum(own.cpu_times()[:2]) - sum(before)
            held.append(max(peak_bytes(worker) for worker in workers))
        taken.append((found.trace.n_turns, used_s))
        print(
            f"{sessions:>9,} sessions, {found.trace.n_turns:>9,} turns: {used_s:6.1f} s CPU, "
            f"{1e6 * used_s / found.trace.n_turns:.1f} µs a turn for 5 policies; "
            f"{held[-1] / 2**20:.0f} MiB a worker, {peak_bytes(own) / 2**20:.0f} MiB here"
        )
    assert max(held) < MAX_WORKER_BYTES
    assert max(held) / min(held) - 1 < MAX_GROWTH
    # what a further turn costs; what is done once, whatever the size, is in neither
    further = [(s2 - s1) / (n2 - n1) for (n1, s1), (n2, s2) in pairwise(taken)]
    assert max(further) / min(further) - 1 < MAX_FROM_LINEAR


def forget_peak() -> None:
    """Count this process's most memory anew from here (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def test_eight_processes_give_the_same_bits(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))
    repeat(find_trace("sharegpt"), tmp_path / "parts", 3_200, sessions_per_part=200)
    alone = compare_parts(Scenario(), POLICIES, tmp_path / "parts")
    axes = (Axis("idle_s", (60.0, 600.0, 3600.0)), Axis("quality_floor", (0.5, 0.6, 0.7, 0.8)))
    question = Question(("carbonrouter", "faircarbon"), half="all")
    points = Sweep(Scenario(), axes, question).points()
    outcomes = dict(run_points(points, question))
    with open_executor(8) as executor:
        spread = compare_parts(Scenario(), POLICIES, tmp_path / "parts", executor)
        assert len(workers_of(executor)) == 8
        assert dict(run_points(points, question, executor)) == outcomes
    for name in POLICIES:
        for which in WHICH:
            assert spread.figures(name, which) == alone.figures(name, which)
        assert spread.saving(name) == alone.saving(name)


def test_a_sweep_of_100_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path))
    idle = tuple(float(60 * n) for n in range(1, 11))
    floors = tuple(round(0.5 + 0.03 * n, 2) for n in range(10))
    question = Question(("carbonrouter", "faircarbon"), half="all")
    sweep = Sweep(Scenario(), (Axis("idle_s", idle), Axis("quality_floor", floors)), question)
    with open_executor(WORKERS) as executor:
        list(run_points(sweep.points()[:2], question, executor))  # the kernel is compiled
        processes = workers_of(executor)
        before, began = cpu_s(processes), time.perf_counter()
        outcomes = dict(run_points(sweep.points(), question, executor))
        wall_s, used_s = time.perf_counter() - began, cpu_s(processes) - before
    assert len(outcomes) == 100 and not any(one.error for one in outcomes.values())
    print(f"100 points x 59,837 turns x 2 policies: {wall_s:.1f} s, {used_s:.1f} s CPU")
    assert used_s / WORKERS < MAX_SWEEP_S
