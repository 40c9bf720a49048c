"""Page Compare as a user meets it: policies, scenarios, differences, and what cannot be run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from carbonrouter_core import Comparison, Scenario, compare
from carbonrouter_core.results.breakdowns import MEANS, SUMS
from carbonrouter_core.results.tradeoffs import SHARES
from carbonrouter_core.routing.policies import ROUTER
from carbonrouter_core.store.store import open_store
from carbonrouter_core.words import figures as fmt
from pages.parts.compare import entries, plots, sentences, tables
from pages.parts.compare.entries import Entry, Results, Scale
from pages.shared import cache, jobs
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
LOOKAHEAD = ROUTER

OpenPage = Callable[..., AppTest]


@pytest.fixture
def open_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenPage]:
    """Opens the page in a browser tab of its own; the store is empty at first."""
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))

    def start(scenario: Scenario | None = None, **state: object) -> AppTest:
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE_S)
        if scenario is not None:
            app.session_state["scenario"] = scenario
        for key, value in state.items():
            app.session_state[key if key == jobs.STOPPED else f"kept:compare-{key}"] = value
        app.switch_page("pages/compare.py")
        app.run()
        assert not app.exception
        return app

    yield start


@pytest.fixture(scope="module")
def both() -> Comparison:
    return compare(Scenario(), (LOOKAHEAD, "faircarbon"))


def plain(markup: str) -> str:
    return re.sub(r"<[^>]+>", "", markup).replace(fmt.NARROW_SPACE, " ")


def words(app: AppTest) -> str:
    bodies = [block.proto.body for block in app.get("html")]
    return plain("\n".join(body for body in bodies if not body.startswith("<style")))


def alts(app: AppTest) -> list[str]:
    return [chart.proto.alt.replace(fmt.NARROW_SPACE, " ") for chart in app.get("plotly_chart")]


# --- Policies ---------------------------------------------------------------------------------


def test_a_newcomer_sees_who_emits_least_and_what_it_costs(
    open_page: OpenPage, both: Comparison
) -> None:
    app = open_page()

    saving = both.saving(LOOKAHEAD)
    ours, theirs = (both.figures(name) for name in both.runs)
    told = words(app)
    assert f"look-ahead emits {saving.value_percent:.1f} % less CO2e than FairCarbon" in told
    assert f"between {saving.low_percent:.1f} and {saving.high_percent:.1f} % less" in told
    sooner = theirs["ttft_ms_mean"] - ours["ttft_ms_mean"]
    assert f"the first token comes {sooner:.0f} ms sooner" in told
    assert "no router can do this" in told and "on the Pareto front" in told
    for policy_id in both.runs:
        assert f"{both.figures(policy_id)['latency_gap_ms']:.0f} ms" in told, "fairness"
    assert len(app.get("plotly_chart")) == 7
    for chart in app.get("plotly_chart"):
        layout = json.loads(chart.proto.spec)["layout"]
        assert layout["title"]["text"] and len(chart.proto.alt) > 60
        assert layout["xaxis"]["title"]["text"] and layout["yaxis"]["title"]["text"]


def test_what_was_stopped_is_left_out_until_it_is_run_after_all(open_page: OpenPage) -> None:
    stopped = ("side", cache.key_of(Scenario()), "sticky")
    app = open_page(policies=[LOOKAHEAD, "faircarbon", "sticky"], **{jobs.STOPPED: {stopped}})
    assert "Stopped: replaying Sticky." in words(app)
    assert "less CO2e than FairCarbon" in words(app)
    assert not any("Sticky" in alt for alt in alts(app))
    app.button(key="again-" + "-".join(stopped)).click().run()
    assert not app.exception
    assert "Stopped" not in words(app)
    assert any("Sticky" in alt for alt in alts(app))


def test_a_breakdown_adds_up_to_the_difference(open_page: OpenPage, both: Comparison) -> None:
    app = open_page(policies=[LOOKAHEAD, "faircarbon"])
    total_g = both.figures(LOOKAHEAD)["carbon_g"] - both.figures("faircarbon")["carbon_g"]
    told = f"In all {plots.signed(total_g)} g CO2e"

    for dimension in ("model", "region", "gpu", "turns_per_session", "hour_utc", "user_region"):
        app.get("button_group")[1].set_value(dimension)
        app.run()
        assert not app.exception
        (chart,) = [
            json.loads(chart.proto.spec)
            for chart in app.get("plotly_chart")
            if chart.proto.alt.startswith("Bar chart of carbon by")
        ]
        subtitle = chart["layout"]["title"]["subtitle"]["text"].replace(fmt.NARROW_SPACE, " ")
        assert subtitle.startswith(told), dimension


def test_the_reference_can_be_another(open_page: OpenPage) -> None:
    app = open_page(policies=[LOOKAHEAD, "faircarbon", "sticky"])
    (box,) = [box for box in app.selectbox if box.key == "compare-against-policies"]
    box.set_value("2:Sticky")
    app.run()
    assert not app.exception
    assert "less CO2e than Sticky" in words(app)


def test_one_alone_is_no_comparison(open_page: OpenPage) -> None:
    app = open_page(policies=["sticky"])
    assert "Choose at least two above" in words(app)
    assert not app.get("plotly_chart")


def test_the_optimum_is_called_what_it_is(open_page: OpenPage) -> None:
    app = open_page(
        Scenario(latency_ceiling_ms=20_000.0, fairness_weight=1.0),
        policies=["faircarbon", "hindsight-optimum"],
    )
    assert "Best found in hindsight" in words(app) and "Hindsight optimum" not in words(app)
    app = open_page(Scenario(copies="all"))
    assert "hindsight" not in words(app).lower(), "that search takes long: only when asked for"


def test_a_scenario_that_makes_none_is_said(open_page: OpenPage) -> None:
    app = open_page()
    app.multiselect(key="control_regions").set_value([])
    app.run()
    assert "Regions is empty" in words(app)
    assert not app.get("plotly_chart")


def test_a_defect_shows_no_traceback(open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(entries, "of_policy", broken)
    app = open_page()
    assert "Something went wrong here" in words(app) and "secret" not in words(app)


# --- Scenarios --------------------------------------------------------------------------------


def test_saved_scenarios_side_by_side(open_page: OpenPage) -> None:
    strict = Scenario(name="Strict", quality_floor=0.8)
    open_store().save_scenario("Strict", strict.to_json())
    app = open_page(mode="scenarios")

    ours = compare(strict, (LOOKAHEAD,)).figures(LOOKAHEAD)["carbon_g"]
    theirs = compare(Scenario(), (LOOKAHEAD,)).figures(LOOKAHEAD)["carbon_g"]
    more = 100 * (ours / theirs - 1)
    assert f"Strict emits {more:.1f} % more CO2e than On screen: Paper" in words(app)
    assert "quality floor 0.65 \N{RIGHTWARDS ARROW} 0.8" in words(app)


def test_other_traffic_is_compared_by_the_turn(open_page: OpenPage) -> None:
    agents = Scenario(name="Agents", trace="claude-code")
    open_store().save_scenario("Agents", agents.to_json())
    app = open_page(mode="scenarios")
    assert "carbon is for a million turns of each" in words(app)
    assert "CO2e a million turns" in words(app)


def test_a_scenario_that_cannot_be_run_leaves_the_others(open_page: OpenPage) -> None:
    open_store().save_scenario("Old", '{"gate": 1}')
    far = Scenario(name="Far", regions=("europe-west9",))
    open_store().save_scenario("Far", far.to_json())
    app = open_page(
        mode="scenarios", scenarios=["screen", "preset:Prompt cache", "saved:Old", "saved:Far"]
    )
    assert "Old cannot be run" in words(app) and "Far cannot be run" in words(app)
    assert "Preset Prompt cache emits" in words(app)


def test_the_scenario_page_leads_here(open_page: OpenPage) -> None:
    open_store().save_scenario("Strict", Scenario(name="Strict", quality_floor=0.8).to_json())
    app = open_page()
    app.switch_page("pages/scenario.py").run()
    app.button(key="scenario-compare").click().run()
    assert not app.exception
    assert "Strict emits" in words(app)


def test_a_hostile_name_is_text(open_page: OpenPage) -> None:
    name = "<img src=x onerror=alert(1)>"
    open_store().save_scenario(name, Scenario(name=name, quality_floor=0.7).to_json())
    app = open_page(mode="scenarios")
    assert not any("<img" in block.proto.body for block in app.get("html"))
    assert not any("<img" in chart.proto.spec for chart in app.get("plotly_chart"))


# --- Small parts ------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_bootstrap_is_kept() -> None:
    """Sides made up here have the same keys."""
    entries._saving.clear()


def entry(name: str, **figures: float) -> Entry:
    usual = {
        "turns": 100.0, "unserved_turns": 0.0, "carbon_g": 50.0, "energy_kwh": 1.0,
        "recompute_share": 0.1, "moves_per_session": 1.0, "quality_mean": 0.7,
        "ttft_ms_mean": 200.0, "ttft_ms_p95": 400.0, "latency_ms_mean": 9000.0,
        "latency_ms_p95": 20000.0,
    }  # fmt: skip
    values = usual | figures
    table = pd.DataFrame(1.0, index=["here", "there"], columns=[*SUMS, *MEANS])
    return Entry(
        name=name,
        short=name,
        policy_id="sticky",
        scenario=Scenario(),
        colour="#0072B2",
        dash="solid",
        symbol="circle",
        results=Results(
            figures=values,
            by={"region": table},
            waits={name: np.linspace(10, 1000, len(SHARES)) for name in entries.WAITS},
            fairness=pd.DataFrame({"quality_mean": [0.7]}, index=["here"]),
            session_g=np.full(10, values["carbon_g"] / 10),
            traffic="one",
            optimum_label="Hindsight optimum",
        ),
    )


def test_signs() -> None:
    assert plots.signed(-0.0541) == "\N{MINUS SIGN}0.054"
    assert plots.signed(12.34) == "+12.3"
    assert plots.signed(0.0) == "0"
    assert plots.signed(float("nan")) == "n/a"


def test_losing_is_said_as_losing() -> None:
    told = plain(
        sentences.sentence(
            entry("A", carbon_g=60.0, ttft_ms_mean=300.0, quality_mean=0.68), entry("B")
        )
    )
    assert told == (
        "A emits 20.0 % more CO2e than B; the first token comes 100 ms later, the whole turn as "
        "soon, and predicted quality is 2.0 points lower."
    )


def test_against_nothing_there_is_no_saving() -> None:
    told = plain(sentences.sentence(entry("A"), entry("B", carbon_g=0.0)))
    assert told == "B emits nothing here, so no saving can be given."
    shown = [entry("A"), entry("B", carbon_g=0.0, quality_mean=float("nan"))]
    scale = Scale.of(shown)
    table = plain(tables.figures(shown, shown[1], entries.front(shown), scale))
    chart = plots.trade_off(shown, entries.front(shown), plots.QUALITY, scale)
    for text in (table, chart.alt):
        assert not re.search(r"\b(nan|inf|None)\b", text)


def test_what_hardly_differs_is_not_blown_up() -> None:
    shown = [entry("A", latency_ms_mean=9000.0), entry("B", latency_ms_mean=9001.0)]
    scale = Scale.of(shown)
    chart = plots.trade_off(shown, [True, True], plots.LATENCY, scale)
    low, high = chart.figure.layout.yaxis.range
    assert high - low > 0.1 * 9.0
    assert low < 9.0 < high


def test_marks_tell_the_front_without_colour() -> None:
    shown = [entry("A", carbon_g=10.0), entry("B", carbon_g=20.0)]
    on_front = entries.front(shown)
    assert on_front == [True, False]
    chart = plots.trade_off(shown, on_front, plots.LATENCY, Scale.of(shown))
    assert [mark.marker.symbol for mark in chart.figure.data] == ["circle", "circle-open"]
    assert "A: 10" in chart.alt and "on the front" in chart.alt
