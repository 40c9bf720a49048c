"""Long work beside the page: the page stays usable, says how far the work is, and can stop it.

A browser tab has at most one job under each key. A click elsewhere neither stops nor repeats it:
the page only starts a job, watches it and takes its result. A second job under the same key stops
the first. A job ends with its tab, unless it is started with ``outlives_tab``.

Replays are waited for instead (:func:`wait`): the script of the page cannot go on without them.
"""

from __future__ import annotations

import enum
import logging
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from concurrent import futures
from dataclasses import dataclass
from html import escape
from typing import Any, TypeVar, cast

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import StopException

from carbonrouter_core.errors import CarbonRouterError
from carbonrouter_core.progress import Progress
from carbonrouter_core.words import figures as fmt
from pages.shared.markdown import plain

T = TypeVar("T")

LOOK_EVERY_S = 0.25
"""How often a waiting script looks whether its replay is done."""
WATCH_EVERY_S = 0.5
"""How often a page looks how far a job is."""
PATIENCE_S = 1.5
"""Work that takes no longer than this gets no progress bar."""
AT_ONCE = 4
"""Queued jobs that run at the same time on the whole server."""
DEFECT = "This is a defect of CarbonRouter; what happened is in the log of the server."

REPLAY = "replay"
"""Key of the replay that a tab waits for."""
STOPPED = "stopped-replays"
"""Where a tab keeps the subjects of the replays that its user stopped."""

_EXECUTOR = futures.ThreadPoolExecutor(AT_ONCE, thread_name_prefix="jobs")
_log = logging.getLogger(__name__)


class StoppedError(Exception):
    """The user stopped this work. A stopped replay starts again after :func:`allow_again`."""

    def __init__(self, subject: Hashable, what: str) -> None:
        super().__init__(f"Stopped: {what[0].lower()}{what[1:]}.")
        self.subject = subject
        self.what = what


class Phase(enum.Enum):
    """Where a job is between its start and its end."""

    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True)
class Status:
    """How a job stands at one moment."""

    what: str
    """What is done, such as "Replaying Sticky"."""
    subject: Any
    """What the work is about: equal subjects, equal results."""
    phase: Phase
    share: float
    """Part of the work that is done, 0 to 1."""
    partial: Any = None
    """What the work has published so far."""
    result: Any = None
    """What the work has returned; kept until the result is taken."""
    error: str = ""
    """Why the job failed, for the reader."""

    @property
    def ended(self) -> bool:
        """Whether the job is over: done, stopped or failed."""
        return self.phase not in (Phase.RUNNING, Phase.STOPPING)

    @property
    def in_words(self) -> str:
        """What is done and how far it is."""
        what = "Stopping" if self.phase is Phase.STOPPING else plain(self.what)
        if self.share >= 1.0:
            return f"{what}: done, putting the figures together"
        return f"{what}: {fmt.number(100 * self.share)} %" if self.share else what


class Job:
    """The side of a job that its work sees: where it reports, and whether it should stop."""

    def __init__(self, what: str, subject: Hashable = None) -> None:
        self.what, self.subject = what, subject
        self.future: futures.Future[Any] = futures.Future()
        self.share = 0.0
        self._partial: Any = None
        self._stop = threading.Event()

    def progress(self, share: float) -> None:
        """Report the share of the work that is done; raises StoppedError if it should stop."""
        self.share = min(1.0, max(self.share, share))
        if self.stopping:
            raise StoppedError(self.subject, self.what)

    def publish(self, partial: object) -> None:
        """Show the page what has come so far; the value must not be changed afterwards."""
        self._partial = partial

    def stop(self) -> None:
        """Ask the work to stop; it does so the next time it reports."""
        self._stop.set()

    @property
    def stopping(self) -> bool:
        """Whether the work was asked to stop."""
        return self._stop.is_set()

    @property
    def status(self) -> Status:
        """How the job stands now."""
        phase, result, error = Phase.STOPPING if self.stopping else Phase.RUNNING, None, ""
        if self.future.done():
            failure = self.future.exception()
            if failure is None:
                phase, result = Phase.DONE, self.future.result()
            elif isinstance(failure, StoppedError):
                phase = Phase.STOPPED
            else:
                phase = Phase.FAILED
                error = str(failure) if isinstance(failure, CarbonRouterError) else DEFECT
        return Status(self.what, self.subject, phase, self.share, self._partial, result, error)

    def run(self, work: Callable[[Job], Any]) -> None:
        """Do the work and keep its result or failure."""
        try:
            self.progress(0.0)  # it may have been stopped in the queue
            self.future.set_result(work(self))
        except BaseException as error:
            if not isinstance(error, CarbonRouterError | StoppedError):
                _log.error("job failed: %s", self.what, exc_info=error)
            self.future.set_exception(error)


class _Hold:
    """A tab's hold on a job. It lives in the tab's session state and goes with the tab."""

    def __init__(self, job: Job, *, outlives_tab: bool = False) -> None:
        self.job = job
        if not outlives_tab:
            weakref.finalize(self, job.stop)


# --- Start, watch, stop, take -----------------------------------------------------------------


def start(
    key: str,
    what: str,
    work: Callable[[Job], Any],
    *,
    subject: Hashable = None,
    queue: bool = True,
    outlives_tab: bool = False,
) -> None:
    """Start ``work`` under ``key`` of this tab.

    ``queue``: it may have to wait for jobs of other tabs, and the server waits for it to end.
    ``outlives_tab``: it goes on when the tab is closed, for work that writes to the store.
    """
    stop(key)
    job = Job(what, subject)
    st.session_state[key] = _Hold(job, outlives_tab=outlives_tab)
    if queue:
        _EXECUTOR.submit(job.run, work)
    else:
        _run_in_thread(job, work)


