"""A plain table: time, zone and one or two columns of intensity."""

from __future__ import annotations

import re

from carbonrouter_core.errors import IntensityError
from carbonrouter_core.grid.importers.base import (
    Fact,
    IntensityImporter,
    Rows,
    find_column,
    header,
    text_columns,
)
from carbonrouter_core.progress import Progress
from carbonrouter_core.reading.files import Source
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.reading.numbers import plain_name, unit_in
from carbonrouter_core.reading.times import has_offset

STARTS = (
    "time", "datetime", "date_time", "timestamp", "date", "start", "from", "start_utc", "time_utc",
    "datetime_utc", "start_time", "interval_start", "period_start", "hour_beginning",
    "hour beginning", "interval start", "zeit", "datum", "zeitstempel", "heure", "fecha",
)  # fmt: skip
ENDS = (
    "to", "end", "end_utc", "end_time", "interval_end", "period_end", "hour_ending", "hour ending",
    "interval end", "interval ending", "he",
)  # fmt: skip
ZONES = ("zone", "zone_id", "zone id", "region", "area", "grid", "ba", "bidding_zone", "country")
_INTENSITY = re.compile(r"intensity|co2|carbon|emission|g[_\s/]*(per[_\s]*)?kwh|moer|aoer")
_LIFECYCLE = re.compile(r"life[\s_-]?cycle|\blca\b|_lca")
_DIRECT = re.compile(r"direct|combustion|operational|moer|aoer")
_BASIS = re.compile(f"{_LIFECYCLE.pattern}|{_DIRECT.pattern}")
_NOT_VALUE = re.compile(r"percent|%|estimat|method|source|basis|unit|index|rating|free")


def _columns(source: Source) -> tuple[dict[str, str], dict[str, Fact]]:
    """Which column is which, and what their names say."""
    names = header(source)
    facts: dict[str, Fact] = {}
    columns: dict[str, str] = {}
    bare = {re.sub(r"\s*[\(\[].*[\)\]]\s*$", "", name.lower()).strip(): name for name in names}
    start = next((bare[name] for name in STARTS if name in bare), None)
    end = next((bare[name] for name in ENDS if name in bare), None)
    if time := start or end:
        columns["time"] = time
        facts["interval_end"] = Fact(start is None, f"the column name {time!r}")
        if "utc" in time.lower():
            facts["timezone"] = Fact("UTC", f"the column name {time!r}")
    if zone := find_column(names, *ZONES):
        columns["zone"] = zone
    named = {
        name: plain_name(name)
        for name in names
        if name not in columns.values() and not _NOT_VALUE.search(plain_name(name))
    }
    forecasts = [name for name, plain in named.items() if "forecast" in plain]
    values = [
        name
        for name, plain in named.items()
        if name not in forecasts
        and (_INTENSITY.search(plain) or _BASIS.search(plain) or plain in ("value", "wert"))
    ]
    for name in values:
        lower = plain_name(name)
        if _LIFECYCLE.search(lower):
            columns.setdefault("lifecycle", name)
        elif _DIRECT.search(lower):
            columns.setdefault("direct", name)
        if unit := unit_in(name):
            facts["unit"] = Fact(unit, f"the column name {name!r}")
        if "marginal" in lower or "moer" in lower:
            facts["kind"] = Fact("marginal", f"the column name {name!r}")
    unnamed = [name for name in values if name not in columns.values()]
    if len(unnamed) == 1 and not {"lifecycle", "direct"} & columns.keys():
        columns["value"] = unnamed[0]
    if len(forecasts) == 1:
        columns["forecast"] = forecasts[0]
    estimated = next((name for name in names if re.search(r"estimat|geschätzt", plain_name(name))
                      and "method" not in plain_name(name)), None)  # fmt: skip
    if estimated:
        columns["estimated"] = estimated
    return columns, facts


def _recognise(source: Source) -> str | None:
    if source.kind in ("json", "jsonl"):
        return None
    columns, _ = _columns(source)
    intensities = {"lifecycle", "direct", "value"} & columns.keys()
    if "time" not in columns or not intensities:
        return None
    name = columns[next(iter(intensities))]
    if not _INTENSITY.search(plain_name(name)) and "zone" not in columns:
        return None
    return f"it has a column of times ({columns['time']}) and one of intensity ({name})"


def _read(source: Source, findings: Findings, progress: Progress) -> Rows:
    if source.kind in ("json", "jsonl"):
        raise IntensityError(
            f"{source.name}: this JSON is of no format that is known; bring it as a CSV table of "
            "time, zone and value."
        )
    names = header(source)
    if names and (
        has_offset(names[0]) or re.match(r"\d{4}-\d\d-\d\d|\d\d?[./]\d\d?[./]", names[0])
    ):
        raise IntensityError(
            f"{source.name}: the first line is data, not column names; put a line such as "
            "time;zone;lifecycle_g_per_kwh above it."
        )
    columns, facts = _columns(source)
    lacking = [] if "time" in columns else ["of times (time, datetime, start_utc, ...)"]
    if not {"lifecycle", "direct", "value"} & columns.keys():
        lacking.append(
            "of intensity (lifecycle_g_per_kwh, direct_g_per_kwh, value, ...), or only one"
        )
    if lacking:
        raise IntensityError(
            f"{source.name} has no column {' and no column '.join(lacking)}; columns found: "
            f"{', '.join(names[:12]) or 'none'}."
        )
    return Rows(text_columns(source, columns, findings, progress), facts)


IMPORTER = IntensityImporter(
    id="own",
    label="Table of time, zone and value",
    recognise=_recognise,
    read=_read,
)
