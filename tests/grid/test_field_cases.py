"""Grid files as people have them, from ``../shared/data/field_cases``: the right series of each.

The values are those of EXPECTED.tsv there. What a file does not say is said here, as a user would.
"""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from carbonrouter_core.errors import IntensityError
from carbonrouter_core.grid.importers.base import IntensityOptions
from carbonrouter_core.grid.series import utc_text
from carbonrouter_core.grid.staging import stage_intensity


class Right(NamedTuple):
    """Zone, basis, step in minutes, number, least and greatest value, start, and estimated."""

    zone: str
    basis: str
    step_min: int
    values: int
    least: float
    greatest: float
    start: str
    estimated: int = 0


MAY = "2024-05-01T00:00Z"
RTE = Right("FR", "direct", 30, 48, 20, 43, "2024-04-30T22:00Z")
CARBONCAST = Right("US-CAL-CISO", "lifecycle", 60, 24, 136.66, 353.56, "2023-03-12T00:00Z")
SDK = Right("GB", "direct", 60, 24, 200, 223, MAY)
DANISH = Right("DK-DK1", "direct", 5, 288, 80.5, 109.2, MAY)

SERIES: dict[str, tuple[dict[str, Any], Right]] = {
    "G03_em_old_avg.csv": (
        {"zones": {"DE": "DE-LU"}},
        Right("DE-LU", "lifecycle", 60, 48, 300, 347, "2021-01-04T00:00Z"),
    ),
    "G04_em_api_history.json": (
        {"zones": {"DE": "DE-LU"}},
        Right("DE-LU", "lifecycle", 60, 24, 400, 423, MAY, 2),
    ),
    "G09_energy_charts_co2eq.json": (
        {"zone": "DE-LU", "basis": "lifecycle"},
        Right("DE-LU", "lifecycle", 15, 96, 300, 395, MAY, 1),
    ),
    "G10_eco2mix_odre.csv": ({}, RTE),
    "G10b_eco2mix_latin1.csv": ({}, RTE),
    "G12b_lb_per_kwh.csv": (
        {},
        Right("US-CAL-CISO", "direct", 60, 24, 0.4 * 453.59237, 0.63 * 453.59237, MAY),
    ),
    "G13_carboncast_lifecycle.csv": ({"zone": "US-CAL-CISO"}, CARBONCAST),
    "G13b_carboncast_direct_old.csv": (
        {"zone": "US-CAL-CISO"},
        CARBONCAST._replace(basis="direct", start="2021-07-01T00:00Z"),
    ),
    "G14_casdk_hourly.json": ({"zones": {"uksouth": "GB"}, "basis": "direct"}, SDK),
    "G14b_casdk_cli.json": ({"zones": {"uksouth": "GB"}, "basis": "direct"}, SDK),
    "G19_energidataservice_co2emis.csv": ({}, DANISH),
    "G19b_energidataservice.json": ({}, DANISH),
    "G21c_neso_two.csv": ({}, Right("GB", "direct", 30, 48, 120, 167, MAY)),
    "G24_gridstatus_co2.csv": (
        {"zone": "US-CAL-CISO"},
        Right("US-CAL-CISO", "direct", 5, 288, 200, 487, MAY),
    ),
}
REFUSED = {"G11_aemo_co2eii.csv": "one value a day"}


@pytest.mark.parametrize("name", SERIES)
def test_a_field_case_comes_to_the_right_series(shared_data: Path, name: str) -> None:
    said, right = SERIES[name]
    staged = stage_intensity([shared_data / "field_cases" / name], options=IntensityOptions(**said))
    staged.require()
    (series,) = staged.series
    assert (series.zone, series.basis, series.kind) == (right.zone, right.basis, "average")
    assert (series.step_s, utc_text(series.start_s)) == (60 * right.step_min, right.start)
    assert len(series.g_per_kwh) == right.values
    assert series.g_per_kwh.min() == pytest.approx(right.least)
    assert series.g_per_kwh.max() == pytest.approx(right.greatest)
    assert (series.estimated_share > 0).sum() == right.estimated


@pytest.mark.parametrize("name", REFUSED)
def test_a_field_case_that_cannot_be_used_says_why(shared_data: Path, name: str) -> None:
    with pytest.raises(IntensityError, match=REFUSED[name]):
        stage_intensity([shared_data / "field_cases" / name])


def test_no_grid_file_of_the_field_cases_is_left_out(shared_data: Path) -> None:
    names = {path.name for path in (shared_data / "field_cases").glob("G*")}
    assert names == SERIES.keys() | REFUSED.keys()
