"""Charts. Each takes plain figures and gives a :class:`Chart`: a plotly figure with a title and
units on both axes, a file name for the PNG of its menu, and the same content as text for those
who cannot see it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.words import figures as fmt
from pages.shared import theme

PENDING = "computing\N{HORIZONTAL ELLIPSIS}"
ROW_PX = 52
"""Height of a policy's row: its bar, and its name above."""
BAR_SHARE = 0.42
MOST_TIMES_BASELINE = 4.0
"""Bars longer than this many times FairCarbon's are cut, and say so."""
CUT_BAR = " (bar cut)"
NEAR_END = 0.3
"""Share of a line within which a label is near its end."""
PRESENT_GROWTH = 1.35
"""How much taller charts are while presenting, as their text is."""


@dataclass(frozen=True)
class Chart:
    """A figure with its text alternative."""

    figure: go.Figure
    alt: str
    file_name: str


def show(chart: Chart, *, key: str) -> None:
    """Put ``chart`` on the page, with a menu that saves it as PNG."""
    st.plotly_chart(
        chart.figure,
        key=key,
        theme=None,
        alt=chart.alt,
        config={
            "displaylogo": False,
            "modeBarButtons": [["toImage"]],
            "toImageButtonOptions": {
                "filename": chart.file_name,
                "format": "png",
                "scale": 2,
            },
        },
    )


def lay_out(
    figure: go.Figure,
    *,
    title: str,
    subtitle: str,
    height: int,
    present: bool,
    left: int = 8,
    bottom: int = 8,
) -> None:
    """The look that all charts share, on the theme the browser shows."""
    colours = theme.palette()
    figure.update_layout(
        template=theme.plotly_template(colours, present=present),
        title={"text": title, "subtitle": {"text": subtitle}},
        height=round(height * (PRESENT_GROWTH if present else 1.0)),
        margin={"l": left, "r": 12, "t": 92 if present else 66, "b": bottom},
    )
    # Else the title of a colour bar is larger than any other text of the chart.
    figure.update_traces(
        colorbar_title_font_size=figure.layout.template.layout.font.size,
        selector={"type": "heatmap"},
    )


def file_name(*words: str) -> str:
    """Words as a file name that every system accepts."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")[:80]


def policy_bars(
    summary: pd.DataFrame,
    reference_g: dict[str, float],
    mass: fmt.Mass,
    *,
    order: list[str],
    names: Mapping[str, str] = MappingProxyType({}),
    present: bool = False,
) -> Chart:
    """Carbon of each policy, split into its parts, with a mark for the same electricity at the
    average intensity of the chosen zones.

    ``order`` may name policies that ``summary`` does not hold yet; their place is kept, so that
    nothing jumps when they arrive. ``names``: those that are not the usual ones.
    """
    colours = theme.palette()
    called = {policy_id: names.get(policy_id) or theme.name(policy_id) for policy_id in order}
    figure = go.Figure()
    ready = [policy_id for policy_id in order if policy_id in summary.index]
    for part in theme.PARTS:
        values = [
            mass.value(summary.at[policy_id, part.column]) if policy_id in ready else 0.0
            for policy_id in order
        ]
        figure.add_bar(
            orientation="h",
            y=list(called.values()),
            x=values,
            name=part.name,
            marker={
                "color": part.fill(colours.dark),
                "line": {"width": 0},
                "pattern": {
                    "shape": part.hatch,
                    "fillmode": "overlay",
                    "fgcolor": colours.background,
                    "fgopacity": 0.6,
                    "size": 7,
                    "solidity": 0.22,
                },
            },
            hovertemplate=f"%{{y}}<br>{part.name}: %{{x:,.3~g}} {mass.unit}<extra></extra>",
        )
    marked = [policy_id for policy_id in ready if policy_id in reference_g]
    totals = {policy_id: float(summary.at[policy_id, "carbon_g"]) for policy_id in ready}
    largest = max([*totals.values(), *(reference_g[p] for p in marked)], default=1.0)
    # One policy far off must not shrink the two that the page is about to slivers.
    end = min(largest, MOST_TIMES_BASELINE * totals.get(core.FAIRCARBON, largest)) or 1.0
    is_within = [reference_g[policy_id] <= end for policy_id in marked]
    figure.add_scatter(
        x=[mass.value(min(reference_g[policy_id], end)) for policy_id in marked],
        y=[called[policy_id] for policy_id in marked],
        customdata=[mass.text(reference_g[policy_id]) for policy_id in marked],
        mode="markers",
        name="Same kWh, average grid",
        marker={
            # A tick at the figure, or a pointer at the edge towards one beyond it.
            "symbol": ["line-ns" if within else "triangle-right" for within in is_within],
            "size": [(20 if present else 15) if within else 12 for within in is_within],
            "color": colours.text,
            "line": {
                "width": [3 if within else 0 for within in is_within],
                "color": colours.text,
            },
        },
        hovertemplate=(
            "%{y}<br>the same kWh at the average intensity of the chosen zones: "
            "%{customdata} CO2e<extra></extra>"
        ),
    )
    labels = [
        {
            "x": 0,
            "y": name,
            "text": _bar_label(summary, policy_id, name, mass, colours)
            + (CUT_BAR if totals.get(policy_id, 0.0) > end else ""),
            "showarrow": False,
            "xanchor": "left",
            "yanchor": "bottom",
            "yshift": (ROW_PX * BAR_SHARE) / 2 * (PRESENT_GROWTH if present else 1.0),
        }
        for policy_id, name in called.items()
    ]
    lay_out(
        figure,
        title="Carbon by policy",
        subtitle="Red hatch: recomputed history. Tick: the same kWh, average grid",
        height=190 + ROW_PX * len(order),
        present=present,
    )
    figure.update_layout(
        annotations=labels,
        barmode="stack",
        bargap=1 - BAR_SHARE,
        legend={
            "y": 0,
            "yref": "container",
            "yanchor": "bottom",
            "traceorder": "normal",
            "entrywidth": 0.5,
            "entrywidthmode": "fraction",
            "itemclick": False,
            "itemdoubleclick": False,
        },
        margin={"b": 170 if present else 132},
    )
    figure.update_xaxes(
        title_text=f"{mass.unit} of the whole workload",
        range=[0, mass.value(end) * 1.04],
        ticks="outside",
    )
    # Names stand above the bars, so that the bars have the whole width on a phone.
    figure.update_yaxes(
        title_text="Policy", autorange="reversed", showgrid=False, showticklabels=False
    )
    return Chart(
        figure,
        alt="Bar chart of carbon by policy. "
        + " ".join(_policy_sentence(summary.loc[p], called[p], mass) for p in ready),
        file_name=file_name("carbonrouter carbon by policy"),
    )


def _bar_label(
    summary: pd.DataFrame, policy_id: str, name: str, mass: fmt.Mass, colours: theme.Palette
) -> str:
    """Name, total and difference to FairCarbon, as one line of plotly's HTML."""
    swatch = f'<span style="color:{theme.colour(policy_id)}">\N{BLACK SQUARE}</span>'
    name = f"{swatch} {name}"
    if policy_id not in summary.index:
        return f'<span style="color:{colours.muted}">{name}: {PENDING}</span>'
    text = f"{name}  <b>{mass.text(summary.at[policy_id, 'carbon_g'])}</b>"
    change = fmt.change_percent(
        summary.at[policy_id, "carbon_g"], summary.at[core.FAIRCARBON, "carbon_g"]
    )
    if policy_id != core.FAIRCARBON and change is not None:
        text += f"  {fmt.percent(change, signed=True)}"
    return text


