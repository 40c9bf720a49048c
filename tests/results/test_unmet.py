"""Turns for which quality floor or latency ceiling could not be kept are counted and said."""

from __future__ import annotations

import pytest

from carbonrouter_core import Comparison, run_policy
from carbonrouter_core.results.unmet import below_floor_turns, unmet
from tests.hand_made import Costs, T, make_catalog, make_trace, make_world

ONE_SITE = make_catalog({("M", "G"): Costs(1.0, 2.0)}, {"north": 1.0})


def replay(*turns: T, **fields: object) -> Comparison:
    trace = make_trace({"a": list(turns)}, users=["north"] * len(turns))
    world = make_world(trace, ONE_SITE, **fields)
    return Comparison(world, {"carbonrouter": run_policy(world, "carbonrouter")})


def test_nothing_is_said_where_both_demands_are_met() -> None:
    run = replay(T(100, 10), quality_floor=0.3, latency_ceiling_ms=1e6)
    assert below_floor_turns(run, "carbonrouter") == 0
    assert unmet(run, "carbonrouter") == []


def test_a_floor_that_no_model_reaches_is_said() -> None:
    # Only the second turn is too hard for the one model.
    run = replay(T(100, 10, difficulty=-30.0), T(100, 10, 60.0, difficulty=30.0), quality_floor=0.9)
    assert below_floor_turns(run, "carbonrouter") == 1
    (said,) = unmet(run, "carbonrouter")
    assert said.startswith("In 1 of 2 turns no model that fits reaches the quality floor of 0.9;")


@pytest.mark.parametrize(("ceiling_ms", "missed"), [(1.0, 2), (1500.0, 1)])
def test_a_ceiling_that_nothing_is_within_is_said(ceiling_ms: float, missed: int) -> None:
    # 100 ms a token put out: the first turn takes about 1.1 s, the second about 2.1 s.
    run = replay(T(100, 10), T(100, 20, 60.0), latency_ceiling_ms=ceiling_ms)
    (said,) = unmet(run, "carbonrouter")
    assert said == (
        f"In {missed} of 2 turns no candidate is within the latency ceiling of "
        f"{ceiling_ms / 1000:g} s; the fastest serves them."
    )


def test_what_concerns_most_turns_is_said_first() -> None:
    turns = T(100, 10, difficulty=-30.0), T(100, 10, 60.0, difficulty=30.0)
    said = unmet(replay(*turns, quality_floor=0.9, latency_ceiling_ms=1.0), "carbonrouter")
    assert [sentence[:12] for sentence in said] == ["In 2 of 2 tu", "In 1 of 2 tu"]
