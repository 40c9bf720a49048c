"""The commands, and the parser that runs them.

Exit codes: 0, done; 2, wrong input. One line on standard error says what to change.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from carbonrouter_core.cli import (
    accounts,
    cells,
    compare,
    gate_curve,
    importing,
    observed,
    own_catalog,
    plan,
    report,
    reproduce,
    runs,
    split,
    sweep,
    traces,
    validate,
    windows,
    zones,
)
from carbonrouter_core.errors import CarbonRouterError, InputError
from carbonrouter_core.version import VERSION

COMMANDS = (
    compare,
    accounts,
    report,
    runs,
    reproduce,
    cells,
    gate_curve,
    importing,
    traces,
    validate,
    observed,
    zones,
    own_catalog,
    windows,
    sweep,
    plan,
    split,
)


class _Parser(argparse.ArgumentParser):
    """Raises what argparse would print, so that all errors look alike."""

    def error(self, message: str) -> Any:
        raise InputError(f"{message} (see {self.prog} --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code.

    ``arguments``: what follows the name of the program; None: the arguments of this process.
    """
    parser = _Parser(
        prog="python -m carbonrouter_core",
        description="Carbon-aware routing of LLM conversations that counts what moving costs.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands)
    try:
        options = parser.parse_args(arguments)
        options.run(options)
        sys.stdout.flush()
    except CarbonRouterError as error:
        print("error: " + " ".join(str(error).split()), file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has ended, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
