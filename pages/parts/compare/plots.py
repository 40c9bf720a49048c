"""Charts of page Compare: trade-offs, waits, breakdowns and fairness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from carbonrouter_core.results.tradeoffs import SHARES
from carbonrouter_core.words import figures as fmt
from pages.parts.compare.entries import Entry, Scale
from pages.shared import charts, state, theme
from pages.shared.charts import Chart

HEIGHT = 400
LEGEND = {
    "y": 0,
    "yref": "container",
    "yanchor": "bottom",
    "traceorder": "normal",
    "itemclick": False,
    "itemdoubleclick": False,
}
LETTER_PX = 7.2
"""About the width of a letter of a label."""
PLOT_PX = (430, 250)
"""About the size that a trade-off is drawn in, to place its labels."""
DRAWN_SHARES = (0.01, 0.999)
"""Waits are drawn from and to these shares of turns; a single one may take minutes."""
LEAST_SPAN = 0.1
"""An axis spans at least this share of its values."""


# --- Trade-offs -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """A figure that carbon is traded for."""

    title: str
    words: str
    value: Callable[[Entry], float]
    text: Callable[[float], str]
    lower_is_better: bool


LATENCY = Axis(
    "Mean turn latency (s)",
    "latency",
    lambda entry: entry.results.figures["latency_ms_mean"] / 1000,
    lambda value: f"{fmt.significant(value)}{fmt.NARROW_SPACE}s",
    True,
)
QUALITY = Axis(
    "Predicted quality (%)",
    "quality",
    lambda entry: 100 * entry.results.figures["quality_mean"],
    fmt.percent,
    False,
)


def trade_off(
    shown: Sequence[Entry],
    on_front: Sequence[bool],
    axis: Axis,
    scale: Scale,
    *,
    present: bool = False,
) -> Chart:
    """Carbon against one other figure; filled marks are on the Pareto front of all three."""
    colours = theme.palette()
    x = [scale.mass.value(scale.grams(entry, entry.results.figures["carbon_g"])) for entry in shown]
    y = [axis.value(entry) for entry in shown]
    figure = go.Figure()
    places = _label_places(x, y, [entry.short for entry in shown], present)
    for entry, on, here, there, place in zip(shown, on_front, x, y, places, strict=True):
        figure.add_scatter(
            x=[here],
            y=[there],
            mode="markers+text",
            marker={
                "symbol": entry.symbol if on else f"{entry.symbol}-open",
                "size": 19 if on else 14,
                "color": entry.colour,
                "line": {"width": 2, "color": colours.background if on else entry.colour},
            },
            text=[("<b>{}</b>" if on else "{}").format(escape(entry.short))],
            textposition=place,
            textfont={"color": colours.text},
            hovertemplate=(
                f"{escape(entry.name)}<br>{scale.mass.text(here / scale.mass.scale.factor)} CO2e"
                f"<br>{axis.text(there)}<extra></extra>"
            ),
            showlegend=False,
            cliponaxis=False,
        )
    better = "down" if axis.lower_is_better else "up"
    charts.lay_out(
        figure,
        title=f"Carbon against {axis.words}",
        subtitle=f"Better: left and {better}. Filled: no other beats it on all three",
        height=HEIGHT,
        present=present,
    )
    figure.update_xaxes(title_text=scale.unit, range=_padded(x, 0.24), zeroline=False)
    figure.update_yaxes(title_text=axis.title, range=_padded(y, 0.18), zeroline=False)
    parts = [
        f"{entry.name}: {scale.mass.text(scale.grams(entry, entry.results.figures['carbon_g']))}, "
        f"{axis.text(value)}" + (", on the front" if on else "")
        for entry, on, value in zip(shown, on_front, y, strict=True)
    ]
    return Chart(
        figure,
        alt=f"Scatter chart of carbon against {axis.words}. {'; '.join(parts)}.",
        file_name=charts.file_name("carbonrouter carbon against", axis.words),
    )


def _padded(values: Sequence[float], share: float) -> list[float]:
    """Ends of an axis around ``values``; small differences do not fill the axis."""
    known = [value for value in values if fmt.known(value)] or [0.0]
    low, high = min(known), max(known)
    span = max(high - low, LEAST_SPAN * abs(high)) or 1.0
    margin = (span - (high - low)) / 2 + share * span
    return [low - margin, high + margin]


Box = tuple[float, float, float, float]
"""Left, top, right and bottom, px."""
PLACES = {
    "top center": (0.0, -1.0),
    "bottom center": (0.0, 1.0),
    "middle right": (1.0, 0.0),
    "middle left": (-1.0, 0.0),
    "top right": (1.0, -1.0),
    "bottom right": (1.0, 1.0),
    "top left": (-1.0, -1.0),
    "bottom left": (-1.0, 1.0),
}
"""Where a label can stand: plotly's word, and the side of the mark."""


