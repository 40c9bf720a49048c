"""Links carry every input, stay short, and whatever is in them does no harm."""

from __future__ import annotations

import base64
import json
import random
import tracemalloc
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carbonrouter_core import PRESETS, Scenario, load_catalog, prepare
from carbonrouter_core.report import links
from carbonrouter_core.report.links import Opened, link_text, needs, open_link, open_values
from carbonrouter_core.version import VERSION

CATALOG = load_catalog()
REGIONS, GPUS, MODELS = list(CATALOG.regions), list(CATALOG.gpus), list(CATALOG.models)
ADDRESS = "https://carbonrouter.example.com/overview?s="
DEFAULTS = Scenario().to_dict()


def packed(content: bytes, version: int = 1) -> str:
    """A link text with any content."""
    packer = zlib.compressobj(9, zdict=links._DICTIONARY_1)
    data = packer.compress(content) + packer.flush()
    return f"{version}.{base64.urlsafe_b64encode(data).decode().rstrip('=')}"


def link_with(scenario: Any, app: str | None = None, **more: Any) -> str:
    payload = {"app": app or VERSION, "router": "", "scenario": scenario} | more
    return packed(json.dumps(payload).encode())


def refused(opened: Opened) -> str:
    """The notice of a link of which nothing was used."""
    assert opened.refused
    assert opened.scenario == Scenario()
    (notice,) = opened.notices
    assert notice.endswith("The default scenario is shown.")
    return notice


def scenarios() -> st.SearchStrategy[Scenario]:
    regions = st.lists(st.sampled_from(REGIONS), min_size=1, unique=True)
    weights = st.dictionaries(st.sampled_from(REGIONS), st.floats(1e-9, 1e9))
    return st.builds(
        Scenario,
        name=st.text(st.characters(exclude_categories=["Cs"]), max_size=120),
        trace=st.sampled_from(["sharegpt", "claude-code"]),
        window_start=st.dates(),
        window_days=st.integers(1, 366),
        regions=regions.map(tuple),
        gpu_regions=st.dictionaries(st.sampled_from(GPUS), regions.map(tuple)),
        user_mix=weights,
        pue_overrides=st.dictionaries(st.sampled_from(REGIONS), st.floats(1, 5)),
        concurrency=st.floats(1, 4096),
        quality_floor=st.floats(0, 1),
        latency_ceiling_ms=st.none() | st.floats(1, 1e8),
        embodied=st.booleans(),
        seed=st.integers(0, 2**31 - 1),
    )


@given(scenarios())
@settings(max_examples=100)
def test_a_link_opens_to_the_same_scenario(scenario: Scenario) -> None:
    opened = open_link(link_text(scenario, router="carbonrouter"))
    assert opened == Opened(scenario, router="carbonrouter")
    assert opened.scenario.key == scenario.key


@pytest.mark.parametrize("name", list(PRESETS))
def test_presets_make_short_links(name: str) -> None:
    text = link_text(PRESETS[name])
    assert len(text) < 140
    assert open_link(text).scenario == PRESETS[name]


def extreme(seed: int) -> Scenario:
    """Everything chosen, in a random order, every number with all its digits, the longest name
    of characters that do not compress."""
    rnd = random.Random(seed)

    def shuffled(names: list[str]) -> tuple[str, ...]:
        return tuple(rnd.sample(names, len(names)))

    return Scenario(
        name="".join(chr(rnd.randrange(0x10000, 0x110000)) for _ in range(120)),
        trace="claude-code",
        regions=shuffled(REGIONS),
        gpus=shuffled(GPUS),
        models=shuffled(MODELS),
        gpu_regions={gpu: shuffled(REGIONS)[1:] for gpu in GPUS},
        user_mix={region: rnd.random() * 10 ** rnd.randint(-9, 9) for region in REGIONS},
        pue_overrides={region: 1 + 4 * rnd.random() for region in REGIONS},
        concurrency=1 + 4095 * rnd.random(),
        copies="all",
        idle_s=rnd.random() * 1e7,
        quality_floor=rnd.random(),
        fairness_weight=100 * rnd.random(),
        latency_ceiling_ms=1 + 1e8 * rnd.random(),
        latency_ceiling_on="ttft",
        gate_threshold=rnd.random(),
        carbon_basis="direct",
        intensity_kind="marginal",
        own_intensity=False,
        intensity_knowledge="usual-28d",
        embodied=True,
        gaps="ragpulse",
        gap_median_s=1 + 1e6 * rnd.random() / 2,
        seed=2**31 - 1,
        conversations_per_day=1e9 * rnd.random(),
        carbon_price_per_t=1e6 * rnd.random(),
        currency="USD",
        baseline="fixed-deployment",
        baseline_model="Qwen3-235B-A22B",
        baseline_region="australia-southeast1",
    )


