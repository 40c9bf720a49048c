"""``validate``: report what a file holds and what is wrong with it; store nothing.

Each kind of data has a function here. It takes the options and returns its report, or None if
the file is of another kind.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from carbonrouter_core.cli.options import (
    add_command,
    add_intensity_options,
    add_json_option,
    add_timezone_option,
    add_trace_file_options,
    intensity_options_from,
    trace_options_from,
)
from carbonrouter_core.cli.output import progress_line
from carbonrouter_core.errors import ReadingError
from carbonrouter_core.grid.importers import INTENSITY_IMPORTERS
from carbonrouter_core.grid.staging import stage_intensity
from carbonrouter_core.reading.files import Source
from carbonrouter_core.store.mappings import stored_mappings
from carbonrouter_core.store.sites import own_zones
from carbonrouter_core.traces.importers.mapped import NEEDED
from carbonrouter_core.traces.staging import stage

Check = Callable[[argparse.Namespace], str | None]


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = add_command(
        commands,
        "validate",
        _validate,
        help="check a file without storing it",
        description="Check a file and print the report; exit code 2 if it could not be stored.",
    )
    add_trace_file_options(parser)
    add_intensity_options(parser)
    add_timezone_option(parser)
    add_json_option(parser, "the report")


def _columns_are_of_traffic(options: argparse.Namespace) -> bool:
    """Whether the columns that the user names are those of traffic."""
    names = {assignment.partition("=")[0].strip() for assignment in options.column}
    traffic = {mapping.name for mapping in stored_mappings("trace")}
    return options.mapping in traffic or bool(names & set(NEEDED))


def _intensity(options: argparse.Namespace) -> str | None:
    """The report of a carbon-intensity file; None if the file is of another kind."""
    if options.format is None and (options.column or options.mapping):
        if _columns_are_of_traffic(options):
            return None
    elif options.format is None:
        path = options.files[0]
        try:
            if INTENSITY_IMPORTERS.find(Source(path, path.name, pages=False)) is None:
                return None
        except ReadingError:  # a folder or an unreadable file: _trace reports it
            return None
    elif options.format not in INTENSITY_IMPORTERS or options.format == "own":
        return None
    staged = stage_intensity(
        options.files,
        options.format,
        options=intensity_options_from(options),
        own_zones=own_zones(),
        progress=progress_line("reading"),
    )
    report = staged.report
    shown = json.dumps(report.to_dict(), indent=2) if options.json else str(report)
    if not report.can_store:
        print(shown)
        staged.require(done="stored, nor could it be")
    return shown


def _trace(options: argparse.Namespace) -> str:
    """The report of a trace; an error if the file is of no known kind."""
    with stage(
        options.files,
        options.format,
        options=trace_options_from(options),
        progress=progress_line("reading"),
    ) as staged:
        report = staged.report
        shown = json.dumps(report.to_dict(), indent=2) if options.json else str(report)
        if report.unreadable or not report.can_store:
            print(shown)
            staged.require(done="stored, nor could it be")
        return shown


CHECKS: tuple[Check, ...] = (_intensity, _trace)
"""Called in this order. Traces are last: they report what is wrong with an unknown file."""


def _validate(options: argparse.Namespace) -> None:
    for check in CHECKS:
        report = check(options)
        if report is not None:
            print(report)
            return