def _policy_sentence(row: pd.Series, name: str, mass: fmt.Mass) -> str:
    recomputed = row["recompute_g"] / row["carbon_g"] * 100 if row["carbon_g"] else None
    return (
        f"{name}: {mass.text(row['carbon_g'])} CO2e, "
        f"{fmt.percent(recomputed)} of it recomputed history."
    )


def saving_by_length(
    table: pd.DataFrame, policy_id: str, baseline_id: str, *, present: bool = False
) -> Chart:
    """Carbon saved in short and long sessions, with the interval of each."""
    colours = theme.palette()
    shown = table
    buckets = [str(bucket) for bucket in shown["turns_per_session"]]
    values = shown["value_percent"].to_numpy(float)
    ticks = [
        f"<b>{bucket}</b><br>{fmt.percent(100 * share, 0)}"
        for bucket, share in zip(buckets, shown["share_of_baseline_carbon"], strict=True)
    ]
    who, against = theme.name(policy_id), theme.name(baseline_id)
    # Places are numbers: as categories, plotly would read "1" as a place and "2-5" as a date.
    places = list(range(len(buckets)))
    figure = go.Figure(
        go.Bar(
            x=places,
            y=values,
            marker={"color": theme.colour(policy_id), "opacity": 0.85},
            error_y={
                "type": "data",
                "symmetric": False,
                "array": shown["high_percent"].to_numpy(float) - values,
                "arrayminus": values - shown["low_percent"].to_numpy(float),
                "color": colours.text,
                "thickness": 2,
                "width": 7,
            },
            customdata=[
                [fmt.number(sessions), fmt.number(turns), fmt.between(low, high), bucket]
                for bucket, sessions, turns, low, high in zip(
                    buckets,
                    shown["sessions"],
                    shown["turns"],
                    shown["low_percent"],
                    shown["high_percent"],
                    strict=True,
                )
            ],
            hovertemplate=(
                "Sessions of %{customdata[3]} turns: %{y:.1f} % saved"
                "<br>95 % interval: %{customdata[2]}"
                "<br>%{customdata[0]} sessions, %{customdata[1]} turns<extra></extra>"
            ),
        )
    )
    ends = [*shown["high_percent"], *values, 0.0]
    top = max((end for end in ends if fmt.known(end)), default=0.0)
    labels = [
        {
            "x": place,
            "y": max([end for end in (value, high, 0.0) if fmt.known(end)]),
            "text": f"<b>{fmt.percent(value)}</b>",
            "showarrow": False,
            "yanchor": "bottom",
            "yshift": 5,
        }
        for place, value, high in zip(places, values, shown["high_percent"], strict=True)
    ]
    figure.add_hline(y=0, line={"color": colours.axis, "width": 1.5})
    lay_out(
        figure,
        title="Saving by session length",
        subtitle=f"{who} against {against}; lines: 95 % interval",
        height=405,
        present=present,
    )
    figure.update_layout(annotations=labels)
    figure.update_xaxes(
        title_text=f"Turns (and share of {against}'s carbon, %)",
        tickvals=places,
        ticktext=ticks,
        showgrid=False,
        zeroline=False,
    )
    figure.update_yaxes(title_text="CO2e saved (%)", ticksuffix="", zeroline=False)
    if top > 0:
        lows = [low for low in [*shown["low_percent"], 0.0] if fmt.known(low)]
        floor = min(lows)
        figure.update_yaxes(range=[floor - 0.06 * (top - floor), top + 0.16 * (top - floor)])
    sentences = [
        f"Sessions of {bucket} turns: {fmt.less_or_more(value)} CO2e."
        for bucket, value in zip(buckets, values, strict=True)
    ]
    return Chart(
        figure,
        alt=f"Bar chart of the carbon {who} saves against {against} by session length. "
        + " ".join(sentences),
        file_name=file_name("carbonrouter saving by session length"),
    )


