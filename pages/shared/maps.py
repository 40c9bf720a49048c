"""The map of sites and of sessions moving between them, drawn without any network.

The base map is our own land outline on a plain background: the inline style below has no
source, so the browser loads no tiles, fonts or glyphs.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
import pydeck as pdk
import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.words import figures as fmt
from pages.shared import theme

LAND = Path(__file__).resolve().parents[2] / "assets" / "land.geojson"
MAP_HEIGHT_PX, PRESENT_MAP_HEIGHT_PX = 420, 560
PHONE_PX = 640
MAP_WIDTHS_PX: dict[int | None, tuple[int, int]] = {
    PHONE_PX: (350, 350),
    1270: (400, 560),  # the bars stand below
    None: (530, 700),
}
"""Widths that the map surely has, and while presenting, in windows not wider than a step."""

SMALLEST_SITE_PX, LARGEST_SITE_PX = 5.0, 17.0
NARROWEST_ARC_PX, WIDEST_ARC_PX = 1.5, 9.0
ARC_STEPS = 36
ARC_BEND = 0.22
"""How far an arc leaves the straight line, as a share of its length."""
LABEL_PX, LABEL_GAP_PX = 14, 6
LABEL_WIDTH = 0.56
"""Width of a letter of the labels' font, on average, as a share of its size."""
MOST_COVERED = 0.1
"""Share of a label that another may cover before it is left out."""
CLOSEST_ZOOM = 5
"""Zoom of the view of a single site."""
HEADROOM_DEGREES = 12.0
"""Space left around the sites when the view is fitted to them."""


@dataclass(frozen=True)
class SiteMap:
    """A deck and what it shows in words, for those who cannot see it."""

    deck: pdk.Deck
    description: str
    legend_html: str


@lru_cache(maxsize=1)
def _land() -> str | list[Any]:
    """The land outline of assets/ as a data URL; nothing where it is missing, so that sites
    still show. The text stays the same between reruns, so the browser draws the land once.
    """
    if not LAND.is_file():
        return []
    return "data:application/json;base64," + base64.b64encode(LAND.read_bytes()).decode()


def _background_style(sea: str) -> str:
    """A map style with nothing to fetch: one plain colour."""
    style = {
        "version": 8,
        "sources": {},
        "layers": [{"id": "sea", "type": "background", "paint": {"background-color": sea}}],
    }
    return "data:application/json," + quote(json.dumps(style))


def mercator_y(latitude: float) -> float:
    """Latitude on the map's own scale, where arcs and angles look as they are drawn."""
    latitude = min(max(latitude, -84.0), 84.0)
    return math.degrees(math.log(math.tan(math.pi / 4 + math.radians(latitude) / 2)))


def _latitude(mercator_y: float) -> float:
    return math.degrees(2 * math.atan(math.exp(math.radians(mercator_y))) - math.pi / 2)


def _arc(start: tuple[float, float], end: tuple[float, float]) -> list[list[float]]:
    """A bent line from ``start`` to ``end`` (longitude, latitude).

    It bends to its own left, so that the way there and the way back are two lines.
    """
    (x0, y0), (x1, y1) = (start[0], mercator_y(start[1])), (end[0], mercator_y(end[1]))
    # The control point of a quadratic Bezier curve: twice the bend away from the middle.
    cx = (x0 + x1) / 2 - 2 * ARC_BEND * (y1 - y0)
    cy = (y0 + y1) / 2 + 2 * ARC_BEND * (x1 - x0)
    points = []
    for step in range(ARC_STEPS + 1):
        t = step / ARC_STEPS
        x = (1 - t) ** 2 * x0 + 2 * t * (1 - t) * cx + t**2 * x1
        y = (1 - t) ** 2 * y0 + 2 * t * (1 - t) * cy + t**2 * y1
        points.append([round(x, 3), round(_latitude(y), 3)])
    return points


def _arrow(path: list[list[float]], size_degrees: float) -> list[list[float]]:
    """A triangle on the middle of ``path``, pointing along it."""
    middle = len(path) // 2
    (x0, y0), (x1, y1) = path[middle - 1], path[middle + 1]
    dx, dy = x1 - x0, mercator_y(y1) - mercator_y(y0)
    length = math.hypot(dx, dy) or 1.0
    dx, dy = dx / length, dy / length
    x, y = path[middle][0], mercator_y(path[middle][1])
    corners = (
        (x + dx * size_degrees, y + dy * size_degrees),
        (x - dx * size_degrees - dy * size_degrees, y - dy * size_degrees + dx * size_degrees),
        (x - dx * size_degrees + dy * size_degrees, y - dy * size_degrees - dx * size_degrees),
    )
    return [[round(a, 3), round(_latitude(b), 3)] for a, b in corners]


