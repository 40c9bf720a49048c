"""``zones``: grid zones, regions, and where carbon intensity comes from; your own sites."""

from __future__ import annotations

import argparse
from typing import Any

from carbonrouter_core.cli.options import add_command
from carbonrouter_core.errors import InputError, StoreError
from carbonrouter_core.fleet.cloud_names import cloud_names_of
from carbonrouter_core.grid.series import builtin_series, utc_text
from carbonrouter_core.scenario import BASES
from carbonrouter_core.store.series import delete_intensity, stored_intensity
from carbonrouter_core.store.sites import add_site, delete_site, load_catalog, stranded_by


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = add_command(
        commands,
        "zones",
        _zones,
        help="list grid zones with their carbon intensity, and regions; add a site",
        description="List grid zones with their carbon intensity and the regions on them; delete "
        "one of your series; add or delete a site.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--delete", metavar="NAME", help="delete a stored series")
    what.add_argument(
        "--add-site",
        nargs="+",
        metavar="FIELD",
        help="NAME ZONE LATITUDE LONGITUDE [PUE]; without PUE 1.20 is assumed",
    )
    what.add_argument("--delete-site", metavar="NAME", help="delete one of your sites")


def _zones(options: argparse.Namespace) -> None:
    if options.delete is not None:
        if stranded := stranded_by(options.delete):
            sites = ", ".join(f"{name} ({zone})" for name, zone in stranded.items())
            raise InputError(
                f"{options.delete!r} is not deleted: without it there is no carbon intensity for "
                f"your site {sites}. Delete the site first (--delete-site), or import another "
                "series of its zone."
            )
        delete_intensity(options.delete)
        print(f"deleted {options.delete}")
    elif options.add_site is not None:
        _add(options.add_site)
    elif options.delete_site is not None:
        delete_site(options.delete_site)
        print(f"deleted site {options.delete_site}")
    else:
        print(_table())


def _add(fields: list[str]) -> None:
    if not 4 <= len(fields) <= 5:
        raise InputError("--add-site takes NAME ZONE LATITUDE LONGITUDE and, if known, PUE.")
    name, zone, *numbers = fields
    try:
        latitude, longitude, *pue = [float(number) for number in numbers]
    except ValueError:
        raise InputError(f"--add-site: {' '.join(numbers)} are not numbers.") from None
    site = add_site(name, zone, latitude, longitude, pue[0] if pue else None)
    assumed = " (assumed)" if site.pue_assumed else ""
    print(
        f"added {site.region} on {site.zone}, PUE {site.pue:.2f}{assumed}; round trips by distance"
    )


def _table() -> str:
    lines = [f"{'zone':<16}{'from':<20}{'to':<20}{'kind':<10}{'basis':<20}{'values':<18}source"]
    note = ""
    try:
        for stored in stored_intensity():
            lines += [
                f"{series['zone']:<16}{series['first_utc']:<20}{series['end_utc']:<20}"
                f"{series['kind']:<10}{series['basis']:<20}{series['granularity']:<18}"
                f"yours: {stored.name}"
                for series in stored.series
            ]
    except StoreError as error:  # the built-in series can still be used
        note = f"note: {error}"
    for zone, series in sorted(builtin_series("lifecycle").items()):
        bases = " + ".join(basis for basis in BASES if zone in builtin_series(basis))
        lines.append(
            f"{zone:<16}{utc_text(series.start_s):<20}{utc_text(series.end_s):<20}"
            f"{series.kind:<10}{bases:<20}{series.granularity:<18}built in"
        )
    lines += ["", f"{'region':<26}{'city':<18}{'zone':<16}{'PUE':<16}cloud regions on its grid"]
    lines += [
        f"{site.region:<26}{site.city:<18}{site.zone:<16}"
        f"{f'{site.pue:.2f}' + (' assumed' if site.pue_assumed else ''):<16}"
        f"{', '.join(cloud_names_of(site.zone))}".rstrip()
        for site in load_catalog().regions.values()
    ]
    return "\n".join([*lines, *(["", note] if note else [])])
