"""Page Traffic data as a user meets it: bring a file, read the report, store, use, delete."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from carbonrouter_core import Scenario
from carbonrouter_core.errors import StoreError
from carbonrouter_core.store.mappings import stored_mappings
from carbonrouter_core.store.store import open_store
from carbonrouter_core.traces.staging import stage
from pages.parts.traffic_data.work import KEY
from pages.shared import stored
from tests.waiting import PATIENCE_S, attempts

ROOT = Path(__file__).resolve().parents[2]
CHECKED = "trace-checked"
HEADER = "session,turn,new_prompt_tokens,output_tokens"
GOOD = f"{HEADER}\na,0,10,5\na,1,20,5\nb,0,7,7\n"


@pytest.fixture
def open_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], AppTest]]:
    """Opens the page in a browser tab of its own, with an empty store."""
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))

    def start() -> AppTest:
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE_S)
        app.switch_page("pages/traffic_data.py")
        app.run()
        assert not app.exception
        return app

    yield start


def words(app: AppTest) -> str:
    """All that the page says in text."""
    said = [
        *app.markdown,
        *app.error,
        *app.warning,
        *app.success,
        *app.info,
        *app.caption,
    ]
    notes = [block.proto.body for block in app.get("html")]
    return "\n".join([*(one.value for one in said), *notes]).replace("\\", "")


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


def bring(app: AppTest, content: bytes | str, name: str = "mine.csv") -> AppTest:
    data = content if isinstance(content, bytes) else content.encode()
    app.file_uploader(key="trace-files").set_value((name, data, "text/plain")).run()
    return click(app, "trace-check")


def test_a_newcomer_sees_formats_the_limit_and_what_is_built_in(
    open_page: Callable[[], AppTest], tmp_path: Path
) -> None:
    app = open_page()
    assert "up to 200 MB" in app.file_uploader(key="trace-files").label
    assert "WildChat" in words(app)
    assert "never stored" in words(app)
    assert app.button(key="trace-check").disabled
    (table,) = [one.value for one in app.dataframe if "Name" in one.value]
    assert table["Name"].tolist() == ["sharegpt", "claude-code"]
    assert table["Turns"].tolist() == [59_837, 44_082]
    assert not (tmp_path / "home").exists()


def test_from_upload_to_use(open_page: Callable[[], AppTest]) -> None:
    app = bring(open_page(), GOOD)
    assert "sound and can be stored" in words(app)
    assert "it has our columns" in words(app)
    figures = {one.label: one.value for one in app.metric}
    assert (figures["Turns"], figures["Sessions"], figures["Refused"]) == ("3", "2", "0")
    assert open_store().traces() == []  # nothing before it is confirmed
    app.text_input(key="trace-name").set_value("my log").run()
    click(app, "trace-use")
    assert [one.name for one in open_store().traces()] == ["my log"]
    assert app.session_state["scenario"].trace == "my log"
    assert "my log" in app.radio(key="control_trace").options
    app.switch_page("pages/overview.py").run()
    assert not app.exception
    assert "cr-hero" in "".join(block.proto.body for block in app.get("html"))


def test_a_trace_with_dates_brings_its_window(
    open_page: Callable[[], AppTest], shared_data: Path
) -> None:
    log = (shared_data / "formats" / "openai_usage.jsonl").read_bytes()
    app = open_page()
    app.selectbox(key="trace-region").set_value("europe-west2").run()
    bring(app, log, "usage.jsonl")
    click(app, "trace-use")
    scenario = app.session_state["scenario"]
    assert str(scenario.window_start) == "2024-05-20"
    assert scenario.window_days == 1
    click(app, "trace-observed")
    assert "your own routing emitted" in words(app)
    assert "no GPU type" in words(app)
    assert "Cache model against the log" in words(app)
    app.run()  # whatever is clicked next
    assert "your own routing emitted" in words(app)


def test_a_name_in_a_log_can_be_said_to_be_one_of_ours(open_page: Callable[[], AppTest]) -> None:
    records = [
        {"created": 1716200000 + 60 * turn, "model": model, "region": "uksouth",
         "session_id": model, "usage": {"prompt_tokens": 500, "completion_tokens": 10}}
        for turn, model in enumerate(("llama3.1:8b", "gpt-4o"))
    ]  # fmt: skip
    app = bring(open_page(), "".join(json.dumps(record) + "\n" for record in records), "u.jsonl")
    click(app, "trace-use")
    click(app, "trace-observed")
    table = next(one.value for one in app.dataframe if "Taken for" in one.value)
    taken = table.set_index("In the log")["Taken for"].to_dict()
    assert taken["llama3.1:8b"] == "Llama-3.1-8B"
    assert (taken["uksouth"], taken["gpt-4o"]) == ("europe-west2", "not in the scenario")
    assert "On 1 of 2 sessions" in words(app)
    app.selectbox(key="observed-model-gpt-4o").set_value("Llama-3.3-70B")
    next(button for button in app.button if button.label == "Take them so").click().run()
    assert not app.exception
    assert "On 2 of 2 sessions" in words(app)
    assert "gpt-4o as Llama-3.3-70B: your assumption" in words(app)


def test_how_a_log_counts_can_be_chosen_and_doubts_come_first(
    open_page: Callable[[], AppTest],
) -> None:
    rows = ("20,100", "15,100", "30,100")
    log = "session_id,created_at,prompt_tokens,completion_tokens\n" + "".join(
        f"a,2024-05-20 10:0{i}:00,{row}\n" for i, row in enumerate(rows)
    )
    app = bring(open_page(), log, "log.csv")
    assert "prompts look incremental" in words(app)
    assert "sound and can be stored" not in words(app)
    app.selectbox(key="trace-prompts").set_value("incremental").run()
    app.selectbox(key="trace-timezone").set_value("Europe/Berlin").run()
    app.selectbox(key="trace-cached").set_value("excluded").run()
    app.selectbox(key="trace-unit").set_value("ms").run()
    click(app, "trace-check")
    assert "look incremental" not in words(app)
    assert "2024-05-20T08:00:00Z" in words(app)
    assert app.session_state[CHECKED].report.new_prompt_tokens == 65


def test_a_wrong_file_says_where_and_cannot_be_stored(open_page: Callable[[], AppTest]) -> None:
    app = bring(open_page(), f"{HEADER}\na,0,10,5\na,1,10,-5\n")
    assert "nothing can be stored" in words(app)
    assert app.button(key="trace-use").disabled
    assert app.button(key="trace-store").disabled
    (found,) = [one.value for one in app.dataframe if "What" in one.value]
    assert found["Where"].tolist() == ["line 3"]
    assert "whole number" in found["What"].iloc[0]
    click(app, "trace-discard")
    assert "What is in the file" not in words(app)


@pytest.mark.parametrize(
    "content", [b"\x89PNG\r\n\x1a\n" + bytes(3000), b"", b"<b>x</b>,y\n1,2\n", b"PK\x03\x04zip"]
)
def test_what_is_no_trace_is_a_sentence(open_page: Callable[[], AppTest], content: bytes) -> None:
    app = bring(open_page(), content, "<script>alert(1)</script>.csv")
    assert len(app.error) == 1
    assert "Traceback" not in words(app)
    assert CHECKED not in app.session_state


def test_a_file_that_ends_early_is_the_users_choice(open_page: Callable[[], AppTest]) -> None:
    app = bring(open_page(), GOOD + "c,0,1")
    assert "cannot be read" in words(app)
    assert app.button(key="trace-store").disabled
    app.checkbox(key="trace-accept").check().run()
    click(app, "trace-store")
    assert open_store().load_trace("mine").n_turns == 3
    assert app.session_state["scenario"].trace == "sharegpt"


def test_a_name_that_is_taken_is_said_and_the_check_is_kept(
    open_page: Callable[[], AppTest],
) -> None:
    app = bring(open_page(), GOOD)
    app.text_input(key="trace-name").set_value("sharegpt").run()
    click(app, "trace-store")
    assert "already a trace" in words(app)
    app.text_input(key="trace-name").set_value("another").run()
    click(app, "trace-store")
    assert [one.name for one in open_store().traces()] == ["another"]


def test_deleting_a_trace_takes_it_out_of_the_scenario(open_page: Callable[[], AppTest]) -> None:
    app = bring(open_page(), GOOD)
    click(app, "trace-use")
    assert app.session_state["scenario"].trace == "mine"
    click(app, "trace-delete")
    assert open_store().traces() == []
    assert app.session_state["scenario"].trace == "sharegpt"


def test_two_tabs_have_their_own_files_and_scenarios(open_page: Callable[[], AppTest]) -> None:
    one, other = bring(open_page(), GOOD), open_page()
    assert CHECKED not in other.session_state
    click(one, "trace-use")
    other.run()
    assert one.session_state["scenario"].trace == "mine"
    assert other.session_state["scenario"] == Scenario()
    assert "mine" in other.radio(key="control_trace").options


def test_odd_names_are_shown_as_text(open_page: Callable[[], AppTest], tmp_path: Path) -> None:
    app = open_page()
    path = tmp_path / "t.csv"
    path.write_text(GOOD)
    with stage([path]) as staged:
        open_store().save_trace(staged, "**<script>** :red[x] $y$")
    app.run()
    assert not app.exception
    (label,) = [one for one in app.radio(key="control_trace").options if "script" in one]
    assert label == r"\*\*\<script\>\*\* \:red\[x\] \$y\$"


def test_a_store_that_another_process_holds_is_said(
    open_page: Callable[[], AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    def held() -> None:
        raise StoreError("The store is open in another process.")

    monkeypatch.setattr(stored, "existing_store", held)
    app = open_page()
    assert "open in another process" in words(app)
    (table,) = [one.value for one in app.dataframe if "Name" in one.value]
    assert table["Name"].tolist() == ["sharegpt", "claude-code"]


def test_columns_of_any_other_log_are_said_shown_and_kept(open_page: Callable[[], AppTest]) -> None:
    table = "who;when;asked;said\na;2024-05-20 10:00:00;100;20\na;2024-05-20 10:01:00;150;30\n"
    app = open_page()
    app.file_uploader(key="trace-files").set_value(("log.csv", table.encode(), "text/csv")).run()
    app.toggle(key="trace-columns").set_value(True).run()
    rows = next(one.value for one in app.dataframe if "asked" in one.value)
    assert rows["asked"].tolist() == ["100", "150"]
    for ours, theirs in (("prompt_tokens", "asked"), ("output_tokens", "said"), ("session", "who")):
        box = next(one for one in app.selectbox if str(one.key).endswith(f"-{ours}"))
        box.set_value(theirs).run()
    became = next(one.value for one in app.dataframe if "history_tokens" in one.value)
    assert became["history_tokens"].tolist() == [0, 120]
    app.text_input(key="trace-columns-name").set_value("ours").run()
    app.button(key="trace-columns-keep").click().run()
    assert not app.exception
    assert [mapping.name for mapping in stored_mappings("trace")] == ["ours"]
    click(app, "trace-check")
    assert "sound and can be stored" in words(app)
