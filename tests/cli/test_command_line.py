"""The command line: what it prints, what it refuses, and how it exits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from carbonrouter_core import FIELDS, POLICIES, Scenario, __version__, preset
from carbonrouter_core.cli.main import main
from tests.conftest import ROOT
from tests.waiting import PATIENCE_S

ASKED_FOR = {
    "turns",
    "unserved_turns",
    "output_tokens",
    "carbon_g",
    "recompute_g",
    "prompt_g",
    "decode_g",
    "host_g",
    "energy_kwh",
    "moves_per_session",
    "quality_mean",
    "ttft_ms_mean",
    "ttft_ms_p95",
    "latency_ms_mean",
    "saving_vs_faircarbon_percent",
}


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    """A small trace: one session of 40 turns and one of two."""
    path = tmp_path / "small.csv"
    rows = [f"long,{turn},{20 + turn},50" for turn in range(40)] + ["short,0,100,30", "short,1,5,9"]
    path.write_text("\n".join(["session,turn,new_prompt_tokens,output_tokens", *rows]) + "\n")
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Run the command line; exit code, standard output and standard error."""

    def run_with(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run_with


@pytest.fixture
def result(run, trace_file: Path):
    """The JSON of ``compare`` on the small trace."""

    def result_of(*arguments: object) -> dict[str, Any]:
        code, out, err = run("compare", "--json", "--trace", trace_file, *arguments)
        assert (code, err) == (0, "")
        return json.loads(out)

    return result_of


@pytest.fixture
def refusal(run):
    """The one line that a refused command prints."""

    def refusal_of(*arguments: object) -> str:
        code, out, err = run(*arguments)
        assert code == 2
        assert out == ""
        assert err.startswith("error: ")
        assert err.endswith("\n")
        assert err.count("\n") == 1
        return err

    return refusal_of


# --- Printed ----------------------------------------------------------------------------------


def test_json_holds_every_figure_of_every_policy(result) -> None:
    policies = result()["policies"]
    assert list(policies) == list(POLICIES)
    for figures in policies.values():
        assert figures.keys() >= ASKED_FOR
        assert figures["long_sessions"].keys() >= ASKED_FOR
        assert (figures["turns"], figures["long_sessions"]["turns"]) == (42, 40)
        assert figures["output_tokens"] == 40 * 50 + 39
        parts = sum(figures[name] for name in ("recompute_g", "prompt_g", "decode_g", "host_g"))
        assert figures["carbon_g"] == pytest.approx(parts)
    assert policies["faircarbon"]["saving_vs_faircarbon_percent"] == 0.0


def test_json_holds_every_input(result, trace_file: Path) -> None:
    scenario = result("--preset", "prompt-cache")["scenario"]
    assert scenario == preset("Prompt cache").replace(trace=str(trace_file)).to_dict()
    assert list(scenario) == list(FIELDS)


def test_each_policy_has_its_saving_against_the_baseline_and_the_figures_of_a_year(result) -> None:
    asked = ("--set", "baseline=sticky", "--policies", "carbonrouter,sticky")
    out = result(*asked, "--set", "conversations_per_day=2000000")
    assert out["scenario"]["baseline"] == "sticky"
    policies = out["policies"]
    ours_g, theirs_g = policies["carbonrouter"]["carbon_g"], policies["sticky"]["carbon_g"]
    assert policies["sticky"]["saving_percent"] == 0.0
    assert policies["carbonrouter"]["saving_percent"] == pytest.approx(
        100 * (1 - ours_g / theirs_g)
    )
    year = policies["sticky"]["per_year"]
    assert list(year) == ["carbon_t", "energy_kwh", "cost", "water_l"]
    # two sessions in the trace: a million times that in a day, 365.25 days, 10^6 g a tonne
    assert year["carbon_t"] == pytest.approx(theirs_g * 1e6 * 365.25 / 1e6)
    for name, value in year.items():
        assert value is not None or any(f"per_year.{name}" in text for text in out["warnings"])


def test_a_baseline_that_cannot_be_used_is_refused(refusal, trace_file: Path) -> None:
    compare = ("compare", "--trace", trace_file, "--policies", "sticky", "--set")
    assert "Nearest known: sticky" in refusal(*compare, "baseline=stickey")
    assert "which model served" in refusal(*compare, "baseline=as-served")


def test_too_few_turns_in_progress_limit_the_batch(result) -> None:
    asked = ("--policies", "sticky", "--set")
    many = result(*asked, "conversations_per_day=1e9")
    few = result(*asked, "conversations_per_day=1")
    assert few["policies"]["sticky"]["carbon_g"] > 2 * many["policies"]["sticky"]["carbon_g"]
    assert any("turns are in progress" in text for text in few["warnings"])
    assert not any("turns are in progress" in text for text in many["warnings"])


def test_only_the_policies_asked_for_are_printed(result) -> None:
    policies = result("--policies", "sticky, round-robin,sticky")["policies"]
    assert list(policies) == ["sticky", "round-robin"]
    # the saving is against FairCarbon all the same
    assert policies["round-robin"]["saving_vs_faircarbon_percent"] is not None


def test_the_same_command_prints_the_same_bytes(run, trace_file: Path) -> None:
    command = ("compare", "--json", "--trace", trace_file)
    assert run(*command) == run(*command)


def test_the_table_has_a_line_a_policy(run, trace_file: Path) -> None:
    code, out, err = run("compare", "--trace", trace_file, "--policies", "carbonrouter,faircarbon")
    assert (code, err) == (0, "")
    assert "small.csv, 2 sessions, 42 turns, 14 days from 2024-05-13 UTC" in out
    starts = [line.split()[0] for line in out.splitlines() if line]
    # its figures, those of a year, and how evenly user regions are served
    assert starts.count("carbonrouter") == starts.count("faircarbon") == 3


def test_the_table_says_n_a_where_there_is_nothing_to_divide_by(run, tmp_path: Path) -> None:
    path = tmp_path / "nothing.csv"
    path.write_text("session,turn,new_prompt_tokens,output_tokens\na,0,0,0\n")
    code, out, _ = run("compare", "--trace", path, "--policies", "carbonrouter")
    assert code == 0
    assert "n/a" in out
    assert "nan" not in out.lower().split()
    assert "inf" not in out.lower().split()


def test_the_table_says_how_many_turns_are_unserved(run, tmp_path: Path) -> None:
    # BAD_INPUTS 8: 200 turns of 2,000 tokens; Qwen's window of 262,144 holds 131 of them
    path = tmp_path / "long.csv"
    rows = [f"a,{turn},1990,10" for turn in range(200)]
    path.write_text("\n".join(["session,turn,new_prompt_tokens,output_tokens", *rows]))
    code, out, _ = run("compare", "--trace", path, "--policies", "carbonrouter")
    assert code == 0
    # 131 x 2,000 = 262,000 tokens fit, 264,000 do not
    assert "69 of 200 turns fit in no model" in out


@pytest.mark.parametrize("flag", [["--help"], ["--version"], ["compare", "--help"]])
def test_help_and_version_exit_with_0(capsys: pytest.CaptureFixture[str], flag: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(flag)
    assert left.value.code == 0
    out = capsys.readouterr().out
    assert out.strip() == __version__ if flag == ["--version"] else "usage:" in out


# --- The scenario -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("name=Q3 review", "Q3 review"),
        ("name=007", "007"),
        ("name=a=b", "a=b"),
        ("window_start=2023-01-31", "2023-01-31"),
        ("window_days=3", 3),
        ("regions=europe-west3, us-west2", ["europe-west3", "us-west2"]),
        ('regions=["europe-west3"]', ["europe-west3"]),
        ("gpus=H100-80GB", ["H100-80GB"]),
        ("models=Llama-3.1-8B,Gemma-3-12B", ["Llama-3.1-8B", "Gemma-3-12B"]),
        ('gpu_regions={"B200-180GB": ["us-west2"]}', {"B200-180GB": ["us-west2"]}),
        ("gpu_regions={}", {}),
        ('user_mix={"us-west2": 3}', {"us-west2": 3.0}),
        ('pue_overrides={"us-west2": 1.05}', {"us-west2": 1.05}),
        ("concurrency=12.5", 12.5),
        ("copies=all", "all"),
        ("idle_s=600", 600.0),
        ("quality_floor=0", 0.0),
        ("latency_ceiling_ms=5e3", 5000.0),
        ("latency_ceiling_ms=none", None),
        ("latency_ceiling_ms=null", None),
        ("latency_ceiling_on=ttft", "ttft"),
        ("gate_threshold=1", 1.0),
        ("carbon_basis=direct", "direct"),
        ("embodied=true", True),
        ("gaps=ragpulse", "ragpulse"),
        ("gap_median_s=30", 30.0),
        ("seed=0", 0),
    ],
)
def test_set_changes_a_field(result, assignment: str, value: Any) -> None:
    scenario = result("--policies", "sticky", "--set", assignment)["scenario"]
    assert scenario[assignment.partition("=")[0]] == value


