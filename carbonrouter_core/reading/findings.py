"""What an import finds in its files: reasons, counts and places, and the report made of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np

from carbonrouter_core.reading.files import Source

MAX_PLACES = 100
"""Places listed for each reason; all are counted."""

SHOWN_PLACES = 5
"""Places named where the report is printed as text."""

Kind = Literal["repaired", "refused", "unreadable", "left out", "note"]
"""What happens to the rows of a finding.

``repaired``: they are changed and stored. ``refused``: they are wrong and stop the import.
``unreadable``: they end early, lack what is needed or are no records; the user may store the
rest. ``left out``: they are no work of a model, such as failed requests; the rest is stored.
``note``: they are stored as they are, and the user should know something about them.
"""

_ORDER: tuple[Kind, ...] = ("refused", "unreadable", "left out", "repaired", "note")
"""In a report, what stops the import comes first."""


@dataclass(frozen=True)
class Finding:
    """One reason, the number of rows it applies to, and the first places."""

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
    """Collects findings and guesses while files are read.

    ``rows_read`` counts the rows or records of the files, refused ones included.
    """

    def __init__(self) -> None:
        self.rows_read = 0
        self._counts: dict[tuple[Kind, str], int] = {}
        self._places: dict[tuple[Kind, str], list[str]] = {}
        self._guesses: dict[str, None] = {}

    def add(self, kind: Kind, reason: str, places: Iterable[str], count: int) -> None:
        """Count ``reason`` for ``count`` rows; ``places`` may name only the first of them."""
        key = (kind, reason)
        listed = self._places.setdefault(key, [])
        listed += islice(places, MAX_PLACES - len(listed))
        self._counts[key] = self._counts.get(key, 0) + count

    def add_line(self, kind: Kind, reason: str, source: Source, line: int) -> None:
        """Count ``reason`` for one line of ``source``."""
        self.add(kind, reason, [source.place(line)], 1)

    def add_lines(self, kind: Kind, reason: str, source: Source, lines: np.ndarray) -> None:
        """Count ``reason`` for some lines of ``source``; for none, there is no finding."""
        if len(lines):
            self.add(kind, reason, (source.place(int(line)) for line in lines), len(lines))

    def unreadable(self, source: Source, line: int, reason: str) -> None:
        """Count a record that cannot be read."""
        self.rows_read += 1
        self.add_line("unreadable", reason, source, line)

    def guess(self, sentence: str) -> None:
        """Note something that the file does not say and that is assumed."""
        self._guesses[sentence] = None

    def add_all(self, others: Findings) -> None:
        """Add the findings and guesses of ``others`` after those that are here."""
        self.rows_read += others.rows_read
        for (kind, reason), count in others._counts.items():
            self.add(kind, reason, others._places[kind, reason], count)
        self._guesses.update(others._guesses)

    def count(self, kind: Kind) -> int:
        """Number of rows with findings of ``kind``."""
        return sum(count for (its_kind, _), count in self._counts.items() if its_kind == kind)

    def all(self) -> tuple[Finding, ...]:
        """All findings; those that stop an import come first."""
        keys = sorted(self._counts, key=lambda key: _ORDER.index(key[0]))
        return tuple(
            Finding(kind, reason, self._counts[kind, reason], tuple(self._places[kind, reason]))
            for kind, reason in keys
        )

    @property
    def guesses(self) -> tuple[str, ...]:
        """What was assumed, in the order in which it came up."""
        return tuple(self._guesses)


@dataclass(frozen=True)
class RowFindings:
    """Findings about numbered rows: row n stands at ``places[n]``.

    Rows are given as their numbers or as a mask; for none, there is no finding.
    """

    findings: Findings
    places: np.ndarray

    def _add(self, kind: Kind, reason: str, rows: np.ndarray) -> None:
        places = self.places[rows]
        if len(places):
            self.findings.add(kind, reason, places[:MAX_PLACES].tolist(), len(places))

    def refuse(self, reason: str, rows: np.ndarray) -> None:
        """Count rows that are wrong."""
        self._add("refused", reason, rows)

    def repair(self, reason: str, rows: np.ndarray) -> None:
        """Count rows that are changed."""
        self._add("repaired", reason, rows)

    def note(self, reason: str, rows: np.ndarray) -> None:
        """Count rows that the user should know something about."""
        self._add("note", reason, rows)


@dataclass(frozen=True, kw_only=True)
class FileReport:
    """What the validation reports of all kinds of files have in common.

    ``rows_read`` counts the rows or records of the files.
    """

    files: tuple[str, ...]
    format_id: str
    format_label: str
    format_reason: str
    rows_read: int
    findings: tuple[Finding, ...]
    guesses: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    """Reasons to doubt that the file was read correctly: shown first."""

    def count(self, kind: Kind) -> int:
        """Number of rows with findings of ``kind``."""
        return sum(finding.count for finding in self.findings if finding.kind == kind)

    @property
    def refused(self) -> int:
        """Rows that are wrong: nothing of the file can be stored until they are corrected."""
        return self.count("refused")

    @property
    def unreadable(self) -> int:
        """Records that cannot be read."""
        return self.count("unreadable")

    @property
    def first_refusal(self) -> str:
        """The first finding that stops the import, as a sentence; empty if there is none."""
        for finding in self.findings:
            if finding.kind in ("refused", "unreadable"):
                more = f" (and {finding.count - 1:,} more rows)" if finding.count > 1 else ""
                place = finding.places[0] if finding.places else self.files[0]
                return f"{place}: {finding.reason}{more}"
        return ""

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        return {
            "files": list(self.files),
            "format": self.format_id,
            "format_label": self.format_label,
            "format_reason": self.format_reason,
            "rows_read": self.rows_read,
            "rows_repaired": self.count("repaired"),
            "rows_refused": self.refused,
            "rows_left_out": self.count("left out"),
            "warnings": list(self.warnings),
            "guesses": list(self.guesses),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def in_words(self, *content: str) -> str:
        """The report as text; ``content``: lines about what the file holds."""
        stopped = self.count("refused") + self.count("unreadable")
        left_out = self.count("left out")
        return "\n".join(
            [
                *(f"WARNING   {warning}" for warning in self.warnings),
                f"File      {', '.join(self.files)}",
                f"Format    {self.format_label}: {self.format_reason}",
                f"Rows      {self.rows_read:,} read, {self.count('repaired'):,} repaired, "
                f"{stopped:,} refused" + (f", {left_out:,} left out" if left_out else ""),
                *content,
                *(f"assumed: {guess}" for guess in self.guesses),
                *map(str, self.findings),
            ]
        )
