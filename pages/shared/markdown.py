"""Text that Streamlit would read as Markdown."""

from __future__ import annotations

import re

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~:$])")


def plain(text: str) -> str:
    """``text`` with its Markdown characters escaped, so that a label shows it as it is."""
    return _MARKDOWN.sub(r"\\\1", text)
