"""WildChat: conversations with ChatGPT, with text and times.

https://huggingface.co/datasets/allenai/WildChat-1M. ``conversation_hash`` is no unique key, and
the time of a record is that of its last turn.
"""

from __future__ import annotations

from carbonrouter_core.traces.importers.chats import Fields, importer

IMPORTER = importer(
    "wildchat",
    "WildChat",
    Fields(
        name="conversation_hash", messages="conversation", role="role", text="content", timed=True
    ),
    record_is_session=True,
)
