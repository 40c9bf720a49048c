"""``sweep``: savings in many scenarios, and which inputs they depend on."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from carbonrouter_core.cli.options import (
    add_command,
    add_executor_options,
    add_json_option,
    add_policies_option,
    add_scenario_options,
    policies_from,
    scenario_from,
)
from carbonrouter_core.cli.output import count_line, interval_text, number, print_json
from carbonrouter_core.cli.own_catalog import catalog_from
from carbonrouter_core.errors import InputError, StoreError
from carbonrouter_core.replay.executors import open_executor
from carbonrouter_core.routing.policies import FAIRCARBON, ROUTERS
from carbonrouter_core.store.store import Store, open_store
from carbonrouter_core.studies import sensitivity
from carbonrouter_core.studies.inputs import SWEEP_INPUTS, Point, sweep_input
from carbonrouter_core.studies.runner import Runner
from carbonrouter_core.studies.sweep import HALVES, Axis, Outcome, Question, Sweep

DEFAULT_POLICIES = (*ROUTERS, FAIRCARBON)
DEFAULT_VALUES = 7


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = add_command(
        commands,
        "sweep",
        _sweep,
        help="vary one or two inputs, or all one at a time, and print the savings",
        description="Vary inputs and print the saving against the baseline at each value.",
    )
    add_scenario_options(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--vary",
        metavar="INPUT=VALUES",
        action="append",
        help="a,b,c, or low:high:count, or nothing for the usual range; give it once or twice; "
        f"inputs: {', '.join(SWEEP_INPUTS)}",
    )
    what.add_argument("--tornado", action="store_true", help="every input at its low and high")
    what.add_argument("--monte-carlo", metavar="DRAWS", type=int, help="draw the measured factors")
    what.add_argument(
        "--break-even",
        metavar="INPUT",
        help="where the first policy stops winning; low:high after =",
    )
    add_policies_option(parser, ",".join(DEFAULT_POLICIES))
    parser.add_argument("--baseline", help="default: the baseline of the scenario")
    parser.add_argument(
        "--half", choices=HALVES, default="test", help="which sessions the figures are of"
    )
    parser.add_argument("--sample", metavar="N", type=int, help="run a sample of N sessions")
    add_executor_options(parser)
    add_json_option(parser)


def _sweep(options: argparse.Namespace) -> None:
    base = scenario_from(options)
    policies = policies_from(options.policies, DEFAULT_POLICIES)
    question = Question(policies, options.baseline or base.baseline, options.half, options.sample)
    first = next((name for name in question.policies if name != question.baseline), None)
    if first is None:
        raise InputError("--policies names only the baseline; name a policy to compare with it.")
    with (
        open_executor(options.workers, options.cluster) as executor,
        tempfile.TemporaryDirectory(prefix="carbonrouter-") as folder,
    ):
        run = Runner(
            question,
            executor,
            Path(folder),
            catalog=catalog_from(options),
            store=_store(),
            on_outcome=_count,
        )
        if options.vary:
            sweep = Sweep(base, tuple(_axis(text) for text in options.vary), question)
            _print_sweep(sweep, run(sweep.points()), options.json)
        elif options.tornado:
            bars = sensitivity.swings(run(sensitivity.one_at_a_time(base)), first)
            _print_tornado(bars, first, options.json)
        elif options.monte_carlo is not None:
            points = sensitivity.drawn_factors(base, options.monte_carlo, base.seed)
            _print_draws(run(points), first, options.json)
        else:
            name, _, text = options.break_even.partition("=")
            low, high = _bounds(name, text)
            result = sensitivity.break_even(Point(base), name, first, run, low, high)
            _print_break_even(result, first, question.baseline, options.json)


def _count(outcome: Outcome, finished: int, total: int) -> None:
    """Show on a terminal how many points are finished."""
    count_line(finished, total, "points")


def _store() -> Store | None:
    """The store that keeps finished points; None, with a note, if it cannot be opened."""
    try:
        return open_store()
    except StoreError as error:
        print(f"note: finished points are not kept: {error}", file=sys.stderr)
        return None


def _axis(text: str) -> Axis:
    name, _, values = text.partition("=")
    varied = sweep_input(name.strip())
    if not values.strip():
        return Axis(varied.id, sensitivity.spaced_values(varied.id, DEFAULT_VALUES))
    if values.count(":") == 2:
        low, high, count = values.split(":")
        steps = _value(count, 1)
        if not isinstance(steps, int):
            raise InputError(f"--vary {text!r}: the count {count!r} is not a whole number.")
        ends = _value(low, varied.low), _value(high, varied.low)
        return Axis(varied.id, sensitivity.spaced_values(varied.id, steps, *ends))
    return Axis(varied.id, tuple(_value(part, varied.low) for part in values.split(",")))


def _bounds(name: str, text: str) -> tuple[Any, Any]:
    varied = sweep_input(name)
    if not text:
        return varied.low, varied.high
    low, colon, high = text.partition(":")
    if not colon:
        raise InputError(f"--break-even {name}={text}: give the range as low:high.")
    return _value(low, varied.low), _value(high, varied.low)


def _value(text: str, like: Any) -> Any:
    """``text`` as a value of the kind of ``like``."""
    text = text.strip()
    try:
        if isinstance(like, date):
            return date.fromisoformat(text)
        if isinstance(like, int | float):
            if text.lower() == "none":
                return None
            value = float(text)
            return int(value) if isinstance(like, int) and value == int(value) else value
    except (ValueError, OverflowError):
        kind = "a date such as 2024-05-13" if isinstance(like, date) else "a number"
        raise InputError(f"{text!r} is not {kind}.") from None
    return text


# --- Printing ---------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def _print_sweep(sweep: Sweep, outcomes: Sequence[Outcome], as_json: bool) -> None:
    names = [axis.input for axis in sweep.axes]
    rows = list(zip(sweep.settings(), outcomes, strict=True))
    if as_json:
        print_json(
            [
                {
                    "values": dict(zip(names, map(_plain, values), strict=True)),
                    "figures": outcome.figures,
                    "saving_percent": {
                        name: saving._asdict() for name, saving in outcome.savings.items()
                    },
                    "error": outcome.error or None,
                }
                for values, outcome in rows
            ]
        )
        return
    policies = [name for name in sweep.question.policies if name != sweep.question.baseline]
    print(f"Saving against {sweep.question.baseline} in %, 95 % interval over sessions")
    print("".join(f"{name:>22}" for name in names) + "".join(f"{name:>34}" for name in policies))
    for values, outcome in rows:
        line = "".join(f"{_plain(value)!s:>22}" for value in values)
        for name in policies:
            saving = outcome.savings.get(name)
            if saving is None:
                continue
            interval = f"({number(saving.low_percent, 1)} to {number(saving.high_percent, 1)})"
            line += f"{number(saving.value_percent, 1):>14} {interval:>19}"
        print(line + (f"  {outcome.error}" if outcome.error else ""))


def _print_tornado(bars: Sequence[sensitivity.Swing], policy_id: str, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "input": bar.input.id,
                    "measured": bar.input.measured,
                    "low": _plain(bar.input.low),
                    "high": _plain(bar.input.high),
                    "why": bar.input.why,
                    "base_percent": bar.base_percent,
                    "low_percent": bar.low_percent,
                    "high_percent": bar.high_percent,
                    "low_error": bar.low.error or None,
                    "high_error": bar.high.error or None,
                }
                for bar in bars
            ]
        )
        return
    print(f"Saving of {policy_id} in %, {bars[0].base_percent:.1f} as it stands")
    print(f"{'input':<28}{'low':>12}{'high':>12}{'at low':>9}{'at high':>9}{'points':>8}  why")
    for bar in bars:
        print(
            f"{bar.input.label:<28}{_plain(bar.input.low)!s:>12}{_plain(bar.input.high)!s:>12}"
            f"{number(bar.low_percent, 1):>9}{number(bar.high_percent, 1):>9}"
            f"{bar.span_percent:>8.1f}  {bar.input.why}"
        )
        for outcome in (bar.low, bar.high):
            if outcome.error:
                print(f"    {outcome.error}")
    print("\n" + sensitivity.most_important(bars))


def _print_draws(outcomes: Sequence[Outcome], policy_id: str, as_json: bool) -> None:
    interval = sensitivity.factor_interval(outcomes, policy_id)
    if as_json:
        drawn = [
            outcome.point.factors.to_dict()
            | {"saving_percent": sensitivity.saving_of(outcome, policy_id)}
            for outcome in outcomes
        ]
        print_json({"policy": policy_id, "saving_percent": interval._asdict(), "draws": drawn})
        return
    print(
        f"{policy_id}: {number(interval.value_percent, 1)} % as measured; "
        f"{interval_text(interval)} % in the middle 95 % of {len(outcomes) - 1} draws of the "
        "measured factors."
    )


def _print_break_even(
    result: sensitivity.BreakEven, policy_id: str, baseline: str, as_json: bool
) -> None:
    if as_json:
        looked_at = [{"value": v, "saving_percent": saving} for v, saving in result.looked_at]
        print_json(
            {"input": result.input.id, "crossings": result.crossings, "looked_at": looked_at}
        )
        return
    print(result.in_words(policy_id, baseline))
