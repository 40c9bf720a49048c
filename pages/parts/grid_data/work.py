"""Long work of page Grid data: checking files, and running seasons and kinds of knowledge."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from datetime import date

from streamlit.runtime.uploaded_file_manager import UploadedFile

import carbonrouter_core as core
from carbonrouter_core.grid.importers.base import IntensityOptions
from carbonrouter_core.grid.staging import StagedIntensity, stage_intensity
from carbonrouter_core.routing.policies import CLEANEST_REGION, PUBLISHED
from carbonrouter_core.store.sites import own_zones
from carbonrouter_core.studies.seasons import (
    KnowledgeResult,
    WindowResult,
    compare_knowledge,
    compare_windows,
)
from pages.shared import jobs, uploads

KEY = "grid-job"


def check(files: Sequence[UploadedFile], format_id: str | None, options: IntensityOptions) -> None:
    """Read and check uploaded files; the job's result is a :class:`StagedIntensity`."""
    upload = uploads.copy(files)

    def work(job: jobs.Job) -> StagedIntensity:
        try:
            return stage_intensity(
                upload.paths,
                format_id,
                names=upload.names,
                options=options,
                own_zones=own_zones(),
                progress=job.progress,
            )
        finally:
            upload.delete()

    jobs.start(KEY, "Reading and checking", work)


def seasons(
    scenario: core.Scenario, starts: Sequence[date], router: str, subject: Hashable
) -> None:
    """The scenario in a window from each of ``starts``; the result is a list of results."""
    policies = list(dict.fromkeys((router, PUBLISHED)))

    def work(job: jobs.Job) -> list[WindowResult]:
        return list(compare_windows(scenario, starts, policies, progress=job.progress))

    jobs.start(KEY, "Running each window", work, subject=subject)


def knowledge(scenario: core.Scenario, router: str, subject: Hashable) -> None:
    """The scenario with each kind of knowledge; the result is a list of results."""
    policies = [router, CLEANEST_REGION]

    def work(job: jobs.Job) -> list[KnowledgeResult]:
        return list(compare_knowledge(scenario, policies, progress=job.progress))

    jobs.start(KEY, "Running each kind of knowledge", work, subject=subject)
