"""Tables as operators publish them, of each kind a small one made here; and any other table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from carbonrouter_core import IntensityError
from carbonrouter_core.grid.importers import INTENSITY_IMPORTERS
from carbonrouter_core.grid.importers.base import IntensityOptions
from carbonrouter_core.grid.importers.published import TABLES
from carbonrouter_core.grid.series import utc_text
from carbonrouter_core.grid.staging import StagedIntensity, stage_intensity

ROOT = Path(__file__).resolve().parents[2]
HOURS = [f"2024-05-01T{hour:02d}:00:00" for hour in range(8)]


class Bring:
    """Stages a file with the given content, and what a user says of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, content: Any, name: str = "grid", **said: Any) -> StagedIntensity:
        path = self.folder / name
        if not isinstance(content, str | bytes):
            content = json.dumps(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return stage_intensity([path], options=IntensityOptions(**said))


@pytest.fixture
def bring(tmp_path: Path) -> Bring:
    return Bring(tmp_path)


def table(header: str, *rows: str) -> str:
    return "\n".join([header, *rows]) + "\n"


def test_electricity_maps_api_by_basis_and_as_past_range(bring: Bring) -> None:
    def record(hour: str, value: float, basis: str) -> dict[str, Any]:
        return {"zone": "GB", "datetime": hour + "Z", "carbonIntensity": value,
                "emissionFactorType": basis, "isEstimated": False}  # fmt: skip

    data = [record(hour, 400, "lifecycle") for hour in HOURS]
    data += [record(hour, 300, "direct") for hour in HOURS]
    staged = bring({"zone": "GB", "data": data, "temporalGranularity": "hourly"})
    assert staged.report.format_id == "electricity-maps-api"
    means = {series.basis: series.g_per_kwh.mean() for series in staged.series}
    assert means == {"lifecycle": 400, "direct": 300}
    with pytest.raises(IntensityError, match="forecast"):
        bring({"zone": "GB", "forecast": data})


def test_eco2mix_of_rte_in_local_time_with_its_remark(bring: Bring) -> None:
    """Dates and clock times in two columns, a tab at the end of each row, Windows-1252."""
    rows = [
        f"France\tDonnées définitives\t2022-03-27\t{hour:02d}:{minute:02d}\t{60 + hour}\t"
        for hour in (0, 1, 3, 4)  # clocks go forward at 2
        for minute in (0, 30)
    ]
    text = table(
        "Périmètre\tNature\tDate\tHeures\tTaux de Co2",
        *rows,
        "RTE ne pourra être tenu responsable de l'usage des données",
    )
    staged = bring(text.encode("cp1252"))
    (series,) = staged.series
    assert staged.report.format_id == "rte-eco2mix"
    assert (series.zone, series.step_s) == ("FR", 1800)
    assert utc_text(series.start_s) == "2022-03-26T23:00Z"
    assert series.g_per_kwh.tolist() == [60, 60, 61, 61, 63, 63, 64, 64]
    assert any("WINDOWS-1252" in guess for guess in staged.report.guesses)
    assert any("remark" in guess for guess in staged.report.guesses)


def test_eco2mix_as_json_of_odre(bring: Bring) -> None:
    records = [
        {"perimetre": "France", "date": hour[:10], "heure": hour[11:16], "taux_co2": 30 + i,
         "date_heure": hour + "+00:00"}
        for i, hour in enumerate(HOURS)
    ]  # fmt: skip
    (series,) = bring(records).series
    assert utc_text(series.start_s) == "2024-05-01T00:00Z"
    assert series.g_per_kwh.tolist() == list(range(30, 38))


def test_open_grid_emissions_takes_all_fuels_and_what_is_consumed(bring: Bring) -> None:
    header = (
        "fuel_category,datetime_utc,generated_co2e_rate_lb_per_mwh_for_electricity,"
        "generated_co2_rate_lb_per_mwh_for_electricity"
    )
    rows = [
        f"{fuel},{hour}+00:00,{value},{value - 1}"
        for hour in HOURS
        for fuel, value in (("coal", 2000), ("total", 1000))
    ]
    (series,) = bring(table(header, *rows), zone="US-CAL-CISO").series
    assert series.g_per_kwh == pytest.approx([453.59237] * 8)
    header = (
        "datetime_utc,consumed_nox_rate_lb_per_mwh_for_electricity,"
        "consumed_co2_rate_lb_per_mwh_for_electricity,"
        "consumed_co2e_rate_lb_per_mwh_for_electricity,"
        "consumed_co2e_rate_lb_per_mwh_for_electricity_adjusted"
    )
    text = table(header, *(f"{hour}+00:00,5,990,1000,700" for hour in HOURS))
    (series,) = bring(text, zone="US-CAL-CISO").series
    assert series.g_per_kwh == pytest.approx([453.59237] * 8)


def test_the_sdk_says_the_interval_but_not_the_kind(bring: Bring) -> None:
    record = {"Location": "GB", "Time": HOURS[0] + "Z", "Rating": 200, "Duration": "00:30:00"}
    staged = bring([record], basis="direct")
    assert staged.series[0].step_s == 1800
    assert any("average" in guess for guess in staged.report.guesses)
    assert bring([record], basis="direct", kind="marginal").series[0].kind == "marginal"


def test_neso_through_the_interface_of_its_portal(bring: Bring) -> None:
    records = [{"DATETIME": hour, "CARBON_INTENSITY": 90, "LOW_CARBON": 1} for hour in HOURS]
    staged = bring({"success": True, "result": {"records": records, "fields": [{"id": "GAS"}]}})
    assert (staged.report.format_id, staged.series[0].zone) == ("neso", "GB")


# --- Any other table --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("UTC time", "{hour}"),
        ("interval_start_local,interval_start_utc", "2024-04-30T17:00:00,{hour}"),
        ("created,HourUTC,HourDK", "2024-05-03 10:00,{hour},2024-05-01 02:00"),
        ("Interval Start (UTC),Interval End (UTC)", "{hour},2024-05-09 00:00"),
        ("datetimeUTC", "{hour}"),
        ("Date (UTC),Time (UTC)", "{date},{clock}"),
    ],
)
def test_times_are_found_by_their_words(bring: Bring, header: str, cells: str) -> None:
    rows = [
        cells.format(hour=hour, date=hour[:10], clock=hour[11:16]) + ",GB,400" for hour in HOURS
    ]
    staged = bring(table(header + ",zone,lifecycle_g_per_kwh", *rows))
    staged.require()
    assert utc_text(staged.series[0].start_s) == "2024-05-01T00:00Z"
    assert len(staged.series[0].g_per_kwh) == 8


