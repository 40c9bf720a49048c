"""Reading named columns out of CSV, JSON Lines, JSON or Parquet, whatever the file is.

An importer of a flat format names what it wants and where it may stand; here it is read in
chunks, vectorised where the chunk is clean, cell by cell where it is not, so that a wrong cell
is named with its line and the rest of the file still goes fast.
"""

from __future__ import annotations

import ast
import contextlib
import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from carbonrouter_core.progress import Progress
from carbonrouter_core.reading.ahead import chunks_ahead, parts_ahead
from carbonrouter_core.reading.files import Source, loads, values_of, whole_text
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.reading.json_keys import KeyFinder
from carbonrouter_core.reading.times import LocalTimes

FIRST_TIME_S, LAST_TIME_S = 946_684_800.0, 4_102_444_800.0
"""2000-01-01 and 2100-01-01 UTC: an epoch time outside is in another unit or wrong."""
NO_DATE = "the time cannot be read as a date between 2000 and 2100"

_UNITS = ((1.0, "seconds"), (1e3, "milliseconds"), (1e6, "microseconds"), (1e9, "nanoseconds"))
_ZONE = re.compile(r"(?:[zZ]|[+-]\d\d(?::?\d\d)?)\s*$")
_UTC_WORD = re.compile(r"\s*(?:UTC|GMT)\s*$")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")

_PORTAL_TIMES = ("%m/%d/%Y, %I:%M:%S.%f %p", "%m/%d/%Y, %I:%M:%S %p")
"""How the Azure portal writes times into CSV."""

ColumnKind = Literal["number", "text", "time"]


@dataclass(frozen=True)
class Wanted:
    """One column: its name with us, where it may stand (dotted in JSON), and its kind.

    ``time`` columns become epoch seconds; ``number`` columns float64 with null for empty.
    ``label``: what the reader knows it by, where that is another name.
    """

    name: str
    paths: tuple[str, ...]
    kind: ColumnKind = "number"
    label: str = ""


def names_in_file(source: Source, wanted: Iterable[Wanted]) -> dict[str, str]:
    """What a file calls each of the ``wanted`` columns, for messages."""
    header = [name.strip() for name in source.columns]
    samples = source.sample_rows

    def name(target: Wanted) -> str:
        if target.label:
            return target.label
        for path in target.paths:
            if any(value_at(record, path) not in (None, "") for record in samples):
                return path
        named = (path for path in target.paths if path in header)
        return next(named, target.paths[0] if target.paths else target.name)

    return {target.name: name(target) for target in wanted}


def read_columns(
    source: Source,
    wanted: Sequence[Wanted],
    findings: Findings,
    progress: Progress,
    timezone: str | None = None,
) -> Iterator[pa.Table]:
    """Tables with ``line`` and the ``wanted`` columns; a column that is nowhere is all null.

    ``timezone``: of times that do not name theirs; left out, they are UTC.
    """
    reader = {"csv": _csv, "jsonl": _json, "json": _json, "parquet": _parquet}
    times = _Times(source, findings, timezone)
    names = names_in_file(source, wanted)
    wanted = [replace(target, label=names[target.name]) for target in wanted]
    cells = _JsonCells(source, wanted, findings)

    for cells_shut in reader[source.kind](source, cells.outer, findings, progress):
        table = cells.opened(cells_shut)
        for target in wanted:
            if target.kind == "time":
                at = table.schema.get_field_index(target.name)
                values, keep = times.epoch_s(table[target.name], table["line"])
                table = table.set_column(at, target.name, pa.array(values, from_pandas=True))
                if not keep.all():
                    table = table.filter(pa.array(keep))
        yield table


# --- CSV -------------------------------------------------------------------------------------


def _csv(
    source: Source, wanted: Sequence[Wanted], findings: Findings, progress: Progress
) -> Iterator[pa.Table]:
    header = [name.strip() for name in source.columns]
    where: dict[str, int | None] = {}
    for target in wanted:
        given = [path for path in target.paths if path in header]
        filled = [path for path in given if any(row.get(path) for row in source.sample_rows)]
        path = next(iter(filled or given), None)
        where[target.name] = None if path is None else header.index(path)

    def read(part: tuple[int, bytes], own: Findings) -> pa.Table | None:
        first, chunk = part
        if first == 1:
            end = chunk.find(b"\n") + 1 or len(chunk)
            first, chunk = 2, chunk[end:]
        if not chunk.strip():
            return None
        table = None
        if b"\n\n" not in chunk and b"\n\r\n" not in chunk:
            table = _csv_fast(source, header, where, wanted, chunk, first)
        if table is None:
            table = _csv_slow(source, header, where, wanted, chunk, first, own)
        return _counted(table, own)

    tables = chunks_ahead(source, findings, progress, read)
    yield from (table for table in tables if table is not None)


