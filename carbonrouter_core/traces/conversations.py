"""From messages with text to turns: tokens and difficulty. The text itself goes no further.

All messages of many conversations are read at once, where they lie in memory: no message becomes
an object of its own, so that text is read about as fast as it is hashed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from carbonrouter_core.quality.prompt_difficulty import (
    SHORT_PROMPT_CHARACTERS,
    difficulty_of_pieces,
)
from carbonrouter_core.traces.tokens import token_counter

PROMPT_ROLES = ("human", "user", "system", "developer", "tool", "function", "observation")
"""Roles whose messages are part of a prompt."""
ANSWER_ROLES = ("gpt", "assistant", "chatgpt", "bing", "bard", "model", "bot")
"""Roles whose messages are answers."""
ASSUMED_GAP_S = 126.0
"""Gap taken where a message has no time though others have: the median of the Mooncake table."""

USAGE = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")
"""What a server counted for an answer: the whole prompt, the answer, and parts of them."""

MESSAGE = pa.struct(
    [
        ("role", pa.string()),
        ("text", pa.string()),
        ("time_s", pa.float64()),
        *((name, pa.float64()) for name in USAGE),
    ]
)
"""One message: who speaks, what is said, when (epoch seconds) and how much, if that is known."""

_PROMPT, _EMPTY_PROMPT, _ANSWER, _UNKNOWN = range(4)


@dataclass(frozen=True)
class Messages:
    """The messages of conversations that stand one after another.

    Conversation i is the messages ``offsets[i]`` up to ``offsets[i + 1]``; all else has one
    entry a message. The text of a message is ``data[starts:stops]`` in UTF-8. ``usage`` has a row
    for each of :data:`USAGE`, shape (4, messages), NaN where nothing is said; None: nowhere.
    """

    offsets: np.ndarray
    kind: np.ndarray
    time_s: np.ndarray
    characters: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    data: np.ndarray
    without_text: np.ndarray
    usage: np.ndarray | None = None

    @classmethod
    def of(cls, conversations: pa.ListArray) -> Messages:
        """The messages of a column of lists of :data:`MESSAGE`."""
        flat = conversations.flatten()
        role, text, time_s, *usage = (pc.struct_field(flat, f.name) for f in MESSAGE)
        without_text = text.is_null().to_numpy(zero_copy_only=False)
        text = text.fill_null("")
        _, places, content = text.buffers()
        ends = np.zeros(1, np.int32)
        if len(text):
            ends = np.frombuffer(places, np.int32)[text.offset : text.offset + len(text) + 1]
        lengths = pc.list_value_length(conversations).fill_null(0).to_numpy()
        return cls(
            offsets=np.r_[0, np.cumsum(lengths)],
            kind=_kinds(role, text),
            time_s=np.array(time_s.to_numpy(zero_copy_only=False), np.float64),
            characters=pc.utf8_length(text).to_numpy().astype(np.int64),
            starts=ends[:-1].astype(np.int64),
            stops=ends[1:].astype(np.int64),
            data=np.frombuffer(content if content is not None else b"", np.uint8),
            without_text=without_text,
            usage=None
            if all(counts.null_count == len(flat) for counts in usage)
            else np.array([counts.to_numpy(zero_copy_only=False) for counts in usage], np.float64),
        )

    def take(self, rows: np.ndarray, offsets: np.ndarray) -> Messages:
        """The messages ``rows``, in conversations of their own."""
        return Messages(
            offsets,
            self.kind[rows],
            self.time_s[rows],
            self.characters[rows],
            self.starts[rows],
            self.stops[rows],
            self.data,
            self.without_text[rows],
            None if self.usage is None else self.usage[:, rows],
        )

    @property
    def unknown(self) -> np.ndarray:
        """Which messages have no known speaker; they belong to no turn."""
        return self.kind == _UNKNOWN

    def texts(self, rows: np.ndarray) -> str:
        """Some messages as one text, a line break between them."""
        pieces = (self.data[self.starts[i] : self.stops[i]].tobytes() for i in rows)
        return b"\n".join(pieces).decode()


@dataclass(frozen=True)
class TextTurns:
    """Turns as counted from their text, one entry a turn, by conversation and in order."""

    conversation: np.ndarray
    new_prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    difficulty: np.ndarray
    time_s: np.ndarray
    usage: np.ndarray | None = None
    """What the server counted for the last answer of each turn: see :class:`Messages`."""


def turns_of(messages: Messages) -> TextTurns:
    """The turns of each conversation.

    Empty prompts are dropped; prompts that follow each other (system messages among them) are
    one prompt, joined by a newline, and likewise answers; a prompt that nobody answers at the
    end is no turn. The time of a turn is that of its first prompt with one, else that of its first
    answer with one, else NaN.
    """
    n = len(messages.kind)
    ints, bounds = np.empty((2, n), np.int64), np.empty((5, n + 1), np.int64)
    time_s = np.empty(n + 1)
    turns = _turns(messages.offsets, messages.kind, messages.time_s, ints, bounds, time_s)
    (
        (prompt_rows, answer_rows),
        (conversation, prompt_first, prompt_end, answer_first, answer_end),
    ) = ints, bounds
    conversation, prompt_first, prompt_end = (
        conversation[:turns],
        prompt_first[:turns],
        prompt_end[:turns],
    )
    prompts = _lengths(messages, prompt_rows, prompt_first, prompt_end)
    answers = _lengths(messages, answer_rows, answer_first[:turns], answer_end[:turns])
    count = token_counter()
    first_read = prompt_first.copy()  # a short prompt is read after the one before it
    after = np.r_[False, conversation[1:] == conversation[:-1]][:turns]
    short = after & (prompts < SHORT_PROMPT_CHARACTERS)
    first_read[short] = prompt_first[np.flatnonzero(short) - 1]
    difficulty = difficulty_of_pieces(
        messages.data,
        messages.starts[prompt_rows],
        messages.stops[prompt_rows],
        first_read,
        prompt_end,
    )
    if count.of_characters is not None:
        tokens = count.of_characters(prompts), count.of_characters(answers)
    else:
        tokens = (
            _counted(messages, prompt_rows, prompt_first, prompt_end),
            _counted(messages, answer_rows, answer_first, answer_end[:turns]),
        )
    usage = None
    if messages.usage is not None:
        usage = messages.usage[:, answer_rows[answer_end[:turns] - 1]]
    return TextTurns(conversation, *tokens, difficulty, time_s[:turns], usage)


def assume_times(turns: TextTurns, end_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times of turns of conversations whose last turn is at ``end_s``, and which were assumed.

    Where no turn of a conversation has a time, the last one has that of its conversation. A turn
    without a time comes :data:`ASSUMED_GAP_S` after the one before it, or before the next one.
    """
    time_s, assumed = turns.time_s.copy(), np.zeros(len(turns.time_s), np.bool_)
    if np.isnan(time_s).any():
        _assume(turns.conversation, end_s, time_s, assumed)
    return time_s, assumed


