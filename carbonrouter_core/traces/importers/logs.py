"""Logs of inference services: a request a record, with its counts of prompt and output tokens.

A prompt holds the whole history of its conversation. What a format calls its fields is listed in
:mod:`.log_formats`; this reads any of them, from JSON, CSV and Parquet alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carbonrouter_core.reading.columns import ColumnKind, Wanted, opened_text, value_at
from carbonrouter_core.reading.files import Source
from carbonrouter_core.traces.importers import not_inference
from carbonrouter_core.traces.importers.base import Importer, Reading, Times
from carbonrouter_core.traces.importers.log_formats import COMMON, LOG_FORMATS, LogFormat
from carbonrouter_core.traces.importers.prompt_counts import (
    EXCLUDED_NAMES,
    INCLUDED_NAMES,
    UNCLEAR_NAMES,
    whole_counts,
)

_TEXTS = frozenset(
    {"session", "ident", "before", "served_model", "served_region", "user_region", "only"}
)
_WRAPPERS = 2
"""Objects that a record may be wrapped in."""
MOST_NAMES = 500
"""Names of a record that are looked at: one with more holds data under names of its own."""
_EPOCH_S = 9e8
"""A time that is a number below this counts from a start: it would be a date before 1998."""
NOT_A_CALL = "{}: no inference"
REPEATED = "the request is one of another session, which this one repeats"


# --- Where the values stand ------------------------------------------------------------------


class Layout:
    """Where the values of a format stand in a file.

    ``below``: paths of the objects that wrap a record, each with a dot at its end, the record
    itself (an empty text) last.
    """

    def __init__(self, form: LogFormat, source: Source, below: str = "") -> None:
        self._source = source
        self._alike = _names_alike(source)
        self._below = (below, "") if below else ("",)
        self._form = form

    def paths(self, column: str) -> tuple[str, ...]:
        """Where a column of the format may stand."""
        return self.spelled(self._form.paths(column))

    def spelled(self, paths: tuple[str, ...]) -> tuple[str, ...]:
        """``paths`` as the file spells them, each below what wraps a record as well."""
        spelled: dict[str, None] = {}
        for path in paths:
            for below in self._below:
                spelled[below + path] = None
                spelled.update(dict.fromkeys(self._alike.get(_plain(below + path), ())))
        return tuple(spelled)

    def wanted(self) -> list[Wanted]:
        """All columns to be read."""
        wanted = []
        for column in COMMON:
            kind: ColumnKind = "text" if column in _TEXTS else "number"
            if column == "time_s" and self.times == "start_utc":
                kind = "time"
            wanted.append(Wanted(column, self.paths(column), kind))
        for more in not_inference.COLUMNS:
            wanted.append(Wanted(more.name, self.spelled(more.paths), more.kind))
        if self._form.only is not None:
            wanted.append(Wanted("only", self.spelled(self._form.only[0]), "text"))
        if self._form.apart:
            wanted.append(Wanted("apart", self.spelled(self._form.apart), "text"))
        return wanted

    @property
    def times(self) -> Times:
        """What the times are: dates, or numbers that count from a start."""
        for record in self._source.sample_rows:
            for path in self.paths("time_s"):
                value = value_at(record, path)
                if value is None or value == "" or isinstance(value, dict | list):
                    continue
                try:
                    return "start_s" if float(value) < _EPOCH_S else "start_utc"
                except (TypeError, ValueError):
                    return "start_utc"
        return self._form.times


def layout_of(form: LogFormat, source: Source) -> tuple[Layout, tuple[str, ...]] | None:
    """Where a format stands in a file, and the sign that tells it; None for another format."""
    records = source.sample_rows
    plain = Layout(form, source)
    names = set(source.columns)
    for sign in form.signs:
        ways = [plain.spelled((path,)) for path in sign]
        if source.kind == "csv" and all(names.intersection(way) for way in ways):
            return plain, sign
        if _stand_in(ways, records):
            return plain, sign
    for below in _wrappers(records):
        layout = Layout(form, source, below)
        for sign in form.signs:
            if _stand_in([layout.spelled((path,)) for path in sign], records):
                return layout, tuple(below + path for path in sign)
    return None


def _stand_in(ways: list[tuple[str, ...]], records: list[dict[str, Any]]) -> bool:
    """Whether some record holds one path of each of ``ways``."""
    return any(
        all(any(value_at(record, path) is not None for path in way) for way in ways)
        for record in records
    )


def _wrappers(records: list[dict[str, Any]]) -> list[str]:
    """Paths of the objects within the first records, each with a dot at its end."""
    below: dict[str, None] = {}
    for record in records:
        for path, value in islice(_objects(record, "", _WRAPPERS), MOST_NAMES):
            if value:
                below[path] = None
    return sorted(below, key=lambda path: path.count("."))


def _objects(record: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """The objects within a record, with their paths; those in cells of text among them."""
    if not isinstance(record, dict) or not depth:
        return
    for name in record:
        value = value_at(record, name)
        if isinstance(value, str) and value[:1] == "{":
            value = opened_text(value)
        if isinstance(value, dict):
            yield f"{path}{name}.", value
            yield from _objects(value, f"{path}{name}.", depth - 1)


def names_of(source: Source) -> list[str]:
    """The columns of a table, or the paths of the values in the first records of JSON."""
    flat = source.kind == "csv"
    names = dict.fromkeys(name.strip() for name in source.columns if flat)
    for record in source.sample_rows:
        names.update(dict.fromkeys(islice(_leaves(record, "", 5), MOST_NAMES)))
    return list(names)


def _names_alike(source: Source) -> dict[str, list[str]]:
    """The paths of a file by what is left of them without case, dots, dashes and blanks."""
    alike: dict[str, list[str]] = {}
    for name in source.columns:
        alike.setdefault(_plain(name), []).append(name)
    for record in source.sample_rows:
        for path in islice(_leaves(record, "", 5), MOST_NAMES):
            ways = alike.setdefault(_plain(path), [])
            if path not in ways:
                ways.append(path)
    return alike


def _leaves(record: Any, path: str, depth: int) -> Iterator[str]:
    if isinstance(record, str):
        record = opened_text(record)
    if not isinstance(record, dict) or not depth:
        return
    for name, value in record.items():
        yield path + name
        yield from _leaves(value, f"{path}{name}.", depth - 1)


def _plain(path: str) -> str:
    return re.sub(r"[^a-z0-9]", "", path.lower())


# --- Rows ------------------------------------------------------------------------------------


def _recognise(form: LogFormat, source: Source) -> str | None:
    found = layout_of(form, source)
    if found is None:
        return None
    sign = found[1]
    if source.kind == "csv":
        return f"it has columns {' and '.join(sign)}, one request a row"
    return f"its records carry {' and '.join(sign)}"


def _layout(form: LogFormat, source: Source) -> Layout:
    found = layout_of(form, source)
    return Layout(form, source) if found is None else found[0]


def _times(form: LogFormat, source: Source) -> Times:
    return _layout(form, source).times


def _read(form: LogFormat, source: Source, reading: Reading) -> Iterator[pa.Table]:
    for table in reading.columns(source, _layout(form, source).wanted()):
        yield requests(form, table, source, reading)


def requests(form: LogFormat, table: pa.Table, source: Source, reading: Reading) -> pa.Table:
    """The calls of a model as turns, from a table with the columns of :data:`COMMON`, those of
    :data:`.not_inference.COLUMNS` and, where the format has it, ``only``."""
    table = _apart(form, _calls_only(form, table, source, reading))
    if form.repeats:
        table = _once(table, source, reading)
    prompt, other = table["prompt"], table["input"]
    by_input = prompt.null_count == table.num_rows and other.null_count < table.num_rows
    name = reading.names.get("input" if by_input else "prompt", "input_tokens")
    reading.names["input_tokens"] = name
    cached = pc.coalesce(table["cached_tokens_observed"], table["cache_read"])
    named = pa.array(_named(form, table))
    table = _set(table, "cached_tokens_observed", cached)
    table = table.append_column("input_tokens", pc.coalesce(prompt, other))
    table = table.append_column("named", named).drop_columns(["prompt", "input", "cache_read"])
    if form.reasoning_apart:
        table = _with_reasoning(table)
    table = not_inference.inference_only(table, source, reading)
    if form.no_output_fails:
        none = pc.equal(table["output_tokens"], 0).fill_null(False)
        table = _left_out(table, none, not_inference.FAILED, source, reading)
    table = whole_counts(table, reading, table["named"].to_numpy()).drop_columns(["named"])
    return _with_sessions(table, source, reading).append_column("order", table["time_s"])


def _calls_only(form: LogFormat, table: pa.Table, source: Source, reading: Reading) -> pa.Table:
    """The rows that are calls of a model, by what the format says of their kind."""
    if form.only is None:
        return table
    _, values, what = form.only
    other = pc.invert(pc.match_substring_regex(table["only"], values)).fill_null(False)
    table = _left_out(table, other, NOT_A_CALL.format(what), source, reading)
    return table.drop_columns(["only"])


def _apart(form: LogFormat, table: pa.Table) -> pa.Table:
    """The rows, those of sub-agents with sessions of their own."""
    if not form.apart:
        return table
    none = pc.match_substring_regex(table["apart"], r"(?i)^(|false|null)$").fill_null(True)
    agent = pc.if_else(pc.equal(table["apart"], "true"), "sidechain", table["apart"])
    inner = pc.binary_join_element_wise(table["session"], agent, "/")
    session = pc.if_else(none, table["session"], inner)
    return _set(table, "session", session).drop_columns(["apart"])


def _once(table: pa.Table, source: Source, reading: Reading) -> pa.Table:
    """The rows without the requests of other sessions, which a session repeats."""
    sessions: dict[str, str | None] = reading.memory.setdefault("session of request", {})
    both = zip(table["ident"].to_pylist(), table["session"].to_pylist(), strict=True)
    again = [
        ident is not None and sessions.setdefault(ident, session) != session
        for ident, session in both
    ]
    return _left_out(table, pa.array(again, pa.bool_()), REPEATED, source, reading)


def _left_out(
    table: pa.Table, which: Any, reason: str, source: Source, reading: Reading
) -> pa.Table:
    rows = np.asarray(which.to_numpy(zero_copy_only=False), bool)
    if not rows.any():
        return table
    lines = table["line"].to_numpy()
    reading.findings.add_lines("left out", reason, source, lines[rows])
    return table.filter(pa.array(~rows))


def _with_reasoning(table: pa.Table) -> pa.Table:
    """The outputs with the reasoning that the format counts apart from them."""
    output, reasoning = table["output_tokens"], table["reasoning_tokens"]
    both = pc.add(output.fill_null(0.0), reasoning.fill_null(0.0))
    given = pc.or_(output.is_valid(), reasoning.is_valid())
    return _set(table, "output_tokens", pc.if_else(given, both, output))


def _named(form: LogFormat, table: pa.Table) -> np.ndarray:
    """What the names of the fields say of cached tokens in the prompt count, of each row."""
    if form.cached is not None:
        code = EXCLUDED_NAMES if form.cached == "excluded" else INCLUDED_NAMES
        return np.full(table.num_rows, code, np.int8)
    read, written = table["cache_read"], table["cache_written_tokens"]
    named = np.full(table.num_rows, INCLUDED_NAMES, np.int8)
    if read.null_count == written.null_count == table.num_rows:
        return named
    beside = pc.or_(read.is_valid(), written.is_valid()).to_numpy()
    inside = table["cached_tokens_observed"].is_valid().to_numpy()
    anthropic = beside & table["input"].is_valid().to_numpy() & ~inside
    named[beside] = UNCLEAR_NAMES
    named[anthropic] = EXCLUDED_NAMES
    return named


def _set(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)


# --- Sessions --------------------------------------------------------------------------------


def _with_sessions(table: pa.Table, source: Source, reading: Reading) -> pa.Table:
    """The rows with a session each, where the log names none as well."""
    if table["before"].null_count < table.num_rows or "chain" in reading.memory:
        table = _set_session(table, _chained(table, reading.memory.setdefault("chain", {})))
    table = table.drop_columns(["before"])
    alone = table["session"].is_null()
    if not pc.any(alone).as_py():
        return table
    lines = table["line"].to_numpy()
    reading.findings.add_lines(
        "note",
        "the record names no session: the request is a session of its own",
        source,
        lines[alone.to_numpy()],
    )
    by_line = pa.array(np.char.add(f"request-{source.number}-", lines.astype(str)))
    # lines with the same id and prompt are one request
    prompt = table["input_tokens"].fill_null(0.0).cast(pa.string())
    by_id = pc.binary_join_element_wise("request", table["ident"], prompt, "-")
    return _set_session(table, pc.coalesce(table["session"], by_id, by_line))


def _chained(table: pa.Table, session_of: dict[str, str]) -> pa.Array:
    """Sessions by the response that each request follows; ``session_of``: by response."""
    sessions: list[str | None] = []
    rows = (table[name].to_pylist() for name in ("session", "ident", "before"))
    for named, ident, before in zip(*rows, strict=True):
        session = named or session_of.get(before)
        if session is None and ident is not None:
            session = f"conversation-{ident}"
        if ident is not None and session is not None:
            session_of[ident] = session
        sessions.append(session)
    return pa.array(sessions, pa.string())


def _set_session(table: pa.Table, sessions: pa.Array) -> pa.Table:
    return _set(table, "session", sessions)


def importer_of(form: LogFormat) -> Importer:
    """The importer of a format of the list."""
    return Importer(
        id=form.id,
        label=form.label,
        sessions="turns of a session are in order of time; a prompt begins with all of the turn "
        "before",
        recognise=partial(_recognise, form),
        read=partial(_read, form),
        times=partial(_times, form),
        infers_contexts=True,
    )


IMPORTERS = tuple(importer_of(form) for form in LOG_FORMATS)
