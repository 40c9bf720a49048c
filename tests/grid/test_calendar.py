"""Days of a series, typical days, the cleanest region, and windows held against each other."""

from __future__ import annotations

import json
from datetime import date

import numpy as np
import pytest

from carbonrouter_core import Scenario, ScenarioError
from carbonrouter_core.cli.main import main
from carbonrouter_core.grid.calendar import (
    cleanest,
    common_days,
    daily_means,
    epoch_of,
    typical_day,
    whole_days,
)
from carbonrouter_core.grid.series import ZoneSeries, builtin_series
from carbonrouter_core.studies.seasons import (
    compare_knowledge,
    compare_windows,
    seasons,
    usable_starts,
)

HOUR_S = 3600
MAY = date(2024, 5, 1)
SMALL = Scenario(trace="claude-code", window_days=2, models=("Llama-3.1-8B", "Gemma-3-27B"))


def series(values: np.ndarray, step_s: int = HOUR_S, late_s: int = 0) -> ZoneSeries:
    values = np.asarray(values, np.float64)
    estimated = (np.arange(len(values)) % 4 == 0).astype(float)
    return ZoneSeries("XX", "lifecycle", epoch_of(MAY) + late_s, step_s, values, estimated)


def test_daily_means_are_means_of_whole_days() -> None:
    one = series(np.r_[np.arange(24.0) + 1, np.full(24, 100.0), np.full(12, 7.0)])
    days = daily_means(one, date(2024, 1, 1), date(2024, 12, 31))
    assert days["day"].tolist() == [MAY, date(2024, 5, 2)]  # half a day is none
    assert days["g_per_kwh"].tolist() == [12.5, 100.0]
    assert days["estimated_share"].tolist() == [0.25, 0.25]
    assert daily_means(one, date(2025, 1, 1), date(2025, 2, 1)).empty


@pytest.mark.parametrize("step_s", [300, 900, 1800, HOUR_S])
def test_finer_series_have_the_same_daily_means(step_s: int) -> None:
    each = 86_400 // step_s
    values = 50 + np.arange(2 * each) * step_s / HOUR_S
    means = daily_means(series(values, step_s), MAY, date(2024, 5, 2))["g_per_kwh"]
    assert means.tolist() == pytest.approx([values[:each].mean(), values[each:].mean()])


def test_whole_days_leave_out_the_first_and_last_that_are_cut() -> None:
    assert whole_days(series(np.ones(48))) == (MAY, date(2024, 5, 2))
    assert whole_days(series(np.ones(48), late_s=HOUR_S)) == (date(2024, 5, 2), date(2024, 5, 2))
    first, last = whole_days(series(np.ones(24), late_s=HOUR_S))
    assert first > last
    later = series(np.ones(72), late_s=86_400)
    assert common_days([series(np.ones(48)), later]) == (date(2024, 5, 2), date(2024, 5, 2))
    assert common_days([series(np.ones(24)), later]) is None


def test_a_typical_day_has_the_mean_and_the_band_of_each_hour() -> None:
    # hour h of day d is 100 h + 10 d over 11 days: mean 100 h + 50, deciles 10 and 90
    days, hours = np.divmod(np.arange(11 * 24), 24)
    day = typical_day(series(100.0 * hours + 10 * days + 1), MAY, date(2024, 5, 11))
    assert day["hour"].tolist() == list(range(24))
    assert day["g_per_kwh"].to_numpy() == pytest.approx(100 * np.arange(24) + 51)
    assert day["low_g_per_kwh"].to_numpy() == pytest.approx(100 * np.arange(24) + 11)
    assert day["high_g_per_kwh"].to_numpy() == pytest.approx(100 * np.arange(24) + 91)


def test_how_often_each_region_is_the_cleanest() -> None:
    north = series(np.tile(np.r_[np.full(6, 10.0), np.full(18, 50.0)], 2))
    south = series(np.full(48, 30.0))
    table = cleanest({"north": north, "south": south}, MAY, date(2024, 5, 2))
    assert table["region"].tolist() == ["north", "south"]
    assert table["cleanest_share"].tolist() == [0.25, 0.75]
    assert table["mean_g_per_kwh"].tolist() == [40.0, 30.0]


