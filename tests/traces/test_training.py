"""What is learned from the training half of a trace, by hand."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

import numpy as np
import pytest

from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.traces.training import Training, survival
from tests.hand_made import Costs, T, make_catalog, make_trace, make_world


def ids(training: bool) -> Iterator[str]:
    """Session ids that fall into the training half, or into the other."""
    for i in range(10_000):
        name = f"session {i}"
        if (hashlib.sha256(name.encode()).digest()[-1] % 2 == 0) == training:
            yield name


IN, IN_TOO, *_ = ids(training=True)
OUT, OUT_TOO, *_ = ids(training=False)


def learned(trace: Trace) -> Training:
    """What the scenario's preparation learns from ``trace``."""
    catalog = make_catalog({("M", "G"): Costs(1.0, 2.0)}, {"north": 1.0})
    return make_world(trace, catalog).training


# --- Survival ---------------------------------------------------------------------------------


def test_survival_pools_the_turns_that_few_sessions_reach() -> None:
    # 40 sessions of 1 turn, 30 of 2, 20 of 3, 10 of 5: 100 in all
    #   n          1    2    3    4    5
    #   at risk  100   60   30   10   10
    #   go on     60   30   10   10    0
    # S(1) = 60/100, S(2) = 30/60; from 3 on fewer than 50 are at risk: they share
    # (10 + 10 + 0) / (30 + 10 + 10) = 0.4
    lengths = np.repeat([1, 2, 3, 5], [40, 30, 20, 10])
    assert survival(lengths).tolist() == [0.6, 0.5, 0.4]
    assert survival(lengths[::-1]).tolist() == [0.6, 0.5, 0.4]


def test_fifty_at_risk_are_enough() -> None:
    fifty = survival(np.repeat([1, 2, 3], [50, 25, 25]))  # 100, 50 and 25 at risk
    assert fifty.tolist() == [0.5, 0.5, 0.0]  # 25/50 alone; the last, 0 of 25
    one_less = survival(np.repeat([1, 2, 3], [51, 24, 25]))  # 100, 49 and 25 at risk
    assert one_less.tolist() == [0.49, 25 / (49 + 25)]


def test_a_few_sessions_share_one_value() -> None:
    # 1 and 3 turns: at risk 2, 1, 1; go on 1, 1, 0
    assert survival(np.array([1, 3])).tolist() == [0.5]


def test_sessions_that_all_end_alike_leave_nothing_after_their_end() -> None:
    everlasting = survival(np.full(60, 3))
    assert everlasting[:3].tolist() == [1.0, 1.0, 0.0]
    assert everlasting[-1] == 0.0


# --- Means, gaps, difficulty ------------------------------------------------------------------


def test_means_are_of_the_training_half_alone() -> None:
    trace = make_trace(
        {
            IN: [T(100, 10), T(30, 20), T(50, 60)],
            OUT: [T(9_000, 9_000), T(9_000, 9_000)],
            IN_TOO: [T(7, 50)],
        }
    )
    training = learned(trace)
    assert training.mean_output_tokens == (10 + 20 + 60 + 50) / 4
    assert training.mean_later_prompt_tokens == (30 + 50) / 2  # first prompts apart
    assert training.survival.tolist() == [2 / 4]  # at risk 2, 1, 1; go on 1, 1, 0
    assert training.note == ""


def test_the_gap_share_counts_gaps_up_to_idle_s() -> None:
    trace = make_trace(
        {
            IN: [T(1, 1, 1000), T(1, 1, 1060), T(1, 1, 5000)],  # gaps 60 and 3,940
            OUT: [T(1, 1, 0), T(1, 1, 1)],
            IN_TOO: [T(1, 1, 90_000), T(1, 1, 93_600)],  # gap 3,600
        }
    )
    training = learned(trace)
    assert training.gaps_s.tolist() == [60.0, 3600.0, 3940.0]
    assert training.gap_within(3600.0) == pytest.approx(2 / 3)  # a gap of idle_s itself counts
    assert training.gap_within(3599.9) == pytest.approx(1 / 3)
    assert training.gap_within(59.0) == 0.0
    assert training.gap_within(1e7) == 1.0


