"""The commands ``report`` and ``runs``, as a scheduled job uses them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from carbonrouter_core.cli.main import main

LOG = "session,turn,new_prompt_tokens,output_tokens,t_s\n" + "".join(
    f"s{i},{turn},{50 + 7 * i},80,{turn * 60}\n" for i in range(20) for turn in range(3)
)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return str(path)


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on standard error of a command that ends with 2."""
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


def test_bundle_report_and_runs(
    tmp_path: Path, log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.zip"
    out.write_text("of yesterday")
    keep = ["--keep", "Nightly", "--note", "scheduled"]
    assert main(["report", "--trace", log, "--out", str(out), *keep]) == 0
    printed = capsys.readouterr().out
    assert "wrote out.zip: run " in printed and "kept as run 1: Nightly" in printed
    with zipfile.ZipFile(out) as bundle:
        summary = bundle.read("summary.csv").decode()
    assert summary.count("\n") == 4, "header, router, today's practice, FairCarbon"
    assert "nearest-region" in summary
    assert "carbonrouter-lookahead" in summary and "faircarbon" in summary
    page = tmp_path / "out.HTML"
    assert main(["report", "--trace", log, "--out", str(page), "--policies", "sticky"]) == 0
    assert "<h1><bdi>Start</bdi></h1>" in page.read_text(encoding="utf-8")
    assert sorted(one.name for one in tmp_path.iterdir() if one.is_file()) == [
        "log.csv",
        "out.HTML",
        "out.zip",
    ]
    more = ["--router", "sticky", "--set", "quality_floor=0.7", "--keep", "Other"]
    assert main(["report", "--trace", log, "--out", str(out), *more]) == 0
    capsys.readouterr()
    assert main(["runs"]) == 0
    listed = capsys.readouterr().out
    assert (
        "Nightly" in listed
        and "scheduled" in listed
        and "sticky, nearest-region, faircarbon" in listed
    )
    assert main(["runs", "--again", "1"]) == 0
    assert "the same bytes" in capsys.readouterr().out
    assert main(["runs", "--compare", "1", "2"]) == 0
    compared = capsys.readouterr().out
    assert "input quality_floor: 0.65 -> 0.7" in compared
    assert "of 60 turns served elsewhere" in compared
    assert main(["runs", "--rename", "1", "Daily"]) == 0
    assert main(["runs", "--note", "1", "kept"]) == 0
    assert main(["runs", "--delete", "2"]) == 0
    capsys.readouterr()
    assert main(["runs"]) == 0
    listed = capsys.readouterr().out
    assert "Daily" in listed and "kept" in listed and "Other" not in listed


def test_bad_input_ends_with_2_and_writes_nothing(
    tmp_path: Path, log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "x.zip")
    assert "must end in .zip or .html" in failed(capsys, "report", "--out", "x.csv")
    # said before the run, so that the trace was not even looked for
    said = failed(capsys, "report", "--trace", "absent", "--out", str(tmp_path / "none" / "x.zip"))
    assert said.startswith("error: x.zip cannot be written: there is no folder none")
    assert "Unknown policy" in failed(capsys, "report", "--out", out, "--router", "best")
    assert "with itself" in failed(capsys, "report", "--out", out, "--router", "faircarbon")
    assert "--keep" in failed(capsys, "report", "--out", out, "--note", "n")
    assert "--out" in failed(capsys, "report")
    assert "quality_floor" in failed(capsys, "report", "--out", out, "--set", "quality_floor=2")
    assert "No run is kept yet" in failed(capsys, "runs", "--again", "1")
    assert main(["report", "--trace", log, "--out", out, "--keep", "One"]) == 0
    capsys.readouterr()
    Path(out).unlink()
    assert "no stored run 9" in failed(capsys, "runs", "--delete", "9")
    assert "not the number of a run" in failed(capsys, "runs", "--rename", "x", "y")
    assert "name is empty" in failed(capsys, "report", "--trace", log, "--out", out, "--keep", " ")
    assert [one.name for one in tmp_path.iterdir() if one.is_file()] == ["log.csv"]


def test_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["report", "--help"])
    assert end.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Exit codes: 0 written; 2 bad input" in said
