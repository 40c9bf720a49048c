"""Jobs beside a page and replays that it waits for: results, failures, stops, and the tab's end.

That the bar moves and a click reaches it meanwhile is tested in tests/browser/test_visit.py.
"""

from __future__ import annotations

import gc
import threading

import pytest
from streamlit.testing.v1 import AppTest

from carbonrouter_core import ScenarioError
from pages.shared import cache, jobs
from pages.shared.jobs import Job, Phase, StoppedError
from tests.waiting import PATIENCE_S

SUBJECT = ("side", "abc", "sticky")


# --- One job ----------------------------------------------------------------------------------


def test_a_status_says_what_how_far_and_what_has_come() -> None:
    job = Job("Running", subject="a year")
    assert job.status == jobs.Status("Running", "a year", Phase.RUNNING, 0.0)
    job.progress(0.25)
    job.progress(0.2)  # a bar never goes back
    job.publish(("winter",))
    assert job.status == jobs.Status("Running", "a year", Phase.RUNNING, 0.25, ("winter",))
    assert job.status.in_words == "Running: 25 %"
    job.run(lambda job: "four seasons")
    assert job.status.phase is Phase.DONE and job.status.ended
    assert job.status.result == "four seasons"


def test_a_job_that_is_asked_to_stop_does_so_when_it_next_reports() -> None:
    job = Job("Storing")
    job.stop()
    assert job.status.phase is Phase.STOPPING and not job.status.ended
    assert job.status.in_words == "Stopping"
    job.run(lambda job: pytest.fail("it was stopped in the queue"))
    assert job.status.phase is Phase.STOPPED
    with pytest.raises(StoppedError, match="Stopped: storing."):
        job.future.result()


def test_the_reader_is_told_of_a_mistake_but_not_of_the_inside_of_a_defect() -> None:
    def fail(error: Exception) -> str:
        def work(job: Job) -> None:
            raise error

        job = Job("Storing")
        job.run(work)
        assert job.status.phase is Phase.FAILED
        return job.status.error

    assert fail(ScenarioError("No zone has data.")) == "No zone has data."
    assert fail(RuntimeError("a secret detail")) == jobs.DEFECT


@pytest.mark.parametrize("outlives_tab", [False, True])
def test_a_closed_tab_stops_its_job_unless_the_job_outlives_it(outlives_tab: bool) -> None:
    job = Job("Running")
    hold = jobs._Hold(job, outlives_tab=outlives_tab)
    assert not job.stopping
    del hold
    gc.collect()
    assert job.stopping is not outlives_tab


# --- A page with a job ------------------------------------------------------------------------


def works_beside() -> None:
    """A page with a button that starts work, which ends once ``go_on`` is set."""
    import streamlit as st

    from pages.shared import jobs

    def work(job):
        st_state["started"] += 1
        job.progress(0.5)
        assert go_on.wait(60)
        job.progress(1.0)
        return "ready"

    st_state = st.session_state.setdefault("count", {"started": 0})
    go_on = st.session_state["go-on"]
    if st.button("Start", key="start"):
        jobs.start("job", "Building", work)
    now = jobs.status("job")
    if now is None:
        return
    if not now.ended:
        jobs.watch("job")
        return
    try:
        st.write(jobs.take("job"))
    except jobs.StoppedError:
        st.write("stopped")


@pytest.fixture
def page() -> AppTest:
    app = AppTest.from_function(works_beside, default_timeout=PATIENCE_S)
    app.session_state["go-on"] = threading.Event()
    return app.run()


def end(app: AppTest) -> None:
    job = app.session_state["job"].job
    app.session_state["go-on"].set()
    job.future.exception(timeout=PATIENCE_S)


def test_a_click_elsewhere_neither_stops_nor_repeats_a_job(page: AppTest) -> None:
    page.button(key="start").click().run()
    page.run()
    assert page.get("progress") and not page.markdown
    end(page)
    assert page.run().markdown[0].value == "ready"
    assert page.session_state["count"]["started"] == 1
    assert not page.run().markdown  # a result is taken once
    assert not page.get("progress")


