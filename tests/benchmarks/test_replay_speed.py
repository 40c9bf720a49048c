"""How fast a policy replays the chat data over every GPU type in every region."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from carbonrouter_core import Scenario, prepare
from carbonrouter_core.replay.decisions import replay
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.routing.policies import POLICIES

pytestmark = pytest.mark.benchmark

ISSUE_S = 0.15
"""A replay of the chat data is to take less than this on one core."""
NUMPY_TURNS = 2_000
"""Turns the plain loop is timed on."""


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    """The default scenario with every GPU type in every region: 60 deployments."""
    return prepare(Scenario(gpu_regions={}))


def best_of(runs: int, work: Callable[[], object]) -> float:
    """Least CPU time of ``runs`` in s: undisturbed by whatever else the machine does."""
    times = []
    for _ in range(runs):
        before = time.thread_time()
        work()
        times.append(time.thread_time() - before)
    return min(times)


def run(prepared: Prepared, policy_id: str) -> None:
    fleet, placed = prepared.deployments.fleet, prepared.placed
    replay(POLICIES[policy_id], fleet, prepared.rules, placed, prepared.intensity)


def plain_numpy_s_per_turn(prepared: Prepared) -> float:
    """Time a turn of carbonrouter-no-gate takes in a plain loop over turns with numpy inside."""
    fleet, placed, rules = prepared.deployments.fleet, prepared.placed, prepared.rules
    trace, pair, region = placed.trace, fleet.pair, fleet.region
    model = fleet.pair_model[pair]
    share, alpha, window = fleet.global_share[model], fleet.alpha[model], fleet.window_tokens[model]

    def span(x: np.ndarray | float) -> np.ndarray:
        windowed = np.where(x <= window, 0.5 * np.square(x), window * (x - 0.5 * window))
        return share * 0.5 * np.square(x) + (1 - share) * np.where(np.isinf(window), 0, windowed)

    host_prefill = 0.15 * fleet.n_gpus * fleet.prefill_ms
    host_decode = 0.15 * fleet.n_gpus * fleet.inter_token_ms / fleet.batch
    cached, last_s = np.zeros(len(pair)), np.zeros(len(pair))

    def loop() -> None:
        for i in range(NUMPY_TURNS):
            h, p = trace.history_tokens[i], trace.new_prompt_tokens[i]
            o = rules.mean_output_tokens
            if trace.turn[i] == 0:
                cached[:] = 0.0
            cached[placed.start_s[i] - last_s > rules.idle_s] = 0.0
            np.minimum(cached, h, out=cached)
            work = h + p - cached + alpha * (span(h + p) - span(cached))
            context = h + p + o / 2
            attended = np.maximum(0, share * context + (1 - share) * np.minimum(context, window))
            joule = work * (fleet.prefill_j + host_prefill)[pair] + o * (
                (fleet.decode_j + host_decode)[pair] + fleet.context_j[pair] * attended
            )
            fits = h + p + trace.output_tokens[i] <= fleet.fit_tokens[pair]
            best = fleet.theta[model][fits].max()
            able = fleet.theta[model] >= min(placed.difficulty[i] + rules.ability_margin, best)
            carbon = joule * fleet.pue[region] * prepared.intensity[i][region]
            choice = int(np.argmin(np.where(fits & able, carbon, np.inf)))
            cached[:] = 0.0
            cached[choice], last_s[choice] = h + p + trace.output_tokens[i], placed.start_s[i]

    return best_of(3, loop) / NUMPY_TURNS


@pytest.mark.parametrize(
    "policy_id", [p for p, policy in POLICIES.items() if not policy.knows_future]
)
def test_a_policy_replays_fast(prepared: Prepared, policy_id: str) -> None:
    run(prepared, policy_id)  # compiled, or read from disk
    seconds = best_of(5, lambda: run(prepared, policy_id))
    turns, candidates = prepared.placed.trace.n_turns, len(prepared.deployments)
    print(
        f"\n{policy_id}: {seconds * 1e3:.1f} ms, {turns / seconds / 1e6:.2f} M turns/s, "
        f"{seconds / turns / candidates * 1e9:.1f} ns a candidate"
    )
    if policy_id != "carbonrouter-lookahead":
        assert seconds < ISSUE_S


def test_the_kernel_beats_a_plain_numpy_loop(prepared: Prepared) -> None:
    run(prepared, "carbonrouter-no-gate")
    compiled = best_of(5, lambda: run(prepared, "carbonrouter-no-gate"))
    compiled /= prepared.placed.trace.n_turns
    plain = plain_numpy_s_per_turn(prepared)
    print(
        f"\nplain numpy {plain * 1e6:.1f} µs a turn, compiled {compiled * 1e6:.2f} µs: "
        f"{plain / compiled:.0f} times"
    )
    assert plain / compiled >= 20


def test_memory_of_a_replay(prepared: Prepared) -> None:
    tracemalloc.start()
    run(prepared, "carbonrouter")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    per_million_mb = peak / prepared.placed.trace.n_turns
    print(f"\n{per_million_mb:.0f} MB a million turns, decisions included")
    assert per_million_mb < 200


def test_what_limits_the_kernel(prepared: Prepared) -> None:
    """Twice the candidates cost less than twice the time: arithmetic per turn, not memory."""
    one_region = prepare(Scenario(gpu_regions={}, regions=("us-west2",)))
    run(one_region, "carbonrouter-no-gate")
    few = best_of(5, lambda: run(one_region, "carbonrouter-no-gate"))
    many = best_of(5, lambda: run(prepared, "carbonrouter-no-gate"))
    turns = prepared.placed.trace.n_turns
    extra = len(prepared.deployments) - len(one_region.deployments)
    print(
        f"\n{few / turns * 1e9:.0f} ns a turn with {len(one_region.deployments)} candidates, "
        f"{many / turns * 1e9:.0f} ns with {len(prepared.deployments)}: "
        f"{(many - few) / turns / extra * 1e9:.1f} ns for each further candidate"
    )
    assert many < 4 * few
