"""Where our policies lose: carbon against simple ones, over presets, data sets and floors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from carbonrouter_core.errors import CarbonRouterError
from carbonrouter_core.routing.policies import SIMPLE
from carbonrouter_core.scenario import PRESETS, Scenario
from carbonrouter_core.studies.headline import OURS
from carbonrouter_core.studies.inputs import Point
from carbonrouter_core.studies.sweep import Question, run_points
from carbonrouter_core.traces.builtin import BUILTIN_TRACES

FLOORS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)


@dataclass(frozen=True)
class Cell:
    """Carbon of one of our policies against each simple one, test half of one scenario.

    ``above_percent``: how much more carbon ours emits, by simple policy; negative: less.
    """

    trace: str
    preset: str
    quality_floor: float
    policy: str
    above_percent: dict[str, float]

    @property
    def nearest(self) -> str:
        """The simple policy with the least carbon."""
        return max(self.above_percent, key=lambda name: self.above_percent[name])

    @property
    def lost_to(self) -> tuple[str, ...]:
        """The simple policies that emit less."""
        return tuple(name for name, above in self.above_percent.items() if above > 0)


def cells(
    seed: int = Scenario().seed,
    floors: Sequence[float] = FLOORS,
    executor: Executor | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Iterator[Cell]:
    """The cells of every built-in data set, preset and quality floor, in that order.

    Raises the error of a cell that cannot be run.
    """
    places = [
        (trace, preset, floor) for trace in BUILTIN_TRACES for preset in PRESETS for floor in floors
    ]
    points = [
        Point(PRESETS[preset].replace(trace=trace, quality_floor=floor, seed=seed))
        for trace, preset, floor in places
    ]
    question = Question(policies=(*OURS, *SIMPLE), baseline=SIMPLE[0])
    carbon: dict[int, dict[str, float]] = {}
    for number, outcome in run_points(points, question, executor):
        if outcome.error:
            raise CarbonRouterError(outcome.error)
        carbon[number] = {name: float(f["carbon_g"]) for name, f in outcome.figures.items()}
        progress(len(carbon) / len(points))
    for number, place in enumerate(places):
        ours = carbon[number]
        for policy in OURS:
            above = {name: 100.0 * (ours[policy] / ours[name] - 1.0) for name in SIMPLE}
            yield Cell(*place, policy, above)
