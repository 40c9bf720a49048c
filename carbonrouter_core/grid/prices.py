"""Prices of electricity by zone and time: the user's own first, then Ember's monthly means.

Ember's are day-ahead wholesale prices, without network charges, taxes or a contract.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from carbonrouter_core.errors import CatalogError
from carbonrouter_core.paths import data_path
from carbonrouter_core.reading.tables import Column, read_table
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.units import HOURS_PER_DAY, S_PER_HOUR

BUILTIN_CURRENCIES = ("EUR", "USD")
"""Currencies of the built-in prices, at monthly mean exchange rates."""
MONTHS_PER_YEAR = 12
FIRST_YEAR = 1970

OWN_COLUMNS = (
    Column("zone", "text", "grid zone"),
    Column("month", "whole", "month; empty: every month", "", 1, 12, True),
    Column("hour_utc", "whole", "hour of the day, UTC; empty: every hour", "", 0, 23, True),
    Column("price_per_mwh", "number", "price of electricity", "a MWh", -1e5, 1e6),
)


@lru_cache(maxsize=2)
def builtin_prices(currency: str) -> Mapping[tuple[str, int], float]:
    """Price a MWh by zone and month, months counted from January 1970; empty: no such currency."""
    if currency not in BUILTIN_CURRENCIES:
        return {}
    table = pd.read_csv(data_path("electricity_price_by_month.csv"))
    month = (table["year"] - FIRST_YEAR) * MONTHS_PER_YEAR + table["month"] - 1
    values = table[f"mean_{currency.lower()}_per_mwh"]
    return dict(zip(zip(table["zone"], month, strict=True), values, strict=True))


def zones_with_prices() -> tuple[str, ...]:
    """Zones that have a built-in price, in order."""
    return tuple(sorted({zone for zone, _ in builtin_prices(BUILTIN_CURRENCIES[0])}))


def price_per_mwh(scenario: Scenario, zone: str, time_s: np.ndarray) -> np.ndarray:
    """Price of electricity in the currency of the scenario, NaN where it is not known.

    An own price goes before a built-in one, and that of an hour before that of a month or of all
    times. An own price counts in every year.

    Parameters
    ----------
    scenario
        Has the currency and the own prices.
    zone
        Grid zone.
    time_s
        Seconds since 1970-01-01 UTC, shape (n,).

    Returns
    -------
    numpy.ndarray
        Price a MWh, shape (n,).
    """
    months = time_s.astype("int64").astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
    hours = (time_s // S_PER_HOUR).astype(np.int64) % HOURS_PER_DAY
    own, builtin = scenario.electricity_price_per_mwh, builtin_prices(scenario.currency)
    cell, of_cell = np.unique(months * HOURS_PER_DAY + hours, return_inverse=True)
    values = []
    for number in cell.tolist():
        month, hour = divmod(number, HOURS_PER_DAY)
        of_year = month % MONTHS_PER_YEAR + 1
        for key in (f"{zone} {of_year} {hour}", f"{zone} {of_year}", zone):
            if key in own:
                values.append(own[key])
                break
        else:
            values.append(builtin.get((zone, month), np.nan))
    return np.asarray(values, dtype=np.float64)[of_cell]


def read_own_prices(path: Path, zones: Sequence[str]) -> dict[str, float]:
    """Own prices of a CSV table, as scenario field ``electricity_price_per_mwh`` has them.

    Parameters
    ----------
    path
        CSV with the columns ``zone,month,hour_utc,price_per_mwh``; ``month`` and ``hour_utc`` may
        be empty or left out.
    zones
        Zones that exist.

    Raises
    ------
    CatalogError
        If a cell is wrong, a zone is unknown, or a row has an hour but no month; the message names
        file and line.
    """
    table = read_table(path, OWN_COLUMNS, ("zone", "month", "hour_utc"))
    prices = {}
    for line, row in table.iterrows():
        where = f"{path.name}, line {line}"
        if row["zone"] not in zones:
            raise CatalogError(
                f"{where}: there is no zone {row['zone']!r}; command zones lists them."
            )
        if np.isnan(row["month"]) and not np.isnan(row["hour_utc"]):
            raise CatalogError(f"{where}: an hour needs its month; add it.")
        parts = [f"{int(row[name])}" for name in ("month", "hour_utc") if not np.isnan(row[name])]
        prices[" ".join([row["zone"], *parts])] = float(row["price_per_mwh"])
    if not prices:
        raise CatalogError(f"{path.name} has no rows; add a price.")
    return prices
