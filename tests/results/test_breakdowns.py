"""Figures by group: each turn in one group, sums that add up, means, and signed differences."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carbonrouter_core import POLICIES, Comparison, Scenario, compare, run_policy
from carbonrouter_core.results.breakdowns import (
    DIMENSIONS,
    MEANS,
    SUMS,
    UNSERVED,
    breakdown,
    differences,
    groups,
)
from tests.hand_made import Costs, T, make_catalog, make_trace, make_world

CATALOG = make_catalog(
    {("small", "gpu"): Costs(1, 2), ("large", "gpu"): Costs(3, 5)},
    {"north": 1.0, "south": 1.5},
    {"small": 40.0, "large": 70.0},
    {"small": 1.0, "large": 10.0},
    {"small": 50, "large": 1000},
)


@pytest.fixture(scope="module")
def chat() -> Comparison:
    return compare(Scenario(), ("carbonrouter-lookahead", "faircarbon"))


def check_adds_up(run: Comparison, policy_id: str, dimension: str) -> None:
    table = breakdown(run, policy_id, dimension)
    figures, charges = run.figures(policy_id), run.runs[policy_id].charges
    assert list(table.columns) == [*SUMS, *MEANS]
    for name in ("carbon_g", "recompute_g", "prompt_g", "decode_g", "host_g", "energy_kwh"):
        assert table[name].sum() == pytest.approx(figures[name], rel=1e-9, abs=1e-300), name
    assert table["turns"].sum() == figures["turns"]
    assert table["served_turns"].sum() == figures["turns"] - figures["unserved_turns"]
    assert table["moves"].sum() == round(figures["moves_per_session"] * figures["sessions"])
    assert not (table[list(SUMS)] < 0).any(axis=None)
    parts = table[["recompute_g", "prompt_g", "decode_g", "host_g"]].sum(axis=1)
    np.testing.assert_allclose(parts, table["carbon_g"], rtol=1e-9)
    served = table["served_turns"].to_numpy(float)
    for name in MEANS:
        values = getattr(charges, name.removesuffix("_mean"))
        np.testing.assert_allclose(
            np.nansum(table[name] * served), np.nansum(values), rtol=1e-9, atol=1e-300
        )
        assert (table[name].isna() == (served == 0)).all()


@pytest.mark.parametrize("dimension", list(DIMENSIONS))
def test_sums_are_the_totals_of_the_run(chat: Comparison, dimension: str) -> None:
    for policy_id in chat.runs:
        check_adds_up(chat, policy_id, dimension)


@given(
    sessions=st.lists(
        st.lists(
            st.tuples(st.integers(1, 400), st.integers(0, 300), st.integers(0, 100_000)),
            min_size=1,
            max_size=6,
        ),
        min_size=1,
        max_size=4,
    ),
    policy_id=st.sampled_from(sorted(POLICIES)),
)
@settings(max_examples=60)
def test_sums_are_the_totals_of_any_run(
    sessions: list[list[tuple[int, int, int]]], policy_id: str
) -> None:
    """Unserved turns too: 400 + 300 tokens soon outgrow the models' windows."""
    trace = make_trace(
        {
            str(number): [T(p, o, at) for p, o, at in sorted(turns, key=lambda turn: turn[2])]
            for number, turns in enumerate(sessions)
        }
    )
    world = make_world(trace, CATALOG)
    run = Comparison(world, {policy_id: run_policy(world, policy_id)})
    for dimension in DIMENSIONS:
        check_adds_up(run, policy_id, dimension)


def test_a_world_by_hand() -> None:
    """Two sessions from two user regions; the second's last turn fits in no model."""
    trace = make_trace(
        {"a": [T(10, 5, 3600.0)], "b": [T(20, 10, 7200.0), T(2000, 10, 7260.0)]},
        users=["north", "south", "south"],
    )
    world = make_world(trace, CATALOG, user_mix={"north": 1.0, "south": 1.0})
    run = Comparison(world, {"sticky": run_policy(world, "sticky")})

    by_hour = breakdown(run, "sticky", "hour_utc")
    assert list(by_hour.index) == [f"{hour:02d}" for hour in range(24)]
    assert by_hour["turns"].to_dict() == dict.fromkeys(by_hour.index, 0) | {"01": 1, "02": 2}
    # small serves both: 10 x 1 + 5 x 2 = 20 J, 20 x 1 + 10 x 2 = 40 J, a milligram each
    assert by_hour["carbon_g"][["01", "02"]].tolist() == pytest.approx([0.020, 0.040])

    by_model = breakdown(run, "sticky", "model")
    assert by_model["turns"].to_dict() == {"small": 2, "large": 0, UNSERVED: 1}
    assert by_model["served_turns"].tolist() == [2, 0, 0]
    by_region = breakdown(run, "sticky", "region")
    assert by_region["turns"].to_dict() == {"north": 2, "south": 0, UNSERVED: 1}
    by_user = breakdown(run, "sticky", "user_region")
    assert by_user["served_turns"].to_dict() == {"north": 1, "south": 1}
    # 10 or 50 ms there and back, 1 ms a prompt token, 100 ms for each output token
    assert by_user["ttft_ms_mean"].tolist() == pytest.approx([10 + 10 + 100, 50 + 20 + 100])
    by_length = breakdown(run, "sticky", "turns_per_session")
    assert by_length["turns"].to_dict() == {"1": 1, "2-5": 2, "6-10": 0, "11-30": 0, "> 30": 0}


def test_every_turn_is_in_a_group(chat: Comparison) -> None:
    for dimension in DIMENSIONS:
        group, names = groups(chat, "faircarbon", dimension)
        assert group.shape == (chat.trace.n_turns,)
        assert group.min() >= 0 and group.max() < len(names)


def test_differences_have_a_sign_and_add_up(chat: Comparison) -> None:
    ours, theirs = (breakdown(chat, name, "model") for name in chat.runs)
    less = differences(ours, theirs)
    totals = [chat.figures(name)["carbon_g"] for name in chat.runs]
    assert less["carbon_g"].sum() == pytest.approx(totals[0] - totals[1], rel=1e-9)
    pd.testing.assert_frame_equal(less, -differences(theirs, ours))


def test_groups_that_only_one_has() -> None:
    columns = [*SUMS, *MEANS]
    ours = pd.DataFrame(1.0, index=["here", "both"], columns=columns)
    theirs = pd.DataFrame(3.0, index=["both", "there"], columns=columns)
    less = differences(ours, theirs)
    assert less["carbon_g"].to_dict() == {"here": 1.0, "both": -2.0, "there": -3.0}
    assert less["quality_mean"].isna().to_dict() == {"here": True, "both": False, "there": True}
