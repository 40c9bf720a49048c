"""The known formats of carbon intensity, and what each says about itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from carbonrouter_core import IntensityError
from carbonrouter_core.grid.importers import INTENSITY_IMPORTERS
from carbonrouter_core.grid.importers.base import IntensityOptions
from carbonrouter_core.grid.series import builtin_series, utc_text
from carbonrouter_core.grid.staging import StagedIntensity, stage_intensity
from carbonrouter_core.reading.files import Source


def bring(path: Path, content: Any = None, **said: Any) -> StagedIntensity:
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return stage_intensity([path], options=IntensityOptions(**said))


# --- Electricity Maps -------------------------------------------------------------------------


def test_electricity_maps_agrees_with_the_hourly_source(shared_data: Path) -> None:
    staged = bring(shared_data / "formats" / "electricity_maps_GB_hourly.csv")
    assert staged.report.format_id == "electricity-maps"
    assert staged.report.licence == "ODbL 1.0"
    by_basis = {one.basis: one for one in staged.series}
    assert by_basis.keys() == {"lifecycle", "direct"}
    raw = pd.read_parquet(
        shared_data / "raw" / "carbon_intensity_hourly_2021_2024_16zones.parquet",
        filters=[("zone", "==", "GB")],
    ).set_index("time_utc")
    for basis, series in by_basis.items():
        assert (series.zone, series.step_s, series.kind) == ("GB", 3600, "average")
        hours = pd.to_datetime(series.start_s + 3600 * np.arange(744), unit="s", utc=True)
        expected = raw.loc[hours, f"{basis}_g_per_kwh"].to_numpy()
        # another release of the same data: most hours are equal, none is of another hour
        assert np.corrcoef(series.g_per_kwh, expected)[0, 1] > 0.95
        # and the built-in 3-hour means are means of such hours
        means = series.g_per_kwh.reshape(-1, 3).mean(axis=1)
        times = series.start_s + 10_800 * np.arange(248) + 5400.0
        built_in = builtin_series(basis)["GB"].at(times)
        assert np.abs(means - built_in).mean() < 0.1 * built_in.mean()


def test_a_zone_that_electricity_maps_calls_otherwise_is_asked_for(shared_data: Path) -> None:
    path = shared_data / "formats" / "electricity_maps_DE-LU_hourly.csv"
    staged = bring(path)
    assert not staged.report.can_store
    assert "unknown zone 'DE'; nearest known: DE-LU" in str(staged.report)
    for said in ({"zones": {"DE": "DE-LU"}}, {"zone": "DE-LU"}):
        staged = bring(path, **said)
        assert {one.zone for one in staged.series} == {"DE-LU"}
    rows = pd.read_csv(path)
    estimated = rows["Data Estimated"].astype(str).str.lower() == "true"
    assert estimated.sum() == 3
    assert (staged.series[0].estimated_share == estimated.to_numpy()).all()


def test_the_newer_column_names_of_electricity_maps(tmp_path: Path) -> None:
    text = (
        "Datetime (UTC),Country,Zone name,Zone id,Carbon intensity gCO₂eq/kWh (direct),"
        "Carbon intensity gCO₂eq/kWh (Life cycle),Carbon-free energy percentage (CFE%),"
        "Data source,Data estimated,Data estimation method\n"
        "2025-01-01 00:00:00,France,France,FR,20.1,35.2,90,x,true,y\n"
        "2025-01-01 01:00:00,France,France,FR,21.1,36.2,90,x,false,\n"
    )
    staged = bring(tmp_path / "a.csv", text)
    assert staged.report.format_id == "electricity-maps"
    lifecycle = next(one for one in staged.series if one.basis == "lifecycle")
    assert lifecycle.g_per_kwh.tolist() == [35.2, 36.2]
    assert lifecycle.estimated_share.tolist() == [1.0, 0.0]


# --- GB Carbon Intensity API ------------------------------------------------------------------


def half_hours(*actual: float | None) -> list[dict[str, Any]]:
    return [
        {
            "from": f"2024-05-13T{i // 2:02d}:{30 * (i % 2):02d}Z",
            "to": f"2024-05-13T{(i + 1) // 2:02d}:{30 * ((i + 1) % 2):02d}Z",
            "intensity": {"forecast": 100 + i, "actual": value, "index": "low"},
        }
        for i, value in enumerate(actual)
    ]


def test_the_gb_api_brings_half_hours_with_forecast(tmp_path: Path) -> None:
    staged = bring(tmp_path / "gb.json", {"data": half_hours(90, None, 110)})
    (series,) = staged.series
    assert staged.report.format_id == "uk-carbon-intensity"
    assert (series.zone, series.step_s, series.basis, series.kind) == (
        "GB",
        1800,
        "direct",
        "average",
    )
    assert series.g_per_kwh.tolist() == [90, 100, 110]
    assert series.estimated_share.tolist() == [0, 1, 0]
    assert series.forecast_g_per_kwh is not None
    assert series.forecast_g_per_kwh.tolist() == [100, 101, 102]
    assert staged.report.licence == "CC BY 4.0"


@pytest.mark.parametrize(
    "text",
    [
        '"Datetime (UTC)","Actual Carbon Intensity (gCO2/kWh)",'
        '"Forecast Carbon Intensity (gCO2/kWh)","Index"\n'
        "2024-05-13 00:00,90,100,low\n2024-05-13 00:30,95,101,low\n",
        "from,to,actual,forecast,index\n2024-05-13T00:00Z,2024-05-13T00:30Z,90,100,low\n"
        "2024-05-13T00:30Z,2024-05-13T01:00Z,95,101,low\n",
    ],
)
def test_the_gb_csv(tmp_path: Path, text: str) -> None:
    staged = bring(tmp_path / "gb.csv", text)
    assert staged.report.format_id == "uk-carbon-intensity"
    (series,) = staged.series
    assert series.g_per_kwh.tolist() == [90, 95]
    assert series.forecast_g_per_kwh is not None
    assert series.forecast_g_per_kwh.tolist() == [100, 101]
    assert utc_text(series.start_s) == "2024-05-13T00:00Z"


def test_regional_forecasts_are_no_truth(tmp_path: Path) -> None:
    value = {"data": [{"from": "2024-05-13T00:00Z", "to": "2024-05-13T00:30Z", "regions": []}]}
    with pytest.raises(IntensityError, match="forecasts only"):
        bring(tmp_path / "gb.json", value)


# --- WattTime ---------------------------------------------------------------------------------


def watttime(signal: str = "co2_moer", units: str = "lbs_co2_per_mwh", **meta: Any) -> Any:
    points = [
        {"point_time": f"2024-05-13T00:{m:02d}:00+00:00", "value": 900.0 + m} for m in (0, 5, 10)
    ]
    meta = {"region": "CAISO_NORTH", "signal_type": signal, "units": units} | meta
    return {"data": points, "meta": {"data_point_period_seconds": 300} | meta}


def test_watttime_is_marginal_and_direct_in_pounds(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    assert "unknown zone 'CAISO_NORTH'" in str(bring(path, watttime()).report)
    staged = bring(path, zones={"CAISO_NORTH": "US-CAL-CISO"})
    (series,) = staged.series
    assert (series.zone, series.step_s) == ("US-CAL-CISO", 300)
    assert (series.basis, series.kind) == ("direct", "marginal")
    assert series.g_per_kwh == pytest.approx([900 * 0.45359237, 905 * 0.45359237, 910 * 0.45359237])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (watttime("health_damage"), "co2_moer and co2_aoer"),
        (watttime(units="usd_per_mwh"), "no unit of carbon intensity"),
        (watttime(generated_at="2024-05-13T00:00Z"), "is a forecast"),
    ],
)
def test_other_signals_of_watttime_are_refused(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(IntensityError, match=said):
        bring(tmp_path / "w.json", content, zone="US-CAL-CISO")


@pytest.mark.parametrize("period", [float("inf"), float("nan"), -300, 0, "300", None])
def test_a_period_that_cannot_be_is_told_from_the_times(tmp_path: Path, period: Any) -> None:
    path = tmp_path / "w.json"
    staged = bring(path, watttime(data_point_period_seconds=period), zone="US-CAL-CISO")
    assert staged.series[0].step_s == 300


def test_watttime_of_version_2_and_csv(tmp_path: Path) -> None:
    points = [
        {"point_time": f"2024-05-13T00:{m:02d}:00.000Z", "value": 900, "frequency": 300,
         "ba": "CAISO_NORTH", "datatype": "MOER", "version": "3.2"}
        for m in (0, 5)
    ]  # fmt: skip
    (series,) = bring(tmp_path / "w.json", points, zone="US-CAL-CISO").series
    assert series.kind == "marginal" and series.step_s == 300
    text = "timestamp,MOER,MOER version,frequency\n" + "".join(
        f"2024-05-13 00:{m:02d}:00+00:00,900,3.2,300\n" for m in (0, 5)
    )
    (series,) = bring(tmp_path / "w.csv", text, zone="US-CAL-CISO").series
    assert series.kind == "marginal"
    assert series.g_per_kwh[0] == pytest.approx(900 * 0.45359237)


# --- Tables of one's own ----------------------------------------------------------------------


def test_a_table_with_both_bases_estimates_and_a_forecast(tmp_path: Path) -> None:
    text = (
        "start_utc,zone,lifecycle_g_per_kwh,direct_g_per_kwh,estimated,forecast_g_per_kwh\n"
        "2024-05-13 00:00,GB,200,150,no,210\n2024-05-13 01:00,GB,220,,yes,190\n"
        "2024-05-13 02:00,GB,240,170,no,\n"
    )
    staged = bring(tmp_path / "own.csv", text, source="our meter", licence="internal")
    lifecycle, direct = staged.series
    assert lifecycle.g_per_kwh.tolist() == [200, 220, 240]
    assert lifecycle.estimated_share.tolist() == [0, 1, 0]
    assert direct.g_per_kwh.tolist() == [150, 160, 170]
    assert lifecycle.source == "our meter" and lifecycle.licence == "internal"
    assert lifecycle.forecast_g_per_kwh is not None
    assert lifecycle.forecast_g_per_kwh[:2].tolist() == [210, 190]
    assert np.isnan(lifecycle.forecast_g_per_kwh[2])
    assert "UTC (the column name 'start_utc')" in staged.report.facts["Time zone"]


def test_several_files_are_one_series(tmp_path: Path) -> None:
    head = "start_utc,zone,lifecycle_g_per_kwh\n"
    (tmp_path / "may.csv").write_text(head + "2024-05-31 22:00,GB,200\n2024-05-31 23:00,GB,210\n")
    (tmp_path / "june.csv").write_text(head + "2024-06-01 00:00,GB,220\n2024-06-01 01:00,GB,-1\n")
    paths = [tmp_path / "june.csv", tmp_path / "may.csv"]
    staged = stage_intensity(paths)
    assert "june.csv, line 3" in staged.report.first_refusal
    (tmp_path / "june.csv").write_text(head + "2024-06-01 00:00,GB,220\n")
    (series,) = stage_intensity(paths).series
    assert series.g_per_kwh.tolist() == [200, 210, 220]


def test_packed_files_and_parquet(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "start_utc": pd.date_range("2024-05-13", periods=3, freq="h", tz="UTC"),
            "zone": "GB",
            "direct_g_per_kwh": [100.0, 110.5, 120.0],
        }
    )
    frame.to_csv(tmp_path / "a.csv.gz", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv.gz", "a.parquet"):
        (series,) = bring(tmp_path / name).series
        assert series.g_per_kwh.tolist() == [100.0, 110.5, 120.0]
        assert utc_text(series.start_s) == "2024-05-13T00:00Z"


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("start_utc,zone,direct\n2024-05-13 00:00,GB,1\n")
    with pytest.raises(IntensityError, match="Unknown carbon-intensity format 'entsoe'"):
        stage_intensity([tmp_path / "a.csv"], "entsoe")
    with pytest.raises(IntensityError, match="no file"):
        stage_intensity([])
    with pytest.raises(IntensityError, match=r"There is no file nowhere\.csv"):
        stage_intensity([tmp_path / "nowhere.csv"])


def test_traces_are_not_taken_for_carbon_intensity(shared_data: Path) -> None:
    files = [path for path in (shared_data / "formats").iterdir() if path.is_file()]
    taken = {
        path.name
        for path in files
        if INTENSITY_IMPORTERS.find(Source(path, path.name, pages=False))
    }
    assert taken == {"electricity_maps_GB_hourly.csv", "electricity_maps_DE-LU_hourly.csv"}


def test_every_format_says_what_it_is() -> None:
    assert {"electricity-maps", "uk-carbon-intensity", "watttime"} < set(INTENSITY_IMPORTERS)
    assert list(INTENSITY_IMPORTERS)[-1] == "own"  # it takes what no other format recognises
    assert all(one.label for one in INTENSITY_IMPORTERS.values())


def test_four_years_of_local_time_come_to_the_same_series_as_utc(
    tmp_path: Path, shared_data: Path
) -> None:
    """Eight clock changes, each hour its own."""
    raw = pd.read_parquet(
        shared_data / "raw" / "carbon_intensity_hourly_2021_2024_16zones.parquet",
        filters=[("zone", "==", "DE-LU")],
    ).sort_values("time_utc")
    for name, zone in (("UTC", "UTC"), ("local", "Europe/Berlin")):
        table = pd.DataFrame(
            {
                "time": raw["time_utc"].dt.tz_convert(zone).dt.strftime("%d.%m.%Y %H:%M"),
                "zone": raw["zone"],
                "lifecycle": raw["lifecycle_g_per_kwh"].map("{:.2f}".format).str.replace(".", ","),
            }
        )
        table.to_csv(tmp_path / f"{name}.csv", index=False, sep=";")
    (utc,) = bring(tmp_path / "UTC.csv", timezone="UTC").series
    (local,) = bring(tmp_path / "local.csv", timezone="Europe/Berlin").series
    assert len(utc.g_per_kwh) == 35_064
    assert local.sha256 == utc.sha256
    assert not local.estimated_share.any()
