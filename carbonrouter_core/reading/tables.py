"""Reading and checking of small CSV tables, so that a wrong row is named and not guessed at."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from carbonrouter_core.errors import CatalogError

MAX_BYTES = 10_000_000
"""Of a table; the longest built-in one has 13,000."""


@dataclass(frozen=True)
class Column:
    """A column of a table: name, kind ("text", "number" or "whole"), meaning, unit and range."""

    name: str
    kind: str
    meaning: str
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf
    optional: bool = False


def read_table(path: Path, columns: Sequence[Column], key: Sequence[str]) -> pd.DataFrame:
    """The CSV at ``path`` as a frame with exactly ``columns``, checked cell by cell.

    An optional column may be left out: its cells are empty.

    The index is each row's line in the file. Raises :class:`CatalogError` naming file, line
    and column for an unknown or missing column, an empty cell that must not be, a number that
    is none or out of range, a row of another length, or a key that stands twice.
    """
    header, rows = _read(path)
    names = [column.name for column in columns]
    for name in header:
        if name not in names or header.count(name) > 1:
            what = "unknown column" if name not in names else "two columns"
            raise CatalogError(f"{path.name}: {what} {name!r}; the columns are {', '.join(names)}.")
    for column in columns:
        if column.name not in header and not column.optional:
            raise CatalogError(f"{path.name}: column {column.name!r} is missing; add it.")
    frame = pd.DataFrame(index=pd.Index(list(rows), name="line"))
    for column in columns:
        cells = dict.fromkeys(rows, "")
        if column.name in header:
            at = header.index(column.name)
            cells = {line: row[at] for line, row in rows.items()}
        if column.kind == "text":
            for line, cell in cells.items():
                if not column.optional and not cell.strip():
                    raise CatalogError(
                        f"{path.name}, line {line}: {column.name} is empty; fill it in."
                    )
            frame[column.name] = pd.Series(cells, dtype=object)
        else:
            frame[column.name] = pd.Series(
                {line: _number(path, line, cell, column) for line, cell in cells.items()},
                dtype=float,
            )
    twice = frame.duplicated(list(key))
    if twice.any():
        line = frame.index[twice.to_numpy().argmax()]
        raise CatalogError(f"{path.name}, line {line}: {' + '.join(key)} stands there twice.")
    return frame


def _read(path: Path) -> tuple[list[str], dict[int, list[str]]]:
    """Header and rows by line number; lines without anything on them are passed over."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise CatalogError(
                f"{path.name} has {path.stat().st_size:,} bytes; a table of the catalog has at "
                f"most {MAX_BYTES:,}."
            )
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            lines = [(reader.line_num, row) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CatalogError(f"{path.name} cannot be read as a UTF-8 CSV table: {error}") from error
    if not lines:
        raise CatalogError(f"{path.name} is empty; it needs a header line and rows.")
    (_, header), *rows = lines
    for line, row in rows:
        row += [""] * (len(header) - len(row))
        if len(row) > len(header):
            raise CatalogError(
                f"{path.name}, line {line}: {len(row)} cells, but the header names "
                f"{len(header)} columns."
            )
    return header, dict(rows)


def _number(path: Path, line: int, cell: str, column: Column) -> float:
    unit = f" {column.unit}" if column.unit else ""
    where = f"{path.name}, line {line}: {column.name}"
    if not cell.strip():
        if column.optional:
            return math.nan
        raise CatalogError(f"{where} is empty; give a number{unit and ' in' + unit}.")
    try:
        value = float(cell)
    except ValueError:
        raise CatalogError(f"{where} is {cell!r}, not a number.") from None
    if not column.low <= value <= column.high:
        raise CatalogError(
            f"{where} is {cell}; it must be from {column.low:g} to {column.high:g}{unit}."
        )
    if column.kind == "whole" and value % 1:
        raise CatalogError(f"{where} is {cell}; it must be a whole number.")
    return value
