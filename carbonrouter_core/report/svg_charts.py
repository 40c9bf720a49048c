"""Charts for the report as SVG: drawn here, so that a file holds all of them and needs nothing.

Every chart is as wide as the text of an A4 page and less high than one, has a title, units on
its axes and the same content as text, and can be read without its colours.

This is our own code since the report must be one file that runs no script and is made without a
browser. Plotly, which draws the app's charts, needs a script to show a chart or a browser to make
a picture of it, and another drawing library would be installed for these few charts alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from carbonrouter_core.report.colours import PART_COLOURS, PART_NAMES, policy_colour
from carbonrouter_core.routing.policies import FAIRCARBON
from carbonrouter_core.words import figures as fmt

WIDTH = 680
"""Width of a chart in its own units; on paper 180 mm."""
INK, MUTED, GRID = "#15292E", "#52606D", "#DDE3E8"
FONT_SIZE = 12
CHARACTER = 6.3
"""Width of a character of that size, about, for what must not run into something else."""

REGION_COLOURS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#882255", "#999933"),
    "#9AA5B1",
)
"""Of regions, those with most carbon first; the last is of all the others together."""
LEAST_SPAN_PERCENT = 1.0
"""Savings are drawn on an axis that reaches at least this far."""
DASHES = ("", "7 3", "2 3", "8 3 2 3", "12 4", "4 2", "1 4", "")


@dataclass(frozen=True)
class Chart:
    """A chart as SVG with its title, what the figures are, and its content in words."""

    title: str
    subtitle: str
    svg: str
    alt: str


@dataclass(frozen=True)
class Bar:
    """A policy's carbon by part, in g."""

    policy_id: str
    label: str
    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        """All parts together."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class Range:
    """A value with its interval, in percent; None where it means nothing."""

    label: str
    note: str
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Line:
    """A named line: one value for each of the points along x."""

    label: str
    values: Sequence[float]


def policy_bars(bars: Sequence[Bar]) -> Chart:
    """Carbon of each policy in its parts, the total written at the end."""
    mass = fmt.Mass.for_largest(max((bar.total for bar in bars), default=0.0))
    row, top = 40, 30
    right = 84.0
    height = top + row * len(bars) + 40
    ticks = _ticks(0.0, max((mass.value(bar.total) for bar in bars), default=0.0))
    x = _Scale(0.0, ticks[-1], 0.0, WIDTH - right)
    legend, _ = _legend([(PART_NAMES[part], _part_fill(part)) for part in PART_COLOURS])
    out = [legend]
    bottom = top + row * len(bars)
    out.append(_grid_x(x, ticks, top, bottom, f"Operational carbon ({mass.unit})"))
    for i, bar in enumerate(bars):
        y, at = top + row * i, 0.0
        out.append(_text(0, y + 14, bar.label, weight=600))
        for part in PART_COLOURS:
            value = mass.value(bar.parts[part])
            out.append(_rect(x(at), y + 18, x(at + value) - x(at), 15, _part_fill(part)))
            at += value
        out.append(_text(x(at) + 6, y + 30, mass.text(bar.total)))
    alt = "Bar chart of carbon by policy. " + " ".join(
        f"{bar.label}: {mass.text(bar.total)} CO2e, of which "
        + ", ".join(
            f"{PART_NAMES[part].lower()} {mass.text(bar.parts[part])}" for part in bar.parts
        )
        + "."
        for bar in bars
    )
    return Chart("Carbon by policy", "operational carbon in its parts", _svg(height, out, alt), alt)


def saving_ranges(title: str, subtitle: str, ranges: Sequence[Range], colour: str) -> Chart:
    """A saving with its 95 % interval for each of several groups, against a line at 0."""
    known = [v for bar in ranges for v in (bar.value, bar.low, bar.high) if v is not None]
    ticks = _ticks(min([0.0, *known]), max([LEAST_SPAN_PERCENT, *known]))
    row, top, left = 34, 8, 150.0
    bottom = top + row * len(ranges)
    x = _Scale(ticks[0], ticks[-1], left, WIDTH - 90)
    out = [_grid_x(x, ticks, top, bottom, "Carbon saved against FairCarbon (%)")]
    out.append(_line(x(0), top, x(0), bottom, INK, 1.2))
    sentences = []
    for i, bar in enumerate(ranges):
        y = top + row * i + row / 2
        out.append(_text(0, y, bar.label, weight=600))
        out.append(_text(0, y + 13, bar.note, colour=MUTED, size=10.5))
        if bar.value is None:
            out.append(_text(left, y + 4, fmt.NOT_AVAILABLE, colour=MUTED))
            sentences.append(f"{bar.label}: {fmt.NOT_AVAILABLE}.")
            continue
        inside = ""
        if bar.low is not None and bar.high is not None:
            out.append(_line(x(bar.low), y, x(bar.high), y, colour, 3))
            for end in (bar.low, bar.high):
                out.append(_line(x(end), y - 5, x(end), y + 5, colour, 2))
            inside = f" (95 % interval {fmt.number(bar.low, 1)} to {fmt.percent(bar.high)})"
        out.append(f'<circle cx="{x(bar.value):.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>')
        out.append(_text(WIDTH, y + 4, fmt.percent(bar.value), anchor="end", weight=600))
        sentences.append(f"{bar.label}: {fmt.percent(bar.value)}{inside}.")
    alt = f"{title}. " + " ".join(sentences)
    return Chart(title, subtitle, _svg(bottom + 40, out, alt), alt)


def stacked_columns(
    title: str,
    subtitle: str,
    labels: Sequence[str],
    stacks: Sequence[Line],
    against: Line,
    unit: str,
) -> Chart:
    """Columns over time in coloured layers, and another total as a line of steps."""
    totals = [sum(values) for values in zip(*(stack.values for stack in stacks), strict=True)]
    ticks = _ticks(0.0, max([*totals, *against.values], default=0.0))
    entries = [(stack.label, _region_fill(i, len(stacks))) for i, stack in enumerate(stacks)]
    legend, rows = _legend(entries, line=(against.label, policy_colour(FAIRCARBON)))
    top, left = 18.0 * rows + 26.0, 58.0
    bottom = top + 206.0
    y = _Scale(0.0, ticks[-1], bottom, top)
    width = (WIDTH - left) / max(1, len(labels))
    out = [legend, _grid_y(y, ticks, left, unit)]
    below = [0.0] * len(labels)
    for i, stack in enumerate(stacks):
        for j, value in enumerate(stack.values):
            at = left + width * j
            edge = y(below[j] + value)
            out.append(
                _rect(at + width * 0.1, edge, width * 0.8, y(below[j]) - edge, entries[i][1])
            )
            below[j] += value
    steps = " ".join(
        f"{left + width * (j + end):.1f},{y(value):.1f}"
        for j, value in enumerate(against.values)
        for end in (0, 1)
    )
    out.append(_polyline(steps, policy_colour(FAIRCARBON), 2))
    every = max(
        1,
        math.ceil(
            len(labels) * (max(map(len, labels), default=1) + 1) * CHARACTER / (WIDTH - left)
        ),
    )
    for j in range(0, len(labels), every):
        out.append(_text(left + width * (j + 0.5), bottom + 16, labels[j], anchor="middle"))
    alt = f"{title}, {unit}. " + " ".join(
        f"{stack.label}: {fmt.significant(sum(stack.values))} in all."
        for stack in (*stacks, against)
    )
    return Chart(title, subtitle, _svg(bottom + 24, out, alt), alt)


def lines(
    title: str,
    subtitle: str,
    x_title: str,
    labels: Sequence[str],
    series: Sequence[Line],
    unit: str,
) -> Chart:
    """Lines over an even axis, each with its own dash, named in the legend."""
    ticks = _ticks(0.0, max((v for curve in series for v in curve.values), default=0.0))
    entries = [(curve.label, i) for i, curve in enumerate(series)]
    legend, rows = _line_legend(entries)
    top, left = 18.0 * rows + 26.0, 58.0
    bottom = top + 190.0
    y = _Scale(0.0, ticks[-1], bottom, top)
    out = [legend, _grid_y(y, ticks, left, unit)]
    step = (WIDTH - left - 12) / max(1, len(labels) - 1)
    for i, curve in enumerate(series):
        points = " ".join(f"{left + step * j:.1f},{y(v):.1f}" for j, v in enumerate(curve.values))
        out.append(_polyline(points, *_line_style(i)))
    for j in range(0, len(labels), max(1, len(labels) // 8)):
        out.append(_text(left + step * j, bottom + 16, labels[j], anchor="middle"))
    out.append(_text((left + WIDTH) / 2, bottom + 34, x_title, anchor="middle", colour=MUTED))
    alt = f"{title}, {unit}. " + " ".join(
        f"{curve.label}: {fmt.significant(min(curve.values))} to "
        f"{fmt.significant(max(curve.values))}."
        for curve in series
    )
    return Chart(title, subtitle, _svg(bottom + 42, out, alt), alt)


# --- Parts of a drawing ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Scale:
    """From figures to places: ``low`` is drawn at ``start``, ``high`` at ``end``."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def _ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from at or below ``low`` to at or above ``high``."""
    span = high - low or 1.0
    step = 10.0 ** math.floor(math.log10(span / most))
    step *= next(factor for factor in (1, 2, 5, 10, 20) if span / (factor * step) <= most)
    first, last = math.floor(low / step), math.ceil((high or low + span) / step)
    return [i * step for i in range(first, max(last, first + 1) + 1)]


