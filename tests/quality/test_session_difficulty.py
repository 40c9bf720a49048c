"""What a session's difficulties so far say of the turns to come, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carbonrouter_core.quality.session_difficulty import (
    MEMORIES,
    OWN_NOISES,
    coming_difficulty,
    learn_memory,
)

DIFFICULTIES = st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=30)


def sums(difficulties: list[float], memory: float = 1.0) -> tuple[float, float, float]:
    """Turns, difficulty and its square, summed with fading weights."""
    weights = [memory**age for age in range(len(difficulties))][::-1]
    return (
        math.fsum(weights),
        math.fsum(w * b for w, b in zip(weights, difficulties, strict=True)),
        math.fsum(w * b * b for w, b in zip(weights, difficulties, strict=True)),
    )


def coming(difficulties: list[float], memory: float = 1.0, own_noise: float = 0.0) -> list[float]:
    """Mean and variance, where training turns have mean 0, spread 2 and correlation 1/2: a level
    of variance 2 and noise of variance 2."""
    return list(coming_difficulty(*sums(difficulties, memory), 0.0, 2.0, 0.5, own_noise))


# --- What is expected -------------------------------------------------------------------------


def test_the_level_is_drawn_to_the_session() -> None:
    # 1 and 3: own weight 2 x 1/2 / (1 + 1/2) = 2/3 of their mean 2; the level keeps 1/3 of 2
    assert coming([1.0, 3.0]) == pytest.approx([4 / 3, 2 + 2 / 3])


def test_earlier_turns_fade() -> None:
    # 1 counts half: 1.5 turns of mean 3.5 / 1.5; own weight 0.75 / 1.25 = 0.6, level 0.4 x 2
    assert coming([1.0, 3.0], memory=0.5) == pytest.approx([0.6 * 3.5 / 1.5, 2.8])
    assert coming([3.0, 1.0], memory=0.5)[0] == pytest.approx(0.6 * 2.5 / 1.5)


def test_the_scatter_is_drawn_to_the_session() -> None:
    # Squares within: 1 and 3 have 2, as noise of variance 2 would: nothing changes. 2 and 2 have
    # none: (2 + 0) / (1 + 1/2) = 4/3. 0 and 4 have 8: (2 + 4) / 1.5 = 4. The level is the same.
    assert coming([1.0, 3.0], own_noise=0.5) == pytest.approx([4 / 3, 2 + 2 / 3])
    assert coming([2.0, 2.0], own_noise=0.5) == pytest.approx([4 / 3, 4 / 3 + 2 / 3])
    assert coming([0.0, 4.0], own_noise=0.5) == pytest.approx([4 / 3, 4 + 2 / 3])


@given(DIFFICULTIES, st.sampled_from(MEMORIES), st.sampled_from(OWN_NOISES))
def test_the_mean_lies_between_and_the_variance_above_nothing(
    difficulties: list[float], memory: float, own_noise: float
) -> None:
    mean, variance = coming(difficulties, memory, own_noise)
    assert min(0.0, *difficulties) - 1e-9 <= mean <= max(0.0, *difficulties) + 1e-9
    assert 0.0 < variance < math.inf


@given(DIFFICULTIES, st.sampled_from(OWN_NOISES), st.randoms())
def test_without_fading_the_order_does_not_matter(
    difficulties: list[float], own_noise: float, random: object
) -> None:
    shuffled = sorted(difficulties)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    expected = coming(difficulties, own_noise=own_noise)
    assert coming(shuffled, own_noise=own_noise) == pytest.approx(expected, abs=1e-9)


@given(DIFFICULTIES)
def test_a_session_that_never_varies_is_expected_to_vary_less(difficulties: list[float]) -> None:
    same = [difficulties[0]] * (len(difficulties) + 1)
    assert coming(same, own_noise=1 / 24)[1] < coming(same)[1]


# --- What is learned --------------------------------------------------------------------------


def learned(sessions: list[np.ndarray], history: float = 1000.0) -> tuple[float, float]:
    """What 200 training turns or more teach; spread and correlation as they were drawn."""
    difficulty = np.concatenate(sessions)
    turns = np.array([len(one) for one in sessions])
    spread = float(difficulty.std())
    return learn_memory(difficulty, np.full(len(difficulty), history), turns, spread, 0.4)


def test_sessions_that_keep_their_level_teach_to_forget_nothing() -> None:
    rng = np.random.default_rng(1)
    level = rng.normal(0.0, 0.4**0.5, 300)
    sessions = [rng.normal(one, 0.6**0.5, 40) for one in level]
    assert learned(sessions) == (1.0, 0.0)


def test_sessions_that_drift_teach_to_forget() -> None:
    rng = np.random.default_rng(2)
    sessions = [
        np.repeat(rng.normal(0.0, 0.4**0.5, 4), 25) + rng.normal(0.0, 0.6**0.5, 100)
        for _ in range(200)
    ]
    memory, _ = learned(sessions)
    assert memory < 1.0


def test_sessions_that_scatter_unlike_teach_to_look_at_their_own() -> None:
    rng = np.random.default_rng(3)
    noise = np.where(rng.random(300) < 0.5, 0.2, 1.0)
    sessions = [rng.normal(rng.normal(0.0, 0.6), one, 40) for one in noise]
    memory, own_noise = learned(sessions)
    assert memory == 1.0
    assert own_noise > 0.0


def test_a_few_turns_are_too_few_to_depart_from_the_plain_mean() -> None:
    drifting = [np.repeat([-1.0, 1.0], 3)]
    assert learned(drifting * 30)[0] < 1.0
    assert learned(drifting) == (1.0, 0.0)


def test_what_has_no_history_at_stake_teaches_nothing() -> None:
    drifting = [np.repeat([-1.0, 1.0], 3)] * 30
    assert learned(drifting, history=0.0) == (1.0, 0.0)
    assert learned([np.array([float(i)]) for i in range(9)]) == (1.0, 0.0)  # no turn follows
    assert learned([np.zeros(5)] * 9) == (1.0, 0.0)  # all alike
