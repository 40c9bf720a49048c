"""``split``: a large trace as a folder of parts, for comparing on many processes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from carbonrouter_core.cli.options import add_command
from carbonrouter_core.errors import TraceError
from carbonrouter_core.store.find_trace import find_trace
from carbonrouter_core.traces.parts import SESSIONS_PER_PART, repeat, split
from carbonrouter_core.traces.staging import stage


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = add_command(
        commands,
        "split",
        _split,
        help="write a large trace as a folder of parts, for compare on many processes",
        description="Write a trace as Parquet parts, with all turns of a session in one part. "
        "compare --trace FOLDER then runs each part as a task; memory of a worker stays constant.",
    )
    parser.add_argument("trace", metavar="FILE|NAME", help="a trace file, or a known trace")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a new or empty folder")
    parser.add_argument(
        "--sessions-per-part",
        metavar="N",
        type=int,
        default=SESSIONS_PER_PART,
        help="default: %(default)s",
    )
    parser.add_argument(
        "--repeat-to",
        metavar="N",
        type=int,
        help="draw N sessions from the trace with replacement, under new ids, to measure how run "
        "time grows",
    )


def _split(options: argparse.Namespace) -> None:
    size = options.sessions_per_part
    path = Path(options.trace)
    if options.repeat_to is not None:
        trace = find_trace(options.trace)
        paths = repeat(trace, options.folder, options.repeat_to, sessions_per_part=size)
    elif path.is_file():
        with stage([path]) as staged:
            staged.require(done="read")
            paths = split(staged, options.folder, size)
    else:
        trace = find_trace(options.trace)
        raise TraceError(
            f"{trace.name} is stored in one piece, so it needs no parts; give a file, or "
            "choose with --repeat-to how many sessions to draw from it."
        )
    print(f"{len(paths)} parts written to {options.folder.name}.")
