"""Columns of exported tables: one definition gives the values, the type and ``columns.csv``.

Text is made safe for spreadsheets, numbers keep every digit, times are UTC and end in Z.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from carbonrouter_core.units import MS_PER_S

R = TypeVar("R")

Kind = Literal["text", "whole", "number", "yes/no", "time"]

_TYPES = {
    "text": pa.string(),
    "whole": pa.int64(),
    "number": pa.float64(),
    "yes/no": pa.bool_(),
    "time": pa.string(),
}

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A spreadsheet takes text that begins so for a formula, or hides a formula behind it."""


@dataclass(frozen=True)
class Field(Generic[R]):
    """A column: its name, kind, unit and meaning, and how its values come from some rows ``R``.

    ``of`` gives one value a row: an array, a sequence, :class:`Names`, or epoch seconds for a
    time. NaN and None are written as an empty cell.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    of: Callable[[R], Any]


def text(name: str, meaning: str, of: Callable[[R], Any]) -> Field[R]:
    """A column of text."""
    return Field(name, "text", "", meaning, of)


def whole(name: str, unit: str, meaning: str, of: Callable[[R], Any]) -> Field[R]:
    """A column of whole numbers."""
    return Field(name, "whole", unit, meaning, of)


def number(name: str, unit: str, meaning: str, of: Callable[[R], Any]) -> Field[R]:
    """A column of numbers."""
    return Field(name, "number", unit, meaning, of)


def yes_no(name: str, meaning: str, of: Callable[[R], Any]) -> Field[R]:
    """A column of true and false."""
    return Field(name, "yes/no", "", meaning, of)


def time(name: str, meaning: str, of: Callable[[R], Any]) -> Field[R]:
    """A column of times."""
    return Field(name, "time", "", meaning, of)


class Names(NamedTuple):
    """Text of which few values occur: ``names`` and the number of the name of each row.

    A code of -1 is an empty cell.
    """

    codes: np.ndarray
    names: Sequence[str]


def neutral(text: str) -> str:
    """``text`` so that a spreadsheet shows it and does not run it; NUL, which ends a cell, out.

    What would be a formula gets an apostrophe in front, which spreadsheets read as "text".
    """
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return "'" + text if text.lstrip(" ").startswith(FORMULA_STARTS) else text


def schema_of(fields: Sequence[Field[R]]) -> pa.Schema:
    """Names and types of ``fields``."""
    return pa.schema([(field.name, _TYPES[field.kind]) for field in fields])


def to_table(fields: Sequence[Field[R]], rows: R) -> pa.Table:
    """The columns of ``fields`` for ``rows``, in their order and types whatever the data."""
    return pa.table(
        [_column(field, field.of(rows)) for field in fields],
        schema=schema_of(fields),
    )


def write_csv(out: IO[bytes], fields: Sequence[Field[R]], chunks: Iterable[R]) -> None:
    """Write each of ``chunks`` to ``out`` as CSV (UTF-8), with a header even where there is none.

    Text stands in quotes and numbers do not. Only one chunk is in memory at a time.
    """
    with pa_csv.CSVWriter(out, schema_of(fields)) as writer:
        for rows in chunks:
            writer.write_table(to_table(fields, rows))


def _column(field: Field[R], values: Any) -> pa.Array:
    if isinstance(values, Names):
        names = pa.array([neutral(name) for name in values.names], pa.string())
        codes = pa.array(values.codes, pa.int32(), mask=np.asarray(values.codes) < 0)
        return pa.DictionaryArray.from_arrays(codes, names).dictionary_decode()
    if field.kind == "text":
        return pa.array(
            [None if value is None else neutral(value) for value in values], pa.string()
        )
    if field.kind == "time":
        seconds = np.asarray(values, np.float64)
        ms = np.round(np.nan_to_num(seconds) * MS_PER_S).astype(np.int64)
        times = pa.array(ms, pa.timestamp("ms"), mask=np.isnan(seconds))
        return pc.strftime(times, format="%Y-%m-%dT%H:%M:%SZ")
    if field.kind == "number":
        if not isinstance(values, np.ndarray):
            values = [np.nan if value is None else value for value in values]
        numbers = np.asarray(values, np.float64)
        return pa.array(numbers, pa.float64(), mask=~np.isfinite(numbers))
    return pa.array(values, _TYPES[field.kind])
