"""``import trace``: check a trace file in any known format and store it."""

from __future__ import annotations

import argparse
from typing import Any

from carbonrouter_core.cli.options import (
    add_column_options,
    add_command,
    add_timezone_option,
    add_trace_file_options,
    stored_name,
    trace_options_from,
)
from carbonrouter_core.cli.output import progress_line
from carbonrouter_core.store.find_trace import find_trace
from carbonrouter_core.store.mappings import save_mapping
from carbonrouter_core.store.store import open_store
from carbonrouter_core.traces.importers.mapped import MAPPED
from carbonrouter_core.traces.staging import stage
from carbonrouter_core.words import notes


def add_to(kinds: Any) -> None:
    """Add this kind of import to the parser."""
    parser = add_command(
        kinds,
        "trace",
        _import,
        help="traffic of a service: CSV, JSON, JSON Lines or Parquet, also packed (gz, zst)",
        description="Check a trace and store it; nothing is stored if anything in it is wrong.",
    )
    add_trace_file_options(parser)
    add_column_options(parser, MAPPED)
    add_timezone_option(parser)
    parser.add_argument("--name", help="name to store it under; default: the name of the file")
    parser.add_argument(
        "--keep-readable",
        action="store_true",
        help="if records end early, are damaged or lack counts, store those that can be read",
    )


def _import(options: argparse.Namespace) -> None:
    store = open_store()  # what is wrong with it is said before the work
    said = trace_options_from(options)
    mapping = None if options.keep_mapping is None else said.mapping(options.keep_mapping)
    with stage(
        options.files,
        options.format,
        options=said,
        progress=progress_line("reading"),
    ) as staged:
        print(staged.report)
        stored = store.save_trace(
            staged,
            stored_name(options),
            accept_unreadable=options.keep_readable,
            progress=progress_line("storing"),
        )
    if mapping is not None:
        save_mapping(mapping)
        print(
            f"the columns are kept as {mapping.name}; for the next file: --mapping {mapping.name}"
        )
    if copies := find_trace(stored.name).copies:
        print(notes.copies(copies))
    print(f"stored as {stored.name}: use --trace {stored.name}")
