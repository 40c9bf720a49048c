"""Carbon intensity: how series are read, and what is refused."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carbonrouter_core import IntensityError, Scenario, compare
from carbonrouter_core.grid.choice import candidates
from carbonrouter_core.grid.series import (
    IntensityTable,
    ZoneSeries,
    builtin_series,
    intensity_by_region,
)

HOUR_S = 3600


def series(*g_per_kwh: float, step_s: int = 3 * HOUR_S, start_s: int = 0) -> ZoneSeries:
    """A hand-made series of zone XX."""
    values = np.array(g_per_kwh, np.float64)
    return ZoneSeries("XX", "lifecycle", start_s, step_s, values, np.zeros(len(values)))


def epoch(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_a_three_hour_mean_stands_for_the_middle_of_its_interval() -> None:
    means = series(100.0, 160.0, 400.0)  # midpoints at 1:30, 4:30 and 7:30
    hours = np.array([1.5, 2.5, 3.0, 4.5, 6.0, 7.5])
    # 2:30 is a third of the way from 100 to 160; 3:00 half; 6:00 halfway from 160 to 400
    assert means.at(hours * HOUR_S).tolist() == pytest.approx([100, 120, 130, 160, 280, 400])


def test_within_half_an_interval_of_the_ends_the_end_value_holds() -> None:
    means = series(100.0, 160.0)
    assert means.at(np.array([0.0, 0.5, 5.9]) * HOUR_S).tolist() == [100.0, 100.0, 160.0]
    assert series(77.0).at(np.array([0.0, 10_000.0])).tolist() == [77.0, 77.0]


@pytest.mark.parametrize("step_s", [15 * 60, 30 * 60, HOUR_S])
def test_hourly_and_finer_series_hold_a_step(step_s: int) -> None:
    steps = series(100.0, 200.0, 300.0, step_s=step_s)
    times = np.array([0, step_s - 1, step_s, 2 * step_s - 0.001, 2 * step_s, 3 * step_s - 1])
    assert steps.at(times).tolist() == [100.0, 100.0, 200.0, 200.0, 300.0, 300.0]


def test_a_second_before_eleven_is_another_hour_than_eleven() -> None:
    hourly = series(*range(1, 25), step_s=HOUR_S, start_s=int(epoch("2024-05-13")))
    times = np.array([epoch("2024-05-13T10:59:59"), epoch("2024-05-13T11:00:00")])
    assert hourly.at(times).tolist() == [11.0, 12.0]


def test_built_in_figures_are_read_at_the_middle_of_their_interval() -> None:
    # data/carbon_intensity_3h: GB 2024-05-13 12:00 117.8 lifecycle, 65.1 direct; 15:00 135.7
    gb = builtin_series("lifecycle")["GB"]
    assert gb.at(np.array(epoch("2024-05-13T13:30"))) == pytest.approx(117.8)
    assert gb.at(np.array(epoch("2024-05-13T15:00"))) == pytest.approx((117.8 + 135.7) / 2)
    direct = builtin_series("direct")["GB"]
    assert direct.at(np.array(epoch("2024-05-13T13:30"))) == pytest.approx(65.1)


@pytest.mark.parametrize("basis", ["lifecycle", "direct"])
def test_no_built_in_intensity_is_zero_or_missing(basis: str) -> None:
    for one in builtin_series(basis).values():
        assert np.isfinite(one.g_per_kwh).all(), one.zone
        assert (one.g_per_kwh > 0).all(), one.zone
        assert (one.g_per_kwh < 2000).all(), one.zone


@given(
    values=st.lists(st.floats(1, 1500), min_size=1, max_size=8),
    shares=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=6),
    step_s=st.sampled_from([900, HOUR_S, 3 * HOUR_S, 24 * HOUR_S]),
)
def test_what_is_read_lies_within_the_series(
    values: list[float], shares: list[float], step_s: int
) -> None:
    one = series(*values, step_s=step_s, start_s=1_000_000)
    times = one.start_s + np.array(shares) * (one.end_s - one.start_s - 1)
    read = one.at(times)
    assert (read >= min(values) * (1 - 1e-12)).all()
    assert (read <= max(values) * (1 + 1e-12)).all()


def test_reading_keeps_the_shape_it_was_asked_in() -> None:
    means = series(100.0, 160.0)
    times = np.full((2, 3), 3.0 * HOUR_S)
    assert means.at(times).shape == (2, 3)
    assert means.at(times[:, ::2]).shape == (2, 2)  # a view with gaps
    assert means.at(np.array([], np.float64)).shape == (0,)
    assert means.at(np.array(0.0)).shape == ()
    both = intensity_by_region([means, series(10.0, 20.0)], np.array([0.0, HOUR_S, 2.0 * HOUR_S]))
    assert both.shape == (3, 2)
    assert both[0].tolist() == [100.0, 10.0]


def test_a_full_hour_falls_into_its_own_interval_however_late_it_is() -> None:
    for step_s in (300, 900, 1800, HOUR_S):
        values = np.arange(1.0, 30_001.0)
        long = series(*values, step_s=step_s, start_s=1_609_459_200)
        assert (long.at(long.start_s + step_s * np.arange(30_000.0)) == values).all()


@given(
    zone=st.lists(st.integers(0, 2), min_size=1, max_size=20),
    share=st.floats(0, 1, exclude_max=True),
)
def test_a_table_of_zones_reads_as_each_series_does(zone: list[int], share: float) -> None:
    all_three = [
        series(100.0, 160.0, 400.0),
        series(7.0, 8.0, 9.0, step_s=HOUR_S, start_s=50),
        series(*range(1, 30), step_s=300, start_s=-900),
    ]
    table = IntensityTable.of(all_three)
    times = np.array([all_three[z].start_s for z in zone]) + share * 2.9 * HOUR_S * (
        np.array(zone) != 2
    )
    expected = [float(all_three[z].at(np.array(t))) for z, t in zip(zone, times, strict=True)]
    assert table.at(np.array(zone), times).tolist() == expected


def test_a_table_of_zones_broadcasts_and_refuses_what_it_has_not() -> None:
    table = IntensityTable.of([series(1.0, 2.0, step_s=HOUR_S), series(5.0, 6.0, step_s=HOUR_S)])
    both = table.at(np.array([[0], [1]]), np.array([0.0, HOUR_S, HOUR_S]))
    assert both.tolist() == [[1.0, 2.0, 2.0], [5.0, 6.0, 6.0]]
    assert table.at(np.array(1), np.array([0.0, HOUR_S])).tolist() == [5.0, 6.0]
    assert table.at(np.array([], np.int64), np.array([])).shape == (0,)
    for zone, time_s in ((0, -1.0), (0, 7200.0), (1, np.nan), (1, 1e300)):
        with pytest.raises(IntensityError, match="zone XX runs from 1970-01-01T00:00Z"):
            table.at(np.array([zone]), np.array([time_s]))
    for zone in (-1, 2):
        with pytest.raises(IntensityError, match="no zone number"):
            table.at(np.array([zone, 0]), np.array([0.0, 0.0]))


def test_the_share_of_estimated_hours_is_that_of_the_interval() -> None:
    one = dataclasses.replace(series(1.0, 2.0), estimated_share=np.array([0.0, 1 / 3]))
    assert one.estimated_at(np.array([0, 3 * HOUR_S - 1, 3 * HOUR_S])).tolist() == [0, 0, 1 / 3]


# --- Refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize("time_s", [-1.0, 6.0 * HOUR_S, 1.7e9, -1e6])
def test_a_time_outside_the_series_is_refused_naming_zone_and_both_ranges(time_s: float) -> None:
    with pytest.raises(IntensityError) as error:
        series(100.0, 160.0).at(np.array([3600.0, time_s]))
    text = str(error.value)
    assert "zone XX" in text
    assert "1970-01-01T00:00Z to 1970-01-01T06:00Z" in text  # what there is
    asked_s = min(time_s, 3600.0)
    assert f"{datetime.fromtimestamp(asked_s, UTC):%Y-%m-%dT%H:%MZ} to " in text  # what is asked


@pytest.mark.parametrize("time_s", [1e13, 1e300, -1e15])
def test_a_time_beyond_the_calendar_is_refused_too(time_s: float) -> None:
    with pytest.raises(IntensityError, match="zone XX"):
        series(100.0, 160.0).at(np.array([time_s]))


@pytest.mark.parametrize(
    ("zone", "suggested"),
    [("XX-NOWHERE", "Nearest known: "), (" de ", "DE-LU"), ("DE", "DE-LU"), ("gb", "GB"), ("", "")],
)
def test_an_unknown_zone_is_refused_with_the_nearest_names(zone: str, suggested: str) -> None:
    with pytest.raises(IntensityError) as error:
        candidates(zone, "lifecycle", "average", {})
    assert repr(zone) in str(error.value)
    assert suggested in str(error.value)


def test_a_zone_without_direct_figures_says_so() -> None:
    assert len(candidates("FR", "lifecycle", "average", {})) == 1
    with pytest.raises(IntensityError, match="FR has lifecycle intensity only"):
        candidates("FR", "direct", "average", {})


def test_an_unknown_basis_is_refused() -> None:
    with pytest.raises(IntensityError, match="marginal.*lifecycle or direct"):
        builtin_series("marginal")


def test_a_window_that_a_zone_does_not_cover_is_refused() -> None:
    # Paris has 2022 only.
    scenario = Scenario(regions=("europe-west9",), gpu_regions={}, trace="claude-code")
    with pytest.raises(IntensityError) as error:
        compare(scenario)
    text = str(error.value)
    assert "zone FR" in text
    assert "2022-01-01T00:00Z to 2023-01-01T00:00Z" in text
    assert "2024-05-13T00:00Z to 2024-05-27T00:00Z" in text
    assert error.value.nearest_start is not None
    assert str(error.value.nearest_start) in text


@pytest.mark.parametrize("day", ["0001-01-01", "2020-12-31", "2025-01-01", "9999-12-31"])
def test_a_window_in_another_time_is_refused(day: str) -> None:
    with pytest.raises(IntensityError, match="zone GB"):
        compare(Scenario(window_start=day, trace="claude-code"))
