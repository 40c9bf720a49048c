"""Sites of the user beside the built-in regions: kept in the store, offered wherever regions are.

A site needs a name, coordinates and a grid zone with carbon intensity. A PUE that is not known
is :data:`~.catalog.ASSUMED_PUE`, shown as assumed; round-trip times come from the distance, by
the fit that stands in for unmeasured pairs in the built-in table, and say so.
"""

from __future__ import annotations

import dataclasses
import math
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa

from carbonrouter_core.errors import CatalogError, StoreError
from carbonrouter_core.fleet.catalog import ASSUMED_PUE, Catalog, Region
from carbonrouter_core.fleet.cloud_names import match_region
from carbonrouter_core.fleet.own import read_additions, with_additions
from carbonrouter_core.fleet.tables import read_catalog
from carbonrouter_core.grid.series import builtin_series
from carbonrouter_core.store.own_catalog import additions_from, stored_entries
from carbonrouter_core.store.series import stored_intensity
from carbonrouter_core.store.store import existing_store, open_store, table_if_readable
from carbonrouter_core.words.names import unknown

KIND = NAME = "sites"

RTT_BASE_MS = 16.8
RTT_MS_PER_1000_KM = 15.1
"""Round trip over the great circle, fitted to the measured pairs (R² 0.76): data/README.md."""
RTT_WITHIN_MS = 5.0
"""Assumed within a site, as in the built-in table."""
EARTH_RADIUS_KM = 6371.0

MAX_NAME = 80
"""Characters of a site's name."""


def load_catalog(
    models: Path | None = None, gpus: Path | None = None, energy_points: Path | None = None
) -> Catalog:
    """The built-in catalog with the user's sites, models, GPU types and energy points after it.

    The user's are those in the store and those in CSV files given here (docs/own-catalog.md). A row
    of a file replaces a stored entry of the same name.

    Parameters
    ----------
    models, gpus, energy_points
        CSV files with the columns of ``data/models.csv``, ``data/gpus.csv`` and
        ``data/energy_points.csv``.

    Returns
    -------
    Catalog
        All that a scenario can choose from.

    Raises
    ------
    CatalogError
        If a table is wrong; the message names file and line.
    """
    catalog = _stored_catalog(own_sites(), stored_entries())
    if not (models or gpus or energy_points):
        return catalog
    return with_additions(catalog, read_additions(catalog, models, gpus, energy_points))


@lru_cache(maxsize=4)
def _stored_catalog(sites: tuple[Region, ...], entries: tuple[tuple[str, str], ...]) -> Catalog:
    return with_additions(_with_sites(read_catalog(), sites), additions_from(entries))


def own_sites() -> tuple[Region, ...]:
    """The user's sites, in the order they were added; none where the store cannot be read."""
    return _sites_in(table_if_readable(KIND, NAME))


def _sites_in(table: pa.Table | None) -> tuple[Region, ...]:
    return () if table is None else tuple(_region(**row) for row in table.to_pylist())


def own_zones() -> tuple[str, ...]:
    """Zones of the user's carbon-intensity series; none where the store cannot be read."""
    try:
        return tuple(dict.fromkeys(zone for stored in stored_intensity() for zone in stored.zones))
    except StoreError:
        return ()


def known_zones() -> list[str]:
    """Zones with carbon intensity, built in or the user's own."""
    return sorted({*builtin_series("lifecycle"), *own_zones()})


def add_site(
    name: str, zone: str, latitude: float, longitude: float, pue: float | None = None
) -> Region:
    """Store a site of the user; ``pue`` None: not known.

    Raises :class:`CatalogError` naming what is wrong with it.
    """
    name = name.strip()
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise CatalogError(f"The name of a site is 1 to {MAX_NAME} characters without line breaks.")
    zones = known_zones()
    if zone not in zones:
        raise CatalogError(
            unknown("zone", zone, zones) + " For a grid of your own, import its series first."
        )
    for label, value, limit in (("latitude", latitude, 90.0), ("longitude", longitude, 180.0)):
        if not (math.isfinite(value) and abs(value) <= limit):
            raise CatalogError(
                f"{label} of {name!r} is {value}; it must be from {-limit:g} to {limit:g} degrees."
            )
    if pue is not None and not 1.0 <= pue <= 5.0:
        raise CatalogError(f"PUE of {name!r} is {pue}; it must be from 1 to 5, or unknown.")
    site = _region(name, zone, float(latitude), float(longitude), pue)

    def with_site(table: pa.Table | None) -> tuple[pa.Table, Region]:
        sites = _sites_in(table)
        regions = (*read_catalog().regions.values(), *sites)
        taken = {taken_name.casefold() for r in regions for taken_name in (r.region, r.city)}
        if name.casefold() in taken:
            raise CatalogError(f"There is already a region {name!r}; choose another name.")
        return _table_of([*sites, site]), site

    return open_store().change_table(KIND, NAME, with_site)


