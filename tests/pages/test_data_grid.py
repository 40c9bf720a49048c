"""Page Grid data as a user meets it: look, compare seasons, bring a series, add a site."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from carbonrouter_core import Scenario
from carbonrouter_core.store.series import stored_intensity
from carbonrouter_core.store.sites import own_sites
from pages.parts.grid_data import imports, work
from pages.parts.grid_data.work import KEY
from pages.shared import cache
from pages.shared.jobs import StoppedError
from tests.waiting import PATIENCE_S, attempts

ROOT = Path(__file__).resolve().parents[2]
QUICK = Scenario(
    trace="claude-code",
    window_days=2,
    models=("Llama-3.1-8B", "Gemma-3-27B"),
    regions=("europe-west2", "europe-west3"),
    gpu_regions={},
)


@pytest.fixture
def open_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., AppTest]]:
    """Opens the page in a browser tab of its own, with an empty store."""
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))

    def start(scenario: Scenario = QUICK) -> AppTest:
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE_S)
        app.session_state["scenario"] = scenario
        app.session_state["preset_name"] = "Paper"
        app.switch_page("pages/grid_data.py")
        app.run()
        assert not app.exception
        return app

    yield start


def words(app: AppTest) -> str:
    """All that the page says in text."""
    said = [*app.markdown, *app.error, *app.warning, *app.success, *app.info, *app.caption]
    notes = [block.proto.body for block in app.get("html")]
    return "\n".join([*(one.value for one in said), *notes]).replace("\\", "")


def frame(app: AppTest, column: str) -> pd.DataFrame:
    return next(one.value for one in app.dataframe if column in one.value)


def click(app: AppTest, key: str) -> AppTest:
    """Click, and wait for the job that this may have begun."""
    app.button(key=key).click().run()
    for _ in attempts():
        if KEY not in app.session_state:
            break
        if app.session_state[KEY].job.status.ended:
            app.run()
    assert not app.exception
    return app


def bring(app: AppTest, content: bytes, name: str = "mine.csv") -> AppTest:
    app.file_uploader(key="grid-files").set_value((name, content, "text/plain")).run()
    return click(app, "grid-check")


def table(zone: str = "GB", value: float = 77.0, days: int = 60) -> bytes:
    hours = pd.date_range("2024-05-01", periods=24 * days, freq="h")
    rows = "".join(f"{hour:%Y-%m-%d %H:%M},{zone},{value}\n" for hour in hours)
    return f"start_utc,zone,lifecycle_g_per_kwh\n{rows}".encode()


def test_a_newcomer_sees_what_is_used_and_what_the_grids_look_like(
    open_page: Callable[..., AppTest], tmp_path: Path
) -> None:
    app = open_page(Scenario())
    used = frame(app, "Used")
    assert used["Region"].tolist() == ["London", "Los Angeles", "Frankfurt", "Sydney"]
    assert set(used["Used"]) == {"built in"}
    assert set(used["Licence"]) == {"ODbL 1.0"}
    assert "3-hour means, average, lifecycle" in used["Values"].tolist()
    assert len(app.get("plotly_chart")) == 3
    regions = frame(app, "PUE from")
    assert len(regions) == 27
    assert regions.set_index("Region").at["London", "PUE from"] == "assumed"
    assert "None is stored" in words(app)
    assert "Electricity Maps CSV" in words(app)
    assert not (tmp_path / "home").exists()


def test_a_series_from_upload_to_use_to_gone(
    open_page: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = bring(open_page(), table())
    assert "sound and can be stored" in words(app)
    assert stored_intensity() == []  # nothing before it is confirmed
    app.text_input(key="grid-name").set_value("my meter").run()
    click(app, "grid-store")
    assert [one.name for one in stored_intensity()] == ["my meter"]
    used = frame(app, "Used").set_index("Region")
    assert used.at["London", "Used"] == "yours: my meter"
    assert used.at["London", "Mean in the window (g/kWh)"] == "77"
    assert used.at["Frankfurt", "Used"] == "built in"
    assert "with my meter of yours" in words(app)  # the date control says so
    app.switch_page("pages/overview.py").run()
    assert not app.exception
    assert any("from your series" in note for note in words(app).split("\n"))
    with monkeypatch.context() as patched:  # a site of the user stands on it
        patched.setattr(imports, "stranded_by", lambda name: {"Cork": "IE"})
        app.switch_page("pages/grid_data.py").run()
        assert app.button(key="grid-delete").disabled
        assert "Your site Cork stands on IE" in words(app)
    app.run()
    app.button(key="grid-delete").click().run()
    assert stored_intensity() == []
    assert set(frame(app, "Used")["Used"]) == {"built in"}


def test_the_page_watches_a_check_and_can_stop_it(
    open_page: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def slow(*files: object, progress: Callable[[float], None], **said: object) -> None:
        go_on.wait(60)
        progress(0.5)

    monkeypatch.setattr(work, "stage_intensity", slow)
    app = open_page()
    app.file_uploader(key="grid-files").set_value(("a.csv", table(), "text/plain")).run()
    app.button(key="grid-check").click().run()
    assert any("Reading and checking" in one.proto.text for one in app.get("progress"))
    app.button(key=f"{KEY}-stop").click().run()
    go_on.set()
    assert isinstance(app.session_state[KEY].job.future.exception(PATIENCE_S), StoppedError)
    app.run()
    assert "Stopped; nothing was stored" in words(app)
    assert stored_intensity() == []


def test_a_wrong_file_says_where_and_what_the_user_may_say(
    open_page: Callable[..., AppTest],
) -> None:
    app = bring(open_page(), table("DE"))
    assert "cannot be stored as it is" in words(app)
    assert app.button(key="grid-store").disabled
    assert "unknown zone 'DE'; nearest known: DE-LU" in " ".join(frame(app, "What")["What"])
    app.selectbox(key="grid-zone").set_value("DE-LU").run()
    click(app, "grid-check")
    assert not app.button(key="grid-store").disabled
    click(app, "grid-discard")
    assert stored_intensity() == []
    bring(app, b"PK\x03\x04")
    assert "zip archive" in words(app)


def test_columns_are_said_shown_and_kept_for_the_next_file(
    open_page: Callable[..., AppTest],
) -> None:
    def choose(ours: str, column: str) -> None:
        keys = [str(box.key) for box in app.selectbox]
        key = next(k for k in keys if k.startswith("grid-columns-") and k.endswith(f"-{ours}"))
        choice = app.selectbox(key=key)
        choice.set_value(column).run()
        assert not app.exception

    content = table().replace(b"start_utc,zone,lifecycle_g_per_kwh", b"Stempel,Netz,Wert")
    app = bring(open_page(), content)
    assert "Say what its columns are" in words(app)  # the refusal says the way out
    app.toggle(key="grid-columns").set_value(True).run()
    assert frame(app, "Wert")["Stempel"].tolist()[0] == "2024-05-01 00:00"
    app.text_input(key="grid-timezone").set_value("UTC").run()
    for ours, column in (("time", "Stempel"), ("zone", "Netz"), ("lifecycle", "Wert")):
        choose(ours, column)
    became = frame(app, "Problem")
    assert became["lifecycle g/kWh"].tolist() == [77.0] * 5
    assert became["Time (UTC)"].tolist()[1] == "2024-05-01T01:00Z"
    app.text_input(key="grid-columns-name").set_value("meter").run()
    click(app, "grid-columns-keep")
    click(app, "grid-check")
    assert "sound and can be stored" in words(app)
    click(app, "grid-discard")
    app.text_input(key="grid-timezone").set_value("").run()
    app.file_uploader(key="grid-files").set_value(("next.csv", content, "text/plain")).run()
    app.selectbox(key="grid-columns-mapping").set_value("meter").run()
    assert frame(app, "Problem")["lifecycle g/kWh"].tolist() == [77.0] * 5
    click(app, "grid-check")
    assert "sound and can be stored" in words(app)


def test_a_site_is_added_offered_and_deleted(open_page: Callable[..., AppTest]) -> None:
    app = open_page()
    app.text_input(key="site-name").set_value("Galway")
    app.selectbox(key="site-zone").set_value("GB")
    app.number_input(key="site-latitude").set_value(53.35)
    app.number_input(key="site-longitude").set_value(-6.26)
    next(one for one in app.button if one.label == "Add").click().run()
    assert not app.exception
    assert [one.region for one in own_sites()] == ["Galway"]
    row = frame(app, "PUE from").set_index("Region").loc["Galway"]
    assert (row["PUE"], row["PUE from"], row["Round trips"]) == (1.2, "assumed", "by distance")
    assert any("Galway" in option for option in app.multiselect(key="control_regions").options)
    next(one for one in app.button if one.label == "Add").click().run()
    assert "already a region" in words(app)
    click(app, "site-delete")
    assert own_sites() == ()


def test_seasons_and_knowledge_are_compared(open_page: Callable[..., AppTest]) -> None:
    app = click(open_page(), "grid-run-seasons")
    seasons = frame(app, "Window")
    assert [row[:10] for row in seasons["Window"]] == [
        "2024-01-15",
        "2024-04-15",
        "2024-07-15",
        "2024-10-15",
    ]
    assert len(app.get("plotly_chart")) == 4
    click(app, "grid-run-knowledge")
    known = frame(app, "What it knows")
    assert len(known) == 10
    assert known["Note"].str.contains("no forecast").sum() == 2
    assert (known["Against knowing the current intensity"] == "n/a").sum() == 2
    # a series was stored, or a site deleted: these figures are of the data before
    cache.forget()
    assert not app.run().dataframe or not any("Window" in one.value for one in app.dataframe)


def test_the_work_can_be_stopped(open_page: Callable[..., AppTest]) -> None:
    app = open_page(Scenario())
    app.button(key="grid-run-knowledge").click().run()
    job = app.session_state[KEY].job
    job.stop()
    assert isinstance(job.future.exception(PATIENCE_S), StoppedError)
    app.run()
    assert "Stopped; nothing was stored" in words(app)
    assert KEY not in app.session_state


def test_a_window_that_no_grid_has_offers_the_nearest(open_page: Callable[..., AppTest]) -> None:
    paris = QUICK.replace(regions=("europe-west9",))
    app = open_page(paris)
    assert frame(app, "Used")["Mean in the window (g/kWh)"].tolist() == ["no data"]
    app.switch_page("pages/overview.py").run()
    assert "nearest window of 2 d" in words(app)
    app.button(key="nearest-window").click().run()
    assert not app.exception
    assert app.session_state["scenario"].window_start.year == 2022
    assert "cr-hero" in words(app)


def test_the_cleanest_days_are_taken_over_at_a_click(open_page: Callable[..., AppTest]) -> None:
    app = open_page()
    label = app.button(key="grid-cleanest").label
    app.button(key="grid-cleanest").click().run()
    assert str(app.session_state["scenario"].window_start) in label.replace("\\", "")


def test_a_site_without_a_place_is_not_added(open_page: Callable[..., AppTest]) -> None:
    app = open_page()
    app.text_input(key="site-name").set_value("Cork")
    next(one for one in app.button if one.label == "Add").click().run()
    assert not app.exception
    assert "needs its grid zone, latitude and longitude" in words(app)
    assert own_sites() == ()
