"""WattTime: JSON of versions 2 and 3 of its API, and CSV of its histories.

Its marginal rate (MOER) and average rate (AOER) are direct emissions in lb/MWh; a region of
WattTime is no zone of ours, so the user says which it stands for.
"""

from __future__ import annotations

from typing import Any

from carbonrouter_core.errors import IntensityError
from carbonrouter_core.grid.importers.base import (
    Fact,
    IntensityImporter,
    Rows,
    documents,
    find_column,
    header,
    records,
    text_columns,
)
from carbonrouter_core.grid.series import MAX_STEP_S, MIN_STEP_S
from carbonrouter_core.progress import Progress
from carbonrouter_core.reading.files import Source
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.reading.numbers import unit_in

KINDS = {"moer": "marginal", "co2_moer": "marginal", "aoer": "average", "co2_aoer": "average"}


def _recognise(source: Source) -> str | None:
    if source.kind in ("json", "jsonl"):
        first = source.samples[0] if source.samples else {}
        if isinstance(first.get("meta"), dict) and "signal_type" in first["meta"]:
            return "it has meta.signal_type and data"
        if {"point_time", "value"} <= first.keys():
            return "its records have point_time and value"
        return None
    names = {name.lower() for name in header(source)}
    if "moer" in names or "co2_moer" in names:
        return "it has a column MOER"
    if {"point_time", "value"} <= names:
        return "it has the columns point_time and value"
    return None


def _read(source: Source, findings: Findings, progress: Progress) -> Rows:
    facts = {
        "timezone": Fact("UTC", "the format"),
        "basis": Fact("direct", "the format: emissions of the plants, without life cycle"),
        "interval_end": Fact(False, "the format"),
        "source": Fact("WattTime", "the format"),
        "licence": Fact("terms of WattTime", "the format"),
    }
    unit = Fact("lb/MWh", "the format")
    if source.kind in ("json", "jsonl"):
        return _from_json(source, findings, facts, unit)
    names = header(source)
    value = find_column(names, "moer", "co2_moer", "value")
    time = find_column(names, "point_time", "timestamp", "datetime", "time")
    zone = find_column(names, "region", "ba")
    if value is None or time is None:
        raise IntensityError(f"{source.name} has no columns of times and values of WattTime.")
    named = "moer" in value.lower()
    because = "the column name" if named else "assumed: the file does not name its signal"
    facts |= {"unit": unit, "kind": Fact("marginal", because)}
    columns = {"time": time, "direct": value} | ({"zone": zone} if zone else {})
    return Rows(text_columns(source, columns, findings, progress), facts)


def _from_json(source: Source, findings: Findings, facts: dict[str, Fact], unit: Fact) -> Rows:
    rows: list[dict[str, Any]] = []
    signals: set[str] = set()
    for document in documents(source, findings):
        meta = document.get("meta")
        if not isinstance(meta, dict):  # version 2: one point a record
            frequency = document.get("frequency")
            if (step_s := _step_s(frequency)) is not None:
                facts["step_s"] = Fact(step_s, "frequency")
            signals.add(str(document.get("datatype", "co2_moer")).lower())
            rows.append(_row(document, document.get("ba") or document.get("region")))
            continue
        if "generated_at" in meta:
            raise IntensityError(
                f"{source.name} is a forecast (meta.generated_at); carbon is charged by what "
                "happened. Take the historical data."
            )
        signals.add(str(meta.get("signal_type", "")).lower())
        if (step_s := _step_s(meta.get("data_point_period_seconds"))) is not None:
            facts["step_s"] = Fact(step_s, "meta.data_point_period_seconds")
        if "units" in meta:
            said = unit_in(str(meta["units"]))
            if said is None:
                raise IntensityError(
                    f"{source.name} is in {str(meta['units'])[:40]!r}, which is no unit of carbon "
                    "intensity."
                )
            unit = Fact(said, "meta.units")
        data = document.get("data")
        for point in data if isinstance(data, list) else []:
            rows.append(_row(point if isinstance(point, dict) else {}, meta.get("region")))
    strange = sorted(signals - KINDS.keys())
    if strange or len({KINDS[signal] for signal in signals}) > 1:
        raise IntensityError(
            f"{source.name} has the signal {', '.join(sorted(signals)) or 'none'}; what can be "
            "used is one of co2_moer and co2_aoer."
        )
    if signals:
        facts["kind"] = Fact(KINDS[next(iter(signals))], "the signal")
    return Rows(records(source, rows, findings), facts | {"unit": unit})


def _step_s(value: Any) -> int | None:
    """A stated period in s; None for what can be none: it is told from the times instead."""
    if isinstance(value, int | float) and MIN_STEP_S <= value <= MAX_STEP_S:
        return int(value)
    return None


def _row(point: dict[str, Any], region: Any) -> dict[str, Any]:
    return {"time": point.get("point_time"), "direct": point.get("value"), "zone": region}


IMPORTER = IntensityImporter(
    id="watttime",
    label="WattTime (JSON or CSV)",
    recognise=_recognise,
    read=_read,
)
