"""``import``: bring data of your own into the store; one kind of data a module."""

from __future__ import annotations

from typing import Any

from carbonrouter_core.cli import import_intensity, import_trace, own_catalog

KINDS = (import_trace, import_intensity)


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = commands.add_parser(
        "import",
        help="store a trace, a carbon-intensity series or a catalog of your own",
        description="Store data of your own, once it has been checked.",
        allow_abbrev=False,
    )
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    for kind in KINDS:
        kind.add_to(kinds)
    own_catalog.add_import_to(kinds)
