"""Charts of page Sensitivity: tornado, line, heat map and histogram of savings in percent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import plotly.graph_objects as go

from carbonrouter_core.results.comparison import Interval
from carbonrouter_core.studies.inputs import SWEEP_INPUTS, Point, SweepInput
from carbonrouter_core.studies.sensitivity import Swing, saving_of
from carbonrouter_core.studies.sweep import Outcome
from carbonrouter_core.words import figures as fmt
from pages.parts.sensitivity import sentences
from pages.shared import charts, theme
from pages.shared.charts import Chart
from pages.shared.studies import Results, Study

LOW, HIGH = ("#0072B2", "#E69F00"), ("#56B4E9", "#F0B93A")
"""Bars at an input's low and high value, on a light and a dark page (Okabe-Ito blue and orange);
the low ones are hatched, too."""
SIGNS = [[0.0, "#B35806"], [0.25, "#F1A340"], [0.5, "#F7F7F7"], [0.75, "#998EC3"], [1.0, "#542788"]]
"""More CO2e to less: ColorBrewer "PuOr", safe for colour-blind readers, white at no difference."""
BINS = 24
ROW_PX = 48


def _title(study: Study) -> str:
    return f"{theme.name(study.policy_id)} against {theme.name(study.question.baseline)}"


def tornado(results: Results, bars: Sequence[Swing], *, present: bool = False) -> Chart:
    """A bar an input: the saving at its low and its high value, from the saving as it stands."""
    colours = theme.palette()
    base = bars[0].base_percent
    low_colour, high_colour = HIGH if colours.dark else LOW
    rows = [bar.input.label for bar in bars]
    figure = go.Figure()
    for name, colour, hatch, saving, value in (
        ("at the low value", low_colour, "/", "low_percent", "low"),
        ("at the high value", high_colour, "", "high_percent", "high"),
    ):
        ends = [getattr(bar, saving) for bar in bars]
        figure.add_bar(
            orientation="h",
            y=rows,
            x=[0.0 if end is None else end - base for end in ends],
            base=base,
            name=name,
            marker={
                "color": colour,
                "line": {"width": 0},
                "pattern": {"shape": hatch, "fillmode": "overlay", "fgcolor": colours.background,
                            "fgopacity": 0.6, "size": 7, "solidity": 0.22},
            },
            customdata=[
                [
                    sentences.value_words(bar.input, getattr(bar.input, value)),
                    "cannot run" if end is None else fmt.less_or_more(end),
                ]
                for bar, end in zip(bars, ends, strict=True)
            ],
            hovertemplate="%{y} %{customdata[0]}: %{customdata[1]}<extra></extra>",
        )  # fmt: skip
    ends = [value for bar in bars for value in (bar.low_percent, bar.high_percent, base)
            if value is not None]  # fmt: skip
    low, high = min(ends), max(ends)
    span = max(high - low, 1.0)
    labels = [
        {
            "x": low - 0.03 * span,
            "y": bar.input.label,
            "text": f"{bar.input.label}, {_ends(bar)}  <b>{fmt.number(bar.span_percent, 1)}</b>",
            "showarrow": False,
            "xanchor": "left",
            "yanchor": "bottom",
            "yshift": 11 if not present else 16,
        }
        for bar in bars
    ]
    if low < 0 < high:
        figure.add_vline(x=0, line={"color": colours.text, "width": 1.5, "dash": "dot"})
    figure.add_vline(x=base, line={"color": colours.axis, "width": 1.5})
    charts.lay_out(
        figure,
        title=_title(results.study),
        subtitle=f"Each input alone; line: {fmt.percent(base)} as it stands; bold: points between",
        height=150 + ROW_PX * len(bars),
        present=present,
    )
    figure.update_layout(
        annotations=labels,
        barmode="group",
        bargap=0.55,
        legend={"y": 0, "yref": "container", "yanchor": "bottom", "itemclick": False,
                "itemdoubleclick": False},
        margin={"b": 120 if present else 92},
    )  # fmt: skip
    figure.update_xaxes(
        title_text="CO2e saved (%)", range=[low - 0.05 * span, high + 0.05 * span], zeroline=False
    )
    figure.update_yaxes(
        title_text="Input", autorange="reversed", showgrid=False, showticklabels=False
    )
    parts = [
        f"{bar.input.label}: {fmt.percent(bar.low_percent)} at "
        f"{sentences.value_words(bar.input, bar.input.low)}, {fmt.percent(bar.high_percent)} at "
        f"{sentences.value_words(bar.input, bar.input.high)}"
        for bar in bars
    ]
    return Chart(
        figure,
        alt=f"Tornado chart of the CO2e saved, {_title(results.study)}, {fmt.percent(base)} as it "
        f"stands. {'; '.join(parts)}.",
        file_name=charts.file_name("carbonrouter what matters most"),
    )


def _ends(bar: Swing) -> str:
    """Between which values an input is varied, in the muted colour of what is not the figure."""
    low, high = (sentences.value_words(bar.input, end) for end in (bar.input.low, bar.input.high))
    return f'<span style="color:{theme.palette().muted}">{low} to {high}</span>'


# --- One input --------------------------------------------------------------------------------


def _place(swept: SweepInput, value: Any) -> Any:
    """Where a value stands on an axis: numbers and days as they are, others by their words."""
    if isinstance(value, date):
        return value.isoformat()
    return value if swept.numeric else sentences.value_words(swept, value)


def _axis_title(swept: SweepInput) -> str:
    return f"{swept.label} ({swept.unit})" if swept.unit else swept.label


def line(
    study: Study,
    swept: SweepInput,
    points: Sequence[tuple[Any, Outcome]],
    crossings: Sequence[float] = (),
    *,
    present: bool = False,
) -> Chart:
    """The saving over the values of one input, with its interval over sessions."""
    colours = theme.palette()
    colour = theme.colour(study.policy_id)
    known = [
        (value, outcome.savings[study.policy_id])
        for value, outcome in points
        if saving_of(outcome, study.policy_id) is not None
    ]
    x = [_place(swept, value) for value, _ in known]
    figure = go.Figure()
    red, green, blue = theme.hex_to_rgb(colour)
    if all(fmt.known(saving.low_percent) for _, saving in known) and known:
        figure.add_scatter(
            x=[*x, *x[::-1]],
            y=[*(s.high_percent for _, s in known), *(s.low_percent for _, s in known[::-1])],
            mode="lines",
            line={"width": 0},
            fill="toself",
            fillcolor=f"rgba({red},{green},{blue},0.18)",
            name="95 % interval over sessions",
            hoverinfo="skip",
        )
    figure.add_scatter(
        x=x,
        y=[saving.value_percent for _, saving in known],
        mode="lines+markers",
        line={"color": colour, "width": 3},
        marker={"size": 8},
        name="CO2e saved",
        customdata=[
            [sentences.value_words(swept, value), fmt.between(*saving[1:])]
            for value, saving in known
        ],
        hovertemplate=(
            "%{customdata[0]}: %{y:.1f} % saved<br>95 % interval: %{customdata[1]}<extra></extra>"
        ),
    )
    now = swept.get(Point(study.scenario))
    lines_drawn = []
    if now is not None and known and (not swept.numeric or min(x) <= now <= max(x)):
        lines_drawn.append("Dashed line: as the scenario stands")
        figure.add_vline(x=_place(swept, now), line={"color": colours.muted, "dash": "dash"})
    for crossing in crossings:
        figure.add_vline(x=crossing, line={"color": colours.text, "width": 2})
    figure.add_hline(y=0, line={"color": colours.axis, "width": 1.5})
    if crossings:
        lines_drawn.append("Solid line: no difference there")
    charts.lay_out(
        figure,
        title=_title(study),
        subtitle="; ".join(lines_drawn) or "The scenario itself is at none of these values",
        height=440,
        present=present,
    )
    figure.update_layout(
        legend={"y": 0, "yref": "container", "yanchor": "bottom", "itemclick": False,
                "itemdoubleclick": False},
        margin={"b": 120 if present else 96},
    )  # fmt: skip
    figure.update_xaxes(title_text=_axis_title(swept), showgrid=False, zeroline=False)
    figure.update_yaxes(title_text="CO2e saved (%)", zeroline=False)
    parts = [
        f"{sentences.value_words(swept, value)}: {fmt.less_or_more(saving.value_percent)}"
        for value, saving in known
    ]
    return Chart(
        figure,
        alt=f"Line chart of the CO2e saved over {swept.label}, {_title(study)}. "
        f"{'; '.join(parts)}.",
        file_name=charts.file_name("carbonrouter saving by", swept.label),
    )


# --- Two inputs -------------------------------------------------------------------------------


def grid(results: Results, *, present: bool = False) -> Chart:
    """The saving at each pair of values that has come."""
    study = results.study
    across, up = study.axes
    swept, other = SWEEP_INPUTS[across.input], SWEEP_INPUTS[up.input]
    outcomes = results.in_order()
    savings = [
        np.nan if outcome is None else saving_of(outcome, study.policy_id) for outcome in outcomes
    ]
    shape = len(across.values), len(up.values)
    z = np.array([np.nan if saving is None else saving for saving in savings], float)
    z = z.reshape(shape).T
    words = np.array(
        [
            ""
            if outcome is None
            else outcome.error or _interval_words(outcome.savings[study.policy_id])
            for outcome in outcomes
        ],
        object,
    ).reshape(shape).T  # fmt: skip
    known = z[np.isfinite(z)]
    most = max(1.0, float(np.abs(known).max())) if len(known) else 1.0
    columns = [sentences.value_words(swept, value) for value in across.values]
    rows = [sentences.value_words(other, value) for value in up.values]
    figure = go.Figure(
        go.Heatmap(
            x=columns,
            y=rows,
            z=z,
            zmin=-most,
            zmax=most,
            colorscale=SIGNS,
            text=[["" if np.isnan(value) else fmt.number(value, 1) for value in row] for row in z],
            texttemplate="%{text}",
            customdata=words,
            hovertemplate=(
                f"{swept.label} %{{x}}, {other.label} %{{y}}<br>%{{customdata}}<extra></extra>"
            ),
            xgap=2,
            ygap=2,
            colorbar={"title": {"text": "% saved"}, "thickness": 12},
        )
    )  # fmt: skip
    charts.lay_out(
        figure,
        title=_title(study),
        subtitle="CO2e saved in %; orange: emits more, purple: less",
        height=170 + 46 * len(rows),
        present=present,
    )
    figure.update_xaxes(title_text=swept.label, type="category", showgrid=False)
    figure.update_yaxes(title_text=other.label, type="category", showgrid=False)
    parts = [
        f"{swept.label} {columns[i]}, {other.label} {rows[j]}: {fmt.less_or_more(z[j, i])}"
        for i in range(shape[0])
        for j in range(shape[1])
        if np.isfinite(z[j, i])
    ]
    return Chart(
        figure,
        alt=f"Heat map of the CO2e saved, {_title(study)}. {'; '.join(parts)}.",
        file_name=charts.file_name("carbonrouter saving by", swept.label, other.label),
    )


def _interval_words(saving: Interval) -> str:
    if saving.value_percent is None:
        return fmt.NOT_AVAILABLE
    return f"{fmt.less_or_more(saving.value_percent)}; 95 % interval: {fmt.between(*saving[1:])}"


# --- Draws ------------------------------------------------------------------------------------


def histogram(
    study: Study, drawn: Sequence[float], interval: Interval, *, present: bool = False
) -> Chart:
    """How many draws of the factors come to which saving."""
    colours = theme.palette()
    figure = go.Figure(
        go.Histogram(
            x=list(drawn),
            nbinsx=BINS,
            marker={"color": theme.colour(study.policy_id), "opacity": 0.85},
            hovertemplate="%{x} % saved: %{y} draws<extra></extra>",
        )
    )
    for value, dash in (
        (interval.value_percent, "solid"),
        (interval.low_percent, "dash"),
        (interval.high_percent, "dash"),
    ):
        if value is not None:
            figure.add_vline(x=value, line={"color": colours.text, "width": 2, "dash": dash})
    if drawn and min(drawn) < 0 < max(drawn):
        figure.add_vline(x=0, line={"color": colours.axis, "width": 1.5, "dash": "dot"})
    charts.lay_out(
        figure,
        title=_title(study),
        subtitle="Solid line: as measured; dashed: the middle 95 % of draws",
        height=380,
        present=present,
    )
    figure.update_layout(bargap=0.04)
    figure.update_xaxes(title_text="CO2e saved (%)", zeroline=False)
    figure.update_yaxes(title_text="Draws of the factors")
    return Chart(
        figure,
        alt=f"Histogram of the CO2e saved over {len(drawn)} draws of the measured factors, "
        f"{_title(study)}: {fmt.percent(interval.value_percent)} as measured, the middle 95 % from "
        f"{fmt.percent(interval.low_percent)} to {fmt.percent(interval.high_percent)}.",
        file_name=charts.file_name("carbonrouter how sure the factors are"),
    )
