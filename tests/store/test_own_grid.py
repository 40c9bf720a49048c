"""A user's series and sites in the store: kept, preferred, named, deleted; and the commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from carbonrouter_core import CatalogError, InputError, Scenario, load_catalog, prepare
from carbonrouter_core.cli.main import main
from carbonrouter_core.grid.importers.base import IntensityOptions
from carbonrouter_core.grid.staging import stage_intensity
from carbonrouter_core.replay.checks import problems
from carbonrouter_core.store import database
from carbonrouter_core.store.series import (
    delete_intensity,
    load_intensity,
    save_intensity,
    stored_intensity,
)
from carbonrouter_core.store.sites import add_site, delete_site, own_sites
from carbonrouter_core.store.store import open_store

ROOT = Path(__file__).resolve().parents[2]
SMALL = Scenario(trace="claude-code", window_days=2)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty store of one's own."""
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"


def table(
    path: Path, zone: str = "GB", days: int = 60, value: float = 77.0, forecast: bool = False
) -> Path:
    """An hourly table from 2024-05-01."""
    hours = np.datetime64("2024-05-01T00", "h") + np.arange(24 * days)
    head = "start_utc,zone,lifecycle_g_per_kwh" + (",forecast" if forecast else "")
    more = f",{value + 1}" if forecast else ""
    path.write_text(head + "\n" + "".join(f"{hour}:00,{zone},{value}{more}\n" for hour in hours))
    return path


def keep(path: Path, name: str = "mine", **said: object) -> None:
    save_intensity(stage_intensity([path], options=IntensityOptions(**said)), name)


# --- Series -----------------------------------------------------------------------------------


def test_what_is_stored_reads_back_the_same(tmp_path: Path, shared_data: Path) -> None:
    path = shared_data / "formats" / "electricity_maps_DE-LU_hourly.csv"
    staged = stage_intensity([path], options=IntensityOptions(zone="DE-LU"))
    assert save_intensity(staged, " may ") == "may"
    read = load_intensity("may")
    for mine, theirs in zip(read, staged.series, strict=True):
        assert mine.sha256 == theirs.sha256
        assert (mine.estimated_share == theirs.estimated_share).all()
        assert mine.name == "may" and mine.licence == theirs.licence
    keep(table(tmp_path / "a.csv", forecast=True), "with forecast")
    (series,) = load_intensity("with forecast")
    assert series.forecast_g_per_kwh is not None and (series.forecast_g_per_kwh == 78).all()
    assert [one.name for one in stored_intensity()] == ["with forecast", "may"]


def test_a_stored_series_is_used_at_once_and_gone_once_deleted(tmp_path: Path) -> None:
    before = prepare(SMALL)
    keep(table(tmp_path / "a.csv"))
    after = prepare(SMALL)
    assert (after.intensity[:, 0] == 77.0).all()
    assert after.intensity_sources[0].series == "mine"
    assert (after.intensity[:, 1:] == before.intensity[:, 1:]).all()
    without = prepare(SMALL.replace(own_intensity=False))
    assert (without.intensity == before.intensity).all()
    delete_intensity("mine")
    assert (prepare(SMALL).intensity == before.intensity).all()


def test_the_newest_series_goes_first_also_under_a_name_used_before(tmp_path: Path) -> None:
    keep(table(tmp_path / "a.csv", value=70.0), "old")
    keep(table(tmp_path / "a.csv", value=80.0), "new")
    assert prepare(SMALL).intensity[0, 0] == 80.0
    delete_intensity("new")
    keep(table(tmp_path / "a.csv", value=90.0), "new")
    assert prepare(SMALL).intensity[0, 0] == 90.0
    with pytest.raises(InputError, match="already"):
        keep(table(tmp_path / "a.csv"), "new")


def test_deleting_a_series_leaves_nothing_of_it(tmp_path: Path) -> None:
    keep(table(tmp_path / "a.csv"), "kept")
    keep(table(tmp_path / "b.csv", value=80.0), "gone")
    delete_intensity("gone")
    assert [one.name for one in stored_intensity()] == ["kept"]
    assert len(list(open_store().tables_folder.iterdir())) == 1
    with pytest.raises(InputError, match="no stored carbon intensity 'gone'"):
        load_intensity("gone")


