"""The text of messages: contents are text, lists of parts, or calls of tools."""

from __future__ import annotations

import json
from typing import Any

_TEXT_KEYS = ("text", "content", "parts", "thinking", "refusal", "transcript", "result")
"""Where a part holds its text, or further parts."""
_CALLS = ("tool_calls", "function_call")
"""Where a message holds the calls of tools that it asks for."""
MOST_LEVELS = 8
"""Parts within parts that are looked into."""


def text_of(message: dict[str, Any], key: str) -> tuple[str | None, tuple[str, ...]]:
    """The text of a message whose content stands under ``key``.

    Returns
    -------
    tuple
        The text, with the names and arguments of tools that are called, None where there is
        none; and the kinds of the parts that have no text, such as ``image_url``.
    """
    content = message.get(key)
    texts: list[str] = []
    others: list[str] = []
    if content is not None:
        _add(content, texts, others, 0)
    for name in _CALLS:
        calls = message.get(name)
        for call in calls if isinstance(calls, list) else [calls]:
            if isinstance(call, dict):
                texts.append(_call(call))
    return ("\n".join(texts) if texts else None), tuple(others)


def _add(content: Any, texts: list[str], others: list[str], level: int) -> None:
    if isinstance(content, str):
        texts.append(content)
        return
    if isinstance(content, list):
        for part in content if level < MOST_LEVELS else ():
            _add(part, texts, others, level + 1)
        return
    if not isinstance(content, dict):
        others.append("number" if isinstance(content, int | float) else "empty part")
        return
    kind = content.get("type") or content.get("content_type")
    if kind in ("tool_use", "server_tool_use", "function_call"):
        texts.append(_call(content))
        return
    given = [content[key] for key in _TEXT_KEYS if isinstance(content.get(key), str | list)]
    if given and level < MOST_LEVELS:
        _add(given[0], texts, others, level + 1)
    else:
        others.append(str(kind or "part without a type")[:40])


def _call(call: dict[str, Any]) -> str:
    """The call of a tool as the model writes it: name and arguments."""
    inner = call.get("function")
    function = inner if isinstance(inner, dict) else call
    arguments = function.get("arguments", function.get("input"))
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return f"{function.get('name') or ''} {'' if arguments is None else written}".strip()
