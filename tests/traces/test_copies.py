"""Copies of a conversation count once, and what opens alike stands in one half."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from carbonrouter_core.replay.world import prepare
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.traces.builtin import BUILTIN_TRACES, builtin_trace
from carbonrouter_core.traces.copies import OPENING_TURNS, counted_once
from carbonrouter_core.traces.schema import Trace, joined

Turns = list[tuple[int, int]]


def chat(sessions: dict[str, Turns]) -> Trace:
    """A trace of (prompt, output) turns, each with all earlier tokens as its history."""
    prompt = [p for turns in sessions.values() for p, _ in turns]
    output = [o for turns in sessions.values() for _, o in turns]
    history: list[int] = []
    for turns in sessions.values():
        before = 0
        for p, o in turns:
            history.append(before)
            before += p + o
    return Trace(
        name="chat",
        session_ids=tuple(sessions),
        offsets=np.cumsum([0, *map(len, sessions.values())]),
        new_prompt_tokens=np.array(prompt, np.int64),
        output_tokens=np.array(output, np.int64),
        history_tokens=np.array(history, np.int64),
    )


OPENING: Turns = [(10, 20), (30, 40), (50, 60)]
SESSIONS: dict[str, Turns] = {
    "first": [*OPENING, (7, 8)],
    "short": [(1, 1), (2, 2)],
    "copy": [*OPENING, (7, 8)],
    "other": [(10, 20), (30, 40), (50, 61), (7, 8)],
    "longer": [*OPENING, (7, 8), (9, 9)],
    "short too": [(1, 1), (2, 2)],
}


def test_a_copy_counts_once_and_what_goes_on_otherwise_stays() -> None:
    once = counted_once(chat(SESSIONS))
    assert once.session_ids == ("first", "short", "other", "longer", "short too")
    assert once.n_turns == 4 + 2 + 4 + 5 + 2


def test_a_group_stands_in_the_half_of_its_first_session() -> None:
    plain, once = chat(SESSIONS), counted_once(chat(SESSIONS))
    own = dict(zip(plain.session_ids, plain.in_training, strict=True))
    assert own["first"] != own["longer"]  # by their own ids they would stand apart
    halves = dict(zip(once.session_ids, once.in_training, strict=True))
    assert halves["longer"] == halves["first"] == own["first"]
    for name in ("short", "other", "short too"):
        assert halves[name] == own[name]


def test_parts_of_a_trace_keep_the_halves_of_the_whole() -> None:
    once = counted_once(chat(SESSIONS))
    parts = [once.between(0, 3), once.between(3, 5)]
    assert np.concatenate([part.in_training for part in parts]).tolist() == (
        once.in_training.tolist()
    )
    assert joined(parts).in_training.tolist() == once.in_training.tolist()
    some = np.array([False, True, True, True, False])
    assert once.subset(some).in_training.tolist() == once.in_training[some].tolist()


def test_the_chat_data_hold_91_copies_and_no_group_in_both_halves() -> None:
    trace = builtin_trace("sharegpt")
    assert trace.n_sessions == 9_440 - 91
    assert "336" in trace.session_ids
    assert "2748" not in trace.session_ids  # 300 turns, token for token session 336
    half: dict[bytes, bool] = {}
    for session, training in enumerate(trace.in_training):
        first, end = trace.offsets[session], trace.offsets[session + 1]
        rows = slice(first, min(first + OPENING_TURNS, end))
        columns = (trace.new_prompt_tokens, trace.output_tokens, trace.history_tokens)
        if end - first >= OPENING_TURNS:
            opening = np.stack([column[rows] for column in columns]).tobytes()
            assert half.setdefault(opening, training) == training
    assert len(half) < (trace.session_turns >= OPENING_TURNS).sum()


def test_agent_data_hold_no_copies() -> None:
    trace = builtin_trace("claude-code")
    assert trace.n_sessions == 676
    assert trace.in_training.tolist() == replace(trace, training=None).in_training.tolist()
    assert set(BUILTIN_TRACES) == {"sharegpt", "claude-code"}


turns = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=5)


@settings(max_examples=200, deadline=None)
@given(st.lists(turns, min_size=1, max_size=12))
def test_what_is_left_is_as_the_rule_says(sessions: list[Turns]) -> None:
    once = counted_once(chat({f"s{i}": session for i, session in enumerate(sessions)}))
    first_whole: dict[tuple, str] = {}
    first_opening: dict[tuple, str] = {}
    expected: dict[str, str] = {}
    for i, session in enumerate(sessions):
        name, whole = f"s{i}", tuple(session)
        if len(session) < OPENING_TURNS:
            expected[name] = name
            continue
        group = first_opening.setdefault(whole[:OPENING_TURNS], name)
        if first_whole.setdefault(whole, name) == name:
            expected[name] = group
    assert once.session_ids == tuple(expected)
    plain = chat({f"s{i}": session for i, session in enumerate(sessions)})
    own = dict(zip(plain.session_ids, plain.in_training, strict=True))
    assert once.in_training.tolist() == [own[group] for group in expected.values()]


def test_what_is_left_out_is_among_the_notes_of_a_run() -> None:
    assert counted_once(chat(SESSIONS)).copies == 1
    assert counted_once(counted_once(chat(SESSIONS))).copies == 1
    prepared = prepare(Scenario(), counted_once(chat(SESSIONS)))
    (note,) = [text for text in prepared.warnings if "left out" in text]
    assert note.startswith("1 of the conversations is a copy")
    assert not [text for text in prepare(Scenario(), chat(SESSIONS)).warnings if "copy" in text]
