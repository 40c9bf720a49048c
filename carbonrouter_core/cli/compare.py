"""``compare``: policies on one scenario, as a table or as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

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
from carbonrouter_core.cli.output import interval_text, number, print_json
from carbonrouter_core.cli.own_catalog import catalog_from
from carbonrouter_core.errors import InputError
from carbonrouter_core.replay.as_served import has_served
from carbonrouter_core.replay.executors import open_executor
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.results.comparison import Comparison, Interval, compare
from carbonrouter_core.results.parts import PartedTrace, compare_parts
from carbonrouter_core.results.per_year import NOT_BY_SITE, per_year
from carbonrouter_core.routing.policies import (
    AS_SERVED,
    BOUND,
    FAIRCARBON,
    OPTIMUM,
    POLICIES,
    policy,
)
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.store.find_trace import find_trace, parts_folder
from carbonrouter_core.traces.schema import LONG_SESSION_TURNS, Trace
from carbonrouter_core.units import mass_scale
from carbonrouter_core.words import figures as fmt
from carbonrouter_core.words import notes

DEFAULT_POLICIES = tuple(POLICIES)


class Compared(Protocol):
    """What the table reads of a Comparison, or of a PartedComparison.

    The two name groups of sessions in their own ways, which is why these are of any type.
    """

    @property
    def prepared(self) -> Prepared: ...
    @property
    def trace(self) -> Trace | PartedTrace: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...
    @property
    def long_sessions(self) -> Any: ...
    @property
    def test_half(self) -> Any: ...
    @property
    def optimum_is_exact(self) -> bool: ...
    @property
    def optimum_label(self) -> str: ...
    def figures(self, policy_id: str, sessions: Any = ...) -> dict[str, Any]: ...
    def saving(self, policy_id: str, *, sessions: Any = ...) -> Interval: ...
    def gap_closed_percent(self, policy_id: str) -> float | None: ...


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = add_command(
        commands,
        "compare",
        _compare,
        help="run policies on one scenario and print their figures",
        description="Run policies on one scenario and print their figures.",
    )
    add_scenario_options(parser)
    add_policies_option(parser, "all", POLICIES)
    add_executor_options(parser)
    add_json_option(parser)
    parser.add_argument(
        "--export-trace",
        metavar="FILE.parquet",
        type=Path,
        help="write the placed trace: session, turn, start_s from the window's start, "
        "user_region, difficulty, tokens",
    )


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
    check_output(options.export_trace, ".parquet", option="--export-trace")
    if options.policies is None:
        chosen = tuple(dict.fromkeys((*chosen, policy(scenario.baseline).id)))
    comparison = compare(
        scenario,
        [*chosen, scenario.baseline, FAIRCARBON],
        trace,
        catalog_from(options),
        on_disk=True,
    )
    if options.export_trace is not None:
        _export_trace(comparison, options.export_trace)
    if options.json:
        result = comparison.to_dict()
        result["policies"] = {name: result["policies"][name] for name in chosen}
        print_json(result)
    else:
        print(_table(comparison, chosen))


def _export_trace(comparison: Comparison, out: Path) -> None:
    try:
        comparison.prepared.placed.to_frame().to_parquet(out, index=False)
    except OSError as error:
        raise InputError(f"The trace cannot be written to {out.name}: {error}") from error


def _compare_parts(
    options: argparse.Namespace, scenario: Scenario, chosen: Sequence[str], folder: Path
) -> None:
    """The same for a trace in parts, on several processes."""
    if options.export_trace is not None:
        raise InputError("--export-trace needs a trace in one piece, not a folder of parts.")
    with open_executor(options.workers, options.cluster) as executor:
        comparison = compare_parts(
            scenario, chosen, folder, executor, catalog=catalog_from(options)
        )
    if not options.json:
        print(_table(comparison, chosen))
        return
    policies = {}
    for name in chosen:
        interval = comparison.saving(name, sessions=comparison.test_half)[1:]
        figures = comparison.figures(name)
        policies[name] = figures | {
            "per_year": per_year(figures, scenario.conversations_per_day)._asdict(),
            "long_sessions": comparison.figures(name, comparison.long_sessions),
            "test_half": comparison.figures(name, comparison.test_half)
            | {"saving_interval_percent": interval},
        }
    trace = comparison.trace
    print_json(
        {
            "scenario": scenario.to_dict(),
            "trace": {"name": trace.name, "sessions": trace.n_sessions, "turns": trace.n_turns},
            "policies": policies,
            "warnings": [*comparison.warnings, NOT_BY_SITE],
        }
    )


def _table(comparison: Compared, chosen: Sequence[str]) -> str:
    """The figures as a table."""
    scenario, trace = comparison.prepared.scenario, comparison.trace
    figures_by_policy = {name: comparison.figures(name) for name in chosen}
    scale = mass_scale(max(figures["carbon_g"] for figures in figures_by_policy.values()))
    lines = [
        f"Scenario {scenario.name}: {trace.name}, {trace.n_sessions:,} sessions, "
        f"{trace.n_turns:,} turns, {scenario.window_days} days from {scenario.window_start} UTC",
        "",
        f"{'policy':<24}{scale.unit + ' CO2e':>11}{'saving %':>10}{'95 % interval':>18}"
        f"{'> ' + str(LONG_SESSION_TURNS) + ' turns %':>12}{'test half %':>13}{'95 % interval':>18}"
        f"{'faircarbon %':>15}"
        f"{'recompute %':>13}"
        f"{'moves/sess.':>12}{'quality':>9}{'TTFT ms':>9}{'latency s':>11}",
    ]
    for name, figures in figures_by_policy.items():
        long = comparison.figures(name, comparison.long_sessions)
        half = comparison.saving(name, sessions=comparison.test_half)
        lines.append(
            f"{name:<24}{figures['carbon_g'] * scale.factor:>11.3f}"
            f"{number(figures['saving_percent'], 1):>10}"
            f"{interval_text(comparison.saving(name)):>18}"
            f"{number(long['saving_percent'], 1):>12}"
            f"{number(half.value_percent, 1):>13}{interval_text(half):>18}"
            f"{number(figures['saving_vs_faircarbon_percent'], 1):>15}"
            f"{number(figures['recompute_share'], 1, 100):>13}"
            f"{number(figures['moves_per_session'], 2):>12}"
            f"{number(figures['quality_mean'], 3):>9}"
            f"{number(figures['ttft_ms_mean'], 0):>9}"
            f"{number(figures['latency_ms_mean'], 1, 1e-3):>11}"
        )
    lines += ["", *_year_lines(comparison, figures_by_policy)]
    lines += ["", *_fairness_lines(figures_by_policy)]
    unserved = figures_by_policy[chosen[0]]["unserved_turns"]
    if unserved:
        lines += ["", notes.unserved(unserved, trace.n_turns)]
    lines += ["", "test half: the sessions nothing was learned from; evidence is theirs."]
    if OPTIMUM in chosen:
        lines.append(_optimum_line(comparison, chosen))
    lines += [f"note: {warning}" for warning in comparison.warnings]
    return "\n".join(lines).rstrip()


def _optimum_line(comparison: Compared, chosen: Sequence[str]) -> str:
    """What the hindsight optimum is, and how near to it each policy comes."""
    gaps_closed = [
        f"{name} {percent:.1f} %"
        for name in chosen
        if not policy(name).knows_output
        and (percent := comparison.gap_closed_percent(name)) is not None
    ]
    scenario = comparison.prepared.scenario
    text = f"{OPTIMUM}: {comparison.optimum_label.lower()}"
    if not comparison.optimum_is_exact:
        text += ", not proven to be the least"
        text += f"; {BOUND} is the lower bound"
        text += ", and ignores the latency ceiling" if scenario.latency_ceiling_ms else ""
        text += ", with embodied carbon counted" if scenario.embodied else ""
    if not gaps_closed:
        return text
    return f"{text}. Of the way there from {scenario.baseline}: {', '.join(gaps_closed)}."


def _year_lines(
    comparison: Compared, figures_by_policy: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """What each policy comes to in a year at the volume of the service."""
    scenario = comparison.prepared.scenario
    per_day = scenario.conversations_per_day
    lines = [
        f"saving %: against {scenario.baseline}, today's practice of this scenario (baseline); "
        f"faircarbon %: against {FAIRCARBON}",
        "",
        f"{f'a year of {fmt.exact(per_day, 7)} a day':<24}{'t CO2e':>11}{'kWh':>14}",
    ]
    for name, figures in figures_by_policy.items():
        year = per_year(figures, per_day)
        lines.append(f"{name:<24}{number(year.carbon_t, 2):>11}{number(year.energy_kwh, 0):>14}")
    return lines


def _fairness_lines(figures_by_policy: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """How evenly each policy serves the user regions."""
    head = f"{'between user regions':<24}{'quality gap':>13}{'Jain':>9}{'latency gap s':>15}"
    return [
        f"{head}{'Jain':>9}",
        *(
            f"{name:<24}{number(figures['quality_gap'], 4):>13}"
            f"{number(figures['quality_jain'], 4):>9}"
            f"{number(figures['latency_gap_ms'], 2, 1e-3):>15}"
            f"{number(figures['latency_jain'], 4):>9}"
            for name, figures in figures_by_policy.items()
        ),
    ]
