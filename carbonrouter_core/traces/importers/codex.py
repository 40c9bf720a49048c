"""Session files of the Codex command line: events, a line each, of one session a file.

After each call of the model an event ``token_count`` says what it took. The session and its model
stand in lines of their own (https://github.com/openai/codex). The same event may come twice; the
sums since the start tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from carbonrouter_core.reading.columns import epoch_s_of
from carbonrouter_core.reading.files import Source, loads, record_chunks, whole_text
from carbonrouter_core.traces.importers.base import Importer, Reading, always

_LINES = (b"token_count", b"session_meta", b"turn_context", b"compacted")
"""What stands in the lines that are looked into."""
_COUNTS = {
    "input_tokens": "input_tokens",
    "cached_tokens_observed": "cached_input_tokens",
    "output_tokens": "output_tokens",
    "reasoning_tokens": "reasoning_output_tokens",
}
_TYPES = {"line": pa.int64(), "session": pa.string(), "served_model": pa.string()} | {
    name: pa.float64() for name in ("time_s", "order", "history_tokens", *_COUNTS)
}


def _recognise(source: Source) -> str | None:
    for record in source.samples if source.kind == "jsonl" else ():
        payload = record.get("payload")
        if not isinstance(payload, dict):
            continue
        if record.get("type") == "session_meta" or payload.get("type") == "token_count":
            return "its records are events of a session of Codex"
    return None


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    session, model = f"session-{source.name}", None
    total: Any = None
    before = dict.fromkeys(_COUNTS.values(), 0.0)
    rewritten = False
    broken = partial(reading.findings.unreadable, source)
    for first, chunk in record_chunks(source, broken, reading.progress):
        rows: list[dict[str, Any]] = []
        for line, text in enumerate(chunk.split(b"\n"), start=first):
            if not any(name in text for name in _LINES):
                continue
            record = loads(text)
            if not isinstance(record, dict):
                broken(line, "this is not a JSON object")
                continue
            payload = record.get("payload")
            payload = payload if isinstance(payload, dict) else {}
            kind = record.get("type")
            if kind == "session_meta" and payload.get("id") is not None:
                session = whole_text(payload["id"])
            elif kind == "turn_context" and payload.get("model") is not None:
                model = whole_text(payload["model"])
            elif kind == "compacted":
                rewritten = True
            info = payload.get("info")
            if payload.get("type") != "token_count" or not isinstance(info, dict):
                continue
            reading.findings.rows_read += 1
            sums, last = info.get("total_token_usage"), info.get("last_token_usage")
            if sums is not None and sums == total:
                continue  # said again
            total = sums
            counts = _numbers(last) if isinstance(last, dict) else _difference(sums, before)
            before = _numbers(sums) if isinstance(sums, dict) else before
            time_s = epoch_s_of(record.get("timestamp"))
            row: dict[str, Any] = {name: counts.get(key) for name, key in _COUNTS.items()}
            row |= {"line": line, "session": session, "served_model": model}
            row |= {"time_s": time_s, "order": time_s}
            if rewritten:  # a summary takes the place of what was before
                row["history_tokens"] = row["cached_tokens_observed"] or 0.0
                rewritten = False
            rows.append(row)
        yield pa.Table.from_pylist(rows, schema=pa.schema(list(_TYPES.items())))


def _numbers(counts: dict[str, Any]) -> dict[str, float]:
    numbers = {}
    for name in _COUNTS.values():
        value = counts.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
            numbers[name] = float(value)
    return numbers


def _difference(sums: Any, before: dict[str, float]) -> dict[str, float]:
    """What the last call took, from the sums since the start."""
    given = _numbers(sums) if isinstance(sums, dict) else {}
    return {name: value - before.get(name, 0.0) for name, value in given.items()}


IMPORTER = Importer(
    id="codex-session",
    label="Codex sessions",
    sessions="a file is a session; a prompt begins with all of the turn before",
    recognise=_recognise,
    read=_read,
    times=always("start_utc"),
    infers_contexts=True,
)
