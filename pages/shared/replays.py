"""Replays beside the page: it stays usable, says how far they are, and can end them.

The script of a page waits here for what it shows. A click elsewhere ends the waiting and not the
work: the next run of the script finds it again. A tab keeps one piece of long work at a time;
waiting for another one, or closing the tab, ends it in the midst of a replay.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent import futures
from html import escape
from typing import TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import StopException

from carbonrouter_core.replay.simulation import Progress
from carbonrouter_core.words import figures as fmt
from pages.shared.markdown import plain
from pages.shared.trace_jobs import CancelledError, Job

T = TypeVar("T")
Key = tuple[str, ...]
"""What a piece of work is of: equal keys, equal results."""

LOOK_EVERY_S = 0.25
PATIENCE_S = 1.5
"""Work that takes no longer than this is not worth a progress bar."""

_HELD, STOPPED = "replay-held", "replays-stopped"


class StoppedError(Exception):
    """The user has stopped this work; :func:`again` lets it begin anew."""

    def __init__(self, key: Key, what: str) -> None:
        super().__init__(f"Stopped: {what[0].lower()}{what[1:]}.")
        self.key = key
        self.what = what


class _Held:
    """A tab's hold on work that goes on: once the tab is gone, the work ends."""

    def __init__(self, key: Key, job: Job) -> None:
        self.key, self.job = key, job
        weakref.finalize(self, job.stop.set)


def wait(key: Key, what: str, work: Callable[[Progress], T]) -> T:
    """The result of ``work``; from a few seconds on with a progress bar and a way to stop it.

    ``what``: what is done, such as "Replaying Sticky". Raises :class:`StoppedError` where the
    user has stopped it, until :func:`again` is called, and whatever ``work`` raises.
    """
    if key in st.session_state.get(STOPPED, ()):
        raise StoppedError(key, what)
    held: _Held | None = st.session_state.get(_HELD)
    job = (
        held.job if held and held.key == key and not held.job.stop.is_set() else _start(what, work)
    )
    place = st.empty()
    try:
        _watch(key, job, place)
    except StopException:  # the tab is closed, or its whole script was stopped
        job.stop.set()
        raise
    except BaseException:  # a click elsewhere: the next run of the script comes back to it
        _hold(key, job)
        raise
    held = st.session_state.get(_HELD)
    if held is not None and held.job is job:
        del st.session_state[_HELD]
    place.empty()
    assert job.future is not None, "set when it was started"
    try:
        return job.future.result()  # type: ignore[no-any-return]
    except CancelledError:
        raise StoppedError(key, what) from None


def stop(key: Key) -> None:
    """End the work of this tab that has this key."""
    held: _Held | None = st.session_state.get(_HELD)
    if held is not None and held.key == key:
        held.job.stop.set()
        st.session_state.setdefault(STOPPED, set()).add(key)


def again(*keys: Key) -> None:
    """Let work that was stopped begin anew when it is asked for next."""
    st.session_state.get(STOPPED, set()).difference_update(keys)


def offer_again(stopped: Sequence[StoppedError]) -> None:
    """Say what was stopped, with a button to run it after all."""
    if not stopped:
        return
    box = st.container(border=True, horizontal=True, vertical_alignment="center")
    said = " ".join(escape(str(one)) for one in stopped)
    box.html(f'<p class="cr-note" role="status">{said}</p>')
    box.button(
        "Run after all",
        on_click=again,
        args=[one.key for one in stopped],
        key="again-" + "-".join(stopped[0].key),
        icon=":material/replay:",
    )


def together(progress: Progress, count: int) -> list[Progress]:
    """A progress for each of ``count`` equal parts that run at once."""
    shares = [0.0] * count

    def of(part: int) -> Progress:
        def told(share: float) -> None:
            shares[part] = share
            progress(sum(shares) / count)

        return told

    return [of(part) for part in range(count)]


def _start(what: str, work: Callable[[Progress], T]) -> Job:
    job = Job(what)
    job.future = futures.Future()
    # Not kept from ending with the server: nothing is written.
    threading.Thread(target=_do, args=(job, work), name="replay", daemon=True).start()
    return job


def _do(job: Job, work: Callable[[Progress], T]) -> None:
    assert job.future is not None, "made before the thread"
    try:
        job.future.set_result(work(job.progress))
    except BaseException as error:
        job.future.set_exception(error)


def _watch(key: Key, job: Job, place: DeltaGenerator) -> None:
    """Wait until ``job`` is done. Each message to the browser lets a click end the waiting."""
    assert job.future is not None, "started"
    since, bar = time.monotonic(), None
    while not futures.wait([job.future], LOOK_EVERY_S).done:
        if time.monotonic() - since < PATIENCE_S:
            place.empty()
            continue
        if bar is None:
            _hold(key, job)
            row = place.container(horizontal=True, vertical_alignment="center")
            bar = row.empty()
            row.button("Stop", on_click=stop, args=(key,), key="stop-" + "-".join(key))
        bar.progress(job.share, _words(job))


def _words(job: Job) -> str:
    what = plain(job.what)
    if job.share >= 1.0:
        return f"{what}: done, putting the figures together"
    return f"{what}: {fmt.number(100 * job.share)} %" if job.share else what


def _hold(key: Key, job: Job) -> None:
    """Keep the work of this tab, and end what it waited for before."""
    held: _Held | None = st.session_state.get(_HELD)
    if held is None or held.job is not job:
        st.session_state[_HELD] = _Held(key, job)  # the hold before goes, and ends its work
        if held is not None:
            held.job.stop.set()
