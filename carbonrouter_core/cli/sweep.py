"""``sweep``: one question asked of many scenarios, and what the answer hangs on."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from carbonrouter_core.cli.options import (
    add_executor_options,
    add_scenario_options,
    policies_from,
    scenario_from,
)
from carbonrouter_core.cli.own_catalog import catalog_from
from carbonrouter_core.errors import InputError, StoreError
from carbonrouter_core.replay.executors import open_executor
from carbonrouter_core.routing.policies import BASELINE, ROUTER
from carbonrouter_core.store.store import Store, open_store
from carbonrouter_core.studies import sensitivity
from carbonrouter_core.studies.inputs import SWEEP_INPUTS, Point, sweep_input
from carbonrouter_core.studies.runner import Runner
from carbonrouter_core.studies.sweep import HALVES, Axis, Outcome, Question, Sweep

DEFAULT_POLICIES = (ROUTER, "carbonrouter", BASELINE)
DEFAULT_VALUES = 7


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = commands.add_parser(
        "sweep",
        help="vary one or two inputs, or all one at a time, and print the savings",
        description="Vary inputs and print the saving against the baseline at each value.",
        allow_abbrev=False,
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
    parser.add_argument("--policies", metavar="A,B", help=f"default: {','.join(DEFAULT_POLICIES)}")
    parser.add_argument("--baseline", default=BASELINE, help=f"default: {BASELINE}")
    parser.add_argument("--half", choices=HALVES, default="test", help="sessions figures are of")
    parser.add_argument("--sample", metavar="N", type=int, help="sessions that stand for the trace")
    add_executor_options(parser)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.set_defaults(run=_sweep)


def _sweep(options: argparse.Namespace) -> None:
    base = scenario_from(options)
    policies = policies_from(options.policies, DEFAULT_POLICIES)
    question = Question(policies, options.baseline, options.half, options.sample)
    first = next((name for name in question.policies if name != question.baseline), None)
    if first is None:
        raise InputError("--policies names only the baseline; name one to hold against it.")
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
            told=_count,
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
            found = sensitivity.break_even(Point(base), name, first, run, low, high)
            _print_break_even(found, first, question.baseline, options.json)


def _count(outcome: Outcome, finished: int, total: int) -> None:
    """Counts on standard error what has come."""
    if sys.stderr.isatty():
        end = "\n" if finished == total else ""
        print(f"\r{finished} of {total} points", end=end, file=sys.stderr)


def _store() -> Store | None:
    """Where finished points are kept; None, said, while another process has it open."""
    try:
        return open_store()
    except StoreError as error:
        print(f"note: finished points are not kept: {error}", file=sys.stderr)
        return None


def _axis(text: str) -> Axis:
    name, _, values = text.partition("=")
    one = sweep_input(name.strip())
    if not values.strip():
        return Axis(one.id, sensitivity.spaced_values(one.id, DEFAULT_VALUES))
    if values.count(":") == 2:
        low, high, count = values.split(":")
        number = _value(count, 1)
        if not isinstance(number, int):
            raise InputError(f"--vary {text!r}: the count {count!r} is no whole number.")
        return Axis(
            one.id,
            sensitivity.spaced_values(one.id, number, _value(low, one.low), _value(high, one.low)),
        )
    return Axis(one.id, tuple(_value(part, one.low) for part in values.split(",")))


def _bounds(name: str, text: str) -> tuple[Any, Any]:
    one = sweep_input(name)
    if not text:
        return one.low, one.high
    low, colon, high = text.partition(":")
    if not colon:
        raise InputError(f"--break-even {name}={text}: give the range as low:high.")
    return _value(low, one.low), _value(high, one.low)


def _value(text: str, like: Any) -> Any:
    """``text`` as a value of the kind of ``like``."""
    text = text.strip()
    try:
        if isinstance(like, date):
            return date.fromisoformat(text)
        if isinstance(like, int | float):
            if text.lower() == "none":
                return None
            number = float(text)
            return int(number) if isinstance(like, int) and number == int(number) else number
    except (ValueError, OverflowError):
        kind = "a date such as 2024-05-13" if isinstance(like, date) else "a number"
        raise InputError(f"{text!r} is not {kind}.") from None
    return text


# --- Printing ---------------------------------------------------------------------------------


def _dump(values: Any) -> None:
    print(json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def _shown(saving: float | None) -> str:
    return "n/a" if saving is None else f"{saving:.1f}"


def _print_sweep(sweep: Sweep, outcomes: Sequence[Outcome], as_json: bool) -> None:
    names = [axis.input for axis in sweep.axes]
    rows = list(zip(sweep.settings(), outcomes, strict=True))
    if as_json:
        _dump(
            [
                {
                    "values": dict(zip(names, map(_plain, values), strict=True)),
                    "figures": outcome.figures,
                    "saving_percent": {
                        name: one._asdict() for name, one in outcome.savings.items()
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
            interval = f"({_shown(saving.low_percent)} to {_shown(saving.high_percent)})"
            line += f"{_shown(saving.value_percent):>14} {interval:>19}"
        print(line + (f"  {outcome.error}" if outcome.error else ""))


def _print_tornado(bars: Sequence[sensitivity.Swing], policy_id: str, as_json: bool) -> None:
    if as_json:
        _dump(
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
            f"{_shown(bar.low_percent):>9}{_shown(bar.high_percent):>9}"
            f"{bar.span_percent:>8.1f}  {bar.input.why}"
        )
        for outcome in (bar.low, bar.high):
            if outcome.error:
                print(f"    {outcome.error}")
    print("\n" + sensitivity.most_important(bars))


def _print_draws(outcomes: Sequence[Outcome], policy_id: str, as_json: bool) -> None:
    found = sensitivity.factor_interval(outcomes, policy_id)
    if as_json:
        drawn = [
            one.point.factors.to_dict() | {"saving_percent": sensitivity.saving_of(one, policy_id)}
            for one in outcomes
        ]
        _dump({"policy": policy_id, "saving_percent": found._asdict(), "draws": drawn})
        return
    print(
        f"{policy_id}: {_shown(found.value_percent)} % as measured; {_shown(found.low_percent)} to "
        f"{_shown(found.high_percent)} % in the middle 95 % of {len(outcomes) - 1} draws of the "
        "measured factors."
    )


def _print_break_even(
    found: sensitivity.BreakEven, policy_id: str, baseline: str, as_json: bool
) -> None:
    if as_json:
        looked_at = [{"value": v, "saving_percent": saving} for v, saving in found.looked_at]
        _dump({"input": found.input.id, "crossings": found.crossings, "looked_at": looked_at})
        return
    print(found.in_words(policy_id, baseline))
