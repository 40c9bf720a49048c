"""The headline saving over many draws: how much of it depends on the date and the seed.

A scenario draws starts, users, gaps and, without text, difficulties from one seed, in one
window. One draw is one of many that are as good. Here each draw is a window of preset Paper's
length that begins on a day of 2021 to 2024, and a seed of its own; every built-in data set is
replayed in it. Everything else is as in preset Paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from carbonrouter_core.errors import CarbonRouterError, InputError
from carbonrouter_core.routing.policies import (
    CLEANEST_REGION,
    FAIRCARBON,
    FULL_PROMPT,
    PUBLISHED,
    ROUTER,
)
from carbonrouter_core.scenario import PRESETS, Scenario
from carbonrouter_core.studies.inputs import Point
from carbonrouter_core.studies.sweep import Question, run_points
from carbonrouter_core.traces.builtin import BUILTIN_TRACES

FIRST_DAY, LAST_DAY = date(2021, 1, 1), date(2024, 12, 31)
"""What the built-in carbon intensity of the default regions covers."""
TAIL_DAYS = 3
"""What the series should have after a window, for conversations that go on past it."""
MAX_DRAWS = 1_000
DRAW_SEED = 0
"""Seed of the dates and seeds themselves."""

OURS = (PUBLISHED, ROUTER)
OTHERS = (FAIRCARBON, FULL_PROMPT, CLEANEST_REGION)
"""What the two are held against."""
AVERAGE = "average"
"""Stands for the mean of the data sets, in place of the name of one."""

REGION_SETS: dict[str, tuple[str, ...]] = {
    "Paper": Scenario().regions,
    "Americas": ("us-west2", "us-east4", "us-south1", "northamerica-northeast2"),
    "Asia and Pacific": ("asia-northeast1", "asia-northeast3", "asia-southeast1",
                         "australia-southeast1"),
    "World": ("europe-west2", "europe-west3", "us-west2", "us-east4", "southamerica-east1",
              "asia-south1", "asia-northeast1", "australia-southeast1"),
}  # fmt: skip
"""Sets of sites that the headline is computed for, beside the default one. Users are equally in
the regions of the set. B200 GPUs stand in the first region of a set without Frankfurt."""


@dataclass(frozen=True)
class Draw:
    """One draw: a set of sites, the first day of the window, the seed."""

    regions: str
    window_start: date
    seed: int


@dataclass(frozen=True)
class DrawnSaving:
    """The saving of ``policy`` against ``other`` in one draw, test half, in percent.

    ``trace``: a built-in data set, or :data:`AVERAGE`.
    """

    draw: Draw
    trace: str
    policy: str
    other: str
    saving_percent: float


@dataclass(frozen=True)
class Distribution:
    """Mean, 2.5th and 97.5th percentile of a saving over draws, in percent.

    ``lost_share``: the share of the draws in which the policy emitted more than the other.
    """

    mean_percent: float
    low_percent: float
    high_percent: float
    lost_share: float
    draws: int


def random_draws(
    count: int, regions: Sequence[str] = ("Paper",), seed: int = DRAW_SEED
) -> tuple[Draw, ...]:
    """``count`` draws for each of the sets ``regions``; the same dates and seeds for each.

    The first ``n`` of a longer list are those of a shorter one. Raises :class:`InputError` for
    a count below 2 or above :data:`MAX_DRAWS`, and for a set that is not in
    :data:`REGION_SETS`.
    """
    if not 2 <= count <= MAX_DRAWS:
        raise InputError(f"{count} draws asked for; choose 2 to {MAX_DRAWS:,}.")
    for name in regions:
        if name not in REGION_SETS:
            raise InputError(f"Unknown set of regions {name!r}; known: {', '.join(REGION_SETS)}.")
    rng = np.random.default_rng([seed, 40])
    days = (LAST_DAY - FIRST_DAY).days + 1 - Scenario().window_days - TAIL_DAYS
    drawn = [
        (FIRST_DAY + timedelta(int(rng.integers(days + 1))), int(rng.integers(2**31)))
        for _ in range(count)
    ]
    return tuple(Draw(name, *both) for name in regions for both in drawn)


def scenario_of(draw: Draw, trace: str) -> Scenario:
    """Preset Paper under ``draw``."""
    base = PRESETS["Paper"]
    regions = REGION_SETS[draw.regions]
    gpu_regions = {
        gpu: tuple(name for name in where if name in regions) or regions[:1]
        for gpu, where in base.gpu_regions.items()
    }
    return base.replace(
        trace=trace,
        window_start=draw.window_start,
        seed=draw.seed,
        regions=regions,
        gpu_regions=gpu_regions,
    )


def drawn_savings(
    draws: Sequence[Draw],
    executor: Executor | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Iterator[DrawnSaving]:
    """The savings of every draw, data set by data set and on average, as they come.

    ``executor``: where they run (None: here). ``progress`` is given the share that is done.
    Raises the error of a draw that cannot be run.
    """
    traces = tuple(BUILTIN_TRACES)
    points = [Point(scenario_of(draw, trace)) for draw in draws for trace in traces]
    half: dict[tuple[int, str, str], dict[str, float]] = {}
    question = Question(policies=(*OURS, *OTHERS), baseline=OTHERS[0])
    for done, (number, outcome) in enumerate(run_points(points, question, executor), start=1):
        if outcome.error:
            raise CarbonRouterError(outcome.error)
        draw, trace = draws[number // len(traces)], traces[number % len(traces)]
        carbon_g = {name: figures["carbon_g"] for name, figures in outcome.figures.items()}
        for policy in OURS:
            for other in OTHERS:
                saving = 100.0 * (1.0 - carbon_g[policy] / carbon_g[other])
                yield DrawnSaving(draw, trace, policy, other, saving)
                by_trace = half.setdefault((number // len(traces), policy, other), {})
                by_trace[trace] = saving
                if len(by_trace) == len(traces):
                    mean = float(np.mean([by_trace[name] for name in traces]))
                    yield DrawnSaving(draw, AVERAGE, policy, other, mean)
        progress(done / len(points))


def distribution(savings: Sequence[float]) -> Distribution:
    """What a list of savings in percent comes to."""
    low, high = np.percentile(savings, (2.5, 97.5))
    lost = float(np.mean(np.asarray(savings) < 0.0))
    return Distribution(float(np.mean(savings)), float(low), float(high), lost, len(savings))
