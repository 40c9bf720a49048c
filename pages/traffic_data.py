"""Traffic data: bring the traffic of your own service, check it, store it, use it."""

from __future__ import annotations

import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.store.traces import StoredTrace
from carbonrouter_core.traces.importers import IMPORTERS
from carbonrouter_core.words import figures as fmt
from pages.parts.traffic_data import columns, traces, work
from pages.parts.traffic_data.work import KEY
from pages.shared import controls, jobs, page
from pages.shared.markdown import plain

CHECKED, USE_WHEN_STORED = "trace-checked", "trace-use-when-stored"


def bring() -> None:
    """The upload, and what the file does not say itself."""
    limit_mb = st.get_option("server.maxUploadSize")
    st.html('<h2 class="cr-title">Bring your own traffic</h2>')
    files = st.file_uploader(
        f"Logs or tables of turns, up to {limit_mb} MB a file",
        accept_multiple_files=True,
        key="trace-files",
        help="CSV, JSON, JSON Lines or Parquet, also packed (gz, zst). Larger files: "
        "python -m carbonrouter_core import trace FILE.",
    )
    page.note(
        "Known formats: " + ", ".join(importer.label for importer in IMPORTERS.values()) + ". "
        "Nothing is stored before you have seen the report; text of prompts is never stored."
    )
    format_id, options = traces.ask_what_is_not_said()
    options = columns.ask(files, options)
    if st.button("Check", type="primary", disabled=not files, key="trace-check"):
        work.discard(st.session_state.pop(CHECKED, None))
        work.check(files, format_id, options)


def collect() -> None:
    """Take over the result of the job that has just ended."""
    try:
        result = jobs.take(KEY)
    except jobs.StoppedError:
        st.info("Stopped; nothing was stored.")
        return
    except core.CarbonRouterError as error:
        st.error(plain(str(error)), icon=":material/block:")
        return
    if isinstance(result, StoredTrace):
        work.discard(st.session_state.pop(CHECKED, None))
        if st.session_state.pop(USE_WHEN_STORED, True):
            traces.use(result.name, result.first_utc_s, result.last_utc_s)
        st.toast(f"Stored as {plain(result.name)}")
        st.session_state["trace-chosen"] = result.name
        st.rerun()
    st.session_state[CHECKED] = result


def confirm() -> None:
    """The report of what was checked, and the decision about it."""
    staged = st.session_state[CHECKED]
    report = staged.report
    st.html('<h2 class="cr-title">What is in the file</h2>')
    traces.show_report(report)
    accept = not report.unreadable
    if report.unreadable and report.can_store:
        accept = st.checkbox(
            f"Store the {fmt.number(report.turns)} turns that could be read, without the "
            f"{fmt.plural(report.unreadable, 'record')} that could not",
            key="trace-accept",
        )
    name = st.text_input(
        "Name", report.files[0].split(".")[0][:100], max_chars=200, key="trace-name"
    )
    buttons = st.container(horizontal=True)
    able = report.can_store and accept
    store_and_use = buttons.button(
        "Store and use in the scenario", type="primary", disabled=not able, key="trace-use"
    )
    store_only = buttons.button("Store only", disabled=not able, key="trace-store")
    if buttons.button("Discard", key="trace-discard"):
        work.discard(st.session_state.pop(CHECKED))
        st.rerun()
    if store_and_use or store_only:
        st.session_state[USE_WHEN_STORED] = store_and_use
        work.save(staged, name, bool(report.unreadable))
        st.rerun()


def draw() -> None:
    """The whole page."""
    bring()
    now = jobs.status(KEY)
    if now is not None and now.ended:
        collect()
    elif now is not None:
        jobs.watch(KEY)
    if CHECKED in st.session_state and KEY not in st.session_state:
        confirm()
    traces.show_stored(controls.current())


shown = page.start("Traffic data")
if shown.problem:  # the scenario is wrong, but other traffic can still be brought
    page.problem(page.CANNOT_RUN, shown.problem)
with page.guard():
    draw()
