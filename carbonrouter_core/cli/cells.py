"""``cells``: where our policies emit more than a simple one, as Markdown.

``docs/gate.md`` and ``docs/look-ahead.md`` hold what it printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from carbonrouter_core.cli.options import add_command, add_executor_options, add_json_option
from carbonrouter_core.cli.output import print_json, progress_line
from carbonrouter_core.replay.executors import open_executor
from carbonrouter_core.routing.policies import SIMPLE
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.studies.cells import FLOORS, Cell, cells
from carbonrouter_core.studies.headline import OURS


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    text = "print where our policies emit more than a simple one, as Markdown"
    parser = add_command(
        commands,
        "cells",
        _run,
        help=text,
        description=f"{text[0].upper()}{text[1:]}: carbon on the test half, for every built-in "
        "data set, preset and quality floor.",
    )
    parser.add_argument("--seed", type=int, default=Scenario().seed, help="seed of all draws")
    add_executor_options(parser)
    add_json_option(parser)


def _run(options: argparse.Namespace) -> None:
    with open_executor(options.workers, options.cluster) as executor:
        cells_done = progress_line("cells replayed")
        rows = list(cells(options.seed, executor=executor, progress=cells_done))
    if options.json:
        print_json([asdict(cell) | {"lost_to": cell.lost_to} for cell in rows])
        return
    for policy in OURS:
        print(in_markdown([cell for cell in rows if cell.policy == policy]))
        print()


def in_markdown(rows: Sequence[Cell]) -> str:
    """The cells of one policy as a table, with a sentence on those that it loses."""
    policy = rows[0].policy
    lost = [cell for cell in rows if cell.lost_to]
    lines = [
        f"Carbon of `{policy}` against the best of {', '.join(SIMPLE)}, in percent, test half. "
        f"It loses {len(lost)} of {len(rows)} cells (bold).",
        "",
        f"| data | preset | {' | '.join(f'{floor:g}' for floor in FLOORS)} |",
        f"|{'---|' * (2 + len(FLOORS))}",
    ]
    places = dict.fromkeys((cell.trace, cell.preset) for cell in rows)
    for trace, preset in places:
        texts = [_cell(cell) for cell in rows if (cell.trace, cell.preset) == (trace, preset)]
        lines.append(f"| {trace} | {preset} | {' | '.join(texts)} |")
    return "\n".join(lines)


def _cell(cell: Cell) -> str:
    text = f"{cell.above_percent[cell.nearest]:+.1f} {cell.nearest}"
    return f"**{text}**" if cell.lost_to else text
