"""The validation report of a trace: what would be stored, and how it looks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from carbonrouter_core.reading.findings import FileReport
from carbonrouter_core.traces.schema import LONG_SESSION_TURNS
from carbonrouter_core.units import S_PER_DAY, S_PER_HOUR


@dataclass(frozen=True, kw_only=True)
class TraceReport(FileReport):
    """The validation report of a trace.

    ``turns`` and ``sessions``: what would be stored. ``first_utc_s``, ``last_utc_s``: epoch
    seconds, where the trace has dates. ``duration_s``: from the first to the last turn of the
    trace, or of its longest session where times are relative. ``turns_per_session``: entry n is
    the number of sessions with n turns.
    """

    turns: int
    sessions: int
    times: str
    first_utc_s: float | None
    last_utc_s: float | None
    duration_s: float | None
    turns_per_session: np.ndarray = field(repr=False)
    new_prompt_tokens: int = 0
    output_tokens: int = 0
    turns_with_cached: int = 0
    turns_with_model: int = 0
    turns_with_region: int = 0
    turns_with_difficulty: int = 0

    @property
    def can_store(self) -> bool:
        """Whether everything that could be read may be stored."""
        return self.refused == 0 and self.turns > 0

    @property
    def long_sessions(self) -> int:
        """Number of sessions with over 30 turns."""
        return int(self.turns_per_session[LONG_SESSION_TURNS + 1 :].sum())

    @property
    def long_session_share(self) -> float | None:
        """Share of the sessions with over 30 turns; None where there are no sessions."""
        return self.long_sessions / self.sessions if self.sessions else None

    @property
    def long_session_turn_share(self) -> float | None:
        """Share of all turns that belong to sessions with over 30; None where there are none."""
        turns = np.arange(len(self.turns_per_session)) * self.turns_per_session
        return float(turns[LONG_SESSION_TURNS + 1 :].sum() / self.turns) if self.turns else None

    def session_turns_at(self, share: float) -> int | None:
        """Number of turns that a ``share`` of the sessions do not exceed (0.5: the median)."""
        if not self.sessions:
            return None
        return int(np.searchsorted(np.cumsum(self.turns_per_session), share * self.sessions))

    @property
    def span(self) -> str:
        """When the trace runs, in words."""
        if self.first_utc_s is not None and self.last_utc_s is not None:
            first, last = utc_text(self.first_utc_s), utc_text(self.last_utc_s)
            if first == last:
                return f"all at {first}: the trace has no duration"
            return f"{first} to {last}"
        if self.duration_s is None:
            return "no times in the file: starts and gaps are drawn when it is placed in a window"
        what = "longest session" if self.times == "t_s" else "trace"
        return f"{what} lasts {duration_text(self.duration_s)}; dates are given by the window"

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        return super().to_dict() | {
            "turns": self.turns,
            "sessions": self.sessions,
            "rows_unreadable": self.unreadable,
            "times": self.times,
            "span": self.span,
            "median_turns_per_session": self.session_turns_at(0.5),
            "p95_turns_per_session": self.session_turns_at(0.95),
            "most_turns_per_session": self.session_turns_at(1.0),
            "sessions_over_30_turns": self.long_sessions,
            "share_of_sessions_over_30_turns": self.long_session_share,
            "share_of_turns_in_sessions_over_30": self.long_session_turn_share,
            "new_prompt_tokens": self.new_prompt_tokens,
            "output_tokens": self.output_tokens,
            "turns_with_observed_cache": self.turns_with_cached,
            "turns_with_served_model": self.turns_with_model,
            "turns_with_served_region": self.turns_with_region,
            "turns_with_difficulty": self.turns_with_difficulty,
        }

    def __str__(self) -> str:
        share = self.long_session_share
        over = "n/a" if share is None else f"{100 * share:.1f} %"
        return self.in_words(
            f"Trace     {self.turns:,} turns in {self.sessions:,} sessions; {over} of the "
            f"sessions have over {LONG_SESSION_TURNS} turns",
            f"Turns a session: median {self.session_turns_at(0.5) or 'n/a'}, "
            f"95th percentile {self.session_turns_at(0.95) or 'n/a'}, "
            f"most {self.session_turns_at(1.0) or 'n/a'}",
            f"Time      {self.span}",
            f"Observed  cached tokens on {self.turns_with_cached:,} turns, model on "
            f"{self.turns_with_model:,}, region on {self.turns_with_region:,}",
        )


def utc_text(time_s: float) -> str:
    """``2024-05-20T10:13:20Z`` for an epoch time in seconds."""
    return str(np.datetime64(int(time_s), "s")) + "Z"


def duration_text(duration_s: float) -> str:
    """A duration in the largest unit of which it has two or more."""
    for unit, size_s in (("days", S_PER_DAY), ("hours", S_PER_HOUR), ("minutes", 60)):
        if duration_s >= 2 * size_s:
            return f"{duration_s / size_s:.1f} {unit}"
    return f"{duration_s:.0f} s"
