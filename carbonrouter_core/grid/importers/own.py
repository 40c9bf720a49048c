"""A plain table: time, zone and one or two columns of intensity."""

from __future__ import annotations

import re
from collections.abc import Mapping

from carbonrouter_core.errors import IntensityError
from carbonrouter_core.grid.importers.base import (
    MAPPED,
    Fact,
    IntensityImporter,
    Rows,
    find_column,
    header,
    text_columns,
)
from carbonrouter_core.grid.importers.clock import with_clock
from carbonrouter_core.progress import Progress
from carbonrouter_core.reading.files import Source
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.reading.mapping import check_columns, check_names, way_out
from carbonrouter_core.reading.numbers import is_unclear_ton, plain_name, unit_in
from carbonrouter_core.reading.times import has_offset

STARTS = (
    "date time", "datetime", "timestamp", "time stamp", "interval start", "period start",
    "hour beginning", "hour start", "start", "start time", "start date", "start date time",
    "start datetime", "valid from", "from", "date et heure", "date heure", "fecha hora",
    "zeitstempel", "minutes 5", "minutes", "point time", "value date time", "settlement date",
    "time", "zeit", "heure", "hour", "date", "datum", "fecha",
)  # fmt: skip
"""Names of columns of times that are starts of intervals, without "UTC" and "local"."""
ENDS = (
    "interval end", "interval ending", "period end", "hour ending", "hour end", "end", "end time",
    "time at end of hour", "to", "he",
)  # fmt: skip
"""As :data:`STARTS`, of ends of intervals."""
DATES = ("date", "datum", "fecha", "jour", "day")
CLOCKS = (
    "time",
    "zeit",
    "uhrzeit",
    "heure",
    "heures",
    "hora",
    "hour",
    "hour ending",
    "he",
    "clock",
)
"""Columns of dates and of clock times that belong together."""
ZONES = ("zone", "zone_id", "zone id", "region", "area", "grid", "ba", "bidding_zone", "country")
_INTENSITY = re.compile(r"intensity|co2|carbon|emission|g[_\s/]*(per[_\s]*)?kwh|moer|aoer")
_LIFECYCLE = re.compile(r"life[\s_-]?cycle|\blca\b|_lca")
_DIRECT = re.compile(r"direct|combustion|operational|moer|aoer")
_BASIS = re.compile(f"{_LIFECYCLE.pattern}|{_DIRECT.pattern}")
_NOT_VALUE = re.compile(r"percent|%|estimat|method|source|basis|unit|index|free|low[\s_]?carbon")
_AMOUNT = re.compile(r"mass|total|production|generation|consumption|import|export|price|\(t\)")
"""Amounts of carbon or of energy, unless their name says intensity or a unit of it."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-zà-ÿ]+|\d+")


def _base(name: str) -> tuple[str, str]:
    """A column name as lower-case words, and which clock it says: utc, local or none."""
    bare = re.sub(r"\s*[\(\[].*[\)\]]\s*$", "", name)
    words = [word.lower() for word in _WORD.findall(bare)]
    if words and words[-1].endswith("utc") and words[-1] != "utc":
        words[-1:] = [words[-1].removesuffix("utc"), "utc"]
    inside = name.lower()
    clock = "utc" if "utc" in inside or "gmt" in words else "local" if "local" in inside else ""
    return " ".join(word for word in words if word not in ("utc", "gmt", "local")), clock


def _time_columns(names: list[str]) -> tuple[str | None, bool, str | None]:
    """The column of times, whether it is of ends, and the column of clock times beside a date."""
    base = {name: _base(name) for name in names}
    for wanted, is_end in ((STARTS, False), (ENDS, True)):
        there = [name for name in names if base[name][0] in wanted]
        if there:
            order = {"utc": 0, "": 1, "local": 2}
            time = min(there, key=lambda name: (order[base[name][1]], wanted.index(base[name][0])))
            date = next((name for name in names if base[name][0] in DATES), None)
            clock = next((name for name in names if base[name][0] in CLOCKS), None)
            if date and clock and base[time][0] in (*DATES, *CLOCKS):
                return date, base[clock][0] in ENDS, clock
            return time, is_end, None
    return None, False, None


def _columns(source: Source) -> tuple[dict[str, str], dict[str, Fact]]:
    """Which column is which, and what their names say."""
    names = header(source)
    facts: dict[str, Fact] = {}
    columns: dict[str, str] = {}
    time, is_end, clock = _time_columns(names)
    if time:
        columns["time"] = time
        if clock:
            columns["clock"] = clock
        said = clock if clock and is_end else time
        facts["interval_end"] = Fact(is_end, f"the column name {said!r}")
        for name in filter(None, (time, clock)):
            if _base(name)[1] == "utc":
                facts["timezone"] = Fact("UTC", f"the column name {name!r}")
    if zone := find_column(names, *ZONES):
        columns["zone"] = zone
    forecasts, values = _value_columns([n for n in names if n not in columns.values()])
    for name in values:
        lower = plain_name(name)
        if _LIFECYCLE.search(lower):
            columns.setdefault("lifecycle", name)
        elif _DIRECT.search(lower):
            columns.setdefault("direct", name)
    unnamed = [name for name in values if name not in columns.values()]
    if not {"lifecycle", "direct"} & columns.keys():
        # of several, those that say intensity, or a unit of it
        for narrower in (unit_in, lambda name: "intensity" in name.lower() or None):
            if len(unnamed) > 1 and (some := [name for name in unnamed if narrower(name)]):
                unnamed = some
        if len(unnamed) == 1:
            columns["value"] = unnamed[0]
    facts |= _facts_of_values(columns)
    if len(forecasts) == 1:
        columns["forecast"] = forecasts[0]
    estimated = next((name for name in names if re.search(r"estimat|geschätzt", plain_name(name))
                      and "method" not in plain_name(name)), None)  # fmt: skip
    if estimated:
        columns["estimated"] = estimated
    return columns, facts


def _facts_of_values(columns: Mapping[str, str]) -> dict[str, Fact]:
    """What the names of the columns of intensity say."""
    facts: dict[str, Fact] = {}
    taken = [columns[name] for name in ("lifecycle", "direct", "value") if name in columns]
    for name in taken:
        if is_unclear_ton(name):
            raise IntensityError(
                f"The column {name!r} is in tons, which may be metric or short tons (1,000 or 907 "
                "kg); say which (--unit t/MWh or --unit 'short ton/MWh')."
            )
        if unit := unit_in(name):
            facts["unit"] = Fact(unit, f"the column name {name!r}")
        if "marginal" in name.lower() or "moer" in name.lower():
            facts["kind"] = Fact("marginal", f"the column name {name!r}")
    if taken:
        facts["column"] = Fact(" and ".join(taken), "the column name")
    return facts


def _value_columns(names: list[str]) -> tuple[list[str], list[str]]:
    """Columns of forecasts, and columns that may hold intensity."""
    forecasts, values = [], []
    for name in names:
        plain = plain_name(name)
        intensity = "intensity" in plain or unit_in(name) or is_unclear_ton(name)
        if _NOT_VALUE.search(plain) or (_AMOUNT.search(plain) and not intensity):
            continue
        if "forecast" in plain:
            forecasts.append(name)
        elif (
            intensity
            or _INTENSITY.search(plain)
            or _BASIS.search(plain)
            or plain in ("value", "wert")
        ):
            values.append(name)
    return forecasts, values


def _recognise(source: Source) -> str | None:
    columns, _ = _columns(source)
    intensities = {"lifecycle", "direct", "value"} & columns.keys()
    if "time" not in columns or not intensities:
        return None
    name = columns[next(iter(intensities))]
    if not _INTENSITY.search(plain_name(name)) and "zone" not in columns:
        return None
    return f"it has a column of times ({columns['time']}) and one of intensity ({name})"


def _read(source: Source, findings: Findings, progress: Progress) -> Rows:
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
            f"{', '.join(names[:12]) or 'none'}. {way_out(MAPPED)}"
        )
    return _rows(source, columns, facts, findings, progress)


def read_mapped(
    source: Source, columns: Mapping[str, str], findings: Findings, progress: Progress
) -> Rows:
    """The rows of a table whose columns the user names; their names may still say the unit.

    Raises
    ------
    IntensityError
        If a column is not in the file, or there is none of times or none of intensity.
    """
    check_names(columns, MAPPED)
    check_columns(columns, header(source), source.name)
    if "time" not in columns or not {"lifecycle", "direct", "value"} & columns.keys():
        raise IntensityError(
            "Say which column has the times (time) and which the intensity (lifecycle, direct, or "
            "value with the basis)."
        )
    time = columns["time"]
    base, clock = _base(time)
    facts = _facts_of_values(columns)
    if base in ENDS:
        facts["interval_end"] = Fact(True, f"the column name {time!r}")
    if clock == "utc":
        facts["timezone"] = Fact("UTC", f"the column name {time!r}")
    return _rows(source, columns, facts, findings, progress)


def _rows(
    source: Source,
    columns: Mapping[str, str],
    facts: dict[str, Fact],
    findings: Findings,
    progress: Progress,
) -> Rows:
    frame = text_columns(source, columns, findings, progress)
    if "clock" in columns:
        frame, ends = with_clock(frame)
        if ends:
            facts["interval_end"] = Fact(True, "hours from 1 to 24")
    return Rows(frame, facts)


IMPORTER = IntensityImporter(
    id="own",
    label="Table of time, zone and value",
    recognise=_recognise,
    read=_read,
)
