"""How fast carbon intensity is looked up by (zone, time)."""

from __future__ import annotations

import time

import numpy as np
import pytest

from carbonrouter_core.grid.series import IntensityTable, builtin_series

pytestmark = pytest.mark.benchmark

LOOK_UPS = 10_000_000
LEAST_PER_S = 50e6


def test_look_ups_go_at_memory_speed() -> None:
    series = list(builtin_series("direct").values())
    table = IntensityTable.of(series)
    rng = np.random.default_rng(1)
    zone = rng.integers(0, len(series), LOOK_UPS)
    first, end = max(one.start_s for one in series), min(one.end_s for one in series)
    # turns of a replay come in order of time within a session, so neighbours are near
    time_s = np.sort(rng.uniform(first, end, LOOK_UPS))
    table.at(zone[:10], time_s[:10])  # compiled by now
    per_s, scattered = (
        LOOK_UPS / min(timed(table, zone, times) for _ in range(5))
        for times in (time_s, rng.permutation(time_s))
    )
    print(f"\n{per_s / 1e6:.0f} million look-ups/s in order, {scattered / 1e6:.0f} scattered")
    assert per_s > LEAST_PER_S


def timed(table: IntensityTable, zone: np.ndarray, time_s: np.ndarray) -> float:
    """CPU seconds of one reading."""
    began = time.process_time()
    read = table.at(zone, time_s)
    took = time.process_time() - began
    assert read.min() > 0
    return took
