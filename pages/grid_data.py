"""Grid data: carbon intensity of each region's grid, windows worth running, series of your own."""

from __future__ import annotations

import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.grid.importers import INTENSITY_IMPORTERS
from carbonrouter_core.grid.staging import StagedIntensity
from pages.parts.grid_data import columns, explore, imports, runs, sites, work
from pages.parts.grid_data.work import KEY
from pages.shared import jobs, page
from pages.shared.markdown import plain

CHECKED = "grid-checked"


def bring() -> None:
    """The upload, and what the file does not say itself."""
    limit_mb = st.get_option("server.maxUploadSize")
    st.html('<h2 class="cr-title">Bring your own carbon intensity</h2>')
    files = st.file_uploader(
        f"Series of one or more zones, up to {limit_mb} MB a file",
        accept_multiple_files=True,
        key="grid-files",
        help="CSV, JSON or Parquet, also packed (gz, zst); every 5 minutes to every 3 hours.",
    )
    page.note(
        "Known formats: "
        + ", ".join(importer.label for importer in INTENSITY_IMPORTERS.values())
        + ". "
        "Nothing is stored before you have seen the report. Several files are read as one series."
    )
    format_id, options = imports.ask_what_is_not_said()
    options = columns.ask(files, options)
    if st.button("Check", type="primary", disabled=not files, key="grid-check"):
        st.session_state.pop(CHECKED, None)
        work.check(files, format_id, options)
        st.rerun()  # what watches the job stands above


def collect(now: jobs.Status) -> None:
    """Take over the result of the job that has just ended."""
    try:
        result = jobs.take(KEY)
    except jobs.StoppedError:
        st.info("Stopped; nothing was stored.")
    except core.CarbonRouterError as error:
        st.error(plain(str(error)), icon=":material/block:")
    else:
        if isinstance(result, StagedIntensity):
            st.session_state[CHECKED] = result
        else:
            runs.keep(now.subject, result)


def draw(shown: page.Page) -> None:
    """The whole page."""
    now = jobs.status(KEY)
    if now is not None and now.ended:
        collect(now)
    with page.guard():
        explore.show(shown)
    with page.guard():
        runs.ask(shown)
    if KEY in st.session_state:
        jobs.watch(KEY)
    with page.guard():
        bring()
    if CHECKED in st.session_state and imports.decide(st.session_state[CHECKED]):
        del st.session_state[CHECKED]
        st.rerun()
    with page.guard():
        imports.show_stored()
    with page.guard():
        sites.show()


shown = page.start("Grid data")
if shown.problem:  # the scenario is wrong, but a series or a site may be what mends it
    page.problem(page.CANNOT_RUN, shown.problem)
draw(shown)
