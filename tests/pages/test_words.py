"""Figures and answers in words: signs, "n/a", wins, losses, and what cannot be told."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from carbonrouter_core import Interval
from carbonrouter_core.words import figures as fmt
from pages.parts.overview import kpis
from pages.shared import answer

NOTHING = Interval(None, None, None)
ROUTER = "carbonrouter-lookahead"


def plain(markup: str) -> str:
    """Markup as read: no tags, ordinary spaces."""
    return re.sub(r"<[^>]+>", "", markup).replace(fmt.NARROW_SPACE, " ")


def summary(**ours: float) -> pd.DataFrame:
    """Two policies that emit the same, but for what is given for CarbonRouter."""
    base = {
        "turns": 1000,
        "sessions": 100,
        "unserved_turns": 0,
        "recompute_g": 300.0,
        "prompt_g": 100.0,
        "decode_g": 400.0,
        "host_g": 200.0,
        "energy_kwh": 5.0,
        "moves_per_session": 2.0,
        "quality_mean": 0.7,
        "ttft_ms_mean": 250.0,
        "ttft_ms_p95": 700.0,
        "latency_ms_mean": 9000.0,
        "latency_ms_p95": 20000.0,
    }
    rows = pd.DataFrame({ROUTER: base | ours, "faircarbon": base}).T
    rows["carbon_g"] = rows[["recompute_g", "prompt_g", "decode_g", "host_g"]].sum(axis=1)
    return rows.astype(float)


@pytest.mark.parametrize(
    ("value", "decimals", "signed", "text"),
    [
        (1234.5, 0, False, "1,234"),
        (-2.34, 1, False, "\N{MINUS SIGN}2.3"),
        (2.34, 1, True, "+2.3"),
        (-0.04, 1, True, "0.0"),
        (float("nan"), 1, False, "n/a"),
        (float("inf"), 1, False, "n/a"),
        (None, 1, False, "n/a"),
    ],
)
def test_numbers(value: float | None, decimals: int, signed: bool, text: str) -> None:
    assert fmt.number(value, decimals, signed=signed) == text


def test_masses_of_a_page_share_one_unit() -> None:
    mass = fmt.Mass.for_largest(27_480)
    assert plain(mass.text(27_480)) == "27.5 kg"
    assert plain(mass.text(55.1)) == "0.055 kg"
    assert plain(mass.text(0.02)) == "0.00002 kg"
    assert mass.unit == "kg CO2e"
    assert mass.text(None) == "n/a"
    assert plain(fmt.Mass.for_largest(0).text(0)) == "0 g"


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(173.4, "173 ms"), (10_240, "10.2 s"), (None, "n/a")]
)
def test_waits(milliseconds: float | None, text: str) -> None:
    assert plain(fmt.duration(milliseconds)) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (13.0, 30.4, "13.0 to 30.4 % less"),
        (-3.0, 12.0, "3.0 % more to 12.0 % less"),
        (-12.0, -3.0, "3.0 to 12.0 % more"),
        (None, None, "n/a"),
    ],
)
def test_intervals_in_words(low: float | None, high: float | None, text: str) -> None:
    assert plain(fmt.between(low, high)) == text


def test_a_win() -> None:
    rows = summary(recompute_g=100.0, decode_g=450.0)
    told = plain(answer.sentence(Interval(15.3, 8, 22), Interval(26.0, 12, 38), rows, ROUTER))
    assert told == (
        "CarbonRouter with look-ahead emits 15.3 % less CO2e than FairCarbon on this workload, "
        "and 26.0 % less in sessions over 30 turns; the gain comes from 0.200 kg "
        "less recomputed history, against 0.050 kg more writing of answers."
    )
    sure = plain(answer.confidence(Interval(15.3, 8, 22), Interval(26.0, 12, 38), 100))
    assert "between 8.0 and 22.0 % less in 95 of 100 cases" in sure
    assert "In sessions over 30 turns: 12.0 to 38.0 % less." in sure


def test_a_loss_is_said_as_one() -> None:
    rows = summary(decode_g=500.0, recompute_g=290.0)
    told = plain(answer.sentence(Interval(-9.0, -12, -6), Interval(4.0, 1, 7), rows, ROUTER))
    assert told == (
        "CarbonRouter with look-ahead emits 9.0 % more CO2e than FairCarbon on this workload, "
        "but 4.0 % less in sessions over 30 turns; the loss comes from 0.100 kg "
        "more writing of answers, against 0.010 kg less recomputed history."
    )
    head = answer.hero_html(Interval(-9.0, -12, -6), NOTHING, NOTHING, rows, ROUTER)
    assert "cr-loss" in head and "more CO2e than FairCarbon" in head
    (card, *_) = kpis.key_figures(rows, Interval(-9.0, -12, -6), ROUTER)
    assert (card.verdict, card.tone) == ("emits more", "worse")


@pytest.mark.parametrize(
    ("saving", "told"),
    [
        (Interval(30.0, 17, 41), "30.0 % less (17.0 to 41.0 % less)."),
        (Interval(2.0, -3, 7), "2.0 % less (3.0 % more to 7.0 % less)."),
        (Interval(-9.0, -12, -6), "9.0 % more (6.0 to 12.0 % more)."),
        (Interval(4.0, None, None), "4.0 % less."),
    ],
)
def test_the_evidence(saving: Interval, told: str) -> None:
    said = plain(answer.evidence(saving))
    assert said == f"On the half of the sessions nothing was learned from: {told}"


def test_a_doubtful_result_says_so() -> None:
    sure = plain(answer.confidence(Interval(2.0, -3, 7), NOTHING, 50))
    assert "between 3.0 % more and 7.0 % less" in sure
    assert "is not certain" in sure


def test_the_same_and_no_baseline() -> None:
    same = plain(answer.sentence(Interval(0.0, 0, 0), NOTHING, summary(), ROUTER))
    assert "emits as much CO2e as FairCarbon" in same and "no session over 30 turns" in same
    nothing = dict.fromkeys(("recompute_g", "prompt_g", "decode_g", "host_g"), 0.0)
    rows = summary(**nothing)
    rows.loc["faircarbon", [*nothing, "carbon_g", "energy_kwh"]] = 0.0
    head = plain(answer.hero_html(NOTHING, NOTHING, NOTHING, rows, ROUTER))
    assert "n/a" in head and "FairCarbon emits nothing" in head
    assert not re.search(r"\b(nan|inf|None)\b", head + plain(answer.electricity(rows, ROUTER)))
    assert not re.search(
        r"\b(nan|inf|None)\b", plain(kpis.html(kpis.key_figures(rows, NOTHING, ROUTER)))
    )


def test_better_and_worse_are_words_not_only_colours() -> None:
    rows = summary(recompute_g=100.0, latency_ms_mean=9900.0, quality_mean=0.72)
    cards = {card.label: card for card in kpis.key_figures(rows, Interval(20, 10, 30), ROUTER)}
    assert plain(cards["Turn latency"].verdict) == "10.0 % higher"
    assert cards["Turn latency"].tone == "worse"
    assert cards["Predicted quality"].verdict == "2.0 points higher"
    assert cards["Predicted quality"].tone == "better"
    assert cards["Moves per session"].verdict == "the same"
    assert 'aria-label="worse"' in kpis.html(list(cards.values()))


@pytest.mark.parametrize(
    ("value", "verdict", "tone"),
    [
        (0.0, "the same", "same"),
        (0.04, "the same", "same"),
        (-0.04, "the same", "same"),
        (0.06, "emits less", "better"),
        (None, fmt.NOT_AVAILABLE, "same"),
    ],
)
def test_no_saving_is_not_called_one(value: float | None, verdict: str, tone: str) -> None:
    (card, *_) = kpis.key_figures(summary(), Interval(value, value, value), ROUTER)
    assert (card.verdict, card.tone) == (verdict, tone)


def test_what_the_difference_comes_to_in_a_large_service() -> None:
    rows = summary(recompute_g=100.0)
    rows["embodied_g"] = [10.0, 30.0]  # in no other figure of the page, so not in this one
    said = plain(answer.scale(rows, ROUTER))
    # 200 g over 100 conversations: 2 g each, 2 t a day for a million of them
    assert "200 g is the difference over the 100 conversations" in said
    assert "730 t CO2e less a year: 200 g / 100 × 1,000,000 × 365.25 days" in said
    worse = plain(answer.scale(summary(decode_g=500.0), ROUTER))
    assert "365 t CO2e more a year" in worse
    assert answer.scale(summary(), ROUTER) == ""


def test_a_cache_lifetime_under_a_minute_is_in_seconds() -> None:
    said = [fmt.minutes(s).replace(fmt.NARROW_SPACE, " ") for s in (0, 1, 59.5, 60, 90, 3600)]
    assert said == ["0 min", "1 s", "59.5 s", "1 min", "1.5 min", "1 h"]


def sites(*means: float) -> pd.DataFrame:
    cities = ["Here", "<b>There</b>", "Idle"][: len(means)]
    return pd.DataFrame(
        {"region": list("abc")[: len(means)], "city": cities, "mean_intensity_g_per_kwh": means}
    )


def test_why_grams_a_kilowatt_hour_are_not_those_on_the_map() -> None:
    traffic = pd.DataFrame(
        {"region": list("abc"), "energy_kwh": [3.0, 1.0, 0.0], "carbon_g": [270.0, 130.0, 0.0]}
    )
    said = answer.by_city(sites(120.0, 150.0, 110.0), traffic)
    assert said.startswith("Why less than any city on the map?")  # 400 g / 4 kWh = 100
    assert "in its cleaner hours" in said
    told = plain(said)
    assert "Here 75 % at 90 g/kWh (all hours: 120) and " in told
    assert "25 % at 130 g/kWh (all hours: 150)" in told
    assert "<b>There" not in said and "Idle" not in said
    other = answer.by_city(sites(95.0, 125.0, 600.0), traffic)
    assert "Why" not in other.replace("Why less", "") and "cleaner" not in other
    assert answer.by_city(sites(1.0), traffic.head(1).assign(energy_kwh=0.0)) == ""


def test_what_could_not_be_kept_stands_beside_the_headline() -> None:
    told = "In 3 of 9 turns no candidate is within the latency ceiling of 2 s; <b>."
    head = answer.hero_html(Interval(9.0, 6, 12), NOTHING, NOTHING, summary(), ROUTER, [told])
    figure, _, text = head.partition("cr-hero-text")
    assert "Not kept: In 3 of 9 turns" in plain(figure)
    assert "Not kept" not in text and "&lt;b&gt;" in figure


def test_unserved_turns_do_not_dilute_a_figure() -> None:
    rows = summary()
    rows["unserved_turns"] = 500.0
    cards = {card.label: card for card in kpis.key_figures(rows, Interval(0, 0, 0), ROUTER)}
    assert plain(cards["CO2e per 1M turns"].value) == "2.00 t"
