"""The CSV bundle: what is in it, that every row recomputes, and that it opens everywhere."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from carbonrouter_core import FIGURES, Scenario, compare, find_trace, run_policy
from carbonrouter_core.report import write_bundle
from carbonrouter_core.report.bundle import FILES, decisions_sha256
from carbonrouter_core.report.fields import neutral, to_table
from carbonrouter_core.report.metadata import metadata as metadata_of
from carbonrouter_core.report.tables import region_hours, sessions, turns
from carbonrouter_core.report.tables.summary import SUMMARY, SummaryRows
from carbonrouter_core.results.comparison import Comparison
from tests.hand_made import Costs, T, make_catalog, make_trace, make_world
from tests.waiting import PATIENCE_S

FORMULA = '=HYPERLINK("http://x","y")'
MADE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TABLES = ("summary.csv", "by_session.csv", "by_region_hour.csv", "decisions.csv")
POLICIES = ("carbonrouter-lookahead", "faircarbon")
TWO_SITES = make_catalog({("M", "G"): Costs(1.0, 2.0)}, {"north": 1.25, "south": 1.25})

GATE = ("p_back", "saving_g", "rebuild_g", "next_gain_g")
"""Empty where the gate was not asked."""


def bundle_of(comparison: Comparison) -> dict[str, bytes]:
    out = io.BytesIO()
    write_bundle(comparison, out, generated_utc=MADE)
    with zipfile.ZipFile(out) as bundle:
        assert bundle.testzip() is None
        return {name: bundle.read(name) for name in bundle.namelist()}


def table(bundle: dict[str, bytes], name: str) -> pd.DataFrame:
    """A table as a user's script reads it: ids that look like numbers or NA stay text."""
    ids = dict.fromkeys(("policy", "session", "zone", "region", "value"), str)
    return pd.read_csv(
        io.BytesIO(bundle[name]), dtype=ids, keep_default_na=False, na_values=[""], encoding="utf-8"
    )


def metadata(bundle: dict[str, bytes]) -> dict[str, str]:
    frame = table(bundle, "metadata.csv").fillna("")
    return dict(zip(frame["key"], frame["value"], strict=True))


@pytest.fixture(scope="module")
def chat() -> Comparison:
    return compare(Scenario(), POLICIES)


@pytest.fixture(scope="module")
def chat_bundle(chat: Comparison) -> dict[str, bytes]:
    return bundle_of(chat)


def side_by_side(*policies: str, **changes: object) -> Comparison:
    """Two sessions that a reader can redo by hand (see test_results)."""
    trace = make_trace(
        {"a": [T(900, 50), T(10, 50, 60)], "b": [T(100, 10)]}, users=["north"] * 3, **changes
    )
    world = make_world(trace, TWO_SITES, mg_per_j=[[0.8, 0.9], [0.8, 0.4], [0.8, 0.9]])
    return Comparison(world, {name: run_policy(world, name) for name in policies})


def test_the_bundle_has_exactly_its_files(chat_bundle: dict[str, bytes]) -> None:
    assert set(chat_bundle) == {*TABLES, "scenario.json", "metadata.csv", "columns.csv"}


def test_every_row_recomputes_from_its_own_columns(chat_bundle: dict[str, bytes]) -> None:
    for name in TABLES:
        rows = table(chat_bundle, name)
        parts = rows[["recompute_g", "prompt_g", "decode_g", "host_g"]].sum(axis=1)
        redone = rows["energy_kwh"] * rows["intensity_g_per_kwh"]
        np.testing.assert_allclose(redone, rows["carbon_g"], rtol=1e-9, err_msg=name)
        np.testing.assert_allclose(parts, rows["carbon_g"], rtol=1e-9, err_msg=name)
        if "pue" in rows:
            facility = rows["it_energy_kwh"] * rows["pue"]
            np.testing.assert_allclose(facility, rows["energy_kwh"], rtol=1e-12, err_msg=name)
        else:
            assert (rows["it_energy_kwh"] < rows["energy_kwh"]).all()
        figures = rows.select_dtypes("number").drop(columns="difficulty", errors="ignore")
        signed = figures.columns.str.contains("saving|gain")
        assert not (figures.loc[:, ~signed] < 0).any(axis=None)
    turns = table(chat_bundle, "decisions.csv")
    assert len(turns) == 2 * 59_837
    assert (turns["recomputed_tokens"] == turns["history_tokens"] - turns["cached_tokens"]).all()
    assert turns.drop(columns=["home", *GATE]).notna().all(axis=None)


