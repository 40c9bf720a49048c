"""What the answer hangs on: tornado, break-even and drawn factors, against made-up outcomes."""

import math
from datetime import date

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carbonrouter_core import Scenario
from carbonrouter_core.errors import InputError
from carbonrouter_core.paths import data_path
from carbonrouter_core.replay.run import run_policy
from carbonrouter_core.replay.world import prepare
from carbonrouter_core.results.comparison import Interval
from carbonrouter_core.studies import sensitivity
from carbonrouter_core.studies.factors import AS_MEASURED, Factors, with_factors
from carbonrouter_core.studies.inputs import SWEEP_INPUTS, Point
from carbonrouter_core.studies.sweep import Outcome
from tests.hand_made import T, make_trace

BASE = Scenario()


def outcome(point: Point, saving: float | None) -> Outcome:
    """What a point came to, as far as savings go; None: it could not run."""
    if saving is None:
        return Outcome(point, error="no data")
    return Outcome(point, {}, {"carbonrouter": Interval(saving, saving - 1, saving + 1)})


def asked_of(saving_at):
    """Runs points by a formula of the point instead of a replay."""
    return lambda points: [outcome(point, saving_at(point)) for point in points]


# --- Tornado ----------------------------------------------------------------------------------


def test_the_widest_bar_stands_first_and_the_words_name_it() -> None:
    inputs = ["idle_s", "quality_floor", "seed"]
    points = sensitivity.one_at_a_time(BASE, inputs)
    assert [p.scenario.idle_s for p in points] == [3600, 120, 7200, 3600, 3600, 3600, 3600]
    savings = [10.0, 9.0, 11.0, 2.0, 14.0, 9.8, 10.5]
    outcomes = [outcome(p, s) for p, s in zip(points, savings, strict=True)]
    bars = sensitivity.swings(outcomes, "carbonrouter", inputs)
    assert [bar.input.id for bar in bars] == ["quality_floor", "idle_s", "seed"]
    assert [bar.span_percent for bar in bars] == pytest.approx([12.0, 2.0, 0.7])
    words = sensitivity.most_important(bars)
    assert words.startswith("Quality floor matters most: between 0.5 and 0.8 the saving goes")
    assert "from 2.0 % to 14.0 %" in words and "alone moves it by 0.7 points." in words


def test_a_bar_counts_the_base_and_leaves_out_what_cannot_run() -> None:
    points = sensitivity.one_at_a_time(BASE, ["idle_s"])
    outcomes = [outcome(p, s) for p, s in zip(points, (10.0, None, 8.0), strict=True)]
    (bar,) = sensitivity.swings(outcomes, "carbonrouter", ["idle_s"])
    assert (bar.low_percent, bar.high_percent, bar.span_percent) == (None, 8.0, 2.0)


def test_a_base_that_cannot_run_is_an_error() -> None:
    points = sensitivity.one_at_a_time(BASE, ["idle_s"])
    with pytest.raises(InputError, match="base scenario cannot run: no data"):
        sensitivity.swings([outcome(p, None) for p in points], "carbonrouter", ["idle_s"])


def test_words_keep_the_case_of_abbreviations() -> None:
    points = sensitivity.one_at_a_time(BASE, ["idle_s", "pue", "seed"])
    outcomes = [
        outcome(p, s) for p, s in zip(points, (9.0, 5.0, 9.0, 9.0, 8.0, 9.0, 7.0), strict=True)
    ]
    words = sensitivity.most_important(
        sensitivity.swings(outcomes, "carbonrouter", ["idle_s", "pue", "seed"])
    )
    assert "next is PUE of all regions (1.0 points)." in words
    assert "moves it by 2.0 points; no more than that do PUE of all regions." in words


# --- Break-even -------------------------------------------------------------------------------


@given(st.floats(200.0, 7000.0))
def test_a_crossing_of_a_straight_line_is_found(zero: float) -> None:
    ask = asked_of(lambda point: point.scenario.idle_s - zero)
    found = sensitivity.break_even(Point(BASE), "idle_s", "carbonrouter", ask)
    assert len(found.crossings) == 1
    assert found.crossings[0] == pytest.approx(zero, rel=1e-9)
    assert "begins winning at cache kept unused = " in found.in_words("A", "B")


def test_a_crossing_of_a_curve_is_found_to_a_two_thousandth_of_the_range() -> None:
    ask = asked_of(lambda point: math.log(2000.0 / point.scenario.idle_s))
    found = sensitivity.break_even(Point(BASE), "idle_s", "carbonrouter", ask, 100.0, 7000.0)
    assert found.crossings[0] == pytest.approx(2000.0, abs=6900 / 2000)
    assert found.in_words("A", "B").startswith("A stops winning")


def test_two_crossings_are_both_found() -> None:
    def hump(point: Point) -> float:
        return (point.scenario.idle_s - 1000) * (5000 - point.scenario.idle_s)

    found = sensitivity.break_even(Point(BASE), "idle_s", "carbonrouter", asked_of(hump))
    assert found.crossings == pytest.approx((1000, 5000), abs=1)


def test_a_whole_number_stays_whole() -> None:
    ask = asked_of(lambda point: point.scenario.window_days - 10.5)
    found = sensitivity.break_even(Point(BASE), "window_days", "carbonrouter", ask, 1, 28)
    assert found.crossings == (10.5,)
    assert all(value == int(value) for value, _ in found.looked_at)


@pytest.mark.parametrize(
    ("saving", "words"),
    [(1.0, "emits less than B everywhere"), (-1.0, "more than B everywhere"), (None, "can run")],
)
def test_where_nothing_crosses_the_words_say_so(saving: float | None, words: str) -> None:
    ask = asked_of(lambda _: saving)
    found = sensitivity.break_even(Point(BASE), "idle_s", "carbonrouter", ask)
    assert found.crossings == () and words in found.in_words("A", "B")


