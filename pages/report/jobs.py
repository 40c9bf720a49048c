"""Building what can be downloaded, and runs, beside the page: the page stays usable meanwhile.

A job belongs to one browser tab. What it makes is a file of its own, which goes with the tab.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import carbonrouter_core as core
from carbonrouter_core.report import html_report, kept_runs, write_bundle
from carbonrouter_core.results import provenance
from carbonrouter_core.store.store import StoredRun, open_store
from pages.shared.trace_jobs import CancelledError, Job

__all__ = ["Built", "CancelledError", "Job", "bundle", "keep", "page", "placed_trace", "run_again"]

_EXECUTOR = ThreadPoolExecutor(max_workers=2, thread_name_prefix="reports")

RUN_SHARE = 0.5
"""Part of the progress bar that the replays take; writing takes the rest."""


@dataclass(frozen=True, eq=False)
class Built:
    """A file to download."""

    path: Path
    file_name: str
    mime: str
    run_id: str = ""

    @property
    def size_bytes(self) -> int:
        """How large it is."""
        return self.path.stat().st_size


def bundle(scenario: core.Scenario, policies: Sequence[str]) -> Job:
    """The CSV bundle of ``policies``; the result is a :class:`Built`."""

    def work(job: Job) -> Built:
        comparison = _compare(job, scenario, policies)

        def write(path: Path) -> None:
            with path.open("wb") as out:
                write_bundle(
                    comparison,
                    out,
                    progress=lambda share: job.progress(RUN_SHARE + (1 - RUN_SHARE) * share),
                )

        run_id = provenance.run_id(comparison.prepared, comparison.runs)
        return _built(f"{_stem(scenario)}-{run_id}.zip", "application/zip", write, run_id)

    return _start("Building the CSV bundle", work)


def page(scenario: core.Scenario, router: str, others: Sequence[str]) -> Job:
    """The HTML report on ``router``; the result is a :class:`Built`."""

    def work(job: Job) -> Built:
        comparison = _compare(job, scenario, [router, core.BASELINE, *others])
        text = html_report(comparison, router)
        job.progress(1.0)
        run_id = provenance.run_id(comparison.prepared, comparison.runs)
        return _built(
            f"{_stem(scenario)}-{run_id}.html",
            "text/html",
            lambda path: path.write_text(text, encoding="utf-8"),
            run_id,
        )

    return _start("Building the report", work)


def placed_trace(scenario: core.Scenario) -> Job:
    """The trace as it was placed in time; the result is a :class:`Built`."""

    def work(job: Job) -> Built:
        placed = core.prepare(scenario).placed
        job.progress(RUN_SHARE)
        return _built(
            f"{_stem(scenario)}-placed-trace.parquet",
            "application/vnd.apache.parquet",
            lambda path: placed.to_frame().to_parquet(path, index=False),
        )

    return _start("Writing the placed trace", work)


def keep(scenario: core.Scenario, policies: Sequence[str], name: str, note: str) -> Job:
    """Keep a run in the store; the result is a :class:`StoredRun`."""

    def work(job: Job) -> StoredRun:
        return kept_runs.keep(open_store(), _compare(job, scenario, policies), name, note)

    return _start("Keeping the run", work)


def run_again(run: StoredRun) -> Job:
    """Compute a run anew; the result is a :class:`~carbonrouter_core.report.kept_runs.Check`."""
    return _start(
        f"Computing {run.name} again", lambda job: kept_runs.run_again(run, job.progress)[1]
    )


def _start(what: str, work: Callable[[Job], Any]) -> Job:
    job = Job(what)
    job.future = _EXECUTOR.submit(work, job)
    return job


def _compare(job: Job, scenario: core.Scenario, policies: Sequence[str]) -> core.Comparison:
    """The replays: the first part of the work, and stopped in the midst of one if asked to."""
    return core.compare(
        scenario,
        policies,
        progress=lambda share: job.progress(RUN_SHARE * share),
        on_disk=True,
    )


def _built(file_name: str, mime: str, write: Callable[[Path], Any], run_id: str = "") -> Built:
    folder = Path(tempfile.mkdtemp(prefix="carbonrouter-report-"))
    path = folder / "file"  # never the user's name: it may be no file name
    try:
        write(path)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    built = Built(path, file_name, mime, run_id)
    weakref.finalize(built, shutil.rmtree, folder, True)
    return built


def _stem(scenario: core.Scenario) -> str:
    """Words of a file name that every system accepts, from the scenario's name."""
    words = re.sub(r"[^a-z0-9]+", "-", scenario.name.casefold()).strip("-")[:40]
    return f"carbonrouter-{words or 'scenario'}"