def test_the_tables_sum_up_to_the_same_figures(
    chat: Comparison, chat_bundle: dict[str, bytes]
) -> None:
    summary = table(chat_bundle, "summary.csv").set_index("policy")
    sums = ["it_energy_kwh", "energy_kwh", "carbon_g", "recompute_g", "host_g", "embodied_g"]
    for name in TABLES[1:]:
        totals = table(chat_bundle, name).groupby("policy")[[*sums, "output_tokens"]].sum()
        for column in totals:
            np.testing.assert_allclose(totals[column], summary[column], rtol=1e-9)
    turns = table(chat_bundle, "decisions.csv").groupby("policy")
    np.testing.assert_allclose(turns["quality"].mean(), summary["quality_mean"], rtol=1e-12)
    np.testing.assert_allclose(turns["ttft_ms"].quantile(0.95), summary["ttft_ms_p95"], rtol=1e-12)
    np.testing.assert_allclose(turns["moved"].sum() / 9349, summary["moves_per_session"])
    for policy_id in POLICIES:  # the figures of the product, to the last digit
        for name, value in chat.figures(policy_id).items():
            assert summary.loc[policy_id, name] == value
    sessions = table(chat_bundle, "by_session.csv").pivot(index="session", columns="policy")
    half = sessions["half"]["faircarbon"] == "test"
    carbon_g = sessions["carbon_g"][half].sum()
    saving = 100 * (1 - carbon_g[POLICIES[0]] / carbon_g[POLICIES[1]])
    column = "test_half_saving_vs_faircarbon_percent"
    assert saving == pytest.approx(summary.loc[POLICIES[0], column], rel=1e-9)


def test_hours_are_all_there_and_hold_the_turns_that_start_in_them(
    chat_bundle: dict[str, bytes],
) -> None:
    hours = table(chat_bundle, "by_region_hour.csv")
    start = pd.to_datetime(hours["start_utc"])
    assert start.min() == pd.Timestamp("2024-05-13", tz="UTC")
    assert start.max() >= pd.Timestamp("2024-05-26 23:00", tz="UTC")
    assert len(hours) == 2 * 4 * start.nunique()
    assert (start.drop_duplicates().diff().dropna() == pd.Timedelta("1h")).all()
    turns = table(chat_bundle, "decisions.csv")
    turns["start_utc"] = pd.to_datetime(turns["start_utc"]).dt.floor("h")
    again = turns.groupby(["policy", "region", "start_utc"])["carbon_g"].agg(["size", "sum"])
    told = hours[hours["turns"] > 0].assign(start_utc=start)
    told = told.set_index(["policy", "region", "start_utc"]).sort_index()
    np.testing.assert_array_equal(told["turns"], again["size"])
    np.testing.assert_allclose(told["carbon_g"], again["sum"], rtol=1e-9)
    idle = hours[hours["turns"] == 0]
    assert len(idle) and (idle["energy_kwh"] == 0).all() and (idle["intensity_g_per_kwh"] > 0).all()


def test_columns_csv_tells_every_column_of_every_file(chat_bundle: dict[str, bytes]) -> None:
    told = table(chat_bundle, "columns.csv").fillna("")
    for name in (*TABLES, "metadata.csv", "columns.csv"):
        columns = list(table(chat_bundle, name).columns)
        assert told.loc[told["file"] == name, "column"].tolist() == columns
    assert told["meaning"].str.len().min() > 3
    for name, (unit, meaning) in FIGURES.items():
        row = told[(told["file"] == "summary.csv") & (told["column"] == name)].iloc[0]
        assert (row["unit"], row["meaning"]) == (unit, meaning)
    suffixes = {"_g": "gCO2e", "_kwh": "kWh", "_ms": "ms", "_percent": "%", "_tokens": "tokens"}
    for row in told.itertuples():
        for suffix, unit in suffixes.items():
            if row.column.endswith(suffix) and not row.column.endswith("g_per_kwh"):
                assert unit in row.unit or row.column.startswith("sci_"), row.column