def _tick_text(value: float, ticks: Sequence[float]) -> str:
    step = ticks[1] - ticks[0]
    return fmt.number(value, max(0, -math.floor(math.log10(step) + 1e-9)))


def _svg(height: float, parts: Sequence[str], alt: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{escape(alt)}">{"".join(parts)}</svg>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: float = FONT_SIZE,
    weight: int = 400,
    colour: str = INK,
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
    )


def _rect(x: float, y: float, width: float, height: float, fill: str) -> str:
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(0.0, width):.2f}" '
        f'height="{max(0.0, height):.2f}" fill="{fill}"/>'
        + (_hatch(x, y, width, height) if fill == PART_COLOURS["recompute_g"] else "")
    )


def _hatch(x: float, y: float, width: float, height: float) -> str:
    """White strokes over what a move causes: seen without colour."""
    lines, at = [], x
    while at + height <= x + width:
        lines.append(f"M{at:.1f} {y + height:.1f}l{height:.1f} {-height:.1f}")
        at += 6
    return f'<path d="{"".join(lines)}" stroke="#FFFFFF" stroke-width="1" opacity="0.75"/>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width}"/>'
    )


def _polyline(points: str, colour: str, width: float, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"'
        f"{dashed}/>"
    )


def _part_fill(part: str) -> str:
    return PART_COLOURS[part]


