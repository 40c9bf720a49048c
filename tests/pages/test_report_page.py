"""Page Report and links as a user meets them: build, download, keep, open, compare, share."""

from __future__ import annotations

import gc
import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from carbonrouter_core import Scenario
from carbonrouter_core.report.links import link_text, open_link
from carbonrouter_core.store.store import existing_store, open_store
from carbonrouter_core.traces.staging import stage
from pages.parts.report import work
from pages.parts.report.downloads import DONE
from pages.parts.report.work import KEY
from pages.shared.jobs import Job, StoppedError
from tests.waiting import PATIENCE_S, attempts

ROOT = Path(__file__).resolve().parents[2]
LOG = "session,turn,new_prompt_tokens,output_tokens,t_s\n" + "".join(
    f"s{i},{turn},{50 + 7 * i},80,{turn * 60}\n" for i in range(20) for turn in range(3)
)
HOSTILE = "<script>alert(1)</script>"

OpenPage = Callable[..., AppTest]


@pytest.fixture
def open_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenPage]:
    """Opens the page in a browser tab of its own, with a small trace in the store."""
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    with stage([path]) as staged:
        open_store().save_trace(staged, "may")

    def start(page: str = "report", link: str | None = None, **fields: object) -> AppTest:
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE_S)
        if link is None:
            app.session_state["scenario"] = Scenario(**({"trace": "may"} | fields))
        else:
            app.query_params["s"] = link
        app.switch_page(f"pages/{page}.py")
        app.run()
        assert not app.exception
        return app

    yield start


def words(app: AppTest) -> str:
    """All that the page says in text."""
    said = [*app.markdown, *app.error, *app.warning, *app.success, *app.info, *app.caption]
    bodies = [block.proto.body for block in app.get("html")]
    notes = [body for body in bodies if not body.startswith("<style")]
    return "\n".join([*(one.value for one in said), *notes]).replace("\\", "")


def wait(app: AppTest) -> AppTest:
    """Until the job that may have begun is done and the page has drawn its result."""
    for _ in attempts():
        assert not app.exception
        if KEY not in app.session_state:
            return app
        app.run()
    return app


