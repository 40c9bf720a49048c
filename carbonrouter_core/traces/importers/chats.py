"""What the formats with text have in common: a record a conversation, with roles and words.

ShareGPT, WildChat and LMSYS-Chat-1M differ in the names of their fields. Whatever file they come
in, chunks of records become tables of :data:`CHAT`, whole columns at a time where a chunk is
clean, record by record where it is not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from carbonrouter_core.reading.ahead import chunks_ahead, parts_ahead
from carbonrouter_core.reading.columns import (
    FIRST_TIME_S,
    LAST_TIME_S,
    NO_DATE,
    epoch_s_of,
    numbered,
    parse_lines,
)
from carbonrouter_core.reading.files import Source, values_of
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.traces.conversations import (
    ASSUMED_GAP_S,
    MESSAGE,
    USAGE,
    Messages,
    TextTurns,
    assume_times,
    turns_of,
)
from carbonrouter_core.traces.importers.base import Importer, Reading, always
from carbonrouter_core.traces.importers.content import text_of
from carbonrouter_core.traces.tokens import token_counter

Result = TypeVar("Result")

PARQUET_RECORDS = 4096
"""Conversations of a Parquet file read at a time: their text takes memory."""

CHAT = pa.schema(
    [
        ("line", pa.int64()),
        ("name", pa.string()),
        ("model", pa.string()),
        ("time_s", pa.float64()),
        ("messages", pa.list_(MESSAGE)),
    ]
)
"""A conversation: where it stands, whose it is, who answered, when, and what was said."""


_DETAILS = (
    ("prompt_tokens_details", "cached_tokens"),
    ("completion_tokens_details", "reasoning_tokens"),
)
_USAGE = pa.struct(
    [
        ("prompt_tokens", pa.float64()),
        ("completion_tokens", pa.float64()),
        *((group, pa.struct([(name, pa.float64())])) for group, name in _DETAILS),
    ]
)
_USAGE_PATHS = (("prompt_tokens",), ("completion_tokens",), *_DETAILS)
"""Where the counts of :data:`USAGE` stand in the usage of an answer."""
_CALLS = (b'"tool_calls"', b'"function_call"')
"""What stands in a chunk of which the fast way would leave out text."""


@dataclass(frozen=True)
class Fields:
    """The names of a format's fields; those of one message are ``role``, ``text``, ``time``."""

    name: str
    messages: str
    role: str
    text: str
    timed: bool

    def recognises(self, source: Source) -> bool:
        """Whether some of the first records hold messages of this kind."""
        if source.kind == "csv" or self.messages not in source.columns:
            return False
        said = [record.get(self.messages) for record in source.samples]
        lists = [messages for messages in said if isinstance(messages, list)]
        first = next((messages[0] for messages in lists if messages), None)
        return bool(lists) and (first is None or (isinstance(first, dict) and self.role in first))

    def schema(self, source: Source) -> pa.Schema:
        """The fields as they stand in a file."""
        time = [("timestamp", pa.string())] if self.timed else []
        usage = [("usage", _USAGE)] if self.has_usage(source) else []
        message = pa.struct([(self.role, pa.string()), (self.text, pa.string()), *time, *usage])
        return pa.schema(
            [
                (self.name, pa.string()),
                ("model", pa.string()),
                *time,
                (self.messages, pa.list_(message)),
            ]
        )

    def has_usage(self, source: Source) -> bool:
        """Whether answers of the first records carry what the server counted for them."""
        said = (record.get(self.messages) for record in source.samples)
        return any(
            isinstance(message, dict) and isinstance(message.get("usage"), dict)
            for messages in said
            if isinstance(messages, list)
            for message in messages
        )


