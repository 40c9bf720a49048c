"""Electricity Maps: hourly (or finer) CSV of one zone a file, direct and life cycle."""

from __future__ import annotations

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
from carbonrouter_core.reading.numbers import unit_in

TIME = "datetime (utc)"


def _columns(source: Source) -> dict[str, str]:
    names = header(source)
    columns = {
        "time": find_column(names, TIME),
        "zone": find_column(names, "zone id"),
        "direct": _intensity(names, "(direct)"),
        "lifecycle": _intensity(names, "(lca)", "(life cycle)", "(lifecycle)"),
        "estimated": find_column(names, "data estimated"),
    }
    return {ours: theirs for ours, theirs in columns.items() if theirs is not None}


def _intensity(names: list[str], *endings: str) -> str | None:
    return next(
        (n for n in names if "carbon intensity" in n.lower() and n.lower().endswith(endings)), None
    )


def _recognise(source: Source) -> str | None:
    columns = _columns(source)
    if {"time", "zone"} <= columns.keys() and {"direct", "lifecycle"} & columns.keys():
        return "it has the columns Zone id, Datetime (UTC) and Carbon intensity"
    return None


def _read(source: Source, findings: Findings, progress: Progress) -> Rows:
    columns = _columns(source)
    frame = text_columns(source, columns, findings, progress)
    values = [columns[name] for name in ("direct", "lifecycle") if name in columns]
    facts = {
        "timezone": Fact("UTC", "the column name"),
        "kind": Fact("average", "the format"),
        "interval_end": Fact(False, "the format"),
        "source": Fact("Electricity Maps", "the format"),
        "licence": Fact("ODbL 1.0", "the format; check the terms your file came under"),
    }
    if unit := unit_in(values[0]):
        facts["unit"] = Fact(unit, "the column name")
    return Rows(frame, facts)


IMPORTER = IntensityImporter(
    id="electricity-maps",
    label="Electricity Maps CSV",
    recognise=_recognise,
    read=_read,
)
