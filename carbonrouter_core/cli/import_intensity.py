"""``import intensity``: check a carbon-intensity file in any known format and store it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from carbonrouter_core.cli.import_trace import progress
from carbonrouter_core.errors import InputError
from carbonrouter_core.grid.importers import INTENSITY_IMPORTERS
from carbonrouter_core.grid.importers.base import IntensityOptions
from carbonrouter_core.grid.staging import stage_intensity
from carbonrouter_core.reading.numbers import G_PER_KWH
from carbonrouter_core.scenario import BASES, KINDS
from carbonrouter_core.store.series import save_intensity
from carbonrouter_core.store.sites import own_zones
from carbonrouter_core.store.store import open_store


def add_to(kinds: Any) -> None:
    """Add this kind of import to the parser."""
    parser = kinds.add_parser(
        "intensity",
        help="carbon intensity of a grid: Electricity Maps, WattTime, GB API, or a table",
        description="Check carbon-intensity series and store them; nothing is stored unless all "
        "of it is sound. A series of yours goes before the built-in one of its zone.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="one series cut into files, or several"
    )
    parser.add_argument(
        "--format",
        metavar="NAME",
        help=f"default: told by the content; {', '.join(INTENSITY_IMPORTERS)}",
    )
    add_intensity_options(parser)
    parser.add_argument("--name", help="name to store it under; default: that of the file")
    parser.set_defaults(run=_import)


def add_intensity_options(parser: Any) -> None:
    """What the user may say about a carbon-intensity file; for importing and validating."""
    about = parser.add_argument_group("what a carbon-intensity file does not say itself")
    about.add_argument(
        "--zone",
        metavar="ZONE|NAME=ZONE",
        action="append",
        default=[],
        help="zone of the file, or our zone for a name in it (DE=DE-LU)",
    )
    about.add_argument(
        "--new-zone", metavar="NAME", action="append", default=[], help="a zone of its own"
    )
    about.add_argument("--timezone", metavar="NAME", help="UTC, Europe/Berlin, ...")
    about.add_argument("--unit", choices=sorted(G_PER_KWH), help="unit of the values")
    about.add_argument("--basis", choices=BASES, help="lifecycle or direct")
    about.add_argument("--kind", choices=KINDS, help="average or marginal")
    about.add_argument("--decimal", choices=[",", "."], help="decimal mark")
    about.add_argument(
        "--interval-end", action="store_true", help="times are ends of intervals, not starts"
    )
    about.add_argument("--hourly", action="store_true", help="keep hourly means of a finer series")
    about.add_argument("--source", metavar="TEXT", help="who publishes it; shown in reports")
    about.add_argument("--licence", metavar="TEXT", help="under which terms; shown in reports")


def intensity_options_of(options: argparse.Namespace) -> IntensityOptions:
    """What the options say about the files."""
    pairs = [one.rpartition("=") for one in options.zone]
    alone = [zone for name, equals, zone in pairs if not equals]
    if len(alone) > 1:
        raise InputError("--zone ZONE can be given once; for several zones say NAME=ZONE.")
    return IntensityOptions(
        zone=alone[0] if alone else None,
        zones={name: zone for name, equals, zone in pairs if equals},
        new_zones=tuple(options.new_zone),
        timezone=options.timezone,
        unit=options.unit,
        basis=options.basis,
        kind=options.kind,
        decimal=options.decimal,
        interval_end=options.interval_end or None,
        hourly=options.hourly,
        source=options.source,
        licence=options.licence,
    )


def _import(options: argparse.Namespace) -> None:
    store = open_store()  # before the work: another process may hold it
    name = options.name or options.files[0].name.split(".")[0]
    staged = stage_intensity(
        options.files,
        options.format,
        options=intensity_options_of(options),
        own_zones=own_zones(),
        progress=progress("reading"),
    )
    print(staged.report)
    stored = save_intensity(staged, name, store)
    zones = ", ".join(dict.fromkeys(one.zone for one in staged.series))
    print(f"stored as {stored}: scenarios read {zones} from it, in its range")