def importer(
    format_id: str, label: str, fields: Fields, *, record_is_session: bool = False
) -> Importer:
    """The importer of a format whose records are whole conversations."""

    def recognise(source: Source) -> str | None:
        if fields.name not in source.columns or not fields.recognises(source):
            return None
        return f"its records carry {fields.name} and a conversation of roles and content"

    def read(source: Source, reading: Reading) -> Iterator[pa.Table]:
        def turns(chats: pa.Table, own: Findings) -> list[pa.Table]:
            return list(turn_tables(source, own, chats, fields.timed))

        for tables in read_chats(source, reading, fields, turns):
            yield from tables

    return Importer(
        id=format_id,
        label=label,
        sessions="a record is a session; prompts without an answer are no turns; the text is not "
        "stored",
        recognise=recognise,
        read=read,
        times=always("start_utc" if fields.timed else "none"),
        turn_is_key=True,
        record_is_session=record_is_session,
    )


# --- Records ---------------------------------------------------------------------------------


def read_chats(
    source: Source,
    reading: Reading,
    fields: Fields,
    then: Callable[[pa.Table, Findings], Result],
) -> Iterator[Result]:
    """What ``then`` makes of tables of :data:`CHAT`, in the thread that read them.

    Records without a list of messages are refused.
    """
    if source.kind == "csv":
        raise source.error("conversations cannot be read from CSV.")
    reading.findings.guess(token_counter().how)
    schema = fields.schema(source)
    if fields.timed:
        reading.findings.guess(
            "a turn's time is that of its prompt, else of its answer; a record's time is that of "
            "its last turn"
        )

    def checked(table: pa.Table, own: Findings) -> Result:
        own.rows_read += table.num_rows
        none = table["messages"].is_null().to_numpy()
        if none.any():
            lines = table["line"].to_numpy()[none]
            own.add_lines("refused", f"{fields.messages} is not a list of messages", source, lines)
            table = table.filter(pa.array(~none))
        return then(table, own)

    if source.kind != "parquet":

        def read(chunk: tuple[int, bytes], own: Findings) -> Result:
            return checked(_json(source, own, fields, schema, *chunk), own)

        yield from chunks_ahead(source, reading.findings, reading.progress, read)
        return
    columns = [name for name in schema.names if name in source.columns]
    batches = source.parquet_batches(columns, reading.progress, PARQUET_RECORDS)

    def read_rows(part: tuple[np.ndarray, pa.RecordBatch], own: Findings) -> Result:
        return checked(_parquet(source, own, fields, *part), own)

    yield from parts_ahead(reading.findings, numbered(batches), read_rows)


def _json(
    source: Source, own: Findings, fields: Fields, schema: pa.Schema, first: int, chunk: bytes
) -> pa.Table:
    parsed = None
    if not any(name in chunk for name in _CALLS):
        parsed = parse_lines(chunk, schema)
    if parsed is not None:
        return _chats(parsed, np.arange(first, first + parsed.num_rows), fields)
    values = list(values_of(first, chunk, partial(own.unreadable, source)))
    lines, records = [line for line, _ in values], [value for _, value in values]
    return _one_by_one(source, own, fields, lines, records)


def _parquet(
    source: Source, own: Findings, fields: Fields, lines: np.ndarray, batch: pa.RecordBatch
) -> pa.Table:
    try:
        return _chats(pa.Table.from_batches([batch]), lines, fields)
    except (pa.ArrowException, KeyError):
        return _one_by_one(source, own, fields, lines.tolist(), batch.to_pylist())


