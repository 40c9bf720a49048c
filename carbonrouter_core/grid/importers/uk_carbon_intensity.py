"""GB Carbon Intensity API (National Energy System Operator): half-hours, national.

JSON as the API gives it, or CSV as its site exports it. Figures are direct emissions of
generation; the forecast beside them is kept for scenarios that route by it.
"""

from __future__ import annotations

from typing import Any

from carbonrouter_core.errors import IntensityError
from carbonrouter_core.grid.importers.base import (
    Fact,
    IntensityImporter,
    Rows,
    documents,
    header,
    records,
    text_columns,
)
from carbonrouter_core.progress import Progress
from carbonrouter_core.reading.files import Source
from carbonrouter_core.reading.findings import Findings

HALF_HOUR_S = 1800
ZONE = "GB"


def _items(value: Any) -> list[dict[str, Any]]:
    """The half-hours of one answer of the API, or one line of them."""
    data = value.get("data", [value]) if isinstance(value, dict) else []
    items = data if isinstance(data, list) else [data]
    return [item for item in items if isinstance(item, dict)]


def _recognise(source: Source) -> str | None:
    if source.kind in ("json", "jsonl"):
        first = next((item for document in source.samples[:1] for item in _items(document)), {})
        if {"from", "to"} <= first.keys() and {"intensity", "regions"} & first.keys():
            return "its records have from, to and intensity"
        if "regionid" in first and "data" in first:
            return "its records have regionid and data"
        return None
    names = [name.lower() for name in header(source)]
    if any("actual carbon intensity" in name for name in names):
        return "it has a column Actual Carbon Intensity"
    if {"from", "actual", "forecast"} <= set(names):
        return "it has the columns from, actual and forecast"
    return None


def _read(source: Source, findings: Findings, progress: Progress) -> Rows:
    facts = {
        "timezone": Fact("UTC", "the format"),
        "kind": Fact("average", "the format"),
        "basis": Fact("direct", "the format: emissions of generation, without life cycle"),
        "unit": Fact("g/kWh", "the format"),
        "interval_end": Fact(False, "the format"),
        "step_s": Fact(HALF_HOUR_S, "the format"),
        "zone": Fact(ZONE, "the format: national figures"),
        "source": Fact("GB Carbon Intensity API, National Energy System Operator", "the format"),
        "licence": Fact("CC BY 4.0", "the format"),
    }
    if source.kind in ("json", "jsonl"):
        items = [item for document in documents(source, findings) for item in _items(document)]
        if any("regions" in item or "regionid" in item for item in items):
            raise IntensityError(
                f"{source.name} has regional figures, which are forecasts only; carbon is charged "
                "by what happened. Take the national series (intensity/{from}/{to})."
            )
        return Rows(records(source, (_row(item) for item in items), findings), facts)
    columns = {}
    for name in header(source):
        lower = name.lower()
        if lower == "from" or lower.startswith("datetime"):
            columns["time"] = name
        elif lower.startswith("actual"):
            columns["direct"] = name
        elif lower.startswith("forecast"):
            columns["forecast"] = name
    if "time" not in columns:
        raise IntensityError(f"{source.name} has no column from or Datetime (UTC).")
    return Rows(text_columns(source, columns, findings, progress), facts)


def _row(item: dict[str, Any]) -> dict[str, Any]:
    intensity = item.get("intensity")
    intensity = intensity if isinstance(intensity, dict) else {}
    return {
        "time": item.get("from"),
        "direct": intensity.get("actual"),
        "forecast": intensity.get("forecast"),
    }


IMPORTER = IntensityImporter(
    id="uk-carbon-intensity",
    label="GB Carbon Intensity API (JSON or CSV)",
    recognise=_recognise,
    read=_read,
)
