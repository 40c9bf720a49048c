"""How long a live decision takes, and what a live session weighs."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest

from carbonrouter_core import CarbonRouter, LiveTurn, Scenario, prepare
from carbonrouter_core.replay.world import Prepared

pytestmark = pytest.mark.benchmark

START_S = 1_715_558_400.0


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return prepare(Scenario(gpu_regions={}))


def serve(router: CarbonRouter, session: str, at_s: float, difficulty: float = -0.5) -> None:
    decision = router.route(LiveTurn(session, START_S + at_s, 70, "us-west2", difficulty))
    router.observe(session, decision.deployment, decision.cached_tokens, 280)


TEXT = "Could you compare how the two proofs treat convergence of the series? " * 6
"""A prompt of 420 characters: about 100 tokens."""


@pytest.mark.parametrize("given", ["callable", "series", "text"])
@pytest.mark.parametrize(
    "policy_id", ["carbonrouter", "carbonrouter-no-gate", "carbonrouter-lookahead", "faircarbon"]
)
def test_a_decision_takes_less_than_100_us(prepared: Prepared, policy_id: str, given: str) -> None:
    """Intensity from a cheap callable or the built-in series; difficulty given, or from text."""
    ask = (lambda region, time_s: 200.0) if given == "callable" else None
    router = CarbonRouter(prepared, policy_id, intensity=ask)
    turns, took_s = 4000, []
    for i in range(turns):
        session, difficulty = f"s{i % 200}", -1.2 + 0.1 * (i % 17)
        turn = LiveTurn(session, START_S + i, 70, "us-west2", difficulty)
        if given == "text":
            turn = LiveTurn(session, START_S + i, 100, "us-west2", prompt=f"{i} {TEXT}")
        before = time.thread_time()
        decision = router.route(turn)
        took_s.append(time.thread_time() - before)
        router.observe(session, decision.deployment, 0, 280)
    mean_us, worst_us = sum(took_s) / turns * 1e6, max(took_s) * 1e6
    print(f"\n{policy_id}, {given}: {mean_us:.0f} µs a decision at 60 deployments", end="")
    print(f", {took_s[0] * 1e6:.0f} µs the first, {worst_us:.0f} µs at most")
    assert mean_us < 100


@pytest.mark.parametrize("copies", ["latest", "all"])
def test_a_live_session_weighs_less_than_1_kb(copies: str) -> None:
    router = CarbonRouter(prepare(Scenario(gpu_regions={}, copies=copies)))
    serve(router, "warm up", 0)
    sessions = 20_000
    tracemalloc.start()
    for turn in range(3):
        for i in range(sessions):
            serve(router, f"session-{i:08d}", 60 * turn + 1, -1.2 + 0.8 * turn)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"\ncopies={copies}: {held / sessions:.0f} B a live session")
    assert held / sessions < 1000


def resident_mb() -> float:
    """Memory of this process (Linux)."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


def test_a_million_turns_over_100_000_sessions_keep_memory_flat(prepared: Prepared) -> None:
    router = CarbonRouter(
        prepared, "carbonrouter", max_sessions=20_000, intensity=lambda region, time_s: 200.0
    )
    turns, blocks, block_sessions = 1_000_000, 50, 2_000
    held_mb = []
    before = time.thread_time()
    for i in range(turns):  # each block of sessions has its ten turns, then comes the next
        session = i * blocks // turns * block_sessions + i % block_sessions
        serve(router, f"s{session}", i * 0.05)
        if (i + 1) % (turns // 10) == 0:
            held_mb.append(resident_mb())
    took_s = time.thread_time() - before
    print("\nMB after each 100,000 turns: " + ", ".join(f"{m:.1f}" for m in held_mb))
    print(f"{len(router):,} sessions live, {router.forgotten:,} forgotten, {took_s:.0f} s")
    assert len(router) + router.forgotten == blocks * block_sessions
    assert held_mb[-1] < held_mb[4] + 10.0  # 20 bytes a turn
