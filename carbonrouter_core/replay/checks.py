"""What makes a scenario impossible to run, all of it at once and before anything is replayed.

:func:`~.world.prepare` stops at the first thing that is wrong; a form wants to name them all.
Each check tests one thing; conditions and words are those of the modules that refuse to run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from carbonrouter_core.errors import InputError
from carbonrouter_core.fleet.catalog import Catalog, does_not_fit
from carbonrouter_core.fleet.deployments import no_energy, no_gpu, no_round_trip
from carbonrouter_core.grid.choice import OwnSeries, candidates, choose
from carbonrouter_core.scenario import DEFAULT_GPU_REGIONS, Scenario
from carbonrouter_core.store.series import own_series_of
from carbonrouter_core.words.names import unknown


class Problem(NamedTuple):
    """One reason why a scenario cannot be run."""

    field: str
    """The scenario field that says so; another may mend it too, as the message tells."""
    message: str


Check = Callable[[Scenario, Catalog], Iterator[Problem]]


def check_names(scenario: Scenario, catalog: Catalog) -> Iterator[Problem]:
    """Every region, GPU type and model is in the catalog."""
    for field, kind, chosen, known in (
        ("regions", "region", scenario.regions, catalog.regions),
        ("gpus", "GPU type", scenario.gpus, catalog.gpus),
        ("models", "model", scenario.models, catalog.models),
        ("user_mix", "region", scenario.user_mix, catalog.regions),
        ("pue_overrides", "region", scenario.pue_overrides, catalog.regions),
        ("gpu_regions", "GPU type", _placed_gpus(scenario), catalog.gpus),
        *(
            ("gpu_regions", "region", scenario.gpu_regions[gpu], catalog.regions)
            for gpu in _placed_gpus(scenario)
        ),
    ):
        for name in chosen:
            if name not in known:
                yield Problem(field, unknown(kind, name, list(known)))


def _placed_gpus(scenario: Scenario) -> list[str]:
    """The GPU types whose regions are listed; one of the defaults that was not chosen need not
    be known."""
    return [
        gpu
        for gpu in scenario.gpu_regions
        if gpu in scenario.gpus or gpu not in DEFAULT_GPU_REGIONS
    ]


def check_every_region_has_a_gpu(scenario: Scenario, catalog: Catalog) -> Iterator[Problem]:
    """No region is left without a GPU type."""
    for name in scenario.regions:
        if name in catalog.regions and not any(scenario.has(gpu, name) for gpu in scenario.gpus):
            yield Problem("gpu_regions", no_gpu(catalog.regions[name]))


def check_models_run_somewhere(scenario: Scenario, catalog: Catalog) -> Iterator[Problem]:
    """Every model was measured on a GPU type that some region has, and fits on each of those."""
    offered = [
        gpu for gpu in scenario.gpus if any(scenario.has(gpu, name) for name in scenario.regions)
    ]
    for name in scenario.models:
        if name not in catalog.models:
            continue
        model = catalog.models[name]
        curves = [catalog.energy[name, gpu] for gpu in offered if (name, gpu) in catalog.energy]
        if offered and not curves:
            yield Problem("models", no_energy(model))
        for curve in curves:
            if problem := does_not_fit(model, catalog.gpus[curve.gpu], curve.n_gpus):
                yield Problem("models", problem)


def check_round_trips(scenario: Scenario, catalog: Catalog) -> Iterator[Problem]:
    """Every user region has a round-trip time to every region that serves."""
    for user in scenario.users:
        for name in scenario.regions:
            known = user in catalog.regions and name in catalog.regions
            if known and (user, name) not in catalog.rtt_ms:
                yield Problem("user_mix", no_round_trip(user, name))


def check_carbon_intensity(
    scenario: Scenario, catalog: Catalog, own: OwnSeries
) -> Iterator[Problem]:
    """Every zone has a series of the kind asked for that covers the window."""
    zones = {}
    for name in scenario.regions:
        if name not in catalog.regions:
            continue
        region = catalog.regions[name]
        try:
            candidates(region.zone, scenario.carbon_basis, scenario.intensity_kind, own)
        except InputError as error:
            yield Problem("carbon_basis", f"{region.city}: {error}")
        else:
            zones[name] = region.zone
    last_s = scenario.window_end_s - 1
    for name, zone in zones.items():
        try:
            choose(scenario, [name], [zone], own, last_s=last_s)
        except InputError as alone:
            message = str(alone)
            # With the others behind it, the advice is a window that all of them have.
            other_zones = {other: its_zone for other, its_zone in zones.items() if other != name}
            try:
                choose(
                    scenario,
                    [name, *other_zones],
                    [zone, *other_zones.values()],
                    own,
                    last_s=last_s,
                )
            except InputError as error:
                message = str(error)
            yield Problem("window_start", f"{catalog.regions[name].city}: {message}")


CHECKS: tuple[Check, ...] = (
    check_names,
    check_every_region_has_a_gpu,
    check_models_run_somewhere,
    check_round_trips,
)


def problems(
    scenario: Scenario, catalog: Catalog, own_series: OwnSeries | None = None
) -> tuple[Problem, ...]:
    """All that is wrong with ``scenario``; what only its trace can tell is left to ``prepare``.

    ``own_series``: carbon-intensity series by zone that go before the built-in ones; left out,
    those in the store.
    """
    of_fields = [problem for check in CHECKS for problem in check(scenario, catalog)]
    known = [catalog.regions[name].zone for name in scenario.regions if name in catalog.regions]
    own, _ = own_series_of(scenario, known, own_series)
    return (*of_fields, *check_carbon_intensity(scenario, catalog, own))
