"""Long work of page Grid data, beside the page: checking files, seasons, knowledge."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import carbonrouter_core as core
from carbonrouter_core.grid.importers.base import IntensityOptions
from carbonrouter_core.grid.staging import StagedIntensity, stage_intensity
from carbonrouter_core.store.sites import own_zones
from carbonrouter_core.studies.seasons import compare_knowledge, compare_windows
from pages.shared import trace_jobs


def check(files: Sequence[Any], format_id: str | None, options: IntensityOptions) -> trace_jobs.Job:
    """Read and check uploaded files; the job's result is a :class:`StagedIntensity`."""
    folder = Path(tempfile.mkdtemp(prefix="carbonrouter-upload-"))
    names = [file.name for file in files]
    paths = []
    for number, file in enumerate(files):
        paths.append(folder / str(number))  # never the user's name: it may be no file name
        file.seek(0)
        paths[-1].write_bytes(file.read())

    def work(job: trace_jobs.Job) -> StagedIntensity:
        try:
            return stage_intensity(
                paths,
                format_id,
                names=names,
                options=options,
                own_zones=own_zones(),
                progress=job.progress,
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return trace_jobs.start("Reading and checking", work)


def seasons(scenario: core.Scenario, starts: Sequence[date], router: str) -> trace_jobs.Job:
    """The scenario in a window from each of ``starts``; the result is a list of them."""
    policies = [router] if router == "carbonrouter" else [router, "carbonrouter"]
    results = partial(compare_windows, scenario, starts, policies)
    return trace_jobs.start("Running each window", _collect(results))


def knowledge(scenario: core.Scenario, router: str) -> trace_jobs.Job:
    """The scenario with each kind of knowledge; the result is a list of them."""
    policies = [router, "cleanest-region"]
    results = partial(compare_knowledge, scenario, policies)
    return trace_jobs.start("Running each kind of knowledge", _collect(results))


def _collect(results: Callable[..., Iterable[Any]]) -> Callable[[trace_jobs.Job], list[Any]]:
    return lambda job: list(results(progress=job.progress))
