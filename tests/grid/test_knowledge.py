"""What a router could have known: never the future, and accounting stays with the truth."""

from __future__ import annotations

import dataclasses
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carbonrouter_core import IntensityError, Scenario, compare, prepare
from carbonrouter_core.grid.knowledge import known_at, seconds_before
from carbonrouter_core.grid.series import ZoneSeries
from carbonrouter_core.scenario import KNOWLEDGE

HOUR_S, DAY_S = 3600, 86_400
START_S = 1_715_558_400  # 2024-05-13


def series(values: np.ndarray, step_s: int, forecast: np.ndarray | None = None) -> ZoneSeries:
    values = np.asarray(values, np.float64)
    estimated = np.zeros(len(values))
    return ZoneSeries(
        "XX", "lifecycle", 0, step_s, values, estimated, name="mine", forecast_g_per_kwh=forecast
    )


def test_the_usual_profile_is_the_mean_of_the_days_before_at_that_hour() -> None:
    # hour h of day d is 100 + 10 d + h: at 05:30 of day 7 the seven days before have
    # 105, 115, ... 165, whose mean is 135
    days, hours = np.divmod(np.arange(8 * 24), 24)
    one = series(100 + 10 * days + hours, HOUR_S)
    at = np.array([7 * DAY_S + 5.5 * HOUR_S])
    assert known_at(one, at, "usual-7d").tolist() == [135.0]
    assert known_at(one, at, "current").tolist() == [175.0]
    assert known_at(one, at, "persistence").tolist() == [174.0]


def test_persistence_on_means_is_the_last_one_that_had_ended() -> None:
    means = series(np.array([100.0, 160.0, 400.0]), 3 * HOUR_S)
    at = np.array([3.0, 5.99, 6.0, 8.9]) * HOUR_S
    assert known_at(means, at, "persistence").tolist() == [100.0, 100.0, 160.0, 160.0]


def test_a_forecast_is_read_in_place_of_the_truth() -> None:
    one = series(np.array([100.0, 200.0, 300.0]), HOUR_S, np.array([90.0, 210.0, np.nan]))
    at = np.array([0.5, 1.0]) * HOUR_S
    assert known_at(one, at, "forecast").tolist() == [90.0, 210.0]
    with pytest.raises(IntensityError, match=r"no value for 1970-01-01T02:00Z"):
        known_at(one, np.array([2.0 * HOUR_S]), "forecast")
    with pytest.raises(IntensityError, match="which has no forecast"):
        known_at(dataclasses.replace(one, forecast_g_per_kwh=None), at, "forecast")


@given(
    seed=st.integers(0, 2**32 - 1),
    step_s=st.sampled_from([300, 900, 1800, HOUR_S, 2 * HOUR_S, 3 * HOUR_S]),
    knowledge=st.sampled_from(["usual-7d", "usual-28d", "persistence"]),
    share=st.floats(0, 1, exclude_max=True),
)
def test_nothing_known_comes_from_the_future(
    seed: int, step_s: int, knowledge: str, share: float
) -> None:
    """Whatever is changed in intervals that have not ended changes nothing that is known."""
    rng = np.random.default_rng(seed)
    count = 30 * DAY_S // step_s
    past = rng.uniform(20, 900, count)
    back_s = seconds_before(knowledge, step_s)
    at = np.array([back_s + share * (30 * DAY_S - back_s - 1)])
    ended = (np.arange(count) + 1) * step_s <= at[0]
    other = np.where(ended, past, rng.uniform(20, 900, count))
    known = known_at(series(past, step_s), at, knowledge)
    assert known == known_at(series(other, step_s), at, knowledge)
    assert past[ended].min() - 1e-9 <= known[0] <= past[ended].max() + 1e-9


@pytest.mark.parametrize("knowledge", ["usual-7d", "usual-28d", "persistence"])
def test_a_series_that_does_not_reach_back_is_refused(knowledge: str) -> None:
    hourly = series(np.arange(1.0, 31 * 24 + 1), HOUR_S)
    first = float(seconds_before(knowledge, HOUR_S))
    known_at(hourly, np.array([first]), knowledge)
    with pytest.raises(IntensityError, match=r"begins at 1970-01-01T00:00Z"):
        known_at(hourly, np.array([first - 1]), knowledge)


def test_the_first_window_with_a_usual_profile_is_named() -> None:
    scenario = Scenario(window_start=date(2021, 1, 5), intensity_knowledge="usual-7d")
    with pytest.raises(IntensityError, match=r"usual-7d needs 7 d before it.*2021-01-08") as error:
        prepare(scenario)
    assert error.value.nearest_start == date(2021, 1, 8)
    prepare(scenario.replace(window_start=date(2021, 1, 8)))


def test_an_unknown_kind_of_knowledge_is_refused() -> None:
    with pytest.raises(IntensityError, match="Unknown knowledge"):
        known_at(series(np.ones(300), HOUR_S), np.array([2.0 * DAY_S]), "tarot")


def test_policies_see_what_is_known_and_are_charged_the_truth() -> None:
    base = Scenario(trace="claude-code", window_days=7)
    true = compare(base, ["cleanest-region", "hindsight-optimum"])
    blind = compare(
        base.replace(intensity_knowledge="persistence"), ["cleanest-region", "hindsight-optimum"]
    )
    prepared = blind.prepared
    assert (prepared.intensity == true.prepared.intensity).all()
    assert true.prepared.known_intensity is true.prepared.intensity
    run = blind.runs["cleanest-region"]
    served = run.decisions.served
    region = prepared.deployments.fleet.region[run.decisions.deployment[served]]
    rows = np.flatnonzero(served)
    # charged: the truth of the region that was taken
    assert (run.charges.intensity_g_per_kwh[served] == prepared.intensity[rows, region]).all()
    # taken: the region that seemed cleanest (all regions fit all turns alike here)
    seemed = prepared.known_intensity[rows].argmin(axis=1)
    assert np.mean(region == seemed) > 0.99
    assert np.mean(region == prepared.intensity[rows].argmin(axis=1)) < 0.99
    # a bound that knows the future knows the grid
    assert (
        blind.figures("hindsight-optimum")["carbon_g"]
        == true.figures("hindsight-optimum")["carbon_g"]
    )


def test_every_kind_of_knowledge_is_a_choice_of_the_scenario() -> None:
    for knowledge in KNOWLEDGE:
        assert Scenario(intensity_knowledge=knowledge).intensity_knowledge == knowledge
