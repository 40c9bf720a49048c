"""Choices of a page that outlast a visit to another one.

A widget's own state ends when its page is left; what was chosen is kept beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import streamlit as st

T = TypeVar("T")


def place(key: str) -> str:
    """Where a choice is kept while its widget is on no page."""
    return f"kept:{key}"


def restore(key: str, default: Any, allowed: Callable[[Any], bool]) -> None:
    """Fill a widget with what was chosen last, as far as it can still be chosen."""
    value = st.session_state.get(key, st.session_state.get(place(key), default))
    if isinstance(value, list):
        value = [item for item in value if allowed(item)] or default
    st.session_state[key] = value if isinstance(value, list) or allowed(value) else default


def keep(key: str, value: T) -> T:
    """Keep what was chosen in a widget."""
    st.session_state[place(key)] = value
    return value
