"""The Overview page as a user meets it: fresh, changed, wrong, presented."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from carbonrouter_core import OPTIMUM, PRESETS, Scenario, compare
from carbonrouter_core.routing.policies import ROUTERS
from carbonrouter_core.words import figures as fmt
from pages.shared import cache, jobs
from tests.waiting import PATIENCE_S

APP = Path(__file__).resolve().parents[2] / "app.py"
LOOKAHEAD, PUBLISHED = ROUTERS
MAIN = (LOOKAHEAD, "faircarbon")


@pytest.fixture
def open_app() -> Callable[..., AppTest]:
    """Opens the app in a browser tab of its own, with a scenario where one is given."""

    def start(scenario: Scenario | None = None, **state: object) -> AppTest:
        app = AppTest.from_file(str(APP), default_timeout=PATIENCE_S)
        for key, value in state.items():
            app.session_state[key] = value
        if scenario is not None:
            app.session_state["scenario"] = scenario
        app.run()
        assert not app.exception
        return app

    return start


def html(app: AppTest, css_class: str) -> str:
    """The markup of the one block of that class."""
    marks = (f'class="{css_class}"', f'class="{css_class} ')
    (body,) = [
        block.proto.body
        for block in app.get("html")
        if any(mark in block.proto.body[:200] for mark in marks)
        and not block.proto.body.startswith("<style>")
    ]
    return body


def html_blocks(app: AppTest) -> str:
    return "\n".join(
        block.proto.body for block in app.get("html") if not block.proto.body.startswith("<style>")
    )


def figures(app: AppTest) -> str:
    """All that should move when the scenario does."""
    charts = "".join(chart.proto.spec for chart in app.get("plotly_chart"))
    return html(app, "cr-hero") + html(app, "cr-kpis") + charts


def test_bars_stand_without_the_policy_whose_replay_was_stopped(
    open_app: Callable[..., AppTest],
) -> None:
    stopped = ("policy", cache.key_of(Scenario()), OPTIMUM)
    app = open_app(**{jobs.STOPPED: {stopped}})
    assert "Stopped: replaying Hindsight optimum." in html_blocks(app)
    alts = [chart.proto.alt for chart in app.get("plotly_chart")]
    assert any("Sticky" in alt for alt in alts)
    assert not any("hindsight optimum" in alt.lower() for alt in alts)


def test_controls_show_the_scenario_on_every_page_that_is_opened(
    open_app: Callable[..., AppTest],
) -> None:
    scenario = PRESETS["Prompt cache"].replace(gate_threshold=0.4, quality_floor=0.6, window_days=3)
    app = open_app(scenario, preset_name="Prompt cache", router=PUBLISHED)
    for page in ("traffic_data", "report", "grid_data", "report"):
        app.switch_page(f"pages/{page}.py").run()
        assert not app.exception
        sliders = [
            app.slider(key=f"control_{name}")
            for name in ("gate_threshold", "quality_floor", "idle_s", "window_days")
        ]
        assert [one.value for one in sliders] == [0.4, 0.6, 10.0, 3], page
        assert app.selectbox(key="control_preset").value == "Prompt cache", page
        assert app.radio(key="control_router").value == PUBLISHED, page
        assert app.multiselect(key="control_regions").value == list(scenario.regions), page


def test_a_newcomer_sees_the_saving_a_map_and_charts(open_app: Callable[..., AppTest]) -> None:
    app = open_app()

    run = compare(Scenario(), MAIN)
    saving = run.saving(LOOKAHEAD)
    long = run.saving(LOOKAHEAD, sessions=run.long_sessions)
    test = run.saving(LOOKAHEAD, sessions=run.test_half)
    hero = html(app, "cr-hero")
    assert f"<strong>{fmt.percent(saving.value_percent)}</strong>" in hero
    assert "less CO2e than FairCarbon" in hero
    assert fmt.percent(long.value_percent) in hero and "over 30 turns" in hero
    assert fmt.number(saving.low_percent, 1) in hero and fmt.number(saving.high_percent, 1) in hero
    assert "comes from" in hero
    evidence = hero.partition("On the half of the sessions nothing was learned from: ")[2]
    assert evidence.startswith(f"<b>{fmt.percent(test.value_percent)} less (")
    assert fmt.number(test.low_percent, 1) in evidence
    assert fmt.number(test.high_percent, 1) in evidence
    assert "KV cache" in html_blocks(app)
    assert "reconstructed" in html_blocks(app)
    assert "exactly as preset Paper" in html(app, "cr-strip")
    assert len(app.get("plotly_chart")) == 3
    (deck,) = app.get("deck_gl_json_chart")
    layers = {layer["id"]: layer for layer in json.loads(deck.proto.json)["layers"]}
    assert {row["label"].split("\n")[0] for row in layers["sites"]["data"]} == {
        "London",
        "Los Angeles",
        "Frankfurt",
        "Sydney",
    }
    assert layers["moves"]["data"], "sessions move between regions in the default scenario"


def test_the_key_figures_are_those_of_the_engine(open_app: Callable[..., AppTest]) -> None:
    kpis = html(open_app(), "cr-kpis")

    run = compare(Scenario(), MAIN)
    for policy_id in MAIN:
        row = run.figures(policy_id)
        for shown in (
            fmt.percent(100 * row["recompute_share"]),
            fmt.number(row["moves_per_session"], 2),
            fmt.duration(row["ttft_ms_mean"]),
            fmt.duration(row["ttft_ms_p95"]),
            fmt.duration(row["latency_ms_mean"]),
            fmt.duration(row["latency_ms_p95"]),
            fmt.percent(100 * row["quality_mean"]),
        ):
            assert shown in kpis, (policy_id, shown)


def test_every_chart_has_a_title_units_and_a_text(open_app: Callable[..., AppTest]) -> None:
    for chart in open_app().get("plotly_chart"):
        layout = json.loads(chart.proto.spec)["layout"]
        assert layout["title"]["text"]
        assert "CO2e" in layout["xaxis"]["title"]["text"] + layout["yaxis"]["title"]["text"]
        assert len(chart.proto.alt) > 40


def choose(app: AppTest, router: str) -> None:
    app.radio(key="control_router").set_value(router).run()
    assert not app.exception


def test_the_published_rule_can_be_chosen(open_app: Callable[..., AppTest]) -> None:
    app = open_app()
    before = figures(app)

    choose(app, PUBLISHED)

    run = compare(Scenario(), (PUBLISHED, "faircarbon"))
    hero = html(app, "cr-hero")
    assert f"<strong>{fmt.percent(run.saving(PUBLISHED).value_percent)}</strong>" in hero
    assert "CarbonRouter by the published rule emits" in hero and "look-ahead" not in hero
    row = run.figures(PUBLISHED)
    assert fmt.number(row["moves_per_session"], 2) in html(app, "cr-kpis")
    assert bar_labels(app)[0].startswith("CarbonRouter, published rule")
    assert bar_labels(app)[2].startswith("CarbonRouter, look-ahead")
    assert "published rule serves" in html_blocks(app), "the map follows"
    assert "exactly as preset Paper" in html(app, "cr-strip"), "a choice of view only"
    choose(app, LOOKAHEAD)
    assert figures(app) == before


def test_the_router_stays_chosen_on_other_pages(open_app: Callable[..., AppTest]) -> None:
    app = open_app()
    choose(app, PUBLISHED)

    app.switch_page("pages/traffic_data.py").run()
    app.switch_page("pages/overview.py").run()

    assert app.radio(key="control_router").value == PUBLISHED
    assert "CarbonRouter by the published rule emits" in html(app, "cr-hero")


def bar_labels(app: AppTest) -> list[str]:
    """Name and figures of each policy's bar, in order, as read."""
    (bars,) = [
        chart
        for chart in app.get("plotly_chart")
        if chart.proto.alt.startswith("Bar chart of carbon by policy")
    ]
    notes = json.loads(bars.proto.spec)["layout"]["annotations"]
    return [re.sub(r"<[^>]+>|\N{BLACK SQUARE}", "", note["text"]).strip() for note in notes]


