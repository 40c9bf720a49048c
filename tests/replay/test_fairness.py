"""Fairness between user regions: its figures, and the floors it raises."""

from __future__ import annotations

import hashlib
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carbonrouter_core import Comparison, run_policy
from carbonrouter_core.quality.item_response import QualityFit
from carbonrouter_core.replay.fairness import jain_index, largest_gap, mean_by_user, raised_floors
from carbonrouter_core.replay.world import Prepared
from tests.hand_made import Costs, T, make_catalog, make_trace, make_world, served_by

NAN = math.nan


def test_means_gap_and_jain_index_by_hand() -> None:
    quality = np.array([0.9, 0.7, 0.6, NAN, NAN])
    means = mean_by_user(quality, np.array([0, 0, 1, 1, 2]), 4)
    np.testing.assert_allclose(means, [0.8, 0.6, NAN, NAN])
    assert largest_gap(means) == pytest.approx(0.2)
    assert jain_index(means) == pytest.approx(1.4**2 / (2 * (0.64 + 0.36)))  # 0.98
    assert jain_index(np.array([3.0, 0.0, 0.0])) == pytest.approx(1 / 3)
    nobody = np.array([NAN, NAN])
    assert largest_gap(nobody) is None and jain_index(nobody) is None
    assert jain_index(np.zeros(2)) is None


MEANS = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8).map(np.array)


@given(means=MEANS, factor=st.floats(0.01, 100))
def test_the_jain_index_is_from_1_over_n_to_1_whatever_the_unit(
    means: np.ndarray, factor: float
) -> None:
    index = jain_index(means)
    assert index is not None
    assert 1 / len(means) * (1 - 1e-12) <= index <= 1 + 1e-12
    assert jain_index(factor * means) == pytest.approx(index)
    assert jain_index(np.full(3, means[0])) == pytest.approx(1.0)


def test_floors_rise_by_what_a_region_lacks_to_the_mean() -> None:
    # means 0.9, 0.6 and 0.6; of all turns 0.75; region 3 has none
    quality, user = np.array([0.9, 0.9, 0.6, 0.6, NAN]), np.array([0, 0, 1, 2, 1])
    floors = raised_floors(0.65, 2.0, quality, user, 4)
    np.testing.assert_allclose(floors, [0.65, 0.95, 0.95, 0.65])
    np.testing.assert_allclose(raised_floors(0.65, 9.0, quality, user, 4), [0.65, 1, 1, 0.65])
    np.testing.assert_allclose(raised_floors(0.65, 0.0, quality, user, 4), [0.65] * 4)
    np.testing.assert_allclose(raised_floors(0.65, 2.0, quality[4:], user[4:], 2), [0.65] * 2)


def in_training(name: str) -> bool:
    return hashlib.sha256(name.encode()).digest()[-1] % 2 == 0


LEARNED = [name for name in map("s{}".format, range(40)) if in_training(name)]
UNSEEN = next(name for name in map("s{}".format, range(40)) if not in_training(name))

SIZES = make_catalog(
    {("S", "G"): Costs(1.0, 2.0), ("L", "G"): Costs(4.0, 8.0)},
    {"north": 1.0, "south": 1.0},
    accuracy_percent={"S": 50.0, "L": 80.0},
)


def uneven(weight: float) -> Prepared:
    """Easy questions from the north, harder ones from the south; a third session is no lesson."""
    trace = make_trace(
        {
            LEARNED[0]: [T(10, 10, 0, -2.0)],
            LEARNED[1]: [T(10, 10, 0, -1.0)],
            UNSEEN: [T(10, 10, 0, 1.0)],
        },
        users=["north", "south", "south"],
    )
    return make_world(trace, SIZES, quality_floor=0.5, fairness_weight=weight)


def test_faircarbon_raises_the_floor_of_a_region_served_below_the_mean() -> None:
    even = uneven(0.0)
    assert served_by(even, "faircarbon")[:2] == ["S G north"] * 2
    small, _ = even.deployments.fleet.theta
    k = QualityFit.load().k
    north, south = (1 / (1 + math.exp(-k * (small - b))) for b in (-2.0, -1.0))
    lack = (north + south) / 2 - south
    fair = uneven(2.0)
    # the unseen session's quality does not count
    np.testing.assert_allclose(fair.floors_of("faircarbon"), [0.5, 0.5 + 2 * lack])
    assert (fair.floors_of("carbonrouter") == 0.5).all()
    assert 0.5 + 2 * lack < south  # not yet: the small model is still good enough
    assert served_by(fair, "faircarbon")[:2] == ["S G north"] * 2
    fairer = uneven(4.0)
    assert 0.5 + 4 * lack > south
    assert served_by(fairer, "faircarbon")[:2] == ["S G north", "L G north"]
    assert served_by(fairer, "carbonrouter") == served_by(even, "carbonrouter")
    before, after = (
        Comparison(one, {"faircarbon": run_policy(one, "faircarbon")}).figures("faircarbon")
        for one in (even, fairer)
    )
    assert before["quality_mean"] < after["quality_mean"]


def test_the_table_by_user_region() -> None:
    prepared = uneven(4.0)
    comparison = Comparison(prepared, {"faircarbon": run_policy(prepared, "faircarbon")})
    table = comparison.fairness("faircarbon")
    assert table["user_region"].tolist() == ["north", "south"]
    assert table["turns"].tolist() == [1, 2]
    assert table["unserved_turns"].tolist() == [0, 0]
    quality = comparison.runs["faircarbon"].charges.quality
    np.testing.assert_allclose(table["quality_mean"], [quality[0], quality[1:].mean()])
    # from the north 10 ms + 10 tokens x 1 ms + 100 ms; from the south 50 ms to the north
    np.testing.assert_allclose(table["ttft_ms_mean"], [120, 160])
    np.testing.assert_allclose(table["latency_ms_mean"], [120 + 900, 160 + 900])
    np.testing.assert_allclose(table["quality_floor"], prepared.floors_of("faircarbon"))
    figures = comparison.figures("faircarbon")
    assert figures["latency_gap_ms"] == pytest.approx(40)
    assert figures["latency_jain"] == pytest.approx((1020 + 1060) ** 2 / 2 / (1020**2 + 1060**2))
    assert figures["quality_gap"] == pytest.approx(abs(np.diff(table["quality_mean"])[0]))
    only = comparison.fairness("faircarbon", np.array([True, False, False]))
    assert only["user_region"].tolist() == ["north"]


def test_a_region_with_unserved_turns_alone_has_no_means() -> None:
    trace = make_trace({"a": [T(10, 10)], "b": [T(10**7, 10)]}, users=["north", "south"])
    prepared = make_world(trace, SIZES)
    comparison = Comparison(prepared, {"sticky": run_policy(prepared, "sticky")})
    south = comparison.fairness("sticky").set_index("user_region").loc["south"]
    assert south["unserved_turns"] == 1 and math.isnan(south["quality_mean"])
    shown = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    rows = shown["policies"]["sticky"]["by_user_region"]
    assert [row["quality_mean"] is None for row in rows] == [False, True]