def test_columns_and_their_order_never_change_with_the_data(chat_bundle: dict[str, bytes]) -> None:
    empty = make_trace({"a": [T(10**6, 1)], "b": [T(10**6, 0)]})  # no model holds these
    world = make_world(empty, TWO_SITES)
    others = [
        Comparison(world, {"sticky": run_policy(world, "sticky")}),  # nothing to compare with
        side_by_side("carbonrouter", "faircarbon"),
    ]
    bundles = [bundle_of(one) for one in others]
    for bundle in bundles:
        for name in FILES:
            assert bundle[name].partition(b"\n")[0] == chat_bundle[name].partition(b"\n")[0]
    summary = table(bundles[0], "summary.csv").iloc[0]
    assert summary["unserved_turns"] == 2
    for name in ("saving_vs_faircarbon_percent", "quality_mean", "sci_g_per_turn"):
        assert np.isnan(summary[name])
    assert b"nan" not in bundles[0]["summary.csv"].lower()


def test_times_are_utc_and_say_so(chat_bundle: dict[str, bytes]) -> None:
    for name in TABLES:
        rows = table(chat_bundle, name).head(1000)
        for column in rows.select_dtypes(["object", "string"]):
            values = rows[column].dropna().astype(str)
            is_time = values.str.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
            assert is_time.all() if column.endswith("_utc") else not is_time.any(), column
    keys = metadata(chat_bundle)
    for key in ("generated_at_utc", "window_start_utc", "window_end_utc"):
        assert keys[key].endswith("Z")
    assert keys["generated_at_utc"] == "2026-01-02T03:04:05Z"


# energy at the servers is 1000 + 110 + 120 J of CarbonRouter; PUE 1.25; 0.8 x 3600 g/kWh
def test_a_small_bundle_is_as_counted_by_hand() -> None:
    bundle = bundle_of(side_by_side("carbonrouter", "faircarbon"))
    ours, theirs = (row for _, row in table(bundle, "summary.csv").iterrows())
    assert ours["it_energy_kwh"] * 3.6e6 == pytest.approx(1230)
    assert ours["energy_kwh"] * 3.6e6 == pytest.approx(1230 * 1.25)
    assert ours["intensity_g_per_kwh"] == pytest.approx(0.8 * 3600)
    embodied_mg = ours["embodied_g"] * 1e3
    assert embodied_mg > 0
    assert ours["sci_g_per_turn"] * 1e3 == pytest.approx((1230 + embodied_mg) / 3)
    assert ours["sci_g_per_session"] * 1e3 == pytest.approx((1230 + embodied_mg) / 2)
    tokens = 50 + 50 + 10
    sci = (1230 + embodied_mg) / (tokens / 1000)
    assert ours["sci_g_per_1000_output_tokens"] * 1e3 == pytest.approx(sci)
    turns = table(bundle, "decisions.csv")
    moved = turns[turns["moved"]].iloc[0]
    assert (moved["policy"], moved["session"], moved["turn"]) == ("faircarbon", "a", 1)
    assert moved["recomputed_tokens"] == 950
    assert moved["region"] == "south"
    assert moved["home"] == "M G north"
    assert moved["carbon_g"] * 1e3 == pytest.approx(530)
    assert table(bundle, "by_session.csv")["moves"].tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (FORMULA, "'" + FORMULA),
        ("@SUM(1)", "'@SUM(1)"),
        ("+1", "'+1"),
        ("-2.5", "'-2.5"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("  =1", "'  =1"),
        ("a=b", "a=b"),
        ("../../etc/passwd", "../../etc/passwd"),
        ("\N{GRINNING FACE} \N{HEBREW LETTER ALEF}", "\N{GRINNING FACE} \N{HEBREW LETTER ALEF}"),
    ],
)
def test_text_is_neutral_in_spreadsheets(text: str, shown: str) -> None:
    assert neutral(text) == shown


