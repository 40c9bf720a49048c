"""``import intensity``: check a carbon-intensity file in any known format and store it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from carbonrouter_core.cli.options import (
    add_command,
    add_intensity_options,
    add_timezone_option,
    intensity_options_from,
    stored_name,
)
from carbonrouter_core.cli.output import progress_line
from carbonrouter_core.grid.importers import INTENSITY_IMPORTERS
from carbonrouter_core.grid.staging import stage_intensity
from carbonrouter_core.store.mappings import save_mapping
from carbonrouter_core.store.series import save_intensity
from carbonrouter_core.store.sites import own_zones
from carbonrouter_core.store.store import open_store


def add_to(kinds: Any) -> None:
    """Add this kind of import to the parser."""
    parser = add_command(
        kinds,
        "intensity",
        _import,
        help="carbon intensity of a grid, from files of operators and data services, or any table",
        description="Check carbon-intensity series and store them; nothing is stored if anything "
        "in it is wrong. Your series replaces the built-in one of its zone.",
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="one series cut into files, or several"
    )
    parser.add_argument(
        "--format",
        metavar="NAME",
        help=f"default: recognised by the content; {', '.join(INTENSITY_IMPORTERS)}",
    )
    add_intensity_options(parser)
    add_timezone_option(parser)
    parser.add_argument("--name", help="name to store it under; default: the name of the file")


def _import(options: argparse.Namespace) -> None:
    store = open_store()  # what is wrong with it is said before the work
    said = intensity_options_from(options)
    mapping = None if options.keep_mapping is None else said.mapping(options.keep_mapping)
    staged = stage_intensity(
        options.files,
        options.format,
        options=said,
        own_zones=own_zones(),
        progress=progress_line("reading"),
    )
    print(staged.report)
    stored = save_intensity(staged, stored_name(options), store)
    zones = ", ".join(dict.fromkeys(series.zone for series in staged.series))
    if mapping is not None:
        save_mapping(mapping)
        print(
            f"the columns are kept as {mapping.name}; for the next file: --mapping {mapping.name}"
        )
    print(f"stored as {stored}: scenarios read {zones} from it, in its range")
