"""Waiting for a replay: its result, its failure, and what stands there once it was stopped.

That the bar moves and a click reaches it meanwhile is seen in tests/browser/test_visit.py.
"""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from pages.shared import kept_figures, replays

KEY = ("side", "abc", "sticky")


def waits() -> None:
    """A page that waits for a replay of ten blocks, each too slow for its patience."""
    import time

    import streamlit as st

    from carbonrouter_core import ScenarioError
    from pages.shared import page, replays

    def work(progress):
        st_state["begun"] += 1
        for block in range(10):
            time.sleep(0.005)
            if block == 5 and kind == "stopped":
                jobs[-1].stop.set()
            progress((block + 1) / 10)
        if kind == "fails":
            raise ScenarioError("no zone has data")
        return "ready"

    st_state = st.session_state.setdefault("count", {"begun": 0})
    kind = st.session_state.get("kind", "works")
    replays.PATIENCE_S = replays.LOOK_EVERY_S = 0.001

    jobs = []  # what the tab waits for
    start = replays._start

    def remember(what, work):
        jobs.append(start(what, work))
        return jobs[-1]

    replays._start = remember
    try:
        with page.guard():
            st.write(replays.wait(("side", "abc", "sticky"), "Replaying Sticky", work))
    finally:
        replays._start = start


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> AppTest:
    for name in ("PATIENCE_S", "LOOK_EVERY_S"):
        monkeypatch.setattr(replays, name, getattr(replays, name))  # put back afterwards
    return AppTest.from_function(waits, default_timeout=60)


def told(app: AppTest) -> str:
    return " ".join(block.proto.body for block in app.get("html"))


def test_the_result_comes_and_the_bar_goes(app: AppTest) -> None:
    app.run()
    assert app.markdown[0].value == "ready"
    assert not app.button
    assert not app.get("progress")
    assert replays._HELD not in app.session_state


def test_a_failure_is_the_page_s(app: AppTest) -> None:
    app.session_state["kind"] = "fails"
    app.run()
    assert "No zone has data" in told(app)


def test_what_was_stopped_is_said_and_can_be_run_after_all(app: AppTest) -> None:
    app.session_state["kind"] = "stopped"
    app.session_state[replays.STOPPED] = {KEY}
    app.run()
    assert "Stopped: replaying Sticky." in told(app)
    assert app.session_state["count"]["begun"] == 0
    app.session_state["kind"] = "works"
    app.button[0].click().run()
    assert app.markdown[0].value == "ready"
    assert "Stopped" not in told(app)


def test_stopping_ends_the_work_in_its_midst(app: AppTest) -> None:
    app.session_state["kind"] = "stopped"
    app.run()
    assert "Stopped: replaying Sticky." in told(app)
    assert not app.markdown


def test_parts_that_run_at_once_share_one_progress() -> None:
    seen: list[float] = []
    first, second = replays.together(seen.append, 2)
    first(0.5)
    second(1.0)
    first(1.0)
    assert seen == [0.25, 0.75, 1.0]


def shows_data() -> None:
    """A page that shows what the user's data says now; the wait for it may have been left."""
    import streamlit as st

    import carbonrouter_core as core
    from pages.shared import kept_figures, replays

    data = st.session_state["data"]
    key = ("policy", kept_figures.key_of(core.Scenario()), "sticky")
    if st.session_state.get("leaves"):
        job = replays._start("Replaying Sticky", lambda progress: data)
        assert job.future is not None
        job.future.result()
        replays._hold(key, job)
    else:
        st.write(replays.wait(key, "Replaying Sticky", lambda progress: data))


def test_work_on_data_that_has_changed_since_is_done_anew() -> None:
    app = AppTest.from_function(shows_data, default_timeout=60)
    app.session_state["data"], app.session_state["leaves"] = "old", True
    app.run()
    app.session_state["data"], app.session_state["leaves"] = "new", False
    assert app.run().markdown[0].value == "old"  # the work that was left is found again
    app.session_state["data"], app.session_state["leaves"] = "old", True
    app.run()
    kept_figures.forget()
    app.session_state["data"], app.session_state["leaves"] = "new", False
    assert app.run().markdown[0].value == "new"
