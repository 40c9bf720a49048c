"""One turn worked through comes to what the engine charges, figure by figure."""

from __future__ import annotations

import dataclasses
from dataclasses import fields

import numpy as np
import pytest

from carbonrouter_core import PRESETS, Comparison, Scenario, compare, load_catalog
from carbonrouter_core.replay.charging import charge_rows
from carbonrouter_core.replay.run import run_policy
from carbonrouter_core.results.worked_turn import (
    WorkedCandidate,
    contrast,
    examples,
    work_out,
    work_out_turn,
)
from tests.hand_made import MG_PER_J, Costs, T, make_catalog, make_trace, make_world

POLICY = "carbonrouter"
SCENARIOS = {
    "paper": Scenario(),
    "copies kept": PRESETS["Prompt cache"],
    "agents": Scenario(
        trace="claude-code", pue_overrides={"europe-west2": 1.4}, embodied=True, concurrency=100.0
    ),
}


@pytest.fixture(scope="module", params=SCENARIOS)
def comparison(request: pytest.FixtureRequest) -> Comparison:
    return compare(SCENARIOS[request.param], (POLICY, "faircarbon"))


def test_every_figure_is_what_the_engine_charges(comparison: Comparison) -> None:
    prepared, run = comparison.prepared, comparison.runs[POLICY]
    trace, placed = comparison.trace, prepared.placed
    everywhere = np.arange(len(prepared.deployments))
    for row in examples(comparison, POLICY).values():
        turn = work_out_turn(prepared, run, row)
        worked = [work_out(prepared, load_catalog(), turn, d) for d in everywhere]
        charges = charge_rows(
            prepared.deployments.fleet,
            prepared.k,
            history=np.full_like(everywhere, trace.history_tokens[row]),
            prompt=np.full_like(everywhere, trace.new_prompt_tokens[row]),
            output=np.full_like(everywhere, trace.output_tokens[row]),
            difficulty=np.full(len(everywhere), placed.difficulty[row]),
            user=np.full_like(everywhere, placed.user[row]),
            intensity=np.tile(prepared.intensity[row], (len(everywhere), 1)),
            deployment=everywhere,
            cached=turn.cached_tokens,
        )
        for field in fields(charges):
            ours = [getattr(candidate, field.name) for candidate in worked]
            np.testing.assert_allclose(ours, getattr(charges, field.name), rtol=1e-11, atol=1e-18)
            theirs = getattr(run.charges, field.name)[row]
            assert ours[turn.deployment] == pytest.approx(theirs, rel=1e-11, abs=1e-18)


def test_the_replica_is_the_one_the_scenario_has(comparison: Comparison) -> None:
    prepared = comparison.prepared
    fleet, replicas = prepared.deployments.fleet, prepared.deployments.replicas
    row = next(iter(examples(comparison, POLICY).values()))
    turn = work_out_turn(prepared, comparison.runs[POLICY], row)
    for d, pair in enumerate(fleet.pair):
        one = work_out(prepared, load_catalog(), turn, d)
        assert one.inter_token_ms == pytest.approx(replicas[pair].inter_token_ms, rel=1e-12)
        assert one.decode_j_per_token == replicas[pair].decode_j_per_token
        held = min(one.concurrency, one.held_sequences, one.largest_batch)
        assert one.batch == pytest.approx(max(1.0, held), rel=1e-12)
        assert one.batch <= one.batch_above
        assert one.batch_below <= one.batch or one.batch_below == one.batch_above
        assert one.alpha == pytest.approx(fleet.alpha[fleet.pair_model[pair]], rel=1e-15)


def test_the_turn_is_the_one_of_the_trace(comparison: Comparison) -> None:
    trace, run = comparison.trace, comparison.runs[POLICY]
    for row in examples(comparison, POLICY).values():
        turn = work_out_turn(comparison.prepared, run, row)
        session = trace.session_ids.index(turn.session_id)
        assert trace.offsets[session] + turn.turn - 1 == row
        assert turn.deployment == run.decisions.deployment[row]
        assert turn.cached_tokens[turn.deployment] == run.decisions.cached_tokens[row]
        total = turn.mean_output_tokens + turn.outputs_so_far_tokens
        assert turn.expected_output_tokens == pytest.approx(total / turn.turn)
        assert turn.why_not[turn.deployment] == ""


