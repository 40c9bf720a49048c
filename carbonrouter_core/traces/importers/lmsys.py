"""LMSYS-Chat-1M: conversations with many models, with text, without times.

https://huggingface.co/datasets/lmsys/lmsys-chat-1m
"""

from __future__ import annotations

from carbonrouter_core.traces.importers.chats import Fields, importer

IMPORTER = importer(
    "lmsys",
    "LMSYS-Chat-1M",
    Fields(
        name="conversation_id", messages="conversation", role="role", text="content", timed=False
    ),
)
