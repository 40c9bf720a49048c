"""``plan``: energy and carbon by region and hour, at the volume of a service."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from carbonrouter_core.cli.options import (
    add_command,
    add_executor_options,
    add_json_option,
    add_policies_option,
    add_scenario_options,
    check_output,
    policies_from,
    refuse_executor_options,
    scenario_from,
)
from carbonrouter_core.cli.output import print_json
from carbonrouter_core.cli.own_catalog import catalog_from
from carbonrouter_core.errors import InputError
from carbonrouter_core.replay.executors import open_executor
from carbonrouter_core.results.comparison import Comparison, compare
from carbonrouter_core.routing.policies import FAIRCARBON, ROUTER, STICKY
from carbonrouter_core.studies import planning
from carbonrouter_core.studies.sweep import Question, run_points
from carbonrouter_core.units import G_PER_KG

DEFAULT_POLICIES = (ROUTER, FAIRCARBON, STICKY)


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = add_command(
        commands,
        "plan",
        _plan,
        help="energy and carbon by region and hour, peaks, a year, at a chosen volume",
        description="Energy planning: the power that each region draws under each policy.",
    )
    add_scenario_options(parser)
    add_policies_option(parser, ",".join(DEFAULT_POLICIES))
    parser.add_argument(
        "--sessions-per-day",
        metavar="N",
        type=float,
        help="conversations a day to scale to; default: as in the trace",
    )
    parser.add_argument(
        "--carbon-price", metavar="PRICE", type=float, help="price of a tonne, in any currency"
    )
    parser.add_argument(
        "--year", metavar="YYYY", type=int, help="project a year from four windows of this one"
    )
    parser.add_argument(
        "--schedule", metavar="FILE.csv", type=Path, help="write energy by policy, region and hour"
    )
    add_executor_options(parser)
    add_json_option(parser)


def _plan(options: argparse.Namespace) -> None:
    scenario = scenario_from(options)
    chosen = policies_from(options.policies, DEFAULT_POLICIES)
    check_output(options.schedule, ".csv", option="--schedule")
    if options.carbon_price is not None:
        planning.cost_of_carbon(0.0, options.carbon_price)  # a wrong price ends it before the run
    if options.year is None:
        refuse_executor_options(options, "one window is run in this process; --year runs four.")
    if (volume := options.sessions_per_day) is not None:
        planning.check_volume(volume)
    points = [] if options.year is None else planning.season_points(scenario, options.year)
    catalog = catalog_from(options)
    comparison = compare(scenario, chosen, catalog=catalog)
    if volume is None:
        volume = planning.own_sessions_per_day(comparison)
    factor = planning.volume_factor(comparison, volume)
    loads = {name: planning.hourly_load(comparison, name).times(factor) for name in chosen}
    if options.schedule is not None:
        _write_schedule(options.schedule, comparison, loads)
    result: dict[str, Any] = {
        "sessions_per_day": volume,
        "policies": {
            name: {
                "energy_kwh_per_day": float(load.energy_kwh.sum()) / load.days,
                "carbon_g_per_day": float(load.carbon_g.sum()) / load.days,
                "regions": [_region(row) for row in load.by_region().to_dict("records")],
            }
            for name, load in loads.items()
        },
    }
    if points:
        question = Question(tuple(chosen), chosen[0], half="all")
        with open_executor(options.workers, options.cluster) as executor:
            outcomes = dict(run_points(points, question, executor, catalog=catalog))
        ordered = [outcomes[number] for number in range(len(points))]
        for name in chosen:
            year = planning.project_year(ordered, name, volume)
            result["policies"][name]["year"] = {
                "energy_kwh": year.energy_kwh,
                "carbon_g": year.carbon_g,
                "seasons": list(year.seasons),
            }
    if options.carbon_price is not None:
        for figures in result["policies"].values():
            figures["carbon_cost_per_day"] = planning.cost_of_carbon(
                figures["carbon_g_per_day"], options.carbon_price
            )
    if options.json:
        print_json(result)
    else:
        print(_table(result, options.year))


def _write_schedule(
    path: Path, comparison: Comparison, loads: dict[str, planning.HourlyLoad]
) -> None:
    try:
        text = planning.schedule_csv(comparison, loads.values())
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise InputError(f"The schedule cannot be written to {path.name}: {error}") from error


def _region(row: dict[str, Any]) -> dict[str, Any]:
    """A row of :meth:`HourlyLoad.by_region` as plain JSON values."""
    peak, typical = row["peak_hour_utc"], row["typical_peak_hour_utc"]
    return row | {
        "peak_hour_utc": None if pd.isna(peak) else peak.strftime("%Y-%m-%dT%H:%MZ"),
        "typical_peak_hour_utc": None if pd.isna(typical) else int(typical),
    }


def _table(result: dict[str, Any], year: int | None) -> str:
    lines = [
        f"{_figure(result['sessions_per_day'], 0)} conversations a day",
        "",
        f"{'policy':<24}{'region':<24}{'kWh a day':>12}{'kg a day':>12}{'mean kW':>10}"
        f"{'peak kW':>10}{'typical day':>13}  peak hour UTC, typical day",
    ]
    for name, figures in result["policies"].items():
        lines.append(
            f"{name:<24}{'all':<24}{_figure(figures['energy_kwh_per_day'], 2):>12}"
            f"{_figure(figures['carbon_g_per_day'] / G_PER_KG, 3):>12}"
        )
        for row in figures["regions"]:
            lines.append(
                f"{'':<24}{row['region']:<24}{_figure(row['energy_kwh_per_day'], 2):>12}"
                f"{_figure(row['carbon_g_per_day'] / G_PER_KG, 3):>12}"
                f"{_figure(row['mean_kw'], 3):>10}"
                f"{_figure(row['peak_kw'], 3):>10}{_figure(row['typical_peak_kw'], 3):>13}"
                f"  {_hours(row)}"
            )
        if "carbon_cost_per_day" in figures:
            lines.append(f"{'':<24}carbon costs {_figure(figures['carbon_cost_per_day'], 2)} a day")
        if "year" in figures:
            year_figures = figures["year"]
            lines.append(
                f"{'':<24}a year like {year}: {_figure(year_figures['energy_kwh'], 0)} kWh, "
                f"{_figure(year_figures['carbon_g'] / G_PER_KG, 1)} kg"
            )
    return "\n".join(lines)


def _figure(value: float, decimals: int) -> str:
    """``value`` with ``decimals``; with two digits if it would be shown as 0 or nearly so."""
    small = 0 < abs(value) < 10 ** (1 - decimals)
    return f"{value:.2g}" if small else f"{value:,.{decimals}f}"


def _hours(row: dict[str, Any]) -> str:
    """When a region draws most: the hour of the window, and that of the typical day."""
    if row["peak_hour_utc"] is None:
        return "never"
    return f"{row['peak_hour_utc']}, {row['typical_peak_hour_utc']:02d} h"
