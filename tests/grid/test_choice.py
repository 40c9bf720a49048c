"""Which series a zone is read from: the user's own first, never mixed, never made up."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pytest

from carbonrouter_core import IntensityError, Scenario, compare, prepare
from carbonrouter_core.grid.choice import common_starts, nearest_start, require_one_accounting
from carbonrouter_core.grid.series import ZoneSeries, builtin_series

HOUR_S, DAY_S = 3600, 86_400
SMALL = Scenario(trace="claude-code", window_days=2)


def own(
    zone: str = "GB", first: str = "2024-05-01", days: int = 60, g_per_kwh: float = 77.0, **other
) -> ZoneSeries:
    """An hourly series of the user, the same value all the time."""
    start_s = int(datetime.fromisoformat(first).replace(tzinfo=UTC).timestamp())
    values = np.full(days * 24, g_per_kwh)
    fields = {
        "zone": zone,
        "basis": "lifecycle",
        "start_s": start_s,
        "step_s": HOUR_S,
        "g_per_kwh": values,
        "estimated_share": np.zeros(len(values)),
        "source": "our meter",
        "licence": "our own",
        "name": "mine",
    }
    return ZoneSeries(**(fields | other))


def test_built_in_means_are_used_and_said_to_be() -> None:
    sources = prepare(SMALL).intensity_sources
    assert [one.zone for one in sources] == ["GB", "US-CAL-CISO", "DE-LU", "AU-NSW"]
    assert [one.region for one in sources] == list(SMALL.regions)
    gb = sources[0]
    assert (gb.own, gb.granularity, gb.basis, gb.kind) == (
        False,
        "3-hour means",
        "lifecycle",
        "average",
    )
    assert gb.licence == "ODbL 1.0" and "Electricity Maps" in gb.source
    assert gb.first_utc == "2021-01-01T00:00Z" and gb.end_utc == "2025-01-01T00:00Z"
    assert gb.estimated_share == 0.0


def test_a_series_of_the_user_goes_first_and_is_named_in_the_results() -> None:
    result = compare(SMALL, ["sticky"], own_series={"GB": [own()]})
    gb, *others = result.prepared.intensity_sources
    assert gb.own and gb.series == "mine" and gb.granularity == "hourly values"
    assert not any(one.own for one in others)
    assert (result.prepared.intensity[:, 0] == 77.0).all()
    assert any("GB is from your series 'mine' (hourly values)" in w for w in result.warnings)
    listed = result.to_dict()["intensity"]
    assert [one["own"] for one in listed] == [True, False, False, False]
    assert listed[0]["licence"] == "our own"


def test_a_series_that_does_not_reach_is_passed_over_and_that_is_said() -> None:
    short = own(days=13)  # to 2024-05-14: the window ends later
    prepared = prepare(
        SMALL.replace(regions=("europe-west2",), gpu_regions={}),
        own_series={"GB": [short, own(name="longer", g_per_kwh=80.0)]},
    )
    assert prepared.intensity_sources[0].series == "longer"
    assert any("'mine' of GB does not cover" in note for note in prepared.warnings)
    builtin = prepare(SMALL, own_series={"GB": [short]})
    assert not builtin.intensity_sources[0].own


def test_traffic_without_dates_beside_a_grid_of_another_year_says_so() -> None:
    later = own("GB", "2026-01-01")
    prepared = prepare(SMALL, own_series={"GB": [later]})
    (note,) = [note for note in prepared.warnings if "has no dates" in note]
    assert "'mine' is of another time (2026-01-01T00:00Z" in note
    assert not [note for note in prepare(SMALL).warnings if "has no dates" in note]


def test_a_zone_with_a_series_of_the_user_only() -> None:
    scenario = SMALL.replace(regions=("europe-west9",), gpu_regions={})  # Paris: built in for 2022
    with pytest.raises(IntensityError, match="2022-01-01T00:00Z to 2023-01-01T00:00Z"):
        prepare(scenario)
    prepared = prepare(scenario, own_series={"FR": [own("FR")]})
    assert prepared.intensity_sources[0].own
    with pytest.raises(IntensityError) as error:
        prepare(scenario.replace(window_start=date(2024, 8, 1)), own_series={"FR": [own("FR")]})
    text = str(error.value)
    assert "from 2024-05-01T00:00Z to 2024-06-30T00:00Z (your series 'mine')" in text
    assert "from 2022-01-01T00:00Z to 2023-01-01T00:00Z" in text


def test_the_nearest_window_that_is_offered_can_be_run() -> None:
    scenario = SMALL.replace(regions=("europe-west9", "europe-west2"), gpu_regions={})
    with pytest.raises(IntensityError, match="nearest window of 2 d that all chosen") as error:
        prepare(scenario)
    start = error.value.nearest_start
    assert start is not None and start.year == 2022
    prepare(scenario.replace(window_start=start))
    with pytest.raises(IntensityError):  # it is the nearest: a day later is too late
        prepare(scenario.replace(window_start=date.fromordinal(start.toordinal() + 1)))


def test_zones_without_a_common_window_say_so() -> None:
    scenario = SMALL.replace(regions=("europe-west9", "europe-west2"), gpu_regions={})
    later = own("FR", "2026-01-01", name="late")
    gb = {"FR": [later], "GB": []}
    with pytest.raises(IntensityError) as error:
        prepare(scenario.replace(window_days=366, window_start=date(2026, 1, 1)), own_series=gb)
    assert error.value.nearest_start is None
    assert "There is no window of 366 d" in str(error.value)


def test_average_and_marginal_are_never_mixed() -> None:
    marginal = {"GB": [own(kind="marginal")]}
    # an average scenario does not touch it
    assert not prepare(SMALL, own_series=marginal).intensity_sources[0].own
    with pytest.raises(IntensityError, match="US-CAL-CISO has average .*asks for marginal"):
        prepare(SMALL.replace(intensity_kind="marginal"), own_series=marginal)
    alone = SMALL.replace(regions=("europe-west2",), gpu_regions={}, intensity_kind="marginal")
    prepared = prepare(alone, own_series=marginal)
    assert prepared.intensity_sources[0].kind == "marginal"
    assert any("marginal" in note for note in prepared.warnings)


def test_direct_and_lifecycle_are_never_mixed() -> None:
    direct = {"FR": [own("FR", basis="direct")]}
    scenario = SMALL.replace(regions=("europe-west9", "europe-west2"), gpu_regions={})
    prepared = prepare(scenario.replace(carbon_basis="direct"), own_series=direct)
    assert {one.basis for one in prepared.intensity_sources} == {"direct"}
    with pytest.raises(IntensityError, match="zone FR .*2022"):  # no lifecycle for 2024
        prepare(scenario, own_series=direct)
    with pytest.raises(IntensityError, match="not of one basis .lifecycle: GB; direct: FR"):
        require_one_accounting([own(), own("FR", basis="direct")])
    with pytest.raises(IntensityError, match="not of one kind"):
        require_one_accounting([own(), own("FR", kind="marginal")])


def test_common_starts_are_counted_in_whole_days() -> None:
    hours = own(first="2024-05-01", days=10)
    later = own("FR", "2024-05-04", days=10)
    (span,) = common_starts([[hours], [later]], days=3)
    assert [date(1970, 1, 1).toordinal() + day for day in span] == [
        date(2024, 5, 4).toordinal(),
        date(2024, 5, 8).toordinal(),
    ]
    assert nearest_start([[hours], [later]], date(2024, 1, 1), 3) == date(2024, 5, 4)
    assert nearest_start([[hours], [later]], date(2024, 5, 6), 3) == date(2024, 5, 6)
    assert nearest_start([[hours], [later]], date(2025, 1, 1), 3, tail_s=1.0) == date(2024, 5, 7)
    early = nearest_start([[hours], [later]], date(2024, 1, 1), 3, days_before=2)
    assert early == date(2024, 5, 6)
    assert nearest_start([[hours], [later]], date(2024, 5, 6), 8) is None


def test_the_share_of_estimated_hours_is_carried_to_the_figures() -> None:
    half = own(estimated_share=np.tile([0.0, 1.0], 60 * 12))
    result = compare(
        SMALL.replace(regions=("europe-west2",), gpu_regions={}),
        ["sticky"],
        own_series={"GB": [half]},
    )
    assert result.prepared.intensity_sources[0].estimated_share == 0.5
    assert any("GB is to 50 % estimated" in note for note in result.warnings)
    run = result.runs["sticky"]
    time_s = result.prepared.scenario.window_start_s + result.prepared.placed.start_s
    odd = (time_s // HOUR_S) % 2 == 1
    expected = run.charges.energy_kwh[odd].sum() / run.charges.energy_kwh.sum()
    figure = result.figures("sticky")["estimated_intensity_share"]
    assert figure == pytest.approx(expected)
    unknown = dataclasses.replace(half, estimated_share=np.full(60 * 24, np.nan))
    result = compare(
        SMALL.replace(regions=("europe-west2",), gpu_regions={}),
        ["sticky"],
        own_series={"GB": [unknown]},
    )
    assert result.figures("sticky")["estimated_intensity_share"] is None
    assert result.prepared.intensity_sources[0].estimated_share is None


def test_three_hour_means_change_the_saving_by_less_than_half_a_point(shared_data) -> None:
    """The built-in means against the hourly series behind them, default scenario."""
    path = shared_data / "raw" / "carbon_intensity_hourly_2021_2024_16zones.parquet"
    zones = ("GB", "US-CAL-CISO", "DE-LU", "AU-NSW")
    frame = pd.read_parquet(path, filters=[("zone", "in", zones)])
    hourly = {}
    for zone, rows in frame.groupby("zone"):
        rows = rows.sort_values("time_utc")
        start_s = rows["time_utc"].to_numpy("datetime64[s]").astype(np.int64)
        assert (np.diff(start_s) == HOUR_S).all()
        values = rows["lifecycle_g_per_kwh"].to_numpy(np.float64)
        hourly[str(zone)] = [
            dataclasses.replace(
                builtin_series("lifecycle")[str(zone)],
                start_s=int(start_s[0]),
                step_s=HOUR_S,
                g_per_kwh=values,
                estimated_share=rows["estimated"].to_numpy(np.float64),
                name="hourly",
            )
        ]
    rule = ("carbonrouter", "faircarbon")
    means = compare(Scenario(), rule)
    hours = compare(Scenario(), rule, own_series=hourly)
    assert all(one.own for one in hours.prepared.intensity_sources)
    savings = [one.saving("carbonrouter").value_percent for one in (hours, means)]
    changed = savings[0] - savings[1]
    print(f"hourly less 3-hour means: {changed:+.2f} percentage points")
    assert abs(changed) < 0.5
