"""What makes a scenario impossible to run: each check by an example, and all of them together."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carbonrouter_core import PRESETS, InputError, Scenario, load_catalog, prepare
from carbonrouter_core.errors import ScenarioError
from carbonrouter_core.replay.checks import problems
from tests.hand_made import Costs, T, make_catalog, make_trace

CATALOG = load_catalog()
TRACE = make_trace({"a": [T(10, 5), T(5, 5, 60.0)]})


def told(scenario: Scenario) -> list[tuple[str, str]]:
    return [tuple(problem) for problem in problems(scenario, CATALOG)]


@pytest.mark.parametrize("name", list(PRESETS))
def test_presets_can_be_run(name: str) -> None:
    assert told(PRESETS[name]) == []


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"regions": ("mars-north1",)}, "regions", "mars-north1"),
        ({"gpus": ("H100-80GB", "H200")}, "gpus", "H200"),
        ({"models": ("Llama-3.1-8B", "GPT-9")}, "models", "GPT-9"),
        ({"user_mix": {"moon": 1.0}}, "user_mix", "moon"),
        ({"pue_overrides": {"moon": 1.1}}, "pue_overrides", "moon"),
        ({"gpu_regions": {"H100-80GB": ("moon",)}}, "gpu_regions", "moon"),
        ({"gpu_regions": {"Z80": ("us-west2",)}}, "gpu_regions", "Z80"),
        ({"gpus": ("B200-180GB",)}, "gpu_regions", "europe-west2 (London) has none of the chosen"),
        (
            {"models": ("Llama-3.1-405B",), "gpus": ("A100-80GB",)},
            "models",
            "Llama-3.1-405B has no energy points",
        ),
        ({"regions": ("europe-west9",)}, "window_start", "Paris: Carbon intensity of zone FR"),
        (
            {"regions": ("europe-west9",), "carbon_basis": "direct"},
            "carbon_basis",
            "Zone FR has lifecycle intensity only",
        ),
        ({"window_start": date(2024, 12, 25)}, "window_start", "begins on 2024-12-18"),
    ],
)
def test_one_thing_wrong(fields: dict[str, object], field: str, words: str) -> None:
    found = told(Scenario().replace(**fields))
    assert field in dict(found)
    assert any(words in message for _, message in found), found


def test_all_that_is_wrong_is_told_at_once() -> None:
    found = told(
        Scenario(
            regions=("europe-west9", "europe-west2", "mars-north1"),
            gpus=("A100-80GB",),
            gpu_regions={"A100-80GB": ("europe-west9",)},
            models=("Llama-3.1-405B", "GPT-9"),
        )
    )
    assert [field for field, _ in found] == [
        "regions",
        "models",
        "gpu_regions",
        "models",
        "window_start",
    ]


def test_a_model_that_fits_on_no_gpu_of_a_replica() -> None:
    # 20,000 GB of weights at one byte each, on one GPU of 10,000 GB
    catalog = make_catalog({("huge", "gpu"): Costs(1, 2)}, {"here": 1.0}, params_b={"huge": 20_000})
    scenario = Scenario(regions=("here",), gpus=("gpu",), models=("huge",), gpu_regions={})
    ((field, message),) = problems(scenario, catalog)
    assert field == "models"
    assert "huge does not fit on 1 × gpu: its weights take 20000 GB of 10000 GB" in message
    with pytest.raises(ScenarioError, match="huge does not fit"):
        prepare(scenario, TRACE, catalog)


def test_two_regions_without_a_round_trip() -> None:
    whole = make_catalog({("m", "g"): Costs(1, 2)}, {"here": 1.0, "there": 1.0})
    del whole.rtt_ms["there", "here"]
    scenario = Scenario(regions=("here", "there"), gpus=("g",), models=("m",), gpu_regions={})
    ((field, message),) = problems(scenario, whole)
    assert field == "user_mix" and "from there to here" in message


def some(names: list[str], most: int) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(names), min_size=1, max_size=most, unique=True).map(tuple)


@given(
    regions=some([*CATALOG.regions, "mars-north1"], 3),
    gpus=some([*CATALOG.gpus], 3),
    models=some([*CATALOG.models], 3),
    basis=st.sampled_from(["lifecycle", "direct"]),
    start=st.dates(date(2021, 1, 1), date(2024, 12, 31) - timedelta(days=3)),
    only=some([*CATALOG.regions], 2),
)
def test_what_the_checks_pass_can_be_prepared_and_what_they_refuse_cannot(
    regions: tuple[str, ...],
    gpus: tuple[str, ...],
    models: tuple[str, ...],
    basis: str,
    start: date,
    only: tuple[str, ...],
) -> None:
    scenario = Scenario(
        regions=regions,
        gpus=gpus,
        models=models,
        carbon_basis=basis,
        window_start=start,
        window_days=2,
        gpu_regions={gpus[0]: only},
    )
    found = problems(scenario, CATALOG)
    try:
        prepare(scenario, TRACE)
    except InputError as error:
        assert any(str(error) in message for _, message in found), (error, found)
    else:
        assert not found
