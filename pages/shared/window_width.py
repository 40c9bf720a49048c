"""How wide the window is, which the browser alone knows."""

from __future__ import annotations

import streamlit as st

STEPS_PX = (640, 1270)
"""Widths at which the layout changes, as in the style sheets."""

_probe = st.components.v2.component(
    "carbonrouter_window_width",
    js=f"""
export default function ({{ setStateValue }}) {{
  const steps = {list(STEPS_PX)};
  const queries = steps.map((px) => matchMedia(`(max-width: ${{px}}px)`));
  const widest = () => steps.find((_, i) => queries[i].matches) ?? 0;
  const tell = () => setStateValue("widest", widest());
  if (widest()) tell();
  queries.forEach((one) => one.addEventListener("change", tell));
  return () => queries.forEach((one) => one.removeEventListener("change", tell));
}}
""",
)


def widest_px(key: str) -> int | None:
    """The least of :data:`STEPS_PX` that the window is not wider than; None: wider than all.

    The first run of a page in a narrow window is followed by one that knows.
    """
    with st.container(key=f"narrow-{key}"):
        window = _probe(key=key, default={"widest": 0}, on_widest_change=lambda: None)
    return int(window.widest) or None