def _region_fill(number: int, of: int) -> str:
    last = len(REGION_COLOURS) - 1
    return REGION_COLOURS[last if number == of - 1 and of > last else number]


def _line_style(number: int) -> tuple[str, float, str]:
    colour = REGION_COLOURS[number % (len(REGION_COLOURS) - 1)]
    return colour, 2.0, DASHES[number % len(DASHES)]


def _legend(
    entries: Sequence[tuple[str, str]], line: tuple[str, str] | None = None
) -> tuple[str, int]:
    """The legend of areas and of one line, and how many rows it takes."""
    out, x, y = [], 0.0, 0.0
    for label, fill in [*entries, *([line] if line else [])]:
        is_line = (label, fill) == line
        wide = (26 if is_line else 18) + CHARACTER * len(label) + 16
        if x and x + wide > WIDTH:
            x, y = 0.0, y + 18
        if is_line:
            out.append(_line(x, y + 8, x + 20, y + 8, fill, 2) + _text(x + 26, y + 12, label))
        else:
            out.append(_rect(x, y + 2, 12, 12, fill) + _text(x + 18, y + 12, label))
        x += wide
    return "".join(out), int(y // 18) + 1


def _line_legend(entries: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """The legend of lines, and how many rows it takes."""
    out, x, y = [], 0.0, 0.0
    for label, number in entries:
        wide = 36 + CHARACTER * len(label) + 16
        if x and x + wide > WIDTH:
            x, y = 0.0, y + 18
        out.append(_polyline(f"{x:.1f},{y + 8:.1f} {x + 28:.1f},{y + 8:.1f}", *_line_style(number)))
        out.append(_text(x + 34, y + 12, label))
        x += wide
    return "".join(out), int(y // 18) + 1


def _grid_x(x: _Scale, ticks: Sequence[float], top: float, bottom: float, title: str) -> str:
    out = [_line(x(tick), top, x(tick), bottom, GRID, 1) for tick in ticks]
    out += [
        _text(
            x(tick),
            bottom + 15,
            _tick_text(tick, ticks),
            anchor="start" if x(tick) < 8 else "middle",
        )
        for tick in ticks
    ]
    middle = (x.start + x.end) / 2
    return "".join(out) + _text(middle, bottom + 33, title, anchor="middle", colour=MUTED)


def _grid_y(y: _Scale, ticks: Sequence[float], left: float, title: str) -> str:
    out = [_line(left, y(tick), WIDTH, y(tick), GRID, 1) for tick in ticks]
    out += [_text(left - 8, y(tick) + 4, _tick_text(tick, ticks), anchor="end") for tick in ticks]
    return "".join(out) + _text(0, y.end - 10, title, colour=MUTED)
