"""``sweep`` and ``plan``: the figures of the engine, printed; bad input in one line."""

import csv
import json
from pathlib import Path

import pytest

from carbonrouter_core import compare
from carbonrouter_core.cli.main import main
from carbonrouter_core.errors import StoreError
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.store.find_trace import parts_folder
from carbonrouter_core.store.store import open_store

SMALL = ["--sample", "200", "--policies", "carbonrouter,faircarbon", "--workers", "1"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path))
    yield tmp_path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_a_sweep_prints_a_row_a_value_and_keeps_its_points(capsys) -> None:
    arguments = ("sweep", "--vary", "idle_s=60,3600", *SMALL)
    rows = json.loads(printed(capsys, *arguments, "--json"))
    assert [row["values"] for row in rows] == [{"idle_s": 60.0}, {"idle_s": 3600.0}]
    lines = printed(capsys, *arguments).splitlines()
    assert len(lines) == 4
    for row, line in zip(rows, lines[2:], strict=True):
        assert f"{row['saving_percent']['carbonrouter']['value_percent']:.1f}" in line
    assert len(open_store().table_names("sweep")) == 1


def test_two_inputs_make_a_grid(capsys) -> None:
    text = printed(
        capsys, "sweep", "--vary", "quality_floor=0.5:0.8:2", "--vary", "copies=", *SMALL, "--json"
    )
    assert [tuple(row["values"].values()) for row in json.loads(text)] == [
        (0.5, "latest"),
        (0.5, "all"),
        (0.8, "latest"),
        (0.8, "all"),
    ]


def test_break_even_says_where_or_that_it_never_stops(capsys) -> None:
    text = printed(capsys, "sweep", "--break-even", "quality_floor=0.6:0.7", *SMALL)
    assert text.startswith("carbonrouter ") and "winning" in text or "everywhere" in text
    found = json.loads(
        printed(capsys, "sweep", "--break-even", "quality_floor=0.6:0.7", *SMALL, "--json")
    )
    assert found["looked_at"][0]["value"] == 0.6 and found["looked_at"][-1]["value"] == 0.7


def test_monte_carlo_prints_its_interval(capsys) -> None:
    found = json.loads(printed(capsys, "sweep", "--monte-carlo", "3", *SMALL, "--json"))
    assert len(found["draws"]) == 4 and found["policy"] == "carbonrouter"
    assert found["draws"][0]["attention"] == 1.0
    low, high = found["saving_percent"]["low_percent"], found["saving_percent"]["high_percent"]
    drawn = [one["saving_percent"] for one in found["draws"][1:]]
    assert min(drawn) <= low <= high <= max(drawn)


def test_plan_prints_the_totals_of_the_engine(capsys, tmp_path: Path) -> None:
    out = tmp_path / "plan.csv"
    found = json.loads(
        printed(
            capsys, "plan", "--trace", "claude-code", "--policies", "carbonrouter",
            "--carbon-price", "100", "--schedule", str(out), "--json",
        )
    )  # fmt: skip
    figures = compare(Scenario(trace="claude-code"), ["carbonrouter"]).figures("carbonrouter")
    one = found["policies"]["carbonrouter"]
    assert one["carbon_g_per_day"] * 14 == pytest.approx(figures["carbon_g"])
    assert one["energy_kwh_per_day"] * 14 == pytest.approx(figures["energy_kwh"])
    assert one["carbon_cost_per_day"] == pytest.approx(one["carbon_g_per_day"] / 1e6 * 100)
    assert sum(r["carbon_g_per_day"] for r in one["regions"]) == pytest.approx(
        one["carbon_g_per_day"]
    )
    with out.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert sum(float(row["carbon_g"]) for row in rows) == pytest.approx(figures["carbon_g"])
    text = printed(capsys, "plan", "--trace", "claude-code", "--policies", "carbonrouter")
    assert f"{one['energy_kwh_per_day']:,.2f}" in text


