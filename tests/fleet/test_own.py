"""Models, GPU types and energy points of the user: read, checked, and used like built-in ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from carbonrouter_core import CatalogError, Scenario, ScenarioError, load_catalog, prepare
from carbonrouter_core.fleet.catalog import Catalog
from carbonrouter_core.fleet.own import (
    TABLES,
    additions_of,
    entry_from_json,
    entry_to_json,
    kind_of,
    read_additions,
    sha256_of,
    template_csv,
    with_additions,
)
from carbonrouter_core.fleet.tables import read_catalog

OWN = Scenario(trace="claude-code", models=("my-model",), gpus=("my-gpu",))


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Catalog]:
    """The built-in catalog with the given tables added."""

    def load_with(**texts: str) -> Catalog:
        paths = {}
        for name, text in texts.items():
            paths[name] = tmp_path / f"{name}.csv"
            paths[name].write_text(text, encoding="utf-8")
        return with_additions(read_catalog(), read_additions(read_catalog(), **paths))

    return load_with


def templates(**changes: tuple[str, str]) -> dict[str, str]:
    """The three templates; in the table of each name, a text is replaced by another."""
    texts = {name: template_csv(name) for name in TABLES}
    for name, (old, new) in changes.items():
        assert old in texts[name]
        texts[name] = texts[name].replace(old, new)
    return texts


def test_the_templates_are_a_catalog_that_runs_as_what_they_copy(load) -> None:
    catalog = load(**templates())
    own = prepare(OWN, catalog=catalog).deployments
    copied = prepare(OWN.replace(models=("Llama-3.1-8B",), gpus=("H100-80GB",))).deployments
    for name, array in own.fleet._asdict().items():
        np.testing.assert_array_equal(array, getattr(copied.fleet, name), err_msg=name)
    assert [(entry.kind, entry.name, entry.row) for entry in own.own_entries] == [
        ("model", "my-model", "models.csv, line 2"),
        ("GPU type", "my-gpu", "gpus.csv, line 2"),
        ("energy points", "my-model on my-gpu", "energy_points.csv, line 2"),
    ]
    (warning,) = (text for text in own.warnings if text.startswith("Figures of your own are used"))
    for entry in own.own_entries:
        assert f"{entry.name} ({entry.row}, SHA-256 {entry.sha256[:12]})" in warning
    assert not copied.own_entries
    assert not any("your own" in text for text in copied.warnings)


def test_an_own_model_on_a_built_in_gpu(load) -> None:
    texts = templates(energy_points=("my-gpu", "H100-80GB"))
    del texts["gpus"]
    prepared = prepare(OWN.replace(gpus=("H100-80GB",)), catalog=load(**texts))
    assert len(prepared.deployments) == 4


def test_figures_of_equal_entries_have_equal_hashes_wherever_they_are_from(load) -> None:
    (gpu,) = additions_of(load(gpus=template_csv("gpus"))).gpus
    (lower,) = additions_of(load(gpus=template_csv("gpus").replace("my-gpu", "\nmy-gpu"))).gpus
    (other,) = additions_of(load(gpus=template_csv("gpus").replace(",80,", ",81,"))).gpus
    assert gpu.own_row != lower.own_row
    assert sha256_of(gpu) == sha256_of(lower) != sha256_of(other)


def test_an_entry_comes_back_from_json_the_same(load) -> None:
    for entry in additions_of(load(**templates())).all:
        back = entry_from_json(kind_of(entry), entry_to_json(entry))
        assert repr(back) == repr(entry)


def test_optional_figures_are_assumed_and_said_to_be(load) -> None:
    texts = templates(gpus=("0.22,assumed for HBM2e and HBM3,published footprint", ",,"))
    gpu = load(**texts).gpus["my-gpu"]
    assert (gpu.context_nj_per_byte, gpu.context_source, gpu.context_assumed) == (
        0.22,
        "assumed",
        True,
    )


# --- Wrong tables -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("models", "my-model", "llama-3.1-8b", "models.csv, line 2: .* is a built-in model"),
        ("gpus", "my-gpu", "B200-180GB", "gpus.csv, line 2: .* is a built-in GPU type"),
        ("models", "my-model", "m" * 81, "models.csv, line 2: the name of a model is 1 to 80"),
        ("gpus", "my-gpu", "my\x00gpu", "gpus.csv, line 2: the name of a GPU type is 1 to 80"),
        ("gpus", "tdp_w", "tdp", "unknown column 'tdp'"),
        ("gpus", ",700,70,", ",,70,", "gpus.csv, line 2: tdp_w is empty; give a number in W"),
        ("gpus", ",700,70,", ",NaN,70,", "gpus.csv, line 2: tdp_w is NaN"),
        ("gpus", ",700,70,", ",-700,70,", "gpus.csv, line 2: tdp_w is -700; it must be from 1"),
        ("gpus", ",700,70,", ',"0,7",70,', "gpus.csv, line 2: tdp_w is '0,7', not a number"),
        ("gpus", ",80,700", ",8,700", "my-model does not fit on 1 × my-gpu"),
        ("energy_points", "my-model,", "other,", "line 2: model 'other' is not in the model table"),
        ("energy_points", "0.44829", "", "line 2: decode_j_per_token is empty"),
        ("energy_points", "0.44829", "0.00044829", "at batch 8; .* Check the units"),
        ("energy_points", "0.01686,", "16.86,", "W a GPU in prefill; .* Check the units"),
        ("energy_points", "my-gpu,1,16,", "my-gpu,1,8,", "line 3: .* stands there twice"),
        ("energy_points", "my-model,my-gpu", "Llama-3.1-8B,H100-80GB", "has built-in energy point"),
    ],
)
def test_a_wrong_row_is_refused_by_file_and_line(
    load, name: str, old: str, new: str, message: str
) -> None:
    with pytest.raises(CatalogError, match=message):
        load(**templates(**{name: (old, new)}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\xff\xfe\x00", "cannot be read as a UTF-8 CSV table"),
        (b"PK\x03\x04\x14\x00\x00\x00", "unknown column"),
        (b"gpu," + b"x" * 40_000_000, "40,000,004 bytes"),
        (template_csv("gpus").replace(",", ";").encode(), "unknown column"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "gpus.csv"
    path.write_bytes(content)
    with pytest.raises(CatalogError, match=rf"gpus\.csv.* {message}"):
        read_additions(read_catalog(), gpus=path)


def test_a_gpu_type_without_energy_points_serves_nothing(load) -> None:
    catalog = load(gpus=template_csv("gpus"))
    assert additions_of(catalog).lacking == (
        "my-gpu has no energy points yet; it can serve nothing until you add some.",
    )
    with pytest.raises(ScenarioError, match="no energy points for any chosen GPU type"):
        prepare(Scenario(trace="claude-code", gpus=("my-gpu",)), catalog=catalog)


def test_files_for_one_run_are_added_to_the_catalog(tmp_path: Path) -> None:
    paths = {}
    for name in TABLES:
        paths[name] = tmp_path / f"{name}.csv"
        paths[name].write_text(template_csv(name), encoding="utf-8")
    catalog = load_catalog(**paths)
    assert set(catalog.models) - set(load_catalog().models) == {"my-model"}
    assert list(catalog.gpus)[-1] == "my-gpu"