def _csv_fast(
    source: Source,
    header: list[str],
    where: dict[str, int | None],
    wanted: Sequence[Wanted],
    chunk: bytes,
    first: int,
) -> pa.Table | None:
    names = [f"c{i}" for i in range(len(header))]
    types: dict[str, pa.DataType] = dict.fromkeys(names, pa.string())
    for target in wanted:
        if (at := where[target.name]) is not None and target.kind == "number":
            types[names[at]] = pa.float64()
    needed = [names[at] for at in sorted({at for at in where.values() if at is not None})]
    try:
        table = pa_csv.read_csv(
            io.BytesIO(chunk),
            read_options=pa_csv.ReadOptions(
                column_names=names, use_threads=False, block_size=2**21
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=source.delimiter,
                quote_char='"' if b'"' in chunk else False,
                newlines_in_values=b'"' in chunk,
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=types,
                include_columns=needed,
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != chunk.count(b"\n") + (not chunk.endswith(b"\n")):
        return None
    return _table(
        np.arange(first, first + table.num_rows),
        {
            target.name: None if (at := where[target.name]) is None else table[names[at]]
            for target in wanted
        },
        wanted,
    )


def _csv_slow(
    source: Source,
    header: list[str],
    where: dict[str, int | None],
    wanted: Sequence[Wanted],
    chunk: bytes,
    first: int,
    findings: Findings,
) -> pa.Table:
    rows = _Rows(source, wanted, findings)
    text = chunk.decode("utf-8")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=source.delimiter, strict=True)
    last_line = first + text.rstrip("\r\n").count("\n")
    while True:
        line = first + reader.line_num
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            findings.add_line("refused", f"this is no CSV row: {error}", source, line)
            break
        if not cells or cells == [""]:
            continue
        while len(cells) > len(header) and not cells[-1].strip():
            cells.pop()  # some tables end each row, but not the header, with a delimiter
        if len(cells) != len(header):
            what = f"this has {len(cells)} cells where the header has {len(header)}"
            if line == last_line and not chunk.endswith(b"\n"):
                findings.unreadable(source, line, what + "; the file ends early")
            else:
                if len(cells) < len(header):
                    what = f"{header[len(cells)]} is missing: {what}"
                findings.add_line("refused", what, source, line)
            continue
        rows.add(
            line,
            [
                None if (at := where[target.name]) is None else cells[at] or None
                for target in wanted
            ],
        )
    return rows.table()


# --- JSON ------------------------------------------------------------------------------------


def _json(
    source: Source, wanted: Sequence[Wanted], findings: Findings, progress: Progress
) -> Iterator[pa.Table]:
    schema, paths = _json_schema(source.samples, wanted)
    keys = KeyFinder(list(_names_in(schema)))

    def read(part: tuple[int, bytes], own: Findings) -> pa.Table:
        first, chunk = part
        present = keys.found(chunk)
        there = {
            name: [path for path in some if present.issuperset(_steps(schema, path))]
            for name, some in paths.items()
        }
        table = _json_fast(_with_keys(schema, present), there, wanted, chunk, first)
        if table is None:
            rows = _Rows(source, wanted, own)
            for line, record in values_of(first, chunk, partial(own.unreadable, source)):
                rows.add(line, [_first(record, target.paths) for target in wanted])
            table = rows.table()
        return _counted(table, own)

    yield from chunks_ahead(source, findings, progress, read)


def _json_schema(
    samples: Sequence[dict[str, Any]], wanted: Sequence[Wanted]
) -> tuple[pa.Schema, dict[str, list[str]]]:
    """The types under which clean chunks parse; a chunk of other types goes the slow way."""
    tree: dict[str, Any] = {}
    paths: dict[str, list[str]] = {}
    for target in wanted:
        for path in target.paths:
            kind = pa.float64()
            seen = next((v for r in samples if (v := _get(r, path)) is not None), None)
            if isinstance(seen, dict | list) or _is_below_a_value(samples, path):
                continue
            if target.kind == "number" and isinstance(seen, str):
                kind = pa.string()
            elif target.kind != "number":
                number = isinstance(seen, int | float)
                whole = pa.int64() if target.kind == "text" else pa.float64()
                kind = whole if number else pa.string()
                if isinstance(seen, bool):
                    kind = pa.bool_()
            *above, leaf = [path] if any(path in record for record in samples) else path.split(".")
            node = tree
            for name in above:
                below = node.setdefault(name, {})
                if not isinstance(below, dict):
                    break
                node = below
            else:
                if not isinstance(node.get(leaf), dict):
                    node[leaf] = kind
                    paths.setdefault(target.name, []).append(path)

    def fields(node: dict[str, Any]) -> list[pa.Field]:
        return [
            pa.field(name, pa.struct(fields(below)) if isinstance(below, dict) else below)
            for name, below in node.items()
        ]

    return pa.schema(fields(tree)), paths


def _names_in(fields: Iterable[pa.Field]) -> Iterator[str]:
    """The names of fields, and of the fields within them."""
    for field in fields:
        yield field.name
        if pa.types.is_struct(field.type):
            yield from _names_in(field.type)


def _steps(schema: pa.Schema, path: str) -> list[str]:
    """The names on the way to ``path``, which may be the name of a column as it is."""
    return [path] if path in schema.names else path.split(".")


def _with_keys(schema: pa.Schema, keys: frozenset[str]) -> pa.Schema:
    """The fields of ``schema`` of which all names are among ``keys``; at least one field."""

    def those(fields: Iterable[pa.Field]) -> list[pa.Field]:
        some = []
        for field in fields:
            if field.name not in keys:
                continue
            if not pa.types.is_struct(field.type):
                some.append(field)
            elif inner := those(field.type):
                some.append(pa.field(field.name, pa.struct(inner)))
        return some

    return pa.schema(those(schema) or list(schema)[:1])


def _is_below_a_value(samples: Sequence[dict[str, Any]], path: str) -> bool:
    """Whether something on the way to ``path`` is no object in the first records."""
    above, _, _ = path.rpartition(".")
    while above:
        seen = (_get(record, above) for record in samples)
        if any(value is not None and not isinstance(value, dict) for value in seen):
            return True
        above, _, _ = above.rpartition(".")
    return False


def _json_fast(
    schema: pa.Schema,
    paths: dict[str, list[str]],
    wanted: Sequence[Wanted],
    chunk: bytes,
    first: int,
) -> pa.Table | None:
    table = parse_lines(chunk, schema)
    if table is None:
        return None
    columns: dict[str, Any] = {}
    for target in wanted:
        matches = [_by_path(table, path) for path in paths.get(target.name, [])]
        used = [column for column in matches if column.null_count < len(column)]
        if len({column.type for column in used}) > 1:
            if target.kind != "number":
                return None
            used = [_cast_number(column) for column in used]
        columns[target.name] = pc.coalesce(*used) if used else None
    try:
        return _table(np.arange(first, first + table.num_rows), columns, wanted)
    except pa.ArrowInvalid:  # a number that is written as text, and is none
        return None


def _cast_number(column: Any) -> Any:
    return column if pa.types.is_float64(column.type) else column.cast(pa.float64())


def parse_lines(chunk: bytes, schema: pa.Schema) -> pa.Table | None:
    """The fields of ``schema`` of one record a line; None where a line is not like that."""
    try:
        table = pa_json.read_json(
            io.BytesIO(chunk),
            # one block: a line longer than a block is an error
            read_options=pa_json.ReadOptions(use_threads=False, block_size=len(chunk) + 1),
            parse_options=pa_json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid:
        return None
    rows = chunk.count(b"\n") + (not chunk.endswith(b"\n"))
    return table if table.num_rows == rows else None


def _by_path(table: Any, path: str) -> Any:
    if path in table.schema.names:
        return table[path]
    first, *below = path.split(".")
    column = table[first] if first in table.schema.names else None
    if column is None:
        return pa.chunked_array([pa.nulls(table.num_rows)])
    for name in below:
        column = pc.struct_field(column, name)
    return column


def _get(record: Any, path: str) -> Any:
    if isinstance(record, dict) and path in record:
        return record[path]
    for name in path.split("."):
        if not isinstance(record, dict):
            return None
        record = record.get(name)
    return record


def _first(record: Any, paths: Sequence[str]) -> Any:
    for path in paths:
        value = _get(record, path)
        if value is not None and not isinstance(value, dict | list):
            return value
    return None


# --- JSON in cells ---------------------------------------------------------------------------


def value_at(record: Any, path: str) -> Any:
    """What stands at a dotted ``path`` of a record; text that holds JSON is looked into."""
    if isinstance(record, str):
        record = opened_text(record)
    if not isinstance(record, dict):
        return None
    if path in record:
        return record[path]
    first, dot, below = path.partition(".")
    return value_at(record.get(first), below) if dot else None


def opened_text(text: str) -> Any:
    """The object that a cell holds as JSON, or as Python writes it; None where it holds none."""
    if text[:1] != "{":
        return None
    if (value := loads(text)) is not None:
        return value
    with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        return ast.literal_eval(text)
    return None


class _JsonCells:
    """Columns of text that hold JSON objects, and the wanted values within them.

    ``outer``: what is to be read of the file, those columns among it.
    """

    def __init__(self, source: Source, wanted: Sequence[Wanted], findings: Findings) -> None:
        self._source, self._wanted, self._findings = source, wanted, findings
        header = {name.strip() for name in source.columns}
        samples = source.sample_rows
        shut = {
            name
            for row in samples
            for name, value in row.items()
            if isinstance(value, str) and value[:1] == "{" and opened_text(value) is not None
        }
        within: dict[str, list[Wanted]] = {}
        self.outer: list[Wanted] = []
        for target in wanted:
            outside: list[str] = []
            inside: dict[str, list[str]] = {}
            for path in target.paths:
                first, dot, below = path.partition(".")
                if dot and first in shut and path not in header:
                    inside.setdefault(first, []).append(below)
                else:
                    outside.append(path)
            self.outer.append(replace(target, paths=tuple(outside)))
            for column, paths in inside.items():
                within.setdefault(column, []).append(replace(target, paths=tuple(paths)))
        self._within = within
        self._schemas: dict[str, tuple[pa.Schema, dict[str, list[str]]]] = {}
        for column, targets in within.items():
            self.outer.append(Wanted(_CELL + column, (column,), "text"))
            texts = (row.get(column) for row in samples)
            opened = [opened_text(text) for text in texts if isinstance(text, str)]
            records = [record for record in opened if isinstance(record, dict)]
            self._schemas[column] = _json_schema(records, targets)

    def opened(self, table: pa.Table) -> pa.Table:
        """``table`` with what stands in the cells, where the row itself does not say it."""
        for column, targets in self._within.items():
            inner = self._values(table, column, targets)
            if inner.num_rows < table.num_rows:  # those that were refused
                table = table.filter(pc.is_in(table["line"], inner["line"].combine_chunks()))
            for target in targets:
                name = target.name
                both = [table[name], inner[name]]
                filled = [values for values in both if values.null_count < len(values)]
                if len({values.type for values in filled}) > 1:
                    filled = [values.cast(pa.string()) for values in filled]
                if filled:
                    at = table.schema.get_field_index(name)
                    table = table.set_column(at, name, pc.coalesce(*filled))
            table = table.drop_columns([_CELL + column])
        return table

    def _values(self, table: pa.Table, column: str, targets: Sequence[Wanted]) -> pa.Table:
        texts = table[_CELL + column].fill_null("{}")
        if texts.num_chunks:
            buffer = "\n".join(texts.to_pylist()).encode("utf-8", "replace")
            fast = _json_fast(*self._schemas[column], targets, buffer, 0)
            if fast is not None and fast.num_rows == table.num_rows:
                return fast.set_column(0, "line", table["line"])
        rows = _Rows(self._source, targets, self._findings)
        for line, text in zip(table["line"].to_pylist(), texts.to_pylist(), strict=True):
            record = opened_text(text)
            rows.add(line, [_first(record, target.paths) for target in targets])
        return rows.table()


_CELL = "cell "
"""Before the name of a column that holds JSON."""


# --- Parquet ---------------------------------------------------------------------------------


def _parquet(
    source: Source, wanted: Sequence[Wanted], findings: Findings, progress: Progress
) -> Iterator[pa.Table]:
    schema = source.parquet_schema
    present: dict[str, str | None] = {}
    for target in wanted:
        given = [path for path in target.paths if _holds(schema, path)]
        filled = [
            path
            for path in given
            if any(_get(row, path) not in (None, "") for row in source.sample_rows)
        ]
        present[target.name] = next(iter(filled or given), None)
    names = schema.names
    tops = sorted(
        {path if path in names else path.split(".")[0] for path in present.values() if path}
    )

    def read(part: tuple[np.ndarray, pa.RecordBatch], own: Findings) -> pa.Table:
        lines, batch = part
        table = pa.Table.from_batches([batch])
        columns: dict[str, Any] = {}
        for target in wanted:
            path = present[target.name]
            columns[target.name] = None if path is None else _by_path(table, path)
        try:
            return _counted(_table(lines, columns, wanted), own)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            # something in the part is odd: read it row by row, which finds out what, and where
            rows = _Rows(source, wanted, own)
            lists = [
                [None] * batch.num_rows if (c := columns[target.name]) is None else c.to_pylist()
                for target in wanted
            ]
            for number, values in zip(lines, zip(*lists, strict=True), strict=True):
                rows.add(int(number), list(values))
            return _counted(rows.table(), own)

    yield from parts_ahead(findings, numbered(source.parquet_batches(tops, progress)), read)


def _holds(schema: pa.Schema, path: str) -> bool:
    """Whether a table has a column, or a field of one, at ``path``, which is no struct or list."""
    first, *below = [path] if path in schema.names else path.split(".")
    at = schema.get_field_index(first)
    kind = schema.field(at).type if at >= 0 else None
    for name in below:
        if kind is None or not pa.types.is_struct(kind):
            return False
        at = kind.get_field_index(name)
        kind = kind.field(at).type if at >= 0 else None
    return kind is not None and not pa.types.is_nested(kind)


def numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    """Batches with the numbers of their rows, from 1."""
    row = 1
    for batch in batches:
        yield np.arange(row, row + batch.num_rows), batch
        row += batch.num_rows


# --- Cells -----------------------------------------------------------------------------------


def _counted(table: pa.Table, own: Findings) -> pa.Table:
    """``table``, once its rows and those that were refused are counted as read."""
    own.rows_read += table.num_rows + own.count("refused")
    return table


def _table(lines: np.ndarray, columns: dict[str, Any], wanted: Sequence[Wanted]) -> pa.Table:
    arrays: dict[str, Any] = {"line": pa.array(lines, pa.int64())}
    for target in wanted:
        column = columns[target.name]
        if column is None:
            kind = pa.string() if target.kind == "text" else pa.float64()
            arrays[target.name] = pa.nulls(len(lines), kind)
        elif target.kind == "text":
            text = column if pa.types.is_string(column.type) else column.cast(pa.string())
            arrays[target.name] = text
        elif target.kind == "number":
            if pa.types.is_boolean(column.type) or pa.types.is_temporal(column.type):
                raise pa.ArrowInvalid(f"{target.name} is no number")
            arrays[target.name] = column.cast(pa.float64(), safe=False)
        else:
            arrays[target.name] = column
    return pa.table(arrays)


class _Rows:
    """Rows gathered cell by cell; a row with a cell of the wrong kind is refused."""

    def __init__(self, source: Source, wanted: Sequence[Wanted], findings: Findings) -> None:
        self._source, self._wanted, self._findings = source, wanted, findings
        self._lines: list[int] = []
        self._cells: list[list[Any]] = [[] for _ in wanted]

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: int, values: Sequence[Any]) -> None:
        cells: list[Any] = []
        for target, value in zip(self._wanted, values, strict=True):
            if target.kind != "number" or value is None:
                cells.append(value)
                continue
            number = _as_number(value)
            if number is None:
                reason = f"{target.label or target.name} is not a number"
                self._findings.add_line("refused", reason, self._source, line)
                return
            cells.append(number)
        self._lines.append(line)
        for column, cell in zip(self._cells, cells, strict=True):
            column.append(cell)

    def table(self) -> pa.Table:
        arrays: dict[str, Any] = {"line": pa.array(self._lines, pa.int64())}
        for target, column in zip(self._wanted, self._cells, strict=True):
            if target.kind == "number":
                arrays[target.name] = pa.array(column, pa.float64())
            elif target.kind == "text":
                texts = [None if cell is None else whole_text(cell) for cell in column]
                arrays[target.name] = pa.array(texts, pa.string())
            else:
                numbers = all(cell is None or isinstance(cell, int | float) for cell in column)
                cast = _as_float if numbers else whole_text
                cells = [None if cell is None else cast(cell) for cell in column]
                arrays[target.name] = pa.array(cells, pa.float64() if numbers else pa.string())
        return pa.table(arrays)


def _as_float(value: float) -> float:
    return float(value) if abs(value) < 1e300 else math.inf


def _as_number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _as_float(value)
    text = str(value).strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    return math.nan if text.lower() == "nan" else None


# --- Times -----------------------------------------------------------------------------------


class _Times:
    """Turns a column of times into epoch seconds, with one unit for the whole file."""

    def __init__(self, source: Source, findings: Findings, timezone: str | None) -> None:
        self._source, self._findings = source, findings
        self._local = None if timezone is None else LocalTimes(timezone)
        self._per_s: float | None = None

    def epoch_s(self, column: Any, lines: Any) -> tuple[np.ndarray, np.ndarray]:
        """Epoch seconds (NaN where empty), and which rows may be kept."""
        n = len(column)
        if n == 0 or column.null_count == n:
            return np.full(n, np.nan), np.ones(n, bool)
        local = np.zeros(n, bool)
        if pa.types.is_timestamp(column.type):
            us = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
            seconds = us.to_pandas().to_numpy(np.float64, na_value=np.nan) / 1e6
            local[:] = column.type.tz is None
        elif pa.types.is_string(column.type):
            seconds, local = self._text(column)
        else:
            seconds = self._number(column.to_pandas().to_numpy(np.float64))
        empty = np.asarray(column.is_null().to_pandas(), bool)
        numbers = lines.to_numpy()
        absent = np.zeros(n, bool)
        if (local & ~empty).any():
            if self._local is None:
                self._findings.guess("times without a zone are UTC; --timezone names another one")
            else:
                rows = np.flatnonzero(local & np.isfinite(seconds))
                seconds[rows] = self._local.epoch_s(seconds[rows])
                absent[rows] = np.isnan(seconds[rows])
                self._findings.guess(f"times without a zone are of {self._local.timezone}")
                reason = f"there is no such time in {self._local.timezone}: clocks go forward then"
                self._findings.add_lines("refused", reason, self._source, numbers[absent])
        good = empty | ((seconds >= FIRST_TIME_S) & (seconds < LAST_TIME_S))
        self._findings.add_lines("refused", NO_DATE, self._source, numbers[~good & ~absent])
        return seconds, good

    def _number(self, values: np.ndarray) -> np.ndarray:
        if self._per_s is None:
            first = values[np.isfinite(values)]
            for per_s, unit in _UNITS:
                if len(first) and FIRST_TIME_S <= first[0] / per_s < LAST_TIME_S:
                    self._per_s = per_s
                    self._findings.guess(f"numbers in the time column are {unit} since 1970 UTC")
                    break
        return values / (self._per_s or 1.0)

    def _text(self, column: Any) -> tuple[np.ndarray, np.ndarray]:
        """Seconds of times as text, and which of them name no zone."""
        texts = column.to_pandas()
        known = texts.dropna()
        if _NUMBER.fullmatch(str(known.iloc[0]).strip()):
            numbers = pd.to_numeric(texts, errors="coerce").to_numpy(np.float64)
            return self._number(numbers), np.zeros(len(texts), bool)
        if known.str.contains("UTC|GMT").any():
            texts = texts.str.replace(_UTC_WORD, "Z", regex=True)
        local = ~texts.str.contains(_ZONE).fillna(True).to_numpy(bool)
        stamps = pd.to_datetime(texts, utc=True, errors="coerce", format="ISO8601")
        us = stamps.to_numpy("datetime64[us]")
        for form in _PORTAL_TIMES if (np.isnat(us) & texts.notna().to_numpy()).any() else ():
            other = pd.to_datetime(texts, utc=True, errors="coerce", format=form)
            us = np.where(np.isnat(us), other.to_numpy("datetime64[us]"), us)
        seconds = us.astype(np.int64) / 1e6
        seconds[np.isnat(us)] = np.nan
        return seconds, local


def epoch_s_of(value: Any) -> float | None:
    """Epoch seconds of one time: ISO text (UTC where no zone is given), or a number."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        value = _as_float(value)
        for per_s, _ in _UNITS:
            if FIRST_TIME_S <= value / per_s < LAST_TIME_S:
                return float(value / per_s)
        return None
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip().replace(" UTC", "Z"))
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
