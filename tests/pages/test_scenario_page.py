"""Page Scenario as a user meets it: choose, see what changed, save, load, open a file, go wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from carbonrouter_core import FIELDS, PRESETS, Scenario, compare
from carbonrouter_core.routing.policies import ROUTER
from carbonrouter_core.store.store import open_store
from carbonrouter_core.words import figures as fmt
from pages.parts.scenario import saved
from pages.shared import cache, jobs
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]

OpenPage = Callable[..., AppTest]


@pytest.fixture
def open_real_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenPage]:
    """Opens the page in a browser tab of its own; the store is empty at first."""
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))

    def start(scenario: Scenario | None = None) -> AppTest:
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE_S)
        if scenario is not None:
            app.session_state["scenario"] = scenario
        app.switch_page("pages/scenario.py")
        app.run()
        assert not app.exception
        return app

    yield start


@pytest.fixture
def open_page(open_real_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> OpenPage:
    """The same for tests of choices: what they come to is that of the default each time."""
    known = (Scenario(), ROUTER)
    figures, run = cache.overview(*known), cache.comparison(*known)
    monkeypatch.setattr(cache, "overview", lambda scenario, router: figures)
    monkeypatch.setattr(cache, "comparison", lambda scenario, router: run)
    return open_real_page


def words(app: AppTest) -> str:
    """All that the page says in text."""
    said = [*app.markdown, *app.error, *app.warning, *app.success, *app.caption]
    bodies = [block.proto.body for block in app.get("html")]
    notes = [body for body in bodies if not body.startswith("<style")]
    return "\n".join([*(one.value for one in said), *notes]).replace("\\", "")


def scenario_of(app: AppTest) -> Scenario:
    return app.session_state["scenario"]


def run(app: AppTest) -> AppTest:
    app.run()
    assert not app.exception
    return app


# --- Choices ----------------------------------------------------------------------------------


def test_a_newcomer_sees_every_choice_and_what_it_comes_to(open_real_page: OpenPage) -> None:
    app = open_real_page()

    saving = compare(Scenario(), cache.main(ROUTER)).saving(ROUTER)
    assert f"<b>{fmt.percent(saving.value_percent)}</b> less CO2e" in words(app)
    assert "No difference from preset Paper" in words(app)
    assert words(app).count("Not a choice here.") == 5
    # These are drawn by their entry in the scenario, without a group of their own; tables of
    # prices, contracts and mixes have no control.
    more = {"conversations_per_day", "carbon_price_per_t", "currency"}
    more |= {"baseline", "baseline_model", "baseline_region"}
    kinds = "slider number_input radio selectbox multiselect date_input toggle text_input"
    keys = {widget.key for kind in kinds.split() for widget in app.get(kind)}
    by_parts = {
        "user_mix": "scenario_users_in",
        "user_regions": "",
        "gpu_regions": "",
        "pue_overrides": "",
    }
    for field in FIELDS:
        if field not in by_parts and isinstance(getattr(Scenario(), field), Mapping):
            continue
        where = "scenario-more" if field in more else "scenario"
        key = by_parts.get(field, f"{where}_{field}")
        assert not key or key in keys, field
    assert app.checkbox(key="scenario_has_europe-west3_B200-180GB").value is True
    assert app.checkbox(key="scenario_has_us-west2_B200-180GB").value is False


def test_what_was_stopped_is_offered_again(open_page: OpenPage) -> None:
    app = open_page()
    app.session_state[jobs.STOPPED] = {("prepared", cache.key_of(Scenario()))}
    run(app)
    assert "Stopped: placing the conversations in time." in words(app)
    app.button(key="again-prepared-" + cache.key_of(Scenario())).click()
    assert "Stopped" not in words(run(app))


@pytest.mark.parametrize(
    ("kind", "key", "value", "field", "now"),
    [
        ("slider", "scenario_quality_floor", 0.7, "quality_floor", 0.7),
        ("slider", "scenario_idle_s", 30.0, "idle_s", 1800.0),
        ("number_input", "scenario_latency_ceiling_ms", 20.0, "latency_ceiling_ms", 20_000.0),
        ("number_input", "scenario_concurrency", 32.0, "concurrency", 32.0),
        ("number_input", "scenario_seed", 8, "seed", 8),
        ("number_input", "scenario_gap_median_s", 60.0, "gap_median_s", 60.0),
        ("number_input", "scenario_pue_europe-west2", 1.1, "pue_overrides", {"europe-west2": 1.1}),
        ("radio", "scenario_carbon_basis", "direct", "carbon_basis", "direct"),
        ("toggle", "scenario_embodied", True, "embodied", True),
        ("multiselect", "scenario_users_in", ["us-west2"], "user_mix", {"us-west2": 1.0}),
        ("multiselect", "scenario_models", ["Gemma-3-12B"], "models", ("Gemma-3-12B",)),
    ],
)
def test_a_changed_choice_is_listed_and_undone(
    open_page: OpenPage, kind: str, key: str, value: object, field: str, now: object
) -> None:
    app = open_page()

    getattr(app, kind)(key=key).set_value(value)
    run(app)

    assert getattr(scenario_of(app), field) == now
    assert "1 difference from preset Paper" in words(app)
    assert "<b>1 change</b> from preset Paper" in words(app)
    app.button(key=f"undo_{field}").click()
    run(app)
    assert scenario_of(app) == Scenario()
    assert "No difference from preset Paper" in words(app)


def test_a_ceiling_out_of_reach_is_said_beside_the_answer(open_real_page: OpenPage) -> None:
    app = open_real_page()
    assert "no candidate is within the latency ceiling" not in words(app)

    app.number_input(key="scenario_latency_ceiling_ms").set_value(0.01)
    run(app)

    assert "no candidate is within the latency ceiling of 0.01 s" in words(app)


def test_a_browser_that_draws_late_begins_with_the_scenarios_values(open_page: OpenPage) -> None:
    # Only the first run sends a control its value; one drawn after the second begins with the
    # default, and sends that back as a choice.
    app = run(open_page())
    app.number_input(key="scenario_seed").set_value(11).run(timeout=PATIENCE_S)
    run(app)
    defaults = {
        widget.key: widget.proto.default
        for kind in ("number_input", "slider", "radio", "checkbox", "toggle")
        for widget in app.main.get(kind)
    }
    assert defaults["scenario_seed"] == 11
    assert defaults["scenario_quality_floor"] == [scenario_of(app).quality_floor]
    assert defaults["scenario_concurrency"] == scenario_of(app).concurrency
    assert defaults["scenario_gaps"] == 0
    assert defaults["scenario_has_europe-west3_B200-180GB"] is True
    assert defaults["scenario_has_europe-west2_B200-180GB"] is False
    assert defaults["scenario_own_intensity"] is scenario_of(app).own_intensity


def test_a_preset_reached_by_hand_is_one(open_page: OpenPage) -> None:
    app = open_page()
    app.radio(key="scenario_copies").set_value("all")
    run(app)
    assert "exactly as preset Long-lived cache" in words(app)
    assert "No difference from preset Long-lived cache" in words(app)


def test_a_box_of_the_grid_puts_a_gpu_into_a_region(open_page: OpenPage) -> None:
    app = open_page()

    app.checkbox(key="scenario_has_us-west2_B200-180GB").check()
    run(app)
    assert scenario_of(app).gpu_regions["B200-180GB"] == ("us-west2", "europe-west3")

    for region in ("europe-west2", "australia-southeast1"):
        app.checkbox(key=f"scenario_has_{region}_B200-180GB").check()
        run(app)
    assert "B200-180GB" not in scenario_of(app).gpu_regions, "everywhere needs no list"


def test_weights_of_the_users(open_page: OpenPage) -> None:
    app = open_page()
    app.multiselect(key="scenario_users_in").set_value(["us-west2", "europe-west2"])
    run(app)

    app.number_input(key="scenario_weight_us-west2").set_value(3.0)
    run(app)

    assert dict(scenario_of(app).user_mix) == {"europe-west2": 1.0, "us-west2": 3.0}
    assert any("75 %" in box.label for box in app.number_input)
    for region in ("us-west2", "europe-west2"):
        app.number_input(key=f"scenario_weight_{region}").set_value(0.0)
    run(app)
    assert "User_mix adds up to nothing" in words(app)


def test_a_preset_and_the_way_back(open_page: OpenPage) -> None:
    app = open_page()
    app.get("button_group")[0].set_value("Prompt cache")
    run(app)
    assert scenario_of(app) == PRESETS["Prompt cache"]
    assert app.radio(key="scenario_copies").value == "all"

    app.slider(key="scenario_idle_s").set_value(20.0)
    run(app)
    assert "1 difference from preset Prompt cache" in words(app)
    app.button(key="scenario-back").click()
    run(app)
    assert scenario_of(app) == PRESETS["Prompt cache"]


def test_choices_follow_to_other_pages_and_back(open_real_page: OpenPage) -> None:
    app = open_real_page()
    app.slider(key="scenario_quality_floor").set_value(0.71)
    app.number_input(key="scenario_seed").set_value(9)
    run(app)

    app.switch_page("pages/overview.py")
    run(app)
    assert app.slider(key="control_quality_floor").value == 0.71
    app.slider(key="control_quality_floor").set_value(0.6)
    run(app)
    app.switch_page("pages/scenario.py")
    run(app)

    assert app.slider(key="scenario_quality_floor").value == 0.6
    assert scenario_of(app).seed == app.number_input(key="scenario_seed").value == 9


# --- What cannot be run -----------------------------------------------------------------------


@pytest.mark.parametrize("field", ["regions", "gpus", "models"])
def test_nothing_chosen_is_said_and_can_be_undone(open_page: OpenPage, field: str) -> None:
    app = open_page()

    app.multiselect(key=f"scenario_{field}").set_value([])
    run(app)

    assert "These choices cannot be run" in words(app)
    assert f"{field} is empty" in words(app).lower()
    assert "The result of these choices" not in words(app)
    app.button(key=f"undo_{field}").click()
    run(app)
    assert "The result of these choices" in words(app)


def test_all_that_is_impossible_is_explained_before_running(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(*arguments: object) -> None:
        raise AssertionError("must not be run")

    monkeypatch.setattr(cache, "overview", ran)
    app = open_page(
        Scenario(
            regions=("europe-west2", "europe-west9"),
            gpus=("A100-80GB",),
            models=("Gemma-3-12B", "Llama-3.1-405B"),
            gpu_regions={},
        )
    )

    assert "Llama-3.1-405B has no energy points for any chosen GPU type" in words(app)
    assert "Paris: Carbon intensity of zone FR (lifecycle) runs from 2022-01-01" in words(app)
    assert "The result of these choices" not in words(app)


def test_a_defect_shows_no_traceback(open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(cache, "overview", broken)
    app = open_page()

    assert "Something went wrong here" in words(app) and "secret" not in words(app)
    assert app.slider(key="scenario_quality_floor")


# --- Saved scenarios --------------------------------------------------------------------------


def save_as(app: AppTest, name: str) -> None:
    app.text_input(key="scenario_name").set_value(name)
    run(app)
    app.button(key="scenario-save").click()
    run(app)


def test_save_change_load_duplicate_delete(open_page: OpenPage) -> None:
    app = open_page()
    app.slider(key="scenario_quality_floor").set_value(0.7)
    save_as(app, "Windy week")
    assert "Saved as Windy week." in words(app)
    assert app.button(key="scenario-save").label == "Saved"
    assert app.button(key="scenario-save").disabled

    app.slider(key="scenario_quality_floor").set_value(0.5)
    run(app)
    assert app.button(key="scenario-save").label == "Save over it"
    app.button(key="scenario-load").click()
    run(app)
    assert scenario_of(app) == Scenario(name="Windy week", quality_floor=0.7)

    app.button(key="scenario-duplicate").click()
    run(app)
    assert scenario_of(app) == Scenario(name="Windy week copy", quality_floor=0.7)
    assert [one.name for one in open_store().scenarios()] == ["Windy week", "Windy week copy"]
    app.button(key="scenario-duplicate").click()
    run(app)
    assert scenario_of(app).name == "Windy week copy copy"

    app.selectbox(key="scenario-chosen").set_value("Windy week")
    run(app)
    app.button(key="scenario-delete").click()
    run(app)
    assert "Windy week" not in [one.name for one in open_store().scenarios()]
    assert scenario_of(app).name == "Windy week copy copy", "what is on screen stays"


def test_a_changed_preset_is_not_saved_under_the_presets_name(open_page: OpenPage) -> None:
    app = open_page()
    app.slider(key="scenario_quality_floor").set_value(0.7)
    save_as(app, "Prompt cache")
    assert "Prompt cache is the name of a preset" in words(app)
    assert not open_store().scenarios()


@pytest.mark.parametrize("name", ["", "   ", "a\nb"])
def test_a_name_that_cannot_be(open_page: OpenPage, name: str) -> None:
    app = open_page()
    save_as(app, name)
    assert "Not saved: The name" in words(app)


@pytest.mark.parametrize(
    "name",
    [
        '=HYPERLINK("http://x","y")',
        "../../etc/passwd",
        "<script>alert(1)</script>",
        "\N{LEAFY GREEN}",
    ],
)
def test_hostile_names_are_text(open_page: OpenPage, name: str) -> None:
    app = open_page()
    save_as(app, name)
    assert [one.name for one in open_store().scenarios()] == [name]
    assert "<script>alert" not in "".join(
        block.proto.body for block in app.get("html") if not block.proto.body.startswith("<style")
    )
    assert saved.file_name(scenario_of(app)).replace("-", "").replace(".", "").isalnum()


def test_a_stored_scenario_that_cannot_be_read_changes_nothing(open_page: OpenPage) -> None:
    open_store().save_scenario("old", '{"gate": 0.5}')
    app = open_page()

    app.button(key="scenario-load").click()
    run(app)

    assert "old cannot be loaded" in words(app) and "'gate'" in words(app)
    assert scenario_of(app) == Scenario()


# --- Files ------------------------------------------------------------------------------------


def open_file(app: AppTest, data: bytes, name: str = "mine.json") -> None:
    app.file_uploader(key="scenario-file").set_value((name, data, "application/json"))
    run(app)


def test_a_file_comes_back_as_it_went(open_page: OpenPage) -> None:
    sent = Scenario(name="Sent", quality_floor=0.7, user_mix={"us-west2": 2.0}, seed=3)
    app = open_page()
    open_file(app, sent.to_json().encode())

    assert scenario_of(app) == sent
    assert "Opened mine.json." in words(app) and "does not give" not in words(app)
    app.slider(key="scenario_quality_floor").set_value(0.6)
    run(app)
    assert scenario_of(app).quality_floor == 0.6, "the file is not taken twice"


def test_what_a_file_leaves_out_is_named(open_page: OpenPage) -> None:
    app = open_page(Scenario(seed=5))
    values = Scenario(copies="all", idle_s=600.0).to_dict()
    del values["seed"], values["models"]
    open_file(app, json.dumps(values).encode())

    assert scenario_of(app).seed == 7
    assert "It does not give models and seed, taken from preset Paper." in words(app)
    assert "from preset Prompt cache" in words(app), "measured from the nearest preset"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'{"gate_threshold": 1.3}', ("gate_threshold", "1.3", "from 0 to 1")),
        (b'{"quality_floor": NaN}', ("quality_floor", "nan")),
        (b'{"window_days": 10000}', ("window_days", "10000")),
        (b'{"pue_overrides": {"us-west2": 0.9}}', ("pue_overrides", "us-west2", "0.9")),
        (b'{"__class__": 1}', ("__class__",)),
        (b'{"seed": 1, "seed": 2}', ("seed", "twice")),
        (b"[1, 2]", ("JSON object",)),
        (b"{", ("not valid JSON",)),
        (b"\xff\xfe", ("not UTF-8",)),
        (b" " * 1_000_001, ("1,000,001 bytes",)),
    ],
)
def test_a_bad_file_names_field_and_value_and_changes_nothing(
    open_page: OpenPage, data: bytes, told: tuple[str, ...]
) -> None:
    app = open_page(Scenario(seed=5))
    open_file(app, data)

    assert "mine.json was not opened, and nothing was changed" in words(app)
    for part in told:
        assert part in words(app)
    assert scenario_of(app) == Scenario(seed=5)


def test_presenting_lists_every_choice(open_page: OpenPage) -> None:
    app = open_page()
    app.toggle(key="present").set_value(True)
    run(app)
    assert not app.slider
    assert "smallest chance of coming back" in words(app)
    assert "The result of these choices" in words(app)
