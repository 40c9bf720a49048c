"""Figures of a comparison, on runs small enough to count by hand."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carbonrouter_core import FIGURES, POLICIES, Scenario, compare, run_policy
from carbonrouter_core.quality.item_response import QualityFit
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.results.comparison import Comparison, bootstrap_saving, saving_percent
from carbonrouter_core.traces.schema import Trace
from tests.hand_made import Costs, T, make_catalog, make_trace, make_world

TWO_SITES = make_catalog({("M", "G"): Costs(1.0, 2.0)}, {"north": 1.25, "south": 1.25})


def side_by_side(prepared: Prepared, *policies: str) -> Comparison:
    return Comparison(prepared, {name: run_policy(prepared, name) for name in policies})


def example() -> Comparison:
    """Two sessions; the first moves south under FairCarbon, the second stays.

    a: 900 + 50, then 10 + 50 tokens; south a little dirtier, then half as dirty
    b: 100 + 10 tokens
    """
    trace = make_trace({"a": [T(900, 50), T(10, 50, 60)], "b": [T(100, 10)]}, users=["north"] * 3)
    world = make_world(trace, TWO_SITES, mg_per_j=[[0.8, 0.9], [0.8, 0.4], [0.8, 0.9]])
    return side_by_side(world, "carbonrouter", "faircarbon")


# PUE 1.25 x 0.8 mg/J is 1 mg for each joule at the servers, 0.4 is half a milligram.
#               recompute   prompt  decode   J    mg
# a1  both              0      900     100  1000  1000
# a2  CarbonRouter      0       10     100   110   110   stays north
#     FairCarbon      950       10     100  1060   530   goes south
# b1  both              0      100      20   120   120
# GPU energy: 0.85 J of each prefilled joule (0.15 J is the host's); an output token of 2 J is
# 0.5 J GPU and 1.5 J host.


def test_carbon_and_its_parts_are_totals_of_the_turns() -> None:
    ours, theirs = example().figures("carbonrouter"), example().figures("faircarbon")
    assert ours["carbon_g"] * 1e3 == pytest.approx(1000 + 110 + 120)
    assert theirs["carbon_g"] * 1e3 == pytest.approx(1000 + 530 + 120)
    assert ours["recompute_g"] == 0.0
    assert theirs["recompute_g"] * 1e3 == pytest.approx(0.85 * 950 * 0.5)  # 403.75
    assert theirs["recompute_share"] == pytest.approx(403.75 / 1650)
    assert ours["prompt_g"] * 1e3 == pytest.approx(0.85 * (900 + 10 + 100))
    assert ours["decode_g"] * 1e3 == pytest.approx(0.5 * (50 + 50 + 10))
    assert ours["host_g"] * 1e3 == pytest.approx(0.15 * 1010 + 1.5 * 110)
    # energy with PUE: 1,230 J x 1.25 / 3.6e6
    assert ours["energy_kwh"] == pytest.approx(1230 * 1.25 / 3.6e6)
    assert theirs["energy_kwh"] == pytest.approx((1000 + 1060 + 120) * 1.25 / 3.6e6)


def test_counts_and_savings() -> None:
    ours = example().figures("carbonrouter")
    assert (ours["turns"], ours["sessions"], ours["unserved_turns"]) == (3, 2, 0)
    assert ours["output_tokens"] == 110
    # 1 - 1,230 / 1,650 = 25.4545 %
    assert ours["saving_vs_faircarbon_percent"] == pytest.approx(25.4545454545)
    assert example().saving("carbonrouter").value_percent == pytest.approx(25.4545454545)
    # the other way: 1,650 / 1,230 - 1 more, a negative saving
    back = example().saving("faircarbon", baseline="carbonrouter").value_percent
    assert back == pytest.approx(-34.1463414634)


def test_a_figure_can_be_asked_of_some_sessions() -> None:
    comparison = example()
    only_b = np.array([False, True])
    figures = comparison.figures("faircarbon", only_b)
    assert (figures["turns"], figures["sessions"], figures["output_tokens"]) == (1, 1, 10)
    assert figures["carbon_g"] * 1e3 == pytest.approx(120)
    assert comparison.saving("carbonrouter", sessions=only_b).value_percent == pytest.approx(0.0)
    assert comparison.session_carbon_g("faircarbon") * 1e3 == pytest.approx([1530, 120])


def test_latency_and_quality_are_means_over_served_turns() -> None:
    comparison = example()
    figures = comparison.figures("faircarbon")
    # TTFT = RTT + 1 ms a prefilled token + 100 ms: from the north, 10 ms to north, 50 to south
    ttft_ms = [10 + 900 + 100, 50 + 960 + 100, 10 + 100 + 100]
    assert figures["ttft_ms_mean"] == pytest.approx(np.mean(ttft_ms))
    # sorted 210, 1010, 1110: 95 % is 0.9 of the way from the second to the third
    assert figures["ttft_ms_p95"] == pytest.approx(1010 + 0.9 * 100)
    latency_ms = [1010 + 49 * 100, 1110 + 49 * 100, 210 + 9 * 100]
    assert figures["latency_ms_mean"] == pytest.approx(np.mean(latency_ms))
    # all difficulties are 0: sigma(k x theta), the same for each turn
    (theta,) = comparison.prepared.deployments.fleet.theta
    quality = 1 / (1 + math.exp(-QualityFit.load().k * theta))
    assert figures["quality_mean"] == pytest.approx(quality)


def test_the_figures_are_those_that_are_documented() -> None:
    assert list(example().figures("carbonrouter")) == list(FIGURES)
    assert list(example().summary().columns) == list(FIGURES)
    assert list(example().summary().index) == ["carbonrouter", "faircarbon"]
    assert set(example().summary().dtypes) == {np.dtype(float)}


def test_a_notebook_shows_savings_with_their_intervals_and_no_session_ids() -> None:
    comparison = example()
    saving = comparison.saving("carbonrouter")
    row = comparison.overview().loc[POLICIES["carbonrouter"].label]
    assert tuple(row[["saving_percent", "low_percent", "high_percent"]]) == saving
    assert f"<td>{saving.low_percent:,.3g}</td>" in comparison._repr_html_()
    assert len(repr(comparison)) < 200


# --- Moves ------------------------------------------------------------------------------------


def moved_by_hand(deployments: list[int]) -> Comparison:
    """Sessions of 5 and 2 turns served where it is said (-1: unserved)."""
    catalog = make_catalog(
        {("S", "G"): Costs(1.0, 2.0), ("S", "H"): Costs(1.0, 2.0), ("L", "G"): Costs(4.0, 8.0)},
        {"north": 1.0, "south": 1.0},
    )
    prepared = make_world(make_trace({"a": [T(10, 10)] * 5, "b": [T(10, 10)] * 2}), catalog)
    run = run_policy(prepared, "sticky")
    decisions = run.decisions._replace(deployment=np.array(deployments, np.int32))
    return Comparison(prepared, {"sticky": dataclasses.replace(run, decisions=decisions)})


# deployments: 0 S G north, 1 S G south, 2 S H north, 3 S H south, 4 L G north, 5 L G south


def test_a_move_is_a_turn_away_from_the_last_served_one() -> None:
    comparison = moved_by_hand([0, 0, 1, 0, 4, 4, 4])
    # b starts where a ended: no move
    assert comparison.moved("sticky").tolist() == [False, False, True, True, True, False, False]
    assert comparison.figures("sticky")["moves_per_session"] == 3 / 2


def test_unserved_turns_are_stepped_over() -> None:
    comparison = moved_by_hand([0, -1, 0, -1, 1, -1, 2])
    assert comparison.moved("sticky").tolist() == [False] * 4 + [True, False, False]


def test_moves_by_kind_and_between_regions() -> None:
    # a: S G north -> S G south (region) -> S H south (GPU) -> L G north (model and region) -> same
    # b: S G north -> S H south (GPU and region)
    comparison = moved_by_hand([0, 1, 3, 4, 4, 0, 3])
    assert comparison.move_kinds("sticky") == {
        "model": 1,
        "gpu": 2,
        "region_only": 1,
        "with_region": 3,
    }
    between = comparison.region_moves("sticky")
    counts = {(row.from_region, row.to_region): row.moves for row in between.itertuples()}
    assert counts == {("north", "south"): 2, ("south", "north"): 1}


def test_traffic_adds_up_to_the_totals() -> None:
    comparison = example()
    traffic = comparison.traffic("faircarbon").set_index("region")
    assert traffic["turns"].to_dict() == {"north": 2, "south": 1}
    assert traffic["carbon_g"].to_dict() == pytest.approx({"north": 1.12, "south": 0.53})
    whole = comparison.figures("faircarbon")
    assert traffic["energy_kwh"].sum() == pytest.approx(whole["energy_kwh"])


# --- By length of session ---------------------------------------------------------------------


def test_savings_by_length_of_session() -> None:
    lengths = [1, 2, 5, 6, 10, 11, 30, 31, 40]
    trace = make_trace({f"s{n}": [T(10, 10)] * n for n in lengths})
    comparison = side_by_side(make_world(trace, TWO_SITES), "sticky", "faircarbon")
    table = comparison.saving_by_length("sticky").set_index("turns_per_session")
    assert table["sessions"].to_dict() == {"1": 1, "2-5": 2, "6-10": 2, "11-30": 2, "> 30": 2}
    assert table["turns"].to_dict() == {"1": 1, "2-5": 7, "6-10": 16, "11-30": 41, "> 30": 71}
    assert table["share_of_baseline_carbon"].sum() == pytest.approx(1.0)
    assert table["value_percent"].tolist() == pytest.approx([0.0] * 5, abs=1e-9)
    assert comparison.long_sessions.tolist() == [False] * 7 + [True] * 2  # over 30 turns


def test_a_length_that_no_session_has_is_left_out() -> None:
    assert example().saving_by_length("carbonrouter")["turns_per_session"].tolist() == ["1", "2-5"]


# --- How sure ---------------------------------------------------------------------------------

RNG = np.random.default_rng(1)
HEAVY = RNG.lognormal(0.0, 2.0, 2000)
"""A few sessions hold most of the carbon, as in the real data."""


def test_the_interval_is_the_same_every_time_and_holds_the_value() -> None:
    ours = HEAVY * RNG.uniform(0.3, 1.0, 2000)
    first = bootstrap_saving(ours, HEAVY)
    assert bootstrap_saving(ours, HEAVY) == first
    assert first.low_percent < first.value_percent < first.high_percent
    assert first.value_percent == pytest.approx(100 * (1 - ours.sum() / HEAVY.sum()))


def test_the_interval_is_as_wide_as_resampling_by_hand_makes_it() -> None:
    ours = HEAVY * RNG.uniform(0.3, 1.0, 2000)
    rng = np.random.default_rng(99)
    savings = []
    for _ in range(5000):
        drawn = rng.integers(0, 2000, 2000)
        savings.append(100 * (1 - ours[drawn].sum() / HEAVY[drawn].sum()))
    low, high = np.percentile(savings, [2.5, 97.5])
    own = bootstrap_saving(ours, HEAVY)
    assert own.low_percent == pytest.approx(low, abs=0.05 * (high - low))
    assert own.high_percent == pytest.approx(high, abs=0.05 * (high - low))


def test_more_sessions_narrow_the_interval() -> None:
    ours = HEAVY * RNG.uniform(0.3, 1.0, 2000)
    few, many = bootstrap_saving(ours[:50], HEAVY[:50]), bootstrap_saving(ours, HEAVY)
    assert many.high_percent - many.low_percent < few.high_percent - few.low_percent


def test_the_same_share_everywhere_is_sure() -> None:
    assert bootstrap_saving(0.75 * HEAVY, HEAVY) == pytest.approx((25.0, 25.0, 25.0))
    assert bootstrap_saving(HEAVY, HEAVY) == pytest.approx((0.0, 0.0, 0.0), abs=1e-9)


def test_one_session_has_no_interval() -> None:
    assert bootstrap_saving(np.array([1.0]), np.array([2.0])) == (50.0, None, None)


GRAMS = st.just(0.0) | st.floats(1e-6, 1e6)


@given(pairs=st.lists(st.tuples(GRAMS, GRAMS), max_size=30))
@settings(max_examples=50)
def test_an_interval_is_none_or_finite_and_in_order(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = (np.array([pair[i] for pair in pairs], float) for i in (0, 1))
    value, low, high = bootstrap_saving(ours, theirs)
    assert (value is None) == (theirs.sum() == 0)
    assert (low is None) == (high is None)
    if low is not None:
        assert math.isfinite(low)
        assert low <= high <= 100.0


# --- Nothing to divide by ---------------------------------------------------------------------


def test_a_baseline_of_nothing_gives_none_and_not_infinity() -> None:
    assert saving_percent(1.0, 0.0) is None
    assert saving_percent(0.0, 0.0) is None
    assert saving_percent(3.0, 2.0) == -50.0
    assert bootstrap_saving(np.ones(3), np.zeros(3)) == (None, None, None)


EMPTY = {
    "no tokens": make_trace({"a": [T(0, 0), T(0, 0)], "b": [T(0, 0)]}),
    "no outputs": make_trace({"a": [T(10, 0), T(10, 0)]}),
    "nothing fits": make_trace({"a": [T(10**7, 1)], "b": [T(10**7, 1)]}),
    "one turn": make_trace({"a": [T(10, 5)]}),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_results_are_plain_json_without_nan(kind: str) -> None:
    comparison = compare(Scenario(), POLICIES, EMPTY[kind])
    text = json.dumps(comparison.to_dict(), allow_nan=False)
    assert json.loads(text)["policies"].keys() == POLICIES.keys()
    comparison.saving_by_length("carbonrouter")
    comparison.region_moves("carbonrouter")


def test_unserved_turns_are_counted_and_the_means_are_none() -> None:
    figures = compare(Scenario(), trace=EMPTY["nothing fits"]).figures("carbonrouter-lookahead")
    assert (figures["turns"], figures["unserved_turns"], figures["output_tokens"]) == (2, 2, 0)
    assert figures["carbon_g"] == 0.0
    for name in ("quality_mean", "ttft_ms_mean", "ttft_ms_p95", "saving_vs_faircarbon_percent"):
        assert figures[name] is None


def test_no_long_session_leaves_plain_figures() -> None:
    comparison = example()
    figures = comparison.figures("carbonrouter", comparison.long_sessions)
    assert (figures["turns"], figures["sessions"], figures["carbon_g"]) == (0, 0, 0.0)
    assert figures["moves_per_session"] is None
    assert figures["saving_vs_faircarbon_percent"] is None


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_session_without_turns_costs_nothing(at: int) -> None:
    turns = {"a": [T(100, 10)], "b": [T(200, 10)]}
    names = list(turns)
    names.insert(at, "empty")
    prepared = make_world(make_trace({name: turns.get(name, []) for name in names}), TWO_SITES)
    comparison = side_by_side(prepared, "carbonrouter", "faircarbon")
    expected = {"a": 120.0, "b": 220.0, "empty": 0.0}
    session_mg = comparison.session_carbon_g("carbonrouter") * 1e3
    assert session_mg == pytest.approx([expected[name] * 1.25 for name in names])


# --- Against what could have been -------------------------------------------------------------


def test_the_gap_closed_is_the_way_from_faircarbon_to_the_optimum() -> None:
    trace = make_trace({"a": [T(900, 50), T(10, 50, 60)], "b": [T(100, 10)]}, users=["north"] * 3)
    world = make_world(trace, TWO_SITES, mg_per_j=[[0.8, 0.9], [0.8, 0.4], [0.8, 0.4]])
    runs = side_by_side(world, "carbonrouter", "faircarbon", "nearest-region", "hindsight-optimum")
    # a: 1000 + 110 mg in the north is the least, FairCarbon pays 1000 + 530; b: 60 mg in the south
    assert runs.objective_g("hindsight-optimum") * 1e3 == pytest.approx(1000 + 110 + 60)
    assert runs.objective_g("faircarbon") * 1e3 == pytest.approx(1000 + 530 + 60)
    assert runs.gap_closed_percent("carbonrouter") == pytest.approx(100.0)
    assert runs.gap_closed_percent("faircarbon") == pytest.approx(0.0)
    # nearest serves b in the north for 120 mg: 1 - 60 / 420 of the way
    assert runs.gap_closed_percent("nearest-region") == pytest.approx(100 * (1 - 60 / 420))
    assert runs.gap_closed_percent("carbonrouter", np.array([False, True])) is None  # no gap in b
    assert (
        side_by_side(world, "carbonrouter", "faircarbon").gap_closed_percent("faircarbon") is None
    )
    assert runs.optimum_label == "Hindsight optimum"
    shown = runs.to_dict()["policies"]
    assert shown["hindsight-optimum"]["exact"] is True
    assert shown["nearest-region"]["gap_closed_percent"] == pytest.approx(100 * (1 - 60 / 420))


@pytest.mark.parametrize(
    "fields", [{"copies": "all"}, {"latency_ceiling_ms": 9000.0, "fairness_weight": 1.0}]
)
def test_an_optimum_that_is_not_proven_is_called_best_found(fields: dict) -> None:
    trace = make_trace({"a": [T(900, 50), T(10, 50, 60)]})
    runs = side_by_side(make_world(trace, TWO_SITES, **fields), "hindsight-optimum")
    assert runs.optimum_label == "Best found in hindsight"
    assert runs.to_dict()["policies"]["hindsight-optimum"]["exact"] is False


def test_embodied_carbon_is_in_the_objective_only_if_the_scenario_says_so() -> None:
    trace = make_trace({"a": [T(900, 50)]})
    for embodied in (False, True):
        runs = side_by_side(make_world(trace, TWO_SITES, embodied=embodied), "sticky")
        figures = runs.figures("sticky")
        expected = figures["carbon_g"] + embodied * figures["embodied_g"]
        assert figures["embodied_g"] > 0
        assert runs.objective_g("sticky") == pytest.approx(expected)


# --- The real thing ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def paper() -> Comparison:
    """The Paper preset on the built-in chat data."""
    return compare(Scenario(), ["carbonrouter", "carbonrouter-no-gate", "faircarbon", "sticky"])


def test_the_default_scenario_reproduces_the_papers_finding(paper: Comparison) -> None:
    ours, theirs = paper.figures("carbonrouter"), paper.figures("faircarbon")
    assert ours["saving_vs_faircarbon_percent"] > 16.1
    assert paper.saving("carbonrouter").low_percent > 0
    long = paper.figures("carbonrouter", paper.long_sessions)
    assert long["saving_vs_faircarbon_percent"] > 23.1
    assert ours["quality_mean"] > theirs["quality_mean"]
    assert ours["ttft_ms_mean"] < theirs["ttft_ms_mean"]
    gate, none = ours["moves_per_session"], paper.figures("carbonrouter-no-gate")
    assert gate < none["moves_per_session"]


def test_to_dict_names_scenario_trace_and_policies(paper: Comparison) -> None:
    result = json.loads(json.dumps(paper.to_dict(), allow_nan=False))
    assert result["scenario"] == Scenario().to_dict()
    trace: Trace = paper.trace
    assert result["trace"]["sessions"] == trace.n_sessions
    assert result["trace"]["turns"] == trace.n_turns == 59_837
    ours = result["policies"]["carbonrouter"]
    assert ours["long_sessions"]["sessions"] == 272
    assert ours["test_half"]["sessions"] == int((~trace.in_training).sum())
    low, high = ours["saving_interval_percent"]
    assert low < ours["saving_vs_faircarbon_percent"] < high


def test_sites_tell_where_the_carbon_comes_from(paper: Comparison) -> None:
    sites = paper.sites().set_index("city")
    assert sites.loc["London", "pue"] == 1.2
    assert bool(sites.loc["London", "pue_assumed"])
    assert not bool(sites.loc["Frankfurt", "pue_assumed"])
    assert sites["mean_intensity_g_per_kwh"].idxmax() == "Sydney"
    assert paper.same_energy_at_mean_intensity_g("carbonrouter") == pytest.approx(
        paper.figures("carbonrouter")["energy_kwh"] * sites["mean_intensity_g_per_kwh"].mean()
    )


def test_an_overridden_pue_is_not_called_assumed() -> None:
    scenario = Scenario(pue_overrides={"europe-west2": 1.1})
    comparison = compare(scenario, ["faircarbon"], EMPTY["one turn"])
    london = comparison.sites().set_index("city").loc["London"]
    assert (london["pue"], bool(london["pue_assumed"])) == (1.1, False)
