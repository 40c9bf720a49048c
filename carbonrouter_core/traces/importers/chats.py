"""What WildChat and LMSYS-Chat-1M have in common: a record a conversation, roles and content."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from carbonrouter_core.errors import TraceError
from carbonrouter_core.traces.columns import epoch_s_of
from carbonrouter_core.traces.conversations import (
    ASSUMED_GAP_S,
    Message,
    TextTurn,
    known_role,
    turns_of,
)
from carbonrouter_core.traces.importers.base import Reading
from carbonrouter_core.traces.importers.batches import Batches
from carbonrouter_core.traces.sources import Source, json_values
from carbonrouter_core.traces.tokens import token_counter


def has_chat(source: Source, key: str) -> bool:
    """Whether the records have ``key`` and a conversation of roles and content."""
    if source.kind == "csv" or not {key, "conversation"} <= set(source.columns):
        return False
    messages = source.samples[0].get("conversation") if source.samples else None
    return isinstance(messages, list) and (not messages or "role" in messages[0])


def records(source: Source, rows: Batches, reading: Reading) -> Iterator[tuple[int, Any]]:
    """Records of a JSON or Parquet file, with their line or row."""
    if source.kind != "parquet":
        yield from json_values(source, rows.broken, reading.progress)
        return
    row = 0
    columns: list[str] = [
        name
        for name in ("conversation_hash", "conversation_id", "model", "timestamp", "conversation")
        if name in source.columns
    ]
    for batch in source.parquet_batches(columns, reading.progress):
        for start in range(0, batch.num_rows, 256):  # the text of few records at a time
            for record in batch.slice(start, 256).to_pylist():
                row += 1
                yield row, record


def read_chats(source: Source, reading: Reading, key: str, timed: bool) -> Iterator[pa.Table]:
    """Turns of the conversations named by ``key``; ``timed``: their messages may have times."""
    if source.kind == "csv":
        raise TraceError(f"{source.name}: conversations cannot be read from CSV.")
    rows = Batches(source, reading)
    reading.findings.guess(token_counter().how)
    for line, record in records(source, rows, reading):
        reading.findings.rows_read += 1
        messages = record.get("conversation")
        if not isinstance(messages, list):
            rows.refuse(line, "conversation is not a list of messages")
            continue
        said = []
        for message in messages:
            if not isinstance(message, dict) or not known_role(message.get("role")):
                rows.repaired(line, "a message without a known speaker is left out")
                continue
            text = message.get("content")
            said.append(
                Message(
                    str(message["role"]).lower(),
                    text if isinstance(text, str) else "",
                    epoch_s_of(message.get("timestamp")) if timed else None,
                )
            )
        name = record.get(key)
        model = record.get("model")
        turns = list(turns_of(said))
        if not turns:
            rows.note(line, "the conversation has no answered prompt and is left out")
        start_s = epoch_s_of(record.get("timestamp")) if timed else None
        times = _times(rows, line, turns, start_s) if timed else [None] * len(turns)
        for number, (turn, time_s) in enumerate(zip(turns, times, strict=True)):
            rows.add(
                line=line,
                session=None if name is None else str(name),
                order=float(number),
                time_s=time_s,
                new_prompt_tokens=float(turn.new_prompt_tokens),
                output_tokens=float(turn.output_tokens),
                served_model=None if model is None else str(model),
                difficulty=turn.difficulty,
            )
        yield from rows.full()
    yield from rows.rest()


def _times(
    rows: Batches, line: int, turns: list[TextTurn], start_s: float | None
) -> list[float | None]:
    """A time for each turn: its message's, the conversation's for the first, or assumed."""
    times: list[float | None] = []
    for i, turn in enumerate(turns):
        if turn.time_s is not None:
            times.append(turn.time_s)
        elif i == 0:
            times.append(start_s)
        else:
            before = times[-1]
            times.append(None if before is None else before + ASSUMED_GAP_S)
            reason = f"the message has no time: taken {ASSUMED_GAP_S:.0f} s after the one before"
            rows.repaired(line, reason)
    return times
