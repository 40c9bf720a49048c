"""Spans of OpenTelemetry and its kin: the calls of models among them, as turns.

https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/ (``gen_ai.*``), OpenInference
(``llm.token_count.*``) and the AI SDK (``ai.usage.*``). They come as OTLP JSON (whole, or a line
for each export of a collector), as the console exporter prints them, as Jaeger and as tables of
spans keep them. A span of an agent sums up the calls below it, so that a span with counts that
has another one below it is no call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from carbonrouter_core.reading.ahead import chunks_ahead
from carbonrouter_core.reading.columns import epoch_s_of
from carbonrouter_core.reading.files import Source, loads, values_of, whole_text
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.traces.importers import not_inference
from carbonrouter_core.traces.importers.base import Importer, Reading, always
from carbonrouter_core.traces.importers.log_formats import COMMON, LogFormat
from carbonrouter_core.traces.importers.logs import requests

Attributes = dict[str, Any]

COUNTS: dict[str, tuple[str, ...]] = {
    "prompt": (
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "llm.usage.prompt_tokens",
        "llm.token_count.prompt",
        "ai.usage.inputTokens",
        "ai.usage.promptTokens",
    ),
    "output_tokens": (
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "llm.usage.completion_tokens",
        "llm.token_count.completion",
        "ai.usage.outputTokens",
        "ai.usage.completionTokens",
    ),
    "total_tokens": (
        "gen_ai.usage.total_tokens",
        "llm.usage.total_tokens",
        "llm.token_count.total",
        "ai.usage.totalTokens",
    ),
    "cache_read": (
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "gen_ai.usage.input_tokens.cached",
        "gen_ai.usage.cached_input_tokens",
        "gen_ai.usage.cached_tokens",
        "gen_ai.usage.details.cache_read_tokens",
        "gen_ai.usage.details.cache_read_input_tokens",
        "gen_ai.usage.details.cached_tokens",
        "gen_ai.usage.prompt_tokens_details.cached_tokens",
        "llm.usage.cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_read",
        "ai.usage.cachedInputTokens",
    ),
    "cache_written_tokens": (
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "gen_ai.usage.cache_write_input_tokens",
        "gen_ai.usage.details.cache_write_tokens",
        "gen_ai.usage.details.cache_creation_input_tokens",
        "llm.usage.cache_creation_input_tokens",
        "llm.token_count.prompt_details.cache_write",
    ),
    "reasoning_tokens": (
        "gen_ai.usage.reasoning.output_tokens",
        "gen_ai.usage.output_tokens.reasoning",
        "gen_ai.usage.reasoning_tokens",
        "gen_ai.usage.details.reasoning_tokens",
        "gen_ai.usage.completion_tokens_details.reasoning_tokens",
        "llm.usage.reasoning_tokens",
        "llm.token_count.completion_details.reasoning",
        "ai.usage.reasoningTokens",
    ),
}
"""The attributes with the counts of each column, the most likely first."""

TEXTS: dict[str, tuple[str, ...]] = {
    "session": (
        "gen_ai.conversation.id",
        "session.id",
        "gen_ai.session.id",
        "langfuse.session.id",
        "traceloop.association.properties.session_id",
        "traceloop.association.properties.conversation_id",
        "traceloop.association.properties.thread_id",
        "ai.telemetry.metadata.sessionId",
        "ai.telemetry.metadata.conversationId",
        "conversation.id",
        "conversation_id",
        "session_id",
        "thread_id",
    ),
    "served_model": (
        "gen_ai.response.model",
        "gen_ai.request.model",
        "llm.response.model",
        "llm.request.model",
        "llm.model_name",
        "ai.model.id",
    ),
    "served_region": (
        "gen_ai.server.region",
        "cloud.region",
        "aws.region",
        "cloud.availability_zone",
    ),
    "user_region": ("user.region",),
}
"""The attributes, of a span or of what sent it, with the texts of each column."""

_ANSWER_IDS = ("gen_ai.response.id", "ai.response.id")
_KINDS = (
    "gen_ai.operation.name",
    "openinference.span.kind",
    "traceloop.span.kind",
    "llm.request.type",
)
_CALLS = frozenset(
    {
        "chat",
        "chat.completions",
        "chat_completion",
        "completion",
        "completions",
        "generate",
        "generate_content",
        "generate_text",
        "llm",
        "message",
        "messages",
        "multimodal",
        "responses",
        "stream_text",
        "text_completion",
    }
)
"""What the kind of a span is, in lower case, where it is a call of a model."""
_EVENTS = frozenset({"claude_code.api_request", "api_request"})
"""Log records that stand for a call of a model, under plain names."""
_PLAIN = {
    "prompt": ("input_tokens",),
    "output_tokens": ("output_tokens",),
    "cache_read": ("cache_read_tokens",),
    "cache_written_tokens": ("cache_creation_tokens",),
}

OTHER_SPAN = "a span that is no call of a model: no inference"
SUM_SPAN = "a span that sums up the calls below it: no inference of its own"

FORM = LogFormat(
    id="otel",
    label="OpenTelemetry spans",
    what="GenAI spans as OTLP JSON, lines of a collector, console exporter or Jaeger",
    url="https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/",
    signs=(),
)


# --- Spans of a record -----------------------------------------------------------------------


class Span:
    """A span, or a log record: its attributes, those of its resource, and its ids."""

    def __init__(self, span: dict[str, Any], attributes: Attributes, resource: Attributes) -> None:
        self.attributes, self.resource = attributes, resource
        self._span = span
        context = span.get("context")
        inner = context if isinstance(context, dict) else {}
        both = inner | span
        self.trace = _text(_any(both, "traceId", "trace_id", "traceID", "TraceId"))
        self.id = _text(_any(both, "spanId", "span_id", "spanID", "SpanId"))
        self.parent = _text(
            _any(span, "parentSpanId", "parent_span_id", "parent_id", "ParentSpanId")
        ) or _reference(span)

    @property
    def time_s(self) -> float | None:
        """When it began, in epoch seconds."""
        names = ("startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime")
        logs = ("timeUnixNano", "observedTimeUnixNano", "Timestamp", "timestamp")
        value = _any(self._span, *names, *logs)
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, list) and len(value) == 2:  # seconds and nanoseconds
            return epoch_s_of(value[0])
        return epoch_s_of(value)

    @property
    def status(self) -> str | None:
        """The code of its status."""
        status = _any(self._span, "status", "StatusCode")
        if isinstance(status, dict):
            status = _any(status, "code", "status_code", "statusCode")
        if status in (2, "2"):
            return "ERROR"
        failed = _any(self.attributes, "error.type", "otel.status_code")
        return _text(status if status is not None else failed)

    @property
    def counts(self) -> dict[str, Any]:
        """The counts of tokens that it has."""
        body = self._span.get("body")
        events = (
            self.attributes.get("event.name"),
            _any(self._span, "eventName", "name"),
            body.get("stringValue") if isinstance(body, dict) else body,
        )
        plain = any(isinstance(name, str) and name in _EVENTS for name in events)
        values = {name: _any(self.attributes, *names) for name, names in COUNTS.items()}
        if plain:
            for name, names in _PLAIN.items():
                values[name] = _any(self.attributes, *names)
        return {name: value for name, value in values.items() if value is not None}

    @property
    def is_call(self) -> bool:
        """Whether its kind, where it says one, is that of a call of a model."""
        kinds = [self.attributes.get(name) for name in _KINDS]
        given = [str(kind).lower() for kind in kinds if kind]
        return all(kind in _CALLS for kind in given) and bool(given or self.counts)

    def text(self, column: str) -> str | None:
        """A text of :data:`TEXTS`."""
        value = _any(self.attributes, *TEXTS[column])
        return _text(_any(self.resource, *TEXTS[column]) if value is None else value)


def spans_of(record: dict[str, Any]) -> Iterator[Span]:
    """The spans in a record of any of the shapes in which they come."""
    exports = _list(record, "resourceSpans", "resource_spans", "resourceLogs", "resource_logs")
    for export in exports:
        yield from spans_of(export)
    scopes = _list(record, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")
    scopes += _list(record, "scopeLogs", "scope_logs")
    resource = _resource(record)
    for scope in scopes:
        for span in _list(scope, "spans", "logRecords", "log_records"):
            yield Span(span, _attributes(span), resource)
    if exports or scopes:
        return
    if inner := _list(record, "spans"):  # a trace of Jaeger
        processes = record.get("processes")
        for span in inner:
            process = processes.get(span.get("processID")) if isinstance(processes, dict) else None
            yield Span(span, _attributes(span), _attributes(process))
        return
    yield Span(record, _attributes(record), resource)


def _resource(record: dict[str, Any]) -> Attributes:
    resource = record.get("resource")
    if isinstance(resource, dict):
        return _attributes(resource)
    return _pairs(_any(record, "ResourceAttributes", "resource_attributes"))


def _attributes(span: Any) -> Attributes:
    if not isinstance(span, dict):
        return {}
    return _pairs(_any(span, "attributes", "SpanAttributes", "span_attributes", "tags"))


def _pairs(listed: Any) -> Attributes:
    """Attributes by their names, whether they come as a list, an object or text."""
    if isinstance(listed, str):
        listed = loads(listed)
    if isinstance(listed, dict):
        flat: Attributes = {}
        _flatten(listed, "", flat, 6)
        return flat
    pairs: Attributes = {}
    for pair in listed if isinstance(listed, list) else ():
        if isinstance(pair, dict) and isinstance(pair.get("key"), str):
            pairs[pair["key"]] = _value(pair.get("value"))
        elif isinstance(pair, tuple) and len(pair) == 2:  # a map of a Parquet file
            pairs[str(pair[0])] = pair[1]
    return pairs


def _flatten(values: dict[str, Any], before: str, flat: Attributes, depth: int) -> None:
    for name, value in values.items():
        if isinstance(value, dict) and depth:
            _flatten(value, f"{before}{name}.", flat, depth - 1)
        else:
            flat[before + name] = value


def _value(value: Any) -> Any:
    """A value as OTLP writes it: an object whose key is the type."""
    if not isinstance(value, dict):
        return value
    return _any(
        value,
        "stringValue",
        "intValue",
        "doubleValue",
        "boolValue",
        "string_value",
        "int_value",
        "double_value",
    )


def _reference(span: dict[str, Any]) -> str | None:
    """The parent of a span of Jaeger."""
    for reference in _list(span, "references"):
        if reference.get("refType") == "CHILD_OF":
            return _text(reference.get("spanID"))
    return None


def _list(record: Any, *names: str) -> list[dict[str, Any]]:
    listed = _any(record, *names) if isinstance(record, dict) else None
    if not isinstance(listed, list):
        return []
    return [one for one in listed if isinstance(one, dict)]


def _any(values: dict[str, Any], *names: str) -> Any:
    for name in names:
        if (value := values.get(name)) is not None:
            return value
    return None


def _text(value: Any) -> str | None:
    if value is None or value == "" or isinstance(value, dict | list):
        return None
    return whole_text(value)


def _count(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


# --- Rows ------------------------------------------------------------------------------------

_COLUMNS = {name: pa.float64() for name in ("time_s", *COUNTS)} | {
    name: pa.string() for name in ("ident", "status", *TEXTS, "trace", "span", "parent")
}


def _rows(own: Findings, source: Source, records: Iterable[tuple[int, Any]]) -> pa.Table:
    """The calls of models among the spans of some records."""
    rows: list[dict[str, Any]] = []
    others: list[int] = []
    session_of: dict[str, str] = {}
    for line, record in records:
        for span in spans_of(record):
            session = span.text("session")
            if session is not None and span.trace is not None:
                session_of.setdefault(span.trace, session)
            counts = span.counts
            if not span.is_call:
                others.append(line)
                continue
            row: dict[str, Any] = {name: _count(value) for name, value in counts.items()}
            row |= {name: span.text(name) for name in TEXTS}
            row["ident"] = _text(_any(span.attributes, *_ANSWER_IDS)) or span.id
            row |= {"line": line, "time_s": span.time_s, "status": span.status}
            row |= {"trace": span.trace, "span": span.id, "parent": span.parent}
            rows.append(row)
    for row in rows:
        row["session"] = row["session"] or session_of.get(row["trace"]) or row["trace"]
    own.rows_read += len(rows) + len(others)
    own.add_lines("left out", OTHER_SPAN, source, np.array(others, np.int64))
    schema = pa.schema([("line", pa.int64()), *_COLUMNS.items()])
    return pa.Table.from_pylist(rows, schema=schema)


def _calls(table: pa.Table, source: Source, reading: Reading) -> pa.Table:
    """The rows without those that sum up others, as :func:`.logs.requests` takes them."""
    above: set[int] = reading.memory.setdefault("spans above calls", set())
    counted = table["prompt"].is_valid().to_pylist()
    parents = table["parent"].to_pylist()
    above.update(hash(p) for p, given in zip(parents, counted, strict=True) if given and p)
    if above:
        sums = [hash(span) in above for span in table["span"].to_pylist()]
        if any(sums):
            lines = table.filter(pa.array(sums))["line"].to_numpy()
            reading.findings.add_lines("left out", SUM_SPAN, source, lines)
            table = table.filter(pa.array([not one for one in sums]))
    for name in ("input", "cached_tokens_observed"):
        table = table.append_column(name, pa.nulls(table.num_rows, pa.float64()))
    given = set(table.schema.names)
    for name in (*COMMON, *(column.name for column in not_inference.COLUMNS)):
        if name not in given:
            table = table.append_column(name, pa.nulls(table.num_rows, pa.string()))
    return table.drop_columns(["trace", "span", "parent"])


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    reading.names = {name: paths[0] for name, paths in COUNTS.items()}

    def read(chunk: tuple[int, bytes], own: Findings) -> pa.Table:
        return _rows(own, source, values_of(*chunk, partial(own.unreadable, source)))

    if source.kind == "parquet":
        first = 1
        for batch in source.parquet_batches(list(source.columns), reading.progress, 4096):
            rows = enumerate(batch.to_pylist(), start=first)
            first += batch.num_rows
            table = _calls(_rows(reading.findings, source, rows), source, reading)
            yield requests(FORM, table, source, reading)
        return
    for table in chunks_ahead(source, reading.findings, reading.progress, read):
        yield requests(FORM, _calls(table, source, reading), source, reading)


def _recognise(source: Source) -> str | None:
    if source.kind == "csv":
        return None
    for record in source.samples:
        for span in spans_of(record):
            keys = [*span.attributes]
            if any(key.startswith(("gen_ai.", "llm.", "ai.usage.")) for key in keys):
                return "its records are spans with gen_ai or llm attributes"
            if span.counts:
                return "its records are events with the tokens of a call"
    if set(source.columns) & {"resourceSpans", "scopeSpans", "resource_spans", "scope_spans"}:
        return "its records are spans of OpenTelemetry"
    return None


IMPORTER = Importer(
    id=FORM.id,
    label=FORM.label,
    sessions="a conversation id, else a session id, else a trace is a session; its calls are in "
    "order of time, and a prompt begins with all of the turn before",
    recognise=_recognise,
    read=_read,
    times=always("start_utc"),
    infers_contexts=True,
)
