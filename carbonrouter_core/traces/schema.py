"""A trace: conversations as columns, one row a turn."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa

from carbonrouter_core.errors import TraceError

LONG_SESSION_TURNS = 30
"""Sessions with more turns than this are reported apart as long sessions."""

CANONICAL = pa.schema(
    [
        ("session", pa.string()),
        ("turn", pa.int32()),
        ("t_s", pa.float64()),
        ("start_s", pa.float64()),
        ("start_utc", pa.timestamp("us")),
        ("new_prompt_tokens", pa.int64()),
        ("history_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("cached_tokens_observed", pa.int64()),
        ("served_model", pa.string()),
        ("served_region", pa.string()),
        ("user_region", pa.string()),
        ("difficulty", pa.float64()),
    ]
)
"""The canonical schema of a trace: one row a turn, sessions together and in order.

Source: docs/design.md, section 6.

At most one of ``t_s`` (since the session's start), ``start_s`` (since the window's start) and
``start_utc`` (UTC, though its type does not say so) is filled; observed columns, user region and
difficulty may be null. There is no text.
"""

_BY_TURN = (
    "new_prompt_tokens",
    "output_tokens",
    "history_tokens",
    "t_s",
    "start_s",
    "user_region",
    "difficulty",
    "start_utc_s",
    "cached_tokens_observed",
    "served_model",
    "served_region",
)
"""The columns of a trace with one entry a turn."""


def session_key(session_id: str) -> int:
    """A 64-bit number of a session, from its id alone: first bytes of its SHA-256."""
    return int.from_bytes(hashlib.sha256(session_id.encode()).digest()[:8], "little")


@dataclass(frozen=True)
class Trace:
    """Sessions of turns as columns; the rows of a session stand together, in order.

    What a trace does not have is drawn when it is placed in time.

    Attributes
    ----------
    name
        Name of the trace.
    session_ids
        Id of each session.
    offsets
        Session ``i`` is the rows ``offsets[i]`` to ``offsets[i + 1]``; shape (sessions + 1,).
    new_prompt_tokens, output_tokens, history_tokens
        Tokens of each turn, int64, shape (turns,).
    t_s
        Seconds since the start of the session, shape (turns,).
    start_s
        Seconds since the start of the scenario's window, shape (turns,).
    user_region
        Region of the user of each turn; None where it is not known.
    difficulty
        Difficulty of each prompt in logits, shape (turns,); NaN where it is not known.
    start_utc_s
        Seconds since 1970-01-01 UTC, shape (turns,), of a log with dates. The window must cover
        them.
    cached_tokens_observed
        Cached tokens that the log reports, int64, shape (turns,); -1 where it reports none.
    served_model, served_region
        What served each turn, by the log's own names; None where it does not say.
    difficulty_source
        Where the difficulty comes from, in words.
    training
        Which sessions are the training half, bool, shape (sessions,). None: each by its own id;
        ``traces/copies.py`` sets it, so that what opens alike stands in one half.
    copies
        How many sessions were left out as copies of others (``traces/copies.py``).
    """

    name: str
    session_ids: tuple[str, ...]
    offsets: np.ndarray
    new_prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    history_tokens: np.ndarray
    t_s: np.ndarray | None = None
    start_s: np.ndarray | None = None
    user_region: Sequence[str | None] | None = None
    difficulty: np.ndarray | None = None
    start_utc_s: np.ndarray | None = None
    cached_tokens_observed: np.ndarray | None = None
    served_model: Sequence[str | None] | None = None
    served_region: Sequence[str | None] | None = None
    training: np.ndarray | None = None
    copies: int = 0
    difficulty_source: str = "as the trace gives it"

    @property
    def n_turns(self) -> int:
        """Turns in the trace."""
        return len(self.output_tokens)

    @property
    def n_sessions(self) -> int:
        """Sessions in the trace."""
        return len(self.session_ids)

    @cached_property
    def session_turns(self) -> np.ndarray:
        """Turns of each session, shape (sessions,)."""
        return np.diff(self.offsets)

    @cached_property
    def session_index(self) -> np.ndarray:
        """Number of the session each turn belongs to, shape (turns,)."""
        return np.repeat(np.arange(self.n_sessions), self.session_turns)

    @property
    def turn(self) -> np.ndarray:
        """Number of each turn in its session, from 0, shape (turns,)."""
        return np.arange(self.n_turns) - np.repeat(self.offsets[:-1], self.session_turns)

    @cached_property
    def _digests(self) -> np.ndarray:
        """SHA-256 of each session id as text, shape (sessions, 32), uint8."""
        joined = b"".join(hashlib.sha256(name.encode()).digest() for name in self.session_ids)
        return np.frombuffer(joined, np.uint8).reshape(self.n_sessions, 32)

    @cached_property
    def session_keys(self) -> np.ndarray:
        """A 64-bit number of each session, from its id alone: the key of its random draws."""
        return np.ascontiguousarray(self._digests[:, :8]).view("<u8").ravel()

    @cached_property
    def in_training(self) -> np.ndarray:
        """Which sessions are the training half, bool, shape (sessions,).

        Where :attr:`training` does not say it: those whose id has an even last byte of its
        SHA-256. Source: docs/design.md, section 5.
        """
        return self._digests[:, -1] % 2 == 0 if self.training is None else self.training

    def between(self, first: int, end: int) -> Trace:
        """Some of the sessions, by number; the columns are views.

        Parameters
        ----------
        first
            Number of the first session.
        end
            Number after the last one.

        Returns
        -------
        Trace
            These sessions.
        """
        rows = slice(int(self.offsets[first]), int(self.offsets[end]))

        def cut(column: Any) -> Any:
            return None if column is None else column[rows]

        return replace(
            self,
            session_ids=self.session_ids[first:end],
            offsets=self.offsets[first : end + 1] - rows.start,
            training=None if self.training is None else self.training[first:end],
            **{name: cut(getattr(self, name)) for name in _BY_TURN},
        )

    def subset(self, sessions: np.ndarray) -> Trace:
        """Some of the sessions, by a mask.

        Parameters
        ----------
        sessions
            Which sessions, booleans of shape (sessions,).

        Returns
        -------
        Trace
            These sessions.
        """
        rows = np.repeat(sessions, self.session_turns)

        def selected(column: Any) -> Any:
            if column is None or isinstance(column, np.ndarray):
                return None if column is None else column[rows]
            return tuple(np.asarray(column, dtype=object)[rows])

        return replace(
            self,
            session_ids=tuple(compress(self.session_ids, sessions)),
            offsets=np.r_[0, np.cumsum(self.session_turns[sessions])],
            training=None if self.training is None else self.training[sessions],
            **{name: selected(getattr(self, name)) for name in _BY_TURN},
        )

    @cached_property
    def sha256(self) -> str:
        """Fingerprint of ids and figures: equal for equal traces, whatever file they came in."""
        digest = hashlib.sha256("\x1f".join(self.session_ids).encode())
        columns = (self.offsets, self.new_prompt_tokens, self.output_tokens, self.history_tokens)
        for column in (*columns, self.t_s, self.start_s, self.difficulty):
            digest.update(b"-" if column is None else np.ascontiguousarray(column).tobytes())
        for names in (self.user_region, self.served_model, self.served_region):
            digest.update("\x1f".join(name or "" for name in names or ()).encode())
        for column in (self.start_utc_s, self.cached_tokens_observed):
            if column is not None:  # a trace without them keeps the fingerprint it had
                digest.update(np.ascontiguousarray(column).tobytes())
        return digest.hexdigest()


def joined(traces: Sequence[Trace]) -> Trace:
    """The sessions of ``traces`` one after the other; the name is the first one's.

    A column that only some have is filled up where it may be unknown (difficulty, user region
    and what was observed); times that only some have are a :class:`TraceError`.
    """
    turns = [trace.n_turns for trace in traces]
    starts = np.r_[0, np.cumsum(turns)]
    columns: dict[str, Any] = {}
    for name in _BY_TURN:
        given = [getattr(trace, name) for trace in traces]
        if all(column is None for column in given):
            columns[name] = None
            continue
        if any(column is None for column in given) and name in ("t_s", "start_s", "start_utc_s"):
            raise TraceError(f"Only some parts of the trace have {name}; give it to all or none.")
        unknown = {"difficulty": np.nan, "cached_tokens_observed": -1}.get(name)
        whole = [
            np.full(n, unknown) if column is None else np.asarray(column)
            for column, n in zip(given, turns, strict=True)
        ]
        columns[name] = np.concatenate(whole)
        if isinstance(next(column for column in given if column is not None), tuple):
            columns[name] = tuple(columns[name])
    return replace(
        traces[0],
        session_ids=tuple(name for trace in traces for name in trace.session_ids),
        training=np.concatenate([trace.in_training for trace in traces]),
        offsets=np.r_[
            0, *(trace.offsets[1:] + start for trace, start in zip(traces, starts, strict=False))
        ].astype(np.int64),
        **columns,
    )