def test_examples_are_what_they_are_called(comparison: Comparison) -> None:
    trace, decisions = comparison.trace, comparison.runs[POLICY].decisions
    found = examples(comparison, POLICY)
    assert {"A move", "A first turn"} <= set(found)
    for kind, row in found.items():
        h, c = trace.history_tokens[row], decisions.cached_tokens[row]
        assert comparison.moved(POLICY)[row] == ("A move" in kind)
        assert (h == 0) == (kind == "A first turn")
        if kind != "A move":  # of any kind
            assert (0 < c < h) == ("part of" in kind), kind


def test_a_turn_redone_by_hand() -> None:
    """500 tokens of history elsewhere, 100 new, 20 out, at 2 J and 5 J a token, PUE 1.5."""
    catalog = make_catalog({("A", "G"): Costs(2.0, 5.0)}, {"here": 1.0, "there": 1.5})
    trace = make_trace({"s": [T(480, 20, 0.0), T(100, 20, 60.0)]})
    prepared = make_world(trace, catalog, [[1.0, 9.0], [1.0, 9.0]])
    run = run_policy(prepared, POLICY)
    comparison = Comparison(
        prepared, {POLICY: run, "faircarbon": run_policy(prepared, "faircarbon")}
    )

    turn = work_out_turn(prepared, run, 1)
    assert (turn.turn, turn.turns, turn.deployment, turn.home) == (2, 2, 0, 0)
    here, there = (work_out(prepared, catalog, turn, d) for d in (0, 1))

    assert (here.cached_tokens, here.recomputed_tokens) == (500, 0)
    assert (there.cached_tokens, there.recomputed_tokens) == (0, 500)
    # 100 x 2 J + 20 x 5 J = 300 J, at 1 mg a joule
    assert here.carbon_g == pytest.approx(0.300)
    # (600 x 2 J + 20 x 5 J) x 1.5, at 9 mg a joule
    assert there.carbon_g == pytest.approx(1300 * 1.5 * 9e-3)
    assert there.intensity_g_per_kwh == 9 * MG_PER_J
    assert there.prefill_ms == pytest.approx(600.0)
    assert contrast(comparison, turn) == 1


def test_where_nothing_is_served_there_is_no_example() -> None:
    catalog = make_catalog({("A", "G"): Costs(2.0, 5.0)}, {"here": 1.0}, context_tokens={"A": 10})
    prepared = make_world(make_trace({"s": [T(100, 20)]}), catalog)
    runs = {name: run_policy(prepared, name) for name in (POLICY, "faircarbon")}
    assert examples(Comparison(prepared, runs), POLICY) == {}


def test_one_deployment_has_no_contrast() -> None:
    catalog = make_catalog({("A", "G"): Costs(2.0, 5.0)}, {"here": 1.0})
    prepared = make_world(make_trace({"s": [T(100, 20)]}), catalog)
    runs = {name: run_policy(prepared, name) for name in (POLICY, "faircarbon")}
    comparison = Comparison(prepared, runs)
    turn = work_out_turn(prepared, runs[POLICY], 0)
    assert contrast(comparison, turn) == -1


def test_every_figure_of_a_candidate_is_a_number(comparison: Comparison) -> None:
    row = next(iter(examples(comparison, POLICY).values()))
    turn = work_out_turn(comparison.prepared, comparison.runs[POLICY], row)
    one = work_out(comparison.prepared, load_catalog(), turn, turn.deployment)
    may_be_infinite = {"window_tokens", "held_sequences"}
    for field in dataclasses.fields(WorkedCandidate):
        value = getattr(one, field.name)
        assert isinstance(value, str) or field.name in may_be_infinite or np.isfinite(value)
