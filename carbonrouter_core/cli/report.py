"""``report``: the CSV bundle or the HTML report of a scenario, for people and scheduled jobs."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from carbonrouter_core.cli.options import (
    add_command,
    add_policies_option,
    add_scenario_options,
    check_output,
    policies_from,
    scenario_from,
)
from carbonrouter_core.cli.own_catalog import catalog_from
from carbonrouter_core.errors import InputError
from carbonrouter_core.report import html_report, kept_runs, write_bundle
from carbonrouter_core.report.html import REPORT_POLICIES
from carbonrouter_core.results import provenance
from carbonrouter_core.results.comparison import compare
from carbonrouter_core.routing.policies import FAIRCARBON, POLICIES, ROUTER, policy
from carbonrouter_core.store.catalogue import checked_name
from carbonrouter_core.store.store import open_store

SUFFIXES = (".zip", ".html")


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = add_command(
        commands,
        "report",
        _report,
        help="write the CSV bundle (.zip) or the report (.html) of a scenario",
        description="Write the CSV bundle (.zip) or the one-file report (.html) of a scenario. "
        "The file appears whole or not at all, in place of one of that name. Exit codes: "
        "0 written; 2 bad input, or the file or the store cannot be written (one line on "
        "standard error, nothing is changed).",
    )
    add_scenario_options(parser)
    parser.add_argument(
        "--out", metavar="FILE.zip|FILE.html", type=Path, required=True, help="what to write"
    )
    parser.add_argument(
        "--router",
        metavar="ID",
        default=ROUTER,
        help=f"the policy that is reported on against {FAIRCARBON} (default: {ROUTER})",
    )
    add_policies_option(
        parser, f"none more in a .zip; {', '.join(REPORT_POLICIES)} in an .html", POLICIES
    )
    parser.add_argument("--keep", metavar="NAME", help="keep the run in the store, too")
    parser.add_argument("--note", metavar="TEXT", default="", help="note of a run that is kept")


def _report(options: argparse.Namespace) -> None:
    out: Path = options.out
    check_output(out, *SUFFIXES)
    if options.note and options.keep is None:
        raise InputError("--note is the note of a run that is kept; give --keep NAME too.")
    is_html = out.suffix.lower() == ".html"
    more = policies_from(options.policies, REPORT_POLICIES if is_html else ())
    scenario = scenario_from(options)
    baseline = policy(scenario.baseline).id
    chosen = list(dict.fromkeys((policy(options.router).id, baseline, FAIRCARBON, *more)))
    if chosen[0] == FAIRCARBON:
        raise InputError(
            f"--router {FAIRCARBON} would be compared with itself; name another policy."
        )
    store = None
    if options.keep is not None:  # a wrong name is an error before the work, not after it
        checked_name(options.keep)
        store = open_store()
    comparison = compare(scenario, chosen, catalog=catalog_from(options), on_disk=True)
    if is_html:
        text = html_report(comparison, chosen[0])
        _write_whole(out, lambda file: file.write(text.encode()))
    else:
        _write_whole(out, lambda file: write_bundle(comparison, file))
    print(f"wrote {out.name}: run {provenance.run_id(comparison.prepared, comparison.runs)}")
    if store is not None:
        run = kept_runs.keep(store, comparison, options.keep, options.note)
        print(f"kept as run {run.id}: {run.name}")


def _write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file beside ``path`` and put it there once it is whole."""
    beside = ""
    try:
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            beside = file.name
            write(file)
        os.chmod(beside, 0o644)
        os.replace(beside, path)
    except OSError as error:
        raise InputError(f"{path.name} cannot be written: {error.strerror or error}.") from error
    finally:
        if beside and os.path.exists(beside):
            os.unlink(beside)
