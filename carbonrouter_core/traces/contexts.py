"""Calls of one session that belong to several conversations, as where an agent calls sub-agents.

A prompt begins with all of the call before it in its conversation. A shorter prompt begins
another one, if the earlier one is taken up again later; if it is not, the history was cut.
"""

from __future__ import annotations

import numpy as np
from numba import njit

MOST_CONTEXTS = 64
"""Conversations of a session that can be open; further calls join the latest one."""
JUMP_FACTOR, JUMP_TOKENS = 4.0, 256.0
"""A prompt that goes on from the latest call by more than this many times as many new tokens (and
tokens more) as from another conversation belongs to that other one. Our own choice: messages
and tool results are mostly short beside a whole context."""
CALLS_AHEAD = 64
"""Later calls of a session that are looked at to tell whether a call goes on from another one."""


def contexts(
    first: np.ndarray, whole: np.ndarray, kept: np.ndarray, cached: np.ndarray
) -> np.ndarray:
    """The conversation of each call within its session: 0 for that of its first call.

    Parameters
    ----------
    first
        Whether a call is the first of its session, shape (calls,); sessions stand together, in
        order of time.
    whole
        Tokens of the whole prompt, shape (calls,).
    kept
        Tokens of prompt and answer that later prompts hold, shape (calls,).
    cached
        Cached tokens of the prompt, NaN where the log says nothing, shape (calls,).

    Returns
    -------
    np.ndarray
        Numbers from 0 in each session, int64, shape (calls,).
    """
    context = np.zeros(len(first), np.int64)
    before = np.r_[0.0, kept[:-1]]
    if (~first & (before > whole)).any():
        _contexts(np.r_[np.flatnonzero(first), len(first)], whole, kept, cached, context)
    return context


@njit(cache=True, nogil=True)
def _contexts(
    offsets: np.ndarray,
    whole: np.ndarray,
    kept: np.ndarray,
    cached: np.ndarray,
    context: np.ndarray,
) -> None:
    end = np.empty(MOST_CONTEXTS)  # tokens of each conversation,
    begin = np.empty(MOST_CONTEXTS, np.int64)  # the rows of its first
    last = np.empty(MOST_CONTEXTS, np.int64)  # and last call,
    parent = np.empty(MOST_CONTEXTS, np.int64)  # and that which was the latest when it began
    number = np.empty(MOST_CONTEXTS, np.int64)
    for session in range(offsets.size - 1):
        count = latest = 0
        for i in range(offsets[session], offsets[session + 1]):
            chosen = _chosen(count, latest, end, whole[i], cached[i])
            if chosen >= 0 and _is_another(
                i, offsets[session + 1], end[chosen], whole, kept, cached
            ):
                chosen = -1
            if chosen < 0 and count < MOST_CONTEXTS:
                chosen = count
                begin[chosen], parent[chosen] = i, latest
                count += 1
            elif chosen < 0:
                chosen = latest
            context[i] = latest = chosen
            end[chosen], last[chosen] = kept[i], i
        used = 0
        for k in range(count):
            if k == 0 or last[parent[k]] > begin[k]:
                number[k] = used
                used += 1
            else:  # the one before is not taken up again: its history was cut
                number[k] = number[parent[k]]
                last[parent[k]] = max(last[parent[k]], last[k])
        if count > 1:
            for i in range(offsets[session], offsets[session + 1]):
                context[i] = number[context[i]]


@njit(cache=True, nogil=True)
def _chosen(count: int, latest: int, end: np.ndarray, whole: float, cached: float) -> int:
    """The conversation that a prompt goes on with; -1 if it fits none."""
    if count == 0:
        return -1
    best = -1
    for k in range(count):
        if end[k] <= whole and (best < 0 or end[k] >= end[best]):
            best = k
    if best < 0 or end[latest] > whole:
        return best
    if cached > end[latest]:
        return best
    jump = whole - end[latest]
    return best if jump > JUMP_FACTOR * (whole - end[best]) + JUMP_TOKENS else latest


@njit(cache=True, nogil=True)
def _is_another(
    i: int, stop: int, end: float, whole: np.ndarray, kept: np.ndarray, cached: np.ndarray
) -> bool:
    """Whether a call that could go on from ``end`` tokens is of another conversation.

    It is, if later calls go on from those tokens, and from this call, with far fewer new ones.
    """
    near = (whole[i] - end - JUMP_TOKENS) / JUMP_FACTOR
    if near < 0 or cached[i] > end / 2:
        return False
    goes_on = is_resumed = False
    for j in range(i + 1, min(stop, i + 1 + CALLS_AHEAD)):
        if not goes_on and 0 <= whole[j] - end <= near:
            goes_on = True
        elif 0 <= whole[j] - kept[i] <= near:
            is_resumed = True
        if goes_on and is_resumed:
            return True
    return False