def test_a_year_is_projected_from_seasons(capsys) -> None:
    found = json.loads(
        printed(
            capsys, "plan", "--trace", "claude-code", "--policies", "carbonrouter",
            "--sessions-per-day", "1000", "--year", "2023", "--workers", "1", "--json",
        )
    )  # fmt: skip
    year = found["policies"]["carbonrouter"]["year"]
    mean = sum(one["carbon_g_per_day"] for one in year["seasons"]) / 4
    assert year["carbon_g"] == pytest.approx(mean * 365.25)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["sweep"], "required"),
        (["sweep", "--vary", "idle=1,2"], "Nearest known: idle_s"),
        (["sweep", "--vary", "idle_s=a,b"], "'a' is not a number"),
        (["sweep", "--vary", "idle_s=1:2:x"], "'x' is not a number"),
        (["sweep", "--vary", "idle_s=1:2:2.5"], "not a whole number"),
        (["sweep", "--vary", "quality_floor=2"], "quality_floor is 2"),
        (["sweep", "--vary", "window_start=tomorrow"], "not a date"),
        (["sweep", "--vary", "idle_s=1e999"], "idle_s is inf"),
        (["sweep", "--break-even", "idle_s=5"], "low:high"),
        (["sweep", "--break-even", "copies"], "no values in between"),
        (["sweep", "--monte-carlo", "0"], "1 draw or more"),
        (["sweep", "--tornado", "--policies", "nearest-region"], "only the baseline"),
        (["sweep", "--vary", "quality_floor=0:1:1000000000"], "1,000,000,000 values"),
        (["sweep", "--monte-carlo", "1000000000"], "1,000,000,000 draws"),
        (["plan", "--year", "99999"], "99999 is no year"),
        (["windows", "--starts", ","], "not a list of dates"),
        (["windows", "--set", "regions=europe-west2,nowhere"], "Unknown region 'nowhere'"),
        (["compare", "--trace", ""], "Unknown trace ''"),
        (["compare", "--trace", "x" * 4000], "Unknown trace"),
        (["sweep", "--tornado", "--workers", "0"], "0 workers"),
        (["sweep", "--tornado", "--sample", "1"], "sample of 1"),
        (["plan", "--sessions-per-day", "-1"], "above 0"),
        (["plan", "--sessions-per-day", "1e300"], "at most 1e+12"),
        (["plan", "--carbon-price", "nan"], "0 or more"),
        (["plan", "--carbon-price", "1e300"], "at most 1e+09"),
        (["plan", "--workers", "2"], "--workers has no use here"),
        (["compare", "--cluster", "tcp://127.0.0.1:1"], "--cluster has no use here"),
        (["plan", "--schedule", "nowhere/x.csv"], "there is no folder nowhere"),
        (["compare", "--export-trace", "nowhere/x.parquet"], "there is no folder nowhere"),
        (["plan", "--schedule", "x.txt"], ".csv"),
        (["plan", "--year", "2090"], "2090-01-15 cannot run"),
    ],
)
def test_bad_input_is_one_line(capsys, arguments: list[str], what: str) -> None:
    assert main([*arguments, *(["--trace", "claude-code"] if "plan" in arguments else [])]) == 2
    err = capsys.readouterr().err
    assert what in err and err.count("\n") == 1


def test_a_trace_in_parts_compares_like_the_whole(capsys, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    said = printed(
        capsys, "split", "sharegpt", str(folder), "--repeat-to", "300", "--sessions-per-part", "120"
    )
    assert said == "3 parts written to parts.\n"
    arguments = ("compare", "--trace", str(folder), "--policies", "carbonrouter,faircarbon")
    found = json.loads(printed(capsys, *arguments, "--workers", "1", "--json"))
    assert found["trace"]["sessions"] == 300
    table = printed(capsys, *arguments, "--workers", "1")
    saving = found["policies"]["carbonrouter"]["saving_vs_faircarbon_percent"]
    assert "parts, 300 sessions" in table and f"{saving:.1f}" in table


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["split", "sharegpt", "x"], "--repeat-to"),
        (["split", "nothing", "x"], "Unknown trace 'nothing'"),
        (["split", "sharegpt", ".", "--repeat-to", "5"], "not empty"),
        (["compare", "--trace", "."], "no Parquet file"),
        (["compare", "--trace", ".", "--export-trace", "x.parquet"], "one piece"),
    ],
)
def test_a_bad_folder_is_one_line(capsys, arguments: list[str], what: str) -> None:
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert what in err and err.count("\n") == 1


def test_a_store_open_elsewhere_only_means_that_no_points_are_kept(capsys, monkeypatch) -> None:
    def refuse() -> None:
        raise StoreError("it is open in another process")

    monkeypatch.setattr("carbonrouter_core.cli.sweep.open_store", refuse)
    assert main(["sweep", "--vary", "idle_s=60,3600", *SMALL]) == 0
    said = capsys.readouterr()
    assert "not kept: it is open in another process" in said.err
    assert len(said.out.splitlines()) == 4


def test_a_folder_does_not_hide_the_built_in_trace(capsys, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sharegpt").mkdir()
    assert parts_folder("sharegpt") is None
    assert parts_folder("./sharegpt") == tmp_path / "sharegpt"
    assert parts_folder(".").name == tmp_path.name  # so that it has a name to be shown


def test_the_columns_of_zones_stand_apart(capsys) -> None:
    assert "lifecycle + direct  3-hour means" in printed(capsys, "zones")


def test_what_is_little_does_not_read_as_nothing(capsys) -> None:
    arguments = ["plan", "--trace", "claude-code", "--policies", "sticky"]
    arguments += ["--sessions-per-day", "0.001"]
    whole = json.loads(printed(capsys, *arguments, "--json"))["policies"]["sticky"]
    assert 0 < whole["energy_kwh_per_day"] < 0.005
    table = printed(capsys, *arguments)
    assert table.startswith("0.001 conversations")
    assert f"{whole['energy_kwh_per_day']:.2g}" in table
    assert f"{whole['carbon_g_per_day'] / 1000:.2g}" in table