def test_the_reason_for_the_default_is_that_of_the_figures(
    open_app: Callable[..., AppTest],
) -> None:
    told = open_app().radio(key="control_router").help
    for trace in ("sharegpt", "claude-code"):
        run = compare(Scenario(trace=trace), (*ROUTERS, "faircarbon"))
        for router in ROUTERS:
            saving = run.saving(router, sessions=run.test_half)
            assert f"{saving.value_percent:.1f} %" in told, (trace, router)


def test_a_simple_policy_that_emits_less_is_named(open_app: Callable[..., AppTest]) -> None:
    """Agents at a high quality floor: the published rule loses to staying where one is."""
    app = open_app(Scenario(trace="claude-code", quality_floor=0.8))
    choose(app, PUBLISHED)
    (said,) = [block.value for block in app.warning if "In this scenario" in block.value]
    assert "Sticky (" in said and "emit less than CarbonRouter, published rule (" in said
    run = compare(app.session_state["scenario"], (PUBLISHED, "sticky", "largest-model"))
    assert run.figures("sticky")["carbon_g"] < run.figures(PUBLISHED)["carbon_g"]
    assert ("Largest model" in said) == (
        run.figures("largest-model")["carbon_g"] < run.figures(PUBLISHED)["carbon_g"]
    )


