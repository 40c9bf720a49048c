"""Whether the page is shown in a narrow window, which the browser alone knows."""

from __future__ import annotations

import streamlit as st

WIDEST_PX = 640
"""Windows up to this are narrow, as in the style sheets (40rem)."""

_probe = st.components.v2.component(
    "carbonrouter_narrow_window",
    js=f"""
export default function ({{ setStateValue }}) {{
  const query = matchMedia("(max-width: {WIDEST_PX}px)");
  const tell = () => setStateValue("narrow", query.matches);
  if (query.matches) tell();
  query.addEventListener("change", tell);
  return () => query.removeEventListener("change", tell);
}}
""",
)


def is_narrow(key: str) -> bool:
    """Whether the window is narrow; the first run of a page in a narrow one is followed by one
    that knows."""
    with st.container(key=f"narrow-{key}"):
        found = _probe(key=key, default={"narrow": False}, on_narrow_change=lambda: None)
    return bool(found.narrow)
