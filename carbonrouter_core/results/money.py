"""Money: what the electricity of a policy costs.

Built in: mean wholesale prices by month of 12 European countries (data/README.md). They hold
neither network charges nor taxes nor a data centre's contract; give prices of your own for those,
and for all other zones. A zone without a price makes the cost unknown, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import numpy as np

from carbonrouter_core.paths import data_path
from carbonrouter_core.reading.tables import Column, read_table
from carbonrouter_core.results.site_energy import SiteEnergy

CURRENCY = "EUR"
"""Of the built-in prices, and of the table of one's own unless it says another."""
KWH_PER_MWH = 1000.0
MAX_PRICE = 1e6
"""Of a MWh, either sign; markets cap at a few thousand, other currencies have more zeros."""

BUILTIN_COLUMNS = (
    Column("zone", "text", "grid zone"),
    Column("year", "whole", "year", "", 2000, 2100),
    Column("month", "whole", "month", "", 1, 12),
    Column("mean_eur_per_mwh", "number", "mean wholesale price", "EUR/MWh", -MAX_PRICE, MAX_PRICE),
    Column("mean_usd_per_mwh", "number", "the same in dollars", "USD/MWh", -MAX_PRICE, MAX_PRICE),
    Column("source", "text", "where it is from"),
)
OWN_COLUMNS = (
    Column("zone", "text", "grid zone"),
    Column("year", "whole", "year", "", 2000, 2100),
    Column("month", "whole", "month", "", 1, 12),
    Column("price_per_mwh", "number", "price of electricity", "/MWh", -MAX_PRICE, MAX_PRICE),
)
"""A table of one's own; its currency is said beside it."""

Prices = Mapping[tuple[str, int, int], float]
"""Price of a MWh by zone, year and month."""


@dataclass(frozen=True)
class Cost:
    """What electricity costs under a policy.

    Attributes
    ----------
    electricity
        In the currency of the prices; None where the price of a zone is not known.
    by_site
        The same of each site that draws energy, by name of its region; None if not known.
    unknown
        Zone and month of each price that is missing.
    """

    electricity: float | None
    by_site: Mapping[str, float | None]
    unknown: tuple[str, ...]


def electricity_cost(energy: SiteEnergy, prices: Prices | None = None) -> Cost:
    """Cost of the energy that each site draws, by the price of its zone in each month.

    Parameters
    ----------
    energy
        Energy by site and month, kWh with PUE.
    prices
        Price of a MWh by zone, year and month; the built-in ones, in EUR, if left out.

    Returns
    -------
    Cost
        In the currency of the prices.
    """
    known = builtin_prices() if prices is None else prices
    by_site: dict[str, float | None] = {}
    unknown: list[str] = []
    for number, site in enumerate(energy.sites):
        total, missing = 0.0, False
        for month, energy_kwh in zip(
            energy.months.astype("datetime64[M]").tolist(),
            energy.energy_kwh[number].tolist(),
            strict=True,
        ):
            if energy_kwh == 0:
                continue
            price = known.get((site.zone, month.year, month.month))
            if price is None:
                unknown.append(f"no price of electricity in {site.zone} in {month:%Y-%m}")
                missing = True
            else:
                total += energy_kwh / KWH_PER_MWH * price
        if np.any(energy.energy_kwh[number]):
            by_site[site.region] = None if missing else total
    whole = None if unknown else sum(cost or 0.0 for cost in by_site.values())
    return Cost(whole, MappingProxyType(by_site), tuple(dict.fromkeys(unknown)))


@lru_cache(maxsize=1)
def builtin_prices() -> Prices:
    """The built-in mean wholesale prices, EUR a MWh."""
    return _prices(data_path("electricity_price_by_month.csv"), BUILTIN_COLUMNS, "mean_eur_per_mwh")


def read_prices(path: Path) -> Prices:
    """Prices of one's own from a CSV with the columns :data:`OWN_COLUMNS`.

    Raises
    ------
    CatalogError
        If a row is wrong or stands twice; the message names file, line and column.
    """
    return _prices(path, OWN_COLUMNS, "price_per_mwh")


def _prices(path: Path, columns: tuple[Column, ...], price: str) -> Prices:
    table = read_table(path, columns, ["zone", "year", "month"])
    keys = zip(table["zone"], table["year"].astype(int), table["month"].astype(int), strict=True)
    return MappingProxyType(dict(zip(keys, table[price].astype(float), strict=True)))
