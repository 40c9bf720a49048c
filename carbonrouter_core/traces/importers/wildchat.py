"""WildChat: conversations with ChatGPT, with text and times (https://wildchat.allen.ai)."""

from __future__ import annotations

from carbonrouter_core.traces.importers.chats import Fields, importer

IMPORTER = importer(
    "wildchat",
    "WildChat",
    Fields(
        name="conversation_hash", messages="conversation", role="role", text="content", timed=True
    ),
)
