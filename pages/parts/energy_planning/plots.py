"""Charts of page Energy planning: energy and carbon by region and hour."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from carbonrouter_core import units
from carbonrouter_core.studies.planning import HourlyLoad
from carbonrouter_core.units import Scale
from carbonrouter_core.words import figures as fmt
from pages.shared import charts, state, theme
from pages.shared.charts import Chart
from pages.shared.grid_charts import REGION_COLOURS

Colours = list[list[float | str]]
"""Steps of a colour scale: a position from 0 to 1 and its colour."""
AMOUNT_COLOURS: Colours = [[0.0, "#FFFFE5"], [0.5, "#FE9929"], [1.0, "#662506"]]
"""Little to much: ColorBrewer "YlOrBr", safe for colour-blind readers."""
MOVED_COLOURS: Colours = [[0.0, "#2166AC"], [0.5, "#F7F7F7"], [1.0, "#B35806"]]
"""Less to more power than before: blue to orange, white at no change."""
HATCHES = ("", "/", "x", ".", "\\")
HOURS = [f"{hour:02d}" for hour in range(units.HOURS_PER_DAY)]
LEGEND = {
    "y": 0,
    "yref": "container",
    "yanchor": "bottom",
    "itemclick": False,
    "itemdoubleclick": False,
}


def cities(regions: Sequence[str]) -> list[str]:
    """Regions by their cities."""
    return [state.place(region) for region in regions]


def typical_day(
    load: HourlyLoad, values: np.ndarray, scale: Scale, what: str, *, present: bool = False
) -> Chart:
    """``values`` (regions, hours) of a day, by region and hour of the day in UTC."""
    day = load.typical_day(values) * scale.factor
    return _heat(
        day,
        cities(load.regions),
        title=f"A typical day: {what}",
        subtitle=f"{theme.name(load.policy_id)}; mean {scale.unit} in each hour",
        unit=scale.unit,
        colours=AMOUNT_COLOURS,
        span=(0.0, float(day.max()) or 1.0),
        present=present,
        name=f"typical day {what}",
    )


def moved(
    power_kw: np.ndarray, regions: Sequence[str], ours: str, theirs: str, *, present: bool = False
) -> Chart:
    """Power that one policy draws beyond another, by region and hour of the day in UTC."""
    scale = units.power_scale(float(np.abs(power_kw).max()))
    shown = power_kw * scale.factor
    most = float(np.abs(shown).max()) or 1.0
    return _heat(
        shown,
        cities(regions),
        title="Change of power",
        subtitle=f"Power of {theme.name(ours)} less that of {theme.name(theirs)}",
        unit=scale.unit,
        colours=MOVED_COLOURS,
        span=(-most, most),
        present=present,
        name="power moved between regions",
        signed=True,
    )


def clean_hours(profile: pd.DataFrame, *, present: bool = False) -> Chart:
    """Usual carbon intensity by region and hour of the day, on the scale of all pages."""
    table = profile.pivot(index="region", columns="hour_utc", values="intensity_g_per_kwh")
    table = table.loc[list(dict.fromkeys(profile["region"]))]
    steps = [theme.rgb_to_hex(colour) for colour in theme.INTENSITY_COLOURS]
    return _heat(
        table.to_numpy(),
        cities(list(table.index)),
        title="Clean hours ahead",
        subtitle="Usual carbon intensity by hour, from the days before the window",
        unit="g/kWh",
        colours=[[i / (len(steps) - 1), colour] for i, colour in enumerate(steps)],
        span=(theme.INTENSITY_LOW_G_PER_KWH, theme.INTENSITY_HIGH_G_PER_KWH),
        present=present,
        name="clean hours",
    )


def _heat(
    values: np.ndarray,
    rows: Sequence[str],
    *,
    title: str,
    subtitle: str,
    unit: str,
    colours: Colours,
    span: tuple[float, float],
    present: bool,
    name: str,
    signed: bool = False,
) -> Chart:
    """A row a region, a column an hour of the day."""
    words = [
        [(("+" if signed and value > 0 else "") + fmt.significant(value)) for value in row]
        for row in values
    ]
    figure = go.Figure(
        go.Heatmap(
            x=HOURS,
            y=list(rows),
            z=values,
            zmin=span[0],
            zmax=span[1],
            colorscale=colours,
            customdata=words,
            hovertemplate=f"%{{y}}, %{{x}}:00 UTC: %{{customdata}} {unit}<extra></extra>",
            xgap=1,
            ygap=3,
            colorbar={"title": {"text": unit}, "thickness": 12},
        )
    )
    charts.lay_out(
        figure, title=title, subtitle=subtitle, height=170 + 40 * len(rows), present=present
    )
    figure.update_xaxes(title_text="Hour of the day (UTC)", type="category", showgrid=False)
    figure.update_yaxes(title_text="Region", autorange="reversed", showgrid=False)
    parts = []
    for row, series, of_hour in zip(rows, values, words, strict=True):
        high, low = int(np.argmax(series)), int(np.argmin(series))
        parts.append(
            f"{row}: highest {of_hour[high]} {unit} at {high:02d}:00, "
            f"lowest {of_hour[low]} at {low:02d}:00"
        )
    return Chart(
        figure,
        alt=f"Heat map by region and hour of the day in UTC. {title}. {subtitle}. "
        f"{'; '.join(parts)}.",
        file_name=charts.file_name("carbonrouter", name),
    )


def stacked(
    load: HourlyLoad, values: np.ndarray, scale: Scale, what: str, *, present: bool = False
) -> Chart:
    """``values`` (regions, hours) over the window, one region on top of the other."""
    colours = theme.palette()
    at = pd.to_datetime(load.start_s, unit="s", utc=True)
    figure = go.Figure()
    parts = []
    styles = zip(cycle(REGION_COLOURS), cycle(np.repeat(HATCHES, len(REGION_COLOURS))))
    for city, row, (colour, hatch) in zip(cities(load.regions), values, styles, strict=False):
        red, green, blue = theme.hex_to_rgb(colour)
        figure.add_scatter(
            x=at,
            y=row * scale.factor,
            stackgroup="all",
            mode="lines",
            line={"width": 0, "color": colour, "shape": "hv"},
            fillcolor=f"rgba({red},{green},{blue},0.75)",
            fillpattern={"shape": str(hatch), "fgcolor": colours.background, "fillmode": "overlay"},
            name=city,
            hovertemplate=f"{city}, %{{x|%a %d %b %H:%M}} UTC: %{{y:.3~g}} {scale.unit}"
            "<extra></extra>",
        )
        parts.append(f"{city} {fmt.significant(float(row.sum()) * scale.factor)} {scale.unit}")
    charts.lay_out(
        figure,
        title=f"Hour by hour: {what}",
        subtitle=f"{theme.name(load.policy_id)}; regions on top of each other",
        height=400,
        present=present,
    )
    figure.update_layout(legend=LEGEND, margin={"b": 130 if present else 104})
    figure.update_xaxes(title_text="Hour (UTC)", showgrid=False)
    figure.update_yaxes(title_text=f"{scale.unit} in each hour", rangemode="tozero")
    return Chart(
        figure,
        alt=f"Stacked area chart of {what} in each hour under {theme.name(load.policy_id)}. In the "
        f"whole window: {'; '.join(parts)}.",
        file_name=charts.file_name("carbonrouter hour by hour", what),
    )
