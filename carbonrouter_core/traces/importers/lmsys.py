"""LMSYS-Chat-1M: conversations with many models, with text, without times.

https://huggingface.co/datasets/lmsys/lmsys-chat-1m
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from carbonrouter_core.traces.importers.base import Importer, Reading, always
from carbonrouter_core.traces.importers.chats import has_chat, read_chats
from carbonrouter_core.traces.sources import Source


def _recognise(source: Source) -> str | None:
    if not has_chat(source, "conversation_id"):
        return None
    return "its records carry conversation_id and a conversation of roles and content"


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    return read_chats(source, reading, "conversation_id", timed=False)


IMPORTER = Importer(
    id="lmsys",
    label="LMSYS-Chat-1M",
    sessions="a record is a session; prompts without an answer are no turns; the text is not "
    "stored",
    recognise=_recognise,
    read=_read,
    times=always("none"),
    turn_is_key=True,
)
