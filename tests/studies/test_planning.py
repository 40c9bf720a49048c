"""Energy planning: hours and regions add up to the run; a year is its seasons."""

from datetime import date

import numpy as np
import pandas as pd
import pytest

from carbonrouter_core import Scenario, compare
from carbonrouter_core.errors import InputError
from carbonrouter_core.studies import planning
from carbonrouter_core.studies.planning import HourlyLoad
from carbonrouter_core.studies.sweep import Outcome
from carbonrouter_core.units import power_scale

DAY_S = 86_400


@pytest.fixture(scope="module")
def comparison():
    return compare(Scenario(trace="claude-code"), ("carbonrouter", "faircarbon"))


@pytest.fixture(scope="module")
def load(comparison) -> HourlyLoad:
    return planning.hourly_load(comparison, "carbonrouter")


def test_hours_and_regions_add_up_to_the_run(comparison, load: HourlyLoad) -> None:
    charges = comparison.runs["carbonrouter"].charges
    assert load.energy_kwh.sum() == pytest.approx(charges.energy_kwh.sum(), rel=1e-12)
    assert load.carbon_g.sum() == pytest.approx(charges.carbon_g.sum(), rel=1e-12)
    assert load.turns.sum() == comparison.runs["carbonrouter"].decisions.served.sum()
    traffic = comparison.traffic("carbonrouter")
    np.testing.assert_allclose(load.energy_kwh.sum(axis=1), traffic["energy_kwh"], rtol=1e-12)


def test_every_hour_of_the_window_is_there(comparison, load: HourlyLoad) -> None:
    scenario = comparison.prepared.scenario
    assert load.start_s[0] == scenario.window_start_s
    assert load.start_s[-1] >= scenario.window_end_s - 3600
    assert (np.diff(load.start_s) == 3600).all()


def test_a_turn_counts_in_the_hour_it_starts_in(comparison, load: HourlyLoad) -> None:
    prepared, run = comparison.prepared, comparison.runs["carbonrouter"]
    turn = int(np.flatnonzero(run.decisions.served)[0])
    at_s = prepared.scenario.window_start_s + prepared.placed.start_s[turn]
    region = prepared.deployments.fleet.region[run.decisions.deployment[turn]]
    hour = int((at_s - load.start_s[0]) // 3600)
    assert load.start_s[hour] <= at_s < load.start_s[hour] + 3600
    assert load.energy_kwh[region, hour] >= run.charges.energy_kwh[turn] * (1 - 1e-12)


def two_days() -> HourlyLoad:
    """Two regions, 48 hours: the first draws its hour of the day, the second 1 kW at 5 only."""
    hour = np.arange(48) % 24
    energy = np.stack([hour.astype(float), (hour == 5).astype(float)])
    return HourlyLoad(
        "carbonrouter",
        ("a", "b"),
        np.arange(48) * 3600,
        turns=energy,
        energy_kwh=energy,
        carbon_g=energy * 100,
        days=2.0,
    )


def test_peaks_and_typical_day_of_a_load_made_by_hand() -> None:
    load = two_days()
    rows = load.by_region().set_index("region")
    assert rows.loc["a", "peak_kw"] == 23 and rows.loc["a", "mean_kw"] == 11.5
    assert rows.loc["a", "energy_kwh_per_day"] == 276
    assert rows.loc["a", "carbon_g_per_day"] == 27_600
    assert rows.loc["a", "peak_hour_utc"] == pd.Timestamp("1970-01-01T23:00Z")
    assert rows.loc["b", "peak_hour_utc"] == pd.Timestamp("1970-01-01T05:00Z")
    assert rows["typical_peak_hour_utc"].tolist() == [23, 5]
    assert rows["typical_peak_kw"].tolist() == [23, 1]
    typical = load.typical_day(load.energy_kwh)
    assert typical.shape == (2, 24)
    assert (typical[0] == np.arange(24)).all() and typical[1].sum() == 1


def test_what_runs_past_the_window_belongs_to_the_typical_day() -> None:
    """A window of a day, and a conversation that goes on in the first hour of the next."""
    energy = np.zeros((1, 25))
    energy[0, 0], energy[0, 24] = 2.0, 1.0
    start_s = np.arange(25) * 3600
    load = HourlyLoad("sticky", ("a",), start_s, energy, energy, energy, days=1.0)
    assert load.typical_day(energy)[0, 0] == 3.0
    row = load.by_region().iloc[0]
    assert row["mean_kw"] * 24 == row["energy_kwh_per_day"] == 3.0
    assert row["peak_kw"] == 2.0


def test_a_typical_day_adds_up_to_the_energy_a_day(load: HourlyLoad) -> None:
    typical = load.typical_day(load.energy_kwh)
    assert typical.sum() == pytest.approx(load.energy_kwh.sum() / 14)
    np.testing.assert_allclose(
        typical.sum(axis=1), load.by_region()["energy_kwh_per_day"], rtol=1e-12
    )


def test_a_region_that_draws_nothing_has_no_peak_hour() -> None:
    energy = np.stack([np.zeros(24), np.arange(24.0)])
    load = HourlyLoad("sticky", ("a", "b"), np.arange(24) * 3600, energy, energy, energy, 1.0)
    rows = load.by_region()
    assert rows["peak_hour_utc"].isna().tolist() == [True, False]
    assert rows["typical_peak_hour_utc"].isna().tolist() == [True, False]


def test_carbon_costs_its_price_a_tonne() -> None:
    assert planning.cost_of_carbon(2_500_000.0, 80.0) == 200.0
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="0 or more"):
            planning.cost_of_carbon(1.0, wrong)


