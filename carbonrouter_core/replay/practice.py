"""Today's practice of a scenario in the terms of its deployments: which sessions are where."""

from __future__ import annotations

import numpy as np

from carbonrouter_core.errors import ScenarioError
from carbonrouter_core.fleet.deployments import Deployments
from carbonrouter_core.routing.kernel import Rules
from carbonrouter_core.routing.policies import FIXED_DEPLOYMENT, OWN_MIX, policy
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.words.names import unknown

APART = " @ "
"""Stands between model and region in the names of ``baseline_mix``."""


def places_of(scenario: Scenario, policy_id: str) -> dict[tuple[str, str], float]:
    """Share of the sessions at each (model, region), adding up to 1.

    Raises :class:`ScenarioError` for a model or region that the scenario does not have.
    """
    if policy_id == FIXED_DEPLOYMENT.id:
        model = scenario.baseline_model or scenario.models[0]
        region = scenario.baseline_region or scenario.regions[0]
        return {_checked(scenario, model, region, "baseline_model", "baseline_region"): 1.0}
    if not scenario.baseline_mix:
        pairs = [(model, region) for model in scenario.models for region in scenario.regions]
        return {pair: 1.0 / len(pairs) for pair in pairs}
    weights: dict[tuple[str, str], float] = {}
    for name, weight in scenario.baseline_mix.items():
        model, apart, region = (part.strip() for part in name.partition(APART.strip()))
        if not apart:
            raise ScenarioError(
                f"baseline_mix names {name!r}; write MODEL{APART}REGION, such as "
                f"{scenario.models[0]}{APART}{scenario.regions[0]}."
            )
        pair = _checked(scenario, model, region, "baseline_mix", "baseline_mix")
        weights[pair] = weights.get(pair, 0.0) + weight
    total = sum(weights.values())
    return {pair: weight / total for pair, weight in weights.items() if weight > 0}


def _checked(
    scenario: Scenario, model: str, region: str, model_field: str, region_field: str
) -> tuple[str, str]:
    if model not in scenario.models:
        raise ScenarioError(f"{model_field}: {unknown('model', model, scenario.models)}")
    if region not in scenario.regions:
        raise ScenarioError(f"{region_field}: {unknown('region', region, scenario.regions)}")
    return model, region


def checked_baseline(scenario: Scenario, deployments: Deployments) -> tuple[str, ...]:
    """What the reader must know of the scenario's baseline, in sentences.

    Raises :class:`ScenarioError` if the baseline is no policy, or names a place that the scenario
    does not have.
    """
    chosen = policy(scenario.baseline)
    if chosen.id not in (FIXED_DEPLOYMENT.id, OWN_MIX.id):
        return ()
    places = _numbers(scenario, chosen.id, deployments)
    notes = [f"{chosen.label} is bound by no quality floor and no latency ceiling."]
    if chosen.id == FIXED_DEPLOYMENT.id and not (
        scenario.baseline_model and scenario.baseline_region
    ):
        ((model, region),) = places_of(scenario, chosen.id)
        notes.append(
            f"{chosen.label}: the scenario does not name both (baseline_model, baseline_region); "
            f"taken is {model} in {region}."
        )
    if chosen.id == OWN_MIX.id and not scenario.baseline_mix:
        notes.append(
            f"{chosen.label}: the scenario names none (baseline_mix); all {len(places)} pairs of "
            "model and region have equal shares."
        )
    return tuple(notes)


def _numbers(
    scenario: Scenario, policy_id: str, deployments: Deployments
) -> list[tuple[int, int, float]]:
    """Model number, region number and share of each place."""
    fleet = deployments.fleet
    models = {
        replica.model: int(fleet.pair_model[pair])
        for pair, replica in enumerate(deployments.replicas)
    }
    regions = {region.region: number for number, region in enumerate(deployments.regions)}
    there = set(zip(fleet.pair_model[fleet.pair].tolist(), fleet.region.tolist(), strict=True))
    numbers = []
    for (model, region), share in places_of(scenario, policy_id).items():
        place = models[model], regions[region]
        if place in there:
            numbers.append((*place, share))
        elif policy_id == FIXED_DEPLOYMENT.id or scenario.baseline_mix:
            raise ScenarioError(
                f"{model} runs on none of the GPU types of {region}; name another place for "
                f"{policy_id}."
            )
    return numbers


def with_practice(
    rules: Rules, policy_id: str, scenario: Scenario, deployments: Deployments
) -> Rules:
    """``rules`` with the places of today's practice, for a policy that goes by them."""
    if policy_id not in (FIXED_DEPLOYMENT.id, OWN_MIX.id):
        return rules
    model, region, share = zip(*_numbers(scenario, policy_id, deployments), strict=True)
    until = np.cumsum(share)
    return rules._replace(
        mix_until=until / until[-1],
        mix_model=np.array(model, np.int64),
        mix_region=np.array(region, np.int64),
    )