def test_the_last_set_of_a_field_counts(result) -> None:
    options = ("--policies", "sticky", "--set", "seed=1", "--set", "seed=2", "--set", "idle_s=9")
    scenario = result(*options)["scenario"]
    assert (scenario["seed"], scenario["idle_s"]) == (2, 9.0)


def test_a_scenario_can_come_from_a_file(result, tmp_path: Path, trace_file: Path) -> None:
    wanted = Scenario(name="mine 🌍", copies="all", regions=("europe-west3",), seed=3)
    path = tmp_path / "scenario.json"
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_text(wanted.to_json(), encoding=encoding)
        read = result("--policies", "sticky", "--scenario", path, "--set", "seed=4")["scenario"]
        assert read == wanted.replace(trace=str(trace_file), seed=4).to_dict()


def test_what_json_prints_as_scenario_runs_again(result, tmp_path: Path) -> None:
    first = result("--policies", "carbonrouter", "--set", "copies=all")
    path = tmp_path / "again.json"
    path.write_text(json.dumps(first["scenario"]))
    assert result("--policies", "carbonrouter", "--scenario", path) == first


# --- The placed trace -------------------------------------------------------------------------


def test_an_exported_trace_comes_back_to_identical_figures(run, tmp_path: Path) -> None:
    path = tmp_path / "placed.parquet"
    command = ("compare", "--json", "--policies", "carbonrouter,faircarbon")
    code, first, _ = run(*command, "--export-trace", path)
    assert code == 0
    frame = pd.read_parquet(path)
    assert len(frame) == 59_837
    assert {"session", "turn", "start_s", "user_region", "difficulty"} <= set(frame)
    code, again, _ = run(*command, "--trace", path)
    assert code == 0
    assert json.loads(again)["policies"] == json.loads(first)["policies"]


