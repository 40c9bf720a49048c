"""The catalog, from the built-in tables and from tables that users bring."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import pytest

from carbonrouter_core import (
    CatalogError,
    IntensityError,
    Scenario,
    ScenarioError,
    load_catalog,
    prepare,
)
from carbonrouter_core.fleet.catalog import Catalog
from carbonrouter_core.fleet.tables import read_catalog
from carbonrouter_core.paths import data_path

TABLES = ("models", "gpus", "regions", "energy_points", "region_rtt_ms")


def table(name: str) -> str:
    """The text of a built-in table, to be changed and read back."""
    return data_path(f"{name}.csv").read_text(encoding="utf-8")


def test_it_pickles() -> None:
    """As the processes of the standard library hand it on."""
    back = pickle.loads(pickle.dumps(load_catalog()))
    assert repr(back) == repr(load_catalog())
    with pytest.raises(TypeError):
        back.models["another"] = None


@pytest.fixture
def load(tmp_path: Path):
    """Load a catalog with the given tables in place of the built-in ones."""

    def load_with(**texts: str | bytes) -> Catalog:
        paths = {}
        for name, text in texts.items():
            paths[name] = tmp_path / f"{name}.csv"
            paths[name].write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_catalog(**paths)

    return load_with


# --- Read right -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_a_copy_of_a_built_in_table_reads_the_same(load, name: str) -> None:
    copied, builtin = load(**{name: table(name)}), load_catalog()
    assert copied.models == builtin.models
    assert copied.gpus == builtin.gpus
    assert copied.regions == builtin.regions
    assert copied.rtt_ms == builtin.rtt_ms
    assert copied.energy.keys() == builtin.energy.keys()


def test_models_are_read_as_published() -> None:
    models = load_catalog().models
    gemma = models["Gemma-3-12B"]
    assert (gemma.layers, gemma.global_layers, gemma.window_tokens) == (48, 8, 1024.0)
    assert gemma.weight_bytes == 24.4e9  # 12.2e9 parameters of 2 bytes
    qwen = models["Qwen3-235B-A22B"]
    assert (qwen.total_params_b, qwen.active_params_b) == (235.0, 22.0)
    assert qwen.weight_bytes == 235e9  # FP8: one byte each


def test_without_a_window_all_layers_are_global(load) -> None:
    llama = load_catalog().models["Llama-3.1-8B"]
    assert (llama.global_layers, llama.window_tokens) == (32, math.inf)
    # whatever the table says of global layers
    changed = table("models").replace("8.03,8.03,32,32,,", "8.03,8.03,32,4,,")
    assert load(models=changed).models["Llama-3.1-8B"].global_layers == 32


def test_a_site_without_a_pue_gets_1_20_and_says_that_it_is_assumed() -> None:
    regions = load_catalog().regions
    london, sydney = regions["europe-west2"], regions["australia-southeast1"]
    assert (london.pue, london.pue_assumed) == (1.20, True)
    assert (sydney.pue, sydney.pue_assumed) == (1.16, False)


@pytest.mark.parametrize(
    ("region", "hours"),
    [("europe-west2", 0), ("us-west2", -8), ("europe-west3", 1), ("australia-southeast1", 10)],
)
def test_local_time_follows_the_longitude(region: str, hours: int) -> None:
    assert load_catalog().regions[region].utc_offset_h == hours


def test_every_pair_of_regions_has_a_round_trip() -> None:
    catalog = load_catalog()
    for a in catalog.regions:
        for b in catalog.regions:
            assert catalog.rtt_ms[a, b] > 0, (a, b)


def test_energy_curves_run_over_rising_batches(load) -> None:
    header, *rows = table("energy_points").splitlines()
    shuffled = "\n".join([header, *reversed(rows)])
    curve = load(energy_points=shuffled).energy["Gemma-3-12B", "H100-80GB"]
    assert curve.batch.tolist() == [8, 16, 32, 64, 96, 128]
    assert curve.decode_j_per_token[0] == 0.6968


def test_a_byte_order_mark_is_no_part_of_the_first_column(load) -> None:
    assert load(gpus="\ufeff" + table("gpus")).gpus.keys() == load_catalog().gpus.keys()


def test_a_users_gpu_and_its_curve_can_be_added(load) -> None:
    catalog = load(
        gpus=table("gpus") + "L4,121,300,24,72,16,50,,,\n",
        energy_points=table("energy_points") + "Llama-3.1-8B,L4,2,8,0.1,0.5,1.5,30,measured,\n",
    )
    assert catalog.energy["Llama-3.1-8B", "L4"].n_gpus == 2
    scenario = Scenario(gpus=("L4",), models=("Llama-3.1-8B",), trace="claude-code")
    assert len(prepare(scenario, catalog=catalog).deployments) == 4  # one a region


def test_a_gpu_without_a_figure_for_reading_the_cache_gets_0_22_and_says_that_it_is_assumed(
    load,
) -> None:
    gpus = load(gpus=table("gpus") + "L4,121,300,24,72,16,50,,,\n").gpus
    l4, b200 = gpus["L4"], gpus["B200-180GB"]
    assert (l4.context_nj_per_byte, l4.context_assumed, l4.context_source) == (
        0.22,
        True,
        "assumed",
    )
    assert (b200.context_nj_per_byte, b200.context_assumed) == (0.165, False)


def test_a_curve_says_how_its_figures_were_obtained() -> None:
    energy = load_catalog().energy
    on_b200 = energy["Gemma-3-12B", "B200-180GB"]
    assert on_b200.basis_at(64.0) == "measured"
    assert on_b200.basis_at(96.0) == "interpolated: not run at this batch"
    assert energy["Gemma-3-12B", "A100-80GB"].basis_at(64.0) == "scaled from H100-80GB"


# --- Refused, naming the row ------------------------------------------------------------------

NEW_GPU = "L4,121,300,24,72,16,50"


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("L4,121,300,24,,16,50", r"tdp_w is empty; give a number in W"),
        ("L4,121,300,24, ,16,50", r"tdp_w is empty"),
        ("L4,121,300,24,nan,16,50", r"tdp_w is nan; it must be from 1"),
        ("L4,121,300,24,inf,16,50", r"tdp_w is inf; it must be from 1"),
        ("L4,121,300,24,0,16,50", r"tdp_w is 0; it must be from 1"),
        ("L4,121,300,24,-72,16,50", r"tdp_w is -72; it must be from 1"),
        ("L4,121,300,24,72 W,16,50", r"tdp_w is '72 W', not a number"),
        ('L4,121,300,24,"72,5",16,50', r"tdp_w is '72,5', not a number"),
        ("L4,121,300,24", r"tdp_w is empty"),
        (",121,300,24,72,16,50", r"gpu is empty; fill it in"),
        ("H100-80GB,121,300,24,72,16,50", r"gpu stands there twice"),
    ],
)
def test_a_gpu_row_without_a_usable_power_or_name_is_refused(load, row: str, what: str) -> None:
    line = len(table("gpus").splitlines()) + 1
    with pytest.raises(CatalogError, match=rf"gpus\.csv, line {line}: {what}"):
        load(gpus=table("gpus") + row + "\n")


def test_an_energy_point_without_its_energy_is_refused(load) -> None:
    for cell in ("", "0", "-0.1", "nan", "n/a"):
        text = table("energy_points").replace("0.41572", cell, 1)
        with pytest.raises(CatalogError, match=r"energy_points\.csv, line 2: decode_j_per_token"):
            load(energy_points=text)


def test_a_line_number_counts_the_blank_lines_before_it(load) -> None:
    header, *rows = table("gpus").splitlines()
    text = "\n".join([header, "", *rows, "", "L4,121,300,24,,16,50"])
    with pytest.raises(CatalogError, match=f"line {len(rows) + 4}: tdp_w is empty"):
        load(gpus=text)


def test_more_cells_than_columns_are_refused_and_shift_nothing(load) -> None:
    header, *rows = table("gpus").splitlines()
    text = "\n".join([header, *(row + ",9" for row in rows)])
    with pytest.raises(CatalogError, match=r"gpus\.csv"):
        load(gpus=text)
    # The same where every cell would still be a number in the column to its left.
    header, *rows = table("region_rtt_ms").splitlines()
    text = "\n".join([header, *("x," + row for row in rows)])
    with pytest.raises(CatalogError, match=r"region_rtt_ms\.csv"):
        load(region_rtt_ms=text)


@pytest.mark.parametrize(
    ("name", "old", "new", "what"),
    [
        ("gpus", "tdp_w", "tdp", r"gpus\.csv: unknown column 'tdp'; the columns are gpu, "),
        ("gpus", ",embodied_kgco2e,", ",", r"gpus\.csv"),
        ("models", "model,hf_id", "hf_id", r"models\.csv"),
        ("models", ",68.9,", ",,", r"models\.csv, line 5: mmlu_pro_percent is empty"),
        ("models", ",68.9,", ",0.689e3,", r"mmlu_pro_percent .* from 0.1 to 99.9 %"),
        (
            "models",
            "235.0,22.0",
            "22.0,235.0",
            r"models\.csv, line 6: .*Qwen3-235B-A22B.*more active parameters",
        ),
        (
            "models",
            "12.2,12.2,48,8",
            "12.2,12.2,48,49",
            r"models\.csv, line 3: .*Gemma-3-12B.*more global layers",
        ),
        ("regions", "151.2093,1.16", "151.2093,0.9", r"line 2: pue is 0.9; .* from 1 to 5"),
        ("regions", "-33.8688", "-133.8688", r"line 2: latitude is -133.8688"),
        ("region_rtt_ms", ",262.0,", ",-262.0,", r"region_rtt_ms\.csv, line \d+: rtt_ms is -262"),
        ("energy_points", "Llama-3.1-8B,A100", "Llama-3,A100", "line 2: model 'Llama-3' is not in"),
        ("energy_points", "8B,A100-80GB,1,8,", "8B,A100-80GB,2,8,", "n_gpus of Llama-3.1-8B on A1"),
        ("energy_points", ",scaled,H100-80GB", ",guessed,H100-80GB", "line 2: basis is 'guessed'"),
        ("energy_points", ",scaled,H100-80GB", ",scaled,", "line 2: scaled_from names a GPU type"),
        ("energy_points", ",measured,", ",measured,H100-80GB", "scaled_from names a GPU type"),
        ("energy_points", "8B,A100-80GB,1,16,", "8B,A100-80GB,1,8,", "line 3: .* stands there twi"),
    ],
)
def test_a_wrong_cell_is_refused(load, name: str, old: str, new: str, what: str) -> None:
    text = table(name)
    assert old in text
    with pytest.raises(CatalogError, match=what):
        load(**{name: text.replace(old, new, 1)})


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("models", "8.03,8.03,32,32", "8.03,8.03,32.5,32"),
        ("models", "4096,131072,2,131072", "4096,131072,2,131072.5"),
        ("energy_points", "Llama-3.1-8B,A100-80GB,1,", "Llama-3.1-8B,A100-80GB,1.5,"),
    ],
)
def test_half_a_layer_token_or_gpu_is_refused_not_cut_off(load, name, old, new) -> None:
    assert old in table(name)
    with pytest.raises(CatalogError, match="whole number"):
        load(**{name: table(name).replace(old, new)})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe not text",
        b"PK\x03\x04\x14\x00\x00\x00\x08\x00\xe0\xb5",
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        b'gpu,tdp_w\n"never closed',
    ],
)
def test_what_is_no_table_is_refused(load, content: bytes) -> None:
    with pytest.raises(CatalogError, match=r"gpus\.csv"):
        load(gpus=content)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r"nowhere\.csv cannot be read"):
        read_catalog(gpus=tmp_path / "nowhere.csv")


# --- Choices that cannot be run ---------------------------------------------------------------


def refused(catalog: Catalog | None = None, **fields: object) -> str:
    """What a scenario that cannot run is told."""
    with pytest.raises(ScenarioError) as error:
        prepare(Scenario(trace="claude-code", **fields), catalog=catalog)
    return str(error.value)


def test_a_model_that_does_not_fit_its_gpus_is_refused_before_running(load) -> None:
    one_gpu = table("energy_points").replace(
        "Llama-3.3-70B,H100-80GB,4,", "Llama-3.3-70B,H100-80GB,1,"
    )
    text = refused(load(energy_points=one_gpu))
    assert "Llama-3.3-70B does not fit on 1 × H100-80GB" in text
    assert "141 GB of 80 GB" in text  # 70.6e9 parameters of 2 bytes
    assert "Choose another GPU type, more GPUs a replica, or leave the model out" in text


def test_a_region_without_a_gpu_is_refused() -> None:
    text = refused(gpus=("B200-180GB",))  # which Frankfurt alone has
    assert "europe-west2 (London) has none of the chosen GPU types" in text
    assert "leave the region out" in text


def test_a_model_without_energy_points_is_refused_or_left_out_with_a_warning(load) -> None:
    catalog = load(gpus=table("gpus") + NEW_GPU + "\n")
    text = refused(catalog, gpus=("L4",), gpu_regions={}, models=("Llama-3.1-8B",))
    assert "Llama-3.1-8B has no energy points for any chosen GPU type" in text
    beside = Scenario(trace="claude-code", gpus=("L4", "H100-80GB"), models=("Llama-3.1-8B",))
    prepared = prepare(beside, catalog=catalog)
    assert set(prepared.deployments.to_frame()["gpu"]) == {"H100-80GB"}  # L4 wins no turn
    assert "Llama-3.1-8B has no energy points for L4: left out there." in prepared.warnings


def test_a_gpu_type_that_is_nowhere_is_named_in_a_warning() -> None:
    scenario = Scenario(trace="claude-code", gpu_regions={"B200-180GB": ()})
    assert any("B200-180GB is in none" in warning for warning in prepare(scenario).warnings)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        (
            {"regions": ("europe-west22",)},
            "Unknown region 'europe-west22'. Nearest known: europe-we",
        ),
        ({"gpus": ("H100",)}, "Unknown GPU type 'H100'. Nearest known: H100-80GB"),
        (
            {"models": ("llama-3.1-8b",)},
            "Unknown model 'llama-3.1-8b'. Nearest known: Llama-3.1-8B",
        ),
        ({"user_mix": {"Europe": 1.0}}, "Unknown region 'Europe'"),
        ({"pue_overrides": {"London": 1.1}}, "Unknown region 'London'"),
        ({"gpu_regions": {"B200-180GB": ("us-west99",)}}, "Unknown region 'us-west99'"),
    ],
)
def test_a_name_that_is_not_in_the_catalog_is_refused(fields: dict, what: str) -> None:
    assert what in refused(**fields)


def test_a_round_trip_that_is_not_in_the_table_is_refused(load) -> None:
    rows = table("region_rtt_ms").splitlines()
    kept = [row for row in rows if not row.startswith("europe-west2,us-west2,")]
    text = refused(load(region_rtt_ms="\n".join(kept)))
    assert "no round-trip time from europe-west2 to us-west2" in text


def test_an_unknown_grid_zone_is_refused(load) -> None:
    catalog = load(regions=table("regions").replace("London,GB,", "London,XX-NOWHERE,"))
    with pytest.raises(IntensityError, match="Unknown zone 'XX-NOWHERE'"):
        prepare(Scenario(trace="claude-code"), catalog=catalog)
