"""Names of models and regions as gateways and clouds write them."""

from __future__ import annotations

import pytest

from carbonrouter_core.fleet.catalog import Region
from carbonrouter_core.fleet.cloud_names import (
    cloud_names_of,
    cloud_regions,
    match_model,
    match_region,
    model_name,
)
from carbonrouter_core.fleet.tables import read_catalog

CATALOG = read_catalog()


@pytest.mark.parametrize(
    ("name", "model", "bytes_per_param"),
    [
        ("llama-3.1-8b-instant", "Llama-3.1-8B", None),
        ("llama3.1:8b", "Llama-3.1-8B", None),
        ("llama3.1:8b-instruct-q4_K_M", "Llama-3.1-8B", 0.5),
        ("llama3.1:8b-instruct-q8_0", "Llama-3.1-8B", 1.0),
        ("llama3.1:8b-instruct-fp16", "Llama-3.1-8B", 2.0),
        ("meta.llama3-1-8b-instruct-v1:0", "Llama-3.1-8B", None),
        ("us.meta.llama3-3-70b-instruct-v1:0", "Llama-3.3-70B", None),
        ("accounts/fireworks/models/llama-v3p1-8b-instruct", "Llama-3.1-8B", None),
        ("accounts/fireworks/models/llama-v3p3-70b-instruct", "Llama-3.3-70B", None),
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama-3.1-8B", None),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct-Turbo", "Llama-3.1-8B", None),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "Llama-3.1-8B", 0.5),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8", "Llama-3.1-8B", 1.0),
        ("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", "Llama-3.1-70B", 0.5),
        ("meta-llama/llama-3.3-70b-instruct:free", "Llama-3.3-70B", None),
        ("llama-3.3-70b-versatile", "Llama-3.3-70B", None),
        ("Llama_3.1_405B_Instruct", "Llama-3.1-405B", None),
        ("google/gemma-3-27b-it", "Gemma-3-27B", None),
        ("gemma3:27b-it-qat", "Gemma-3-27B", 0.5),
        ("gemma-3-12b-it", "Gemma-3-12B", None),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "Qwen3-235B-A22B", 1.0),
        ("qwen.qwen3-235b-a22b-2507-v1:0", "Qwen3-235B-A22B", None),
        ("qwen3:235b-a22b", "Qwen3-235B-A22B", None),
    ],
)
def test_a_model_is_known_by_the_names_of_gateways(
    name: str, model: str, bytes_per_param: float | None
) -> None:
    assert match_model(name, CATALOG.models) == model
    assert model_name(name).bytes_per_param == bytes_per_param


@pytest.mark.parametrize(
    "name",
    ["gpt-4o", "llama-3.1-80b", "llama-3.2-8b", "nvidia/llama-3.1-nemotron-70b-instruct", "8b",
     "llama-guard-3-8b", "deepseek-r1-distill-llama-70b", "gemma-2-27b-it", "", "llama-3.1"],
)  # fmt: skip
def test_another_model_is_not_taken_for_ours(name: str) -> None:
    assert match_model(name, CATALOG.models) is None


@pytest.mark.parametrize(
    ("name", "city"),
    [
        ("europe-west2", "London"), ("europe-west2-a", "London"), ("London", "London"),
        ("eu-west-2", "London"), ("eu-west-2b", "London"), ("uksouth", "London"),
        ("UK South", "London"), ("azure/uksouth", "London"), ("ukwest", "London"),
        ("us-east-1", "N. Virginia"), ("us-east-1b", "N. Virginia"), ("East US 2", "N. Virginia"),
        ("eu-central-1", "Frankfurt"), ("germanywestcentral-1", "Frankfurt"),
        ("eu-west-1", "Dublin"), ("northeurope", "Dublin"), ("eu-central-2", "Zürich"),
        ("italynorth", "Milan"), ("belgiumcentral", "Saint-Ghislain"), ("austriaeast", "Vienna"),
        ("projects/p/locations/europe-west4/publishers/x", "Eemshaven"),
    ],
)  # fmt: skip
def test_a_region_is_known_by_the_names_of_clouds(name: str, city: str) -> None:
    match = match_region(name, CATALOG.regions.values())
    assert match is not None
    assert match.region.city == city


@pytest.mark.parametrize("name", ["", "us", "eu", "europe-west", "us-east-1g", "mars-north1"])
def test_another_region_is_none(name: str) -> None:
    assert match_region(name, CATALOG.regions.values()) is None


def test_a_region_outside_the_scenario_is_none() -> None:
    paris = [region for region in CATALOG.regions.values() if region.city == "Paris"]
    assert match_region("eu-west-2", paris) is None


def test_every_cloud_region_has_a_built_in_site_on_its_grid() -> None:
    for cloud in cloud_regions():
        match = match_region(cloud.name, CATALOG.regions.values())
        assert match is not None
        assert match.region.zone == cloud.zone
    assert "AWS eu-west-1 (Dublin)" in cloud_names_of("IE")


def test_of_two_sites_on_a_grid_the_one_in_the_city_is_taken() -> None:
    london = CATALOG.regions["europe-west2"]
    cardiff = Region(**{**vars(london), "region": "mine", "city": "Cardiff"})
    for regions in ([london, cardiff], [cardiff, london]):
        match = match_region("ukwest", regions)
        assert match is not None
        assert match.region == cardiff
