"""Colours, charts and the map, from small frames."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import carbonrouter_core as core
from carbonrouter_core import POLICIES
from carbonrouter_core.words import figures as fmt
from pages.shared import answer, cache, charts, maps, theme
from pages.shared.window_width import STEPS_PX
from tests.contrast import contrast_ratio

MASS = fmt.Mass.for_largest(1000.0)
PARTS = {"recompute_g": 300.0, "prompt_g": 100.0, "decode_g": 400.0, "host_g": 200.0}


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK])
def test_text_meets_wcag_aa(colours: theme.Palette) -> None:
    for text in (colours.text, colours.muted):
        assert contrast_ratio(text, colours.background) >= 4.5
    label = theme.rgb_to_hex(colours.label)
    assert contrast_ratio(label, theme.rgb_to_hex(colours.label_background)) >= 4.5
    for policy_id in POLICIES:
        drawn = theme.colour(policy_id, dark=colours.dark)
        assert contrast_ratio(drawn, colours.background) >= 3, policy_id
    for policy_id in (*cache.ROUTERS, "faircarbon"):  # lines of the map
        drawn = theme.colour(policy_id, dark=colours.dark)
        for ground in (colours.sea, theme.rgb_to_hex(colours.land)):
            assert contrast_ratio(drawn, ground) >= 3, policy_id
    for pair in theme.SCENARIO_COLOURS:
        assert contrast_ratio(pair[colours.dark], colours.background) >= 3
    recompute = theme.PARTS[0].fill(colours.dark)
    assert contrast_ratio(recompute, colours.background) >= 3


def test_contrast_ratio_of_known_pairs() -> None:
    assert contrast_ratio("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast_ratio("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("dark", [False, True])
def test_every_policy_has_a_colour_of_its_own(dark: bool) -> None:
    drawn = [theme.colour(policy_id, dark=dark) for policy_id in POLICIES]
    drawn += [pair[dark] for pair in theme.SCENARIO_COLOURS]
    assert len(set(drawn)) == len(drawn)


def as_deuteranope(colour: tuple[int, int, int]) -> np.ndarray:
    """The colour as seen without green cones (Machado et al. 2009, severity 1)."""
    matrix = np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    )
    return matrix @ np.array(colour)


@pytest.mark.parametrize("dark", [False, True])
def test_the_main_colours_differ_to_colour_blind_eyes(dark: bool) -> None:
    main = [
        *map(cache.main, cache.ROUTERS),
        *combinations(("carbonrouter", "faircarbon", "sticky"), 2),
    ]
    for first, second in main:
        seen = [
            as_deuteranope(theme.hex_to_rgb(theme.colour(one, dark=dark)))
            for one in (first, second)
        ]
        assert np.abs(seen[0] - seen[1]).max() > 50, (first, second)
    clean, dirty = (as_deuteranope(theme.intensity_colour(g)) for g in (50, 650))
    assert np.abs(clean - dirty).max() > 50


def test_intensity_colours_are_clipped_at_their_ends() -> None:
    assert theme.intensity_colour(-5) == theme.intensity_colour(0) == theme.INTENSITY_COLOURS[0]
    assert theme.intensity_colour(5000) == theme.INTENSITY_COLOURS[-1]


def policies() -> pd.DataFrame:
    rows = pd.DataFrame({"carbonrouter": PARTS | {"recompute_g": 50.0}, "faircarbon": PARTS}).T
    rows["carbon_g"] = rows.sum(axis=1)
    return rows


def test_bars_keep_a_place_for_what_is_still_computed() -> None:
    order = ["carbonrouter", "faircarbon", "sticky"]
    chart = charts.policy_bars(policies(), {"carbonrouter": 900.0}, MASS, order=order)
    labels = [note.text for note in chart.figure.layout.annotations]
    assert len(labels) == 3
    assert "\N{MINUS SIGN}25.0" in labels[0] and "computing" in labels[2]
    assert [len(bar.x) for bar in chart.figure.select_traces({"type": "bar"})] == [3, 3, 3, 3]
    total = sum(bar.x[0] for bar in chart.figure.select_traces({"type": "bar"}))
    assert total == pytest.approx(MASS.value(750.0))
    assert "CarbonRouter, published rule: 0.750" in chart.alt


def test_a_policy_far_off_does_not_shrink_the_others() -> None:
    rows = policies()
    rows.loc["round-robin"] = rows.loc["faircarbon"] * 50
    order = ["carbonrouter", "faircarbon", "round-robin"]
    chart = charts.policy_bars(rows, {"faircarbon": 9000.0}, MASS, order=order)
    assert chart.figure.layout.xaxis.range[1] < MASS.value(5000)
    cut = [note.text.endswith("(bar cut)") for note in chart.figure.layout.annotations]
    assert cut == [False, False, True]
    (ticks,) = chart.figure.select_traces({"type": "scatter"})
    assert ticks.x[0] <= chart.figure.layout.xaxis.range[1] and "9.00" in ticks.customdata[0]


def test_saving_by_length_shows_a_loss_below_zero() -> None:
    table = pd.DataFrame(
        {
            "turns_per_session": ["1", "2-5"],
            "sessions": [10, 20],
            "turns": [10, 70],
            "value_percent": [-4.0, 12.0],
            "low_percent": [-6.0, 9.0],
            "high_percent": [-1.0, 15.0],
            "share_of_baseline_carbon": [0.2, 0.8],
        }
    )
    chart = charts.saving_by_length(table, "carbonrouter", "faircarbon")
    (bars,) = chart.figure.data
    assert list(bars.y) == [-4.0, 12.0]
    assert list(bars.error_y.arrayminus) == pytest.approx([2.0, 3.0])
    assert chart.figure.layout.yaxis.range[0] < -6
    assert "Sessions of 1 turns: 4.0" in chart.alt and "more" in chart.alt


@pytest.mark.parametrize(
    ("ours", "title"),
    [
        (700.0, "75\N{NARROW NO-BREAK SPACE}% of the possible saving is reached"),
        (1100.0, "None of the possible saving is reached"),
    ],
)
def test_the_share_of_the_possible_saving(ours: float, title: str) -> None:
    carbon = pd.Series({"faircarbon": 1000.0, "carbonrouter": ours, "hindsight-optimum": 600.0})
    chart = charts.gap_closed(carbon, "carbonrouter", MASS)
    assert chart.figure.layout.title.text == title


def test_what_is_only_the_best_found_is_called_so() -> None:
    found = {"hindsight-optimum": "Best found in hindsight"}
    carbon = pd.Series({"faircarbon": 1000.0, "carbonrouter": 700.0, "hindsight-optimum": 600.0})
    chart = charts.gap_closed(carbon, "carbonrouter", MASS, names=found)
    assert chart.figure.layout.title.text.endswith("of the best saving found is reached")
    assert "to Best found in hindsight (0.600" in chart.alt
    rows = policies()
    rows.loc["hindsight-optimum"] = rows.loc["carbonrouter"]
    order = ["carbonrouter", "faircarbon", "hindsight-optimum"]
    bars = charts.policy_bars(rows, {}, MASS, order=order, names=found)
    assert "Best found in hindsight: 0.750" in bars.alt
    assert "Best found in hindsight" in bars.figure.layout.annotations[2].text
    carbon["free-migration"] = 500.0
    told = answer.possible(carbon, core.Scenario(copies="all"), found, MASS)
    assert "not proven" in told and "free migration, 0.500" in told
    ceiling = core.Scenario(copies="all", latency_ceiling_ms=5000.0)
    told = answer.possible(carbon, ceiling, found, MASS)
    assert "free migration, 0.500" in told and "ignores the latency ceiling" in told
    assert "no router can do better" in answer.possible(carbon, core.Scenario(), {}, MASS)


def test_the_gap_is_of_what_the_policies_minimise() -> None:
    # embodied carbon turns a router that is worse than FairCarbon into one half way to the best
    rows = pd.DataFrame(
        {"carbon_g": [100.0, 110.0, 90.0], "embodied_g": [40.0, 10.0, 10.0]},
        index=["faircarbon", "carbonrouter", core.OPTIMUM],
    )
    for embodied, title in ((False, "None of the possible"), (True, "50 % of the possible")):
        scenario = core.Scenario(embodied=embodied)
        grams = answer.minimised_g(rows, scenario)
        said = charts.gap_closed(grams, "carbonrouter", MASS).figure.layout.title.text
        assert said.replace(fmt.NARROW_SPACE, " ").startswith(title)
        told = answer.possible(grams, scenario, {}, MASS)
        assert ("making the machines" in told) == embodied


def test_no_possible_saving_is_no_division_by_zero() -> None:
    carbon = pd.Series(dict.fromkeys(("faircarbon", "carbonrouter", "hindsight-optimum"), 5.0))
    chart = charts.gap_closed(carbon, "carbonrouter", MASS)
    assert chart.figure.layout.title.text == "Nothing can be saved against FairCarbon"


def sites() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "region": ["a", "b", "c"],
            "city": ["Aachen", "<b>Bonn</b>", "Cork"],
            "zone": ["DE", "DE", "IE"],
            "latitude": [50.8, 50.7, 51.9],
            "longitude": [6.1, 7.1, -8.5],
            "pue": [1.2, 1.3, 1.1],
            "pue_assumed": [True, False, False],
            "mean_intensity_g_per_kwh": [100.0, 700.0, 300.0],
        }
    )


def drawn(moves: list[tuple[str, str, int, int]], **kinds: int) -> maps.SiteMap:
    traffic = pd.DataFrame({"region": ["a", "b", "c"], "turns": [100, 25, 0], "carbon_g": 1.0})
    return maps.site_map(
        sites(),
        traffic,
        pd.DataFrame(moves, columns=["from_region", "to_region", "moves", "recomputed_tokens"]),
        {"model": 0, "gpu": 0, "region_only": 0, "with_region": 0} | kinds,
        policy_id="carbonrouter",
        mass=MASS,
    )


def test_the_map_asks_nobody_for_anything() -> None:
    text = drawn([("a", "b", 5, 10)], region_only=5, with_region=5).deck.to_json()
    assert "http" not in text
    assert json.loads(text)["mapStyle"].startswith("data:application/json,")


def test_lines_are_as_wide_as_moves_are_many_and_sites_as_large_as_their_traffic() -> None:
    layers = {
        layer["id"]: layer
        for layer in json.loads(
            drawn(
                [("a", "b", 10, 99), ("b", "a", 5, 9)], region_only=15, with_region=15
            ).deck.to_json()
        )["layers"]
    }
    first, second = layers["moves"]["data"]
    assert first["width"] == maps.WIDEST_ARC_PX
    assert second["width"] == pytest.approx((maps.WIDEST_ARC_PX + maps.NARROWEST_ARC_PX) / 2)
    assert first["path"][18] != second["path"][18], "the way back is another line"
    radius = {row["label"].split("\n")[0]: row["radius"] for row in layers["sites"]["data"]}
    assert radius["Aachen"] > radius["<b>Bonn</b>"] > radius["Cork"] == maps.SMALLEST_SITE_PX
    tips = [row["tip"] for row in layers["sites"]["data"]] + [first["tip"]]
    assert not any("<b>Bonn" in tip for tip in tips), "names are escaped in tooltips"


def test_the_map_is_also_told_in_words() -> None:
    told = drawn([("a", "b", 1200, 10)], model=300, region_only=1000, with_region=1200).description
    assert told.startswith("CarbonRouter, published rule serves 80")
    assert "Cork serves no turn" in told
    assert "1,300 times: 300 to another model and 1,000 to another region only" in told
    assert "1,200 of them cross regions, most often from Aachen" in told
    assert "No session ever moves" in drawn([]).description


@pytest.mark.parametrize("present", [False, True])
@pytest.mark.parametrize("window_px", [None, *STEPS_PX])
def test_the_view_holds_all_sites_in_a_window_of_any_width(
    window_px: int | None, present: bool
) -> None:
    wide = sites().assign(longitude=[-118.2, 8.7, 151.2], latitude=[34.1, 50.1, -33.9])
    shown = maps._view(wide, maps._narrowest_px(present, window_px), maps.MAP_HEIGHT_PX)
    at_px = (wide["longitude"] - shown.longitude) / shown.degrees_per_px
    assert at_px.abs().max() < maps.MAP_WIDTHS_PX[window_px][present] / 2
    state = shown.state()
    assert 2**state.zoom * 512 <= 360 / shown.degrees_per_px * 1.01
    assert state.zoom >= state.min_zoom


def test_labels_of_close_sites_do_not_cover_each_other() -> None:
    layers = {layer["id"]: layer for layer in json.loads(drawn([]).deck.to_json())["layers"]}
    placed = {
        row["label"].split("\n")[0]: (row["anchor"], row["offset"][1])
        for row in layers["site-labels"]["data"]
    }
    assert placed["Aachen"] != placed["<b>Bonn</b>"]