def test_a_job_is_stopped_by_its_button_and_by_the_next_one_in_its_place(page: AppTest) -> None:
    page.button(key="start").click().run()
    page.button(key="job-stop").click().run()
    assert page.button(key="job-stop").disabled
    first = page.session_state["job"].job
    page.button(key="start").click().run()
    assert first.stopping and not page.session_state["job"].job.stopping
    page.button(key="job-stop").click().run()
    end(page)
    assert page.run().markdown[0].value == "stopped"


# --- Replays ----------------------------------------------------------------------------------


def waits() -> None:
    """A page that waits for a replay of ten blocks, each too slow for its patience."""
    import time

    import streamlit as st

    from carbonrouter_core import ScenarioError
    from pages.shared import jobs, page

    def work(progress):
        st_state["started"] += 1
        for block in range(10):
            time.sleep(0.005)
            if block == 5 and kind == "stopped":
                progress.__self__.stop()
            progress((block + 1) / 10)
        if kind == "fails":
            raise ScenarioError("no zone has data")
        return "ready"

    st_state = st.session_state.setdefault("count", {"started": 0})
    kind = st.session_state.get("kind", "works")
    with page.guard():
        st.write(jobs.wait(("side", "abc", "sticky"), "Replaying Sticky", work))


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> AppTest:
    for name in ("PATIENCE_S", "LOOK_EVERY_S"):
        monkeypatch.setattr(jobs, name, 0.001)
    return AppTest.from_function(waits, default_timeout=PATIENCE_S)


def notes(app: AppTest) -> str:
    return " ".join(block.proto.body for block in app.get("html"))


def test_the_result_comes_and_the_bar_goes(app: AppTest) -> None:
    app.run()
    assert app.markdown[0].value == "ready"
    assert not app.button
    assert not app.get("progress")
    assert jobs.REPLAY not in app.session_state


def test_a_failure_is_the_page_s(app: AppTest) -> None:
    app.session_state["kind"] = "fails"
    app.run()
    assert "No zone has data" in notes(app)


def test_a_stopped_replay_is_said_and_can_run_after_all(app: AppTest) -> None:
    app.session_state["kind"] = "stopped"
    app.session_state[jobs.STOPPED] = {SUBJECT}
    app.run()
    assert "Stopped: replaying Sticky." in notes(app)
    assert app.session_state["count"]["started"] == 0
    app.session_state["kind"] = "works"
    app.button[0].click().run()
    assert app.markdown[0].value == "ready"
    assert "Stopped" not in notes(app)


def test_stopping_ends_the_work_before_its_end(app: AppTest) -> None:
    app.session_state["kind"] = "stopped"
    app.run()
    assert "Stopped: replaying Sticky." in notes(app)
    assert not app.markdown


def test_parts_that_run_at_once_share_one_progress() -> None:
    seen: list[float] = []
    first, second = jobs.together(seen.append, 2)
    first(0.5)
    second(1.0)
    first(1.0)
    assert seen == [0.25, 0.75, 1.0]


def shows_data() -> None:
    """A page that shows what the user's data says now; the wait for it may have been left."""
    import streamlit as st

    import carbonrouter_core as core
    from pages.shared import cache, jobs

    data = st.session_state["data"]
    subject = ("policy", cache.key_of(core.Scenario()), "sticky")
    if st.session_state.get("leaves"):
        job = jobs.Job("Replaying Sticky", subject)
        job.run(lambda job: data)
        jobs._hold(job)
    else:
        st.write(jobs.wait(subject, "Replaying Sticky", lambda progress: data))


def test_work_on_data_that_has_changed_since_is_done_again() -> None:
    app = AppTest.from_function(shows_data, default_timeout=PATIENCE_S)
    app.session_state["data"], app.session_state["leaves"] = "old", True
    app.run()
    app.session_state["data"], app.session_state["leaves"] = "new", False
    assert app.run().markdown[0].value == "old"  # the work that was left is found again
    app.session_state["data"], app.session_state["leaves"] = "old", True
    app.run()
    cache.forget()
    app.session_state["data"], app.session_state["leaves"] = "new", False
    assert app.run().markdown[0].value == "new"