def test_powers_read_1_or_more() -> None:
    assert [power_scale(kw).unit for kw in (0.0, 0.4, 1.0, 999.0, 1000.0)] == [
        "kW", "W", "kW", "kW", "MW",
    ]  # fmt: skip
    assert 0.4 * power_scale(0.4).factor == 400


def test_scaling_and_moved_power() -> None:
    load = two_days()
    assert (load.times(3).energy_kwh == 3 * load.energy_kwh).all()
    moved = planning.moved_power_kw(load.times(3), load)
    assert (moved[0] == 2 * np.arange(24)).all()


def test_volume_is_conversations_a_day(comparison) -> None:
    a_day = comparison.trace.n_sessions / comparison.prepared.scenario.window_days
    assert planning.volume_factor(comparison, 10 * a_day) == pytest.approx(10)
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="above 0"):
            planning.volume_factor(comparison, wrong)


def test_the_schedule_has_a_row_a_region_and_hour(comparison, load: HourlyLoad) -> None:
    frame = planning.schedule(comparison, load)
    assert list(frame) == list(planning.SCHEDULE_COLUMNS)
    assert len(frame) == load.energy_kwh.size
    assert frame["energy_kwh"].sum() == pytest.approx(load.energy_kwh.sum())
    first = frame[frame["region"] == "us-west2"].iloc[0]
    assert first["hour_utc"] == "2024-05-13T00:00:00Z"
    assert first["hour_local"] == "2024-05-12T16:00:00-08:00"
    utc, local = pd.to_datetime(frame["hour_utc"]), pd.to_datetime(frame["hour_local"], utc=True)
    assert (utc == local).all()


def test_the_usual_profile_is_of_the_days_before(comparison) -> None:
    profile = planning.usual_profile(comparison)
    assert not profile["from_window"].any()
    series, start_s = comparison.prepared.series[0], comparison.prepared.scenario.window_start_s
    noons = start_s - DAY_S * np.arange(1, planning.PROFILE_DAYS + 1) + 12 * 3600
    region = comparison.prepared.deployments.regions[0].region
    ours = profile[(profile["region"] == region) & (profile["hour_utc"] == 12)]
    assert ours["intensity_g_per_kwh"].item() == pytest.approx(series.at(noons).mean())
    for _, one in profile.groupby("region"):
        cleanest = one.loc[one["rank"] == 1, "intensity_g_per_kwh"].item()
        assert cleanest == one["intensity_g_per_kwh"].min()
        assert sorted(one["rank"]) == list(range(1, 25))


def test_a_year_is_the_mean_of_its_seasons() -> None:
    base = Scenario()
    points = planning.season_points(base, 2023)
    assert [p.scenario.window_start for p in points] == [
        date(2023, 1, 15),
        date(2023, 4, 15),
        date(2023, 7, 15),
        date(2023, 10, 15),
    ]
    outcomes = [
        Outcome(p, {"carbonrouter": {"sessions": 100, "energy_kwh": 2.0, "carbon_g": 10.0 * n}})
        for n, p in enumerate(points)
    ]
    year = planning.project_year(outcomes, "carbonrouter", sessions_per_day=1000)
    assert year.energy_kwh == pytest.approx(2.0 * 10 * 365.25)
    assert year.carbon_g == pytest.approx(15.0 * 10 * 365.25)
    assert [one["carbon_g_per_day"] for one in year.seasons] == [0, 100, 200, 300]


def test_a_season_that_cannot_run_is_named() -> None:
    points = planning.season_points(Scenario(), 2030)
    with pytest.raises(InputError, match="2030-01-15 cannot run: no data"):
        planning.project_year([Outcome(p, error="no data") for p in points], "carbonrouter", 1.0)
