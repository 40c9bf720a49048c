"""Scenarios: what each field takes, how they are written and read, and how they compare."""

from __future__ import annotations

import json
import math
import pickle
from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carbonrouter_core import FIELDS, PRESETS, Scenario, ScenarioError, preset

CHANGES: dict[str, Any] = {
    "name": "What if",
    "user_regions": ("europe-west2", "europe-west9"),
    "electricity_price_per_mwh": {"GB": 80.0, "GB 5 13": -6.0},
    "gpu_price_per_h": {"H100-80GB": 2.5},
    "carbon_price_per_t": 70.0,
    "currency": "USD",
    "conversations_per_day": 674.0,
    "baseline": "nearest-region",
    "baseline_model": "Llama-3.1-8B",
    "baseline_region": "europe-west3",
    "baseline_mix": {"Llama-3.1-8B @ europe-west3": 2.0},
    "clean_contracts": {"europe-west3": 0.5, "europe-west3 12": 1.0},
    "trace": "claude-code",
    "window_start": date(2023, 1, 31),
    "window_days": 3,
    "regions": ("europe-west3",),
    "gpus": ("B200-180GB",),
    "models": ("Llama-3.1-8B", "Qwen3-235B-A22B"),
    "gpu_regions": {"A100-80GB": ("europe-west2", "us-west2")},
    "user_mix": {"us-west2": 2.0, "europe-west2": 1.0},
    "pue_overrides": {"europe-west2": 1.05},
    "concurrency": 12.5,
    "copies": "all",
    "idle_s": 600.0,
    "quality_floor": 0.5,
    "fairness_weight": 2.5,
    "latency_ceiling_ms": 5000.0,
    "latency_ceiling_on": "ttft",
    "gate_threshold": 1.0,
    "carbon_basis": "direct",
    "intensity_kind": "marginal",
    "own_intensity": False,
    "intensity_knowledge": "persistence",
    "embodied": True,
    "gaps": "ragpulse",
    "gap_median_s": 30.0,
    "seed": 0,
}
"""A value of each field that differs from its default."""


def refusal(**fields: Any) -> str:
    """What making a scenario with ``fields`` is told."""
    with pytest.raises(ScenarioError) as error:
        Scenario(**fields)
    return str(error.value)


# --- Defaults and presets ---------------------------------------------------------------------


def test_the_default_is_the_paper_preset() -> None:
    scenario = Scenario()
    assert scenario == preset("Paper")
    assert scenario.regions == ("europe-west2", "us-west2", "europe-west3", "australia-southeast1")
    assert scenario.gpu_regions == {"B200-180GB": ("europe-west3",)}
    assert (scenario.window_start, scenario.window_days) == (date(2024, 5, 13), 14)
    assert (scenario.concurrency, scenario.quality_floor, scenario.gate_threshold) == (
        64,
        0.65,
        0.25,
    )
    assert (scenario.carbon_basis, scenario.gaps, scenario.seed) == ("lifecycle", "mooncake", 7)
    assert scenario.latency_ceiling_ms is None
    assert scenario.users == dict.fromkeys(scenario.regions, 1.0)


@pytest.mark.parametrize(
    ("name", "copies", "idle_s"),
    [
        ("Paper", "latest", 3600),
        ("Prompt cache", "all", 600),
        ("prompt-cache", "all", 600),
        ("LONG_LIVED_CACHE", "all", 3600),
    ],
)
def test_presets_differ_in_the_cache_alone(name: str, copies: str, idle_s: float) -> None:
    scenario = preset(name)
    assert (scenario.copies, scenario.idle_s) == (copies, idle_s)
    assert scenario.differences(Scenario()).keys() <= {"copies", "idle_s"}
    assert scenario.name in PRESETS


def test_an_unknown_preset_is_refused_with_the_nearest() -> None:
    with pytest.raises(ScenarioError, match="Unknown preset 'papper'. Nearest known: Paper"):
        preset("papper")


def test_every_field_says_what_it_means() -> None:
    assert set(CHANGES) == set(FIELDS)
    assert all(spec["meaning"] for spec in FIELDS.values())
    for name in ("window_days", "idle_s", "latency_ceiling_ms", "gap_median_s"):
        assert FIELDS[name]["unit"]


def test_the_window_is_in_utc() -> None:
    scenario = Scenario(window_start="2024-05-13", window_days=2)
    assert scenario.window_start_s == 1_715_558_400  # 2024-05-13T00:00Z
    assert scenario.window_end_s == 1_715_558_400 + 2 * 86_400


def test_a_gpu_type_is_everywhere_unless_the_grid_says_where() -> None:
    scenario = Scenario()
    assert scenario.has("H100-80GB", "us-west2")
    assert scenario.has("B200-180GB", "europe-west3")
    assert not scenario.has("B200-180GB", "us-west2")


