"""What can be taken away of the present scenario: built when asked for, then downloaded."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.report.html import REPORT_POLICIES
from carbonrouter_core.traces.builtin import BUILTIN_TRACES
from carbonrouter_core.words import figures as fmt
from pages.parts.report import work
from pages.parts.report.work import KEY, Built, Subject
from pages.shared import cache, jobs, page, theme
from pages.shared.markdown import plain

DONE = "report-built"
POLICIES = "report-policies"
BYTES_PER_KB, BYTES_PER_MB = 1e3, 1e6


def draw(shown: page.Page) -> None:
    """Three things to build, each with its download once it is there."""
    st.html('<h2 class="cr-title">Download the figures</h2>')
    router = shown.router
    policies = _policies(router)
    _download(
        "bundle",
        shown,
        tuple(policies),
        "CSV bundle",
        "Figures of each policy, by session, by region and hour, and every decision, with all "
        "inputs and the meaning of every column. For spreadsheets, pandas, DuckDB or R.",
        lambda subject: work.bundle(subject, shown.scenario, policies),
    )
    more = [name for name in REPORT_POLICIES if name != router]
    _download(
        "html",
        shown,
        (router,),
        "Report for an annex (HTML)",
        "One file with charts, key figures, SCI figures, assumptions, warnings and sources, about "
        f"{theme.in_text(router)} against FairCarbon. It opens anywhere and prints on A4.",
        lambda subject: work.html(subject, shown.scenario, router, more),
    )
    if shown.scenario.trace in BUILTIN_TRACES:
        what = "Every turn with its time, user and difficulty as they were drawn"
    else:
        what = "Your trace with what was drawn for it (times, users, difficulty)"
    _download(
        "trace",
        shown,
        (),
        "Placed trace (Parquet)",
        f"{what}: with it anyone can compute the same figures to the last digit.",
        lambda subject: work.placed_trace(subject, shown.scenario),
    )


def _policies(router: str) -> list[str]:
    known = [*core.POLICIES]
    chosen = st.multiselect(
        "Policies in the bundle",
        known,
        default=list(cache.main(router)),
        format_func=theme.name,
        key=f"{POLICIES}-{router}",
        help="Every file of the bundle has each of them; FairCarbon is what savings are against.",
    )
    return [name for name in known if name in chosen]


def _download(
    kind: str,
    shown: page.Page,
    choice: tuple[str, ...],
    title: str,
    meaning: str,
    start: Callable[[Subject], None],
) -> None:
    subject = Subject(kind, (shown.scenario.name, cache.key_of(shown.scenario), *choice))
    now = jobs.status(KEY)
    row = st.container(border=True)
    row.markdown(f"**{title}**")
    row.caption(meaning)
    if now is not None and isinstance(now.subject, Subject) and now.subject.kind == kind:
        with row:
            jobs.watch(KEY)
        return
    built: tuple[Subject, Built] | None = st.session_state.get(DONE, {}).get(kind)
    bar = row.container(horizontal=True, vertical_alignment="center")
    nothing_chosen = kind == "bundle" and not choice
    ready = built is not None and built[0] == subject
    if bar.button(
        "Build again" if ready else "Build",
        key=f"build-{kind}",
        type="secondary" if ready else "primary",
        disabled=now is not None or bool(shown.problem) or nothing_chosen,
    ):
        start(subject)
        st.rerun()
    if nothing_chosen:
        bar.caption("Choose at least one policy.")
    if built is not None and ready:
        file = built[1]
        bar.download_button(
            f"Download ({_size(file.size_bytes)})",
            file.path.read_bytes,
            file_name=file.file_name,
            mime=file.mime,
            on_click="ignore",
            key=f"download-{kind}",
            type="primary",
            icon=":material/download:",
        )
        if file.run_id:
            bar.caption(f"Run {file.run_id}")
    elif built is not None:
        bar.caption("The scenario, its data or the choice has changed since it was built.")


def _size(size_bytes: int) -> str:
    if size_bytes < BYTES_PER_MB:
        return f"{fmt.number(size_bytes / BYTES_PER_KB)} kB"
    return f"{fmt.significant(size_bytes / BYTES_PER_MB, 2)} MB"


def collect() -> object | None:
    """The result of the job that has just ended; a failure is shown as what was wrong."""
    now = jobs.status(KEY)
    if now is None or not now.ended:
        return None
    try:
        result: object = jobs.take(KEY)
    except jobs.StoppedError:
        st.info("Stopped; nothing was written.")
        return None
    except core.CarbonRouterError as error:
        st.error(plain(str(error)), icon=":material/block:")
        return None
    if isinstance(result, Built) and isinstance(now.subject, Subject):
        st.session_state.setdefault(DONE, {})[now.subject.kind] = (now.subject, result)
    return result
