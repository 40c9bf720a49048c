"""A session told turn by turn: the same figures as the replay, and what each decision saw."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from carbonrouter_core import PRESETS, Comparison, InputError, Scenario, compare
from carbonrouter_core.replay.run import run_policy
from carbonrouter_core.results.session_story import Story, session_table, tell
from carbonrouter_core.routing import feasibility
from carbonrouter_core.routing.policies import POLICIES, reasons
from tests.hand_made import Costs, T, as_mg, make_catalog, make_trace, make_world

LOOKAHEAD, PUBLISHED, FAIRCARBON = "carbonrouter-lookahead", "carbonrouter", "faircarbon"
WORLDS = {
    "paper": Scenario(),
    "agents, all copies": PRESETS["Prompt cache"].replace(trace="claude-code"),
    "embodied, with a ceiling": Scenario(embodied=True, latency_ceiling_ms=12_000.0),
    "the grid of a day before, raised floors": Scenario(
        intensity_knowledge="persistence", fairness_weight=1.0
    ),
}


@pytest.fixture(scope="module", params=WORLDS)
def world(request: pytest.FixtureRequest) -> Comparison:
    return compare(WORLDS[request.param], (LOOKAHEAD, PUBLISHED, FAIRCARBON))


def told(world: Comparison, policy_id: str) -> list[Story]:
    """The longest session and one that moves, as a policy served them."""
    table = session_table(world, policy_id, FAIRCARBON)
    chosen = {int(table["turns"].argmax()), int(table["moves"].argmax())}
    return [tell(world.prepared, world.runs[policy_id], session) for session in sorted(chosen)]


def test_the_figures_are_those_of_the_replay(world: Comparison) -> None:
    for policy_id in world.runs:
        by_session = world.session_carbon_g(policy_id)
        for story in told(world, policy_id):
            number = world.trace.session_ids.index(story.session_id)
            charges = story.charges
            parts = charges.recompute_g + charges.prompt_g + charges.decode_g + charges.host_g
            assert len(story) == world.trace.session_turns[number]
            assert charges.carbon_g.sum() == pytest.approx(by_session[number], rel=1e-9)
            assert parts.sum() == pytest.approx(by_session[number], rel=1e-9)
            moves = session_table(world, policy_id, FAIRCARBON).loc[number, "moves"]
            assert (story.moved_from >= 0).sum() == moves


def test_the_chosen_candidate_is_the_decision(world: Comparison) -> None:
    for policy_id in world.runs:
        for story in told(world, policy_id):
            served = np.flatnonzero(story.decisions.served)
            here = story.decisions.deployment[served]
            seen = story.candidates
            assert (seen.obstacle[served, here] == feasibility.FEASIBLE).all()
            np.testing.assert_array_equal(
                seen.cached_tokens[served, here], story.decisions.cached_tokens[served]
            )
            # What does not hang on the output was charged as it was seen.
            same = ("ttft_ms", "quality")
            if story.prepared.known is None:
                same += ("recompute_g", "prompt_g")
            for part in same:
                np.testing.assert_allclose(
                    getattr(seen, part)[served, here],
                    getattr(story.charges, part)[served],
                    rtol=1e-9,
                    atol=1e-15,
                )


def test_the_cheapest_feasible_candidate_is_what_was_wanted(world: Comparison) -> None:
    for policy_id in (LOOKAHEAD, PUBLISHED):
        for story in told(world, policy_id):
            served = story.decisions.served
            feasible = story.candidates.obstacle == feasibility.FEASIBLE
            total_g = np.where(feasible, story.candidates.total_g, np.inf)[served]
            wanted = story.decisions.wanted[served]
            np.testing.assert_allclose(
                total_g[np.arange(len(wanted)), wanted], total_g.min(axis=1), rtol=1e-9
            )


def test_look_ahead_takes_the_least_of_now_and_later(world: Comparison) -> None:
    for story in told(world, LOOKAHEAD):
        served = story.decisions.served
        feasible = story.candidates.obstacle == feasibility.FEASIBLE
        both = story.candidates.total_g + story.candidates.to_come_g
        both = np.where(feasible & np.isfinite(both), both, np.inf)[served]
        here = story.decisions.deployment[served]
        np.testing.assert_allclose(both[np.arange(len(here)), here], both.min(axis=1), rtol=1e-9)


def test_what_the_gate_weighed_is_in_the_table(world: Comparison) -> None:
    asked = 0
    for story in told(world, PUBLISHED):
        decisions, seen = story.decisions, story.candidates
        for turn in np.flatnonzero(np.isfinite(decisions.p_back)):
            home, wanted = decisions.home[turn], decisions.wanted[turn]
            saving_g = seen.total_g[turn, home] - seen.total_g[turn, wanted]
            assert saving_g == pytest.approx(decisions.saving_g[turn], rel=1e-6, abs=1e-12)
            holds = decisions.p_back[turn] * decisions.rebuild_g[turn] > saving_g
            holds &= decisions.next_gain_g[turn] > saving_g
            likely = decisions.p_back[turn] >= story.prepared.scenario.gate_threshold
            assert (decisions.reason[turn] == reasons.HELD) == (holds and likely)
            asked += 1
    assert asked


def test_totals_have_embodied_carbon_where_the_scenario_says_so() -> None:
    world = compare(WORLDS["embodied, with a ceiling"], (PUBLISHED,))
    (story, *_) = told(compare(Scenario(), (PUBLISHED, FAIRCARBON)), PUBLISHED)
    seen = story.candidates
    parts = seen.recompute_g + seen.prompt_g + seen.decode_g + seen.host_g
    np.testing.assert_allclose(seen.total_g, parts, rtol=1e-9)
    seen = tell(world.prepared, world.runs[PUBLISHED], 0).candidates
    parts = seen.recompute_g + seen.prompt_g + seen.decode_g + seen.host_g
    np.testing.assert_allclose(seen.total_g, parts + seen.embodied_g, rtol=1e-9)
    assert (seen.embodied_g > 0).all()


@pytest.fixture(scope="module")
def two_sites() -> Callable[..., Story]:
    """One conversation on a model that London and Paris have, the grids trading places.

    A token prefilled or put out is 1 J; a joule is 1 mg on the cleaner grid, 3 on the other.
    """

    def serve(policy_id: str) -> Story:
        catalog = make_catalog({("m", "g"): Costs(1.0, 2.0)}, {"london": 1.0, "paris": 1.0})
        trace = make_trace({"s": [T(100, 10), T(100, 10, 60), T(1000, 10, 120)]}, ["london"] * 3)
        prepared = make_world(trace, catalog, [[1, 3], [3, 1], [3, 1]])
        return tell(prepared, run_policy(prepared, policy_id), 0)

    return serve


def test_a_hand_made_session(two_sites: Callable[..., Story]) -> None:
    story = two_sites("carbonrouter-no-gate")

    # Turn 1: 100 + 10 * 2 = 120 J, at 1 mg in London and 3 in Paris.
    # Turn 2: London has the 110 tokens: 3 * 120; Paris prefills 210: 210 + 20 = 230 mg: moves.
    table = story.candidate_table(1)
    assert list(table["region"]) == ["london", "paris"]
    assert list(table["cached_tokens"]) == [110, 0]
    assert as_mg(table["total_g"]) == [360.0, 230.0]
    assert list(table["why_not"]) == ["", ""]
    assert list(story.decisions.deployment) == [0, 1, 1]
    assert list(story.moved_from) == [-1, 0, -1]
    assert list(story.recomputed_tokens) == [0, 110, 0]
    assert as_mg(story.charges.carbon_g) == [120.0, 230.0, 1020.0]
    turns = story.turn_table()
    assert list(turns["region"]) == ["london", "paris", "paris"]
    assert list(turns["moved"]) == [False, True, False]
    assert turns["reason"][1] == reasons.WORDS[reasons.MOVED]
    assert as_mg(turns["carbon_g"]) == [120.0, 230.0, 1020.0]


@pytest.mark.parametrize("policy_id", POLICIES)
def test_every_policy_can_be_told(two_sites: Callable[..., Story], policy_id: str) -> None:
    story = two_sites(policy_id)

    here = story.decisions.deployment
    assert (
        story.candidates.cached_tokens[np.arange(3), here] == story.decisions.cached_tokens
    ).all()
    assert np.isfinite(story.candidates.to_come_g).any() == (policy_id == LOOKAHEAD)
    knows = POLICIES[policy_id].knows_output
    assert (story.expected_output_tokens == story.output_tokens).all() or not knows


def test_a_turn_that_fits_nowhere_says_why() -> None:
    catalog = make_catalog(
        {("m", "g"): Costs(1.0, 2.0)}, {"london": 1.0}, context_tokens={"m": 200}
    )
    prepared = make_world(make_trace({"s": [T(10, 10), T(500, 10, 5)]}), catalog)
    story = tell(prepared, run_policy(prepared, PUBLISHED), 0)

    table = story.candidate_table(1)
    assert list(table["why_not"]) == ["holds 200 tokens, 530 needed"]
    assert story.turn_table()["model"][1] == ""
    assert story.charges.carbon_g[1] == 0
    assert story.recomputed_tokens[1] == 0


def test_what_is_not_there_is_refused(two_sites: Callable[..., Story]) -> None:
    story = two_sites(PUBLISHED)
    with pytest.raises(InputError, match="Turn 3 is not there"):
        story.candidate_table(3)
    run = run_policy(story.prepared, PUBLISHED)
    with pytest.raises(InputError, match="Session number 1 is not there"):
        tell(story.prepared, run, 1)
    for first, end in ((2, 2), (0, 4), (-1, 2)):
        with pytest.raises(InputError, match="are not there: the session has 3"):
            tell(story.prepared, run, 0, first, end)


def test_a_stretch_is_told_as_in_the_whole(world: Comparison) -> None:
    first, end = 7, 12
    for policy_id, run in world.runs.items():
        session = int(session_table(world, policy_id, FAIRCARBON)["moves"].argmax())
        whole = tell(world.prepared, run, session)
        part = tell(world.prepared, run, session, first, end)
        assert len(part) == end - first
        for ours, theirs in (
            (part, whole),
            (part.candidates, whole.candidates),
            (part.charges, whole.charges),
        ):
            for name, values in vars(ours).items():
                if isinstance(values, np.ndarray):
                    np.testing.assert_array_equal(values, getattr(theirs, name)[first:end])
        assert part.before_g == pytest.approx(whole.charges.carbon_g[:first].sum(), rel=1e-12)
        assert part.in_all_g == whole.in_all_g
        assert (part.turns_in_all, part.served_before) == (len(whole), True)
        assert list(part.turn_table()["turn"]) == list(range(first + 1, end + 1))


@pytest.mark.parametrize(("copies", "left"), [("latest", 0), ("all", 160)])
def test_what_a_log_did_is_told_with_what_a_router_would_have_seen(copies: str, left: int) -> None:
    catalog = make_catalog({("m", "g"): Costs(1.0, 2.0)}, {"london": 1.0, "paris": 1.0})
    turns = [T(100, 20), T(30, 10, 5), T(30, 10, 10), T(30, 10, 15)]
    trace = make_trace(
        {"s": turns},
        served_model=("m", "m", "unknown", "m"),
        served_region=("london", "london", "london", "paris"),
        cached_tokens_observed=np.array([0, 50, -1, -1]),
    )
    prepared = make_world(trace, catalog, copies=copies)
    story = tell(prepared, run_policy(prepared, "as-served"), 0)
    assert list(story.decisions.deployment) == [0, 0, -1, 1]
    assert list(story.candidates.cached_tokens[:, 0]) == [0, 50, 160, left]
    assert list(story.recomputed_tokens) == [0, 70, 0, 200]
    assert list(story.moved_from) == [-1, -1, -1, 0]


def test_the_table_of_sessions(world: Comparison) -> None:
    table = session_table(world, PUBLISHED, FAIRCARBON)

    assert list(table["session"]) == list(world.trace.session_ids)
    assert table["turns"].sum() == world.trace.n_turns
    assert table["moves"].sum() == world.moved(PUBLISHED).sum()
    held = world.runs[PUBLISHED].decisions.reason == reasons.HELD
    assert table["holds"].sum() == held.sum()
    np.testing.assert_allclose(
        table["saving_g"], table["other_carbon_g"] - table["carbon_g"], rtol=1e-12
    )