# --- Written and read -------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHANGES)
def test_each_field_survives_json_and_pickle(name: str) -> None:
    scenario = Scenario(**{name: CHANGES[name]})
    assert getattr(scenario, name) == CHANGES[name]
    for copy in (
        Scenario.from_json(scenario.to_json()),
        Scenario.from_dict(json.loads(json.dumps(scenario.to_dict()))),
        pickle.loads(pickle.dumps(scenario)),
        scenario.replace(),
    ):
        assert copy == scenario
        assert hash(copy) == hash(scenario)
        assert copy.key == scenario.key


def test_json_holds_every_input_and_is_plain() -> None:
    values = json.loads(Scenario(**CHANGES).to_json())
    assert list(values) == list(FIELDS)
    assert values["window_start"] == "2023-01-31"
    assert values["gpu_regions"] == {"A100-80GB": ["europe-west2", "us-west2"]}


def test_fields_left_out_take_their_default() -> None:
    assert Scenario.from_json('{"seed": 3}') == Scenario(seed=3)
    assert Scenario.from_json("{}") == Scenario()


@pytest.mark.parametrize(
    "name", ['=HYPERLINK("http://x","y")', "../../etc/passwd", "🌍", "سيناريو", "<script>", "a\nb"]
)
def test_any_name_is_kept_as_it_is(name: str) -> None:
    assert Scenario.from_json(Scenario(name=name).to_json()).name == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"seed": 7',
        "[]",
        "null",
        "7",
        '"Paper"',
        "[" * 100_000,
        '{"__class__": "os.system"}',
        '{"__init__": 1}',
        '{"self": 1}',
        '{"changes": 1}',
        '{"sede": 1}',
        '{"seed": NaN}',
        '{"seed": 1e999}',
        '{"seed": {"a": 1}}',
        '{"regions": {"a": 1}}',
        '{"pue_overrides": [1]}',
        '{"pue_overrides": {"europe-west2": null}}',
        '{"pue_overrides": {"europe-west2": 1' + "0" * 400 + "}}",
        '{"user_mix": {"europe-west2": 1' + "0" * 400 + "}}",
        '{"concurrency": 1' + "0" * 5000 + "}",
        "\x00",
    ],
)
def test_text_that_is_no_scenario_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError):
        Scenario.from_json(text)


def test_an_unknown_field_is_refused_with_the_nearest() -> None:
    with pytest.raises(ScenarioError, match="Unknown scenario field 'sede'. Nearest known: seed"):
        Scenario().replace(sede=1)
    for key in ("__class__", "__dict__", "window_start_s", "key"):
        with pytest.raises(ScenarioError, match="Unknown scenario field"):
            Scenario().replace(**{key: "x"})


@given(
    st.dictionaries(
        st.sampled_from([*FIELDS, "__class__", "self", "cls"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=10), inner, max_size=3)
            ),
            max_leaves=4,
        ),
        max_size=3,
    )
)
def test_whatever_json_brings_is_a_scenario_or_refused(values: dict[str, Any]) -> None:
    try:
        scenario = Scenario.from_json(json.dumps(values))
    except ScenarioError as error:
        assert str(error)
    else:
        assert Scenario.from_json(scenario.to_json()) == scenario


# --- Bad values -------------------------------------------------------------------------------

NUMBERS = {name: spec for name, spec in FIELDS.items() if "low" in spec}
WHOLE = ("window_days", "seed")
OPTIONAL = ("latency_ceiling_ms", "gap_median_s", "carbon_price_per_t")


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_refused_outside_its_range_naming_field_and_range(name: str) -> None:
    low, high = NUMBERS[name]["low"], NUMBERS[name]["high"]
    for bad in (low - 1, high + 1, math.nan, math.inf, -math.inf, 10**400):
        text = refusal(**{name: bad})
        assert text.startswith(f"{name} is "), text
        assert f"from {low:,g} to {high:,g}" in text


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_taken_at_both_ends_of_its_range(name: str) -> None:
    for edge in (NUMBERS[name]["low"], NUMBERS[name]["high"]):
        assert getattr(Scenario(**{name: edge}), name) == edge


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("bad", ["7", True, [1], {}, b"1", date(2024, 1, 1)])
def test_what_is_no_number_is_refused(name: str, bad: Any) -> None:
    assert refusal(**{name: bad}).startswith(f"{name} is {bad!r}; it must be a")


@pytest.mark.parametrize("name", FIELDS)
def test_none_is_for_fields_that_may_be_none(name: str) -> None:
    if name in OPTIONAL:
        assert getattr(Scenario(**{name: None}), name) is None
    else:
        assert refusal(**{name: None}).startswith(f"{name} is None; it must be ")


@pytest.mark.parametrize("name", WHOLE)
def test_half_a_day_or_seed_is_refused(name: str) -> None:
    assert "a whole number" in refusal(**{name: 1.5})
    assert getattr(Scenario(**{name: 2.0}), name) == 2  # as JavaScript writes it


