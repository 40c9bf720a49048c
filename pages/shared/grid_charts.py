"""Charts of carbon intensity: a calendar of daily means, a typical day, the cleanest region."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from itertools import cycle

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from carbonrouter_core.words import figures as fmt
from pages.shared import theme
from pages.shared.charts import Chart, file_name, lay_out

REGION_COLOURS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377")
"""Paul Tol's "bright" scheme, safe for colour-blind readers; lines also differ in dash."""
DASHES = ("solid", "dash", "dot", "dashdot")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DAYS = 31


def calendar(
    days: pd.DataFrame, city: str, year: int, window: tuple[date, date], *, present: bool = False
) -> Chart:
    """Daily means of one year, a row a month; the window (first and last day) is outlined."""
    colours = theme.palette()
    grid = np.full((12, DAYS), np.nan)
    for row in days.itertuples():
        grid[row.day.month - 1, row.day.day - 1] = row.g_per_kwh
    steps = [theme.rgb_to_hex(colour) for colour in theme.INTENSITY_COLOURS]
    scale = [[i / (len(steps) - 1), colour] for i, colour in enumerate(steps)]
    texts = [
        [
            "" if np.isnan(value) else f"{fmt.number(value)} g/kWh on {day + 1} {MONTHS[month]}"
            for day, value in enumerate(row)
        ]
        for month, row in enumerate(grid)
    ]
    figure = go.Figure(
        go.Heatmap(
            z=grid,
            x=list(range(1, DAYS + 1)),
            y=list(range(12)),
            text=texts,
            hovertemplate="%{text}<extra></extra>",
            colorscale=scale,
            xgap=1,
            ygap=2,
            colorbar={
                "orientation": "h",
                "thickness": 10,
                "y": -0.19,
                "yanchor": "top",
                "len": 1,
                "title": {"text": "Mean of the day (g CO2e/kWh)", "side": "bottom"},
            },
        )
    )
    for month, first, last in _months_of(window, year):
        figure.add_shape(
            type="rect",
            x0=first - 0.5,
            x1=last + 0.5,
            y0=month - 0.5,
            y1=month + 0.5,
            line={"color": colours.text, "width": 2},
        )
    lay_out(
        figure,
        title=f"Carbon intensity of {city}, {year}",
        subtitle="Each cell is a day (UTC); the scenario's window is outlined",
        height=470,
        present=present,
        bottom=96,
    )
    figure.update_xaxes(title_text="Day of the month", showgrid=False, tickvals=[1, 8, 15, 22, 29])
    figure.update_yaxes(
        title_text="",
        autorange="reversed",
        showgrid=False,
        tickvals=list(range(12)),
        ticktext=list(MONTHS),
    )
    return Chart(figure, _calendar_words(days, city, year), file_name("calendar", city, str(year)))


def _months_of(window: tuple[date, date], year: int) -> list[tuple[int, int, int]]:
    """(month from 0, first day, last day) of each month of ``year`` that the window touches."""
    days_of: dict[int, list[int]] = {}
    for i in range((window[1] - window[0]).days + 1):
        day = window[0] + timedelta(days=i)
        if day.year == year:
            days_of.setdefault(day.month - 1, []).append(day.day)
    return [(month, min(days), max(days)) for month, days in days_of.items()]


def _calendar_words(days: pd.DataFrame, city: str, year: int) -> str:
    if days.empty:
        return f"No data for {city} in {year}."
    low, high = days.loc[days["g_per_kwh"].idxmin()], days.loc[days["g_per_kwh"].idxmax()]
    return (
        f"Calendar of daily mean carbon intensity of {city} in {year}: lowest "
        f"{fmt.number(low.g_per_kwh)} g/kWh on {low.day}, highest {fmt.number(high.g_per_kwh)} on "
        f"{high.day}, mean {fmt.number(days['g_per_kwh'].mean())}."
    )


