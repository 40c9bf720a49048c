"""``windows``: the days that the zones of a scenario have in common; the workload in each."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import date, timedelta
from typing import Any

from carbonrouter_core.cli.options import (
    add_command,
    add_json_option,
    add_scenario_options,
    scenario_from,
)
from carbonrouter_core.cli.output import print_json, saving_text
from carbonrouter_core.cli.own_catalog import catalog_from
from carbonrouter_core.errors import InputError, ScenarioError
from carbonrouter_core.grid.choice import EPOCH
from carbonrouter_core.grid.knowledge import MEANING
from carbonrouter_core.routing.policies import CLEANEST_REGION, FAIRCARBON, ROUTER, ROUTERS
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.studies.seasons import (
    KnowledgeResult,
    WindowResult,
    compare_knowledge,
    compare_windows,
    seasons,
    usable_starts,
)
from carbonrouter_core.units import mass_scale
from carbonrouter_core.words.names import unknown

KNOWLEDGE_POLICIES = (ROUTER, CLEANEST_REGION)


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = add_command(
        commands,
        "windows",
        _windows,
        help="windows that the zones have in common; the same workload in several",
        description="Say on which days a window that all zones have can begin; run the same "
        "workload in several windows, or with less knowledge of the grid.",
    )
    add_scenario_options(parser)
    parser.add_argument("--seasons", action="store_true", help="run a window in each season")
    parser.add_argument("--starts", metavar="DATE,DATE", help="run windows from these days")
    parser.add_argument(
        "--knowledge",
        action="store_true",
        help="run with each kind of knowledge: " + ", ".join(MEANING),
    )
    add_json_option(parser)


def _windows(options: argparse.Namespace) -> None:
    scenario = scenario_from(options)
    catalog = catalog_from(options)
    offered = catalog.regions
    for region in scenario.regions:  # usable_starts would leave out an unknown region
        if region not in offered:
            raise ScenarioError(unknown("region", region, offered.keys()))
    out: dict[str, Any] = {"starts": [[_day(a), _day(b)] for a, b in usable_starts(scenario)]}
    lines = _spans(scenario, out["starts"])
    starts = _starts(options.starts) if options.starts is not None else ()
    if options.seasons:
        starts = (*starts, *seasons(scenario))
    if starts:
        windows = list(compare_windows(scenario, starts, ROUTERS, catalog))
        out["windows"] = [
            asdict(window) | {"start": window.start.isoformat()} for window in windows
        ]
        lines += ["", *_window_lines(windows)]
    if options.knowledge:
        results = list(compare_knowledge(scenario, KNOWLEDGE_POLICIES, catalog=catalog))
        out["knowledge"] = [asdict(result) for result in results]
        lines += ["", *_knowledge_lines(results)]
    if options.json:
        print_json(out)
    else:
        print("\n".join(lines))


def _starts(text: str) -> tuple[date, ...]:
    try:
        return tuple(date.fromisoformat(day.strip()) for day in text.split(","))
    except ValueError:
        raise InputError(f"--starts {text!r} is not a list of dates such as 2024-01-15.") from None


def _day(number: int) -> str:
    return (EPOCH + timedelta(days=number)).isoformat()


def _spans(scenario: Scenario, spans: list[list[str]]) -> list[str]:
    days = f"{scenario.window_days} d"
    if not spans:
        return [f"There is no window of {days} that all zones of {scenario.name} have."]
    return [
        f"A window of {days} that all zones have can begin from {first} to {last}."
        for first, last in spans
    ]


def _window_lines(windows: list[WindowResult]) -> list[str]:
    lines = [f"{'first day':<12}{'FairCarbon':>14}" + "".join(f"{n:>40}" for n in ROUTERS)]
    for window in windows:
        if window.problem:
            lines.append(f"{window.start.isoformat():<12}{window.problem}")
            continue
        baseline_g = window.figures[FAIRCARBON]["carbon_g"]
        scale = mass_scale(baseline_g)
        cells = "".join(f"{saving_text(window.saving[name]):>40}" for name in ROUTERS)
        baseline = f"{baseline_g * scale.factor:.2f} {scale.unit}"
        lines.append(f"{window.start.isoformat():<12}{baseline:>14}{cells}")
    return lines


def _knowledge_lines(results: list[KnowledgeResult]) -> list[str]:
    lines = [f"{'knowledge':<14}{'policy':<26}{'against current %':>18}{'saving':>40}"]
    for result in results:
        if result.problem:
            lines.append(f"{result.knowledge:<14}{result.policy:<26}{result.problem}")
            continue
        cost = "n/a" if result.cost_percent is None else f"{result.cost_percent:+.2f}"
        lines.append(
            f"{result.knowledge:<14}{result.policy:<26}{cost:>18}{saving_text(result.saving):>40}"
        )
    return lines
