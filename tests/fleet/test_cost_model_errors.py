"""The tables of the cost model's errors are what the measurements in ../shared give."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from carbonrouter_core import Scenario, load_catalog, prepare
from tests.build_scripts import build_script

ROOT = Path(__file__).resolve().parents[2]
KEYS = ["source", "model", "gpu", "quantity", "relation", "range"]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return build_script("cost_model_errors")


@pytest.fixture(scope="module")
def points(script: ModuleType, shared_data: Path) -> pd.DataFrame:
    return script.points(shared_data / "raw", load_catalog())


def shipped(name: str) -> pd.DataFrame:
    return pd.read_csv(ROOT / "data" / name, keep_default_na=False)


def test_the_shipped_errors_are_those_of_the_cost_model(
    script: ModuleType, points: pd.DataFrame
) -> None:
    ours = shipped("cost_model_errors.csv")
    again = script.table(points)
    pd.testing.assert_frame_equal(ours[KEYS], again[KEYS], check_dtype=False)
    numbers = [name for name in again if name not in KEYS]
    # a mean that ends on half a digit may be rounded either way
    np.testing.assert_allclose(ours[numbers], again[numbers].astype(float), atol=0.1001, rtol=0)


def test_points_made_from_runs_are_met_but_for_the_context(points: pd.DataFrame) -> None:
    same = points[points.relation == "same runs"]
    energy = pd.read_csv(ROOT / "data" / "energy_points.csv")
    assert len(same) == 94 <= (energy.basis == "measured").sum()
    error = same.predicted / same.measured - 1
    assert error.abs().max() < 0.07
    short = same[same.model.str.startswith("Llama")]  # answers short enough for 400 tokens
    assert (short.predicted / short.measured - 1).abs().max() < 1e-3


def test_interpolated_points_are_taken_for_no_run(points: pd.DataFrame) -> None:
    left_out = points[points.relation == "same runs, each left out in turn"]
    on_b200 = left_out[left_out.gpu == "B200-180GB"]
    assert set(on_b200.batch) == {8, 16, 32, 64, 128}


def test_a_measured_run_compared_by_hand(points: pd.DataFrame) -> None:
    """Argonne, Llama-3-8B on H100 under vLLM, batch 64: 1,024 tokens in, 1,024 out."""
    (run,) = points[
        (points.source == "Argonne, vLLM")
        & (points.gpu == "H100-80GB")
        & (points.batch == 64)
        & (points.quantity == "gpu_j_per_output_token")
    ].itertuples()
    energy = pd.read_csv(ROOT / "data" / "energy_points.csv")
    at = energy[(energy.model == "Llama-3.1-8B") & (energy.gpu == "H100-80GB")].set_index("batch")
    alpha = 2 * 32 * 4096 / 8.03e9
    prefill = at.prefill_j_per_token[64] * (1024 + alpha * 1024**2 / 2) / 1024
    context = 0.22e-9 * 131072 * (1024 + 512 - 400)
    assert run.predicted == pytest.approx(prefill + at.decode_j_per_token[64] + context)
    assert run.measured == pytest.approx(455.476904 * 18.808667 / (64 * 1024), rel=1e-6)


def test_no_error_leaves_the_saving_where_it_is(script: ModuleType) -> None:
    """And what the table calls the saving is near what the engine says now."""
    frame = script.uncertainty(script.Sigmas(0.0, 0.0, 0.0), ("claude-code",), draws=1)
    for column in ("mean_percent", "low_percent", "high_percent"):
        np.testing.assert_allclose(frame[column], frame.saving_percent)
    ours = shipped("saving_uncertainty.csv").merge(frame, on=["trace", "policy", "perturbed"])
    assert len(ours) == len(frame)
    gone = (ours.saving_percent_x - ours.saving_percent_y).abs().max()
    assert gone < 3, "run data/build/cost_model_errors.py again: the table is of another engine"


def test_factors_are_seeded_and_as_wide_as_asked(script: ModuleType) -> None:
    size = script.Sigmas(0.4, 0.3, 0.1)
    draws = [script.factors(size, 15, i, alike=True, each=False) for i in range(400)]
    decode, prefill = np.log(np.array(draws)).transpose(1, 0, 2)
    assert (np.ptp(decode, axis=1) < 1e-12).all() and (np.ptp(prefill, axis=1) < 1e-12).all()
    assert decode.std() == pytest.approx(0.4, rel=0.15)
    assert prefill.std() == pytest.approx(0.3, rel=0.15)
    one, again = (script.factors(size, 15, 3, alike=True, each=True) for _ in range(2))
    np.testing.assert_array_equal(one, again)


def test_scaling_all_energies_scales_the_gpu_part_only(script: ModuleType) -> None:
    prepared = prepare(Scenario())
    pairs = len(prepared.deployments.replicas)
    twice = script.scaled(prepared, np.full(pairs, 2.0), np.full(pairs, 2.0)).deployments.fleet
    once = prepared.deployments.fleet
    np.testing.assert_allclose(twice.work_j - once.work_j, once.prefill_j)
    np.testing.assert_allclose(twice.output_j - once.output_j, once.decode_j)
    np.testing.assert_allclose(twice.context_j, 2 * once.context_j)
    np.testing.assert_array_equal(twice.prefill_ms, once.prefill_ms)
