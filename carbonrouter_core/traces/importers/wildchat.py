"""WildChat: conversations with ChatGPT, with text and times (https://wildchat.allen.ai)."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from carbonrouter_core.traces.importers.base import Importer, Reading, always
from carbonrouter_core.traces.importers.chats import has_chat, read_chats
from carbonrouter_core.traces.sources import Source


def _recognise(source: Source) -> str | None:
    if not has_chat(source, "conversation_hash"):
        return None
    return "its records carry conversation_hash and a conversation of roles and content"


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    return read_chats(source, reading, "conversation_hash", timed=True)


IMPORTER = Importer(
    id="wildchat",
    label="WildChat",
    sessions="a record is a session; prompts without an answer are no turns; the text is not "
    "stored",
    recognise=_recognise,
    read=_read,
    times=always("start_utc"),
    turn_is_key=True,
)