def _chats(table: pa.Table, lines: np.ndarray, fields: Fields) -> pa.Table:
    """The records of a table with the columns of ``fields``, where they have the right types."""

    def column(name: str) -> Any:
        if name not in table.schema.names:
            return pa.nulls(table.num_rows, pa.string())
        return table[name].combine_chunks()

    lists = column(fields.messages)
    if isinstance(lists, pa.ChunkedArray):  # an empty table
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], lists.type)
    flat, names = lists.flatten(), [field.name for field in lists.type.value_type]
    time_s = pa.nulls(len(flat), pa.float64())
    if fields.timed and "timestamp" in names:
        time_s = _seconds(pc.struct_field(flat, "timestamp"))
    if any(
        name in names and pc.struct_field(flat, name).null_count < len(flat)
        for name in ("tool_calls", "function_call")
    ):
        raise KeyError("calls of tools are read record by record")
    messages = pa.StructArray.from_arrays(
        [
            pc.struct_field(flat, fields.role).cast(pa.string()),
            pc.struct_field(flat, fields.text).cast(pa.string()),
            time_s,
            *_usage_columns(flat, names),
        ],
        fields=list(MESSAGE),
    )
    lengths = pc.list_value_length(lists)
    starts = np.r_[0, np.cumsum(lengths.fill_null(0).to_numpy())]
    # where a list begins at no place, there is none
    null = np.r_[lists.is_null().to_numpy(zero_copy_only=False), False]
    conversations = pa.ListArray.from_arrays(pa.array(starts, pa.int32(), mask=null), messages)
    return pa.table(
        [
            pa.array(lines),
            column(fields.name).cast(pa.string()),
            column("model").cast(pa.string()),
            _seconds(column("timestamp")) if fields.timed else pa.nulls(len(lines), pa.float64()),
            conversations,
        ],
        schema=CHAT,
    )


def _usage_columns(messages: Any, names: list[str]) -> list[Any]:
    """What the server counted for each message, as :data:`USAGE` has it."""
    nothing = pa.nulls(len(messages), pa.float64())
    if "usage" not in names:
        return [nothing] * len(USAGE)
    usage = pc.struct_field(messages, "usage")
    columns = []
    for path in _USAGE_PATHS:
        column = usage
        for name in path:
            inner = column.type
            known = pa.types.is_struct(inner) and inner.get_field_index(name) >= 0
            column = pc.struct_field(column, name) if known else None
            if column is None:
                break
        columns.append(nothing if column is None else column.cast(pa.float64()))
    return columns


def _one_by_one(
    source: Source,
    own: Findings,
    fields: Fields,
    lines: list[int],
    records: list[dict[str, Any]],
) -> pa.Table:
    """The same, of records of any types."""
    return pa.table(
        [
            lines,
            [_text(record.get(fields.name)) for record in records],
            [_text(record.get("model")) for record in records],
            [epoch_s_of(record.get("timestamp")) if fields.timed else None for record in records],
            [
                _messages(source, own, fields, line, record.get(fields.messages))
                for line, record in zip(lines, records, strict=True)
            ],
        ],
        schema=CHAT,
    )


def _messages(
    source: Source, own: Findings, fields: Fields, line: int, messages: Any
) -> list[dict[str, Any]] | None:
    if not isinstance(messages, list):
        return None
    said = []
    for message in messages:
        known = message if isinstance(message, dict) else {}
        role = known.get(fields.role)
        text, others = text_of(known, fields.text)
        for kind in dict.fromkeys(others):
            reason = f"a part of a message that is no text is not counted: {_text(kind)}"
            own.add_line("note", reason, source, line)
        said.append(
            {
                "role": role if isinstance(role, str) else None,
                "text": _text(text),
                "time_s": epoch_s_of(known.get("timestamp")) if fields.timed else None,
                **_usage_of(known.get("usage")),
            }
        )
    return said


def _usage_of(usage: Any) -> dict[str, float]:
    """The counts in the ``usage`` of a message that are numbers."""
    counts = {}
    for name, path in zip(USAGE, _USAGE_PATHS, strict=True):
        value = usage
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
            counts[name] = float(value)
    return counts


def _text(value: Any) -> str | None:
    # half a character, as JSON may hold, is none; it parts words as a question mark does
    return None if value is None else str(value).encode("utf-8", "replace").decode()