def test_hostile_names_are_text_and_numbers_stay_numbers() -> None:
    bad = [FORMULA, "@SUM(1)", '"quoted", with\nlines', "<script>alert(1)</script>", "-2.5", "\0x"]
    trace = make_trace({name: [T(100, 10), T(10, 10, 60)] for name in bad}, users=["north"] * 12)
    world = make_world(trace, TWO_SITES, name=FORMULA, mg_per_j=[[0.8, 0.9], [0.8, 0.4]] * 6)
    runs = {name: run_policy(world, name) for name in ("carbonrouter", "faircarbon", "round-robin")}
    bundle = bundle_of(Comparison(world, runs))
    shown = [neutral(name) for name in bad]
    assert table(bundle, "by_session.csv")["session"].tolist() == shown * 3
    assert table(bundle, "decisions.csv")["session"].unique().tolist() == shown
    keys = metadata(bundle)
    assert keys["input.name"] == "'" + FORMULA
    assert json.loads(bundle["scenario.json"])["name"] == FORMULA  # no spreadsheet opens that
    for content in bundle.values():
        assert b"\0" not in content
    summary = table(bundle, "summary.csv")
    worse = summary["saving_vs_faircarbon_percent"].min()
    assert worse < 0  # and it is a number, with a plain minus
    assert f",{worse:.3f}"[:-1].encode() in bundle["summary.csv"]


def test_a_saving_against_nothing_is_an_empty_cell() -> None:
    trace = make_trace({"a": [T(0, 0)]}, users=["north"])
    world = make_world(trace, TWO_SITES)
    runs = {name: run_policy(world, name) for name in ("carbonrouter", "faircarbon")}
    bundle = bundle_of(Comparison(world, runs))
    summary = table(bundle, "summary.csv")
    assert (summary["carbon_g"] == 0).all()
    assert summary["saving_vs_faircarbon_percent"].isna().all()
    assert not re.search(rb"\b(inf|nan)\b", b"".join(bundle.values()), re.IGNORECASE)


def test_running_again_gives_the_same_bytes(
    chat: Comparison, chat_bundle: dict[str, bytes]
) -> None:
    again = compare(Scenario.from_json(chat_bundle["scenario.json"].decode()), POLICIES)
    written = hashlib.sha256(chat_bundle["decisions.csv"]).hexdigest()
    assert decisions_sha256(again) == written
    small = ("carbonrouter", "faircarbon")
    assert bundle_of(side_by_side(*small)) == bundle_of(side_by_side(*small))


def test_a_placed_trace_that_is_exported_reads_back_to_the_same_figures(tmp_path: Path) -> None:
    first = compare(Scenario(trace="claude-code"), POLICIES)
    path = tmp_path / "placed.parquet"
    first.prepared.placed.to_frame().to_parquet(path, index=False)
    scenario = Scenario(trace=str(path))
    redone = compare(scenario, POLICIES)
    assert decisions_sha256(redone) == decisions_sha256(first)
    assert to_table(SUMMARY, SummaryRows(redone)) == to_table(SUMMARY, SummaryRows(first))
    facts = metadata_of(redone, MADE)
    assert str(tmp_path) not in str(facts)
    assert dict(facts)["input.trace"] == "placed.parquet"


def test_metadata_tells_what_the_figures_rest_on(
    chat: Comparison, chat_bundle: dict[str, bytes]
) -> None:
    keys = metadata(chat_bundle)
    assert re.fullmatch("[0-9a-f]{16}", keys["run_id"])
    assert keys["trace.sha256"] == find_trace("sharegpt").sha256
    for name in Scenario().to_dict():
        assert keys[f"input.{name}.is_default"] == "true"
    assert keys["input.seed"] == "7"
    assert keys["preset"] == "Paper"
    assert keys["region.europe-west2.zone"] == "GB"
    assert keys["region.europe-west2.pue_basis"] == "assumed: none is published"
    assert keys["region.us-west2.intensity_granularity"] == "3-hour means"
    assert keys["region.us-west2.intensity_licence"] == "ODbL 1.0"
    assert "Electricity Maps" in keys["region.us-west2.intensity_source"]
    assert keys["region.us-west2.intensity_years"] == "2024"
    assert "location-based" in keys["accounting"]
    assert keys["carbon_basis"] == "lifecycle"
    assert [keys[f"warning.{i}"] for i in range(1, len(chat.warnings) + 1)] == list(chat.warnings)
    changed = dataclasses.replace(
        chat.prepared,
        scenario=Scenario(idle_s=60.0, name="Mine"),
        intensity=chat.prepared.intensity,
    )
    other = metadata(bundle_of(Comparison(changed, {"sticky": run_policy(changed, "sticky")})))
    assert other["input.idle_s.is_default"] == "false"
    assert json.loads(other["changes_from_preset"]) == {"idle_s": 60.0}
    assert other["run_id"] != keys["run_id"]


