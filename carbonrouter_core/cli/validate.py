"""``validate``: say what a file holds and what is wrong with it, without storing anything.

The content tells which kind of data it is; each kind has a function here that takes the options
and returns its report, or None where the file is not of its kind.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from carbonrouter_core.cli.import_intensity import add_intensity_options, intensity_options_of
from carbonrouter_core.cli.import_trace import add_file_options, options_of, progress
from carbonrouter_core.errors import ReadingError
from carbonrouter_core.grid.importers import INTENSITY_IMPORTERS
from carbonrouter_core.grid.staging import stage_intensity
from carbonrouter_core.reading.files import Source
from carbonrouter_core.store.sites import own_zones
from carbonrouter_core.traces.staging import stage

Check = Callable[[argparse.Namespace], str | None]


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = commands.add_parser(
        "validate",
        help="check a file without storing it",
        description="Check a file and print the report; exit code 2 if it could not be stored.",
        allow_abbrev=False,
    )
    add_file_options(parser)
    add_intensity_options(parser)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(run=_validate)


def _intensity(options: argparse.Namespace) -> str | None:
    """The report of a carbon-intensity file; None where it is none."""
    if options.format is None:
        path = options.files[0]
        try:
            if INTENSITY_IMPORTERS.find(Source(path, path.name)) is None:
                return None
        except ReadingError:  # a folder, or what cannot be read: the check of traces says so
            return None
    elif options.format not in INTENSITY_IMPORTERS or options.format == "own":
        return None
    staged = stage_intensity(
        options.files,
        options.format,
        options=intensity_options_of(options),
        own_zones=own_zones(),
        progress=progress("reading"),
    )
    report = staged.report
    shown = json.dumps(report.to_dict(), indent=2) if options.json else str(report)
    if not report.can_store:
        print(shown)
        staged.require(done="stored, nor could it be")
    return shown


def _trace(options: argparse.Namespace) -> str:
    """The report of a trace; raises where the file is none, after all other kinds passed."""
    with stage(
        options.files, options.format, options=options_of(options), progress=progress("reading")
    ) as staged:
        report = staged.report
        shown = json.dumps(report.to_dict(), indent=2) if options.json else str(report)
        if report.unreadable or not report.can_store:
            print(shown)
            staged.require(done="stored, nor could it be")
        return shown


CHECKS: tuple[Check, ...] = (_intensity, _trace)
"""Asked in turn; traces last, since they say what is wrong with an unknown file."""


def _validate(options: argparse.Namespace) -> None:
    for check in CHECKS:
        report = check(options)
        if report is not None:
            print(report)
            return
