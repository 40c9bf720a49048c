"""RAGPulse: a week of requests to a question-answering service with retrieved passages.

https://github.com/flashserve/RAGPulse. A prompt is system prompt, passages, chat history, web
results and question, in this order, each as hash ids without lengths. What leads the prompt and
was there in the request before can be reused; its length is estimated as the share of ids.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from carbonrouter_core.traces.importers.base import Importer, Reading, always, lacks
from carbonrouter_core.traces.importers.batches import Batches
from carbonrouter_core.traces.sources import Source, json_values

_PARTS = ("sys_prompt", "passages_ids", "history", "web_search", "user_input")


def _recognise(source: Source) -> str | None:
    if lacks(source, "session_id", "hash_ids", "input_length"):
        return None
    ids = source.samples[0].get("hash_ids")
    if not isinstance(ids, dict):
        return None
    return "its records carry session_id and hash ids of prompt parts (sys_prompt, passages_ids)"


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    rows = Batches(source, reading)
    before: dict[str, Sequence[Any]] = reading.memory
    for line, record in json_values(source, rows.broken, reading.progress):
        reading.findings.rows_read += 1
        parts = record.get("hash_ids")
        lists = [parts.get(name) or [] for name in _PARTS] if isinstance(parts, dict) else []
        if not lists or not all(isinstance(part, list) for part in lists):
            rows.refuse(line, "hash_ids does not hold lists of prompt parts")
            continue
        ids = [item for part in lists for item in part]
        session = record.get("session_id")
        whole = rows.number(line, "input_length", record.get("input_length"))
        output = rows.number(line, "output_length", record.get("output_length"))
        time_s = rows.number(line, "timestamp", record.get("timestamp"))
        if whole is None or output is None or time_s is None:
            continue
        last = before.get(str(session), ())
        common = _common(ids, last)
        before[str(session)] = _packed(ids)
        rows.add(
            line=line,
            session=None if session is None else str(session),
            order=time_s,
            time_s=time_s,
            input_tokens=whole,
            history_tokens=float(round(whole * common / len(ids))) if ids else 0.0,
            output_tokens=output,
        )
        yield from rows.full()
    reading.findings.guess(
        "reusable history is estimated from the share of leading hash ids that the request before "
        "had too; the trace gives no lengths"
    )
    yield from rows.rest()


def _packed(ids: list[Any]) -> Sequence[Any]:
    """Ids in a quarter of the memory, where they are numbers."""
    try:
        return array("q", ids)
    except (TypeError, OverflowError):
        return ids


def _common(ids: Sequence[Any], before: Sequence[Any]) -> int:
    """How many leading ids are the same."""
    common = 0
    for mine, theirs in zip(ids, before, strict=False):
        if mine != theirs:
            break
        common += 1
    return common


IMPORTER = Importer(
    id="ragpulse",
    label="RAGPulse",
    sessions="sessions are as session_id says; times count from the trace's start and are kept "
    "within each session",
    recognise=_recognise,
    read=_read,
    times=always("clock"),
)
