"""``runs``: the runs that are kept: list, compute again, compare, rename, delete."""

from __future__ import annotations

import argparse
from typing import Any

from carbonrouter_core.cli.options import add_command
from carbonrouter_core.errors import InputError
from carbonrouter_core.report import kept_runs
from carbonrouter_core.results.totals import FIGURES
from carbonrouter_core.routing.policies import FAIRCARBON
from carbonrouter_core.store.store import Store, existing_store

SHOWN_FIGURES = ("carbon_g", "energy_kwh", "recompute_share", "quality_mean", "latency_ms_mean")


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = add_command(
        commands,
        "runs",
        _runs,
        help="list the runs that are kept; compute again, compare, rename or delete them",
        description="List the runs that are kept (report --keep NAME, or page Report). Exit codes: "
        "0 done; 2 no such run, or it cannot be computed again.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--again", metavar="ID", type=int, help="compute a run anew and say whether it is the same"
    )
    what.add_argument(
        "--compare", metavar=("ID", "ID"), nargs=2, type=int, help="two runs side by side"
    )
    what.add_argument("--rename", metavar=("ID", "NAME"), nargs=2, help="give a run another name")
    what.add_argument("--note", metavar=("ID", "TEXT"), nargs=2, help="give a run another note")
    what.add_argument("--delete", metavar="ID", type=int, help="delete a run")


def _runs(options: argparse.Namespace) -> None:
    store = existing_store()
    if store is None:
        if any((options.again, options.compare, options.rename, options.note, options.delete)):
            raise InputError("No run is kept yet.")
        print("No run is kept yet.")
    elif options.again is not None:
        print(kept_runs.run_again(store.load_run(options.again))[1])
    elif options.compare is not None:
        print(_compared(store, *options.compare))
    elif options.rename is not None or options.note is not None:
        number, text = options.rename or options.note
        run = store.load_run(_whole(number))
        name, note = (text, run.note) if options.rename else (run.name, text)
        store.update_run(run.id, name=name, note=note)
        print(f"run {run.id}: {name}")
    elif options.delete is not None:
        store.delete_run(options.delete)
        print(f"deleted run {options.delete}")
    else:
        print(_listed(store))


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(f"{text!r} is not the number of a run.") from None


def _listed(store: Store) -> str:
    lines = [f"{'run':>5}  {'kept (UTC)':<17}{'version':<9}{'policies':<52}name"]
    for run in store.runs():
        policies = ", ".join(kept_runs.policies_of(run))
        when = f"{run.created_utc:%Y-%m-%d %H:%M}" if run.created_utc else ""
        lines.append(f"{run.id:>5}  {when:<17}{run.engine_version:<9}{policies:<50}  {run.name}")
        if run.note:
            lines.append(f"{'':>7}{run.note}")
    return "\n".join(lines) if len(lines) > 1 else "No run is kept yet."


def _compared(store: Store, first: int, second: int) -> str:
    a, b = store.load_run(first), store.load_run(second)
    difference = kept_runs.difference(store, a, b)
    lines = [f"run {a.id} ({a.name}) and run {b.id} ({b.name})"]
    lines += [
        f"input {name}: {before} -> {after}" for name, (before, after) in difference.inputs.items()
    ]
    lines += [f"differs: {what}" for what in difference.rests_on]
    for policy_id, figures in difference.figures.items():
        lines.append(policy_id)
        for name in SHOWN_FIGURES:
            before, after = figures[name]
            lines.append(
                f"  {name:<18}{_number(before):>14}{_number(after):>14} {FIGURES[name][0]}"
            )
        if difference.turns and policy_id in difference.turns:
            common, elsewhere = difference.turns[policy_id]
            lines.append(f"  {elsewhere:,} of {common:,} turns served elsewhere")
    if not difference.figures:
        lines.append(f"They have no policy in common, not even {FAIRCARBON}.")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:,.6g}"
