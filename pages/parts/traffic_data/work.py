"""Long work of page Traffic data: checking uploaded files and storing a checked trace."""

from __future__ import annotations

import contextlib
import shutil
import weakref
from collections.abc import Sequence

from streamlit.runtime.uploaded_file_manager import UploadedFile

from carbonrouter_core.store.store import open_store
from carbonrouter_core.store.traces import StoredTrace
from carbonrouter_core.traces.importers.base import ImportOptions
from carbonrouter_core.traces.staging import Staged, stage
from pages.shared import jobs, uploads

KEY = "trace-job"


def check(files: Sequence[UploadedFile], format_id: str | None, options: ImportOptions) -> None:
    """Read and check uploaded files; the job's result is a :class:`Staged`."""
    upload = uploads.copy(files)

    def work(job: jobs.Job) -> Staged:
        try:
            staged = stage(
                upload.paths, format_id, names=upload.names, options=options, progress=job.progress
            )
        finally:
            upload.delete()
        # A checked trace goes with its tab, stored or not.
        weakref.finalize(staged, shutil.rmtree, staged.folder, True)
        return staged

    jobs.start(KEY, "Reading and checking", work)


def save(staged: Staged, name: str, accept_unreadable: bool) -> None:
    """Store a checked trace; the job's result is a :class:`StoredTrace`."""

    def work(job: jobs.Job) -> StoredTrace:
        return open_store().save_trace(
            staged, name, accept_unreadable=accept_unreadable, progress=job.progress
        )

    jobs.start(KEY, "Storing", work, outlives_tab=True)


def discard(staged: Staged | None) -> None:
    """Delete the files of a checked trace that is not wanted any more."""
    if staged is not None:
        with contextlib.suppress(OSError):
            staged.close()