def _narrowest_px(present: bool, window_px: int | None) -> int:
    """A width the map surely has here; the browser fits no view by itself. A phone says with its
    first request that it is one.
    """
    if "Mobile" in (st.context.headers.get("User-Agent") or ""):
        window_px = PHONE_PX
    return MAP_WIDTHS_PX[window_px][present]


@dataclass(frozen=True)
class _View:
    """What part of the world the map shows; its middle and its scale."""

    longitude: float
    mercator_y: float
    degrees_per_px: float
    width_px: int
    height_px: int

    def state(self) -> pdk.ViewState:
        """The same for deck.gl: at zoom z the world, 360 degrees, is 512 * 2**z pixels wide."""
        return pdk.ViewState(
            longitude=round(self.longitude, 3),
            latitude=round(_latitude(self.mercator_y), 3),
            zoom=round(math.log2(360 / (512 * self.degrees_per_px)), 2),
            min_zoom=-1,
            max_zoom=CLOSEST_ZOOM + 1,
            pitch=0,
        )


def _view(sites: pd.DataFrame, width_px: int, height_px: int) -> _View:
    """The view that holds all sites at this size."""
    west, east = float(sites["longitude"].min()), float(sites["longitude"].max())
    south = mercator_y(max(float(sites["latitude"].min()) - HEADROOM_DEGREES, -70))
    north = mercator_y(min(float(sites["latitude"].max()) + HEADROOM_DEGREES, 78))
    degrees_per_px = max(
        (east - west + 2 * HEADROOM_DEGREES) / width_px,
        (north - south) / height_px,
        360 / (512 * 2**CLOSEST_ZOOM),
    )
    return _View((west + east) / 2, (south + north) / 2, degrees_per_px, width_px, height_px)


def _label_places(
    served: pd.DataFrame, radii_px: list[float], size_px: float, view: _View
) -> list[tuple[str, float] | None]:
    """For each site, the anchor of its label and how many pixels below the site it stands.

    Labels take their place one after the other, the busiest site first: the place that covers
    least of other sites, of labels that stand already, and of what is outside the map. None
    where there is no room: the site is named when it is pointed at.
    """
    sites_px = [
        (
            (row.longitude - view.longitude) / view.degrees_per_px,
            (view.mercator_y - mercator_y(row.latitude)) / view.degrees_per_px,
        )
        for row in served.itertuples()
    ]
    dots = [
        (x - radius, y - radius, x + radius, y + radius)
        for (x, y), radius in zip(sites_px, radii_px, strict=True)
    ]
    half_width, half_height = view.width_px / 2, view.height_px / 2
    taken: list[tuple[float, float, float, float]] = []
    places: list[tuple[str, float] | None] = []
    for index, row in enumerate(served.itertuples()):
        (x, y), gap = sites_px[index], radii_px[index] + LABEL_GAP_PX
        width = LABEL_WIDTH * size_px * max(len(line) for line in _label(row).split("\n"))
        height = 2.6 * size_px
        others = dots[:index] + dots[index + 1 :] + taken
        best: tuple[float, str, float, tuple[float, float, float, float]] | None = None
        for drop in (0.0, -height / 2, height / 2):
            for anchor, left in (("start", x + gap), ("end", x - gap - width)):
                box = (left, y + drop - height / 2, left + width, y + drop + height / 2)
                outside = width * height - _overlap(
                    box, (-half_width, -half_height, half_width, half_height)
                )
                cost = outside + sum(_overlap(box, other) for other in others) + abs(drop)
                if best is None or cost < best[0]:
                    best = (cost, anchor, drop, box)
        if best is None or sum(_overlap(best[3], other) for other in taken) > (
            MOST_COVERED * width * height
        ):
            places.append(None)
        else:
            taken.append(best[3])
            places.append((best[1], best[2]))
    return places