def test_only_what_has_values_in_between_is_searched() -> None:
    with pytest.raises(InputError, match="no values in between"):
        sensitivity.break_even(Point(BASE), "copies", "carbonrouter", asked_of(lambda _: 1.0))
    with pytest.raises(InputError, match="not below"):
        sensitivity.break_even(
            Point(BASE), "idle_s", "carbonrouter", asked_of(lambda _: 1.0), 5.0, 5.0
        )


# --- Factors ----------------------------------------------------------------------------------


def test_drawn_factors_are_seeded_and_in_their_range() -> None:
    points = sensitivity.drawn_factors(BASE, 200, seed=7)
    assert points[0].factors == AS_MEASURED
    assert points == sensitivity.drawn_factors(BASE, 200, seed=7)
    assert points[1:] != sensitivity.drawn_factors(BASE, 200, seed=8)[1:]
    for one in SWEEP_INPUTS.values():
        if one.measured:
            drawn = np.array([one.get(point) for point in points[1:]])
            assert one.low <= drawn.min() and drawn.max() <= one.high
            assert np.ptp(drawn) > 0.9 * (one.high - one.low)


def test_the_interval_is_the_middle_of_the_draws_and_the_value_as_measured() -> None:
    points = [Point(BASE)] * 102
    outcomes = [outcome(points[0], 50.0), *(outcome(points[0], float(n)) for n in range(101))]
    assert sensitivity.factor_interval(outcomes, "carbonrouter") == Interval(50.0, 2.5, 97.5)


@pytest.fixture(scope="module")
def small():
    sessions = {
        f"s{n}": [T(100 * (n + 1), 40, at_s=60.0 * t, difficulty=0.1 * t) for t in range(5)]
        for n in range(12)
    }
    return prepare(BASE, make_trace(sessions))


def test_factors_of_1_change_nothing(small) -> None:
    assert with_factors(small, AS_MEASURED) is small


@pytest.mark.parametrize(
    ("factors", "part"),
    [
        (Factors(prefill_energy=1.5), "prompt_g"),
        (Factors(decode_energy=1.5, context_read=1.5), "decode_g"),
    ],
)
def test_a_factor_scales_its_part_and_no_other(small, factors: Factors, part: str) -> None:
    """Where a turn runs at the same place, 1.5 times that part."""
    before = run_policy(small, "largest-model").charges
    after = run_policy(with_factors(small, factors), "largest-model")
    same = after.decisions.deployment == run_policy(small, "largest-model").decisions.deployment
    assert same.any()
    for name in ("prompt_g", "decode_g", "host_g"):
        factor = 1.5 if name == part else 1.0
        ours, theirs = getattr(after.charges, name)[same], getattr(before, name)[same]
        np.testing.assert_allclose(ours, factor * theirs, rtol=1e-12)


def test_pue_overhead_scales_what_is_beyond_1(small) -> None:
    pue = small.deployments.fleet.pue
    changed = with_factors(small, Factors(pue_overhead=0.5)).deployments.fleet.pue
    np.testing.assert_allclose(changed, 1.0 + (pue - 1.0) / 2)


def test_harder_prompts_lower_the_predicted_quality(small) -> None:
    before = run_policy(small, "smallest-model").charges.quality
    shifted = with_factors(small, Factors(difficulty_shift=0.5))
    np.testing.assert_allclose(shifted.placed.difficulty, small.placed.difficulty + 0.5)
    assert shifted.rules.difficulty_mean == pytest.approx(small.rules.difficulty_mean + 0.5)
    assert run_policy(shifted, "largest-model").charges.quality.mean() < before.max()


def test_a_factor_out_of_range_is_refused() -> None:
    for values in ({"attention": -0.1}, {"attention": math.nan}, {"difficulty_shift": 11.0}):
        with pytest.raises(InputError, match=next(iter(values))):
            Factors(**values)


def test_energies_are_varied_as_far_as_independent_measurements_lie_off() -> None:
    """Measured / predicted of every source, model and GPU that our points are not made of."""
    table = pd.read_csv(data_path("cost_model_errors.csv"))
    energy = table[(table.relation == "independent") & table.quantity.str.contains("_j_per_")]
    times = 1 / (1 + energy.bias_percent / 100)
    for name in ("prefill_energy", "decode_energy"):
        one = SWEEP_INPUTS[name]
        assert (one.low, one.high) == (round(times.min(), 1), round(times.max(), 1))
        assert f"{one.low:g} to {one.high:g} times" in one.why
    (prefill,) = times[energy.quantity.str.startswith("prefill")]
    assert f"at {prefill:.1f} times" in SWEEP_INPUTS["prefill_energy"].why


# --- Values -----------------------------------------------------------------------------------


def test_spaced_values() -> None:
    assert sensitivity.spaced_values("quality_floor", 4, 0.5, 0.8) == (0.5, 0.6, 0.7, 0.8)
    assert sensitivity.spaced_values("window_days", 5, 1, 3) == (1, 2, 3)
    assert sensitivity.spaced_values("copies", 7) == ("latest", "all")
    days = sensitivity.spaced_values("window_start", 3)
    assert [d.isoformat() for d in days] == ["2024-01-15", "2024-04-15", "2024-07-15"]
    with pytest.raises(InputError, match="2 or more"):
        sensitivity.spaced_values("idle_s", 1)
    with pytest.raises(InputError, match="not before"):
        sensitivity.spaced_values("window_start", 3, date(2024, 2, 1), date(2024, 1, 1))
