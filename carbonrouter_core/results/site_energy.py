"""Energy of a policy by site and month: what water is worked out from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from carbonrouter_core.fleet.catalog import Region
from carbonrouter_core.replay.on_disk import RunOnDisk
from carbonrouter_core.replay.run import Run
from carbonrouter_core.replay.world import Prepared


@dataclass(frozen=True)
class SiteEnergy:
    """Energy that each site draws from the grid, by calendar month in UTC.

    Attributes
    ----------
    sites
        The sites that may serve.
    pue
        Energy that enters each site for each unit that reaches its servers, shape (sites,).
    months
        First day of each month, ``datetime64[M]``, shape (months,).
    energy_kwh
        Energy with PUE of the turns that start in the month, shape (sites, months).
    """

    sites: tuple[Region, ...]
    pue: np.ndarray
    months: np.ndarray
    energy_kwh: np.ndarray

    @property
    def it_kwh(self) -> np.ndarray:
        """The same without PUE: what reaches the servers, kWh, shape (sites, months)."""
        return self.energy_kwh / self.pue[:, None]


def site_energy(prepared: Prepared, run: Run | RunOnDisk) -> SiteEnergy:
    """Energy by site and month; the sum is the energy of the policy.

    Parameters
    ----------
    prepared
        What the policy was run on.
    run
        Its run.

    Returns
    -------
    SiteEnergy
        In kWh, shape (sites, months), of the months in which turns were served.
    """
    fleet, served = prepared.deployments.fleet, run.decisions.served
    start_s = prepared.scenario.window_start_s + prepared.placed.start_s[served]
    month = start_s.astype("datetime64[s]").astype("datetime64[M]")
    months, column = np.unique(month, return_inverse=True)
    sites = tuple(prepared.deployments.regions)
    cell = fleet.region[run.decisions.deployment[served]] * max(len(months), 1) + column
    total = np.bincount(cell, run.charges.energy_kwh[served], len(sites) * len(months))
    return SiteEnergy(sites, fleet.pue, months, total.reshape(len(sites), len(months)))
