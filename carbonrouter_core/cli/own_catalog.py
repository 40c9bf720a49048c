"""Models, GPU types and energy points of the user: options, ``import catalog``, ``catalog``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from carbonrouter_core.errors import InputError
from carbonrouter_core.fleet.catalog import Catalog
from carbonrouter_core.fleet.own import KINDS
from carbonrouter_core.store.own_catalog import delete_entry, import_catalog, stored_additions
from carbonrouter_core.store.sites import load_catalog


def add_catalog_options(parser: Any) -> None:
    """The user's CSV tables; :func:`catalog_from` reads them."""
    for option, what in (
        ("--models", "models"),
        ("--gpus", "GPU types"),
        ("--energy-points", "energy points"),
    ):
        parser.add_argument(
            option, metavar="FILE.csv", type=Path, help=f"{what} of your own (docs/own-catalog.md)"
        )


def catalog_from(options: argparse.Namespace) -> Catalog:
    """The catalog with what is stored and with the tables that the options name."""
    return load_catalog(options.models, options.gpus, options.energy_points)


def add_import_to(kinds: Any) -> None:
    """Add this kind of import to the parser."""
    parser = kinds.add_parser(
        "catalog",
        help="models, GPU types and energy points of your own, as CSV",
        description="Check tables of models, GPU types and energy points and store them; nothing "
        "is stored unless all of it is sound. An entry of yours with the same name is replaced.",
        allow_abbrev=False,
    )
    add_catalog_options(parser)
    parser.set_defaults(run=_import)


def _import(options: argparse.Namespace) -> None:
    if not (options.models or options.gpus or options.energy_points):
        raise InputError("Give --models, --gpus or --energy-points, or several of them.")
    for entry in import_catalog(options.models, options.gpus, options.energy_points):
        print(f"stored {entry}")
    for note in stored_additions().lacking:
        print(f"note: {note}")


def add_to(commands: Any) -> None:
    """Add the command ``catalog`` to the parser."""
    parser = commands.add_parser(
        "catalog",
        help="list models, GPU types and energy points of your own, or delete one",
        description="List the models, GPU types and energy points that you stored (import "
        "catalog), or delete one.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--delete",
        nargs=2,
        metavar=("KIND", "NAME"),
        help=f"KIND is one of {', '.join(map(repr, KINDS))}; energy points are named "
        "'MODEL on GPU' and go with their model or GPU type",
    )
    parser.set_defaults(run=_catalog)


def _catalog(options: argparse.Namespace) -> None:
    if options.delete is None:
        entries = stored_additions().entries
        print("\n".join(map(str, entries)) if entries else "There is nothing of your own yet.")
        return
    kind, name = options.delete
    if kind not in KINDS:
        raise InputError(f"--delete {kind!r}: the kind is one of {', '.join(KINDS)}.")
    curves = delete_entry(kind, name)
    print(
        f"deleted {kind} {name}" + "".join(f"\ndeleted energy points {curve}" for curve in curves)
    )