def test_while_another_program_holds_the_store_built_in_series_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(table(tmp_path / "a.csv"))
    monkeypatch.setattr(database, "LOCK_WAIT_S", 0.1)
    code = (
        f"import duckdb\nheld = duckdb.connect({str(open_store().path)!r})\n"
        "print('open', flush=True)\ninput()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout is not None and other.stdout.readline().strip() == b"open"
        prepared = prepare(SMALL)
    finally:
        other.communicate(b"\n")
    assert not prepared.intensity_sources[0].own
    assert any("could not be read" in note for note in prepared.warnings)
    assert prepare(SMALL).intensity_sources[0].own


# --- Sites ------------------------------------------------------------------------------------


def test_a_site_can_be_used_like_any_region(tmp_path: Path) -> None:
    dublin = add_site("Galway", "GB", 53.35, -6.26)
    assert dublin.pue == 1.20 and dublin.pue_assumed
    catalog = load_catalog()
    assert list(catalog.regions)[-1] == "Galway"
    # 463 km from London by the haversine formula: 16.8 + 15.1 * 0.463 = 23.8 ms
    assert catalog.rtt_ms["Galway", "europe-west2"] == pytest.approx(23.8, abs=0.05)
    assert catalog.rtt_basis["Galway", "europe-west2"] == "distance fit"
    assert catalog.rtt_ms["Galway", "Galway"] == 5.0
    prepared = prepare(SMALL.replace(regions=("Galway",), gpu_regions={}))
    assert prepared.deployments.regions[0] == dublin
    assert prepared.intensity_sources[0].zone == "GB"
    add_site("Cork", "GB", 51.9, -8.5, pue=1.1)
    assert load_catalog().regions["Cork"].pue == 1.1
    assert ("Cork", "Galway") in load_catalog().rtt_ms
    delete_site("Galway")
    assert [one.region for one in own_sites()] == ["Cork"]
    assert "Galway" not in load_catalog().regions


def test_a_site_may_stand_on_a_grid_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="import its series first"):
        add_site("Reykjavik", "IS", 64.1, -21.9)
    keep(table(tmp_path / "a.csv", "IS", value=28.0), new_zones=("IS",))
    add_site("Reykjavik", "IS", 64.1, -21.9, 1.05)
    scenario = SMALL.replace(regions=("Reykjavik",), gpu_regions={})
    assert (prepare(scenario).intensity == 28.0).all()
    assert problems(scenario, load_catalog()) == ()
    assert any("IS" in p.message for p in problems(scenario, load_catalog(), {}))


def test_a_series_that_a_site_stands_on_is_not_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(table(tmp_path / "a.csv", "IS", value=28.0), "iceland", new_zones=("IS",))
    keep(table(tmp_path / "b.csv"), "london")
    add_site("Reykjavik", "IS", 64.1, -21.9)
    add_site("Cork", "GB", 51.9, -8.5)  # has the built-in series as well
    assert main(["zones", "--delete", "iceland"]) == 2
    said = capsys.readouterr().err
    assert "your site Reykjavik (IS)" in said and "--delete-site" in said
    assert main(["zones", "--delete", "london"]) == 0
    keep(table(tmp_path / "c.csv", "IS", value=29.0), "again", new_zones=("IS",))
    assert main(["zones", "--delete", "iceland"]) == 0  # another one is left
    assert main(["zones", "--delete", "again"]) == 2
    assert main(["zones", "--delete-site", "Reykjavik"]) == 0
    assert main(["zones", "--delete", "again"]) == 0


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"name": " "}, "1 to 80 characters"),
        ({"name": "a\nb"}, "1 to 80 characters"),
        ({"name": "london"}, "already a region"),
        ({"name": "europe-west2"}, "already a region"),
        ({"zone": "XX"}, "Unknown zone"),
        ({"latitude": 91.0}, "latitude"),
        ({"longitude": float("nan")}, "longitude"),
        ({"pue": 0.9}, "PUE"),
    ],
)
def test_an_impossible_site_is_refused(said: dict, message: str) -> None:
    fields = {"name": "Galway", "zone": "GB", "latitude": 53.0, "longitude": -6.0} | said
    with pytest.raises(CatalogError, match=message):
        add_site(**fields)
    assert own_sites() == ()


def test_built_in_regions_cannot_be_deleted() -> None:
    with pytest.raises(CatalogError, match="built-in"):
        delete_site("europe-west2")


# --- Commands ---------------------------------------------------------------------------------


def test_import_validate_and_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shared_data: Path
) -> None:
    file = str(shared_data / "formats" / "electricity_maps_DE-LU_hourly.csv")
    assert main(["validate", file]) == 2
    assert "nearest known: DE-LU" in capsys.readouterr().out
    assert main(["validate", file, "--zone", "DE=DE-LU", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [one["zone"] for one in report["series"]] == ["DE-LU", "DE-LU"]
    assert stored_intensity() == []
    assert main(["import", "intensity", file]) == 2
    assert "Nothing was stored" in capsys.readouterr().err
    assert stored_intensity() == []
    args = ["import", "intensity", file, "--zone", "DE=DE-LU", "--name", "may"]
    assert main(args) == 0
    assert "stored as may" in capsys.readouterr().out
    assert main(["compare", "--trace", "claude-code", "--policies", "sticky", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    own = {one["zone"]: one["own"] for one in result["intensity"]}
    assert own == {"GB": False, "US-CAL-CISO": False, "DE-LU": True, "AU-NSW": False}
    assert "estimated_intensity_share" in result["policies"]["sticky"]


def test_validate_still_knows_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    path.write_text("session,turn,new_prompt_tokens,output_tokens\na,0,10,5\n")
    assert main(["validate", str(path)]) == 0
    assert "1 turns in 1 sessions" in capsys.readouterr().out
    assert main(["import", "intensity", str(path), "--zone", "A", "--zone", "B"]) == 2
    assert "once" in capsys.readouterr().err