def test_the_most_extreme_scenario_fits_into_2083_characters() -> None:
    lengths = []
    for seed in range(20):
        scenario = extreme(seed)
        default = Scenario()
        same = [name for name in DEFAULTS if getattr(scenario, name) == getattr(default, name)]
        # a new input belongs in here too
        # user_regions counts only without a user_mix; these mappings are of any length
        of_any_length = {
            "baseline_mix",
            "clean_contracts",
            "electricity_price_per_mwh",
            "gpu_price_per_h",
            "user_regions",
        }
        assert not set(same) - {"window_start", "window_days", "gpus"} - of_any_length
        text = link_text(scenario, router="carbonrouter-lookahead")
        lengths.append(len(ADDRESS + text))
        assert open_link(text).scenario == scenario
    print(f"longest link: {max(lengths)} characters")
    assert max(lengths) <= 2083  # the longest address that Excel opens


def test_the_format_of_links_that_exist_does_not_change() -> None:
    """A link somebody saved: made by this format when it was new."""
    opened = open_link(
        "1.ePlNUiBDIirJoCUU6qUMLh32WB1Y8hDXkdCRjNVBpBIpHWkdGR1ZHTmIGqQEI2kVzR1LIFkk5uQgpYnRJEFkktABiGBmBAy1oKitBQDGW8EZ"
    )
    assert not opened.refused
    assert opened.scenario.regions == ("europe-west2", "us-west2")
    assert opened.scenario.idle_s == 600.0
    assert opened.router == "carbonrouter"


def test_every_input_is_in_it_though_it_is_the_default() -> None:
    text = link_text(Scenario())
    content = zlib.decompressobj(zdict=links._DICTIONARY_2)
    data = base64.urlsafe_b64decode(text.partition(".")[2] + "==")
    for name in DEFAULTS:
        assert f'"{name}":'.encode() in content.decompress(data) or content.eof
    other = DEFAULTS | {"idle_s": 60.0}
    assert open_values(other).scenario == Scenario(idle_s=60.0)


# --- Links from elsewhere --------------------------------------------------------------------


def test_another_version_is_told_and_what_it_lacks_or_has_beside() -> None:
    values = {name: value for name, value in DEFAULTS.items() if name != "fairness_weight"}
    opened = open_link(link_with(values | {"tariff": 3, "idle_s": 60.0}, app="0.0.9"))
    assert opened.scenario == Scenario(idle_s=60.0)
    assert opened.notices == (
        "\N{LEFT DOUBLE QUOTATION MARK}tariff\N{RIGHT DOUBLE QUOTATION MARK} is no input here "
        "and was left out.",
        "fairness_weight is not in it; the default is used: 0.0.",
        "It was made by version \N{LEFT DOUBLE QUOTATION MARK}0.0.9"
        f"\N{RIGHT DOUBLE QUOTATION MARK}; this is {VERSION}, and figures may differ.",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("quality_floor", 7),
        ("quality_floor", "0.5"),
        ("quality_floor", float("nan")),
        ("window_days", 10_000),
        ("window_days", 1.5),
        ("window_start", "yesterday"),
        ("seed", True),
        ("regions", []),
        ("regions", "europe-west2"),
        ("regions", [["europe-west2"]]),
        ("regions", ["europe-west2", "europe-west2"]),
        ("user_mix", {"europe-west2": -1}),
        ("user_mix", {"europe-west2": 10**400}),
        ("pue_overrides", {"europe-west2": 0.9}),
        ("gpu_regions", {"A100-80GB": 3}),
        ("copies", "some"),
        ("embodied", "yes"),
        ("name", "x" * 121),
        ("name", None),
        ("name", "\ud800"),
    ],
)
def test_a_bad_value_is_replaced_and_told(name: str, value: Any) -> None:
    opened = open_link(link_with(DEFAULTS | {"idle_s": 60.0, name: value}))
    assert opened.scenario == Scenario(idle_s=60.0)  # the rest is as it was sent
    (notice,) = opened.notices
    assert notice.startswith(name)
    assert "The default is used" in notice


def test_names_that_are_unknown_here_are_left_out_with_the_nearest() -> None:
    opened = open_link(
        link_with(
            DEFAULTS
            | {
                "regions": ["europe-west2", "europe-west22"],
                "models": ["GPT-99"],
                "gpu_regions": {"A100-80GB": ["europe-west2", "mars-1"], "TPU": ["us-west2"]},
                "user_mix": {"mars-1": 1.0, "us-west2": 2.0},
            }
        )
    )
    scenario = opened.scenario
    assert scenario.regions == ("europe-west2",)
    assert scenario.models == Scenario().models
    assert dict(scenario.gpu_regions) == {"A100-80GB": ("europe-west2",)}
    assert dict(scenario.user_mix) == {"us-west2": 2.0}
    said = "\n".join(opened.notices)
    for part in ("europe-west22", "nearest: europe-west2", "GPT-99", "TPU", "mars-1", "models is"):
        assert part in said


