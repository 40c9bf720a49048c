"""Money, water, market-based carbon, key figures and parts of the saving of a policy, in one value.

A figure that is not known is None, and :func:`warnings_of` says what it lacks.
"""

from __future__ import annotations

from dataclasses import dataclass

from carbonrouter_core.replay.run import Run
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.results.indicators import Indicators, indicators, more_water
from carbonrouter_core.results.market_based import MarketBased, market_based
from carbonrouter_core.results.run_cost import Cost, cost_of, cost_per_tonne_avoided
from carbonrouter_core.results.saving_parts import SavingParts, saving_parts
from carbonrouter_core.results.site_energy import site_energy
from carbonrouter_core.results.water import Water, water
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.words.figures import joined


@dataclass(frozen=True)
class Account:
    """What a run comes to beside its carbon.

    ``parts`` and ``cost_per_tonne_avoided`` are against the baseline; None without one.
    """

    cost: Cost
    water: Water
    market: MarketBased
    indicators: Indicators
    parts: SavingParts | None
    cost_per_tonne_avoided: float | None
    more_water: bool
    """Whether less carbon than the baseline's means clearly more water."""

    def to_dict(self, scenario: Scenario) -> dict[str, object]:
        """All figures as plain JSON values; sums are of the run.

        ``cost`` counts electricity, and GPUs and carbon if the scenario has prices of them; these
        two are None if it has none.
        """
        return {
            "money": {
                "currency": scenario.currency,
                "cost": self.cost.total,
                "electricity": self.cost.electricity,
                "gpus": self.cost.gpus if scenario.gpu_price_per_h else None,
                "carbon": None if scenario.carbon_price_per_t is None else self.cost.carbon,
                "cost_per_tonne_avoided": self.cost_per_tonne_avoided,
                "zones_without_price": list(self.cost.zones_without_price),
                "gpus_without_price": list(self.cost.gpus_without_price),
            },
            "water": {
                "water_l": self.water.litres,
                "by_site_l": dict(self.water.by_site),
                "not_known": list(self.water.unknown),
            },
            "market_based": self.market._asdict()
            | {"sites_without_cfe": list(self.market.sites_without_cfe)},
            "indicators": self.indicators._asdict(),
            "saving_parts_g": None
            if self.parts is None
            else self.parts._asdict() | {"total_g": self.parts.total_g},
        }


def account(prepared: Prepared, run: Run, baseline: Run | None = None) -> Account:
    """What a run comes to beside its carbon.

    Parameters
    ----------
    prepared
        The scenario made ready.
    run
        A policy's decisions and charges.
    baseline
        The run that a saving is against; None: nothing is compared.
    """
    cost, litres = cost_of(prepared, run), water(site_energy(prepared, run))
    per_tonne, more = None, False
    if baseline is not None:
        grams, baseline_g = (float(each.charges.carbon_g.sum()) for each in (run, baseline))
        baseline_cost = cost_of(prepared, baseline).total
        per_tonne = cost_per_tonne_avoided(cost.total, grams, baseline_cost, baseline_g)
        baseline_l = water(site_energy(prepared, baseline)).litres
        more = more_water(litres.litres, grams, baseline_l, baseline_g)
    return Account(
        cost=cost,
        water=litres,
        market=market_based(prepared, run),
        indicators=indicators(prepared, run),
        parts=None if baseline is None else saving_parts(prepared, run, baseline),
        cost_per_tonne_avoided=per_tonne,
        more_water=more,
    )


def warnings_of(accounts: dict[str, Account], currency: str) -> list[str]:
    """What is not known of some policies, and where less carbon means more water, in sentences."""
    zones = dict.fromkeys(z for each in accounts.values() for z in each.cost.zones_without_price)
    gpus = dict.fromkeys(g for each in accounts.values() for g in each.cost.gpus_without_price)
    dry = dict.fromkeys(text for each in accounts.values() for text in each.water.unknown)
    thirsty = [name for name, each in accounts.items() if each.more_water]
    sentences = []
    if zones:
        sentences.append(
            f"cost is not known: there is no price of electricity in {currency} for "
            f"{joined(list(zones))} in the window; give one (electricity_price_per_mwh)."
        )
    if gpus:
        sentences.append(
            f"cost is not known: there is no price of {joined(list(gpus))}; give one "
            "(gpu_price_per_h)."
        )
    if dry:
        sentences.append(f"water_l is not known: {'; '.join(dry)}.")
    if thirsty:
        sentences.append(f"Less carbon means clearly more water under {joined(thirsty)}.")
    return sentences
