"""One range to quote: the parts joined on the scale of the carbon that is left."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carbonrouter_core.results.comparison import Interval
from carbonrouter_core.results.quoted_range import DRAWS, SESSIONS, RangePart, joined, quoted_range
from carbonrouter_core.routing.policies import FULL_PROMPT, PUBLISHED

SAVING = Interval(20.0, 10.0, 30.0)


def test_a_single_part_around_the_saving_is_the_range() -> None:
    low, high = joined(20.0, [RangePart("x", 20.0, 10.0, 30.0)])
    assert (low, high) == (pytest.approx(10.0), pytest.approx(30.0))


def test_two_equal_parts_are_root_two_wider() -> None:
    """ln(0.8 / 0.4) = ln 2 downwards from 20 % left out, so 0.8 / 2 ** sqrt(2) is left."""
    part = RangePart("x", 20.0, -60.0, 60.0)
    low, high = joined(20.0, [part, part])
    assert high == pytest.approx(100 * (1 - 0.8 / 2 ** math.sqrt(2)))
    assert low == pytest.approx(100 * (1 - 0.8 * 2 ** math.sqrt(2)))


@given(st.floats(-50, 90), st.floats(0, 40), st.floats(0, 9), st.floats(0, 40), st.floats(0, 9))
def test_a_range_holds_the_saving_and_each_part_around_it(
    value: float, down: float, up: float, down_too: float, up_too: float
) -> None:
    parts = [
        RangePart("x", value, value - down, value + up),
        RangePart("y", value, value - down_too, value + up_too),
    ]
    low, high = joined(value, parts)
    assert low <= min(value, value - down, value - down_too) + 1e-6
    assert high >= max(value, value + up, value + up_too) - 1e-6


def test_the_range_names_its_parts() -> None:
    quoted = quoted_range(SAVING, "sharegpt", PUBLISHED)
    assert quoted is not None
    assert quoted.data == "sharegpt"
    assert [part.what for part in quoted.parts][:2] == [SESSIONS, DRAWS]
    assert len(quoted.parts) == 4
    assert quoted.low_percent < 10.0 and quoted.high_percent > 30.0
    for part in quoted.parts:
        assert part.what in quoted.text
    assert f"{quoted.low_percent:.1f} %" in quoted.text


def test_a_trace_of_ones_own_gets_the_wider_of_the_ranges() -> None:
    own = quoted_range(SAVING, "mine", PUBLISHED)
    assert own is not None
    widths = []
    for trace in ("sharegpt", "claude-code"):
        built_in = quoted_range(SAVING, trace, PUBLISHED)
        assert built_in is not None
        widths.append(built_in.high_percent - built_in.low_percent)
    assert own.high_percent - own.low_percent == max(widths)


@pytest.mark.parametrize(
    ("saving", "policy", "other"),
    [
        (Interval(20.0, None, None), PUBLISHED, "faircarbon"),
        (SAVING, "sticky", "faircarbon"),
        (SAVING, PUBLISHED, FULL_PROMPT),
    ],
)
def test_there_is_none_where_the_tables_hold_none(
    saving: Interval, policy: str, other: str
) -> None:
    assert quoted_range(saving, "sharegpt", policy, other) is None
