"""Choices of a page that outlast a visit to another one.

Streamlit forgets what a widget holds when its page is left; what was chosen is kept beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import streamlit as st

T = TypeVar("T")


def place(key: str) -> str:
    """Where a choice is kept while its widget is on no page."""
    return f"kept:{key}"


def restore(key: str, default: Any, allowed: Callable[[Any], bool]) -> Any:
    """Fill a widget with what was chosen last, as far as it can still be chosen."""
    value = st.session_state.get(key, st.session_state.get(place(key), default))
    if isinstance(value, list):
        value = [item for item in value if allowed(item)] or default
    st.session_state[key] = value if isinstance(value, list) or allowed(value) else default
    return st.session_state[key]


def keep(key: str, value: T) -> T:
    """Keep what was chosen in a widget."""
    st.session_state[place(key)] = value
    return value


def select(where: Any, label: str, options: Sequence[T], key: str, default: T, **widget: Any) -> T:
    """A select box; ``default``: what it holds at first, or when its choice is not offered."""
    restore(key, default, options.__contains__)
    chosen: T = where.selectbox(label, options, key=key, **widget)
    return keep(key, chosen)


def segments(where: Any, label: str, names: Mapping[str, str], key: str, default: str) -> str:
    """A row of buttons, of which one is chosen; ``names``: what is written on each."""
    restore(key, default, names.__contains__)
    chosen: str = where.segmented_control(
        label, list(names), format_func=names.__getitem__, key=key, required=True
    )
    return keep(key, chosen)
