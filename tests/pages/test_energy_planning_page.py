"""Page Energy planning as a user meets it: the figures of ``plan``, peaks, a year, the schedule."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from carbonrouter_core import Scenario, compare, units
from carbonrouter_core.cli.main import main
from carbonrouter_core.routing.policies import ROUTER
from carbonrouter_core.studies import planning
from carbonrouter_core.studies.planning import HourlyLoad, YearProjection
from carbonrouter_core.studies.sweep import Question, run_points
from carbonrouter_core.words import figures as fmt
from pages.parts.energy_planning import choice, plots, sentences, year
from pages.parts.energy_planning.choice import Choice
from pages.shared import processes
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
JOB = year.JOB
CHOICE = Choice(1000.0, 80.0, ROUTER, "faircarbon", "energy")

OpenPage = Callable[..., AppTest]


@pytest.fixture
def open_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenPage]:
    """Opens the page in a browser tab of its own; runs go on in threads, which start at once."""
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))

    def start(scenario: Scenario | None = None, **choices: object) -> AppTest:
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE_S)
        if scenario is not None:
            app.session_state["scenario"] = scenario
        for key, value in choices.items():
            name = "volume-sharegpt-14" if key == "volume" else key
            app.session_state[f"kept:plan-{name}"] = value
        app.switch_page("pages/energy_planning.py")
        app.run()
        assert not app.exception
        return app

    with ThreadPoolExecutor(2) as threads:
        monkeypatch.setattr(processes.POOL, "_executor", threads)
        yield start


def plain(markup: str) -> str:
    return re.sub(r"<[^>]+>", "|", markup).replace(fmt.NARROW_SPACE, " ")


def words(app: AppTest) -> str:
    said = [one.value for one in [*app.warning, *app.info, *app.error]]
    bodies = [block.proto.body for block in app.get("html")]
    return plain("\n".join([*said, *(body for body in bodies if "<style" not in body)]))


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """What ``plan`` prints at 1,000 conversations a day and 80 a tonne."""
    import contextlib
    import io

    arguments = ["plan", "--sessions-per-day", "1000", "--carbon-price", "80", "--json"]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(arguments) == 0
    return json.loads(out.getvalue())


# --- The page ---------------------------------------------------------------------------------


def test_the_figures_are_those_of_the_command_line(open_page: OpenPage, planned: dict) -> None:
    app = open_page(volume=1000.0, price=80.0)
    said, policies = words(app), planned["policies"]
    ours, theirs = policies[ROUTER], policies["faircarbon"]
    mass = fmt.Mass.for_largest(ours["carbon_g_per_day"])
    assert "At 1,000 conversations a day, CarbonRouter with look-ahead draws |" in said
    assert plain(fmt.energy(ours["energy_kwh_per_day"])) in said
    assert plain(f"{mass.text(ours['carbon_g_per_day'])} CO2e") in said
    saved = 100 * (1 - ours["carbon_g_per_day"] / theirs["carbon_g_per_day"])
    assert f"|{plain(fmt.less_or_more(saved))}| than FairCarbon" in said
    assert f"that carbon costs {sentences.money(ours['carbon_cost_per_day'])} a day" in said
    power = units.power_scale(max(row["peak_kw"] for row in ours["regions"]))
    for row in ours["regions"]:
        for column in ("mean_kw", "peak_kw", "typical_peak_kw"):
            assert plain(sentences.scaled(row[column], power)) in said
        if row["peak_hour_utc"] is not None:
            at = pd.Timestamp(row["peak_hour_utc"])
            assert at.strftime("%a %d %b %Y, %H:%M UTC") in said
            assert f"{row['typical_peak_hour_utc']:02d}:00 UTC" in said
    assert "is too high" in said
    assert len(app.get("plotly_chart")) == 4


def test_a_newcomer_sees_the_volume_of_the_traffic(open_page: OpenPage) -> None:
    app = open_page()
    assert app.number_input(key="plan-volume-sharegpt-14").value == 9349 / 14
    assert "At 668 conversations a day" in words(app)
    assert app.get("download_button")


def test_carbon_can_be_shown_and_other_policies_looked_at(open_page: OpenPage) -> None:
    app = open_page(amount="carbon", policy="sticky", against="faircarbon")
    titles = [json.loads(one.proto.spec)["layout"]["title"]["text"] for one in
              app.get("plotly_chart")]  # fmt: skip
    assert titles[:2] == ["A typical day: CO2e", "Hour by hour: CO2e"]
    assert "If Sticky replaces FairCarbon" in words(app)
    app.selectbox(key="plan-policy").set_value("faircarbon").run()
    assert not app.exception and app.selectbox(key="plan-against").value != "faircarbon"


def test_volume_and_price_outlast_a_visit_to_another_page(open_page: OpenPage) -> None:
    app = open_page()
    app.number_input(key="plan-price").set_value(50.0).run()
    app.number_input(key="plan-volume-sharegpt-14").set_value(2000.0).run()
    app.switch_page("pages/method.py").run()
    app.switch_page("pages/energy_planning.py").run()
    assert "At 2,000 conversations a day" in words(app) and "At 50 a tonne" in words(app)


def test_a_scenario_that_cannot_run_is_said(open_page: OpenPage) -> None:
    app = open_page(Scenario(window_start=date(2024, 12, 30)))
    assert "cannot be run" in words(app) and not app.get("plotly_chart")


def test_while_presenting_there_are_no_controls(open_page: OpenPage) -> None:
    app = open_page(volume=5000.0)
    app.toggle(key="present").set_value(True).run()
    assert not app.exception and not app.number_input and not app.selectbox
    assert "At 5,000 conversations a day" in words(app)
    assert len(app.get("plotly_chart")) == 4


# --- A year -----------------------------------------------------------------------------------


def test_a_year_is_that_of_the_core(open_page: OpenPage) -> None:
    app = open_page(volume=1000.0, price=80.0)
    assert app.selectbox(key="plan-year").options == ["2021", "2022", "2023", "2024"]
    app.selectbox(key="plan-year").set_value(2023).run()
    app.button(key=f"{JOB}-run").click().run()
    assert app.session_state[JOB].job.future.exception(timeout=PATIENCE_S) is None
    app.run()
    assert not app.exception
    names = choice.policies(ROUTER)
    points = planning.season_points(Scenario(), 2023)
    with ThreadPoolExecutor(2) as threads:
        outcomes = dict(run_points(points, Question(names, names[0], half="all"), threads))
    ordered = [outcomes[number] for number in range(4)]
    years = {name: planning.project_year(ordered, name, 1000.0) for name in names}
    assert plain(sentences.year_html(years, CHOICE)) in words(app)


def test_a_year_shows_how_far_it_is_and_can_be_stopped(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stuck(Executor):
        def submit(self, function, /, *arguments, **named) -> Future:
            return Future()

    app = open_page()
    monkeypatch.setattr(processes.POOL, "_executor", Stuck())
    app.button(key=f"{JOB}-run").click().run()
    (bar,) = app.get("progress")
    assert "0 of 4 runs" in bar.proto.text
    app.button(key=f"{JOB}-stop").click().run()
    app.session_state[JOB].job.future.exception(timeout=PATIENCE_S)
    app.run()
    assert "Stopped. 0 runs of 4" in words(app)


def test_a_season_that_cannot_run_is_named(open_page: OpenPage, monkeypatch) -> None:
    monkeypatch.setattr(year, "usable_starts", lambda scenario: [(-(10**5), 10**5)])
    monkeypatch.setattr(year, "years", lambda spans: [2090])
    app = open_page()
    app.button(key=f"{JOB}-run").click().run()
    assert app.session_state[JOB].job.future.exception(timeout=PATIENCE_S) is None
    app.run()
    assert "2090-01-15 cannot run" in words(app)


def test_without_a_common_year_there_is_no_button(open_page: OpenPage, monkeypatch) -> None:
    monkeypatch.setattr(year, "usable_starts", lambda scenario: [])
    app = open_page()
    assert "No year can be projected" in words(app)
    assert not any(one.key == f"{JOB}-run" for one in app.button)


def test_a_year_needs_a_window_in_each_season() -> None:
    def day(text: str) -> int:
        return (date.fromisoformat(text) - date(1970, 1, 1)).days

    assert year.years([(day("2021-01-01"), day("2022-10-15"))]) == [2021, 2022]
    assert year.years([(day("2021-01-16"), day("2022-10-14"))]) == []
    two = [(day("2021-01-01"), day("2021-05-01")), (day("2021-07-01"), day("2021-12-01"))]
    assert year.years(two) == [2021] and year.years([]) == []


# --- Words and charts, from loads made by hand ------------------------------------------------


def made(policy_id: str, kwh: list[float]) -> HourlyLoad:
    """A day in two regions: a steady draw in the first, twice that at noon; none in the second."""
    energy = np.array([[value] * 24 for value in kwh])
    energy[0, 12] *= 2
    return HourlyLoad(
        policy_id,
        ("europe-west2", "us-west2"),
        np.arange(24) * 3600,
        turns=energy,
        energy_kwh=energy,
        carbon_g=energy * 200,
        days=1.0,
    )


def test_the_answer_names_both_differences_and_the_cost() -> None:
    loads = {
        ROUTER: made(ROUTER, [1.0, 0.0]),
        "faircarbon": made("faircarbon", [2.0, 0.0]),
        "sticky": made("sticky", [1.0, 0.0]),
    }
    said = plain(sentences.answer(loads, CHOICE))
    assert "draws |25.0 kWh| and emits |5.00 kg CO2e| a day" in said
    assert "|50.0 % less| than FairCarbon and |as much| as Sticky" in said
    assert "At 80 a tonne, that carbon costs 0.400 a day and 146.10 in a year" in said


def test_peaks_of_the_typical_day_and_of_the_window() -> None:
    said = plain(sentences.regions_html(made(ROUTER, [1.0, 0.0])))
    assert "London||25.0 kWh||5.00 kg||1.04 kW||2.00 kW|12:00 UTC||" in said.replace("|\n", "")
    assert "2.00 kW|Thu 01 Jan 1970, 12:00 UTC" in said
    assert "Los Angeles||0 kWh||0 kg||0 kW||0 kW|never" in said


def test_moved_power_says_where_more_and_where_less() -> None:
    power_kw = np.zeros((2, 24))
    power_kw[0], power_kw[1, 5] = -2.0, 48.0
    said = sentences.moved(power_kw, ("europe-west2", "us-west2"), CHOICE).replace(
        fmt.NARROW_SPACE, " "
    )
    assert "London 2.00 kW less and Los Angeles 2.00 kW more" in said
    assert "The largest change is 48.0 kW more in Los Angeles at 05:00 UTC." in said
    none = sentences.moved(power_kw * 0, ("a", "b"), CHOICE)
    assert none.endswith("draws the same power as FairCarbon in every region.")
    chart = plots.moved(power_kw, ("europe-west2", "us-west2"), ROUTER, "faircarbon")
    (drawn,) = chart.figure.data
    assert (drawn.zmin, drawn.zmax) == (-48.0, 48.0)
    assert "Los Angeles: highest +48.0 kW at 05:00" in chart.alt


def test_clean_hours_say_where_the_profile_is_from() -> None:
    profile = planning.usual_profile(compare(Scenario(trace="claude-code"), ["sticky"]))
    said = plain(sentences.clean_hours(profile))
    london = profile[profile["region"] == "europe-west2"].sort_values("rank")
    hours = sorted(london["hour_utc"].head(4))
    assert f"|London|: {hours[0]:02d}, {hours[1]:02d}" in said and "no data before" not in said
    said = plain(sentences.clean_hours(profile.assign(from_window=profile["rank"] > 0)))
    assert (
        "There is no data before the window for Frankfurt, London, Los Angeles and Sydney" in said
    )


def test_charts_show_what_the_load_is() -> None:
    load, scale = made(ROUTER, [1.0, 0.5]), units.Scale(1.0, "kWh")
    (drawn,) = plots.typical_day(load, load.energy_kwh, scale, "energy").figure.data
    np.testing.assert_allclose(drawn.z, load.energy_kwh)
    assert list(drawn.y) == ["London", "Los Angeles"] and drawn.zmax == 2.0
    chart = plots.stacked(load, load.energy_kwh, scale, "energy")
    assert [one.name for one in chart.figure.data] == ["London", "Los Angeles"]
    assert [sum(one.y) for one in chart.figure.data] == [25.0, 12.0]
    assert "London 25.0 kWh; Los Angeles 12.0 kWh" in chart.alt


def test_a_year_in_words() -> None:
    seasons = [
        {"window_start": f"2023-{month:02d}-15", "energy_kwh_per_day": 1.0, "carbon_g_per_day": g}
        for month, g in ((1, 2e3), (4, 1e3), (7, 1e3), (10, 2e3))
    ]
    ours = YearProjection(ROUTER, 365.25, 1.5e3 * 365.25, tuple(seasons))
    theirs = YearProjection("faircarbon", 730.5, 3e3 * 365.25, tuple(seasons))
    said = plain(sentences.year_html({ROUTER: ours, "faircarbon": theirs}, CHOICE))
    assert "A day from 2023-01-15" in said and "2.00 kg||1.00 kg||1.00 kg||2.00 kg" in said
    assert "−50.0 %" in said and "43.83" in said  # 547.875 kg at 80 a tonne