def _seconds(times: Any) -> Any:
    """Epoch seconds of a column of times: text, or what a Parquet file holds."""
    if not pa.types.is_string(times.type):
        return pa.array([epoch_s_of(value) for value in times.to_pylist()], pa.float64())
    with contextlib.suppress(pa.ArrowInvalid):  # one that is written in another way
        us = times.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        return pa.array(us.to_numpy(zero_copy_only=False) / 1e6, from_pandas=True)
    texts = times.to_pandas()
    stamps = pd.to_datetime(texts, utc=True, errors="coerce", format="ISO8601")
    us = stamps.to_numpy("datetime64[us]")
    seconds = us.astype(np.int64) / 1e6
    seconds[np.isnat(us)] = np.nan
    for i in np.flatnonzero(np.isnat(us) & texts.notna().to_numpy()):
        read = epoch_s_of(texts.iloc[i])
        seconds[i] = np.nan if read is None else read
    return pa.array(seconds, from_pandas=True)


# --- Turns -----------------------------------------------------------------------------------


def turn_tables(
    source: Source,
    findings: Findings,
    chats: pa.Table,
    timed: bool = False,
    messages: Messages | None = None,
) -> Iterator[pa.Table]:
    """The turns of conversations; ``messages``: theirs, where they are not those of the table."""
    if not chats.num_rows:
        return
    lines = chats["line"].to_numpy()
    if messages is None:
        messages = Messages.of(pa.concat_arrays(chats["messages"].chunks))
    of_message = np.repeat(lines, np.diff(messages.offsets))
    reason = "a message without a known speaker is left out"
    findings.add_lines("repaired", reason, source, of_message[messages.unknown])
    reason = "a message has no text: it counts as 0 tokens"
    missing = messages.without_text & ~messages.unknown
    findings.add_lines("note", reason, source, of_message[missing])
    turns = turns_of(messages)
    count = np.bincount(turns.conversation, minlength=len(lines))
    reason = "the conversation has no answered prompt and is left out"
    findings.add_lines("note", reason, source, lines[count == 0])
    line = lines[turns.conversation]
    time_s = turns.time_s
    if timed:
        end_s = np.array(chats["time_s"].to_pandas(), np.float64)
        time_s, assumed = assume_times(turns, end_s)
        reason = f"the turn has no time: taken {ASSUMED_GAP_S:.0f} s from the next one or the last"
        findings.add_lines("repaired", reason, source, line[assumed])
        wrong = (time_s < FIRST_TIME_S) | (time_s >= LAST_TIME_S)
        findings.add_lines("refused", NO_DATE, source, line[wrong])
    which = pa.array(turns.conversation)
    number = np.arange(len(line)) - np.repeat(np.cumsum(count) - count, count)
    counted = _counted(turns, len(lines))
    if counted.any():
        findings.guess(
            "tokens are those that the server counted, where all answers of a conversation say so"
        )
    yield pa.table(
        {
            "line": line,
            "session": chats["name"].take(which),
            "order": number.astype(np.float64),
            "time_s": pa.array(time_s, from_pandas=True),
            **_token_columns(turns, counted),
            "served_model": chats["model"].take(which),
            "difficulty": turns.difficulty,
        }
    )


def _counted(turns: TextTurns, conversations: int) -> np.ndarray:
    """The turns of conversations in which the server counted the tokens of each turn."""
    if turns.usage is None:
        return np.zeros(len(turns.conversation), bool)
    missing = np.isnan(turns.usage[:2]).any(axis=0)
    some = np.bincount(turns.conversation, missing, conversations) > 0
    return ~some[turns.conversation]


def _token_columns(turns: TextTurns, counted: np.ndarray) -> dict[str, Any]:
    """Tokens of turns: as the server counted them, or as their text has them."""
    new, output = (x.astype(np.float64) for x in (turns.new_prompt_tokens, turns.output_tokens))
    if turns.usage is None or not counted.any():
        return {"new_prompt_tokens": new, "output_tokens": output}
    whole, answer, cached, reasoning = np.where(counted, turns.usage, np.nan)
    columns = {
        "new_prompt_tokens": np.where(counted, np.nan, new),
        "input_tokens": whole,
        "output_tokens": np.where(counted, answer, output),
        "cached_tokens_observed": cached,
        "reasoning_tokens": reasoning,
    }
    return {name: pa.array(values, from_pandas=True) for name, values in columns.items()}