def _label_places(
    x: Sequence[float], y: Sequence[float], names: Sequence[str], present: bool
) -> list[str]:
    """For each label the place where it covers least of what stands already."""
    grow = charts.PRESENT_GROWTH if present else 1.0
    (left, right), (low, high) = _padded(x, 0.24), _padded(y, 0.18)
    width, height = PLOT_PX
    marks = [
        (width * (a - left) / (right - left), height * (high - b) / (high - low))
        for a, b in zip(x, y, strict=True)
    ]
    taken = [(a - 10, b - 10, a + 10, b + 10) for a, b in marks if fmt.known(a) and fmt.known(b)]
    chosen = []
    for (a, b), name in zip(marks, names, strict=True):
        half_w, half_h = LETTER_PX * grow * len(name) / 2, 9.0 * grow

        def cost(
            place: str,
            a: float = a,
            b: float = b,
            half_w: float = half_w,
            half_h: float = half_h,
        ) -> float:
            return sum(_overlap(_box(place, a, b, half_w, half_h), other) for other in taken) + (
                _outside(_box(place, a, b, half_w, half_h))
            )

        best = min(PLACES, key=cost)
        taken.append(_box(best, a, b, half_w, half_h))
        chosen.append(best)
    return chosen


def _box(place: str, a: float, b: float, half_w: float, half_h: float) -> Box:
    dx, dy = PLACES[place]
    x, y = a + dx * (half_w + 8 if dy == 0 else half_w + 4), b + dy * (half_h + 10)
    return x - half_w, y - half_h, x + half_w, y + half_h


def _overlap(box: Box, other: Box) -> float:
    width = min(box[2], other[2]) - max(box[0], other[0])
    height = min(box[3], other[3]) - max(box[1], other[1])
    return max(width, 0.0) * max(height, 0.0)


def _outside(box: Box) -> float:
    inside = _overlap(box, (0.0, 0.0, *PLOT_PX))
    return 2 * ((box[2] - box[0]) * (box[3] - box[1]) - inside)


# --- Waits ------------------------------------------------------------------------------------


WAIT_NAMES = {"ttft_ms": "time to first token", "latency_ms": "turn latency"}


def waits(shown: Sequence[Entry], wait: str, *, present: bool = False) -> Chart:
    """Share of turns that are answered within a time, a line each."""
    colours = theme.palette()
    figure = go.Figure()
    drawn = (DRAWN_SHARES[0] <= SHARES) & (DRAWN_SHARES[1] >= SHARES)
    parts = []
    for entry in shown:
        values = entry.results.waits[wait]
        if not len(values):
            continue
        figure.add_scatter(
            x=values[drawn] / 1000,
            y=100 * SHARES[drawn],
            mode="lines",
            name=escape(entry.short),
            line={"color": entry.colour, "dash": entry.dash, "width": 3},
            hovertemplate=(
                f"{escape(entry.name)}<br>%{{y:.1f}} % within %{{x:.3~g}} s<extra></extra>"
            ),
        )
        half, most = (values[np.searchsorted(SHARES, share)] for share in (0.5, 0.95))
        parts.append(f"{entry.name}: half within {fmt.duration(half)}, 95 % {fmt.duration(most)}")
    figure.add_hline(y=95, line={"color": colours.axis, "width": 1.5, "dash": "dot"})
    figure.add_annotation(
        x=0, xref="paper", y=95, text="95 of 100 turns", showarrow=False, xanchor="left", yshift=-10
    )
    charts.lay_out(
        figure,
        title=f"How long users wait: {WAIT_NAMES[wait]}",
        subtitle="Further left is faster; estimates without queueing",
        height=HEIGHT + 40,
        present=present,
    )
    figure.update_layout(legend=LEGEND, margin={"b": 150 if present else 110})
    figure.update_xaxes(
        title_text=f"{WAIT_NAMES[wait].capitalize()} (s, each step ten times longer)",
        type="log",
        dtick=1,
        minor={"dtick": "D1", "showgrid": True, "gridcolor": colours.grid},
    )
    figure.update_yaxes(title_text="Turns answered within it (%)", range=[0, 101])
    return Chart(
        figure,
        alt=f"Line chart of the share of turns by {WAIT_NAMES[wait]}. {'; '.join(parts)}.",
        file_name=charts.file_name("carbonrouter", WAIT_NAMES[wait]),
    )


# --- Breakdown --------------------------------------------------------------------------------


