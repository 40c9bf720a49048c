"""Tables of which the user says what the columns are, and mappings kept by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from carbonrouter_core import IntensityError
from carbonrouter_core.cli.main import main
from carbonrouter_core.errors import ReadingError
from carbonrouter_core.grid.importers.base import IntensityOptions
from carbonrouter_core.grid.preview import first_rows, what_rows_become
from carbonrouter_core.grid.staging import stage_intensity
from carbonrouter_core.reading.mapping import ColumnMapping, columns_from
from carbonrouter_core.store.mappings import (
    delete_mapping,
    mapping_named,
    save_mapping,
    stored_mappings,
)
from carbonrouter_core.store.series import load_intensity

HEADER = "Stempel;Netz;Wert A;Wert B (kg/kWh)\n"
ROWS = [f"2024-05-01 {hour:02d}:00;Nord;{hour};0,4{hour}" for hour in range(6)]
COLUMNS = {"time": "Stempel", "zone": "Netz", "direct": "Wert B (kg/kWh)"}
SAID = {"timezone": "Europe/Berlin", "zones": {"Nord": "DE-LU"}}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table whose columns no importer knows, beside an empty store."""
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))
    path = tmp_path / "werte.csv"
    path.write_text(HEADER + "\n".join(ROWS) + "\n")
    return path


def test_a_refused_table_says_the_way_out(table: Path) -> None:
    with pytest.raises(IntensityError, match=r"--column time=COLUMN .*Say what its columns are"):
        stage_intensity([table])


def test_columns_that_the_user_names_are_read(table: Path) -> None:
    staged = stage_intensity([table], options=IntensityOptions(columns=COLUMNS, **SAID))
    staged.require()
    (series,) = staged.series
    assert (series.zone, series.basis, series.start_s % 86_400) == ("DE-LU", "direct", 22 * 3600)
    assert series.g_per_kwh == pytest.approx([400 + 10 * hour for hour in range(6)])
    assert staged.report.format_reason == "you say what its columns are"


def test_the_first_rows_and_what_they_become(table: Path) -> None:
    raw = first_rows(table, "werte.csv")
    assert list(raw) == HEADER.strip().split(";")
    assert raw["Stempel"].iloc[1] == "2024-05-01 01:00"
    options = IntensityOptions(columns=COLUMNS, timezone="Europe/Berlin")
    became = what_rows_become(table, "werte.csv", options)
    assert became["Time (UTC)"].tolist()[:2] == ["2024-04-30T22:00Z", "2024-04-30T23:00Z"]
    assert became["direct g/kWh"].tolist()[:2] == pytest.approx([400, 410])
    assert became["Problem"].str.contains("unknown zone 'Nord'").all()


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"time": "Stempel"}, "which the intensity"),
        ({"direct": "Wert A"}, "which column has the times"),
        ({"time": "Stempl", "direct": "Wert A"}, "no column 'Stempl'.*nearest: Stempel"),
        ({"clock": "Wert A", "colour": "Netz"}, "no column 'colour' to say"),
    ],
)
def test_columns_that_cannot_be_are_refused(
    table: Path, columns: dict[str, str], said: str
) -> None:
    with pytest.raises(IntensityError, match=said):
        stage_intensity([table], options=IntensityOptions(columns=columns))


@pytest.mark.parametrize("text", ["time", "=Stempel", "time=", "when=Stempel"])
def test_an_assignment_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ReadingError):
        columns_from([text], ("time", "zone"))
    with pytest.raises(ReadingError, match="twice"):
        columns_from(["time=a", "time=b"], ("time", "zone"))


def test_a_mapping_is_kept_replaced_and_deleted(table: Path) -> None:
    assert stored_mappings("grid") == ()
    with pytest.raises(ReadingError, match="none is stored"):
        mapping_named("grid", "werte")
    save_mapping(ColumnMapping("werte", "grid", {"time": "Stempel"}))
    save_mapping(ColumnMapping("werte", "trace", {"output_tokens": "out"}))
    save_mapping(ColumnMapping("werte", "grid", COLUMNS, SAID))
    assert mapping_named("grid", "werte") == ColumnMapping("werte", "grid", COLUMNS, SAID)
    with pytest.raises(ReadingError, match="werte"):
        mapping_named("grid", "wert")
    delete_mapping("grid", "werte")
    assert stored_mappings("grid") == ()
    assert [mapping.name for mapping in stored_mappings("trace")] == ["werte"]
    with pytest.raises(ReadingError, match="name of a mapping"):
        ColumnMapping("a\nb", "grid", {})


def test_the_command_keeps_a_mapping_for_the_next_file(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = [f"--column={ours}={theirs}" for ours, theirs in COLUMNS.items()]
    said = ["--timezone", "Europe/Berlin", "--zone", "Nord=DE-LU"]
    command = ["import", "intensity", str(table)]
    assert main([*command, "--name", "none", "--keep-mapping", "werte"]) == 2
    assert main([*command, *columns, *said, "--name", "a", "--keep-mapping", "werte"]) == 0
    assert "--mapping werte" in capsys.readouterr().out
    assert main([*command, "--mapping", "werte", "--name", "b"]) == 0
    assert main([*command, "--mapping", "werte", "--timezone", "UTC", "--name", "c"]) == 0
    a, b, c = (load_intensity(name)[0] for name in "abc")
    assert a.g_per_kwh.tolist() == b.g_per_kwh.tolist()
    assert (b.start_s, c.start_s) == (a.start_s, a.start_s + 2 * 3600)
