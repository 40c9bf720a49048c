"""How difficulty varies over the turns of a trace."""

from __future__ import annotations

import math

import numpy as np
import pytest

from carbonrouter_core.errors import InputError
from carbonrouter_core.quality.spread import difficulty_spread


def test_spread_of_a_hand_worked_case() -> None:
    # Sessions (0, 2) and (4, 6, 5): means 1 and 5, overall 3.4.
    # MSB = 2*2.4² + 3*1.6² = 19.2; MSW = (2 + 2)/3; n0 = 5 - 13/5 = 2.4.
    spread = difficulty_spread([0.0, 4.0, 2.0, 6.0, 5.0], [7, 3, 7, 3, 3])
    msb, msw, n0 = 19.2, 4.0 / 3.0, 2.4
    assert spread.mu == pytest.approx(3.4)
    assert spread.sigma_b == pytest.approx(math.sqrt((msb + 4.0) / 5.0))
    assert spread.rho == pytest.approx((msb - msw) / (msb + (n0 - 1.0) * msw))


def test_spread_recovers_what_was_drawn() -> None:
    rng = np.random.default_rng(0)
    session = np.repeat(np.arange(4000), rng.integers(1, 12, 4000))
    rho = 0.4
    effect = rng.standard_normal(4000)[session]
    noise = rng.standard_normal(session.size)
    b = -0.5 + 0.6 * (math.sqrt(rho) * effect + math.sqrt(1.0 - rho) * noise)
    assert difficulty_spread(b, session) == pytest.approx((-0.5, 0.6, rho), abs=0.03)


@pytest.mark.parametrize(
    ("b", "session"),
    [
        ([1.0], [0]),
        ([1.0, 2.0, 3.0], [0, 1, 2]),  # one turn a session
        ([1.0, 2.0, 3.0], [5, 5, 5]),  # one session
        ([1.0, 1.0, 1.0, 1.0], [0, 0, 1, 1]),  # no variance
        ([0.0, 1.0, 0.0, 1.0], [0, 0, 1, 1]),  # sessions more alike than chance
    ],
)
def test_spread_without_a_session_effect_has_no_correlation(
    b: list[float], session: list[int]
) -> None:
    assert difficulty_spread(b, session).rho == 0.0


def test_correlation_stays_below_one() -> None:
    spread = difficulty_spread([1.0, 1.0, 2.0, 2.0], [0, 0, 1, 1])
    assert 0.999 < spread.rho < 1.0


@pytest.mark.parametrize(
    ("b", "session"), [([], []), ([1.0, math.nan], [0, 0]), ([1.0], [0, 1]), ([[1.0]], [[0]])]
)
def test_spread_refuses_what_is_not_one_difficulty_a_turn(
    b: list[float], session: list[int]
) -> None:
    with pytest.raises(InputError, match="one finite difficulty"):
        difficulty_spread(b, session)
