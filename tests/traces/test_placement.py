"""Placing a trace in time: draws that belong to a session, and what the trace brings itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carbonrouter_core import Scenario, ScenarioError, compare
from carbonrouter_core.paths import data_path
from carbonrouter_core.traces import draws
from carbonrouter_core.traces.builtin import builtin_trace
from carbonrouter_core.traces.loading import read_trace
from carbonrouter_core.traces.placement import PlacedTrace, chat_difficulty, gap_table, place
from carbonrouter_core.traces.schema import Trace
from tests.hand_made import T, make_trace

DAY_S, HOUR_S = 86_400, 3_600
FOUR = {"europe-west2": 1.0, "us-west2": 1.0, "europe-west3": 1.0, "australia-southeast1": 1.0}
OFFSET_H = {"europe-west2": 0, "us-west2": -8, "europe-west3": 1, "australia-southeast1": 10}


def placed(trace: Trace, **changes: object) -> PlacedTrace:
    """``trace`` in a window of 14 days, with users equally in four regions."""
    options = {
        "window_days": 14,
        "user_mix": FOUR,
        "utc_offset_h": OFFSET_H,
        "gaps": "mooncake",
        "gap_median_s": None,
        "seed": 7,
    }
    return place(trace, **(options | changes))


def bare(sessions: dict[str, int]) -> Trace:
    """Sessions of so many turns that bring no time, place or difficulty."""
    turns = {name: [T(10, 5)] * count for name, count in sessions.items()}
    return make_trace(turns, start_s=None, difficulty=None)


def by_session(one: PlacedTrace) -> dict[str, list]:
    """Times, user regions and difficulties of each session, by its id."""
    trace = one.trace
    columns = list(
        zip(
            one.start_s.tolist(),
            [one.user_regions[user] for user in one.user],
            one.difficulty.tolist(),
            strict=True,
        )
    )
    return {
        name: columns[trace.offsets[i] : trace.offsets[i + 1]]
        for i, name in enumerate(trace.session_ids)
    }


MANY = bare({f"session {i}": 1 for i in range(8000)})


# --- Draws belong to a session ----------------------------------------------------------------


@settings(max_examples=40)
@given(
    sessions=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        st.integers(1, 5),
        min_size=1,
        max_size=8,
    ),
    data=st.data(),
)
def test_other_sessions_do_not_change_where_a_session_is_placed(
    sessions: dict[str, int], data: st.DataObject
) -> None:
    whole = by_session(placed(bare(sessions)))
    kept = data.draw(st.lists(st.sampled_from(sorted(sessions)), min_size=1, unique=True))
    assert by_session(placed(bare({name: sessions[name] for name in kept}))) == {
        name: whole[name] for name in kept
    }


def test_a_session_that_goes_on_keeps_its_first_turns() -> None:
    short, long = by_session(placed(bare({"a": 3}))), by_session(placed(bare({"a": 9})))
    assert long["a"][:3] == short["a"]


def test_the_same_seed_places_alike_and_another_seed_otherwise() -> None:
    trace = bare({"a": 4, "b": 2})
    assert by_session(placed(trace)) == by_session(placed(trace))
    other = by_session(placed(trace, seed=8))
    for name, turns in by_session(placed(trace)).items():
        assert all(mine[0] != theirs[0] for mine, theirs in zip(turns, other[name], strict=True))
        assert all(mine[2] != theirs[2] for mine, theirs in zip(turns, other[name], strict=True))


def test_the_purposes_draw_apart() -> None:
    # Where users are must not tell when they start or how they write.
    one = placed(MANY)
    assert abs(np.corrcoef(one.difficulty, one.user == 0)[0, 1]) < 0.05
    assert abs(np.corrcoef(one.start_s, one.difficulty)[0, 1]) < 0.05
    key = MANY.session_keys
    assert (draws.uniform(7, "users", key) != draws.uniform(7, "starts", key)).all()


@pytest.mark.parametrize("index", [0, 1, 5])
def test_draws_are_uniform(index: int) -> None:
    drawn = draws.uniform(7, "test", MANY.session_keys, index)
    assert ((drawn > 0) & (drawn < 1)).all()
    counts = np.bincount((drawn * 20).astype(int), minlength=20)
    # 400 expected in each of 20 bins; chi-square with 19 degrees stays below 43.8 in 99.9 %
    assert ((counts - 400) ** 2 / 400).sum() < 43.8


def test_neighbouring_draws_of_a_session_are_independent() -> None:
    key = MANY.session_keys
    pairs = [draws.uniform(7, "test", key, i) for i in (0, 1, 2)]
    assert abs(np.corrcoef(pairs[0], pairs[1])[0, 1]) < 0.05
    assert abs(np.corrcoef(pairs[0], pairs[2])[0, 1]) < 0.05
    assert abs(np.corrcoef(pairs[0], draws.uniform(8, "test", key, 0))[0, 1]) < 0.05


def test_normal_draws_have_mean_0_and_deviation_1() -> None:
    drawn = draws.normal(7, "test", MANY.session_keys)
    assert abs(drawn.mean()) < 0.04
    assert abs(drawn.std() - 1) < 0.03
    assert abs((drawn > 1.96).mean() - 0.025) < 0.006


# --- Users ------------------------------------------------------------------------------------


def test_users_are_equally_in_the_regions_of_the_mix() -> None:
    share = np.bincount(placed(MANY).user, minlength=4) / MANY.n_sessions
    assert np.abs(share - 0.25).max() < 0.02


def test_weights_shift_the_mix() -> None:
    one = placed(MANY, user_mix={"us-west2": 3.0, "europe-west2": 0.0, "europe-west3": 1.0})
    assert one.user_regions == ("us-west2", "europe-west2", "europe-west3")
    share = np.bincount(one.user, minlength=3) / MANY.n_sessions
    assert share[1] == 0.0
    assert abs(share[0] - 0.75) < 0.02


def test_a_user_stays_in_one_region_for_the_session() -> None:
    for turns in by_session(placed(bare({f"s{i}": 6 for i in range(30)}))).values():
        assert len({region for _, region, _ in turns}) == 1


def test_a_user_region_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ScenarioError, match="Unknown region 'us-west99'"):
        placed(MANY, user_mix={"us-west99": 1.0})


# --- Starts -----------------------------------------------------------------------------------


def local_hours() -> np.ndarray:
    """RAGPulse's share of session starts by local hour, (12 + floor(t_s / 3600)) mod 24."""
    turns = pd.read_parquet(data_path("ragpulse_turns.parquet"))
    first = turns.groupby("session")["t_s"].min().to_numpy()
    counts = np.bincount((12 + first // HOUR_S).astype(int) % 24, minlength=24)
    return counts / counts.sum()


def test_sessions_start_within_the_window_on_any_day() -> None:
    start_s = placed(MANY).start_s
    assert ((start_s >= 0) & (start_s < 14 * DAY_S)).all()
    days = np.bincount((start_s // DAY_S).astype(int), minlength=14) / MANY.n_sessions
    assert np.abs(days - 1 / 14).max() < 0.015


@pytest.mark.parametrize("region", FOUR)
def test_sessions_start_by_the_local_hour_of_their_users(region: str) -> None:
    start_s = placed(MANY, user_mix={region: 1.0}).start_s
    hour = ((start_s + OFFSET_H[region] * HOUR_S) // HOUR_S).astype(int) % 24
    share = np.bincount(hour, minlength=24) / MANY.n_sessions
    assert np.abs(share - local_hours()).max() < 0.015


def test_sydney_starts_ten_hours_before_london() -> None:
    london = placed(MANY, user_mix={"europe-west2": 1.0}).start_s
    sydney = placed(MANY, user_mix={"australia-southeast1": 1.0}).start_s
    later = (london - sydney) % (14 * DAY_S)
    assert later == pytest.approx(np.full(MANY.n_sessions, 10.0 * HOUR_S), abs=1e-6)


def test_within_an_hour_starts_are_spread() -> None:
    minute = placed(MANY).start_s % HOUR_S // 600
    share = np.bincount(minute.astype(int), minlength=6) / MANY.n_sessions
    assert np.abs(share - 1 / 6).max() < 0.02


# --- Gaps -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "median_s"), [("mooncake", 126), ("ragpulse", 38)])
def test_gap_tables_have_the_medians_of_their_sources(name: str, median_s: float) -> None:
    table = gap_table(name)
    assert np.median(table) == pytest.approx(median_s, abs=0.5)
    assert (table >= 0).all()
    assert (np.diff(table) >= 0).all()


@pytest.mark.parametrize("name", ["mooncake", "ragpulse"])
def test_a_table_can_be_stretched_to_another_median(name: str) -> None:
    table, stretched = gap_table(name), gap_table(name, 300.0)
    assert np.median(stretched) == pytest.approx(300.0)
    assert stretched == pytest.approx(table * (300.0 / np.median(table)))
    assert np.median(gap_table(name)) == np.median(table)  # the table itself is as it was


@pytest.mark.parametrize("name", ["mooncake", "ragpulse"])
def test_gaps_are_drawn_from_the_table(name: str) -> None:
    one = placed(bare({f"s{i}": 11 for i in range(400)}), gaps=name)
    gaps_s = np.diff(one.start_s.reshape(400, 11), axis=1)
    table = gap_table(name)
    # every gap is one of the table, up to the rounding of adding it to a time
    at = np.clip(np.searchsorted(table, gaps_s), 1, len(table) - 1)
    off = np.minimum(np.abs(table[at] - gaps_s), np.abs(table[at - 1] - gaps_s))
    assert off.max() < 1e-6
    assert np.median(gaps_s) == pytest.approx(np.median(table), rel=0.1)
    assert (gaps_s > 3600).mean() == pytest.approx((table > 3600).mean(), abs=0.01)


# --- What the trace brings --------------------------------------------------------------------


def test_relative_times_are_kept_from_a_drawn_start() -> None:
    sessions = {"a": [T(1, 1)] * 3, "b": [T(1, 1)] * 2}
    t_s = np.array([5.0, 65.0, 4005.0, 0.0, 9.0])  # a's clock begins at 5
    one = placed(make_trace(sessions, start_s=None, t_s=t_s))
    assert one.start_s[:3] - one.start_s[0] == pytest.approx([0.0, 60.0, 4000.0])
    assert one.start_s[3:] - one.start_s[3] == pytest.approx([0.0, 9.0])
    drawn = placed(make_trace(sessions, start_s=None))
    assert one.start_s[[0, 3]].tolist() == drawn.start_s[[0, 3]].tolist()


def test_times_difficulties_and_users_of_the_trace_are_kept() -> None:
    users = ["us-west2", "us-west2", "europe-west9"]
    sessions = {"a": [T(1, 1, 500.0, 0.5), T(1, 1, 600.0, -2.0)], "b": [T(1, 1, 0.0, 1.0)]}
    one = placed(make_trace(sessions, users=users), utc_offset_h=OFFSET_H | {"europe-west9": 0})
    assert one.start_s.tolist() == [500.0, 600.0, 0.0]
    assert one.difficulty.tolist() == [0.5, -2.0, 1.0]
    assert [one.user_regions[user] for user in one.user] == users
    assert one.user_regions[:4] == tuple(FOUR)  # those of the scenario first


def test_drawn_difficulty_has_the_spread_of_the_chat_data() -> None:
    one = placed(bare({f"s{i}": 5 for i in range(3000)}))
    mean, spread, correlation = chat_difficulty()
    assert one.difficulty.mean() == pytest.approx(mean, abs=0.03)
    assert one.difficulty.std() == pytest.approx(spread, rel=0.03)
    turns = one.difficulty.reshape(3000, 5)
    assert np.corrcoef(turns[:, 0], turns[:, 4])[0, 1] == pytest.approx(correlation, abs=0.05)


def test_where_the_difficulty_comes_from_is_said(tmp_path: Path) -> None:
    assert "text" in placed(builtin_trace("sharegpt")).difficulty_source
    drawn = placed(bare({"a": 1}))
    assert "drawn" in drawn.difficulty_source
    # What was drawn, written to a file and read back, was not read from any text.
    drawn.to_frame().to_csv(tmp_path / "placed.csv", index=False)
    again = placed(read_trace(tmp_path / "placed.csv"))
    assert "predicted from the text" not in again.difficulty_source


# --- Written and read back --------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("source", ["sharegpt", "claude-code"])
def test_a_placed_trace_reads_back_to_identical_figures(
    tmp_path: Path, suffix: str, source: str
) -> None:
    trace = builtin_trace(source).between(0, 60)
    scenario = Scenario(user_mix={"us-west2": 1, "europe-west2": 2, "europe-west9": 1})
    policies = ["carbonrouter", "faircarbon", "free-migration"]
    first = compare(scenario, policies, trace)
    path = tmp_path / f"placed.{suffix}"
    frame = first.prepared.placed.to_frame()
    assert list(frame)[:5] == ["session", "turn", "start_s", "user_region", "difficulty"]
    if suffix == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)
    # another seed and other gaps draw nothing any more
    again = compare(scenario.replace(trace=str(path), seed=99, gaps="ragpulse"), policies)
    assert again.to_dict()["policies"] == first.to_dict()["policies"]


def test_rows_in_another_order_read_back_to_the_same_sessions(tmp_path: Path) -> None:
    one = placed(bare({"a": 4, "b": 3, "c": 5}))
    path = tmp_path / "placed.csv"
    one.to_frame().sample(frac=1, random_state=0).to_csv(path, index=False)
    assert by_session(placed(read_trace(path))) == by_session(one)
