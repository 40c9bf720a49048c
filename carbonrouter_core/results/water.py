"""Water: litres that a policy's electricity and cooling consume.

Litres = site WUE x IT energy + water of electricity x energy with PUE. The site WUE is what
cooling evaporates at the data centre. The water of electricity is what power plants consume to
generate what the site draws, reservoirs included; it is a mean of the whole country.

Source: data/wue_by_region.csv, data/water_of_electricity.csv (see data/README.md). The two parts
are added as in WRI, Guidance for Calculating Water Use Embedded in Purchased Electricity (2020).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import pandas as pd

from carbonrouter_core.paths import data_path
from carbonrouter_core.reading.tables import Column, read_table
from carbonrouter_core.results.site_energy import SiteEnergy

WUE_COLUMNS = (
    Column("region", "text", "cloud region of this project"),
    Column("provider", "text", "who publishes the figure"),
    Column("provider_region", "text", "its name of the site"),
    Column("distance_km", "number", "from the region", "km", 0, 20_100),
    Column("wue_l_per_kwh", "number", "cooling water of a kWh at the servers", "L/kWh", 0, 100),
    Column("year", "whole", "year of the figure", "", 2000, 2100),
    Column("basis", "text", "region, or provider fleet average"),
    Column("source", "text", "where it is from"),
)
ELECTRICITY_COLUMNS = (
    Column("zone", "text", "grid zone"),
    Column("country", "text", "country that the figure is the mean of"),
    Column("litres_per_kwh", "number", "water consumed by generation", "L/kWh", 0, 1000),
    Column("basis", "text", "what the figure is"),
    Column("year", "whole", "year of publication", "", 2000, 2100),
    Column("source", "text", "where it is from"),
)


@dataclass(frozen=True)
class SiteWater:
    """Factors of one site, None where no figure is published.

    Attributes
    ----------
    wue_l_per_kwh
        Cooling water at the site, litres for each kWh that reaches the servers.
    wue_basis
        Whose figure that is, and of which site and year.
    electricity_l_per_kwh
        Water of generation, litres for each kWh that the site draws.
    """

    wue_l_per_kwh: float | None
    wue_basis: str
    electricity_l_per_kwh: float | None


@dataclass(frozen=True)
class Water:
    """Litres of a policy.

    Attributes
    ----------
    litres
        Cooling and generation; None where a site that draws energy has no figure.
    by_site
        Litres of each site that draws energy, by name of its region; None if not known.
    unknown
        The sites that have no figure, with the reason.
    """

    litres: float | None
    by_site: Mapping[str, float | None]
    unknown: tuple[str, ...]


def water(energy: SiteEnergy) -> Water:
    """Litres that the energy of a policy consumes.

    Parameters
    ----------
    energy
        Energy by site, kWh with PUE.

    Returns
    -------
    Water
        Litres, by site and in all. A site that draws nothing needs no figure.
    """
    by_site: dict[str, float | None] = {}
    unknown = []
    rows = zip(
        energy.sites,
        energy.energy_kwh.tolist(),
        energy.it_kwh.tolist(),
        strict=True,
    )
    for site, energy_kwh, it_kwh in rows:
        if energy_kwh == 0:
            continue
        factors = site_water(site.region, site.zone)
        if factors.wue_l_per_kwh is None or factors.electricity_l_per_kwh is None:
            what = "cooling water" if factors.wue_l_per_kwh is None else "water of electricity"
            unknown.append(f"{site.city}: no figure of its {what} is published")
            by_site[site.region] = None
            continue
        by_site[site.region] = (
            factors.wue_l_per_kwh * it_kwh + factors.electricity_l_per_kwh * energy_kwh
        )
    total = None if unknown else sum(litres or 0.0 for litres in by_site.values())
    return Water(total, MappingProxyType(by_site), tuple(unknown))


def site_water(region: str, zone: str) -> SiteWater:
    """Factors of a site.

    Of several published figures of one region the nearest site counts, then a figure of the site
    before an average of the provider, then the latest year.
    """
    wue, electricity = _tables()
    own = wue[wue["region"] == region]
    generation = electricity[electricity["zone"] == zone]["litres_per_kwh"]
    per_kwh = float(generation.iloc[0]) if len(generation) else None
    if own.empty:
        return SiteWater(None, "not published", per_kwh)
    best = own.iloc[0]
    return SiteWater(
        float(best["wue_l_per_kwh"]),
        f"{best['provider']} {best['provider_region']}, {best['basis']}, {best['year']:.0f}, "
        f"{best['distance_km']:.0f} km away",
        per_kwh,
    )


@lru_cache(maxsize=1)
def _tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    wue = read_table(
        data_path("wue_by_region.csv"), WUE_COLUMNS, ["region", "provider", "provider_region"]
    )
    wue["average"] = wue["basis"] != "region"
    wue["age"] = -wue["year"]
    wue = wue.sort_values(["region", "distance_km", "average", "age"], kind="stable")
    electricity = read_table(data_path("water_of_electricity.csv"), ELECTRICITY_COLUMNS, ["zone"])
    return wue, electricity
