"""``import trace``: check a trace file in any known format and store it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from carbonrouter_core.progress import Progress, nobody_listens
from carbonrouter_core.store.sites import check_region
from carbonrouter_core.store.store import open_store
from carbonrouter_core.traces.importers import IMPORTERS
from carbonrouter_core.traces.importers.base import ImportOptions
from carbonrouter_core.traces.staging import stage


def add_to(kinds: Any) -> None:
    """Add this kind of import to the parser."""
    parser = kinds.add_parser(
        "trace",
        help="traffic of a service: CSV, JSON, JSON Lines or Parquet, also packed (gz, zst)",
        description="Check a trace and store it; nothing is stored unless all of it is sound.",
        allow_abbrev=False,
    )
    add_file_options(parser)
    parser.add_argument("--name", help="name to store it under; default: that of the file")
    parser.add_argument(
        "--keep-readable",
        action="store_true",
        help="store what could be read where records end early or are damaged",
    )
    parser.set_defaults(run=_import)


def add_file_options(parser: Any) -> None:
    """Options about trace files, the same for importing and validating."""
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="files, or a folder")
    parser.add_argument(
        "--format", metavar="NAME", help=f"default: told by the content; {', '.join(IMPORTERS)}"
    )
    parser.add_argument(
        "--served-region", metavar="REGION", help="region that served, where the log says none"
    )
    parser.add_argument(
        "--without-dates",
        action="store_true",
        help="keep only the times within each session, so that any window can be used",
    )


def options_of(options: argparse.Namespace) -> ImportOptions:
    """What the options say about the files.

    Raises :class:`CatalogError` for a region that is none: its turns could not be charged.
    """
    if options.served_region is not None:
        check_region(options.served_region)
    return ImportOptions(served_region=options.served_region, keep_dates=not options.without_dates)


def _import(options: argparse.Namespace) -> None:
    store = open_store()  # before the work: another process may hold it
    name = options.name or options.files[0].name.split(".")[0]
    with stage(
        options.files, options.format, options=options_of(options), progress=progress("reading")
    ) as staged:
        print(staged.report)
        stored = store.save_trace(
            staged,
            name,
            accept_unreadable=options.keep_readable,
            progress=progress("storing"),
        )
    print(f"stored as {stored.name}: use --trace {stored.name}")


def progress(what: str) -> Progress:
    """Shows how far a long job is, on a terminal only."""
    if not sys.stderr.isatty():
        return nobody_listens
    shown = [-1]

    def show(share: float) -> None:
        percent = int(100 * share)
        if percent != shown[0]:
            shown[0] = percent
            end = "\n" if percent >= 100 else ""
            print(f"\r{what} {percent} %", end=end, file=sys.stderr, flush=True)

    return show
