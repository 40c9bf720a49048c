"""Draws of dates and seeds, cells of presets and floors, and how both are printed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from carbonrouter_core.cli.cells import in_markdown
from carbonrouter_core.cli.draws import draws_in_markdown
from carbonrouter_core.errors import InputError
from carbonrouter_core.routing.policies import SIMPLE
from carbonrouter_core.studies.cells import FLOORS, Cell
from carbonrouter_core.studies.headline import (
    AVERAGE,
    FIRST_DAY,
    LAST_DAY,
    OTHERS,
    OURS,
    REGION_SETS,
    TAIL_DAYS,
    DrawnSaving,
    distribution,
    random_draws,
    scenario_of,
)
from carbonrouter_core.traces.builtin import BUILTIN_TRACES


def test_every_draw_lies_in_the_data_and_a_longer_list_begins_with_a_shorter_one() -> None:
    draws = random_draws(200)
    assert random_draws(20) == draws[:20]
    days = scenario_of(draws[0], "sharegpt").window_days
    for draw in draws:
        assert draw.window_start >= FIRST_DAY
        assert draw.window_start + timedelta(days + TAIL_DAYS - 1) <= LAST_DAY
    assert len({draw.seed for draw in draws}) == 200


def test_each_set_of_regions_gets_the_same_dates_and_seeds() -> None:
    draws = random_draws(3, tuple(REGION_SETS))
    by_set = {name: [d for d in draws if d.regions == name] for name in REGION_SETS}
    expected = [(d.window_start, d.seed) for d in by_set["Paper"]]
    for name, several in by_set.items():
        assert [(d.window_start, d.seed) for d in several] == expected
        scenario = scenario_of(several[0], "claude-code")
        assert scenario.regions == REGION_SETS[name]
        for places in scenario.gpu_regions.values():
            assert places and set(places) <= set(scenario.regions)


@pytest.mark.parametrize("count", [0, 1, 1_001])
def test_too_few_and_too_many_draws_are_refused(count: int) -> None:
    with pytest.raises(InputError, match="draws asked for"):
        random_draws(count)


def test_an_unknown_set_of_regions_is_refused() -> None:
    with pytest.raises(InputError, match="'Moon'"):
        random_draws(2, ("Moon",))


def test_a_distribution_by_hand() -> None:
    spread = distribution([-10.0, 0.0, 10.0, 20.0])
    assert (spread.mean_percent, spread.lost_share, spread.draws) == (5.0, 0.25, 4)
    assert spread.low_percent == pytest.approx(-10 + 0.075 * 10)
    assert spread.high_percent == pytest.approx(20 - 0.075 * 10)


def test_draws_are_printed_with_their_mean_and_how_often_they_lose() -> None:
    savings = [
        DrawnSaving(draw, trace, policy, other, 30.0 if number else -10.0)
        for number in range(2)
        for draw in random_draws(2, tuple(REGION_SETS))[number::2]
        for trace in (*BUILTIN_TRACES, AVERAGE)
        for policy in OURS
        for other in OTHERS
    ]
    text = draws_in_markdown(savings)
    assert "over 2 draws" in text
    rows = [line for line in text.splitlines() if "10.0 % (-9.0 to 29.0, 50 % lost)" in line]
    assert len(rows) == len(REGION_SETS) * len(OURS) * len(OTHERS)


def test_lost_cells_are_bold_and_name_the_nearest_policy() -> None:
    def cell(floor: float, sticky: float) -> Cell:
        above = dict.fromkeys(SIMPLE, -20.0) | {"sticky": sticky}
        return Cell("claude-code", "Paper", floor, OURS[0], above)

    rows = [cell(floor, 16.8 if floor >= 0.75 else -1.5) for floor in FLOORS]
    assert rows[0].lost_to == () and rows[-1].lost_to == ("sticky",)
    text = in_markdown(rows)
    assert f"It loses 2 of {len(FLOORS)} cells" in text
    assert text.count("**+16.8 sticky**") == 2
    assert text.count("| -1.5 sticky") == len(FLOORS) - 2
