"""Turns of conversations with text, against a reading of one message after another."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carbonrouter_core.quality.prompt_difficulty import difficulty_of_prompts
from carbonrouter_core.traces import conversations
from carbonrouter_core.traces.conversations import (
    ANSWER_ROLES,
    MESSAGE,
    PROMPT_ROLES,
    Messages,
    assume_times,
    turns_of,
)
from carbonrouter_core.traces.tokens import TokenCounter, token_counter

Said = list[dict[str, Any]]

roles = st.sampled_from(["user", "Human", "system", "assistant", "GPT", "narrator", None])
texts = st.sampled_from(["", " \n", "Why?", "ΑΣ naïve", "long words " * 9]) | st.text(max_size=9)
times = st.none() | st.integers(0, 9).map(float)
message = st.fixed_dictionaries({"role": roles, "text": texts, "time_s": times})


def turns_one_by_one(said: Said) -> list[tuple[str, str, float]]:
    """Prompt, answer and time of each turn, as the docstring of ``turns_of`` tells them."""
    turns: list[tuple[list[str], list[str], list[float], list[float]]] = []
    asked: tuple[list[str], list[str], list[float], list[float]] = ([], [], [], [])
    for one in said:
        role, text = (one["role"] or "").lower(), one["text"]
        time_s = math.nan if one["time_s"] is None else one["time_s"]
        if role in PROMPT_ROLES and text.strip():
            if asked[1]:
                turns.append(asked)
                asked = ([], [], [], [])
            asked[0].append(text)
            asked[2].append(time_s)
        elif role in ANSWER_ROLES:
            asked[1].append(text)
            asked[3].append(time_s)
    if asked[1]:
        turns.append(asked)
    first = [
        next((time_s for time_s in prompt_s + answer_s if not math.isnan(time_s)), math.nan)
        for _, _, prompt_s, answer_s in turns
    ]
    return [
        ("\n".join(prompt), "\n".join(answer), time_s)
        for (prompt, answer, _, _), time_s in zip(turns, first, strict=True)
    ]


@given(st.lists(st.lists(message, max_size=9) | st.none(), max_size=4))
def test_turns_are_those_of_one_message_after_another(all_said: list[Said | None]) -> None:
    column = pa.array([[], *all_said], pa.list_(MESSAGE)).slice(1)
    turns = turns_of(Messages.of(column))
    count = token_counter().count
    expected: list[tuple[float, ...]] = []
    for number, said in enumerate(all_said):
        one = turns_one_by_one(said or [])
        difficulty = difficulty_of_prompts([prompt for prompt, _, _ in one])
        expected += [
            (number, count(prompt), count(answer), hard, time_s)
            for (prompt, answer, time_s), hard in zip(one, difficulty, strict=True)
        ]
    found = np.column_stack(
        [
            turns.conversation,
            turns.new_prompt_tokens,
            turns.output_tokens,
            turns.difficulty,
            turns.time_s,
        ]
    )
    np.testing.assert_array_equal(found, np.array(expected).reshape(-1, 5))


def test_a_counter_that_looks_at_the_words_gets_the_joined_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []

    def count(text: str) -> int:
        seen.append(text)
        return len(text.split())

    monkeypatch.setattr(conversations, "token_counter", lambda: TokenCounter(count, "by words"))
    said = [("system", "be brief"), ("user", "why is that"), ("bot", "so"), ("bot", "it is, é")]
    chat = [{"role": role, "text": text, "time_s": None} for role, text in said]
    turns = turns_of(Messages.of(pa.array([chat], pa.list_(MESSAGE))))
    assert seen == ["be brief\nwhy is that", "so\nit is, é"]
    assert (turns.new_prompt_tokens.tolist(), turns.output_tokens.tolist()) == ([5], [4])


def test_times_that_are_missing_are_taken_from_the_turns_beside() -> None:
    said = [("user", None), ("bot", None), ("user", None), ("bot", 500.0), ("user", None)]
    chat = [{"role": who, "text": "hm", "time_s": when} for who, when in [*said, ("bot", None)]]
    bare = [message | {"time_s": None} for message in chat]
    turns = turns_of(Messages.of(pa.array([chat, bare], pa.list_(MESSAGE))))
    time_s, assumed = assume_times(turns, np.array([1.0, 700.0]))
    assert time_s.tolist() == [374.0, 500.0, 626.0, 448.0, 574.0, 700.0]
    assert assumed.tolist() == [True, False, True, True, True, False]