def _kinds(role: Any, text: Any) -> np.ndarray:
    """The kind of each message."""
    lower = pc.utf8_lower(role)
    is_prompt = pc.is_in(lower, pa.array(PROMPT_ROLES)).to_numpy(zero_copy_only=False)
    is_answer = pc.is_in(lower, pa.array(ANSWER_ROLES)).to_numpy(zero_copy_only=False)
    blank = pc.or_(pc.equal(pc.binary_length(text), 0), pc.utf8_is_space(text))
    empty = blank.to_numpy(zero_copy_only=False)
    return np.select(
        [is_prompt & empty, is_prompt, is_answer], [_EMPTY_PROMPT, _PROMPT, _ANSWER], _UNKNOWN
    )


def _lengths(
    messages: Messages, rows: np.ndarray, first: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """Characters of texts that are joined from several messages by a line break."""
    sums = np.r_[0, np.cumsum(messages.characters[rows] + 1)]
    return np.asarray(np.maximum(sums[end] - sums[first] - 1, 0))


def _counted(
    messages: Messages, rows: np.ndarray, first: np.ndarray, end: np.ndarray
) -> np.ndarray:
    count = token_counter().count
    texts = (messages.texts(rows[a:b]) for a, b in zip(first, end, strict=False))
    return np.fromiter(map(count, texts), np.int64, len(end))


@njit(cache=True, nogil=True)
def _turns(
    offsets: np.ndarray,
    kind: np.ndarray,
    message_s: np.ndarray,
    rows: np.ndarray,
    bounds: np.ndarray,
    time_s: np.ndarray,
) -> int:
    """Fill the rows of prompts and of answers; for each turn its conversation, where its prompts
    and its answers begin and end among those, and its time. Returns the number of turns."""
    turns = n_prompt_rows = n_answer_rows = 0
    for conversation in range(offsets.size - 1):
        prompt_first, answer_first = n_prompt_rows, n_answer_rows  # where the open turn begins
        time_s[turns] = np.nan
        for i in range(offsets[conversation], offsets[conversation + 1]):
            if kind[i] == _ANSWER:
                rows[1, n_answer_rows] = i
                n_answer_rows += 1
                if np.isnan(time_s[turns]):
                    time_s[turns] = message_s[i]
            elif kind[i] == _PROMPT:
                if n_answer_rows > answer_first:
                    turns = _close(
                        bounds,
                        turns,
                        conversation,
                        prompt_first,
                        n_prompt_rows,
                        answer_first,
                        n_answer_rows,
                    )
                    prompt_first, answer_first = n_prompt_rows, n_answer_rows
                    time_s[turns] = np.nan
                rows[0, n_prompt_rows] = i
                n_prompt_rows += 1
                if np.isnan(time_s[turns]):
                    time_s[turns] = message_s[i]
        if n_answer_rows > answer_first:
            turns = _close(
                bounds,
                turns,
                conversation,
                prompt_first,
                n_prompt_rows,
                answer_first,
                n_answer_rows,
            )
        else:
            n_prompt_rows = prompt_first  # nobody answered
    rows[0, n_prompt_rows:] = 0
    rows[1, n_answer_rows:] = 0
    return turns


@njit(cache=True, nogil=True)
def _close(
    bounds: np.ndarray,
    turn: int,
    conversation: int,
    prompt_first: int,
    prompt_end: int,
    answer_first: int,
    answer_end: int,
) -> int:
    bounds[0, turn] = conversation
    bounds[1, turn], bounds[2, turn] = prompt_first, prompt_end
    bounds[3, turn], bounds[4, turn] = answer_first, answer_end
    return turn + 1


@njit(cache=True, nogil=True)
def _assume(
    conversation: np.ndarray, end_s: np.ndarray, time_s: np.ndarray, assumed: np.ndarray
) -> None:
    n = time_s.size
    begin = 0
    while begin < n:
        end, known = begin, -1
        while end < n and conversation[end] == conversation[begin]:
            if known < 0 and not np.isnan(time_s[end]):
                known = end
            end += 1
        if known < 0:
            known = end - 1
            time_s[known] = end_s[conversation[begin]]
        for i in range(known - 1, begin - 1, -1):
            time_s[i] = time_s[i + 1] - ASSUMED_GAP_S
            assumed[i] = True
        for i in range(known + 1, end):
            if np.isnan(time_s[i]):
                time_s[i] = time_s[i - 1] + ASSUMED_GAP_S
                assumed[i] = True
        begin = end
