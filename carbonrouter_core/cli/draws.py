"""How ``reproduce --draws`` prints the savings over many dates and seeds."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product

from carbonrouter_core.cli.output import print_json, progress_line
from carbonrouter_core.replay.executors import open_executor
from carbonrouter_core.studies.headline import (
    AVERAGE,
    FIRST_DAY,
    LAST_DAY,
    OTHERS,
    OURS,
    REGION_SETS,
    Distribution,
    DrawnSaving,
    distribution,
    drawn_savings,
    random_draws,
)
from carbonrouter_core.traces.builtin import BUILTIN_TRACES


def print_draws(options: argparse.Namespace) -> None:
    """Replay ``options.draws`` draws for each set of regions, and print the savings."""
    draws = random_draws(options.draws, tuple(REGION_SETS))
    with open_executor(options.workers, options.cluster) as executor:
        savings = list(drawn_savings(draws, executor, progress_line("draws replayed")))
    if not options.json:
        print(draws_in_markdown(savings))
        return
    print_json(
        [
            asdict(saving.draw)
            | {"window_start": saving.draw.window_start.isoformat()}
            | {name: value for name, value in asdict(saving).items() if name != "draw"}
            for saving in savings
        ]
    )


def draws_in_markdown(savings: Sequence[DrawnSaving]) -> str:
    """The spread of savings over draws: mean, middle 95 %, and how often the policy loses."""
    by_cell: dict[tuple[str, str, str, str], list[float]] = {}
    for saving in savings:
        cell = (saving.draw.regions, saving.other, saving.policy, saving.trace)
        by_cell.setdefault(cell, []).append(saving.saving_percent)
    columns = (*BUILTIN_TRACES, AVERAGE)
    count = max(len(several) for several in by_cell.values())
    lines = [
        f"Saving on the test half over {count} draws of a date from {FIRST_DAY.year} to "
        f"{LAST_DAY.year} and a seed, preset Paper: mean, 2.5th to 97.5th percentile, and the "
        "share of the draws that are lost, if any.",
        "",
        f"| regions | against | policy | {' | '.join(columns)} |",
        f"|{'---|' * (3 + len(columns))}",
    ]
    for regions, other, policy in product(REGION_SETS, OTHERS, OURS):
        texts = [_spread(distribution(by_cell[regions, other, policy, t])) for t in columns]
        lines.append(f"| {' | '.join([regions, other, policy, *texts])} |")
    return "\n".join(lines)


def _spread(spread: Distribution) -> str:
    lost = f", {100 * spread.lost_share:.0f} % lost" if spread.lost_share else ""
    return (
        f"{spread.mean_percent:.1f} % ({spread.low_percent:.1f} to {spread.high_percent:.1f}{lost})"
    )
