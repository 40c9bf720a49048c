"""Usage logs of OpenAI-compatible servers: vLLM, SGLang, LiteLLM and their like.

One response (or log record) a line, with its ``usage``: prompt and completion tokens and, where
the server says so, ``prompt_tokens_details.cached_tokens``. A prompt holds the whole history of
its conversation. LiteLLM's StandardLoggingPayload carries the same figures at its top level
(https://docs.litellm.ai/docs/proxy/logging_spec); the Responses API calls them input and output
tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carbonrouter_core.reading.columns import Wanted, read_columns
from carbonrouter_core.reading.files import Source
from carbonrouter_core.traces.importers.base import Importer, Reading, always

_PROMPT = ("usage.prompt_tokens", "usage.input_tokens", "prompt_tokens")
_OUTPUT = ("usage.completion_tokens", "usage.output_tokens", "completion_tokens")
_CACHED = (
    "usage.prompt_tokens_details.cached_tokens",
    "usage.input_tokens_details.cached_tokens",
    "prompt_tokens_details.cached_tokens",
    "metadata.usage_object.prompt_tokens_details.cached_tokens",
    "usage.cached_tokens",
    "cached_tokens",
)
_SESSION = (
    "metadata.session_id",
    "session_id",
    "metadata.conversation_id",
    "conversation_id",
    "litellm_session_id",
    "metadata.chat_id",
    "chat_id",
    "metadata.trace_id",
    "trace_id",
)
_TIME = ("created", "created_at", "timestamp", "startTime", "start_time")
_REGION = ("metadata.region", "region", "metadata.served_region", "served_region")
_USER_REGION = ("metadata.user_region", "user_region")


def _recognise(source: Source) -> str | None:
    names = set(source.columns)
    if source.kind == "csv":
        if (names & set(_PROMPT)) and (names & set(_OUTPUT)):
            return "it has columns of prompt and completion tokens, one request a row"
        return None
    first = source.samples[0] if source.samples else {}
    usage = first.get("usage")
    if isinstance(usage, dict) and {"prompt_tokens", "input_tokens"} & set(usage):
        return "its records carry a usage object with prompt tokens"
    if {"prompt_tokens", "completion_tokens"} <= names:
        return "its records carry prompt_tokens and completion_tokens"
    return None


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    wanted = (
        Wanted("session", _SESSION, "text"),
        Wanted("ident", ("id", "request_id"), "text"),
        Wanted("time_s", _TIME, "time"),
        Wanted("input_tokens", _PROMPT),
        Wanted("output_tokens", _OUTPUT),
        Wanted("cached_tokens_observed", _CACHED),
        Wanted("served_model", ("model",), "text"),
        Wanted("served_region", _REGION, "text"),
        Wanted("user_region", _USER_REGION, "text"),
    )
    for table in read_columns(source, wanted, reading.findings, reading.progress):
        alone = table["session"].is_null()
        if pc.any(alone).as_py():
            reading.findings.add_lines(
                "note",
                "the record names no session: the request is a session of its own",
                source,
                table["line"].to_numpy()[alone.to_numpy()],
            )
            own = pa.array(
                np.char.add(f"request-{source.number}-", table["line"].to_numpy().astype(str))
            )
            at = table.schema.get_field_index("session")
            table = table.set_column(at, "session", pc.coalesce(table["session"], own))
        yield table.append_column("order", table["time_s"])


IMPORTER = Importer(
    id="openai-usage",
    label="OpenAI-compatible usage log",
    sessions="turns of a session are in order of time; a prompt begins with all of the turn before",
    recognise=_recognise,
    read=_read,
    times=always("start_utc"),
)