def _overlap(
    first: tuple[float, float, float, float], second: tuple[float, float, float, float]
) -> float:
    """Area that two boxes (left, top, right, bottom) share."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    return max(width, 0.0) * max(height, 0.0)


def _label(row: Any) -> str:
    return f"{row.city}\n{fmt.number(row.mean_intensity_g_per_kwh)} g/kWh"


def site_map(
    sites: pd.DataFrame,
    traffic: pd.DataFrame,
    moves: pd.DataFrame,
    move_kinds: Mapping[str, int],
    *,
    policy_id: str,
    mass: fmt.Mass,
    users: pd.DataFrame | None = None,
    present: bool = False,
    window_px: int | None = None,
) -> SiteMap:
    """Sites coloured by mean carbon intensity and sized by turns served, with the moves of
    sessions between regions under one policy.

    ``users`` (from_region, to_region, turns), when given, adds thin lines from where users are
    to where their turns are served. ``window_px``: see :data:`MAP_WIDTHS_PX`.
    """
    colours = theme.palette()
    served = sites.merge(traffic, on="region", how="left").fillna({"turns": 0, "carbon_g": 0.0})
    served = served.sort_values("turns", ascending=False, kind="stable").reset_index(drop=True)
    all_turns = served["turns"].sum()
    served["share_percent"] = 100 * served["turns"] / all_turns if all_turns else 0.0
    height = PRESENT_MAP_HEIGHT_PX if present else MAP_HEIGHT_PX
    view = _view(served, _narrowest_px(present, window_px), height)
    place = {row.region: (float(row.longitude), float(row.latitude)) for row in served.itertuples()}
    city = dict(zip(served["region"], served["city"], strict=True))
    layers = [
        pdk.Layer(
            "GeoJsonLayer",
            id="land",
            data=_land(),
            filled=True,
            stroked=True,
            get_fill_color=list(colours.land),
            get_line_color=list(colours.coast),
            line_width_min_pixels=0.7,
            pickable=False,
        )
    ]
    if users is not None:
        layers.append(_user_layer(users, place, city, colours))
    flows = _flows(moves, place, city)
    layers += _move_layers(flows, policy_id, view.degrees_per_px)
    layers += _site_layers(served, view, mass, colours, present)
    deck = pdk.Deck(
        layers=layers,
        initial_view_state=view.state(),
        map_provider="carto",
        map_style=_background_style(colours.sea),
        tooltip={
            "html": "{tip}",
            "style": {
                "backgroundColor": colours.background,
                "color": colours.text,
                "border": f"1px solid {colours.axis}",
                "borderRadius": "6px",
                "fontFamily": theme.FONT,
                "fontSize": "14px",
            },
        },
    )
    return SiteMap(
        deck, _description(served, flows, move_kinds, policy_id), _legend(policy_id, users)
    )


def _flows(
    moves: pd.DataFrame, place: dict[str, tuple[float, float]], city: dict[str, str]
) -> list[dict[str, Any]]:
    """Moves between two different regions, the busiest first, with their drawing."""
    between = moves[(moves["from_region"] != moves["to_region"]) & (moves["moves"] > 0)]
    between = between.sort_values("moves", ascending=False, kind="stable")
    busiest = float(between["moves"].max()) if len(between) else 1.0
    flows = []
    for row in between.itertuples():
        if row.from_region not in place or row.to_region not in place:
            continue
        share = float(row.moves) / busiest
        flows.append(
            {
                "from": city[row.from_region],
                "to": city[row.to_region],
                "moves": int(row.moves),
                "path": _arc(place[row.from_region], place[row.to_region]),
                # Width by count: a line's area is what the eye compares, so not by its root.
                "width": NARROWEST_ARC_PX + (WIDEST_ARC_PX - NARROWEST_ARC_PX) * share,
                "tip": (
                    f"<b>{escape(city[row.from_region])} \N{RIGHTWARDS ARROW} "
                    f"{escape(city[row.to_region])}</b><br>{fmt.plural(row.moves, 'move')}"
                    f"<br>{fmt.number(row.recomputed_tokens)} tokens recomputed"
                ),
            }
        )
    return flows


def _move_layers(
    flows: list[dict[str, Any]], policy_id: str, degrees_per_px: float
) -> list[pdk.Layer]:
    colour = [*theme.hex_to_rgb(theme.colour(policy_id)), 225]
    arrows = [
        {
            "polygon": _arrow(flow["path"], degrees_per_px * (4 + flow["width"])),
            "tip": flow["tip"],
        }
        for flow in flows
    ]
    return [
        pdk.Layer(
            "PathLayer",
            id="moves",
            data=flows,
            get_path="path",
            get_color=colour,
            get_width="width",
            width_units=pdk.types.String("pixels"),
            cap_rounded=True,
            joint_rounded=True,
            pickable=True,
            auto_highlight=True,
        ),
        pdk.Layer(
            "PolygonLayer",
            id="move-directions",
            data=arrows,
            get_polygon="polygon",
            get_fill_color=colour,
            stroked=False,
            pickable=True,
        ),
    ]


def _user_layer(
    users: pd.DataFrame,
    place: dict[str, tuple[float, float]],
    city: dict[str, str],
    colours: theme.Palette,
) -> pdk.Layer:
    away = users[
        (users["from_region"] != users["to_region"])
        & users["from_region"].isin(list(place))
        & users["to_region"].isin(list(place))
        & (users["turns"] > 0)
    ]
    busiest = float(away["turns"].max()) if len(away) else 1.0
    rows = [
        {
            "path": _arc(place[row.from_region], place[row.to_region]),
            "width": 1.0 + 3.0 * float(row.turns) / busiest,
            "tip": (
                f"Users near {escape(city[row.from_region])}: {fmt.plural(row.turns, 'turn')} "
                f"served in {escape(city[row.to_region])}"
            ),
        }
        for row in away.itertuples()
    ]
    return pdk.Layer(
        "PathLayer",
        id="users",
        data=rows,
        get_path="path",
        get_color=[*theme.hex_to_rgb(colours.muted), 130],
        get_width="width",
        width_units=pdk.types.String("pixels"),
        pickable=True,
    )


def _site_layers(
    served: pd.DataFrame,
    view: _View,
    mass: fmt.Mass,
    colours: theme.Palette,
    present: bool,
) -> list[pdk.Layer]:
    grow = 1.3 if present else 1.0
    most = float(served["turns"].max()) or 1.0
    # Area by turns, so the radius goes by the root.
    radii_px = [
        grow * (SMALLEST_SITE_PX + (LARGEST_SITE_PX - SMALLEST_SITE_PX) * math.sqrt(turns / most))
        for turns in served["turns"]
    ]
    size_px = LABEL_PX * grow
    places = _label_places(served, radii_px, size_px, view)
    rows = []
    for row, radius, place in zip(served.itertuples(), radii_px, places, strict=True):
        anchor, drop = place or ("start", 0.0)
        assumed = " (assumed)" if row.pue_assumed else ""
        rows.append(
            {
                "position": [float(row.longitude), float(row.latitude)],
                "radius": radius,
                "colour": [*theme.intensity_colour(row.mean_intensity_g_per_kwh), 255],
                "label": _label(row) if place else "",
                "anchor": anchor,
                "offset": [(radius + LABEL_GAP_PX) * (-1 if anchor == "end" else 1), drop],
                "tip": (
                    f"<b>{escape(row.city)}</b> (zone {escape(row.zone)})"
                    f"<br>{fmt.number(row.mean_intensity_g_per_kwh)} gCO2e/kWh on average"
                    f"<br>PUE {fmt.number(row.pue, 2)}{assumed}"
                    f"<br>{fmt.number(row.turns)} turns, {fmt.percent(row.share_percent)}"
                    f"<br>{mass.text(row.carbon_g)} CO2e"
                ),
            }
        )
    return [
        pdk.Layer(
            "ScatterplotLayer",
            id="sites",
            data=rows,
            get_position="position",
            get_radius="radius",
            radius_units=pdk.types.String("pixels"),
            get_fill_color="colour",
            get_line_color=list(colours.label),
            get_line_width=1.6,
            line_width_units=pdk.types.String("pixels"),
            stroked=True,
            pickable=True,
        ),
        pdk.Layer(
            "TextLayer",
            id="site-labels",
            data=rows,
            get_position="position",
            get_text="label",
            get_size=size_px,
            get_color=list(colours.label),
            get_text_anchor="anchor",
            get_alignment_baseline=pdk.types.String("center"),
            get_pixel_offset="offset",
            font_family=pdk.types.String(theme.FONT),
            font_weight=600,
            character_set=pdk.types.String("auto"),
            background=True,
            get_background_color=list(colours.label_background),
            background_padding=[4, 2],
            pickable=False,
        ),
    ]


def _description(
    served: pd.DataFrame,
    flows: list[dict[str, Any]],
    move_kinds: Mapping[str, int],
    policy_id: str,
) -> str:
    """The map in a few sentences."""
    name = theme.name(policy_id)
    used = served[served["turns"] > 0]
    idle = [str(city) for city in served.loc[served["turns"] == 0, "city"]]
    if used.empty:
        return f"{name} serves no turn here."
    parts = [
        f"{fmt.percent(row.share_percent, 1 if row.share_percent < 10 else 0)} of turns in "
        f"{row.city} ({fmt.number(row.mean_intensity_g_per_kwh)} g/kWh)"
        for row in used.head(5).itertuples()
    ]
    if len(used) > 5:
        other_percent = 100 - used.head(5)["share_percent"].sum()
        parts.append(f"{fmt.percent(other_percent)} in {len(used) - 5} other regions")
    text = f"{name} serves {fmt.joined(parts)}."
    if idle:
        text += f" {fmt.joined(idle)} {'serves' if len(idle) == 1 else 'serve'} no turn."
    moves = move_kinds["model"] + move_kinds["gpu"] + move_kinds["region_only"]
    if not moves:
        return f"{text} No session ever moves."
    kinds = [
        f"{fmt.number(move_kinds[kind])} to another {words}"
        for kind, words in (
            ("model", "model"),
            ("gpu", "GPU type of the same model"),
            ("region_only", "region only"),
        )
        if move_kinds[kind]
    ]
    text += f" Sessions move {fmt.plural(moves, 'time')}: {fmt.joined(kinds)}. "
    if not flows:
        return f"{text}None of them crosses from one region to another."
    first = flows[0]
    return (
        f"{text}{fmt.number(move_kinds['with_region'])} of them cross regions, most often from "
        f"{first['from']} to {first['to']} ({fmt.number(first['moves'])})."
    )


def _legend(policy_id: str, users: pd.DataFrame | None) -> str:
    """Colour scale, sizes and lines of the map, as HTML."""
    stops = ", ".join(theme.rgb_to_hex(colour) for colour in theme.INTENSITY_COLOURS)
    low, high = theme.INTENSITY_LOW_G_PER_KWH, theme.INTENSITY_HIGH_G_PER_KWH
    name, colour = theme.name(policy_id), theme.colour(policy_id)
    user_item = (
        '<span class="cr-legend-item"><i class="cr-legend-line cr-legend-users"></i>'
        "users to the site that serves them</span>"
        if users is not None
        else ""
    )
    return (
        '<div class="cr-legend" role="note" aria-label="Legend of the map">'
        '<span class="cr-legend-item">Mean carbon intensity'
        f'<span class="cr-legend-scale"><small>{low:.0f}</small>'
        f'<i style="background:linear-gradient(90deg, {stops})"></i>'
        f"<small>{high:.0f}+ gCO2e/kWh</small></span></span>"
        '<span class="cr-legend-item"><i class="cr-legend-dot cr-small"></i>'
        '<i class="cr-legend-dot"></i>few to many turns</span>'
        f'<span class="cr-legend-item"><i class="cr-legend-line" '
        f'style="background:{colour}"></i>sessions moved by {escape(name)}; '
        "the wider, the more</span>"
        f"{user_item}</div>"
    )


def user_flows(run: core.Comparison, policy_id: str) -> pd.DataFrame:
    """Turns from each region that users are in to each region that serves them:
    (from_region, to_region, turns).
    """
    placed, fleet = run.prepared.placed, run.prepared.deployments.fleet
    decisions = run.runs[policy_id].decisions
    served = decisions.served
    sites = [site.region for site in run.prepared.deployments.regions]
    to_region = fleet.region[decisions.deployment[served]]
    pairs = placed.user[served] * len(sites) + to_region
    counts = np.bincount(pairs, minlength=len(placed.user_regions) * len(sites))
    return pd.DataFrame(
        {
            "from_region": np.repeat(placed.user_regions, len(sites)),
            "to_region": np.tile(sites, len(placed.user_regions)),
            "turns": counts,
        }
    )


def show(drawn: SiteMap, *, key: str, present: bool = False) -> None:
    """Put the map on the page, with its legend and its content in words below."""
    st.pydeck_chart(
        drawn.deck,
        key=key,
        height=PRESENT_MAP_HEIGHT_PX if present else MAP_HEIGHT_PX,
        # Kept the same while figures change, so that the view is not reset; they are below.
        alt="World map of the sites. What it shows stands in words below it.",
    )
    st.html(drawn.legend_html)
    st.html(f'<p class="cr-note">{escape(drawn.description)}</p>')
