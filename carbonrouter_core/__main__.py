"""The command line: ``python -m carbonrouter_core``.

Exit codes: 0 done; 2 bad input, with one line on standard error that says what to change.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from carbonrouter_core import __version__
from carbonrouter_core.engine import compare
from carbonrouter_core.errors import CarbonRouterError, InputError, ScenarioError
from carbonrouter_core.policies import BASELINE, POLICIES
from carbonrouter_core.results import Comparison, Interval
from carbonrouter_core.scenario import FIELDS, PRESETS, Scenario, preset
from carbonrouter_core.tables import unknown
from carbonrouter_core.traces.schema import LONG_SESSION_TURNS
from carbonrouter_core.units import mass_scale

DEFAULT_POLICIES = tuple(POLICIES)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise InputError(f"{message} (see {self.prog} --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with ``arguments`` (those of the process if left out)."""
    try:
        options = _parser().parse_args(arguments)
        options.run(options)
        sys.stdout.flush()
    except CarbonRouterError as error:
        print("error: " + " ".join(str(error).split()), file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has gone, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m carbonrouter_core",
        description="Carbon-aware routing of LLM conversations that counts what moving costs.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_compare(commands)
    return parser


def add_scenario_options(parser: argparse.ArgumentParser) -> None:
    """The options that choose a scenario, the same for every command."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--preset", metavar="NAME", help=f"one of {', '.join(PRESETS)}")
    where.add_argument("--scenario", metavar="FILE", type=Path, help="a scenario as JSON")
    parser.add_argument(
        "--trace", metavar="NAME|FILE", help="sharegpt, claude-code, or a CSV or Parquet file"
    )
    parser.add_argument(
        "--set",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        help=f"change a field (lists: a,b or JSON); fields: {', '.join(FIELDS)}",
    )


def scenario_from(options: argparse.Namespace) -> Scenario:
    """The scenario that the options of :func:`add_scenario_options` choose."""
    if options.scenario is not None:
        scenario = Scenario.from_json(_read_text(options.scenario))
    else:
        scenario = preset(options.preset) if options.preset is not None else Scenario()
    changes: dict[str, Any] = {}
    if options.trace is not None:
        changes["trace"] = options.trace
    for assignment in options.set:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"--set {assignment!r} is not FIELD=VALUE.")
        if name not in FIELDS:
            raise ScenarioError(unknown("scenario field", name, FIELDS.keys()))
        changes[name] = _value(text, getattr(scenario, name))
    return scenario.replace(**changes)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} cannot be read: {error}") from error


def _value(text: str, present: Any) -> Any:
    """``text`` as a value: JSON where it is JSON, else names separated by commas, else text."""
    if isinstance(present, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        pass
    if isinstance(present, tuple):
        return [name.strip() for name in text.split(",") if name.strip()]
    return None if text.strip().lower() == "none" else text


def _add_compare(commands: Any) -> None:
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
    chosen = DEFAULT_POLICIES
    if options.policies is not None:
        chosen = tuple(name.strip() for name in options.policies.split(",") if name.strip())
        if not chosen:
            raise InputError("--policies names no policy.")
    scenario = scenario_from(options)
    if (out := options.export_trace) is not None and out.suffix != ".parquet":
        raise InputError(f"--export-trace {out.name!r} must end in .parquet.")
    comparison = compare(scenario, [*chosen, BASELINE])
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


def _table(comparison: Comparison, chosen: Sequence[str]) -> str:
    scenario, trace = comparison.prepared.scenario, comparison.trace
    figures = {name: comparison.figures(name) for name in chosen}
    scale = mass_scale(max(one["carbon_g"] for one in figures.values()))
    lines = [
        f"Scenario {scenario.name}: {trace.name}, {trace.n_sessions:,} sessions, "
        f"{trace.n_turns:,} turns, {scenario.window_days} days from {scenario.window_start} UTC",
        "",
        f"{'policy':<24}{scale.unit + ' CO2e':>11}{'saving %':>10}{'95 % interval':>18}"
        f"{'> ' + str(LONG_SESSION_TURNS) + ' turns %':>12}{'recompute %':>13}"
        f"{'moves/sess.':>12}{'quality':>9}{'TTFT ms':>9}{'latency s':>11}",
    ]
    for name, one in figures.items():
        long = comparison.figures(name, comparison.long_sessions)
        lines.append(
            f"{name:<24}{one['carbon_g'] * scale.factor:>11.3f}"
            f"{_number(one['saving_vs_faircarbon_percent'], 1):>10}"
            f"{_interval(comparison.saving(name)):>18}"
            f"{_number(long['saving_vs_faircarbon_percent'], 1):>12}"
            f"{_number(one['recompute_share'], 1, 100):>13}"
            f"{_number(one['moves_per_session'], 2):>12}{_number(one['quality_mean'], 3):>9}"
            f"{_number(one['ttft_ms_mean'], 0):>9}{_number(one['latency_ms_mean'], 1, 1e-3):>11}"
        )
    unserved = figures[chosen[0]]["unserved_turns"]
    if unserved:
        lines += ["", f"{unserved:,} turns are unserved: no model holds their context."]
    lines += [""] + [f"note: {warning}" for warning in comparison.prepared.warnings]
    return "\n".join(lines).rstrip()


def _number(value: float | None, digits: int, factor: float = 1.0) -> str:
    return "n/a" if value is None else f"{value * factor:.{digits}f}"


def _interval(interval: Interval) -> str:
    if interval.low_percent is None:
        return "n/a"
    return f"{interval.low_percent:.1f} to {interval.high_percent:.1f}"


if __name__ == "__main__":
    sys.exit(main())
