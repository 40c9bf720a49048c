"""What to do against today's practice, and the figures of a year."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from carbonrouter_core import Scenario, ScenarioError, compare, prepare, run_policy
from carbonrouter_core.fleet.volume import Workload, turns_in_progress
from carbonrouter_core.replay.practice import places_of
from carbonrouter_core.results.advice import advice
from tests.hand_made import T, make_trace

TWO_SITES = Scenario(
    regions=("europe-west2", "us-east4"),
    models=("Llama-3.3-70B",),
    gpus=("H100-80GB",),
    quality_floor=0.0,
    baseline="nearest-region",
    conversations_per_day=1e7,
)
TRACE = make_trace(
    {f"s{i}": [T(200, 100, 600.0 * i), T(50, 80, 600.0 * i + 60)] for i in range(12)},
    users=["europe-west2"] * 12 + ["us-east4"] * 12,
)


def test_one_model_on_two_sites_saves_against_the_nearest_region() -> None:
    comparison = compare(TWO_SITES, trace=TRACE)
    figures = comparison.figures("carbonrouter-lookahead")
    assert figures["saving_percent"] > 10  # the choice of the site alone
    text = advice(comparison, "carbonrouter-lookahead")
    assert text.startswith("At 10,000,000 conversations a day from London and ")
    assert "against nearest region: route with CarbonRouter with look-ahead; it saves" in text
    assert "against it speaks: first token" in text  # farther away


def test_one_site_has_nothing_to_choose() -> None:
    alone = TWO_SITES.replace(
        regions=("europe-central2",), user_mix={}, window_start="2022-06-01", window_days=7
    )
    trace = dataclasses.replace(TRACE, user_region=None)
    text = advice(compare(alone, trace=trace), "carbonrouter-lookahead")
    assert "from Warsaw, against nearest region: leave things as they are" in text


def test_a_policy_that_loses_is_advised_against() -> None:
    comparison = compare(
        TWO_SITES.replace(baseline="carbonrouter-lookahead"),
        ["nearest-region", "carbonrouter-lookahead"],
        TRACE,
    )
    text = advice(comparison, "nearest-region")
    assert "leave things as they are; Nearest region would emit" in text
    assert " a year more (" in text


def test_a_fixed_deployment_is_where_it_was_said_to_be() -> None:
    scenario = Scenario(
        baseline="fixed-deployment",
        baseline_model="Gemma-3-27B",
        baseline_region="us-west2",
        quality_floor=1.0,  # which does not bind it
        latency_ceiling_ms=1.0,
    )
    trace = dataclasses.replace(TRACE, user_region=None)
    prepared = prepare(scenario, trace)
    names = prepared.deployments.to_frame().iloc[
        run_policy(prepared, "fixed-deployment").decisions.deployment
    ]
    assert set(names["model"]) == {"Gemma-3-27B"}
    assert set(names["region"]) == {"us-west2"}


def test_own_mix_keeps_each_session_at_a_place_and_comes_near_the_shares() -> None:
    mix = {"Gemma-3-27B @ us-west2": 3, "Llama-3.1-8B @ europe-west2": 1, "Gemma-3-12B@us-west2": 0}
    scenario = Scenario(baseline="own-mix", baseline_mix=mix)
    assert places_of(scenario, "own-mix") == {
        ("Gemma-3-27B", "us-west2"): 0.75,
        ("Llama-3.1-8B", "europe-west2"): 0.25,
    }
    trace = make_trace({f"s{i}": [T(10, 10), T(5, 5, 60)] for i in range(400)})
    prepared = prepare(scenario, trace)
    frame = prepared.deployments.to_frame()
    served = run_policy(prepared, "own-mix").decisions.deployment
    place = (frame["model"] + frame["region"]).to_numpy()[served].reshape(400, 2)
    assert (place[:, 0] == place[:, 1]).all()
    share = np.mean(place[:, 0] == "Gemma-3-27Bus-west2")
    assert 0.68 < share < 0.82  # 0.75, three standard deviations of 0.022


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"baseline": "nobody"}, "Unknown policy 'nobody'"),
        ({"baseline": "fixed-deployment", "baseline_model": "GPT"}, "baseline_model: Unknown"),
        ({"baseline": "own-mix", "baseline_mix": {"Gemma-3-27B": 1}}, "write MODEL @ REGION"),
    ],
)
def test_a_baseline_that_is_not_there_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        prepare(Scenario(**fields), dataclasses.replace(TRACE, user_region=None))


def test_turns_in_progress_by_hand() -> None:
    work = Workload(sessions=10, turns=60, prompt_tokens=6000, output_tokens=12_000)
    # 8,640 a day are 0.1 a second, with 6 turns each: 0.6 turns a second
    assert work.turns_per_s(8640) == pytest.approx(0.6)
    # 100 new tokens at 1 ms, 200 output tokens at 50 ms: 10.1 s
    assert work.turn_s(1.0, 50.0) == pytest.approx(10.1)
    assert turns_in_progress(0.6, 4.0, lambda batch: 10.1) == pytest.approx(6.06)
    # a turn takes as many seconds as there are in the batch, and 4: B = 0.6 (B + 4), B = 6
    assert turns_in_progress(0.6, 64.0, lambda batch: batch + 4) == pytest.approx(6.0, rel=1e-6)