def test_only_names_of_traces_are_sent_and_strangers_open_no_file() -> None:
    text = link_text(Scenario(trace="/srv/logs/customers/may.parquet"))
    opened = open_link(text)
    assert opened.scenario == Scenario()
    (notice,) = opened.notices
    assert "may.parquet" in notice and "customers" not in notice
    assert "not stored here" in notice and "Import" in notice
    assert open_link(text, traces=["may.parquet"]).scenario.trace == "may.parquet"
    for path in ("README.md", "/etc/passwd", "..\\secret.csv"):
        opened = open_link(link_with(DEFAULTS | {"trace": path}))
        assert opened.scenario.trace == "sharegpt"
        assert "passwd" not in opened.notices[0] or "/etc" not in opened.notices[0]


def test_a_scenario_says_what_others_need() -> None:
    assert needs(Scenario()) == ()
    assert needs(Scenario(), prepare(Scenario(window_days=1))) == ()
    (need,) = needs(Scenario(trace="logs/may.csv"))
    assert "may.csv" in need and "logs/" not in need
    opened = open_link(link_text(Scenario(), own_series={"DE-LU": "our meter"}))
    assert opened.scenario == Scenario()
    assert "our meter" in opened.notices[0] and "DE-LU" in opened.notices[0]


# --- Hostile links (BAD_INPUTS 22, 23) -------------------------------------------------------


def test_a_link_cut_short_anywhere_is_refused() -> None:
    text = link_text(extreme(1))
    for length in range(len(text) - 1):
        opened = open_link(text[:length])
        assert opened.refused, length
        refused(opened)


@given(st.integers(0, 200), st.sampled_from("ABCabc019-_"))
@settings(max_examples=100)
def test_a_link_that_was_changed_never_raises(at: int, letter: str) -> None:
    text = link_text(Scenario())
    at %= len(text)
    opened = open_link(text[:at] + letter + text[at + 1 :])
    assert opened.refused or opened.scenario == Scenario()


@given(st.text(max_size=300) | st.binary(max_size=300).map(packed))
@settings(max_examples=200)
def test_any_text_gives_a_scenario_and_a_notice(text: str) -> None:
    opened = open_link(text)
    assert opened.refused
    assert opened.notices


def test_a_link_of_the_first_version_says_what_was_filled_in() -> None:
    first = {name: value for name, value in DEFAULTS.items() if name not in links.SINCE_2}
    payload = {"app": "0.1.0", "router": "", "scenario": first}
    opened = open_link(packed(json.dumps(payload).encode(), version=1))
    assert opened.scenario == Scenario()
    filled = " ".join(opened.notices)
    assert "conversations_per_day is not in it; the default is used: 100000.0." in filled
    assert 'baseline is not in it; the default is used: "faircarbon".' in filled


def test_a_future_version_is_named() -> None:
    notice = refused(open_link(packed(b"{}", version=3)))
    assert "link format 3" in notice and "Update" in notice


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 10_000_000,
        b"\x01" * 60_000,  # a byte that stands for a long name
        b"[" * 60_000,
        b'{"scenario":' + b"[" * 50_000,
        b"9" * 60_000,
    ],
)
def test_bombs_are_refused_in_bounded_memory(content: bytes) -> None:
    text = packed(content)
    open_link(text)
    tracemalloc.start()
    refused(open_link(text))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2**20


def test_a_huge_text_is_not_even_decoded() -> None:
    assert "longer" in refused(open_link("1." + "A" * 10**7))


@pytest.mark.parametrize("where", ["scenario", "payload"])
def test_keys_of_python_objects_are_refused(where: str) -> None:
    bad = {"__class__": "os.system", "__reduce__": ["rm"]}
    text = link_with(DEFAULTS | bad) if where == "scenario" else link_with(DEFAULTS, **bad)
    refused(open_link(text))


def test_thousands_of_strange_names_are_counted_not_listed() -> None:
    many = {f"k{i}": i for i in range(1_500)}
    opened = open_link(link_with(DEFAULTS | many))
    assert opened.scenario == Scenario()
    assert len(opened.notices) == links.MAX_NOTICES + 1
    opened = open_values(DEFAULTS | {"regions": [f"r{i}" for i in range(5_000)]})
    assert opened.scenario == Scenario()
    assert all(len(notice) < 400 for notice in opened.notices)


def test_hostile_names_come_through_as_text() -> None:
    for name in ("<script>alert(1)</script>", "=1+1", "\u202eevil", "\N{GRINNING FACE}" * 100):
        assert open_link(link_text(Scenario(name=name))).scenario.name == name
    opened = open_link(link_with(DEFAULTS | {"<b>\n\u202ex</b>" + "y" * 200: 1}, app="\n" * 90))
    assert all(notice.isprintable() for notice in opened.notices)


@pytest.mark.parametrize("values", [None, [], "x", 3, {"scenario": {}}])
def test_what_is_no_scenario_is_refused_or_told(values: Any) -> None:
    opened = open_values(values)
    assert opened.scenario == Scenario()
    assert opened.notices
