"""What a policy costs: electricity, rented GPUs and carbon, as far as their prices are known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from carbonrouter_core.compiled import Array, jit_borrowing
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.fleet.turn_costs import cost_of_turn
from carbonrouter_core.grid.prices import price_per_mwh
from carbonrouter_core.replay.run import Run
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.units import G_PER_T, MS_PER_S, S_PER_HOUR

KWH_PER_MWH = 1e3


class Cost(NamedTuple):
    """Cost of a run in the currency of the scenario; None: a price is not known.

    ``gpus`` and ``carbon`` are 0 where the scenario has no price of them: they are then not
    counted.
    """

    electricity: float | None
    gpus: float | None
    carbon: float
    zones_without_price: tuple[str, ...]
    gpus_without_price: tuple[str, ...]

    @property
    def total(self) -> float | None:
        """All that is counted; None where a part of it is not known."""
        if self.electricity is None or self.gpus is None:
            return None
        return self.electricity + self.gpus + self.carbon


def cost_of(prepared: Prepared, run: Run) -> Cost:
    """What a run costs.

    Parameters
    ----------
    prepared
        The scenario made ready, with its prices.
    run
        A policy's decisions and charges.

    Returns
    -------
    Cost
        Electricity: energy with PUE × price of the site's zone when the turn starts. GPUs: busy
        GPU hours × own price. Carbon: emissions × price of carbon. All for the whole run.
    """
    scenario, deployments = prepared.scenario, prepared.deployments
    fleet, decided = deployments.fleet, run.decisions.deployment
    served = np.flatnonzero(decided >= 0)
    region = fleet.region[decided[served]]
    time_s = scenario.window_start_s + prepared.placed.start_s[served]
    kwh = run.charges.energy_kwh[served]
    price = np.empty(len(served))
    for number, site in enumerate(deployments.regions):
        there = region == number
        price[there] = price_per_mwh(scenario, site.zone, time_s[there])
    unknown = np.isnan(price)
    zones = [deployments.regions[number].zone for number in np.unique(region[unknown])]
    gpus: float | None = 0.0
    lacking: list[str] = []
    if scenario.gpu_price_per_h:
        pair = fleet.pair[decided[served]]
        names = [replica.gpu for replica in deployments.replicas]
        used = [names[number] for number in np.unique(pair)]
        lacking = [name for name in dict.fromkeys(used) if name not in scenario.gpu_price_per_h]
        own = np.array([scenario.gpu_price_per_h.get(name, np.nan) for name in names])
        gpus = None if lacking else float((gpu_hours(prepared, run)[served] * own[pair]).sum())
    carbon = run.charges.carbon_g.sum() / G_PER_T * (scenario.carbon_price_per_t or 0.0)
    return Cost(
        electricity=None if unknown.any() else float((kwh * price).sum() / KWH_PER_MWH),
        gpus=gpus,
        carbon=float(carbon),
        zones_without_price=tuple(dict.fromkeys(zones)),
        gpus_without_price=tuple(lacking),
    )


def gpu_hours(prepared: Prepared, run: Run) -> np.ndarray:
    """Hours of one GPU that each turn takes, shape (turns,); a batch shares its replica's time."""
    trace = prepared.placed.trace
    hours = np.zeros(trace.n_turns)
    _gpu_hours(
        prepared.deployments.fleet,
        trace.history_tokens,
        trace.new_prompt_tokens,
        trace.output_tokens,
        run.decisions.deployment,
        run.decisions.cached_tokens,
        hours,
    )
    return hours


@jit_borrowing
def _gpu_hours(
    fleet: Fleet,
    history: Array,
    prompt: Array,
    output: Array,
    deployment: Array,
    cached: Array,
    hours: Array,
) -> None:
    for i in range(deployment.size):
        d = deployment[i]
        if d < 0:
            continue
        h, p, o = float(history[i]), float(prompt[i]), float(output[i])
        cost = cost_of_turn(fleet, d, 0, h, p, o, float(cached[i]))
        busy_ms = cost.prefill_ms + cost.decode_share_ms
        hours[i] = fleet.n_gpus[fleet.pair[d]] * busy_ms / (MS_PER_S * S_PER_HOUR)


def cost_per_tonne_avoided(
    cost: float | None, carbon_g: float, baseline_cost: float | None, baseline_g: float
) -> float | None:
    """Extra cost for each tonne that is not emitted; negative: money is saved as well.

    None where a cost is not known, or nothing is avoided.
    """
    if cost is None or baseline_cost is None or carbon_g >= baseline_g:
        return None
    return (cost - baseline_cost) / ((baseline_g - carbon_g) / G_PER_T)