def test_an_export_that_cannot_be_written_is_refused(refusal, trace_file, tmp_path: Path) -> None:
    command = ("compare", "--trace", trace_file, "--policies", "sticky", "--export-trace")
    assert "must end in .parquet" in refusal(*command, tmp_path / "placed.csv")
    assert "cannot be written" in refusal(*command, tmp_path / "nowhere" / "placed.parquet")


# --- Refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "COMMAND"),
        (["compete"], "compete"),
        (["compare", "--polices", "sticky"], "--polices"),
        (["compare", "--pol", "sticky"], "--pol"),  # no abbreviations
        (["compare", "--policies", "stiky"], "Unknown policy 'stiky'. Nearest known: sticky"),
        (["compare", "--policies", ","], "--policies names no policy"),
        (["compare", "--policies"], "--policies"),
        (["compare", "--preset", "papper"], "Unknown preset 'papper'. Nearest known: Paper"),
        (["compare", "--preset", "Paper", "--scenario", "x.json"], "not allowed with"),
        (["compare", "--scenario", "nowhere.json"], "nowhere.json cannot be read"),
        (["compare", "--trace", "sharegtp"], "Unknown trace 'sharegtp'"),
        (["compare", "--trace", "nowhere.csv"], "no trace file nowhere.csv"),
        (["compare", "--trace", "x" * 300], "trace"),
        (["compare", "--set", "seed"], "'seed' is not FIELD=VALUE"),
        (["compare", "--set", "sede=1"], "Unknown scenario field 'sede'. Nearest known: seed"),
        (["compare", "--set", "self=1"], "Unknown scenario field 'self'"),
        (["compare", "--set", "seed="], "seed is ''; it must be a whole number"),
        (["compare", "--set", "seed=1.5"], "seed is 1.5; it must be a whole number"),
        (["compare", "--set", "seed=none"], "seed is None; it must be a whole number"),
        (["compare", "--set", "quality_floor=NaN"], "quality_floor is nan; it must be a number"),
        (["compare", "--set", "gate_threshold=1.3"], "gate_threshold is 1.3; it must be a number"),
        (["compare", "--set", "window_days=10000"], "window_days is 10000; it must be"),
        (["compare", "--set", "window_start=today"], "it must be a date such as 2024-05-13"),
        (["compare", "--set", "regions="], "regions is empty; choose at least one"),
        (["compare", "--set", "regions=atlantis"], "Unknown region 'atlantis'"),
        (["compare", "--set", "embodied=yes"], "embodied is 'yes'; it must be true or false"),
        (["compare", "--set", "user_mix=us-west2"], "it must be numbers by name"),
        (["compare", "--set", 'pue_overrides={"us-west2": 0.9}'], "a PUE is from 1 to 5"),
        (["compare", "--set", "gpus=B200-180GB"], "has none of the chosen GPU types"),
        (["compare", "--set", "window_start=2030-01-01"], "runs from 2021-01-01T00:00Z"),
        (["compare", "--set", "window_start=9999-12-31"], "runs from 2021-01-01T00:00Z"),
        (["compare", "--set", "name=" + "x" * 201], "text of at most 120 characters"),
    ],
)
def test_bad_input_exits_with_2_and_one_line(refusal, arguments: list[str], what: str) -> None:
    assert what in refusal(*arguments)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "not valid JSON"),
        (b'{"seed": 7', "not valid JSON"),
        (b"\xff\xfe{}", "cannot be read"),
        (b"[1]", "A scenario is a JSON object"),
        (b'{"__class__": "x"}', "Unknown scenario field '__class__'"),
        (b'{"self": 1}', "Unknown scenario field 'self'"),
        (b'{"version": 99}', "Unknown scenario field 'version'"),
        (b'{"seed": "7"}', "seed is '7'; it must be a whole number"),
        (b'{"user_mix": {"us-west2": 1' + b"0" * 400 + b"}}", "user_mix"),
    ],
)
def test_a_bad_scenario_file_is_refused(refusal, tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "scenario.json"
    path.write_bytes(content)
    assert what in refusal("compare", "--scenario", path)


def test_a_bad_trace_is_refused_with_its_line(refusal, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("session,turn,new_prompt_tokens,output_tokens\na,0,10,5\na,1,10,-5\n")
    assert "bad.csv, line 3: output_tokens must be" in refusal("compare", "--trace", path)


# --- As a process -----------------------------------------------------------------------------


def command(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """``python -m carbonrouter_core`` as a shell would run it, from another folder."""
    return subprocess.run(
        [sys.executable, "-m", "carbonrouter_core", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        text=True,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        **options,
    )


def test_it_runs_from_any_folder(tmp_path: Path, trace_file: Path) -> None:
    good = command("compare", "--json", "--trace", trace_file.name, cwd=tmp_path)
    assert (good.returncode, good.stderr) == (0, "")
    assert json.loads(good.stdout)["trace"]["name"] == "small.csv"
    bad = command("compare", "--set", "seed=x", cwd=tmp_path)
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("json_flag", [["--json"], []])
def test_any_name_can_be_printed(tmp_path: Path, trace_file: Path, json_flag: list[str]) -> None:
    # An emoji, right-to-left text, and half of a character pair, which JSON can hold.
    path = tmp_path / "scenario.json"
    path.write_text(r'{"name": "\ud83c\udf0d سيناريو \ud800"}', encoding="utf-8")
    done = command(
        "compare", "--policies", "sticky", "--trace", trace_file, "--scenario", path, *json_flag
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 2)


def test_a_reader_that_leaves_early_is_no_error(trace_file: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "carbonrouter_core", "compare", "--trace", str(trace_file)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(timeout=PATIENCE_S) == 0
    assert err == b""
