"""The charts of the report: their figures are gathered here and drawn by :mod:`.svg_charts`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from carbonrouter_core.report import svg_charts as svg
from carbonrouter_core.report.colours import PART_NAMES, policy_colour
from carbonrouter_core.report.values import Report
from carbonrouter_core.routing.policies import FAIRCARBON
from carbonrouter_core.units import HOURS_PER_DAY, S_PER_DAY, S_PER_HOUR
from carbonrouter_core.words import figures as fmt

MOST_REGIONS = 7
"""Regions with a colour of their own; the others are shown together."""
MOST_COLUMNS = 31
"""Columns over time: days, or spans of days where the window is longer."""


def carbon_by_policy(report: Report) -> svg.Chart:
    """Carbon of each policy in its parts."""
    return svg.policy_bars(
        [
            svg.Bar(policy_id, report.name(policy_id), {part: figures[part] for part in PART_NAMES})
            for policy_id, figures in report.figures.items()
        ]
    )


def saving_by_length(report: Report) -> svg.Chart:
    """The router's saving in each class of session length."""
    ranges = [
        svg.Range(
            f"{row['turns_per_session']} turn{'' if row['turns_per_session'] == '1' else 's'}",
            f"{fmt.number(row['sessions'])} conv., {_share(row)} of carbon",
            _finite(row["value_percent"]),
            _finite(row["low_percent"]),
            _finite(row["high_percent"]),
        )
        for row in report.comparison.saving_by_length(report.router, FAIRCARBON).to_dict("records")
    ]
    return svg.saving_ranges(
        "Saving by length of the conversation",
        "with 95 % bootstrap intervals; beside it, conversations and their share of "
        "FairCarbon's carbon",
        ranges,
        policy_colour(report.router),
    )


def carbon_over_time(report: Report) -> svg.Chart:
    """The router's carbon by region in spans of days, against FairCarbon's total."""
    comparison, scenario = report.comparison, report.scenario
    day = (comparison.prepared.placed.start_s // S_PER_DAY).astype(np.int64)
    first_day = int(min(0, day.min()))
    end_day = int(max(day.max() + 1, scenario.window_days))
    span_days = -(-(end_day - first_day) // MOST_COLUMNS)
    column = (day - first_day) // span_days
    columns = int(column.max()) + 1

    def total_g(policy_id: str, turns: Any = slice(None)) -> np.ndarray:
        carbon_g = comparison.runs[policy_id].charges.carbon_g
        return np.bincount(column[turns], carbon_g[turns], columns)

    decided = comparison.runs[report.router].decisions.deployment
    region = np.where(decided >= 0, comparison.prepared.deployments.fleet.region[decided], -1)
    cities = [site["city"] for site in report.sites]
    by_region = [total_g(report.router, region == i) for i in range(len(cities))]
    against = total_g(FAIRCARBON)
    mass = fmt.Mass.for_largest(max(float(np.sum(by_region, axis=0).max()), float(against.max())))

    def line(label: str, grams: np.ndarray) -> svg.Line:
        return svg.Line(label, [mass.value(value) for value in grams])

    order = sorted(range(len(cities)), key=lambda i: -by_region[i].sum())
    stacks = [line(cities[i], by_region[i]) for i in order[:MOST_REGIONS]]
    if others := order[MOST_REGIONS:]:
        stacks.append(line("other regions", np.sum([by_region[i] for i in others], axis=0)))
    starts = pd.Timestamp(scenario.window_start) + pd.to_timedelta(
        first_day + span_days * np.arange(columns), unit="D"
    )
    each, unit = (
        ("a day", "day")
        if span_days == 1
        else (
            f"for each {span_days} days",
            f"{span_days} days",
        )
    )
    return svg.stacked_columns(
        f"Carbon of {report.name(report.router)} by region",
        f"one column {each}, UTC; a turn counts where it starts; the line is "
        f"{report.name(FAIRCARBON)}'s total",
        [f"{start:%d %b}".lstrip("0") for start in starts],
        stacks,
        line(report.name(FAIRCARBON), against),
        f"{mass.unit} per {unit}",
    )


def typical_day(report: Report) -> svg.Chart | None:
    """Mean carbon intensity of each zone by hour of the day; None where no series has all hours."""
    prepared, scenario = report.comparison.prepared, report.scenario
    start_s = np.arange(scenario.window_start_s, scenario.window_end_s, S_PER_HOUR)
    middle_s = start_s + S_PER_HOUR / 2
    hour = ((middle_s % S_PER_DAY) // S_PER_HOUR).astype(np.int64)
    profiles: dict[str, svg.Line] = {}
    for site, series in zip(report.sites, prepared.series, strict=True):
        if site["zone"] not in profiles and series.covers(middle_s[0], middle_s[-1]):
            total = np.bincount(hour, series.at(middle_s), HOURS_PER_DAY)
            mean = total / np.bincount(hour, minlength=HOURS_PER_DAY)
            profiles[site["zone"]] = svg.Line(site["zone"], mean.tolist())
    if not profiles:
        return None
    return svg.lines(
        "Carbon intensity on a typical day",
        f"mean of each hour over the window, {scenario.carbon_basis}, {scenario.intensity_kind}",
        "hour of the day, UTC",
        [str(i) for i in range(HOURS_PER_DAY)],
        list(profiles.values()),
        "gCO2e/kWh",
    )


def _share(row: dict[str, Any]) -> str:
    share = row["share_of_baseline_carbon"]
    return fmt.percent(None if share is None else 100.0 * share, 0)


def _finite(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)
