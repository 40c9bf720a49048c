"""Where a session's KV cache is live, step by step and through whole replays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carbonrouter_core import run_policy
from carbonrouter_core.routing import kv_cache
from tests.hand_made import Costs, T, make_catalog, make_trace, make_world, served_by

HOUR_S = 3600.0


class Caches:
    """The caches of one session on a few deployments, driven turn by turn."""

    def __init__(self, deployments: int, copies_all: bool, idle_s: float = HOUR_S) -> None:
        self.tokens, self.last_s = np.zeros(deployments), np.zeros(deployments)
        self.copies_all, self.idle_s = copies_all, idle_s

    def begin(self, history: float, at_s: float) -> list[float]:
        kv_cache.begin_turn(self.tokens, self.last_s, history, at_s, self.idle_s)
        return self.tokens.tolist()

    def serve(self, deployment: int, context: float, at_s: float) -> list[float]:
        kv_cache.end_turn(self.tokens, self.last_s, deployment, context, at_s, self.copies_all)
        return self.tokens.tolist()


def test_latest_keeps_the_cache_of_the_latest_turn_alone() -> None:
    caches = Caches(3, copies_all=False)
    assert caches.serve(0, 100.0, at_s=0.0) == [100.0, 0.0, 0.0]
    assert caches.serve(2, 250.0, at_s=60.0) == [0.0, 0.0, 250.0]


def test_all_keeps_what_each_deployment_had() -> None:
    caches = Caches(3, copies_all=True)
    caches.serve(0, 100.0, at_s=0.0)
    assert caches.serve(2, 250.0, at_s=60.0) == [100.0, 0.0, 250.0]
    assert caches.begin(250.0, at_s=120.0) == [100.0, 0.0, 250.0]


def test_a_cache_lives_until_idle_s_and_not_a_moment_longer() -> None:
    caches = Caches(1, copies_all=False)
    caches.serve(0, 100.0, at_s=1000.0)
    assert caches.begin(100.0, at_s=1000.0 + HOUR_S) == [100.0]
    assert caches.begin(100.0, at_s=1000.5 + HOUR_S) == [0.0]


def test_each_copy_expires_by_its_own_last_turn() -> None:
    caches = Caches(2, copies_all=True)
    caches.serve(0, 100.0, at_s=0.0)
    caches.serve(1, 200.0, at_s=2000.0)
    assert caches.begin(200.0, at_s=4000.0) == [0.0, 200.0]


def test_idle_0_keeps_a_cache_for_turns_at_the_same_moment_only() -> None:
    caches = Caches(1, copies_all=False, idle_s=0.0)
    caches.serve(0, 100.0, at_s=10.0)
    assert caches.begin(100.0, at_s=10.0) == [100.0]
    assert caches.begin(100.0, at_s=10.001) == [0.0]


def test_a_rewritten_context_cuts_every_copy_for_good() -> None:
    caches = Caches(2, copies_all=True)
    caches.serve(0, 100.0, at_s=0.0)
    caches.serve(1, 900.0, at_s=10.0)
    assert caches.begin(400.0, at_s=20.0) == [100.0, 400.0]
    assert caches.begin(900.0, at_s=30.0) == [100.0, 400.0]  # what was cut does not come back


def test_home_holds_the_most_and_ties_go_to_the_first() -> None:
    assert kv_cache.home(np.array([0.0, 0.0])) == -1
    assert kv_cache.home(np.array([10.0, 20.0, 5.0])) == 1
    assert kv_cache.home(np.array([0.0, 20.0, 20.0])) == 1


@given(
    turns=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 5000), st.floats(0, 5000), st.booleans()),
        max_size=12,
    ),
    copies_all=st.booleans(),
)
def test_live_tokens_stay_within_the_history(
    turns: list[tuple[int, int, float, bool]], copies_all: bool
) -> None:
    caches, now_s = Caches(3, copies_all), 0.0
    for deployment, history, gap_s, served in turns:
        now_s += gap_s
        live = caches.begin(float(history), now_s)
        assert all(0 <= tokens <= history for tokens in live)
        assert copies_all or sum(tokens > 0 for tokens in live) <= 1
        if served:
            caches.serve(deployment, history + 7.0, now_s)
            assert caches.tokens[deployment] == history + 7.0


# --- Through a replay -------------------------------------------------------------------------

ONE = make_catalog({("M", "G"): Costs(1.0, 2.0)}, {"north": 1.0})
"""One deployment: whatever the policy, only expiry and cuts change the cached tokens."""


def cached_tokens(*turns: T, **fields: object) -> list[int]:
    """Cached tokens that each turn of one session finds where it is served."""
    prepared = make_world(make_trace({"s": turns}), ONE, **fields)
    return run_policy(prepared, "sticky").decisions.cached_tokens.tolist()


def test_each_turn_finds_all_that_stood_before_it() -> None:
    turns = T(10, 5, at_s=0), T(20, 5, at_s=60), T(1, 1, at_s=120)
    assert cached_tokens(*turns) == [0, 15, 40]


def test_after_six_hours_staying_is_charged_the_whole_history() -> None:
    turns = T(10, 5, at_s=0), T(20, 5, at_s=6 * HOUR_S)
    assert cached_tokens(*turns) == [0, 0]
    assert cached_tokens(*turns, idle_s=6 * HOUR_S) == [0, 15]


def test_an_agent_that_shortens_its_context_keeps_the_shorter_part() -> None:
    turns = T(500, 100), T(10, 10, history=400), T(10, 10, history=420)
    assert cached_tokens(*turns) == [0, 400, 420]


@pytest.mark.parametrize(("copies", "coming_back_finds"), [("latest", 0), ("all", 20)])
def test_coming_back_finds_what_copies_keep(copies: str, coming_back_finds: int) -> None:
    # Round-robin over two sites: turn 3 is back where turn 1 was (10 + 10 tokens).
    two = make_catalog({("M", "G"): Costs(1.0, 2.0)}, {"north": 1.0, "south": 1.0})
    prepared = make_world(make_trace({"s": [T(10, 10)] * 3}), two, copies=copies)
    run = run_policy(prepared, "round-robin")
    sites = served_by(prepared, run)
    assert sites[0] == sites[2] != sites[1]
    assert run.decisions.cached_tokens.tolist() == [0, 0, coming_back_finds]


def test_an_unserved_turn_changes_no_cache_but_for_the_cut() -> None:
    # The model holds 1,000 tokens; turn 2 needs 1,180, turn 3's context is rewritten to 150.
    small = make_catalog({("M", "G"): Costs(1.0, 2.0)}, {"north": 1.0}, context_tokens={"M": 1000})
    turns = [T(90, 10), T(1000, 80, history=60), T(10, 10, history=150)]
    prepared = make_world(make_trace({"s": turns}), small)
    run = run_policy(prepared, "sticky")
    assert served_by(prepared, run) == ["M G north", "", "M G north"]
    # 100 tokens after turn 1, cut to the 60 that lead turn 2's prompt, none added by turn 2
    assert run.decisions.cached_tokens.tolist() == [0, 0, 60]


def test_an_unserved_turn_does_not_keep_a_cache_alive() -> None:
    small = make_catalog({("M", "G"): Costs(1.0, 2.0)}, {"north": 1.0}, context_tokens={"M": 1000})
    turns = [T(90, 10, 0), T(2000, 80, 3000), T(10, 10, 4000, history=100)]
    prepared = make_world(make_trace({"s": turns}), small)
    assert run_policy(prepared, "sticky").decisions.cached_tokens.tolist() == [0, 0, 0]
