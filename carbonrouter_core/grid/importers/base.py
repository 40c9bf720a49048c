"""What an importer of carbon intensity is: how a format is recognised, and what its rows say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pandas as pd

from carbonrouter_core.errors import ReadingError
from carbonrouter_core.grid.importers.json_tables import records_in
from carbonrouter_core.progress import Progress
from carbonrouter_core.reading.columns import Wanted, read_columns
from carbonrouter_core.reading.files import SAMPLE_RECORDS, Source, json_values
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.reading.formats import Format
from carbonrouter_core.reading.mapping import ColumnMapping

COLUMNS = ("time", "zone", "lifecycle", "direct", "forecast", "estimated")
"""Columns of what an importer hands on, all as text, beside ``place``: where the row stands."""


MAPPED = ("time", "clock", "zone", "lifecycle", "direct", "value", "forecast", "estimated")
"""What the user may say that a column is. ``clock``: the hour beside a column with the date only;
``value``: intensity, lifecycle or direct as the user says."""


@dataclass(frozen=True)
class IntensityOptions:
    """What the user may say about a file that the file does not say itself.

    ``zone``: the zone of a file without a zone column; ``zones``: our zone for a name in the
    file; ``new_zones``: names that are zones of their own. ``timezone``: of times without an
    offset. ``unit``: as in :data:`.numbers.G_PER_KWH`. ``decimal``: "," or ".".
    ``interval_end``: whether times are ends of intervals. ``hourly``: store hourly means.
    ``columns``: the file's column for each of :data:`MAPPED`; the file is then read as a table.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    zone: str | None = None
    zones: Mapping[str, str] = field(default_factory=dict)
    new_zones: tuple[str, ...] = ()
    timezone: str | None = None
    unit: str | None = None
    basis: str | None = None
    kind: str | None = None
    decimal: str | None = None
    interval_end: bool | None = None
    hourly: bool = False
    source: str | None = None
    licence: str | None = None

    def mapping(self, name: str) -> ColumnMapping:
        """The columns and all else that was said, under a name. :class:`ReadingError` if none."""
        if not self.columns:
            raise ReadingError("There are no columns to keep: say what they are (--column).")
        said = {
            key: value
            for key, value in vars(self).items()
            if key != "columns" and value != getattr(IntensityOptions(), key)
        }
        return ColumnMapping(name, "grid", self.columns, said)


@dataclass(frozen=True)
class Fact:
    """Something about a file, and where it is from ("the column name", "you", ...)."""

    value: Any
    because: str


@dataclass
class Rows:
    """What an importer read: the rows as text, and the facts that hold for all of them.

    ``facts``: of unit, timezone, basis, kind, interval_end, step_s, zone, zone_names, column,
    source, licence, those that the format says. ``basis`` is for a single value column whose name
    does not say; ``zone_names``: our zones by the names that the format gives them; ``column``:
    where the values stand.
    """

    frame: pd.DataFrame
    facts: dict[str, Fact] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class IntensityImporter(Format):
    """One format of carbon-intensity files."""

    read: Callable[[Source, Findings, Progress], Rows]
    """The rows of a file; counts the rows it reads and reports what it drops."""


def text_columns(
    source: Source, columns: Mapping[str, str], findings: Findings, progress: Progress
) -> pd.DataFrame:
    """The columns of a table as text. ``columns``: their names in the file, by ours.

    A table may be CSV, Parquet, or JSON whose records :func:`.json_tables.records_in` can tell.
    """
    if source.kind in ("json", "jsonl"):
        items = chain.from_iterable(map(records_in, documents(source, findings)))
        return records(
            source,
            ({ours: item.get(theirs) for ours, theirs in columns.items()} for item in items),
            findings,
        )
    wanted = [Wanted(ours, (theirs,), "text") for ours, theirs in columns.items()]
    tables = read_columns(source, wanted, findings, progress)
    frames = [table.to_pandas() for table in tables]
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame({"line": []})
    frame["place"] = [source.place(int(line)) for line in frame.pop("line")]
    return with_all_columns(frame)


def with_all_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """``frame`` with every column of :data:`COLUMNS`; those it lacks are empty."""
    for name in COLUMNS:
        if name not in frame:
            frame[name] = None
    return frame


def records(source: Source, items: Iterable[Mapping[str, Any]], findings: Findings) -> pd.DataFrame:
    """Rows of JSON as text; ``items`` map our columns to values."""
    rows = [
        {name: None if value is None else str(value) for name, value in item.items()}
        for item in items
    ]
    findings.rows_read += len(rows)
    frame = pd.DataFrame(rows, dtype=object)
    frame["place"] = [f"record {number}" for number in range(1, len(rows) + 1)]
    if source.many:
        frame["place"] = [f"{source.name}, {place}" for place in frame["place"]]
    return with_all_columns(frame)


def documents(source: Source, findings: Findings) -> list[dict[str, Any]]:
    """All JSON objects of a file."""

    def broken(line: int, reason: str) -> None:
        findings.add_line("unreadable", reason, source, line)

    return [value for _, value in json_values(source, broken)]


def header(source: Source) -> list[str]:
    """Names of the columns of a table, or of the fields of its records if it is JSON."""
    if source.kind in ("json", "jsonl"):
        names: dict[str, None] = {}
        for document in source.samples:
            for record in records_in(document)[:SAMPLE_RECORDS]:
                names |= dict.fromkeys(record)
        return list(names)
    return [name.strip() for name in source.columns]


def find_column(names: Sequence[str], *wanted: str) -> str | None:
    """The first of ``names`` that is one of ``wanted``, in any case."""
    return next((name for name in names if name.lower() in wanted), None)
