"""Usage logs of inference servers and gateways: vLLM, SGLang, LiteLLM, OpenAI, Anthropic, Helicone.

One response (or log record) a line, with its ``usage``: prompt and completion tokens and, where
the server says so, how many of them were cached. A prompt holds the whole history of its
conversation. LiteLLM's StandardLoggingPayload carries the same figures at its top level
(https://docs.litellm.ai/docs/proxy/logging_spec); the Responses API and Anthropic call them input
and output tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carbonrouter_core.reading.columns import Wanted
from carbonrouter_core.reading.files import Source
from carbonrouter_core.traces.importers import not_inference
from carbonrouter_core.traces.importers.base import Importer, Reading, always
from carbonrouter_core.traces.importers.prompt_counts import (
    EXCLUDED_NAMES,
    INCLUDED_NAMES,
    UNCLEAR_NAMES,
    whole_counts,
)

_PROMPT = ("usage.prompt_tokens", "prompt_tokens")
_INPUT = ("usage.input_tokens", "input_tokens")
_OUTPUT = (
    "usage.completion_tokens",
    "usage.output_tokens",
    "completion_tokens",
    "output_tokens",
)
_TOTAL = ("usage.total_tokens", "total_tokens")
_CACHED = (
    "usage.prompt_tokens_details.cached_tokens",
    "usage.input_tokens_details.cached_tokens",
    "prompt_tokens_details.cached_tokens",
    "metadata.usage_object.prompt_tokens_details.cached_tokens",
    "usage.cached_tokens",
    "usage.prompt_cache_hit_tokens",
    "cached_tokens",
)
_CACHE_READ = (
    "usage.cache_read_input_tokens",
    "usage.cache_read_tokens",
    "cache_read_input_tokens",
    "prompt_cache_read_tokens",
    "cache_read_tokens",
    "metadata.usage_object.cache_read_input_tokens",
)
_CACHE_WRITTEN = (
    "usage.cache_creation_input_tokens",
    "usage.cache_creation_tokens",
    "usage.cache_write_tokens",
    "cache_creation_input_tokens",
    "prompt_cache_write_tokens",
    "cache_write_tokens",
    "metadata.usage_object.cache_creation_input_tokens",
)
_REASONING = (
    "usage.completion_tokens_details.reasoning_tokens",
    "usage.output_tokens_details.reasoning_tokens",
    "completion_tokens_details.reasoning_tokens",
    "metadata.usage_object.completion_tokens_details.reasoning_tokens",
    "usage.reasoning_tokens",
    "reasoning_tokens",
)
_SESSION = (
    "metadata.session_id",
    "session_id",
    "metadata.conversation_id",
    "conversation_id",
    "conversation.id",
    "litellm_session_id",
    "request_properties.Helicone-Session-Id",
    "properties.Helicone-Session-Id",
    "metadata.chat_id",
    "chat_id",
    "metadata.trace_id",
    "trace_id",
)
_TIME = (
    "created",
    "created_at",
    "timestamp",
    "startTime",
    "start_time",
    "request_created_at",
)
_MODEL = ("model", "response_model", "request_model")
_REGION = ("metadata.region", "region", "metadata.served_region", "served_region")
_USER_REGION = ("metadata.user_region", "user_region")

_WANTED = (
    Wanted("session", _SESSION, "text"),
    Wanted("ident", ("id", "request_id"), "text"),
    Wanted("before", ("previous_response_id",), "text"),
    Wanted("time_s", _TIME, "time"),
    Wanted("prompt", _PROMPT),
    Wanted("input", _INPUT),
    Wanted("output_tokens", _OUTPUT),
    Wanted("total_tokens", _TOTAL),
    Wanted("cached_tokens_observed", _CACHED),
    Wanted("cache_read", _CACHE_READ),
    Wanted("cache_written_tokens", _CACHE_WRITTEN),
    Wanted("reasoning_tokens", _REASONING),
    Wanted("served_model", _MODEL, "text"),
    Wanted("served_region", _REGION, "text"),
    Wanted("user_region", _USER_REGION, "text"),
    *not_inference.COLUMNS,
)


def _recognise(source: Source) -> str | None:
    names = set(source.columns)
    if source.kind == "csv":
        if (names & {*_PROMPT, *_INPUT}) and (names & set(_OUTPUT)):
            return "it has columns of prompt and completion tokens, one request a row"
        return None
    for record in source.samples:
        usage = record.get("usage")
        if isinstance(usage, dict) and {"prompt_tokens", "input_tokens"} & set(usage):
            return "its records carry a usage object with prompt tokens"
    if {"prompt_tokens", "completion_tokens"} <= names:
        return "its records carry prompt_tokens and completion_tokens"
    return None


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    for table in reading.columns(source, _WANTED):
        prompt, other = table["prompt"], table["input"]
        by_input = prompt.null_count == table.num_rows and other.null_count < table.num_rows
        reading.names["input_tokens"] = reading.names["input" if by_input else "prompt"]
        cached = pc.coalesce(table["cached_tokens_observed"], table["cache_read"])
        named = pa.array(_named(table))
        at = table.schema.get_field_index("cached_tokens_observed")
        table = table.set_column(at, "cached_tokens_observed", cached)
        table = table.append_column("input_tokens", pc.coalesce(prompt, other))
        table = table.append_column("named", named).drop_columns(["prompt", "input", "cache_read"])
        table = not_inference.inference_only(table, source, reading)
        table = whole_counts(table, reading, table["named"].to_numpy()).drop_columns(["named"])
        yield _with_sessions(table, source, reading).append_column("order", table["time_s"])


def _named(table: pa.Table) -> np.ndarray:
    """What the names of the fields say of cached tokens in the prompt count, of each row."""
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


# --- Sessions --------------------------------------------------------------------------------


def _with_sessions(table: pa.Table, source: Source, reading: Reading) -> pa.Table:
    """The rows with a session each, where the log names none as well."""
    if "previous_response_id" in source.columns:
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
    return table.set_column(table.schema.get_field_index("session"), "session", sessions)


IMPORTER = Importer(
    id="openai-usage",
    label="OpenAI-compatible usage log",
    sessions="turns of a session are in order of time; a prompt begins with all of the turn before",
    recognise=_recognise,
    read=_read,
    times=always("start_utc"),
    infers_contexts=True,
)