def test_no_simple_policy_is_named_where_none_emits_less(open_app: Callable[..., AppTest]) -> None:
    assert not [block for block in open_app().warning if "In this scenario" in block.value]


def test_the_gate_threshold_moves_the_published_rule(open_app: Callable[..., AppTest]) -> None:
    app = open_app()
    hero, bars = html(app, "cr-hero"), bar_labels(app)
    assert any("published rule" in caption.value for caption in app.caption)

    app.slider(key="control_gate_threshold").set_value(0.0).run()

    assert "gate threshold 0.25 \N{RIGHTWARDS ARROW} 0" in html(app, "cr-strip")
    assert html(app, "cr-hero") == hero
    changed = [now for was, now in zip(bars, bar_labels(app), strict=True) if now != was]
    assert len(changed) == 1 and changed[0].startswith("CarbonRouter, published rule")
    choose(app, PUBLISHED)
    hero = html(app, "cr-hero")
    app.slider(key="control_gate_threshold").set_value(0.25).run()
    assert html(app, "cr-hero") != hero
    assert not any("Acts on the published rule" in caption.value for caption in app.caption)


def test_a_moved_slider_moves_the_figures(open_app: Callable[..., AppTest]) -> None:
    app = open_app()
    before = figures(app)

    app.slider(key="control_quality_floor").set_value(0.8).run()

    assert not app.exception
    assert figures(app) != before
    assert "<b>1 change</b> from preset Paper" in html(app, "cr-strip")


def test_the_way_back_to_the_preset(open_app: Callable[..., AppTest]) -> None:
    app = open_app()
    before = figures(app)
    (back,) = [button for button in app.button if "Back to preset" in button.label]
    assert back.disabled

    app.slider(key="control_idle_s").set_value(10.0).run()
    (back,) = [button for button in app.button if "Back to preset" in button.label]
    assert not back.disabled
    back.click().run()

    assert app.slider(key="control_idle_s").value == 60.0
    assert figures(app) == before


def test_a_preset_sets_the_controls(open_app: Callable[..., AppTest]) -> None:
    app = open_app()

    app.selectbox(key="control_preset").set_value("Prompt cache").run()

    assert app.session_state["scenario"].copies == "all"
    assert app.slider(key="control_idle_s").value == 10.0
    assert app.session_state["scenario"] == PRESETS["Prompt cache"]
    saving = compare(PRESETS["Prompt cache"], MAIN).saving(LOOKAHEAD)
    assert f"<strong>{fmt.percent(saving.value_percent)}</strong>" in html(app, "cr-hero")


