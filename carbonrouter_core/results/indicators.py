"""Key figures of a run as the EU's data-centre reporting and the SCI standard define them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from carbonrouter_core.replay.run import Run
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.results.site_energy import site_energy
from carbonrouter_core.results.water import site_water

CLEARLY_MORE = 0.05
"""Share by which water must rise before the reader is warned; the tables are no better."""
TOKENS_PER_UNIT = 1000.0
"""Functional unit of the software carbon intensity: 1,000 output tokens."""


class Indicators(NamedTuple):
    """Key figures of all served turns of a run; None where a figure is not known."""

    energy_kwh: float
    it_kwh: float
    pue: float | None
    """Energy / IT energy."""
    wue_l_per_kwh: float | None
    """Cooling water on site / IT energy."""
    sci_g_per_1000_tokens: float | None
    """Software carbon intensity (ISO/IEC 21031): (operational + embodied carbon) for 1,000 output
    tokens."""


def indicators(prepared: Prepared, run: Run) -> Indicators:
    """Key figures of a run.

    Parameters
    ----------
    prepared
        The scenario made ready.
    run
        A policy's decisions and charges.
    """
    by_site = site_energy(prepared, run)
    energy_kwh, it_kwh = by_site.energy_kwh, by_site.it_kwh
    wue = [site_water(site.region, site.zone).wue_l_per_kwh for site in by_site.sites]
    used = it_kwh > 0
    litres = np.array([np.nan if value is None else value for value in wue])[used] * it_kwh[used]
    energy, it = float(energy_kwh.sum()), float(it_kwh.sum())
    tokens = float(prepared.placed.trace.output_tokens[run.decisions.served].sum())
    emitted_g = float(run.charges.carbon_g.sum() + run.charges.embodied_g.sum())
    known = it > 0 and not np.isnan(litres).any()
    return Indicators(
        energy_kwh=energy,
        it_kwh=it,
        pue=energy / it if it else None,
        wue_l_per_kwh=float(litres.sum()) / it if known else None,
        sci_g_per_1000_tokens=emitted_g * TOKENS_PER_UNIT / tokens if tokens else None,
    )


def more_water(
    water_l: float | None, carbon_g: float, baseline_l: float | None, baseline_g: float
) -> bool:
    """Whether less carbon than the baseline's means clearly more water."""
    if water_l is None or baseline_l is None:
        return False
    return carbon_g < baseline_g and water_l > baseline_l * (1.0 + CLEARLY_MORE)
