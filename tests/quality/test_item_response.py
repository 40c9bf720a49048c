"""Predicted quality, and the ability of a model."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carbonrouter_core.errors import InputError
from carbonrouter_core.paths import data_path
from carbonrouter_core.quality.item_response import (
    QualityFit,
    ability_from_accuracy,
    predicted_quality,
)

logits = st.floats(-20, 20)


# --- Quality ---------------------------------------------------------------------------------


def test_quality_of_a_hand_worked_case() -> None:
    # k (theta - b) = 0.5 (2 - (-0.197225)) = ln 3 = 1.098612; sigma(ln 3) = 3/4.
    assert float(predicted_quality(2.0, 2.0 - 2.0 * math.log(3.0), 0.5)) == pytest.approx(0.75)
    assert float(predicted_quality(1.0, 1.0, 0.7)) == 0.5


def test_quality_broadcasts_abilities_against_difficulties() -> None:
    q = predicted_quality([[0.0], [1.0]], [0.0, 1.0, 2.0], k=1.0)
    assert q.shape == (2, 3)
    assert q[0, 0] == q[1, 1] == 0.5


def test_quality_survives_extreme_difficulty() -> None:
    assert predicted_quality(0.0, [-1e6, 1e6], 1.0).tolist() == [1.0, 0.0]


@given(theta=logits, b=logits, more=st.floats(0.01, 5), k=st.floats(0.1, 1))
@settings(deadline=None)
def test_quality_rises_with_ability_and_falls_with_difficulty(
    theta: float, b: float, more: float, k: float
) -> None:
    q = predicted_quality(theta, b, k)
    assert 0.0 <= q <= 1.0
    assert predicted_quality(theta + more, b, k) >= q >= predicted_quality(theta, b + more, k)


def test_fit_has_the_slope_that_its_sigma_asks_for() -> None:
    fit = QualityFit.load()
    assert fit.k == pytest.approx(1.0 / math.sqrt(1.0 + math.pi * fit.sigma**2 / 8.0), rel=1e-12)


def test_fit_is_what_the_design_refers_to() -> None:
    table = pd.read_csv(data_path("quality_fit.csv"), index_col="key")["value"].astype(float)
    assert table["r2_mean"] == pytest.approx(0.19, abs=0.01)
    assert table["sigma"] == pytest.approx(1.53, abs=0.01)
    assert table["auc_mean"] == pytest.approx(0.67, abs=0.01)


# --- Ability ---------------------------------------------------------------------------------


def test_ability_on_equal_items_is_the_log_odds() -> None:
    assert ability_from_accuracy(75.0, [0.5, 0.5]) == pytest.approx(0.5 + math.log(3.0), abs=1e-12)


@given(
    accuracy_percent=st.floats(0.01, 99.99),
    b=st.lists(st.floats(-10, 10), min_size=1, max_size=30),
)
@settings(deadline=None)
def test_ability_gives_back_the_accuracy(accuracy_percent: float, b: list[float]) -> None:
    theta = ability_from_accuracy(accuracy_percent, b)
    accuracy = predicted_quality(theta, b, 1.0).mean()
    assert 100.0 * accuracy == pytest.approx(accuracy_percent, rel=1e-9)


@given(theta=st.floats(-6, 6))
@settings(max_examples=30, deadline=None)
def test_ability_is_the_inverse_on_the_built_in_items(theta: float) -> None:
    b = pd.read_parquet(data_path("mmlu_pro_item_difficulty.parquet"))["difficulty"].to_numpy()
    accuracy_percent = 100.0 * float(predicted_quality(theta, b, 1.0).mean())
    assert ability_from_accuracy(accuracy_percent) == pytest.approx(theta, abs=1e-9)


def test_ability_follows_accuracy() -> None:
    abilities = [ability_from_accuracy(accuracy) for accuracy in (1e-6, 10, 48.3, 68.9, 99.9999)]
    assert abilities == sorted(set(abilities))


def test_ability_between_items_too_far_apart_to_tell() -> None:
    theta = ability_from_accuracy(50.0, [-1000.0, 1000.0])
    assert predicted_quality(theta, [-1000.0, 1000.0], 1.0).mean() == 0.5


@pytest.mark.parametrize("accuracy_percent", [0.0, 100.0, -3.0, 140.0, math.nan, math.inf])
def test_ability_refuses_an_accuracy_outside_0_to_100(accuracy_percent: float) -> None:
    with pytest.raises(InputError, match="above 0 and below 100"):
        ability_from_accuracy(accuracy_percent)


@pytest.mark.parametrize("b", [[], [0.0, math.nan], [math.inf]])
def test_ability_refuses_items_without_difficulty(b: list[float]) -> None:
    with pytest.raises(InputError, match="finite"):
        ability_from_accuracy(50.0, b)
