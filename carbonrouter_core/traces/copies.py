"""Copies of a conversation: they count once, and what opens alike stands in one half.

Public data hold some conversations several times, whole or as an earlier state of the same one.
A copy in the other half would be evidence of itself, and a long one can carry a headline alone.
Rule: docs/design.md, section 5.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from carbonrouter_core.traces.schema import Trace

OPENING_TURNS = 3
"""Sessions of at least this many turns are compared; shorter ones are alike by chance."""


def turn_keys(
    turn: np.ndarray, new_prompt_tokens: np.ndarray, output_tokens: np.ndarray, history: np.ndarray
) -> np.ndarray:
    """A 64-bit number of each turn from its place in the session and its token counts."""
    columns = (turn, new_prompt_tokens, output_tokens, history)
    frame = pd.DataFrame({i: np.asarray(c, np.int64) for i, c in enumerate(columns)})
    return pd.util.hash_pandas_object(frame, index=False).to_numpy()


def session_keys(keys: np.ndarray, begins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A number of the opening and of the whole of each session, uint64, shape (sessions,).

    ``keys``: of :func:`turn_keys`; ``begins``: the first row of each session. Both numbers are 0
    for sessions of fewer than :data:`OPENING_TURNS` turns. Two different sessions get the same
    number with a chance of about 3e-8 in a million sessions.
    """
    turns = np.diff(np.r_[begins, len(keys)])
    whole = np.add.reduceat(keys, begins) if len(begins) else np.zeros(0, np.uint64)
    opening = np.zeros(len(begins), np.uint64)
    compared = turns >= OPENING_TURNS
    for turn in range(OPENING_TURNS):
        opening[compared] += keys[begins[compared] + turn]
    return opening, np.where(compared, whole, np.uint64(0))


def first_alike(keys: np.ndarray) -> np.ndarray:
    """The number of the first session with the same key; a session of key 0 is its own."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return np.where(keys == 0, np.arange(len(keys)), first[inverse])


def keys_of(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """The keys of :func:`session_keys` of the sessions of ``trace``."""
    columns = (trace.turn, trace.new_prompt_tokens, trace.output_tokens, trace.history_tokens)
    return session_keys(turn_keys(*columns), trace.offsets[:-1])


def counted_once(trace: Trace) -> Trace:
    """``trace`` without copies, each group of sessions that open alike in one half."""
    opening, whole = keys_of(trace)
    return without_copies(trace, first_alike(opening), first_alike(whole))


def without_copies(trace: Trace, first_opening: np.ndarray, first_whole: np.ndarray) -> Trace:
    """``trace`` without the sessions that are not their own ``first_whole``.

    Both are numbers of sessions, of :func:`first_alike`.
    """
    grouped = replace(trace, training=trace.in_training[first_opening])
    original = first_whole == np.arange(trace.n_sessions)
    if original.all():
        return grouped
    left_out = int((~original).sum())
    return replace(grouped.subset(original), copies=trace.copies + left_out)
