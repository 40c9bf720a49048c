"""RAGPulse: a week of requests to a question-answering service with retrieved passages.

https://github.com/flashserve/RAGPulse. A prompt is system prompt, passages, chat history, web
results and question, in this order, each as hash ids without lengths. What leads the prompt and
was there in the request before can be reused; its length is estimated as the share of ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carbonrouter_core.reading.ahead import chunks_ahead
from carbonrouter_core.reading.files import Source, values_of, whole_text
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.reading.int_lists import LIST, parse_with_lists
from carbonrouter_core.traces.importers.base import Importer, Reading, always, lacks
from carbonrouter_core.traces.importers.batches import Batches
from carbonrouter_core.traces.importers.blocks import Latest, block_number, joined_lists

_PARTS = ("sys_prompt", "passages_ids", "history", "web_search", "user_input")
_NUMBERS = ("timestamp", "input_length", "output_length")

Requests = tuple[pa.Table, np.ndarray, np.ndarray]
"""Columns of requests; the hash ids of all, and where those of each begin and end."""


def _recognise(source: Source) -> str | None:
    if lacks(source, "session_id", "hash_ids", "input_length"):
        return None
    ids = source.samples[0].get("hash_ids")
    if not isinstance(ids, dict):
        return None
    return "its records carry session_id and hash ids of prompt parts (sys_prompt, passages_ids)"


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    schema = _schema(source)

    def requests(chunk: tuple[int, bytes], own: Findings) -> Requests:
        fast = _whole_chunk(*chunk, schema)
        if fast is None:
            return _one_by_one(source, own, *chunk)
        own.rows_read += fast[0].num_rows
        return fast

    latest: Latest = reading.memory.setdefault("latest", Latest())
    for table, ids, offsets in chunks_ahead(source, reading.findings, reading.progress, requests):
        # a session that is not named is refused later on; until then it is one
        common = latest.shared(table["session"].fill_null("None"), ids, offsets)
        whole = table["input_tokens"].to_numpy()
        share = np.rint(whole * common / np.maximum(np.diff(offsets), 1))
        yield table.append_column("history_tokens", pa.array(share))
    reading.findings.guess(
        "reusable history is estimated from the share of leading hash ids that the request before "
        "had too; the trace gives no lengths"
    )


def _schema(source: Source) -> pa.Schema:
    """The types under which clean chunks parse: numbers may be written as text."""
    first = source.samples[0] if source.samples else {}
    text = {name: isinstance(first.get(name), str) for name in _NUMBERS}
    return pa.schema(
        [
            *((name, pa.string() if text[name] else pa.float64()) for name in _NUMBERS),
            ("session_id", pa.string()),
            ("hash_ids", pa.struct([(part, LIST) for part in _PARTS])),
        ]
    )


def _whole_chunk(first: int, chunk: bytes, schema: pa.Schema) -> Requests | None:
    """The requests of a chunk in which nothing is out of the ordinary."""
    parsed = parse_with_lists(chunk, schema)
    if parsed is None:
        return None
    table, lists = parsed
    try:
        numbers = [table[name].cast(pa.float64()) for name in _NUMBERS]
    except pa.ArrowInvalid:
        return None
    parts = table["hash_ids"]
    if parts.null_count or any(
        column.null_count or not pc.all(pc.is_finite(column)).as_py() for column in numbers
    ):
        return None
    spans = [lists.of(pc.struct_field(parts, [part])) for part in _PARTS]
    if any(span is None for span in spans):
        return None
    begins, ends = (np.stack(side, axis=1) for side in zip(*spans, strict=True))
    rows = np.arange(first, first + table.num_rows)
    return _table(rows, table["session_id"], *numbers), *joined_lists(lists.numbers, begins, ends)


def _one_by_one(source: Source, own: Findings, first: int, chunk: bytes) -> Requests:
    """The same, of records of any types; those that are wrong are refused."""
    rows = Batches(source, own)
    found: list[tuple[Any, ...]] = []
    ids: list[int] = []
    offsets = [0]
    for line, record in values_of(first, chunk, rows.broken):
        own.rows_read += 1
        parts = record.get("hash_ids")
        lists = [parts.get(name) or [] for name in _PARTS] if isinstance(parts, dict) else []
        if not lists or not all(isinstance(part, list) for part in lists):
            rows.refuse(line, "hash_ids does not hold lists of prompt parts")
            continue
        whole = rows.number(line, "input_length", record.get("input_length"))
        output = rows.number(line, "output_length", record.get("output_length"))
        time_s = rows.number(line, "timestamp", record.get("timestamp"))
        if whole is None or output is None or time_s is None:
            continue
        session = record.get("session_id")
        found.append(
            (line, None if session is None else whole_text(session), time_s, whole, output)
        )
        ids += [block_number(item) for part in lists for item in part]
        offsets.append(len(ids))
    columns = zip(*found, strict=True) if found else [[]] * 5
    return _table(*columns), np.array(ids, np.int64), np.array(offsets, np.int64)


def _table(lines: Any, sessions: Any, time_s: Any, whole: Any, output: Any) -> pa.Table:
    schema = pa.schema(
        [
            ("line", pa.int64()),
            ("session", pa.string()),
            ("time_s", pa.float64()),
            ("input_tokens", pa.float64()),
            ("output_tokens", pa.float64()),
        ]
    )
    table = pa.table([lines, sessions, time_s, whole, output], schema=schema)
    return table.append_column("order", table["time_s"])


IMPORTER = Importer(
    id="ragpulse",
    label="RAGPulse",
    sessions="sessions are as session_id says; times count from the trace's start and are kept "
    "within each session",
    recognise=_recognise,
    read=_read,
    times=always("clock"),
)
