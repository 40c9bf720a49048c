"""Long work of page Report: building files to download, keeping runs, computing them again.

A built file is a file of its own and goes with its tab.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import carbonrouter_core as core
from carbonrouter_core.progress import part_of
from carbonrouter_core.report import html_report, kept_runs, write_bundle
from carbonrouter_core.results import provenance
from carbonrouter_core.store.runs import StoredRun
from carbonrouter_core.store.store import open_store
from pages.shared import jobs
from pages.shared.jobs import Job

KEY = "report-job"

RUN_SHARE = 0.5
"""Part of the progress bar that the replays take; writing takes the rest."""


@dataclass(frozen=True, eq=False)
class Built:
    """A file to download; ``run_id`` names the run that its figures come from."""

    path: Path
    file_name: str
    mime: str
    run_id: str = ""

    @property
    def size_bytes(self) -> int:
        """How large it is."""
        return self.path.stat().st_size


@dataclass(frozen=True)
class Subject:
    """What a job of this page is about; equal subjects give equal files.

    ``kind``: the id of what is built, or what is done with a run; ``inputs``: what it is made of.
    """

    kind: str
    inputs: tuple[str, ...] = ()


def bundle(subject: Subject, scenario: core.Scenario, policies: Sequence[str]) -> None:
    """Build the CSV bundle of ``policies``; the result is a :class:`Built`."""

    def work(job: Job) -> Built:
        comparison = _compare(job, scenario, policies)

        def write(path: Path) -> None:
            with path.open("wb") as out:
                write_bundle(
                    comparison, out, progress=part_of(job.progress, RUN_SHARE, 1 - RUN_SHARE)
                )

        run_id = provenance.run_id(comparison.prepared, comparison.runs)
        return _built(f"{_stem(scenario)}-{run_id}.zip", "application/zip", write, run_id)

    jobs.start(KEY, "Building the CSV bundle", work, subject=subject)


def html(subject: Subject, scenario: core.Scenario, router: str, others: Sequence[str]) -> None:
    """Build the HTML report on ``router``; the result is a :class:`Built`."""

    def work(job: Job) -> Built:
        comparison = _compare(job, scenario, [router, core.FAIRCARBON, *others])
        text = html_report(comparison, router)
        job.progress(1.0)
        run_id = provenance.run_id(comparison.prepared, comparison.runs)
        return _built(
            f"{_stem(scenario)}-{run_id}.html",
            "text/html",
            lambda path: path.write_text(text, encoding="utf-8"),
            run_id,
        )

    jobs.start(KEY, "Building the report", work, subject=subject)


def placed_trace(subject: Subject, scenario: core.Scenario) -> None:
    """Write the trace as it was placed in time; the result is a :class:`Built`."""

    def work(job: Job) -> Built:
        placed = core.prepare(scenario).placed
        job.progress(RUN_SHARE)
        return _built(
            f"{_stem(scenario)}-placed-trace.parquet",
            "application/vnd.apache.parquet",
            lambda path: placed.to_frame().to_parquet(path, index=False),
        )

    jobs.start(KEY, "Writing the placed trace", work, subject=subject)


def keep(scenario: core.Scenario, policies: Sequence[str], name: str, note: str) -> None:
    """Keep a run in the store; the result is a :class:`StoredRun`."""

    def work(job: Job) -> StoredRun:
        return kept_runs.keep(open_store(), _compare(job, scenario, policies), name, note)

    jobs.start(KEY, "Keeping the run", work, subject=Subject("keep"), outlives_tab=True)


def run_again(run: StoredRun) -> None:
    """Compute a run anew; the result is a :class:`~carbonrouter_core.report.kept_runs.Check`."""

    def work(job: Job) -> kept_runs.Check:
        return kept_runs.run_again(run, job.progress)[1]

    jobs.start(KEY, f"Computing {run.name} again", work, subject=Subject("again"))


def _compare(job: Job, scenario: core.Scenario, policies: Sequence[str]) -> core.Comparison:
    """The replays: the first part of the work; they stop when the job is asked to."""
    return core.compare(
        scenario, policies, progress=part_of(job.progress, 0.0, RUN_SHARE), on_disk=True
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