def breakdown(
    ours: Entry,
    theirs: Entry,
    dimension: str,
    label: str,
    scale: Scale,
    *,
    present: bool = False,
) -> Chart:
    """Carbon of two entries group by group, with the signed difference at each."""
    mine, other = (
        entry.results.by[dimension]["carbon_g"].map(
            lambda grams, entry=entry: scale.mass.value(scale.grams(entry, grams))
        )
        for entry in (ours, theirs)
    )
    names = [*theirs.results.by[dimension].index]
    names += [name for name in mine.index if name not in names]
    mine, other = mine.reindex(names, fill_value=0.0), other.reindex(names, fill_value=0.0)
    words = [escape(state.place(name)) for name in names]
    places = list(range(len(names)))
    across = dimension == "hour_utc"  # a day is read from left to right
    figure = go.Figure()
    for entry, values, pattern in ((ours, mine, ""), (theirs, other, "/")):
        figure.add_bar(
            orientation="v" if across else "h",
            x=places if across else values,
            y=values if across else places,
            name=escape(entry.name),
            marker={
                "color": entry.colour,
                "pattern": {
                    "shape": pattern,
                    "fillmode": "overlay",
                    "fgcolor": theme.palette().background,
                    "fgopacity": 0.75,
                    "size": 7,
                    "solidity": 0.25,
                },
            },
            customdata=words,
            hovertemplate=(
                f"%{{customdata}}<br>{escape(entry.name)}: "
                f"%{{{'y' if across else 'x'}:,.3~g}} {scale.mass.unit}<extra></extra>"
            ),
        )
    top = float(max(mine.max(), other.max(), 0.0)) or 1.0
    if not across:
        for place, a, b in zip(places, mine, other, strict=True):
            figure.add_annotation(
                x=max(a, b),
                y=place,
                text=f"<b>{signed(a - b)}</b>",
                showarrow=False,
                xanchor="left",
                xshift=6,
            )
    total = float(mine.sum() - other.sum())
    charts.lay_out(
        figure,
        title=f"Where the difference lies: {label}",
        subtitle=f"In all {signed(total)}{fmt.NARROW_SPACE}{scale.mass.unit}; minus: "
        f"{escape(ours.short)} emits less",
        height=320 if across else 165 + 46 * len(names),
        present=present,
    )
    figure.update_layout(barmode="group", legend=LEGEND, margin={"b": 120 if present else 85})
    group = {"tickvals": places, "ticktext": words, "showgrid": False, "title_text": label}
    value = {"title_text": scale.unit, "range": [0, top * (1.05 if across else 1.22)]}
    figure.update_xaxes(**(group if across else value))
    figure.update_yaxes(**(value if across else group | {"autorange": "reversed"}))
    if across:
        figure.update_xaxes(tickvals=places[::3], ticktext=words[::3])
    parts = [
        f"{word}: {signed(a - b)}" for word, a, b in zip(words, mine, other, strict=True) if a or b
    ]
    return Chart(
        figure,
        alt=f"Bar chart of carbon by {label.lower()}, {ours.name} less {theirs.name}, in "
        f"{scale.mass.unit}. {'; '.join(parts)}.",
        file_name=charts.file_name("carbonrouter carbon by", label),
    )


def signed(value: float) -> str:
    """A difference with its sign, three significant digits."""
    if not fmt.known(value) or value == 0:
        return "0" if value == 0 else fmt.NOT_AVAILABLE
    return (fmt.MINUS if value < 0 else "+") + fmt.significant(abs(value))


# --- Fairness ---------------------------------------------------------------------------------


def fairness(
    shown: Sequence[Entry], column: str, title: str, unit: str, times: float, *, present: bool
) -> Chart:
    """What users of each region get: a mark an entry, so that uneven rows are seen."""
    regions = list(dict.fromkeys(n for entry in shown for n in entry.results.fairness.index))
    words = [escape(state.place(name)) for name in regions]
    figure = go.Figure()
    parts = []
    for entry in shown:
        values = times * entry.results.fairness[column].reindex(regions)
        figure.add_scatter(
            x=values,
            y=words,
            mode="markers",
            name=escape(entry.short),
            marker={"symbol": entry.symbol, "size": 15, "color": entry.colour},
            hovertemplate=f"%{{y}}<br>{escape(entry.name)}: %{{x:.4~g}} {unit}<extra></extra>",
        )
        spread = _spread(values)
        parts.append(f"{entry.name}: {spread}{fmt.NARROW_SPACE}{unit} between best and worst")
    charts.lay_out(
        figure,
        title=title,
        subtitle="By region of the user; equal where the points are above each other",
        height=200 + 40 * len(regions),
        present=present,
    )
    figure.update_layout(legend=LEGEND, margin={"b": 130 if present else 100})
    drawn = [value for trace in figure.data for value in trace.x]
    figure.update_xaxes(title_text=f"{title} ({unit})", range=_padded(drawn, 0.06), zeroline=False)
    figure.update_yaxes(title_text="Users in", autorange="reversed")
    return Chart(
        figure,
        alt=f"{title} by user region. {'; '.join(parts)}.",
        file_name=charts.file_name("carbonrouter fairness", title),
    )


def _spread(values: pd.Series) -> str:
    known = values.dropna()
    return fmt.significant(float(known.max() - known.min())) if len(known) else fmt.NOT_AVAILABLE