def _run_in_thread(job: Job, work: Callable[[Job], Any]) -> None:
    # A daemon ends with the server: what the work has finished is kept, the rest is not missed.
    threading.Thread(target=job.run, args=(work,), name="job", daemon=True).start()


def status(key: str) -> Status | None:
    """How the job under ``key`` stands; None if there is none."""
    hold: _Hold | None = st.session_state.get(key)
    return hold.job.status if hold is not None else None


def running(key: str) -> bool:
    """Whether there is a job under ``key`` that has not ended."""
    now = status(key)
    return now is not None and not now.ended


def stop(key: str) -> None:
    """Ask the job under ``key`` to stop, if there is one."""
    hold: _Hold | None = st.session_state.get(key)
    if hold is not None:
        hold.job.stop()


def take(key: str) -> Any:
    """The result of the job under ``key``, which has ended; the key is free afterwards.

    Raises StoppedError if the user stopped it, and whatever the work raised.
    """
    hold: _Hold = st.session_state.pop(key)
    return hold.job.future.result(timeout=0)


def watch(
    key: str,
    show: Callable[[], None] | None = None,
    *,
    in_words: Callable[[Status], str] = lambda now: now.in_words,
) -> None:
    """A progress bar with a Stop button for the job under ``key``, and below it what ``show``
    draws; the page runs again once the job has ended."""
    st.fragment(_watch, run_every=WATCH_EVERY_S)(key, show, in_words)


def _watch(key: str, show: Callable[[], None] | None, in_words: Callable[[Status], str]) -> None:
    now = status(key)
    if now is None or now.ended:
        st.rerun()
        return
    row = st.container(horizontal=True, vertical_alignment="center")
    row.progress(now.share, in_words(now))
    row.button(
        "Stop",
        key=f"{key}-stop",
        on_click=stop,
        args=(key,),
        disabled=now.phase is Phase.STOPPING,
    )
    if show is not None:
        show()


# --- Replays ----------------------------------------------------------------------------------


def wait(subject: Hashable, what: str, work: Callable[[Progress], T]) -> T:
    """The result of ``work``, with a progress bar and a Stop button if it takes longer.

    A click elsewhere ends the waiting and not the work: the next run of the script finds it
    again. A tab keeps one replay at a time: waiting long for another one stops it. Raises
    StoppedError if the user stopped it, until :func:`allow_again`, and whatever ``work`` raises.
    """
    if subject in st.session_state.get(STOPPED, ()):
        raise StoppedError(subject, what)
    hold: _Hold | None = st.session_state.get(REPLAY)
    if hold is not None and hold.job.subject == subject and not hold.job.stopping:
        job = hold.job
    else:
        job = Job(what, subject)
        _run_in_thread(job, lambda job: work(job.progress))
    place = st.empty()
    try:
        _wait_for(job, place)
    except StopException:  # the tab is closed, or its whole script was stopped
        job.stop()
        raise
    except BaseException:  # a click elsewhere: the next run of the script comes back to it
        _hold(job)
        raise
    hold = st.session_state.get(REPLAY)
    if hold is not None and hold.job is job:
        del st.session_state[REPLAY]
    place.empty()
    return cast(T, job.future.result())


def _wait_for(job: Job, place: DeltaGenerator) -> None:
    """Wait until ``job`` is done. Each message to the browser lets a click end the waiting."""
    since, bar = time.monotonic(), None
    while not futures.wait([job.future], LOOK_EVERY_S).done:
        if time.monotonic() - since < PATIENCE_S:
            place.empty()
            continue
        if bar is None:
            _hold(job)
            row = place.container(horizontal=True, vertical_alignment="center")
            bar = row.empty()
            row.button(
                "Stop", on_click=stop_replay, args=(job.subject,), key=f"stop-{_id(job.subject)}"
            )
        bar.progress(job.status.share, job.status.in_words)


def _hold(job: Job) -> None:
    """Keep the replay of this tab, and stop the one that it kept before."""
    hold: _Hold | None = st.session_state.get(REPLAY)
    if hold is None or hold.job is not job:
        st.session_state[REPLAY] = _Hold(job)
        if hold is not None:
            hold.job.stop()


def stop_replay(subject: Hashable) -> None:
    """Stop the replay of this tab if it is about ``subject``, until the user wants it again."""
    now = status(REPLAY)
    if now is not None and now.subject == subject:
        stop(REPLAY)
        st.session_state.setdefault(STOPPED, set()).add(subject)


def allow_again(*subjects: Hashable) -> None:
    """Let stopped replays start again when a page next waits for them."""
    st.session_state.get(STOPPED, set()).difference_update(subjects)


def offer_again(stopped: Sequence[StoppedError]) -> None:
    """Say which replays were stopped, with a button that runs them after all."""
    if not stopped:
        return
    box = st.container(border=True, horizontal=True, vertical_alignment="center")
    sentences = " ".join(escape(str(error)) for error in stopped)
    box.html(f'<p class="cr-note" role="status">{sentences}</p>')
    box.button(
        "Run after all",
        on_click=allow_again,
        args=[error.subject for error in stopped],
        key=f"again-{_id(stopped[0].subject)}",
        icon=":material/replay:",
    )


def _id(subject: Hashable) -> str:
    """A subject as part of a widget's key."""
    return "-".join(map(str, subject)) if isinstance(subject, tuple) else str(subject)


def together(progress: Progress, count: int) -> list[Progress]:
    """A progress for each of ``count`` equal parts that run at the same time."""
    shares = [0.0] * count

    def part(number: int) -> Progress:
        def report(share: float) -> None:
            shares[number] = share
            progress(sum(shares) / count)

        return report

    return [part(number) for number in range(count)]