def typical_day(days: Mapping[str, pd.DataFrame], chosen: str, *, present: bool = False) -> Chart:
    """Mean of each hour of the day by city; the band of most days for the ``chosen`` city."""
    figure = go.Figure()
    styles = zip(cycle(REGION_COLOURS), cycle(np.repeat(DASHES, len(REGION_COLOURS))))
    for (city, day), (colour, dash) in zip(days.items(), styles, strict=False):
        hours = day["hour"].to_numpy()
        if city == chosen:
            red, green, blue = theme.hex_to_rgb(colour)
            figure.add_scatter(
                x=np.r_[hours, hours[::-1]],
                y=np.r_[day["low_g_per_kwh"], day["high_g_per_kwh"][::-1]],
                fill="toself",
                fillcolor=f"rgba({red},{green},{blue},0.18)",
                line={"width": 0},
                hoverinfo="skip",
                showlegend=False,
            )
        figure.add_scatter(
            x=hours,
            y=day["g_per_kwh"],
            name=city,
            mode="lines",
            line={"color": colour, "dash": str(dash), "width": 4 if city == chosen else 2.5},
            hovertemplate=f"{city}, %{{x}}:00 UTC: %{{y:.0f}} g/kWh<extra></extra>",
        )
    lay_out(
        figure,
        title="A typical day in the window",
        subtitle=f"Mean of each hour; band: 8 in 10 days of {chosen}",
        height=430,
        present=present,
        bottom=110 if len(days) < 8 else 170,
    )
    figure.update_layout(legend={"y": 0, "yref": "container", "yanchor": "bottom"})
    figure.update_xaxes(title_text="Hour of the day (UTC)", tickvals=[0, 6, 12, 18, 23])
    figure.update_yaxes(title_text="g CO2e/kWh", rangemode="tozero")
    words = [
        f"{city}: lowest at {int(day['g_per_kwh'].idxmin())}:00 UTC "
        f"({fmt.number(day['g_per_kwh'].min())} g/kWh), highest at "
        f"{int(day['g_per_kwh'].idxmax())}:00 ({fmt.number(day['g_per_kwh'].max())})."
        for city, day in days.items()
    ]
    return Chart(
        figure,
        "Lines of carbon intensity by hour of the day. " + " ".join(words),
        file_name("typical day"),
    )


def cleanest(table: pd.DataFrame, *, present: bool = False) -> Chart:
    """How often each region is the cleanest of those chosen."""
    colours = theme.palette()
    shown = table.iloc[::-1]
    figure = go.Figure(
        go.Bar(
            orientation="h",
            x=100 * shown["cleanest_share"],
            y=shown["city"],
            marker={
                "color": [
                    theme.rgb_to_hex(theme.intensity_colour(g)) for g in shown["mean_g_per_kwh"]
                ],
                "line": {"color": colours.axis, "width": 1},
            },
            text=[
                f"{fmt.percent(100 * share)} ({fmt.number(mean)} g/kWh)"
                for share, mean in zip(
                    shown["cleanest_share"], shown["mean_g_per_kwh"], strict=True
                )
            ],
            textposition="outside",
            textfont={"color": colours.text},
            cliponaxis=False,
            hoverinfo="skip",
        )
    )
    lay_out(
        figure,
        title="How often each region is the cleanest",
        subtitle="By carbon intensity without PUE; in brackets its mean",
        height=150 + 44 * len(table),
        present=present,
    )
    most = 100 * float(table["cleanest_share"].max())
    figure.update_xaxes(title_text="Share of the hours (%)", range=[0, max(1.0, 1.9 * most)])
    figure.update_yaxes(title_text="", showgrid=False, ticksuffix=" ")
    words = [f"{row.city} {fmt.percent(100 * row.cleanest_share)}" for row in table.itertuples()]
    return Chart(
        figure,
        f"Bars of the share of hours in which each region is the cleanest: {', '.join(words)}.",
        file_name("cleanest region"),
    )


def savings(
    labels: list[str], values: pd.DataFrame, title: str, subtitle: str, *, present: bool = False
) -> Chart:
    """Savings against FairCarbon with their intervals: a row a label, a colour a policy.

    ``values``: columns label, policy, value_percent, low_percent, high_percent.
    """
    figure = go.Figure()
    for policy in values["policy"].unique():
        rows = values[values["policy"] == policy]
        figure.add_bar(
            x=rows["label"],
            y=rows["value_percent"],
            name=theme.name(policy),
            marker={"color": theme.colour(policy)},
            error_y={
                "type": "data",
                "symmetric": False,
                "array": rows["high_percent"] - rows["value_percent"],
                "arrayminus": rows["value_percent"] - rows["low_percent"],
                "color": theme.palette().text,
            },
            hovertemplate="%{x}: %{y:.1f} % saved<extra></extra>",
        )
    lay_out(figure, title=title, subtitle=subtitle, height=400, present=present, bottom=100)
    figure.update_layout(barmode="group", legend={"y": 0, "yref": "container", "yanchor": "bottom"})
    figure.update_xaxes(
        title_text="", type="category", categoryorder="array", categoryarray=labels, showgrid=False
    )
    figure.update_yaxes(title_text="CO2e saved against FairCarbon (%)")
    words = [
        f"{row.label}, {theme.name(row.policy)}: {fmt.less_or_more(row.value_percent)}"
        for row in values.itertuples()
    ]
    return Chart(figure, f"{title}: {'; '.join(words)}.", file_name(title))