def test_a_number_too_long_to_print_is_refused_too() -> None:
    assert refusal(seed=10**5000).startswith("seed is ")


@pytest.mark.parametrize(
    ("field", "bad", "what"),
    [
        ("window_days", 10_000, "window_days is 10000; it must be a whole number from 1 to 366 d"),
        ("gate_threshold", 1.3, "gate_threshold is 1.3; it must be a number from 0 to 1"),
        ("quality_floor", math.nan, "quality_floor is nan; it must be a number from 0 to 1"),
        ("regions", (), "regions is empty; choose at least one"),
        ("gpus", [], "gpus is empty; choose at least one"),
        ("models", (), "models is empty; choose at least one"),
        ("regions", ("us-west2", "us-west2"), "regions names one of its choices twice"),
        ("regions", "us-west2", "regions is 'us-west2'; it must be a list of names"),
        ("models", (1, 2), "models is (1, 2); it must be a list of names"),
        ("pue_overrides", {"us-west2": 0.9}, "pue_overrides of us-west2 is 0.9; a PUE is from 1"),
        ("pue_overrides", {"us-west2": math.nan}, "pue_overrides of us-west2 is nan"),
        ("pue_overrides", {"us-west2": "1.2"}, "it must be numbers by name"),
        ("pue_overrides", {"us-west2": True}, "it must be numbers by name"),
        ("pue_overrides", [("us-west2", 1.2)], "it must be numbers by name"),
        ("user_mix", {"us-west2": -1}, "user_mix of us-west2 is -1.0; it must be 0 or more"),
        ("user_mix", {"us-west2": math.inf}, "user_mix of us-west2 is inf"),
        ("user_mix", {"us-west2": 1e308, "europe-west2": 1e308}, "is 1e+308; it must be 0 or more"),
        ("user_mix", {"us-west2": 0}, "user_mix adds up to nothing"),
        ("gpu_regions", {"A100-80GB": "us-west2"}, "it must be lists of regions by GPU type"),
        ("window_start", "2024-02-30", "window_start is '2024-02-30'; it must be a date such as"),
        ("window_start", "13/05/2024", "it must be a date such as 2024-05-13"),
        ("window_start", 20240513, "it must be a date such as 2024-05-13"),
        ("window_start", datetime(2024, 5, 13, 6), "it must be a date such as 2024-05-13"),
        ("copies", "both", "copies is 'both'; it must be one of latest, all"),
        ("latency_ceiling_on", "", "it must be one of latency, ttft"),
        ("carbon_basis", "Lifecycle", "it must be one of lifecycle, direct"),
        ("gaps", "weibull", "it must be one of mooncake, ragpulse"),
        ("embodied", 1, "embodied is 1; it must be true or false"),
        ("embodied", "true", "embodied is 'true'; it must be true or false"),
        ("name", 5, "name is 5; it must be text of at most 120 characters"),
        ("trace", ["sharegpt"], "trace is ['sharegpt']; it must be text"),
    ],
)
def test_a_bad_value_is_refused_naming_the_field(field: str, bad: Any, what: str) -> None:
    assert what in refusal(**{field: bad})


def test_a_name_of_5000_characters_is_refused_in_a_readable_line() -> None:
    text = refusal(name="x" * 5000)
    assert "text of at most 120 characters" in text
    assert len(text) < 1000


# --- Compared ---------------------------------------------------------------------------------


def test_the_key_ignores_the_name() -> None:
    assert Scenario(name="a").key == Scenario(name="b").key


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "name"])
def test_the_key_hangs_on_every_other_field(name: str) -> None:
    assert Scenario(**{name: CHANGES[name]}).key != Scenario().key


def test_differences_name_what_changed() -> None:
    changed = Scenario(name="b", seed=8, user_mix={"us-west2": 1})
    assert changed.differences(Scenario(name="a")) == {
        "user_mix": ({}, {"us-west2": 1.0}),
        "seed": (7, 8),
    }
    assert Scenario().differences(Scenario(name="other")) == {}


def test_equal_scenarios_hash_alike() -> None:
    one = Scenario(pue_overrides={"us-west2": 1.1, "europe-west2": 1.2}, gate_threshold=0.0)
    other = Scenario(pue_overrides={"europe-west2": 1.2, "us-west2": 1.1}, gate_threshold=-0.0)
    assert (one == other) <= (hash(one) == hash(other))


def test_a_scenario_cannot_be_changed_in_place() -> None:
    scenario = Scenario(user_mix={"us-west2": 1.0})
    with pytest.raises(AttributeError):
        scenario.seed = 8  # type: ignore[misc]
    with pytest.raises(TypeError):
        scenario.user_mix["us-west2"] = 2.0  # type: ignore[index]
    mine = {"us-west2": 1.0}
    scenario = Scenario(user_mix=mine)
    mine["us-west2"] = 9.0
    assert scenario.users == {"us-west2": 1.0}