def test_progress_is_told_and_can_stop_the_export(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []

    for table in (sessions, region_hours, turns):
        monkeypatch.setattr(table, "CHUNK_ROWS", 1)

    def stop(share: float) -> None:
        told.append(share)
        if share > 0.5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        write_bundle(side_by_side("sticky", "faircarbon"), io.BytesIO(), progress=stop)
    assert told[0] == 0.0
    assert told == sorted(told)


# --- Other programs --------------------------------------------------------------------------


def rounded_sum(frame: pd.DataFrame, column: str) -> float:
    return float(pd.to_numeric(frame[column]).sum())


@pytest.fixture(scope="module")
def on_disk(
    chat_bundle: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("bundle")
    for name, content in chat_bundle.items():
        (folder / name).write_bytes(content)
    return folder.joinpath


def test_it_opens_in_duckdb(chat_bundle: dict[str, bytes], on_disk: Callable[[str], Path]) -> None:
    with duckdb.connect() as connection:
        for name in TABLES:
            query = f"SELECT count(*), sum(carbon_g) FROM read_csv('{on_disk(name)}')"
            rows, carbon_g = connection.execute(query).fetchone()
            expected = table(chat_bundle, name)
            assert rows == len(expected)
            assert carbon_g == pytest.approx(rounded_sum(expected, "carbon_g"), rel=1e-12)
        query = f"SELECT typeof(start_utc) FROM read_csv('{on_disk('decisions.csv')}') LIMIT 1"
        assert "TIMESTAMP" in connection.execute(query).fetchone()[0]


def test_it_opens_in_libreoffice(
    chat_bundle: dict[str, bytes], on_disk: Callable[[str], Path], tmp_path: Path
) -> None:
    office = shutil.which("soffice") or shutil.which("libreoffice")
    if office is None:
        pytest.skip("LibreOffice is not installed")
    for name in ("summary.csv", "by_region_hour.csv"):
        # read as a user opens it, written out as plain text again
        profile = f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}"
        reading = "--infilter=CSV:44,34,76,1"  # comma, double quote, UTF-8, from line 1
        command = [office, profile, "--headless", reading, "--convert-to", "xlsx"]
        command += ["--outdir", str(tmp_path), str(on_disk(name))]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
        sheet = zipfile.ZipFile(tmp_path / name.replace(".csv", ".xlsx"))
        cells = sheet.read("xl/worksheets/sheet1.xml").decode()
        numbers = [
            float(one) for one in re.findall(r'<c r="[A-Z]+\d+"[^>]*t="n"[^>]*><v>([^<]+)', cells)
        ]
        expected = table(chat_bundle, name).select_dtypes("number").to_numpy().ravel()
        np.testing.assert_allclose(numbers, expected[~np.isnan(expected)], rtol=1e-12)


def test_it_opens_in_r(chat_bundle: dict[str, bytes], on_disk: Callable[[str], Path]) -> None:
    rscript = shutil.which("Rscript")
    if rscript is None:
        pytest.skip("R is not installed")
    for name in ("summary.csv", "by_session.csv"):
        code = f"x <- read.csv('{on_disk(name)}'); cat(nrow(x), format(sum(x$carbon_g), digits=15))"
        done = subprocess.run([rscript, "-e", code], check=True, capture_output=True, text=True)
        rows, carbon_g = done.stdout.split()
        assert int(rows) == len(table(chat_bundle, name))
        expected = rounded_sum(table(chat_bundle, name), "carbon_g")
        assert float(carbon_g) == pytest.approx(expected, rel=1e-12)