def test_coding_agents(open_app: Callable[..., AppTest]) -> None:
    app = open_app()

    app.radio(key="control_trace").set_value("claude-code").run()

    saving = compare(Scenario(trace="claude-code"), MAIN).saving(LOOKAHEAD)
    assert f"<strong>{fmt.percent(saving.value_percent)}</strong>" in html(app, "cr-hero")
    assert "fit in no model; they are not served" in html_blocks(app)
    assert "drawn" in html_blocks(app), "how difficulty came about is said"


def test_nothing_chosen_is_said_and_can_be_mended(open_app: Callable[..., AppTest]) -> None:
    app = open_app()
    before = figures(app)
    chosen = app.multiselect(key="control_regions").value

    app.multiselect(key="control_regions").set_value([]).run()
    assert not app.exception
    assert "regions is empty" in html(app, "cr-problem").lower()
    assert not app.get("plotly_chart")

    app.multiselect(key="control_regions").set_value(chosen).run()
    assert figures(app) == before
    app.multiselect(key="control_regions").set_value([]).run()
    (back,) = [button for button in app.button if "Back to preset" in button.label]
    back.click().run()
    assert app.multiselect(key="control_regions").value == chosen
    assert figures(app) == before


def test_days_without_data_say_why(open_app: Callable[..., AppTest]) -> None:
    app = open_app()
    days = app.date_input(key="control_window_start")
    assert (str(days.min), str(days.max)) == ("2021-01-01", "2024-12-31")

    regions = app.multiselect(key="control_regions")
    regions.set_value([*regions.value, "europe-west9"]).run()  # Paris: 2022 only

    assert "2022-01-01" in html(app, "cr-problem") and "FR" in html(app, "cr-problem")
    assert any("2022-01-01 to 2022-12-31" in caption.value for caption in app.caption)
    app.date_input(key="control_window_start").set_value("2022-05-09").run()
    assert "cr-hero" in html_blocks(app)


def test_presenting_hides_the_controls_and_keeps_the_scenario(
    open_app: Callable[..., AppTest],
) -> None:
    app = open_app()
    app.slider(key="control_gate_threshold").set_value(0.5).run()
    heights = [
        json.loads(chart.proto.spec)["layout"]["height"] for chart in app.get("plotly_chart")
    ]
    hero = html(app, "cr-hero")

    app.toggle(key="present").set_value(True).run()
    assert not app.sidebar.slider
    assert html(app, "cr-hero") == hero
    larger = [json.loads(chart.proto.spec)["layout"]["height"] for chart in app.get("plotly_chart")]
    assert all(big > small for big, small in zip(larger, heights, strict=True))

    app.toggle(key="present").set_value(False).run()
    assert app.slider(key="control_gate_threshold").value == 0.5
    assert html(app, "cr-hero") == hero


def test_one_deployment_leaves_nothing_to_choose(open_app: Callable[..., AppTest]) -> None:
    app = open_app(
        Scenario(regions=("europe-west2",), gpus=("H100-80GB",), models=("Gemma-3-27B",))
    )

    assert "as much CO2e as FairCarbon" in html(app, "cr-hero")
    assert not re.search(r"\b(nan|inf|None)\b", html_blocks(app))
    assert "No session ever moves" in html_blocks(app)


def test_a_hostile_name_is_shown_as_text(open_app: Callable[..., AppTest]) -> None:
    app = open_app(Scenario(name='<script>alert(1)</script><img src=x onerror="alert(2)">'))

    assert "<script>" not in html_blocks(app) and "<img" not in html_blocks(app)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html(app, "cr-strip")


def test_a_defect_shows_no_traceback(
    open_app: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(scenario: Scenario, router: str) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(cache, "overview", broken)
    app = open_app()

    assert "Something went wrong" in html(app, "cr-problem")
    assert "secret" not in html_blocks(app)
    assert app.slider(key="control_gate_threshold")


def test_two_tabs_do_not_mix(open_app: Callable[..., AppTest]) -> None:
    one, other = open_app(), open_app()
    before = figures(other)

    one.slider(key="control_quality_floor").set_value(0.75).run()
    other.run()

    assert figures(other) == before
    assert other.slider(key="control_quality_floor").value == 0.65
