"""The commands about traces: import, list, validate, export, delete, and what was observed."""

import json
from pathlib import Path

import pytest

from carbonrouter_core.cli.main import main

HEADER = "session,turn,new_prompt_tokens,output_tokens"


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))


def test_a_trace_is_imported_listed_used_exported_and_deleted(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = str(shared_data / "formats" / "openai_usage.jsonl")
    region = ["--served-region", "europe-west2"]
    assert main(["import", "trace", log, "--name", "log", *region]) == 0
    said = capsys.readouterr().out
    assert "its records carry usage.prompt_tokens" in said
    assert "stored as log" in said
    assert main(["traces"]) == 0
    listed = capsys.readouterr().out
    assert "sharegpt" in listed
    assert "2024-05-20T10:13:20Z to 2024-05-20T10:15:40Z" in listed
    window = ["--set", "window_start=2024-05-20", "--set", "window_days=1"]
    assert main(["compare", "--trace", "log", "--json", *window]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["trace"]["turns"] == 4
    assert "as-served" in result["policies"]
    assert main(["observed", "--trace", "log", "--fit-idle", *window]) == 0
    observed = capsys.readouterr().out
    assert "2 of 2 sessions are charged in full" in observed
    assert "mean absolute error" in observed
    assert "best fit: idle_s" in observed
    assert main(["observed", "--trace", "log", "--fit-idle", "--json", *window]) == 0
    assert json.loads(capsys.readouterr().out)["idle_fit"]["best"]["turns"] == 2
    out = tmp_path / "out.parquet"
    assert main(["traces", "--export", "log", str(out)]) == 0
    assert main(["import", "trace", str(out), "--name", "again"]) == 0
    assert main(["traces", "--delete", "log"]) == 0
    capsys.readouterr()
    assert main(["compare", "--trace", "log"]) == 2
    assert "Unknown trace 'log'" in capsys.readouterr().err


def test_validate_says_what_is_wrong_and_stores_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADER}\na,0,10,5\na,1,10,-5\n")
    assert main(["validate", str(path)]) == 2
    out, err = capsys.readouterr()
    assert "refused: output_tokens must be" in out
    assert err.startswith("error: t.csv, line 3")
    assert err.count("\n") == 1
    path.write_text(f"{HEADER}\na,0,10,5\n")
    assert main(["validate", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["turns"] == 1
    assert not (tmp_path / "home").exists()


def test_what_could_be_read_is_stored_only_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADER}\na,0,10,5\na,1,1")
    assert main(["import", "trace", str(path)]) == 2
    assert "--keep-readable" in capsys.readouterr().err
    assert main(["import", "trace", str(path), "--keep-readable"]) == 0
    assert "stored as t:" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["import"],
        ["import", "trace", "nowhere.csv"],
        ["validate", "nowhere.csv"],
        ["traces", "--delete", "nobody"],
        ["traces", "--export", "nobody", "out.parquet"],
        ["observed", "--trace", "sharegpt"],
        ["import", "trace", "nowhere.csv", "--format", "xml"],
        ["import", "trace", "nowhere.csv", "--served-region", ""],
    ],
)
def test_bad_input_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["--delete", "sharegpt"], ["--export", "claude-code", "x.parquet"]]
)
def test_a_built_in_trace_is_said_to_be_one(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["traces", *arguments]) == 2
    assert "is built in" in capsys.readouterr().err


def test_the_region_that_served_must_be_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADER}\na,0,10,5\n")
    for command in (["import", "trace"], ["validate"]):
        assert main([*command, str(path), "--served-region", "nowhere"]) == 2
        said = capsys.readouterr().err
        assert "Unknown region 'nowhere'" in said and "--add-site" in said
    assert main(["traces"]) == 0
    assert "own" not in capsys.readouterr().out.split()
    for number, name in enumerate(("europe-west2", "london")):  # a city as well, as in a log
        arguments = ["--name", f"t{number}", "--served-region", name]
        assert main(["import", "trace", str(path), *arguments]) == 0


def test_an_empty_name_is_no_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["traces", "--delete", ""]) == 2
    assert "''" in capsys.readouterr().err
