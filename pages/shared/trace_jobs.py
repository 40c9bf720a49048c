"""Checking and storing a trace beside the page: a click elsewhere neither stops nor repeats it.

A job belongs to one browser tab (it is kept in its session state) and ends by itself.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from carbonrouter_core.errors import StoreError
from carbonrouter_core.store.store import StoredTrace, existing_store, open_store
from carbonrouter_core.traces.importers.base import ImportOptions
from carbonrouter_core.traces.staging import Staged, stage

_EXECUTOR = ThreadPoolExecutor(max_workers=2, thread_name_prefix="traces")


class CancelledError(Exception):
    """The user stopped the job."""


@dataclass
class Job:
    """A long job: what it does, how far it is, and its result once it is done."""

    what: str
    future: Future[Any] | None = None
    share: float = 0.0
    stop: threading.Event = field(default_factory=threading.Event)

    def progress(self, share: float) -> None:
        """Called by the work; ends it where the user has stopped it."""
        self.share = min(1.0, max(self.share, share))
        if self.stop.is_set():
            raise CancelledError

    @property
    def done(self) -> bool:
        """Whether there is a result, or a failure."""
        return self.future is not None and self.future.done()


def start(what: str, work: Callable[[Job], Any]) -> Job:
    """Begin ``work`` beside the page; it reports to the job that it is given."""
    job = Job(what)
    job.future = _EXECUTOR.submit(work, job)
    return job


def check(
    files: Sequence[Any], format_id: str | None, options: ImportOptions, names: Sequence[str]
) -> Job:
    """Read and check uploaded files; the job's result is a :class:`Staged`."""
    folder = Path(tempfile.mkdtemp(prefix="carbonrouter-upload-"))
    paths = []
    for number, file in enumerate(files):
        path = folder / str(number)  # never the user's name: it may be no file name
        with path.open("wb") as out:
            file.seek(0)
            shutil.copyfileobj(file, out, 2**20)
        paths.append(path)
    job = Job("Reading and checking")

    def work() -> Staged:
        try:
            staged = stage(paths, format_id, names=names, options=options, progress=job.progress)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        # a tab that is closed takes its trace along, stored or not
        weakref.finalize(staged, shutil.rmtree, staged.folder, True)
        return staged

    job.future = _EXECUTOR.submit(work)
    return job


def save(staged: Staged, name: str, accept_unreadable: bool) -> Job:
    """Store a checked trace; the job's result is a :class:`StoredTrace`."""
    job = Job("Storing")
    job.future = _EXECUTOR.submit(
        lambda: open_store().save_trace(
            staged, name, accept_unreadable=accept_unreadable, progress=job.progress
        )
    )
    return job


def stored() -> tuple[list[StoredTrace], str]:
    """The stored traces, and why they cannot be used where another process holds the store."""
    try:
        store = existing_store()
        return (store.traces() if store else []), ""
    except StoreError as error:
        return [], str(error)


def forget(staged: Staged | None) -> None:
    """Drop a checked trace that is not wanted any more."""
    if staged is not None:
        with contextlib.suppress(OSError):
            staged.close()
