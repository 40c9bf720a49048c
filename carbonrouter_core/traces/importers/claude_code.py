"""Coding-agent sessions as kv-cache-tester records them: one JSON object a session.

https://github.com/callanjfox/kv-cache-tester (docs/trace_replay_tester.md). Each request lists
the hashes of its 64-token prompt blocks; history is what leads the prompt of the request before
as well. Agents rewrite their context, so that this is often less than all before. A sub-agent
is a session of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from carbonrouter_core.traces.importers.base import Importer, Reading, always, lacks
from carbonrouter_core.traces.importers.batches import Batches
from carbonrouter_core.traces.sources import Source, json_values

DEFAULT_BLOCK_TOKENS = 64
"""Tokens of a hashed block where the file does not say."""


def _recognise(source: Source) -> str | None:
    if lacks(source, "requests", "block_size"):
        return None
    return "its records are sessions with block_size and requests"


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    rows = Batches(source, reading)
    for line, record in json_values(source, rows.broken, reading.progress):
        name = str(record.get("id") or f"session-{source.number}-{line}")
        block = rows.number(line, "block_size", record.get("block_size") or DEFAULT_BLOCK_TOKENS)
        if block is not None:
            yield from _session(rows, reading, line, name, record.get("requests"), block, 0.0)
    yield from rows.rest()


def _session(
    rows: Batches,
    reading: Reading,
    line: int,
    name: str,
    requests: Any,
    block: float,
    offset_s: float,
) -> Iterator[pa.Table]:
    if not isinstance(requests, list) or not requests:
        rows.note(line, "the session has no requests and is left out")
        return
    before: Any = None
    order = agents = 0
    for request in requests:
        if not isinstance(request, dict):
            rows.refuse(line, "a request is not an object")
            continue
        if request.get("type") == "subagent" or "requests" in request:
            agents += 1
            start = request.get("t")
            inner = request.get("requests")
            # some files count a sub-agent's times from its own start, some from the session's;
            # either way only the differences within it are kept
            yield from _session(
                rows, reading, line, f"{name}/agent-{agents}", inner, block, float(start or 0.0)
            )
            continue
        reading.findings.rows_read += 1
        whole = rows.number(line, "in", request.get("in"))
        output = rows.number(line, "out", request.get("out"))
        time_s = rows.number(line, "t", request.get("t"))
        if whole is None or output is None or time_s is None:
            continue
        hashes = request.get("hash_ids") or []
        if not isinstance(hashes, list):
            rows.refuse(line, "hash_ids is not a list")
            continue
        ids = _numbers(hashes)
        common = 0
        if before is not None:
            n = min(len(ids), len(before))
            differ = np.flatnonzero(ids[:n] != before[:n])
            common = int(differ[0]) if len(differ) else n
        before = ids
        model = request.get("model")
        rows.add(
            line=line,
            session=name,
            order=float(order),
            time_s=time_s + offset_s,
            input_tokens=whole,
            history_tokens=min(common * block, whole),
            output_tokens=output,
            served_model=None if model is None else str(model),
        )
        order += 1
        yield from rows.full()


def _numbers(hashes: list[Any]) -> np.ndarray:
    """The hashes in a form in which equal ones are equal numbers."""
    try:
        return np.array(hashes, np.int64).ravel()
    except (ValueError, TypeError, OverflowError):
        return np.array([hash(str(block)) for block in hashes], np.int64)


IMPORTER = Importer(
    id="claude-code",
    label="Coding-agent sessions (kv-cache-tester)",
    sessions="a file or record is a session, a sub-agent one of its own; history is the prompt "
    "blocks shared with the request before",
    recognise=_recognise,
    read=_read,
    times=always("clock"),
)
