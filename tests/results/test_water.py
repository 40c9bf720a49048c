"""Litres of a run, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from carbonrouter_core import PRESETS, compare, load_catalog
from carbonrouter_core.fleet.catalog import Region
from carbonrouter_core.results.site_energy import SiteEnergy, site_energy
from carbonrouter_core.results.water import site_water, water
from tests.hand_made import T, make_trace


def energy(*sites: tuple[Region, float]) -> SiteEnergy:
    """Sites with PUE 1.5 and their kWh."""
    return SiteEnergy(
        tuple(site for site, _ in sites),
        np.full(len(sites), 1.5),
        np.array([kwh for _, kwh in sites]),
    )


def site(region: str) -> Region:
    return load_catalog().regions[region]


def test_litres_by_hand() -> None:
    # London: 300 kWh from the grid are 200 kWh at the servers (PUE 1.5).
    # Cooling 0.18 L x 200 = 36 L; generation in GB 2.329 L x 300 = 698.7 L.
    used = water(energy((site("europe-west2"), 300.0)))
    assert used.litres == pytest.approx(36 + 698.7)
    assert dict(used.by_site) == {"europe-west2": pytest.approx(734.7)}
    assert used.unknown == ()


def test_a_site_without_a_figure_makes_the_litres_unknown_only_if_it_draws_energy() -> None:
    hamina = site("europe-north1")  # no WUE is published
    london = site("europe-west2")
    assert site_water(hamina.region, hamina.zone).wue_l_per_kwh is None
    used = water(energy((london, 1.0), (hamina, 1.0)))
    assert used.litres is None
    assert used.by_site["europe-north1"] is None
    assert used.by_site["europe-west2"] is not None
    assert "Hamina" in used.unknown[0]
    assert water(energy((london, 1.0), (hamina, 0.0))).litres is not None


def test_of_several_published_figures_the_nearest_of_the_site_and_the_latest_counts() -> None:
    singapore = site_water("asia-southeast1", "SG")  # AWS 2024 1.68, Azure 2022 2.06, both there
    assert singapore.wue_l_per_kwh == 1.68
    assert "2024" in singapore.wue_basis
    virginia = site_water("us-east4", "US-MIDA-PJM")  # six rows, us-east-1 at 0 km
    assert virginia.wue_l_per_kwh == 0.12


def test_energy_by_site_adds_up_to_the_energy_of_the_policy() -> None:
    trace = make_trace({"a": [T(100, 50), T(80, 20)], "b": [T(900, 300)]}, ["europe-west2"] * 3)
    comparison = compare(PRESETS["Paper"], ["faircarbon"], trace)
    by_site = site_energy(comparison.prepared, comparison.runs["faircarbon"])
    whole = comparison.figures("faircarbon")["energy_kwh"]
    assert math.isclose(by_site.energy_kwh.sum(), whole, rel_tol=1e-9)
    assert np.allclose(by_site.it_kwh * by_site.pue, by_site.energy_kwh)