def click(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click().run()
    return wait(app)


def built(app: AppTest, kind: str) -> work.Built:
    return app.session_state[DONE][kind][1]


def keep(app: AppTest, name: str, note: str = "") -> AppTest:
    app.text_input(key="run-name").set_value(name)
    app.text_input(key="run-note").set_value(note)
    (submit,) = [one for one in app.button if one.label == "Keep this run"]
    submit.click().run()
    return wait(app)


def test_each_thing_is_built_when_asked_for_and_then_downloaded(open_page: OpenPage) -> None:
    app = open_page(name=HOSTILE)
    assert not app.get("download_button")
    click(app, "build-bundle")
    click(app, "build-html")
    click(app, "build-trace")
    assert len(app.get("download_button")) == 3
    bundle = built(app, "bundle")
    assert bundle.file_name.startswith("carbonrouter-script-alert-1-script-")
    with zipfile.ZipFile(bundle.path) as files:
        assert files.read("summary.csv").count(b"\n") == 3
    page = built(app, "html").path.read_text(encoding="utf-8")
    assert HOSTILE not in page and "&lt;script&gt;" in page
    assert built(app, "trace").file_name.endswith(".parquet")
    assert bundle.run_id in words(app)
    app.multiselect(key="report-policies-carbonrouter-lookahead").set_value(["sticky"]).run()
    assert "has changed since it was built" in words(app)
    assert len(app.get("download_button")) == 2
    app.multiselect(key="report-policies-carbonrouter-lookahead").set_value([]).run()
    assert app.button(key="build-bundle").disabled
    assert "Choose at least one policy" in words(app)


def test_files_go_when_nobody_holds_them(open_page: OpenPage) -> None:
    app = click(open_page(), "build-bundle")
    path = built(app, "bundle").path
    assert zipfile.is_zipfile(io.BytesIO(path.read_bytes()))
    del app.session_state[DONE]
    gc.collect()
    assert not path.exists()


def test_a_job_is_stopped(open_page: OpenPage) -> None:
    open_page()
    job = Job("Building")
    job.stop()
    with pytest.raises(StoppedError):
        work._compare(job, Scenario(trace="may"), ["sticky"])


def test_a_scenario_that_cannot_be_run_says_so_and_builds_nothing(open_page: OpenPage) -> None:
    app = open_page(trace="gone")
    click(app, "build-bundle")
    assert "Unknown trace 'gone'" in words(app)
    assert not app.get("download_button")


def test_runs_are_kept_renamed_compared_opened_and_deleted(open_page: OpenPage) -> None:
    app = open_page(name="Mine")
    assert "None yet." in words(app)
    keep(app, "First", "note <b>")
    assert "Kept as run" in words(app)
    app.session_state["scenario"] = Scenario(trace="may", quality_floor=0.8, name="Other")
    del app.session_state["scenario_draft"]
    app.run()
    keep(app, HOSTILE)
    (listed,) = [one.value for one in app.dataframe if "Kept (UTC)" in one.value]
    assert listed["Name"].tolist() == [HOSTILE, "First"]
    assert listed["Note"].tolist() == ["", "note <b>"]
    second, first = listed["Run"].tolist()

    app.selectbox(key="run-chosen").set_value(first).run()
    click(app, "run-again")
    assert "decisions.csv has the same bytes. Nothing it rests on has changed." in words(app)
    app.selectbox(key="run-second").set_value(second).run()
    assert "quality floor 0.65 → 0.8" in words(app)
    assert "turns in both runs are served elsewhere" in words(app)

    app.text_input(key=f"run-name-{first}").set_value("Renamed").run()
    click(app, "run-rename")
    assert "Saved run" in words(app)
    click(app, "run-open")
    assert app.session_state["scenario"] == Scenario(trace="may", name="Mine")
    click(app, "run-delete")
    store = existing_store()
    assert store is not None
    assert [run.name for run in store.runs()] == [HOSTILE]


def test_a_run_computed_from_other_data_says_what_has_changed(
    open_page: OpenPage, tmp_path: Path
) -> None:
    app = open_page()
    keep(app, "First")
    open_store().delete_trace("may")
    (tmp_path / "log.csv").write_text(LOG.replace("s3,0,71,80", "s3,0,9000,80"))
    with stage([tmp_path / "log.csv"]) as staged:
        open_store().save_trace(staged, "may")
    click(app, "run-again")
    assert "Changed since: the trace" in words(app)
    open_store().delete_trace("may")
    click(app, "run-again")
    assert "Unknown trace 'may'" in words(app)


# --- Links -----------------------------------------------------------------------------------


def shared_link(app: AppTest) -> str:
    (code,) = [one.value for one in app.code if "?s=" in one.value]
    return code.partition("?s=")[2]


def test_the_link_of_one_tab_opens_in_another(open_page: OpenPage) -> None:
    app = open_page(trace="sharegpt", idle_s=600.0, name=HOSTILE)
    text = shared_link(app)
    other = open_page(link=text)
    assert other.session_state["scenario"] == Scenario(idle_s=600.0, name=HOSTILE)
    assert "s" not in other.query_params  # what the tab becomes is not what the link says
    assert "opened-link" not in other.session_state
    assert "could not be opened" not in words(other)
    other.session_state["scenario"] = Scenario(name="Later")
    del other.session_state["scenario_draft"]
    other.run()
    assert other.session_state["scenario"].name == "Later"  # read once


def test_the_router_goes_along(open_page: OpenPage) -> None:
    app = open_page(link=link_text(Scenario(), router="carbonrouter"))
    assert app.session_state["router"] == "carbonrouter"
    assert open_link(shared_link(app)).router == "carbonrouter"


def test_a_link_that_needs_a_trace_says_so_on_both_sides(open_page: OpenPage) -> None:
    app = open_page()
    assert "It needs the trace “may”" in words(app)
    text = shared_link(app)
    assert open_page(link=text).session_state["scenario"].trace == "may"
    open_store().delete_trace("may")
    app = open_page(link=text)
    assert app.session_state["scenario"].trace == "sharegpt"
    assert "It needs the trace “may”, which is not stored here" in words(app)
    app.button(key="opened-link-seen").click().run()
    assert "not stored here" not in words(app)


@pytest.mark.parametrize(
    "text", ["", "x", "1.", "2.AAAA", link_text(Scenario())[:-9], "1." + "A" * 99]
)
def test_a_bad_link_gives_a_notice_and_the_default_scenario(open_page: OpenPage, text: str) -> None:
    app = open_page(link=text)
    assert app.session_state["scenario"] == Scenario()
    assert "The link could not be opened" in words(app)
    assert "The default scenario is shown." in words(app)


def test_links_of_two_tabs_do_not_cross_over(open_page: OpenPage) -> None:
    first = open_page(link=link_text(Scenario(seed=1)))
    second = open_page(link=link_text(Scenario(seed=2)))
    first.run()
    second.run()
    assert first.session_state["scenario"].seed == 1
    assert second.session_state["scenario"].seed == 2