def test_built_in_daily_means_lie_near_the_means_of_their_intervals() -> None:
    gb = builtin_series("lifecycle")["GB"]
    year = daily_means(gb, date(2024, 1, 1), date(2024, 12, 31))
    assert len(year) == 366
    begin = (epoch_of(date(2024, 1, 1)) - gb.start_s) // gb.step_s
    blocks = gb.g_per_kwh[begin : begin + 8 * 366].reshape(-1, 8).mean(axis=1)
    assert np.abs(year["g_per_kwh"] - blocks).max() < 15  # read linearly between midpoints
    assert abs(year["g_per_kwh"].mean() - blocks.mean()) < 0.5


# --- Windows ----------------------------------------------------------------------------------


def test_seasons_are_four_windows_that_all_zones_have() -> None:
    assert seasons(Scenario()) == tuple(date(2024, m, 15) for m in (1, 4, 7, 10))
    moved = seasons(SMALL.replace(regions=("europe-west9",), gpu_regions={}))
    assert len(moved) == 1 and moved[0].year == 2022  # Paris is built in for 2022 only
    ((first, last),) = usable_starts(Scenario())
    assert date(1970, 1, 1).toordinal() + first == date(2021, 1, 1).toordinal()
    assert date(1970, 1, 1).toordinal() + last == date(2024, 12, 18).toordinal()


def test_the_same_workload_in_several_windows() -> None:
    starts = (date(2024, 5, 13), date(2024, 1, 15), date(2031, 1, 1))
    may, january, none = compare_windows(SMALL, starts, ["sticky"])
    assert (may.start, january.start) == starts[:2]
    assert may.figures["sticky"]["carbon_g"] != january.figures["sticky"]["carbon_g"]
    assert may.figures["sticky"]["turns"] == january.figures["sticky"]["turns"]
    assert may.saving["sticky"].low_percent is not None
    assert set(may.intensity) == set(SMALL.regions)
    assert "runs from" in none.problem and none.figures == {}
    with pytest.raises(ScenarioError, match="no window"):
        list(compare_windows(SMALL, ()))


def test_the_cost_of_knowing_less() -> None:
    results = list(
        compare_knowledge(SMALL, ["cleanest-region"], ["usual-7d", "persistence", "forecast"])
    )
    by_kind = {one.knowledge: one for one in results}
    assert list(by_kind) == ["current", "usual-7d", "persistence", "forecast"]
    assert by_kind["current"].cost_percent == 0.0
    assert by_kind["usual-7d"].cost_percent is not None and by_kind["usual-7d"].cost_percent > 0
    assert "no forecast" in by_kind["forecast"].problem


# --- Commands ---------------------------------------------------------------------------------


def test_zones_lists_what_there_is_and_keeps_sites(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))
    assert main(["zones"]) == 0
    listed = capsys.readouterr().out
    assert "lifecycle + direct" in listed and "FR " in listed
    assert "London" in listed and "1.20 assumed" in listed
    assert main(["zones", "--add-site", "Galway", "GB", "53.35", "-6.26"]) == 0
    assert "PUE 1.20 (assumed)" in capsys.readouterr().out
    assert main(["zones"]) == 0
    assert "Galway" in capsys.readouterr().out
    assert main(["zones", "--add-site", "Cork", "GB", "x", "1"]) == 2
    assert main(["zones", "--add-site", "Cork"]) == 2
    assert main(["zones", "--delete-site", "Galway"]) == 0
    assert main(["zones", "--delete", "nothing"]) == 2
    assert "Unknown intensity data" in capsys.readouterr().err


def test_windows_says_what_zones_share_and_runs_them(capsys: pytest.CaptureFixture[str]) -> None:
    fixed = ["windows", "--trace", "claude-code", "--set", "models=Llama-3.1-8B"]
    assert main([*fixed, "--set", "window_days=2"]) == 0
    assert "can begin from 2021-01-01 to 2024-12-30" in capsys.readouterr().out
    assert main([*fixed, "--starts", "2024-01-15,2031-01-01", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert [one["start"] for one in out["windows"]] == ["2024-01-15", "2031-01-01"]
    assert out["windows"][1]["problem"]
    assert main([*fixed, "--starts", "2024-01-15"]) == 0
    assert "2024-01-15" in capsys.readouterr().out
    assert main([*fixed, "--starts", "soon"]) == 2
