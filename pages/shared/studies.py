"""Studies: many runs of one question, such as a sweep or a year, started and followed by a page.

A study is a job of its tab. It goes on when its page is left, and leaves its finished points in
the store, so that a stopped study can go on later.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.errors import StoreError
from carbonrouter_core.store.store import Store, open_store
from carbonrouter_core.studies import planning, sensitivity
from carbonrouter_core.studies.inputs import Point
from carbonrouter_core.studies.runner import Runner, Stopped
from carbonrouter_core.studies.sweep import Axis, Outcome, Question, Sweep, WorkersLostError
from carbonrouter_core.words import figures as fmt
from pages.shared import jobs, page, processes
from pages.shared.jobs import Job, Phase, Status
from pages.shared.markdown import plain

TORNADO = "tornado"
LINE = "line"
GRID = "grid"
BREAK_EVEN = "break-even"
DRAWS = "draws"
YEAR = "year"


@dataclass(frozen=True)
class Study:
    """A study: enough to run it, and to know its results from those of others.

    ``policy_id``: whose saving, against the question's baseline. ``axes``: one or two swept
    inputs; ``bounds``: the range of the one input that is searched; ``draws``: of the factors;
    ``year``: to project.
    """

    kind: str
    scenario: core.Scenario
    question: Question
    policy_id: str
    axes: tuple[Axis, ...] = ()
    search: str = ""
    bounds: tuple[float, float] = (0.0, 0.0)
    draws: int = 0
    year: int = 0

    def points(self) -> list[Point]:
        """The points to run; of a search only those that it starts with.

        Raises :class:`~carbonrouter_core.errors.InputError` for a value that is out of range.
        """
        if self.kind == TORNADO:
            return sensitivity.one_at_a_time(self.scenario)
        if self.kind == DRAWS:
            return sensitivity.drawn_factors(self.scenario, self.draws, self.scenario.seed)
        if self.kind == YEAR:
            return planning.season_points(self.scenario, self.year)
        if self.kind == BREAK_EVEN:
            values = sensitivity.spaced_values(self.search, sensitivity.SEARCH_POINTS, *self.bounds)
            return Sweep(self.scenario, (Axis(self.search, values),), self.question).points()
        return Sweep(self.scenario, self.axes, self.question).points()

    def runs(self) -> int:
        """Number of points to run; of a search with one crossing at most."""
        more = sensitivity.SEARCH_STEPS if self.kind == BREAK_EVEN else 0
        return len(set(self.points())) + more


@dataclass(frozen=True)
class Results:
    """What a study has given so far.

    ``outcomes``: by point; ``break_even``: of a search that is complete; ``note``: why finished
    points are not kept; ``ended``, ``complete``: whether it is over, and whether all has come.
    """

    study: Study
    outcomes: Mapping[Point, Outcome] = field(default_factory=dict)
    break_even: sensitivity.BreakEven | None = None
    note: str = ""
    ended: bool = False
    complete: bool = False

    def in_order(self) -> list[Outcome | None]:
        """The outcome of each point of the study, None where it has not come yet."""
        return [self.outcomes.get(point) for point in self.study.points()]


Show = Callable[[Results], None]
"""Draws the results of a study so far."""


# --- The work ---------------------------------------------------------------------------------


def start(key: str, study: Study) -> None:
    """Start ``study`` as the job under ``key``."""
    jobs.start(key, "Running", lambda job: _run(job, study), subject=study, queue=False)


def _run(job: Job, study: Study) -> Results:
    """All results of ``study``; what has come is published after every point."""
    executor = processes.POOL.get()
    store, note = _store()
    outcomes: dict[Point, Outcome] = {}
    total = study.runs()

    def collect(outcome: Outcome, *_: int) -> None:
        outcomes[outcome.point] = outcome
        job.publish(Results(study, dict(outcomes), note=note))
        job.share = min(len(outcomes) / max(total, 1), 0.99)

    try:
        with tempfile.TemporaryDirectory(prefix="carbonrouter-") as folder:
            run = Runner(
                study.question,
                executor,
                Path(folder),
                store=store,
                on_outcome=collect,
                cancelled=lambda: job.stopping,
                ahead=2 * processes.workers(),
            )
            if study.kind == BREAK_EVEN:
                break_even = sensitivity.break_even(
                    Point(study.scenario), study.search, study.policy_id, run, *study.bounds
                )
            else:
                run(study.points())
                break_even = None
    except Stopped:
        raise jobs.StoppedError(study, job.what) from None
    except WorkersLostError:
        processes.POOL.drop(executor)
        raise
    return Results(study, outcomes, break_even, note)


def _store() -> tuple[Store | None, str]:
    """The store for finished points, or none and why."""
    try:
        return open_store(), ""
    except StoreError as error:
        return None, f"Finished points are not kept: {error}"


def results(key: str) -> Results | None:
    """What the study under ``key`` has given so far; None if there is none."""
    now = jobs.status(key)
    return None if now is None else results_of(now)


def results_of(now: Status) -> Results:
    """What the study of a job has given so far."""
    so_far = now.result or now.partial or Results(now.subject)
    return Results(
        so_far.study,
        so_far.outcomes,
        so_far.break_even,
        so_far.note,
        ended=now.ended,
        complete=now.phase is Phase.DONE,
    )


# --- On the page ------------------------------------------------------------------------------


def can_run(study: Study) -> bool:
    """Whether the values make scenarios; if not, the page says what is wrong with one."""
    try:
        study.points()
    except core.CarbonRouterError as error:
        st.warning(plain(fmt.sentence_case(str(error))), icon=":material/block:")
        return False
    return True


def start_button(key: str, study: Study, label: str) -> None:
    """The button that starts ``study``, or goes on with it after it was stopped."""
    now = jobs.status(key)
    if now is not None and now.subject == study and now.phase is Phase.STOPPED:
        label = "Go on"
    row = st.container(horizontal=True, vertical_alignment="center")
    if row.button(label, type="primary", disabled=jobs.running(key), key=f"{key}-run"):
        start(key, study)
        st.rerun()
    runs = fmt.plural(study.runs(), "run")
    if study.kind == BREAK_EVEN:
        runs = f"about {runs}"
    count = fmt.plural(processes.workers(), "process", "processes")
    row.html(f'<p class="cr-note">{runs} on {count}</p>')


def follow(key: str, study: Study | None, show: Show) -> None:
    """Draw the study of this tab as it stands; ``study``: what the page's choices ask now."""
    now = jobs.status(key)
    if now is None:
        return
    results = results_of(now)
    if not now.ended:
        jobs.watch(key, lambda: _show_running(key, show), in_words=_progress_in_words)
        return
    if study is not None and results.study != study:
        st.info(
            "The choices have changed since. The results below are of the earlier ones: "
            f"{plain(describe(results.study))}.",
            icon=":material/history:",
        )
    if now.phase is Phase.FAILED:
        page.problem("This run failed", now.error)
    elif now.phase is Phase.STOPPED:
        finished = "are shown below" if results.note else "are kept; *Go on* does the rest"
        st.warning(
            f"Stopped. {fmt.plural(len(results.outcomes), 'run')} of {results.study.runs()} "
            f"{finished}.",
            icon=":material/stop_circle:",
        )
    if results.note:
        page.note(escape(results.note))
    if results.outcomes:
        show(results)


def _show_running(key: str, show: Show) -> None:
    so_far = results(key)
    if so_far is not None and so_far.outcomes:
        with page.guard():
            show(so_far)
    else:
        page.note(f"Processes are starting. {page.FIRST_START}")


def _progress_in_words(now: Status) -> str:
    doing = "Stopping" if now.phase is Phase.STOPPING else "Running"
    done = len(now.partial.outcomes) if now.partial else 0
    return f"{doing}: {done} of {now.subject.runs()} runs. You can leave this page; the runs go on."


def describe(study: Study) -> str:
    """The scenario and the sessions of a study."""
    sample = study.question.sample
    which = "all sessions" if sample is None else f"{fmt.number(sample)} sampled sessions"
    return f"scenario {study.scenario.name}, {which}"
