"""The text of page Method: docs/method.md, so that formulas and limits are written once."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import streamlit as st

import carbonrouter_core as core

ROOT = Path(__file__).resolve().parents[3]
TEXT = ROOT / "docs" / "method.md"

_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_LINK_INSIDE = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")
_FORMULA = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)


@lru_cache(maxsize=1)
def sections() -> dict[str, str]:
    """The sections of the text by their titles, in order."""
    text = without_links_inside(_COMMENT.sub("", TEXT.read_text(encoding="utf-8")))
    _, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    return {title: body.strip() for title, _, body in (part.partition("\n") for part in parts)}


def without_links_inside(text: str) -> str:
    """Markdown whose links to files of the project are their words: the app serves no such file."""
    return _LINK_INSIDE.sub(r"\1", text)


def show(title: str) -> None:
    """Draw one section, its formulas set as such."""
    st.html(f'<h2 class="cr-title cr-section" id="{anchor(title)}">{title}</h2>')
    for i, part in enumerate(_FORMULA.split(sections()[title])):
        if i % 2:
            st.latex(part.strip())
        elif part.strip():
            st.markdown(part.strip())


def anchor(title: str) -> str:
    """Where a link within the page leads."""
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def contents() -> None:
    """Links to the sections."""
    links = (f'<a href="#{anchor(title)}">{title}</a>' for title in sections())
    st.html(f'<nav class="cr-contents" aria-label="On this page">{"".join(links)}</nav>')


def citation(scenario: core.Scenario, run_id: str) -> str:
    """The line that names a run, so that another can find or redo it."""
    days = f"{scenario.window_days} day{'' if scenario.window_days == 1 else 's'}"
    return (
        f"CarbonRouter {core.__version__}, scenario {scenario.name}, data set {scenario.trace}, "
        f"window from {scenario.window_start:%Y-%m-%d}, {days}, run {run_id}"
    )
