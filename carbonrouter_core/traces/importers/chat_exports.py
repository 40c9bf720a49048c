"""Conversations as chat services and fine-tuning files hold them: lists and trees of messages.

A service keeps each answer that was asked for again. Its export names the message that the user
saw last; the way from there up to the first one is the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from carbonrouter_core.reading.ahead import chunks_ahead
from carbonrouter_core.reading.columns import epoch_s_of
from carbonrouter_core.reading.files import Source, values_of, whole_text
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.traces.importers.base import Importer, Reading, Times
from carbonrouter_core.traces.importers.chats import CHAT, turn_tables
from carbonrouter_core.traces.importers.content import text_of
from carbonrouter_core.traces.tokens import token_counter

Record = dict[str, Any]

ONLY_CALLS = "a message has no text but calls of tools, which are counted"


@dataclass(frozen=True)
class Said:
    """One message: who speaks, the message, the key of its content, and when, as it stands."""

    role: Any
    message: Record
    key: str
    time: Any = None
    model: Any = None


@dataclass(frozen=True, kw_only=True)
class Export:
    """A kind of files with conversations.

    ``messages``: those of a record, in order; None for a record of another kind. ``names``,
    ``times``, ``models``: keys of a record, the first that is there counts.
    """

    id: str
    label: str
    what: str
    sign: str
    messages: Callable[[Record], list[Said] | None]
    names: tuple[str, ...]
    times: tuple[str, ...] = ()
    models: tuple[str, ...] = ("model",)

    def importer(self) -> Importer:
        """The importer of this kind of files."""
        return Importer(
            id=self.id,
            label=self.label,
            sessions="a record is a session; prompts without an answer are no turns; the text is "
            "not stored",
            recognise=self._recognise,
            read=self._read,
            times=self._times,
            turn_is_key=True,
            record_is_session=True,
        )

    def _recognise(self, source: Source) -> str | None:
        if source.kind == "csv" or not any(self.messages(record) for record in source.samples):
            return None
        return f"its records carry {self.sign}"

    def _times(self, source: Source) -> Times:
        for record in source.samples:
            given = [record.get(name) for name in self.times]
            given += [said.time for said in self.messages(record) or ()]
            if any(epoch_s_of(time) is not None for time in given):
                return "start_utc"
        return "none"

    def _read(self, source: Source, reading: Reading) -> Iterator[pa.Table]:
        reading.findings.guess(token_counter().how)
        timed = self._times(source) == "start_utc"

        def turns(chunk: tuple[int, bytes], own: Findings) -> list[pa.Table]:
            values = values_of(*chunk, partial(own.unreadable, source))
            chats = self._chats(source, own, list(values))
            return list(turn_tables(source, own, chats, timed))

        if source.kind == "parquet":
            first = 1
            for batch in source.parquet_batches(list(source.columns), reading.progress, 4096):
                records = list(enumerate(batch.to_pylist(), start=first))
                first += batch.num_rows
                chats = self._chats(source, reading.findings, records)
                yield from turn_tables(source, reading.findings, chats, timed)
            return
        for tables in chunks_ahead(source, reading.findings, reading.progress, turns):
            yield from tables

    def _chats(self, source: Source, own: Findings, records: list[tuple[int, Record]]) -> pa.Table:
        """The conversations of some records, as :data:`.chats.CHAT`."""
        own.rows_read += len(records)
        rows: list[Record] = []
        for line, record in records:
            said = self.messages(record)
            if said is None:
                own.add_line("refused", f"the record has no {self.sign}", source, line)
                continue
            name = _first(record, self.names)
            models = [one.model for one in said if isinstance(one.model, str)]
            model = models[-1] if models else _first(record, self.models)
            rows.append(
                {
                    "line": line,
                    "name": f"record-{source.number}-{line}" if name is None else _text(name),
                    "model": _text(model) if isinstance(model, str) else None,
                    "time_s": epoch_s_of(_first(record, self.times)),
                    "messages": [_message(source, own, line, one) for one in said],
                }
            )
        return pa.Table.from_pylist(rows, schema=CHAT)


def _message(source: Source, own: Findings, line: int, said: Said) -> Record:
    text, others = text_of(said.message, said.key)
    if text is not None and said.message.get(said.key) is None:
        own.add_line("note", ONLY_CALLS, source, line)
    for kind in dict.fromkeys(others):
        reason = f"a part of a message that is no text is not counted: {_text(kind)}"
        own.add_line("note", reason, source, line)
    return {
        "role": said.role.lower() if isinstance(said.role, str) else None,
        "text": None if text is None else _text(text),
        "time_s": epoch_s_of(said.time),
    }


def _first(record: Record, names: tuple[str, ...]) -> Any:
    given = (record.get(name) for name in names)
    return next((v for v in given if v is not None and not isinstance(v, dict | list)), None)


def _text(value: Any) -> str:
    return whole_text(value) if not isinstance(value, str) else _encodable(value)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _ancestors(nodes: dict[Any, Record], last: Any, parent: str) -> list[Record]:
    """The nodes from the first one down to ``last``; a circle ends where it would begin again."""
    way: list[Record] = []
    seen = set()
    while isinstance(last, str) and last in nodes and last not in seen:
        seen.add(last)
        way.append(nodes[last])
        last = nodes[last].get(parent)
    return way[::-1]


# --- Lists of messages -------------------------------------------------------------------------


def _list_of(messages: Any) -> list[Said] | None:
    """Messages with ``role`` and ``content``, as OpenAI and Anthropic write them."""
    if not isinstance(messages, list) or not messages:
        return None
    said = []
    for message in messages:
        if not isinstance(message, dict) or "role" not in message:
            return None
        time = _first(message, ("timestamp", "created_at", "create_time", "created", "time"))
        said.append(Said(message["role"], message, "content", time, message.get("model")))
    return said


_COUNTED = frozenset({"usage", "prompt_tokens", "input_tokens", "usageMetadata"})
"""Keys of a record that says itself how many tokens it took."""


def _messages(record: Record) -> list[Said] | None:
    body = record
    for name in ("body", "request", "request_body"):
        inner = record.get(name)
        if "messages" not in record and isinstance(inner, dict) and "messages" in inner:
            body = inner
    said = _list_of(body.get("messages"))
    response = record.get("response")
    if said is None or any(
        _COUNTED & set(part) for part in (record, response) if isinstance(part, dict)
    ):
        return None
    if isinstance(body.get("system"), str | list):
        said.insert(0, Said("system", body, "system"))
    return said + _answer(response)


def _answer(response: Any) -> list[Said]:
    """The answer in a response that stands beside the request."""
    choices = response.get("choices") if isinstance(response, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    return [Said("assistant", message, "content")] if isinstance(message, dict) else []


def _of_open_webui(record: Record) -> list[Said] | None:
    chat = record.get("chat")
    history = chat.get("history") if isinstance(chat, dict) else None
    nodes = history.get("messages") if isinstance(history, dict) else None
    if not isinstance(nodes, dict) or not isinstance(history, dict):
        return None
    known = {name: node for name, node in nodes.items() if isinstance(node, dict)}
    return _list_of(_ancestors(known, history.get("currentId"), "parentId"))


# --- Trees of messages -------------------------------------------------------------------------


def _of_chatgpt(record: Record) -> list[Said] | None:
    mapping = record.get("mapping")
    if not isinstance(mapping, dict):
        return None
    nodes = {name: node for name, node in mapping.items() if isinstance(node, dict)}
    last = record.get("current_node")
    if last not in nodes:
        last = max(nodes, key=lambda name: _created_s(nodes[name]), default=None)
    said = []
    for node in _ancestors(nodes, last, "parent"):
        message = node.get("message")
        if not isinstance(message, dict) or message.get("weight") == 0:
            continue  # weight 0: the model does not see it
        author, about = message.get("author"), message.get("metadata")
        role = author.get("role") if isinstance(author, dict) else None
        if role == "system" and not text_of(message, "content")[0]:
            continue  # what begins each export, and holds nothing
        model = about.get("model_slug") if isinstance(about, dict) else None
        said.append(Said(role, message, "content", message.get("create_time"), model))
    return said


def _created_s(node: Record) -> float:
    message = node.get("message")
    time = epoch_s_of(message.get("create_time")) if isinstance(message, dict) else None
    return -1.0 if time is None else time


def _of_claude(record: Record) -> list[Said] | None:
    listed = record.get("chat_messages")
    if not isinstance(listed, list):
        return None
    messages = [message for message in listed if isinstance(message, dict)]
    nodes = {message.get("uuid"): message for message in messages}
    last = record.get("current_leaf_message_uuid")
    if last is None and messages:
        last = messages[-1].get("uuid")
    way = _ancestors(nodes, last, "parent_message_uuid")
    if not any(message.get("parent_message_uuid") in nodes for message in messages):
        way = messages  # an export without parents holds one way only
    return [
        Said(
            message.get("sender"),
            {"content": _claude_parts(message)},
            "content",
            message.get("created_at"),
        )
        for message in way
    ]


def _claude_parts(message: Record) -> list[Any]:
    """The content of a message, and the text of the files that came with it."""
    content, text = message.get("content"), message.get("text")
    parts = list(content) if isinstance(content, list) and content else [text or ""]
    attached = message.get("attachments")
    for file in attached if isinstance(attached, list) else ():
        if isinstance(file, dict) and isinstance(file.get("extracted_content"), str):
            parts.append(file["extracted_content"])
    return parts


EXPORTS = (
    Export(
        id="chatgpt-export",
        label="ChatGPT export",
        what="conversations.json of a ChatGPT account",
        sign="a mapping of messages",
        messages=_of_chatgpt,
        names=("conversation_id", "id"),
        times=("update_time", "create_time"),
        models=("default_model_slug",),
    ),
    Export(
        id="claude-export",
        label="Claude export",
        what="conversations.json of a Claude account",
        sign="chat_messages",
        messages=_of_claude,
        names=("uuid", "id"),
        times=("updated_at", "created_at"),
    ),
    Export(
        id="open-webui-export",
        label="Open WebUI export",
        what="chats of Open WebUI",
        sign="a chat with its history",
        messages=_of_open_webui,
        names=("id",),
        times=("updated_at", "created_at"),
    ),
    Export(
        id="openai-messages",
        label="Lists of messages",
        what="`messages` with role and content, as for fine-tuning",
        sign="a list of messages with role and content",
        messages=_messages,
        names=("conversation_id", "session_id", "chat_id", "thread_id", "id", "uuid", "custom_id"),
        times=("updated_at", "timestamp", "created_at", "created"),
    ),
)
"""The kinds of files, in the order in which they are tried."""

IMPORTERS = tuple(export.importer() for export in EXPORTS)