def test_hours_from_1_to_24_are_ends(bring: Bring) -> None:
    rows = [f"2024-05-01,{hour},GB,{400 + hour}" for hour in range(1, 25)]
    staged = bring(table("Date,Hour,zone,direct g/kWh", *rows), timezone="UTC")
    (series,) = staged.series
    assert utc_text(series.start_s) == "2024-05-01T00:00Z"
    assert series.g_per_kwh.tolist() == [401 + hour for hour in range(24)]
    assert "ends of intervals" in staged.report.facts["Times are"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("direct_lb_per_kwh", 400 / 453.59237),
        ("direct lbs CO2/MWh", 400 / 0.45359237),
        ("direct short tons per MWh", 400 / 907.18474),
        ("direct metric tons CO2e/MWh", 0.4),
        ("direct t/GWh", 400),
    ],
)
def test_units_of_the_united_states(bring: Bring, column: str, value: float) -> None:
    staged = bring(table(f"start_utc,zone,{column}", *(f"{hour},GB,{value}" for hour in HOURS)))
    assert staged.series[0].g_per_kwh == pytest.approx([400] * 8)


def test_json_records_of_any_service(bring: Bring) -> None:
    points = [{"start_utc": hour, "intensity": {"direct_g_per_kwh": 200}} for hour in HOURS]
    staged = bring({"region": "GB", "response": {"data": points}})
    assert (staged.series[0].zone, staged.series[0].g_per_kwh.mean()) == ("GB", 200)
    columns = {"start_utc": HOURS, "direct_g_per_kwh": [200] * 8}
    assert bring(columns, zone="GB").series[0].g_per_kwh.mean() == 200


def test_rows_that_are_always_blank_are_no_holes(bring: Bring) -> None:
    def rows(every: int) -> list[str]:
        quarters = [f"2024-05-01T{q // 4:02d}:{q % 4 * 15:02d}Z" for q in range(48)]
        return [f"{time},GB,{400 if q % every == 0 else ''}" for q, time in enumerate(quarters)]

    header = "time,zone,lifecycle_g_per_kwh"
    (series,) = bring(table(header, *rows(2))).series
    assert (series.step_s, series.estimated_share.sum()) == (1800, 0)
    some = rows(1)
    some[5] = some[5].removesuffix("400")
    (series,) = bring(table(header, *some)).series
    assert (series.step_s, series.estimated_share.sum()) == (900, 1)


def test_the_documentation_lists_every_format() -> None:
    text = (ROOT / "docs" / "grid-data.md").read_text()
    for entry in TABLES:
        assert f"| `{entry.id}` | {entry.label} | {entry.says} |" in text
    assert all(f"| `{format_id}` |" in text for format_id in INTENSITY_IMPORTERS)
