"""Figures in words, as everywhere (:mod:`carbonrouter_core.words`), and text for labels."""

from __future__ import annotations

import re

from carbonrouter_core.words.figures import (
    MINUS,
    NARROW,
    NOT_AVAILABLE,
    SAME_PERCENT,
    Mass,
    between,
    change_percent,
    duration,
    energy,
    exact,
    joined,
    known,
    less_or_more,
    minutes,
    number,
    percent,
    plural,
    significant,
)

__all__ = [
    "MINUS",
    "NARROW",
    "NOT_AVAILABLE",
    "SAME_PERCENT",
    "Mass",
    "between",
    "change_percent",
    "duration",
    "energy",
    "exact",
    "joined",
    "known",
    "less_or_more",
    "minutes",
    "number",
    "percent",
    "plain",
    "plural",
    "sentence_case",
    "significant",
]

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~:$])")


def plain(text: str) -> str:
    """``text`` for a label, so that nothing in it is taken for Markdown."""
    return _MARKDOWN.sub(r"\\\1", text)


def sentence_case(text: str) -> str:
    """``text`` with its first letter large and the others as they are."""
    return text[:1].upper() + text[1:]
