"""A sweep as the page shows it: begun by a button, watched, stopped, gone on with, told."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.words import figures as fmt
from pages.shared import page, sweep_jobs
from pages.shared.markdown import plain
from pages.shared.sweep_jobs import Asked, Job, Run

LOOK_S = 1.0
"""How often a page looks what has come."""

Show = Callable[[Run], None]
"""Draws what has come of a sweep so far."""


def current(key: str) -> Run | None:
    """The sweep of this tab that is kept under ``key``, if there is one."""
    job: Job | None = st.session_state.get(key)
    return job.run if job is not None else None


def button(key: str, asked: Asked, label: str) -> None:
    """The button that begins ``asked``, or goes on with it where it was stopped."""
    run = current(key)
    busy = run is not None and not run.ended.is_set()
    runs = asked.runs()
    if run is not None and run.asked == asked and run.stopped:
        label = "Go on"
    row = st.container(horizontal=True, vertical_alignment="center")
    if row.button(label, type="primary", disabled=busy, key=f"{key}-run"):
        st.session_state[key] = sweep_jobs.start(asked)
        st.rerun()
    words = fmt.plural(runs, "run")
    if asked.kind == sweep_jobs.BREAK_EVEN:
        words = f"about {words}"
    processes = fmt.plural(sweep_jobs.workers(), "process", "processes")
    row.html(f'<p class="cr-note">{words} on {processes}</p>')


def follow(key: str, asked: Asked | None, show: Show) -> None:
    """Draw the sweep of this tab as it stands; ``asked``: what the page's choices ask now."""
    run = current(key)
    if run is None:
        return
    if not run.ended.is_set():
        _watch(key, show)
        return
    if asked is not None and run.asked != asked:
        st.info(
            "The choices have changed since. What stands below answers the earlier ones: "
            f"{plain(describe(run.asked))}.",
            icon=":material/history:",
        )
    if run.error:
        page.problem("This could not be run to its end", run.error)
    elif run.stopped:
        kept = "are kept; *Go on* does the rest" if not run.note else "are shown below"
        st.warning(
            f"Stopped. {fmt.plural(len(run.seen), 'run')} of {run.total} {kept}.",
            icon=":material/stop_circle:",
        )
    if run.note:
        page.note(escape(run.note))
    if run.seen:
        show(run)


@st.fragment(run_every=LOOK_S)
def _watch(key: str, show: Show) -> None:
    """How far it is, and what has come; the page goes on once it has ended."""
    run = current(key)
    if run is None or run.ended.is_set():
        st.rerun()
        return
    row = st.container(horizontal=True, vertical_alignment="center")
    stopping = run.stop.is_set()
    doing = "Stopping" if stopping else "Running"
    so_far = f"{doing}: {len(run.seen)} of {run.total} runs."
    row.progress(run.share, f"{so_far} You can leave this page; they go on.")
    if row.button("Stop", key=f"{key}-stop", disabled=stopping):
        run.stop.set()
        st.rerun(scope="fragment")
    if run.seen:
        with page.guard():
            show(run)
    else:
        page.note(f"Processes are starting. {page.FIRST_START}")


def describe(asked: Asked) -> str:
    """The scenario and sessions that a sweep was asked of."""
    question = asked.question
    which = "all sessions" if question.sample is None else f"{question.sample:,} sampled sessions"
    return f"scenario {asked.scenario.name}, {which}"


def can_run(asked: Asked) -> bool:
    """Whether the values make scenarios; what is wrong with one is shown where not."""
    try:
        asked.points()
    except core.CarbonRouterError as error:
        st.warning(plain(fmt.sentence_case(str(error))), icon=":material/block:")
        return False
    return True
