"""Colours, names and chart style: one place, so that a policy looks the same on every page.

Colours of policies and parts are those of the report (:mod:`carbonrouter_core.report.colours`).
Colour is never the only cue: bars carry their names, parts a hatch, differences a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import plotly.graph_objects as go
import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.report import colours as shared
from carbonrouter_core.routing.policies import PRACTICES, Policy

FONT = '"Source Sans", "Source Sans Pro", "Helvetica Neue", Arial, sans-serif'
"""Served by Streamlit itself or found on the machine: nothing is fetched."""


def colour(policy_id: str, *, dark: bool | None = None) -> str:
    """The colour of a policy on the page as it is shown, or on a light or a dark one."""
    return shared.policy_colour(policy_id, dark=palette().dark if dark is None else dark)


SCENARIO_COLOURS = (("#004488", "#7AA6D8"), ("#BB5566", "#EE99AA"), ("#997700", "#EECC66"))
"""Colours of scenarios side by side, on a light and a dark page: Paul Tol's "high contrast"
scheme, which no policy has."""


def scenario_colour(number: int) -> str:
    """The colour of the scenario in that place; they come round again, with another dash."""
    return SCENARIO_COLOURS[number % len(SCENARIO_COLOURS)][palette().dark]


def name(policy_id: str) -> str:
    """What a policy is called in charts and lists; its id for one that is no longer known."""
    known = _policy(policy_id)
    return known.label if known else policy_id


def short(policy_id: str) -> str:
    """What a policy is called where there is little room."""
    known = _policy(policy_id)
    return known.short if known else policy_id


def in_text(policy_id: str) -> str:
    """What a policy is called in a sentence."""
    known = _policy(policy_id)
    return known.in_text if known else policy_id


def _policy(policy_id: str) -> Policy | None:
    return {**core.POLICIES, **PRACTICES}.get(policy_id)


@dataclass(frozen=True)
class Part:
    """A part of a policy's carbon: its column, its words, colour and hatch."""

    column: str
    name: str
    gain: str
    """The noun for a saving of this part, after "less"."""
    light: str
    dark: str
    hatch: str = ""

    def fill(self, dark: bool) -> str:
        """The fill for a light or a dark page."""
        return self.dark if dark else self.light


def _part(column: str, gain: str, dark: str, hatch: str = "") -> Part:
    return Part(column, shared.PART_NAMES[column], gain, shared.PART_COLOURS[column], dark, hatch)


PARTS = (
    _part("recompute_g", "recomputed history", "#FF7A6B", "/"),
    _part("prompt_g", "reading of new prompts", "#7FA6C4"),
    _part("decode_g", "writing of answers", "#4F7896"),
    _part("host_g", "power of host servers", "#34506A"),
)
"""Parts of carbon in the order they are stacked. The three that every router pays are blues;
the one that only a move causes stands out and is hatched."""


@dataclass(frozen=True)
class Palette:
    """The neutral colours of a light or a dark page, in step with .streamlit/config.toml; text on
    background meets WCAG AA."""

    dark: bool
    background: str
    text: str
    muted: str
    grid: str
    axis: str
    sea: str
    land: tuple[int, int, int]
    coast: tuple[int, int, int]
    label: tuple[int, int, int]
    label_background: tuple[int, int, int, int]


LIGHT = Palette(
    dark=False,
    background="#FFFFFF",
    text="#15292E",
    muted="#52606D",
    grid="#E4E9ED",
    axis="#7B8794",
    sea="#DCE8EF",
    land=(246, 246, 242),
    coast=(172, 186, 196),
    label=(21, 41, 46),
    label_background=(255, 255, 255, 225),
)
DARK = Palette(
    dark=True,
    background="#0E1A1D",
    text="#E8F0EF",
    muted="#AEB9C4",
    grid="#24363A",
    axis="#7B8794",
    sea="#12242B",
    land=(45, 62, 68),
    coast=(86, 106, 114),
    label=(232, 240, 239),
    label_background=(14, 26, 29, 215),
)


def palette() -> Palette:
    """The palette of the theme the browser shows now; light where it is not known yet."""
    return DARK if getattr(st.context.theme, "type", None) == "dark" else LIGHT


# Carbon intensity: teal (clean) to brown (dirty), ColorBrewer "BrBG" (Brewer 2013), which is
# safe for red-green blindness. The ends are fixed, so that a colour means the same in every
# window and for every choice of regions.
INTENSITY_LOW_G_PER_KWH = 0.0
INTENSITY_HIGH_G_PER_KWH = 800.0
INTENSITY_COLOURS: tuple[tuple[int, int, int], ...] = (
    (1, 102, 94),
    (53, 151, 143),
    (199, 234, 229),
    (246, 232, 195),
    (191, 129, 45),
    (110, 62, 6),
)


def intensity_colour(g_per_kwh: float) -> tuple[int, int, int]:
    """The colour of a carbon intensity, linear between the steps of the scale."""
    span = INTENSITY_HIGH_G_PER_KWH - INTENSITY_LOW_G_PER_KWH
    place = min(max((g_per_kwh - INTENSITY_LOW_G_PER_KWH) / span, 0.0), 1.0)
    place *= len(INTENSITY_COLOURS) - 1
    low = min(int(place), len(INTENSITY_COLOURS) - 2)
    share = place - low
    pairs = zip(INTENSITY_COLOURS[low], INTENSITY_COLOURS[low + 1], strict=True)
    red, green, blue = (round(a + share * (b - a)) for a, b in pairs)
    return red, green, blue


def hex_to_rgb(colour: str) -> tuple[int, int, int]:
    """ "#009E73" as (0, 158, 115), for the map."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def rgb_to_hex(colour: Sequence[int]) -> str:
    """(0, 158, 115) as "#009E73", for HTML."""
    red, green, blue = colour[:3]
    return f"#{red:02X}{green:02X}{blue:02X}"


FONT_SIZE = 14
PRESENT_FONT_SIZE = 19


@lru_cache(maxsize=4)
def plotly_template(colours: Palette, *, present: bool = False) -> go.layout.Template:
    """The look of every chart, on a light or a dark page, on a screen or across a room."""
    size = PRESENT_FONT_SIZE if present else FONT_SIZE
    axis = {
        "gridcolor": colours.grid,
        "linecolor": colours.axis,
        "zerolinecolor": colours.axis,
        "tickcolor": colours.axis,
        "tickfont": {"size": size, "color": colours.text},
        "title": {"font": {"size": size, "color": colours.muted}, "standoff": 10},
        "automargin": True,
    }
    return go.layout.Template(
        layout={
            "font": {"family": FONT, "size": size, "color": colours.text},
            "title": {
                "font": {"size": size + 3, "color": colours.text, "weight": 600},
                "x": 0,
                "xref": "container",
                "y": 0.985,
                "yref": "container",
                "yanchor": "top",
                "subtitle": {"font": {"size": size - 1, "color": colours.muted}},
            },
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "xaxis": axis,
            "yaxis": axis,
            "legend": {
                "orientation": "h",
                "x": 0,
                "xanchor": "left",
                "font": {"size": size - 1, "color": colours.text},
            },
            "hoverlabel": {
                "bgcolor": colours.background,
                "bordercolor": colours.axis,
                "font": {"size": size - 1, "color": colours.text, "family": FONT},
            },
            "modebar": {
                "bgcolor": "rgba(0,0,0,0)",
                "color": colours.muted,
                "activecolor": colours.text,
            },
            "dragmode": False,
            "separators": ".,",
        }
    )
