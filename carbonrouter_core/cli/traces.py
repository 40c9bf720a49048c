"""``traces``: list, export or delete the traces that can be used."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from carbonrouter_core.errors import InputError, StoreError, TraceError
from carbonrouter_core.store.store import Store, existing_store
from carbonrouter_core.traces.builtin import BUILTIN_TRACES
from carbonrouter_core.traces.report import utc_text


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = commands.add_parser(
        "traces",
        help="list the built-in and stored traces",
        description="List the built-in and stored traces; export or delete a stored one.",
        allow_abbrev=False,
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--export", nargs=2, metavar=("NAME", "FILE.parquet"), help="write a stored trace"
    )
    what.add_argument("--delete", metavar="NAME", help="delete a stored trace")
    parser.set_defaults(run=_traces)


def _traces(options: argparse.Namespace) -> None:
    if options.export is not None:
        name, file = options.export
        path = Path(file)
        if path.suffix != ".parquet":
            raise InputError(f"--export {path.name!r} must end in .parquet.")
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
    except StoreError as error:  # what is built in can be used all the same
        return "\n".join([*lines, "", f"note: {error}"])
    for one in store.traces() if store else []:
        span = "placed in any window"
        if one.first_utc_s is not None and one.last_utc_s is not None:
            span = f"{utc_text(one.first_utc_s)} to {utc_text(one.last_utc_s)}"
        lines.append(
            f"{one.name:<28}{one.turns:>12,}{one.sessions:>12,}  {one.format_id:<14}{span}"
        )
    return "\n".join(lines)