def delete_site(name: str) -> None:
    """Delete a site of the user."""

    def without_site(table: pa.Table | None) -> tuple[pa.Table, None]:
        sites = _sites_in(table)
        if name not in [site.region for site in sites]:
            raise CatalogError(
                f"There is no site of yours {name!r}; built-in regions cannot be deleted."
            )
        return _table_of([site for site in sites if site.region != name]), None

    open_store().change_table(KIND, NAME, without_site)


def stranded_by(series: str) -> dict[str, str]:
    """Sites of the user, and their zones, that would have no carbon intensity without an import.

    ``series``: the name of the import.
    """
    stored = stored_intensity()
    left = {
        zone
        for series_import in stored
        if series_import.name != series
        for zone in series_import.zones
    }
    left |= set(builtin_series("lifecycle"))
    lost = {
        zone
        for series_import in stored
        if series_import.name == series
        for zone in series_import.zones
    } - left
    return {site.region: site.zone for site in own_sites() if site.zone in lost}


def check_region(name: str) -> None:
    """Raise :class:`CatalogError` unless ``name`` is a region or city, built in or a site of yours.

    Names of regions of AWS, Azure and Google on the grid of one are known too. Where the store
    cannot be read, the user's sites are not known: any name is accepted.
    """
    try:
        existing_store()
    except StoreError:
        return
    regions = load_catalog().regions.values()
    if match_region(name, regions) is not None:
        return
    known = {region.region for region in regions} | {region.city for region in regions}
    raise CatalogError(
        unknown("region", name, known) + " Command zones lists all of them; a site of your "
        "own is added by zones --add-site."
    )


def _table_of(sites: list[Region]) -> pa.Table:
    return pa.table(
        {
            "name": pa.array([site.region for site in sites], pa.string()),
            "zone": pa.array([site.zone for site in sites], pa.string()),
            "latitude": pa.array([site.latitude for site in sites], pa.float64()),
            "longitude": pa.array([site.longitude for site in sites], pa.float64()),
            "pue": pa.array(
                [None if site.pue_assumed else site.pue for site in sites], pa.float64()
            ),
        }
    )


def _region(name: str, zone: str, latitude: float, longitude: float, pue: float | None) -> Region:
    return Region(
        region=name,
        city=name,
        zone=zone,
        latitude=latitude,
        longitude=longitude,
        pue=ASSUMED_PUE if pue is None else pue,
        pue_source="not known" if pue is None else "yours",
        pue_assumed=pue is None,
    )


def _with_sites(catalog: Catalog, sites: tuple[Region, ...]) -> Catalog:
    """``catalog`` with ``sites`` behind its regions, and round-trip times to and from them."""
    if not sites:
        return catalog
    regions = dict(catalog.regions)
    rtt_ms, basis = dict(catalog.rtt_ms), dict(catalog.rtt_basis)
    for site in sites:
        for other in regions.values():
            for pair in ((site.region, other.region), (other.region, site.region)):
                rtt_ms[pair] = rtt_by_distance_ms(site, other)
                basis[pair] = "distance fit"
        rtt_ms[site.region, site.region] = RTT_WITHIN_MS
        basis[site.region, site.region] = "assumed within a region"
        regions[site.region] = site
    return dataclasses.replace(
        catalog,
        regions=MappingProxyType(regions),
        rtt_ms=MappingProxyType(rtt_ms),
        rtt_basis=MappingProxyType(basis),
    )


def rtt_by_distance_ms(first: Region, other: Region) -> float:
    """Estimated round trip between two sites, ms, from their great-circle distance."""
    rtt_ms = RTT_BASE_MS + RTT_MS_PER_1000_KM * distance_km(first, other) / 1000.0
    return round(rtt_ms, 1)  # as the built-in table gives them


def distance_km(first: Region, other: Region) -> float:
    """Great-circle distance (haversine formula), km."""
    a, b = math.radians(first.latitude), math.radians(other.latitude)
    across = math.radians(other.longitude - first.longitude)
    share = math.sin((b - a) / 2) ** 2 + math.cos(a) * math.cos(b) * math.sin(across / 2) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(min(1.0, share)))
