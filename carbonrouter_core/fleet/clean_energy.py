"""Clean energy of a site: Google's published carbon-free share, and the user's own contracts."""

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

OWN_COLUMNS = (
    Column("region", "text", "cloud region"),
    Column("hour_utc", "whole", "hour of the day, UTC; empty: every hour", "", 0, 23, True),
    Column("clean_share", "number", "share of the energy bought as clean", "", 0, 1),
)


@lru_cache(maxsize=1)
def published_cfe_percent() -> Mapping[tuple[str, int], float]:
    """Google's carbon-free share in percent, by region and year; hourly matched.

    It has Google's own purchases and the grid's clean power in it. Its companion column of grid
    intensity is not read: it is lifecycle in 2019-20 and operational from 2021.
    """
    table = pd.read_csv(data_path("cfe_by_region.csv")).dropna(subset=["cfe_percent"])
    keys = zip(table["region"], table["year"], strict=True)
    return dict(zip(keys, table["cfe_percent"].astype(float), strict=True))


def contract_share(scenario: Scenario, region: str, time_s: np.ndarray) -> np.ndarray:
    """Share of the energy of ``region`` that own contracts cover at ``time_s``, shape (n,).

    0 where there is no contract. ``time_s``: seconds since 1970-01-01 UTC.
    """
    hours = (time_s // S_PER_HOUR).astype(np.int64) % HOURS_PER_DAY
    own = scenario.clean_contracts
    by_hour = [own.get(f"{region} {hour}", own.get(region, 0.0)) for hour in range(HOURS_PER_DAY)]
    return np.array(by_hour)[hours]


def read_contracts(path: Path, regions: Sequence[str]) -> dict[str, float]:
    """Own contracts of a CSV table, as scenario field ``clean_contracts`` has them.

    Parameters
    ----------
    path
        CSV with the columns ``region,hour_utc,clean_share``; ``hour_utc`` may be empty or left out.
    regions
        Regions that exist.

    Raises
    ------
    CatalogError
        If a cell is wrong or a region is unknown; the message names file and line.
    """
    table = read_table(path, OWN_COLUMNS, ("region", "hour_utc"))
    shares = {}
    for line, row in table.iterrows():
        if row["region"] not in regions:
            raise CatalogError(
                f"{path.name}, line {line}: there is no region {row['region']!r}; "
                "command zones lists them."
            )
        hour = "" if np.isnan(row["hour_utc"]) else f" {int(row['hour_utc'])}"
        shares[row["region"] + hour] = float(row["clean_share"])
    if not shares:
        raise CatalogError(f"{path.name} has no rows; add a share.")
    return shares
