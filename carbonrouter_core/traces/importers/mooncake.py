"""Mooncake traces: requests with hashes of their 512-token prompt blocks, without sessions.

https://github.com/kvcache-ai/Mooncake. A request continues the latest earlier one whose full
prompt blocks all lead its own prompt; at least two, since one block (the system prompt) is
shared by strangers. The rule gives the parents of ``mooncake_conversation_sessions.parquet``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from carbonrouter_core.traces.importers.base import Importer, Reading, always, lacks
from carbonrouter_core.traces.importers.batches import Batches
from carbonrouter_core.traces.sources import Source, json_values
from carbonrouter_core.units import MS_PER_S

BLOCK_TOKENS = 512
"""Tokens of one hashed block."""
LEAST_BLOCKS = 2
"""Full blocks two requests must share to be of one session."""


def _recognise(source: Source) -> str | None:
    if lacks(source, "timestamp", "input_length", "output_length", "hash_ids"):
        return None
    if "session_id" in source.columns or "chat_id" in source.columns:
        return None
    return "its records carry hash_ids of prompt blocks and no session"


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    rows = Batches(source, reading)
    # by the hash of its full blocks: session, context and whether it was continued
    heads: dict[bytes, tuple[str, float, list[bool]]] = {}
    for line, record in json_values(source, rows.broken, reading.progress):
        reading.findings.rows_read += 1
        whole = rows.number(line, "input_length", record.get("input_length"))
        output = rows.number(line, "output_length", record.get("output_length"))
        time_ms = rows.number(line, "timestamp", record.get("timestamp"))
        ids = record.get("hash_ids")
        if whole is None or output is None or time_ms is None:
            continue
        if not isinstance(ids, list):
            rows.refuse(line, "hash_ids is not a list")
            continue
        chain = _chain(ids)
        parent = next(
            (
                heads[chain[n - 1]]
                for n in range(len(ids), LEAST_BLOCKS - 1, -1)
                if chain[n - 1] in heads
            ),
            None,
        )
        session, history = f"request-{source.number}-{line}", 0.0
        if parent is not None:
            history = min(parent[1], whole)
            if parent[2][0]:
                rows.note(line, "the request branches off an earlier one: a session of its own")
            else:
                session = parent[0]
            parent[2][0] = True
        full = min(len(ids), int(whole // BLOCK_TOKENS)) if whole >= 0 else 0
        if full >= LEAST_BLOCKS:
            heads[chain[full - 1]] = (session, whole + output, [False])
        rows.add(
            line=line,
            session=session,
            order=time_ms / MS_PER_S,
            time_s=time_ms / MS_PER_S,
            input_tokens=whole,
            history_tokens=history,
            output_tokens=output,
        )
        yield from rows.full()
    yield from rows.rest()


def _chain(ids: list[Any]) -> list[bytes]:
    """A hash of the first 1, 2, ... blocks."""
    digest = hashlib.blake2b(digest_size=12)
    chain = []
    for block in ids:
        digest.update(f"{block},".encode())
        chain.append(digest.digest())
    return chain


IMPORTER = Importer(
    id="mooncake",
    label="Mooncake",
    sessions="sessions are inferred: a request continues the latest one whose full 512-token "
    "prompt blocks (two or more) all lead its own; times are kept within each session",
    recognise=_recognise,
    read=_read,
    times=always("clock"),
)