def test_the_spread_of_difficulty_by_analysis_of_variance() -> None:
    # Sessions (0, 2) and (4, 6): mean 3, deviation √((9 + 1 + 1 + 9) / 4) = √5
    # between: 2 x ((1 - 3)² + (5 - 3)²) / (2 - 1) = 16; within: 4 x 1² / (4 - 2) = 2
    # two turns each: (16 - 2) / (16 + (2 - 1) x 2) = 14 / 18
    trace = make_trace(
        {
            IN: [T(1, 1, difficulty=0.0), T(1, 1, difficulty=2.0)],
            IN_TOO: [T(1, 1, difficulty=4.0), T(1, 1, difficulty=6.0)],
            OUT: [T(1, 1, difficulty=99.0)],
        }
    )
    training = learned(trace)
    assert training.difficulty_mean == pytest.approx(3.0)
    assert training.difficulty_spread == pytest.approx(math.sqrt(5.0))
    assert training.difficulty_correlation == pytest.approx(14 / 18)


def test_typical_prompts_are_a_geometric_mean_and_alike_within_a_session() -> None:
    # Prompts after the first, in ln(1 + tokens): 1, 3 in one session and 5, 7 in the other: mean 4
    # between: 2 x (2² + 2²) / 1 = 16; within: 4 x 1² / 2 = 2: (16 - 2) / (16 + 2) = 7/9.
    # Outputs, the first ones too: 0, 20, 40 and 60, 80, 100: between 3 x (30² + 30²) = 5,400;
    # within (2 x 20² + 2 x 20²) / 4 = 400: (5,400 - 400) / (5,400 + 2 x 400) = 50/62
    tokens = [round(math.e**x) - 1 for x in (1, 3, 5, 7)]
    one = [T(9_000, 0), T(tokens[0], 20), T(tokens[1], 40)]
    two = [T(9_000, 60), T(tokens[2], 80), T(tokens[3], 100)]
    training = learned(make_trace({IN: one, IN_TOO: two, OUT: [T(1, 1), T(9_999, 9_999)]}))
    assert training.typical_prompt_log == pytest.approx(4.0, abs=0.05)  # tokens are whole
    assert training.prompt_log_correlation == pytest.approx(7 / 9, abs=0.02)
    assert training.output_correlation == pytest.approx(50 / 62)


# --- Little to learn from ---------------------------------------------------------------------


def test_without_a_training_half_all_sessions_are_used_and_it_is_said() -> None:
    training = learned(make_trace({OUT: [T(10, 20), T(30, 40)], OUT_TOO: [T(1, 60)]}))
    assert training.mean_output_tokens == (20 + 40 + 60) / 3
    assert training.mean_later_prompt_tokens == 30.0
    assert "all of them are used" in training.note


def test_the_note_is_among_the_warnings() -> None:
    catalog = make_catalog({("M", "G"): Costs(1.0, 2.0)}, {"north": 1.0})
    prepared = make_world(make_trace({OUT: [T(1, 1)]}), catalog)
    assert prepared.training.note in prepared.warnings
    assert make_world(make_trace({IN: [T(1, 1)]}), catalog).training.note == ""


def test_single_turns_have_no_gap_and_no_later_prompt() -> None:
    training = learned(make_trace({IN: [T(10, 20)], IN_TOO: [T(30, 40)]}))
    assert training.gap_within(1e7) == 0.0
    assert training.mean_later_prompt_tokens == 20.0  # the mean prompt is the only guess
    assert training.survival.tolist() == [0.0]
    assert training.typical_prompt_log == pytest.approx((math.log(11) + math.log(31)) / 2)
    assert training.difficulty_correlation == 0.0
