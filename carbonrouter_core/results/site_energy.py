"""Energy of a policy by site: what water and key figures are worked out from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from carbonrouter_core.fleet.catalog import Region
from carbonrouter_core.replay.on_disk import RunOnDisk
from carbonrouter_core.replay.run import Run
from carbonrouter_core.replay.world import Prepared


@dataclass(frozen=True)
class SiteEnergy:
    """Energy that each site draws from the grid, with and without PUE.

    Attributes
    ----------
    sites
        The sites that may serve.
    pue
        Energy that enters each site for each unit that reaches its servers, shape (sites,).
    energy_kwh
        Energy with PUE, shape (sites,).
    """

    sites: tuple[Region, ...]
    pue: np.ndarray
    energy_kwh: np.ndarray

    @property
    def it_kwh(self) -> np.ndarray:
        """The same without PUE: what reaches the servers, kWh, shape (sites,)."""
        return self.energy_kwh / self.pue


def site_energy(prepared: Prepared, run: Run | RunOnDisk) -> SiteEnergy:
    """Energy by site; the sum is the energy of the policy.

    Parameters
    ----------
    prepared
        What the policy was run on.
    run
        Its run.

    Returns
    -------
    SiteEnergy
        In kWh, shape (sites,).
    """
    fleet, served = prepared.deployments.fleet, run.decisions.served
    sites = tuple(prepared.deployments.regions)
    site = fleet.region[run.decisions.deployment[served]]
    total = np.bincount(site, run.charges.energy_kwh[served], len(sites))
    return SiteEnergy(sites, fleet.pue, total)