def gap_closed(
    carbon_g: pd.Series,
    policy_id: str,
    mass: fmt.Mass,
    *,
    names: Mapping[str, str] = MappingProxyType({}),
    present: bool = False,
) -> Chart:
    """How far ``policy_id`` gets from FairCarbon towards the hindsight optimum.

    ``carbon_g`` holds the carbon of all three, by policy; ``names`` another name of the optimum
    where it is only the best found.
    """
    colours = theme.palette()
    best, worst, here = (
        float(carbon_g[name]) for name in (core.OPTIMUM, core.FAIRCARBON, policy_id)
    )
    who, row = theme.name(policy_id), "gap"
    target_name = names.get(core.OPTIMUM) or theme.name(core.OPTIMUM)
    title = _gap_title(100 * (worst - here) / (worst - best) if worst > best else None, names)
    figure = go.Figure()
    figure.add_scatter(
        x=[mass.value(best), mass.value(worst)],
        y=[row, row],
        mode="lines",
        line={"color": colours.grid, "width": 18},
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=[mass.value(worst), mass.value(here)],
        y=[row, row],
        mode="lines",
        line={"color": theme.colour(policy_id), "width": 18},
        hoverinfo="skip",
    )
    marks = (
        (best, target_name, "diamond", colours.muted, "bottom"),
        (here, who, "circle", theme.colour(policy_id), "top"),
        (worst, theme.name(core.FAIRCARBON), "square", theme.colour(core.FAIRCARBON), "bottom"),
    )
    span = abs(worst - best) or 1.0
    low, high = min(best, here, worst), max(best, here, worst)
    for grams, name, symbol, colour, side in marks:
        figure.add_scatter(
            x=[mass.value(grams)],
            y=[row],
            mode="markers",
            marker={
                "symbol": symbol,
                "size": 22,
                "color": colour,
                "line": {"color": colours.background, "width": 2},
            },
            hovertemplate=f"{name}: {mass.text(grams)} CO2e<extra></extra>",
            cliponaxis=False,
        )
        # Text at an end or near it is set inwards, so that it is never cut.
        place = (grams - low) / (high - low) if high > low else 0.5
        near_end = "left" if place < NEAR_END else "right" if place > 1 - NEAR_END else "center"
        figure.add_annotation(
            x=mass.value(grams),
            y=row,
            text=f"{name}<br><b>{mass.text(grams)}</b>",
            showarrow=False,
            xanchor=near_end,
            align=near_end,
            xshift={low: -11, high: 11}.get(grams, 0),
            yanchor="bottom" if side == "top" else "top",
            yshift=14 if side == "top" else -14,
        )
    lay_out(
        figure,
        title=title,
        subtitle=f"From FairCarbon to: {target_name}",
        height=255,
        present=present,
    )
    figure.update_layout(showlegend=False)
    figure.update_xaxes(
        title_text=f"{mass.unit} of the whole workload",
        range=[mass.value(low - 0.06 * span), mass.value(high + 0.06 * span)],
        showgrid=False,
        ticks="outside",
        zeroline=False,
    )
    figure.update_yaxes(title_text="", visible=False)
    return Chart(
        figure,
        alt=f"Line from FairCarbon ({mass.text(worst)}) to {target_name} ({mass.text(best)}); "
        f"{who} is at {mass.text(here)}. {title}.",
        file_name=file_name("carbonrouter gap closed"),
    )


def _gap_title(share_percent: float | None, names: Mapping[str, str]) -> str:
    if share_percent is None:
        return "Nothing can be saved against FairCarbon"
    if share_percent < 0:
        return "None of the possible saving is reached"
    possible = "best saving found" if core.OPTIMUM in names else "possible saving"
    return f"{fmt.percent(share_percent, 0)} of the {possible} is reached"
