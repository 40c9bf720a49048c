"""A replay says how far it is, and ends in the midst of a trace where it is not wanted any more."""

from __future__ import annotations

import numpy as np
import pytest

from carbonrouter_core import POLICIES, run_policy
from carbonrouter_core.replay import decisions as decisions_module
from carbonrouter_core.replay.world import Prepared
from tests.hand_made import Costs, T, make_catalog, make_trace, make_world

N_SESSIONS = 8


class NoLongerWantedError(Exception):
    """What a caller raises to end a run."""


@pytest.fixture
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Prepared:
    """Sessions of three turns, one a block; the parameter says which copies are kept."""
    monkeypatch.setattr(decisions_module, "BLOCK_TURNS", 3)
    turns = {str(s): [T(100, 10), T(50, 10, at_s=60.0), T(50, 10, at_s=120.0)] for s in range(8)}
    catalog = make_catalog({("small", "gpu"): Costs(1.0, 2.0)}, {"here": 1.0, "there": 1.1})
    return make_world(make_trace(turns), catalog, copies=request.param)


@pytest.mark.parametrize("world", ["latest", "all"], indirect=True)
@pytest.mark.parametrize("policy_id", POLICIES)
def test_progress_rises_to_all_of_it(world: Prepared, policy_id: str) -> None:
    told: list[float] = []
    run_policy(world, policy_id, told.append)
    assert len(told) >= N_SESSIONS
    assert np.all(np.diff(told) > 0)
    assert told[0] > 0
    assert told[-1] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("world", ["latest", "all"], indirect=True)
@pytest.mark.parametrize("policy_id", ["carbonrouter-lookahead", "hindsight-optimum"])
def test_a_run_ends_at_the_next_block_once_it_is_not_wanted(
    world: Prepared, policy_id: str
) -> None:
    told: list[float] = []

    def until_half(share: float) -> None:
        told.append(share)
        if share >= 0.5:
            raise NoLongerWantedError

    with pytest.raises(NoLongerWantedError):
        run_policy(world, policy_id, until_half)
    assert sum(share >= 0.5 for share in told) == 1


@pytest.mark.parametrize(
    ("turns_of_sessions", "blocks"),
    [
        ([1, 1, 1], [(0, 3, 1.0)]),
        ([2, 2, 2], [(0, 2, 4 / 6), (2, 3, 1.0)]),
        ([10, 1], [(0, 1, 10 / 11), (1, 2, 1.0)]),  # a session is never split
        ([0, 3, 0, 4, 0], [(0, 2, 3 / 7), (2, 4, 1.0)]),  # nothing to do in those without turns
        ([], []),
    ],
)
def test_blocks_hold_whole_sessions(
    turns_of_sessions: list[int],
    blocks: list[tuple[int, int, float]],
) -> None:
    offsets = np.r_[0, np.cumsum(turns_of_sessions)].astype(np.int64)
    assert list(decisions_module.blocks(offsets, 3)) == blocks
