"""``gate-curve``: what the gate's threshold does to carbon, moves and recomputation.

Every cell (preset x built-in data set x quality floor) is replayed without a gate and with each
threshold. ``docs/gate.md`` shows the curve and how the default follows from its training half.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from carbonrouter_core.cli.options import add_command
from carbonrouter_core.cli.output import print_json
from carbonrouter_core.errors import InputError
from carbonrouter_core.replay.run import Run, run_policy
from carbonrouter_core.replay.world import Prepared, prepare
from carbonrouter_core.results.comparison import Comparison
from carbonrouter_core.routing.policies import PUBLISHED, PUBLISHED_WITHOUT_GATE
from carbonrouter_core.scenario import PRESETS, Scenario
from carbonrouter_core.traces.builtin import BUILTIN_TRACES

THRESHOLDS = (*(round(0.05 * i, 2) for i in range(11)), 0.6, 0.7, 0.8, 0.9, 1.0)
FLOORS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)
HALVES = ("training", "test")
MOST_ABOVE_NO_GATE_PERCENT = 0.1
"""More carbon than this above no gate, in any cell, rules a threshold out."""


class Point(NamedTuple):
    """One threshold in one cell on one half of the sessions; ``no_gate_`` is the same without."""

    preset: str
    trace: str
    quality_floor: float
    half: str
    threshold: float
    carbon_g: float
    no_gate_carbon_g: float
    moves: int
    no_gate_moves: int
    recompute_share: float
    no_gate_recompute_share: float

    @property
    def above_no_gate_percent(self) -> float:
        """Carbon above no gate, in percent of it; negative: below."""
        return 100.0 * (self.carbon_g / self.no_gate_carbon_g - 1.0)


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = add_command(
        commands,
        "gate-curve",
        _run,
        help="print what the gate's threshold does over presets, data sets and quality floors",
        description="Print what the gate's threshold does over presets, data sets and quality "
        "floors, on the half of the sessions it learns from and on the other.",
    )
    parser.add_argument("--thresholds", metavar="A,B", help="default: 0 to 1")
    parser.add_argument("--floors", metavar="A,B", help="quality floors; default: 0.5 to 0.8")
    parser.add_argument("--seed", type=int, default=Scenario().seed, help="seed of all draws")
    parser.add_argument("--cells", action="store_true", help="print every cell, not the summary")
    parser.add_argument("--json", action="store_true", help="print every cell as JSON")


def _run(options: argparse.Namespace) -> None:
    thresholds = _numbers("--thresholds", options.thresholds, THRESHOLDS)
    floors = _numbers("--floors", options.floors, FLOORS)
    points = list(curve(thresholds, floors, options.seed))
    if options.json:
        result = {
            "seed": options.seed,
            "chosen_on_training_half": best_threshold(points),
            "points": [
                point._asdict() | {"above_no_gate_percent": point.above_no_gate_percent}
                for point in points
            ],
        }
        print_json(result)
    elif options.cells:
        print(_cells(points))
    else:
        print(_summary(points))


def _numbers(option: str, text: str | None, default: Sequence[float]) -> tuple[float, ...]:
    if text is None:
        return tuple(default)
    try:
        return tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        raise InputError(f"{option} {text!r} is not a list of numbers such as 0.2,0.3.") from None


def curve(
    thresholds: Iterable[float], floors: Iterable[float], seed: int | None = None
) -> Iterator[Point]:
    """The points of every preset, built-in data set and quality floor."""
    thresholds, floors = tuple(thresholds), tuple(floors)
    for trace in BUILTIN_TRACES:
        scenario = Scenario(trace=trace)
        world = prepare(scenario if seed is None else scenario.replace(seed=seed))
        for name, preset in PRESETS.items():
            for floor in floors:
                cell = world.under(copies=preset.copies, idle_s=preset.idle_s, quality_floor=floor)
                yield from cell_points(cell, name, thresholds)


def cell_points(cell: Prepared, preset_name: str, thresholds: Iterable[float]) -> Iterator[Point]:
    """The points of one cell, ``cell`` being its scenario with any threshold."""
    before = _sums(cell, run_policy(cell, PUBLISHED_WITHOUT_GATE))
    for threshold in thresholds:
        after = _sums(cell, run_policy(cell.under(gate_threshold=threshold), PUBLISHED))
        for half in HALVES:
            carbon_g, recompute_g, moves = after[half]
            no_gate_g, no_gate_recompute_g, no_gate_moves = before[half]
            yield Point(
                preset_name,
                cell.placed.trace.name,
                cell.scenario.quality_floor,
                half,
                threshold,
                carbon_g,
                no_gate_g,
                int(moves),
                int(no_gate_moves),
                recompute_g / carbon_g,
                no_gate_recompute_g / no_gate_g,
            )


def _sums(cell: Prepared, run: Run) -> dict[str, tuple[float, float, float]]:
    """Carbon, carbon of recomputation and moves of each half."""
    trace = cell.placed.trace
    moved = Comparison(cell, {run.policy.id: run}).moved(run.policy.id)
    training = trace.in_training[trace.session_index]
    sums = {}
    for half, rows in zip(HALVES, (training, ~training), strict=True):
        columns = (run.charges.carbon_g, run.charges.recompute_g, moved)
        carbon_g, recompute_g, moves = (float(column[rows].sum()) for column in columns)
        sums[half] = carbon_g, recompute_g, moves
    return sums


def best_threshold(points: Iterable[Point]) -> float | None:
    """The threshold that the training half chooses; None where it rules all of them out.

    The least mean carbon over the cells, of the thresholds that keep every cell within
    :data:`MOST_ABOVE_NO_GATE_PERCENT` of no gate, and that no higher one breaks: a higher threshold
    is more cautious, so that one below a breach passes by luck. The lowest of equals.
    """
    above: dict[float, list[float]] = {}
    for point in points:
        if point.half == "training":
            above.setdefault(point.threshold, []).append(point.above_no_gate_percent)
    best, least = None, np.inf
    for threshold in sorted(above, reverse=True):
        if max(above[threshold]) > MOST_ABOVE_NO_GATE_PERCENT:
            break
        if (mean := float(np.mean(above[threshold]))) <= least:
            best, least = threshold, mean
    return best


def _summary(points: Sequence[Point]) -> str:
    lines = [
        "Carbon against no gate in percent (mean and worst of the cells), cells more than "
        f"{MOST_ABOVE_NO_GATE_PERCENT:g} % above it,",
        "moves and recomputation against no gate in percent (all cells together):",
        "",
        "| threshold | half | carbon, mean | carbon, worst | cells above | moves | recomputation |",
        "|---|---|---|---|---|---|---|",
    ]
    for threshold in dict.fromkeys(point.threshold for point in points):
        for half in HALVES:
            chosen = [p for p in points if (p.threshold, p.half) == (threshold, half)]
            above = [p.above_no_gate_percent for p in chosen]
            moves = sum(p.moves for p in chosen) / sum(p.no_gate_moves for p in chosen)
            again = sum(p.recompute_share * p.carbon_g for p in chosen)
            again /= sum(p.no_gate_recompute_share * p.no_gate_carbon_g for p in chosen)
            over = sum(x > MOST_ABOVE_NO_GATE_PERCENT for x in above)
            lines.append(
                f"| {threshold:g} | {half} | {np.mean(above):+.3f} | {max(above):+.3f} | {over} "
                f"| {100 * (moves - 1):+.1f} | {100 * (again - 1):+.1f} |"
            )
    best = best_threshold(points)
    lines += ["", f"Chosen on the training half: {'none' if best is None else f'{best:g}'}."]
    return "\n".join(lines)


def _cells(points: Sequence[Point]) -> str:
    lines = [
        "| preset | data | floor | threshold | half | carbon % | moves | recompute share % |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {p.preset} | {p.trace} | {p.quality_floor:g} | {p.threshold:g} | {p.half} "
        f"| {p.above_no_gate_percent:+.3f} | {p.no_gate_moves:,} → {p.moves:,} "
        f"| {100 * p.no_gate_recompute_share:.2f} → {100 * p.recompute_share:.2f} |"
        for p in points
    ]
    return "\n".join(lines)
