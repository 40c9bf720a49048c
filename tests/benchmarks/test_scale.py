"""How run time and memory grow with a trace in parts, and what a sweep of 100 points takes."""

import time
from concurrent.futures import Executor
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from carbonrouter_core import Scenario, find_trace
from carbonrouter_core.executors import open_executor
from carbonrouter_core.partitioned import compare_parts
from carbonrouter_core.sweep import Axis, Question, Sweep, run_points
from carbonrouter_core.traces.parts import repeat

pytestmark = pytest.mark.benchmark

POLICIES = ("carbonrouter", "carbonrouter-lookahead", "faircarbon", "sticky", "cleanest-region")
SESSIONS = (10_000, 100_000, 1_000_000)
WORKERS = 2
MAX_WORKER_BYTES = 2 * 2**30
MAX_FROM_LINEAR = 0.15
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


def test_time_grows_with_the_sessions_and_memory_does_not(tmp_path: Path) -> None:
    """CPU time of one process that does a worker's tasks one after the other."""
    trace, taken = find_trace("sharegpt"), []  # turns and seconds of each size
    warm = tmp_path / "warm"
    repeat(trace, warm, 400, sessions_per_part=100)
    compare_parts(Scenario(), POLICIES, warm)
    for sessions in SESSIONS:
        folder = tmp_path / str(sessions)
        repeat(trace, folder, sessions, sessions_per_part=10_000)
        before = time.process_time()
        found = compare_parts(Scenario(), POLICIES, folder)
        used_s = time.process_time() - before
        peak = peak_bytes(psutil.Process())
        taken.append((found.trace.n_turns, used_s))
        a_turn_us = 1e6 * used_s / found.trace.n_turns
        print(
            f"{sessions:>9,} sessions, {found.trace.n_turns:>9,} turns: {used_s:6.1f} s CPU, "
            f"{a_turn_us:.1f} µs a turn for 5 policies, {peak / 2**20:.0f} MiB"
        )
        assert peak < MAX_WORKER_BYTES
    # what a further turn costs; what is done once, whatever the size, is in neither
    further = [(s2 - s1) / (n2 - n1) for (n1, s1), (n2, s2) in pairwise(taken)]
    assert max(further) / min(further) - 1 < MAX_FROM_LINEAR


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
    print(f"100 points x 61,224 turns x 2 policies: {wall_s:.1f} s, {used_s:.1f} s CPU")
    assert used_s / WORKERS < MAX_SWEEP_S
