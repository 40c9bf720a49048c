"""How far a job beside the page is, with a way to stop it."""

from __future__ import annotations

import streamlit as st

from carbonrouter_core.words import figures as fmt
from pages.shared.markdown import plain
from pages.shared.trace_jobs import Job


@st.fragment(run_every=0.5)
def watch(job: Job, stop_key: str) -> None:
    """Progress of ``job``; the page goes on once it is done. ``stop_key``: key of the button."""
    if job.done:
        st.rerun()
        return
    stopping = job.stop.is_set()
    what = "Stopping" if stopping else plain(job.what)
    st.progress(job.share, f"{what}: {fmt.number(100 * job.share)} %")
    st.button("Stop", key=stop_key, on_click=job.stop.set, disabled=stopping)
