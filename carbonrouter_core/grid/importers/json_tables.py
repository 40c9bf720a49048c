"""The records in a JSON answer of an API, wherever in it they lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from carbonrouter_core.errors import IntensityError

MAX_DEPTH = 3
"""Levels of objects looked into: EIA puts records under ``response.data``."""

Record = dict[str, Any]


def records_in(document: Mapping[str, Any]) -> list[Record]:
    """The records of one JSON object, with what stands beside their list put into each.

    They lie in the longest list of objects, or in lists of values of equal length, one a column;
    else the object is itself a record. Names of fields inside an object are joined by a point.

    Raises
    ------
    IntensityError
        If the object holds a forecast and nothing else.
    """
    lists = _lists(document, {}, 0)
    if lists:
        beside, name, items = max(lists, key=lambda entry: len(entry[2]))
        if name.lower().startswith("forecast"):
            raise IntensityError(
                f"This is a forecast ({name}); carbon is charged by what happened. Bring the "
                "history of the same grid."
            )
        return [beside | _flat(item) for item in items]
    columns = {key: value for key, value in document.items() if isinstance(value, list)}
    lengths = {len(column) for column in columns.values()}
    if len(columns) > 1 and len(lengths) == 1:
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]
    return [_flat(document)]


def _lists(
    value: Mapping[str, Any], above: Record, depth: int
) -> list[tuple[Record, str, list[Mapping[str, Any]]]]:
    """Lists of objects in an object: what stands beside and above each, its name, its items."""
    beside = above | {
        key: inner for key, inner in value.items() if not isinstance(inner, list | dict)
    }
    lists = []
    for key, inner in value.items():
        if isinstance(inner, list) and inner and all(isinstance(item, dict) for item in inner):
            lists.append((beside, key, inner))
        elif isinstance(inner, dict) and depth + 1 < MAX_DEPTH:
            lists += _lists(inner, beside, depth + 1)
    return lists


def _flat(record: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Record:
    flat: Record = {}
    for key, value in record.items():
        if isinstance(value, dict) and depth + 1 < MAX_DEPTH:
            flat |= _flat(value, f"{prefix}{key}.", depth + 1)
        else:
            flat[prefix + key] = value
    return flat
