"""Market-based carbon beside location-based carbon; the two are never added or mixed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from carbonrouter_core.fleet.clean_energy import contract_share, published_cfe_percent
from carbonrouter_core.replay.run import Run
from carbonrouter_core.replay.world import Prepared

METHOD = (
    "Location-based: energy × carbon intensity of the grid. Market-based: the energy that own "
    "contracts cover in the hour counts 0, the rest at the grid's intensity; with a residual mix "
    "it would be higher."
)


class MarketBased(NamedTuple):
    """Carbon of a run by both methods, and how much of its energy is clean."""

    location_g: float
    market_g: float | None
    """None: the scenario has no contracts."""
    contract_kwh: float
    """Energy that own contracts cover."""
    published_cfe_percent: float | None
    """Google's carbon-free share, weighted by the energy; None where a site in use has none for
    the year. It enters no carbon figure: the grid's clean power is in both."""
    cfe_year: int
    sites_without_cfe: tuple[str, ...]


def market_based(prepared: Prepared, run: Run) -> MarketBased:
    """Carbon of a run by both methods.

    Parameters
    ----------
    prepared
        The scenario made ready, with its contracts.
    run
        A policy's decisions and charges.
    """
    scenario, deployments = prepared.scenario, prepared.deployments
    served = np.flatnonzero(run.decisions.served)
    region = deployments.fleet.region[run.decisions.deployment[served]]
    time_s = scenario.window_start_s + prepared.placed.start_s[served]
    kwh, grams = run.charges.energy_kwh[served], run.charges.carbon_g[served]
    covered = np.zeros(len(served))
    year = datetime.fromtimestamp(scenario.window_start_s, UTC).year
    clean_kwh, lacking = 0.0, []
    for number, site in enumerate(deployments.regions):
        there = region == number
        covered[there] = contract_share(scenario, site.region, time_s[there])
        if energy := float(kwh[there].sum()):
            share = published_cfe_percent().get((site.region, year))
            if share is None:
                lacking.append(site.region)
            else:
                clean_kwh += energy * share
    total = float(kwh.sum())
    return MarketBased(
        location_g=float(grams.sum()),
        market_g=float((grams * (1.0 - covered)).sum()) if scenario.clean_contracts else None,
        contract_kwh=float((kwh * covered).sum()),
        published_cfe_percent=None if lacking or not total else clean_kwh / total,
        cfe_year=year,
        sites_without_cfe=tuple(lacking),
    )
