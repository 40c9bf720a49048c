"""ShareGPT: conversations with text as ``{"id": "abc_4", "conversations": [{"from", "value"}]}``.

Long chats were split when the data set was made; the ``_N`` at the end of an id is the number of
the part's first message. The parts are put together again by it; where two parts overlap the
first copy of a message is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from carbonrouter_core.traces.conversations import Message, known_role, turns_of
from carbonrouter_core.traces.importers.base import Importer, Reading, always, lacks
from carbonrouter_core.traces.importers.batches import Batches
from carbonrouter_core.traces.sources import Source, json_values
from carbonrouter_core.traces.tokens import token_counter

HELD_CHARACTERS = 64 * 2**20
"""Text held while parts of conversations may still come."""

_PART = re.compile(r"^(.+)_(\d+)$", re.DOTALL)


def _recognise(source: Source) -> str | None:
    if source.kind == "csv" or lacks(source, "conversations"):
        return None
    messages = source.samples[0].get("conversations")
    if isinstance(messages, list) and (not messages or "from" in messages[0]):
        return "its records hold conversations of messages with from and value"
    return None


class _Open:
    """The messages of one conversation, by their place in it."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.messages: dict[int, Message] = {}
        self.characters = 0


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    rows = Batches(source, reading)
    reading.findings.guess(token_counter().how)
    held: dict[str, _Open] = {}
    closed: set[int] = set()
    characters = 0
    for line, record in _records(source, rows, reading):
        reading.findings.rows_read += 1
        messages = record.get("conversations")
        if not isinstance(messages, list):
            rows.refuse(line, "conversations is not a list of messages")
            continue
        name = str(record.get("id") or f"conversation-{source.number}-{line}")
        part = _PART.match(name)
        base, start = (part[1], int(part[2])) if part else (name, 0)
        if base not in held:
            if hash(base) in closed:
                rows.repaired(line, "a part far from the rest of its chat: a session of its own")
                base = name
            held[base] = _Open(line)
        one = held[base]
        for place, message in enumerate(messages, start=start):
            said = _message(message)
            if said is None:
                rows.repaired(line, "a message without a known speaker is left out")
            elif place in one.messages:
                rows.repaired(line, "a message that an earlier part had too; the first is kept")
            else:
                one.messages[place] = said
                one.characters += len(said.text)
                characters += len(said.text)
        while characters > HELD_CHARACTERS and len(held) > 1:
            oldest = next(iter(held))
            closed.add(hash(oldest))
            characters -= held[oldest].characters
            _close(rows, oldest, held.pop(oldest))
            yield from rows.full()
    for base, one in held.items():
        _close(rows, base, one)
        yield from rows.full()
    yield from rows.rest()


def _records(source: Source, rows: Batches, reading: Reading) -> Iterator[tuple[int, Any]]:
    return json_values(source, rows.broken, reading.progress)


def _message(message: Any) -> Message | None:
    if not isinstance(message, dict) or not known_role(message.get("from")):
        return None
    text = message.get("value")
    return Message(str(message["from"]).lower(), text if isinstance(text, str) else "")


def _close(rows: Batches, session: str, one: _Open) -> None:
    turn = -1
    messages = (one.messages[place] for place in sorted(one.messages))
    for turn, counted in enumerate(turns_of(messages)):
        rows.add(
            line=one.line,
            session=session,
            order=float(turn),
            new_prompt_tokens=float(counted.new_prompt_tokens),
            output_tokens=float(counted.output_tokens),
            difficulty=counted.difficulty,
        )
    if turn < 0:
        rows.note(one.line, "the conversation has no answered prompt and is left out")


IMPORTER = Importer(
    id="sharegpt",
    label="ShareGPT",
    sessions="parts of a chat are put together by the number at the end of their id; prompts "
    "without an answer are no turns; the text is not stored",
    recognise=_recognise,
    read=_read,
    times=always("none"),
)
