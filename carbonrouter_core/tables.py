"""Reading and checking of small CSV tables, so that a wrong row is named and not guessed at."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from carbonrouter_core.errors import CatalogError


@dataclass(frozen=True)
class Column:
    """One column of a table: its name, kind ("text" or "number"), unit, range and meaning."""

    name: str
    kind: str
    meaning: str
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf
    optional: bool = False


def nearest(word: str, known: Iterable[str], count: int = 3) -> str:
    """The names in ``known`` most like ``word``, for "did you mean" at the end of an error."""
    by_fold = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.strip().casefold(), by_fold, n=count, cutoff=0.4)
    names = [by_fold[fold] for fold in close] or sorted(by_fold.values())[:6]
    return ", ".join(names)


def unknown(kind: str, word: str, known: Collection[str]) -> str:
    """The sentence for a name that is not known."""
    return f"Unknown {kind} {word!r}. Nearest known: {nearest(word, known)}."


def read_table(path: Path, columns: Sequence[Column], key: Sequence[str]) -> pd.DataFrame:
    """The CSV at ``path`` as a frame with exactly ``columns``, checked cell by cell.

    Raises :class:`CatalogError` naming file, line and column for an unknown or missing
    column, an empty cell that must not be, a number that is none or out of range, or a
    key that stands twice.
    """
    try:
        text = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise CatalogError(f"{path.name} cannot be read as a UTF-8 CSV table: {error}") from error
    names = [column.name for column in columns]
    extra = [name for name in text.columns if name not in names]
    if extra:
        raise CatalogError(
            f"{path.name}: unknown column {extra[0]!r}; the columns are {', '.join(names)}."
        )
    missing = [name for name in names if name not in text.columns]
    if missing:
        raise CatalogError(f"{path.name}: column {missing[0]!r} is missing; add it.")
    frame = text[names].copy()
    for column in columns:
        if column.kind == "number":
            frame[column.name] = _numbers(path, text[column.name], column)
        elif not column.optional and (empty := text[column.name].str.strip() == "").any():
            line = int(empty.to_numpy().argmax()) + 2
            raise CatalogError(f"{path.name}, line {line}: {column.name} is empty; fill it in.")
    twice = frame.duplicated(list(key))
    if twice.any():
        line = int(twice.to_numpy().argmax()) + 2
        raise CatalogError(f"{path.name}, line {line}: {' + '.join(key)} stands there twice.")
    return frame


def _numbers(path: Path, cells: pd.Series, column: Column) -> list[float]:
    values: list[float] = []
    unit = f" {column.unit}" if column.unit else ""
    for line, cell in enumerate(cells, start=2):
        where = f"{path.name}, line {line}: {column.name}"
        if not cell.strip():
            if not column.optional:
                raise CatalogError(
                    f"{where} is empty; give a number{' in' + unit if unit else ''}."
                )
            values.append(math.nan)
            continue
        try:
            value = float(cell)
        except ValueError:
            raise CatalogError(f"{where} is {cell!r}, not a number.") from None
        if not column.low <= value <= column.high:
            raise CatalogError(
                f"{where} is {cell}; it must be from {column.low:g} to {column.high:g}{unit}."
            )
        values.append(value)
    return values
