"""The Pareto front against its definition, and distributions that can be read off."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from carbonrouter_core.results.tradeoffs import SHARES, distribution, pareto_front


def test_who_is_on_the_front() -> None:
    #      cheap but slow, dear but fast, beaten by the first, worst of all, equal to the first
    costs = np.array([[1.0, 9.0], [9.0, 1.0], [2.0, 9.0], [9.0, 9.0], [1.0, 9.0], [0.0, np.nan]])
    assert pareto_front(costs).tolist() == [True, True, False, False, True, False]


@given(
    arrays.arrays(
        np.float64,
        st.tuples(st.integers(1, 12), st.integers(1, 4)),
        elements=st.integers(0, 4).map(float),
    )
)
def test_the_front_is_what_nobody_beats(costs: np.ndarray) -> None:
    def beats(one: np.ndarray, other: np.ndarray) -> bool:
        return bool(np.all(one <= other) and np.any(one < other))

    on_front = pareto_front(costs)
    assert on_front.any()
    for i, row in enumerate(costs):
        assert on_front[i] == (not any(beats(other, row) for other in costs))
        if not on_front[i]:
            assert any(beats(other, row) for other in costs[on_front])


def test_a_distribution_is_read_off() -> None:
    values = np.array([40.0, 10.0, np.nan, 20.0, 30.0])
    assert distribution(values, np.array([0.25, 0.5, 0.51, 1.0])).tolist() == [10, 20, 30, 40]
    assert distribution(np.array([np.nan])).size == 0


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_a_distribution_says_how_many_stay_within(values: list[float]) -> None:
    given = np.array(values)
    drawn = distribution(given)
    assert (np.diff(drawn) >= 0).all()
    within = (given[None, :] <= drawn[:, None]).mean(axis=1)
    assert (within >= SHARES - 1e-9).all()
    assert drawn[-1] == pytest.approx(given.max())
