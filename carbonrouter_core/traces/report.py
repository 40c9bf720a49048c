"""What an import found in a file: counted, with line numbers, before anything is stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from carbonrouter_core.traces.schema import LONG_SESSION_TURNS
from carbonrouter_core.units import S_PER_DAY, S_PER_HOUR

MAX_PLACES = 100
"""Places listed for each reason; all are counted."""

SHOWN_PLACES = 5
"""Places named where the report is printed as text."""

Kind = Literal["repaired", "refused", "unreadable", "note"]
"""``repaired`` rows are stored changed; ``refused`` rows stop the import; ``unreadable`` ones are
records that end early or are no records: the user may store the rest; ``note``: stored as they
are, but worth knowing."""


@dataclass(frozen=True)
class Finding:
    """One reason, how many rows it holds for, and the first places."""

    kind: Kind
    reason: str
    count: int
    places: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain JSON values."""
        return asdict(self) | {"places": list(self.places)}

    def __str__(self) -> str:
        places = ", ".join(self.places[:SHOWN_PLACES])
        more = ", ..." if self.count > min(len(self.places), SHOWN_PLACES) else ""
        return f"{self.kind}: {self.reason} ({self.count:,}; {places}{more})"


class Findings:
    """Collects findings and guesses while a file is read."""

    def __init__(self) -> None:
        self.rows_read = 0
        """Rows or records of the files, those that were refused among them."""
        self._counts: dict[tuple[Kind, str], int] = {}
        self._places: dict[tuple[Kind, str], list[str]] = {}
        self._guesses: dict[str, None] = {}

    def add(self, kind: Kind, reason: str, places: Iterable[str], count: int | None = None) -> None:
        """Count ``reason`` at ``places``; ``count`` where there are more than are listed."""
        named = self._places.setdefault((kind, reason), [])
        seen = 0
        for place in places:
            seen += 1
            if len(named) < MAX_PLACES:
                named.append(place)
        key = (kind, reason)
        self._counts[key] = self._counts.get(key, 0) + (seen if count is None else count)

    def guess(self, sentence: str) -> None:
        """Note something that the file does not say and we had to assume."""
        self._guesses[sentence] = None

    def add_all(self, others: Findings) -> None:
        """Take over what was found elsewhere, after what was found here."""
        self.rows_read += others.rows_read
        for (kind, reason), count in others._counts.items():
            self.add(kind, reason, others._places[kind, reason], count)
        self._guesses.update(others._guesses)

    def count(self, kind: Kind) -> int:
        """Rows with a finding of ``kind``."""
        return sum(number for (one, _), number in self._counts.items() if one == kind)

    def all(self) -> tuple[Finding, ...]:
        """The findings, those that stop an import first."""
        order = ("refused", "unreadable", "repaired", "note")
        keys = sorted(self._counts, key=lambda key: order.index(key[0]))
        return tuple(
            Finding(kind, reason, self._counts[kind, reason], tuple(self._places[kind, reason]))
            for kind, reason in keys
            if self._counts[kind, reason]
        )

    @property
    def guesses(self) -> tuple[str, ...]:
        """What was assumed, in the order it came up."""
        return tuple(self._guesses)


@dataclass(frozen=True, kw_only=True)
class FileReport:
    """What every validation report of a file says.

    ``rows_read`` counts rows or records of the file.
    """

    files: tuple[str, ...]
    format_id: str
    format_label: str
    format_reason: str
    rows_read: int
    findings: tuple[Finding, ...]
    guesses: tuple[str, ...]

    def count(self, kind: Kind) -> int:
        """Rows with a finding of ``kind``."""
        return sum(finding.count for finding in self.findings if finding.kind == kind)

    @property
    def first_refusal(self) -> str:
        """The first thing that stops the import, as a sentence."""
        stops = [one for one in self.findings if one.kind in ("refused", "unreadable")]
        if not stops:
            return ""
        one = stops[0]
        more = f" (and {one.count - 1:,} more rows)" if one.count > 1 else ""
        return f"{one.places[0] if one.places else self.files[0]}: {one.reason}{more}"

    def in_words(self, *content: str) -> str:
        """The report as text; ``content``: lines about what is in the file."""
        stopped = self.count("refused") + self.count("unreadable")
        return "\n".join(
            [
                f"File      {', '.join(self.files)}",
                f"Format    {self.format_label}: {self.format_reason}",
                f"Rows      {self.rows_read:,} read, {self.count('repaired'):,} repaired, "
                f"{stopped:,} refused",
                *content,
                *(f"assumed: {guess}" for guess in self.guesses),
                *map(str, self.findings),
            ]
        )


@dataclass(frozen=True, kw_only=True)
class TraceReport(FileReport):
    """The validation report of a trace file.

    ``turns`` and ``sessions``: what would be stored. ``first_utc_s``/``last_utc_s``: epoch
    seconds, where the file says; ``duration_s``: from first to last turn of the trace, or of the
    longest session where times are relative. ``turns_per_session``: how many sessions there are
    of each number of turns.
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
    def refused(self) -> int:
        """Rows that are wrong: nothing of the file can be stored until they are mended."""
        return self.count("refused")

    @property
    def unreadable(self) -> int:
        """Records that cannot be read; the rest may be stored if the user says so."""
        return self.count("unreadable")

    @property
    def can_store(self) -> bool:
        """Whether everything that could be read may be stored."""
        return self.refused == 0 and self.turns > 0

    @property
    def long_sessions(self) -> int:
        """Sessions with over 30 turns."""
        return int(self.turns_per_session[LONG_SESSION_TURNS + 1 :].sum())

    @property
    def long_session_share(self) -> float | None:
        """Share of sessions with over 30 turns; None where there are no sessions."""
        return self.long_sessions / self.sessions if self.sessions else None

    @property
    def long_session_turn_share(self) -> float | None:
        """Share of all turns that belong to sessions with over 30."""
        lengths = np.arange(len(self.turns_per_session))
        held = (lengths * self.turns_per_session)[LONG_SESSION_TURNS + 1 :].sum()
        return float(held / self.turns) if self.turns else None

    def session_turns_at(self, share: float) -> int | None:
        """Turns that a ``share`` of the sessions do not exceed (0.5: the median)."""
        if not self.sessions:
            return None
        below = np.cumsum(self.turns_per_session)
        return int(np.searchsorted(below, share * self.sessions))

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
        return {
            "files": list(self.files),
            "format": self.format_id,
            "format_label": self.format_label,
            "format_reason": self.format_reason,
            "rows_read": self.rows_read,
            "turns": self.turns,
            "sessions": self.sessions,
            "rows_repaired": self.count("repaired"),
            "rows_refused": self.refused,
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
            "guesses": list(self.guesses),
            "findings": [one.to_dict() for one in self.findings],
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
    """A duration in the unit that reads best."""
    for unit, size in (("days", S_PER_DAY), ("hours", S_PER_HOUR), ("minutes", 60)):
        if duration_s >= 2 * size:
            return f"{duration_s / size:.1f} {unit}"
    return f"{duration_s:.0f} s"
