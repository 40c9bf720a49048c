"""A user's models, GPU types and energy points in the store, in the commands, and in reports."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from carbonrouter_core import CatalogError, Scenario, load_catalog, prepare
from carbonrouter_core.cli.main import main
from carbonrouter_core.fleet.own import TABLES, template_csv
from carbonrouter_core.report.links import link_text, needs, open_link, own_entries_of
from carbonrouter_core.store.own_catalog import delete_entry, import_catalog, stored_additions

OWN = Scenario(trace="claude-code", models=("my-model",), gpus=("my-gpu",))
CHOOSE_OWN = ("--set", "models=my-model", "--set", "gpus=my-gpu")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty store."""
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Path]:
    """The three templates as files."""
    paths = {name: tmp_path / f"{name}.csv" for name in TABLES}
    for name, path in paths.items():
        path.write_text(template_csv(name), encoding="utf-8")
    return paths


def options(tables: dict[str, Path]) -> list[str]:
    """The files as options of a command."""
    return [text for name, path in tables.items()
            for text in (f"--{name.replace('_', '-')}", str(path))]  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace of four short sessions."""
    path = tmp_path / "short.csv"
    rows = [f"s{s},{t},200,100" for s in range(4) for t in range(3)]
    path.write_text("session,turn,new_prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    return path


def names() -> list[str]:
    return [entry.name for entry in stored_additions().entries]


# --- The store --------------------------------------------------------------------------------


def test_what_is_stored_is_in_the_catalog_from_then_on(tables) -> None:
    stored = import_catalog(**tables)
    assert stored_additions().entries == stored
    assert [entry.name for entry in prepare(OWN).deployments.own_entries] == names()
    assert names() == ["my-model", "my-gpu", "my-model on my-gpu"]


def test_tables_may_come_one_after_the_other(tables) -> None:
    with pytest.raises(CatalogError, match="'my-model' is not in the model table"):
        import_catalog(energy_points=tables["energy_points"])
    for name, path in tables.items():
        import_catalog(**{name: path})
    assert len(prepare(OWN).deployments) == 4


def test_a_wrong_table_leaves_what_was_stored(tables) -> None:
    import_catalog(gpus=tables["gpus"])
    tables["models"].write_text(template_csv("models").replace(",32,32,", ",32,33,"))
    tables["gpus"].write_text(template_csv("gpus").replace("my-gpu", "another"))
    with pytest.raises(CatalogError, match="line 2: 'my-model' has more global layers than layers"):
        import_catalog(models=tables["models"], gpus=tables["gpus"])
    assert names() == ["my-gpu"]


def test_an_entry_of_the_same_name_is_replaced_if_its_points_still_hold(tables) -> None:
    import_catalog(**tables)
    before = prepare(OWN).deployments.own_entries
    tables["gpus"].write_text(template_csv("gpus").replace(",80,700,", ",96,700,"))
    import_catalog(gpus=tables["gpus"])
    assert load_catalog().gpus["my-gpu"].memory_gb == 96
    after = prepare(OWN).deployments.own_entries
    same = [a.sha256 == b.sha256 for a, b in zip(before, after, strict=True)]
    assert same == [True, False, True]
    tables["gpus"].write_text(template_csv("gpus").replace(",80,700,", ",8,700,"))
    with pytest.raises(CatalogError, match="my-model does not fit"):
        import_catalog(gpus=tables["gpus"])
    assert load_catalog().gpus["my-gpu"].memory_gb == 96


def test_deleting_takes_the_energy_points_along(tables) -> None:
    import_catalog(**tables)
    with pytest.raises(CatalogError, match="Nearest known: my-gpu"):
        delete_entry("GPU type", "my-gpus")
    with pytest.raises(CatalogError, match="Unknown model of your own 'Gemma-3-12B'"):
        delete_entry("model", "Gemma-3-12B")
    assert delete_entry("GPU type", "my-gpu") == ("my-model on my-gpu",)
    assert names() == ["my-model"]
    assert "my-gpu" not in load_catalog().gpus


# --- Commands ---------------------------------------------------------------------------------


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_files_on_the_command_line_give_what_stored_entries_give(tables, trace, capsys) -> None:
    run = ("compare", "--trace", str(trace), *CHOOSE_OWN, "--policies", "sticky", "--json")
    assert main(run) == 2
    assert "Unknown model 'my-model'" in capsys.readouterr().err
    by_files = printed(capsys, *run, *options(tables))
    assert names() == []
    printed(capsys, "import", "catalog", *options(tables))
    assert printed(capsys, *run) == by_files
    assert any("models.csv, line 2" in text for text in json.loads(by_files)["warnings"])


def test_workers_of_a_sweep_know_them(tables, trace, capsys) -> None:
    run = ("sweep", "--trace", str(trace), *CHOOSE_OWN, "--vary", "idle_s=60,3600")
    more = ("--policies", "carbonrouter,faircarbon", "--half", "all", "--workers", "2", "--json")
    rows = json.loads(printed(capsys, *run, *more, *options(tables)))
    assert [row["values"]["idle_s"] for row in rows] == [60, 3600]
    assert not any(row.get("error") for row in rows)


def test_the_catalog_command_lists_and_deletes(tables, capsys) -> None:
    assert "nothing of your own" in printed(capsys, "catalog")
    printed(capsys, "import", "catalog", *options(tables))
    assert printed(capsys, "catalog").splitlines()[0].startswith("model my-model (models.csv, li")
    gone = printed(capsys, "catalog", "--delete", "model", "my-model")
    assert gone.splitlines() == [
        "deleted model my-model",
        "deleted energy points my-model on my-gpu",
    ]
    assert main(["catalog", "--delete", "region", "x"]) == 2
    assert "the kind is one of model, GPU type, energy points" in capsys.readouterr().err
    assert main(["import", "catalog"]) == 2
    assert "Give --models, --gpus or --energy-points" in capsys.readouterr().err


# --- Where figures are from -------------------------------------------------------------------


def test_a_bundle_and_a_kept_run_say_that_own_entries_were_used(
    tables, trace, tmp_path, capsys
) -> None:
    import_catalog(**tables)
    out = tmp_path / "bundle.zip"
    run = ("report", "--trace", str(trace), *CHOOSE_OWN, "--policies", "sticky", "--out", str(out))
    number = printed(capsys, *run, "--keep", "own").split("kept as run ")[1].split(":")[0]
    with zipfile.ZipFile(out) as bundle:
        text = bundle.read("metadata.csv").decode("utf-8-sig")
    facts = {row["key"]: row["value"] for row in csv.DictReader(io.StringIO(text))}
    for entry in stored_additions().entries:
        value = facts[f"own.{entry.kind}.{entry.name}"]
        assert value == f"{entry.row}, sha256 {entry.sha256}"
    tables["models"].write_text(template_csv("models").replace(",48.3,", ",50.1,"))
    import_catalog(models=tables["models"])
    again = printed(capsys, "runs", "--again", number)
    assert "models, GPU types, regions or their energy figures" in again


def test_a_link_says_which_tables_it_rests_on(tables) -> None:
    import_catalog(**tables)
    link = link_text(OWN, own_entries=own_entries_of(OWN))
    assert open_link(link).notices == ()
    assert len(needs(OWN)) == 3
    assert needs(Scenario()) == ()
    tables["gpus"].write_text(template_csv("gpus").replace(",80,700,", ",96,700,"))
    import_catalog(gpus=tables["gpus"])
    (notice,) = open_link(link).notices
    assert "GPU type my-gpu" in notice and "other figures" in notice
    delete_entry("model", "my-model")
    notices = open_link(link).notices
    assert sum("without that table" in text for text in notices) == 2
    assert any("not known here and was left out" in text for text in notices)
