"""``traces``: list, export or delete the traces that can be used."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from carbonrouter_core.cli.options import add_command, check_output
from carbonrouter_core.errors import StoreError, TraceError
from carbonrouter_core.store.store import Store, existing_store
from carbonrouter_core.traces.builtin import BUILTIN_TRACES
from carbonrouter_core.traces.report import utc_text


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = add_command(
        commands,
        "traces",
        _traces,
        help="list the built-in and stored traces",
        description="List the built-in and stored traces; export or delete a stored one.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--export", nargs=2, metavar=("NAME", "FILE.parquet"), help="write a stored trace"
    )
    what.add_argument("--delete", metavar="NAME", help="delete a stored trace")


def _traces(options: argparse.Namespace) -> None:
    if options.export is not None:
        name, file = options.export
        path = Path(file)
        check_output(path, ".parquet", option="--export")
        _store(name).export_trace(name, path)
        print(f"wrote {name} to {path.name}")
    elif options.delete is not None:
        _store(options.delete).delete_trace(options.delete)
        print(f"deleted {options.delete}")
    else:
        print(_table())


def _store(name: str) -> Store:
    if name in BUILTIN_TRACES:
        raise TraceError(f"{name} is built in; only stored traces are exported and deleted.")
    store = existing_store()
    if store is None:
        raise TraceError(f"There is no stored trace {name!r}; nothing has been stored yet.")
    return store


def _table() -> str:
    lines = [f"{'name':<28}{'turns':>12}{'sessions':>12}  {'format':<14}time"]
    lines += [
        f"{name:<28}{'':>12}{'':>12}  {'built in':<14}{label}"
        for name, label in BUILTIN_TRACES.items()
    ]
    try:
        store = existing_store()
    except StoreError as error:  # the built-in traces can still be used
        return "\n".join([*lines, "", f"note: {error}"])
    for trace in store.traces() if store else []:
        time = "placed in any window"
        if trace.first_utc_s is not None and trace.last_utc_s is not None:
            time = f"{utc_text(trace.first_utc_s)} to {utc_text(trace.last_utc_s)}"
        lines.append(
            f"{trace.name:<28}{trace.turns:>12,}{trace.sessions:>12,}  {trace.format_id:<14}{time}"
        )
    return "\n".join(lines)
