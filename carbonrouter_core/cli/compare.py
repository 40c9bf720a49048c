"""``compare``: policies on one scenario, as a table or as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from carbonrouter_core.cli.options import (
    add_executor_options,
    add_scenario_options,
    check_folder,
    policies_from,
    refuse_executor_options,
    scenario_from,
)
from carbonrouter_core.cli.own_catalog import catalog_from
from carbonrouter_core.errors import InputError
from carbonrouter_core.replay.as_served import has_served
from carbonrouter_core.replay.executors import open_executor
from carbonrouter_core.results.comparison import Interval, compare
from carbonrouter_core.results.parts import compare_parts
from carbonrouter_core.routing.policies import AS_SERVED, BASELINE, OPTIMUM, POLICIES
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.store.find_trace import find_trace, parts_folder
from carbonrouter_core.traces.schema import LONG_SESSION_TURNS
from carbonrouter_core.units import mass_scale
from carbonrouter_core.words import notes

DEFAULT_POLICIES = tuple(POLICIES)


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = commands.add_parser(
        "compare",
        help="run policies on one scenario and print their figures",
        description="Run policies on one scenario and print their figures.",
        allow_abbrev=False,
    )
    add_scenario_options(parser)
    parser.add_argument(
        "--policies", metavar="A,B", help=f"default: all; known: {', '.join(POLICIES)}"
    )
    add_executor_options(parser)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "--export-trace",
        metavar="FILE.parquet",
        type=Path,
        help="write the placed trace: session, turn, start_s from the window's start, "
        "user_region, difficulty, tokens",
    )
    parser.set_defaults(run=_compare)


def _compare(options: argparse.Namespace) -> None:
    chosen = policies_from(options.policies, DEFAULT_POLICIES)
    scenario = scenario_from(options)
    if (folder := parts_folder(scenario.trace)) is not None:
        _compare_parts(options, scenario, chosen, folder)
        return
    refuse_executor_options(
        options, "a trace in one piece is run in this process; split cuts it into parts."
    )
    trace = find_trace(scenario.trace)
    if options.policies is None and has_served(trace):
        chosen += (AS_SERVED.id,)
    if (out := options.export_trace) is not None and out.suffix != ".parquet":
        raise InputError(f"--export-trace {out.name!r} must end in .parquet.")
    check_folder(out)
    comparison = compare(scenario, [*chosen, BASELINE], trace, catalog_from(options), on_disk=True)
    if out is not None:
        try:
            comparison.prepared.placed.to_frame().to_parquet(out, index=False)
        except OSError as error:
            raise InputError(f"The trace cannot be written to {out.name}: {error}") from error
    if options.json:
        result = comparison.to_dict()
        result["policies"] = {name: result["policies"][name] for name in chosen}
        print(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print(_table(comparison, chosen))


def _compare_parts(
    options: argparse.Namespace, scenario: Scenario, chosen: Sequence[str], folder: Path
) -> None:
    """The same for a trace in parts, on several processes."""
    if options.export_trace is not None:
        raise InputError("--export-trace needs a trace in one piece, not a folder of parts.")
    with open_executor(options.workers, options.cluster) as executor:
        parted = compare_parts(scenario, chosen, folder, executor, catalog=catalog_from(options))
    if not options.json:
        print(_table(parted, chosen))
        return
    policies = {}
    for name in chosen:
        policies[name] = parted.figures(name) | {
            "long_sessions": parted.figures(name, parted.long_sessions),
            "test_half": parted.figures(name, parted.test_half)
            | {"saving_interval_percent": parted.saving(name, sessions=parted.test_half)[1:]},
        }
    trace = {"name": parted.trace.name, "sessions": parted.trace.n_sessions}
    result = {
        "scenario": scenario.to_dict(),
        "trace": trace | {"turns": parted.trace.n_turns},
        "policies": policies,
        "warnings": list(parted.warnings),
    }
    print(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False))


def _table(comparison: Any, chosen: Sequence[str]) -> str:
    """The table of a Comparison, or of a PartedComparison, which answers to the same names."""
    scenario, trace = comparison.prepared.scenario, comparison.trace
    figures = {name: comparison.figures(name) for name in chosen}
    scale = mass_scale(max(one["carbon_g"] for one in figures.values()))
    lines = [
        f"Scenario {scenario.name}: {trace.name}, {trace.n_sessions:,} sessions, "
        f"{trace.n_turns:,} turns, {scenario.window_days} days from {scenario.window_start} UTC",
        "",
        f"{'policy':<24}{scale.unit + ' CO2e':>11}{'saving %':>10}{'95 % interval':>18}"
        f"{'> ' + str(LONG_SESSION_TURNS) + ' turns %':>12}{'test half %':>13}{'95 % interval':>18}"
        f"{'recompute %':>13}"
        f"{'moves/sess.':>12}{'quality':>9}{'TTFT ms':>9}{'latency s':>11}",
    ]
    for name, one in figures.items():
        long = comparison.figures(name, comparison.long_sessions)
        half = comparison.saving(name, sessions=comparison.test_half)
        lines.append(
            f"{name:<24}{one['carbon_g'] * scale.factor:>11.3f}"
            f"{_number(one['saving_vs_faircarbon_percent'], 1):>10}"
            f"{_interval(comparison.saving(name)):>18}"
            f"{_number(long['saving_vs_faircarbon_percent'], 1):>12}"
            f"{_number(half.value_percent, 1):>13}{_interval(half):>18}"
            f"{_number(one['recompute_share'], 1, 100):>13}"
            f"{_number(one['moves_per_session'], 2):>12}{_number(one['quality_mean'], 3):>9}"
            f"{_number(one['ttft_ms_mean'], 0):>9}{_number(one['latency_ms_mean'], 1, 1e-3):>11}"
        )
    lines += ["", *_fairness_lines(figures)]
    unserved = figures[chosen[0]]["unserved_turns"]
    if unserved:
        lines += ["", notes.unserved(unserved, trace.n_turns)]
    lines += [
        "",
        "test half: the sessions nothing was learned from; evidence is theirs.",
    ]
    if OPTIMUM in chosen:
        lines.append(_optimum_line(comparison, chosen))
    lines += [f"note: {warning}" for warning in comparison.warnings]
    return "\n".join(lines).rstrip()


def _optimum_line(comparison: Any, chosen: Sequence[str]) -> str:
    closed = [
        f"{name} {value:.1f} %"
        for name in chosen
        if not POLICIES.get(name, AS_SERVED).knows_output
        and (value := comparison.gap_closed_percent(name)) is not None
    ]
    scenario = comparison.prepared.scenario
    text = f"{OPTIMUM}: {comparison.optimum_label.lower()}"
    if not comparison.optimum_is_exact:
        text += ", not proven to be the least"
        text += "" if scenario.latency_ceiling_ms else "; free-migration is the lower bound"
    return f"{text}. Of the way there from {BASELINE}: {', '.join(closed)}." if closed else text


def _fairness_lines(figures: Mapping[str, Mapping[str, Any]]) -> list[str]:
    head = f"{'between user regions':<24}{'quality gap':>13}{'Jain':>9}{'latency gap s':>15}"
    return [
        f"{head}{'Jain':>9}",
        *(
            f"{name:<24}{_number(one['quality_gap'], 4):>13}{_number(one['quality_jain'], 4):>9}"
            f"{_number(one['latency_gap_ms'], 2, 1e-3):>15}{_number(one['latency_jain'], 4):>9}"
            for name, one in figures.items()
        ),
    ]


def _number(value: float | None, digits: int, factor: float = 1.0) -> str:
    return "n/a" if value is None else f"{value * factor:.{digits}f}"


def _interval(interval: Interval) -> str:
    if interval.low_percent is None:
        return "n/a"
    return f"{interval.low_percent:.1f} to {interval.high_percent:.1f}"
