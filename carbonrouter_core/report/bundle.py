"""The CSV bundle: a zip with the figures, what they were computed from, and what columns mean."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import IO, Any, NamedTuple, TypeVar

from carbonrouter_core.progress import Progress, nobody_listens
from carbonrouter_core.report.fields import Field, text, write_csv
from carbonrouter_core.report.metadata import Fact, metadata, shared_scenario, value_text
from carbonrouter_core.report.tables import region_hours, sessions, summary, turns
from carbonrouter_core.results.comparison import Comparison

R = TypeVar("R")

COMPRESSION_LEVEL = 1
"""Of deflate: 6 takes three times as long for a tenth less, most of it being digits."""

SUMMARY_SHARE, SESSIONS_SHARE = 0.15, 0.2
"""Shares of the time that the first two files take, about; the decisions take the rest."""


class Described(NamedTuple):
    """A column of a file of the bundle."""

    file: str
    field: Field[Any]


METADATA: tuple[Field[Sequence[Fact]], ...] = (
    text("key", "name of the value", lambda facts: [fact.key for fact in facts]),
    text(
        "value",
        "its value; units are in the key or in the row KEY.unit",
        lambda facts: [value_text(fact.value) for fact in facts],
    ),
)
COLUMNS: tuple[Field[Sequence[Described]], ...] = (
    text("file", "file of the bundle", lambda rows: [row.file for row in rows]),
    text("column", "name of the column", lambda rows: [row.field.name for row in rows]),
    text("unit", "its unit; empty: none", lambda rows: [row.field.unit for row in rows]),
    text("meaning", "what it says", lambda rows: [row.field.meaning for row in rows]),
)

FILES: dict[str, tuple[Field[Any], ...]] = {
    "summary.csv": summary.SUMMARY,
    "by_session.csv": sessions.BY_SESSION,
    "by_region_hour.csv": region_hours.BY_REGION_HOUR,
    "decisions.csv": turns.DECISIONS,
    "metadata.csv": METADATA,
    "columns.csv": COLUMNS,
}
"""The CSV files of the bundle and their columns; ``scenario.json`` is beside them."""


def write_bundle(
    comparison: Comparison,
    out: IO[bytes],
    *,
    generated_utc: datetime | None = None,
    progress: Progress = nobody_listens,
) -> None:
    """Write the CSV bundle as a zip file.

    Rows are made and written in chunks, so memory does not grow with their number. If the same
    run is written again, only ``generated_at_utc`` and the times inside the zip differ.

    Parameters
    ----------
    comparison
        The runs; every CSV file has all of its policies.
    out
        A binary file; it need not be seekable.
    generated_utc
        The time that the bundle states; now if left out.
    progress
        Called with the share that is done, 0 to 1; an error that it raises ends the work.
    """
    made = (generated_utc or datetime.now(UTC)).astimezone(UTC)
    policies, before = len(comparison.runs), SUMMARY_SHARE + SESSIONS_SHARE
    progress(0.0)
    described = [Described(file, field) for file, fields in FILES.items() for field in fields]
    sections: dict[str, Iterable[Any]] = {
        "summary.csv": [summary.SummaryRows(comparison)],
        "by_session.csv": _with_progress(
            sessions.by_session(comparison),
            lambda rows: (rows.end - rows.first) / max(1, comparison.trace.n_sessions * policies),
            lambda share: progress(SUMMARY_SHARE + SESSIONS_SHARE * share),
        ),
        "by_region_hour.csv": region_hours.by_region_hour(comparison),
        "decisions.csv": _with_progress(
            turns.decisions(comparison),
            lambda rows: len(rows.turns) / max(1, comparison.trace.n_turns * policies),
            lambda share: progress(before + (1 - before) * share),
        ),
        "metadata.csv": [metadata(comparison, made)],
        "columns.csv": [described],
    }
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION_LEVEL) as bundle:
        for name, chunks in sections.items():
            with bundle.open(_entry(name, made), "w", force_zip64=True) as file:
                write_csv(file, FILES[name], chunks)
        with bundle.open(_entry("scenario.json", made), "w") as file:
            scenario = json.dumps(
                shared_scenario(comparison).to_dict(), indent=2, ensure_ascii=False
            )
            file.write(scenario.encode() + b"\n")
    progress(1.0)


def decisions_sha256(comparison: Comparison) -> str:
    """SHA-256 of the bytes of ``decisions.csv``, without keeping them."""
    digest = _Digest()
    write_csv(digest, turns.DECISIONS, turns.decisions(comparison))  # type: ignore[arg-type]
    return digest.sha256.hexdigest()


class _Digest:
    """A file that only counts what is written to it into a hash."""

    closed = False

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def _with_progress(
    chunks: Iterator[R], share_of: Callable[[R], float], progress: Progress
) -> Iterator[R]:
    """``chunks``; before each ``progress`` gets the share that is written."""
    done = 0.0
    for rows in chunks:
        progress(done)
        yield rows
        done += share_of(rows)


def _entry(name: str, made: datetime) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, made.timetuple()[:6])
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry
