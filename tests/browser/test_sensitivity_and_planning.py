"""Pages Sensitivity and Energy planning in a real browser: a sweep to its end, a schedule."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from carbonrouter_core import Scenario, compare
from carbonrouter_core.routing.policies import ROUTER
from carbonrouter_core.studies import planning, sensitivity
from carbonrouter_core.studies.sweep import Axis, Question, Sweep, run_points
from carbonrouter_core.words import figures as fmt
from pages.parts.energy_planning import choice
from tests.browser.fixtures import OpenTab

pytestmark = pytest.mark.browser

VERDICT = ".cr-verdict"
POINTS = 3


def test_a_sweep_runs_to_its_end_whatever_is_clicked_meanwhile(open_tab: OpenTab) -> None:
    tab = open_tab("sensitivity", ".cr-empty")
    page = tab.page
    page.get_by_role("radio", name="One input").or_(
        page.get_by_role("button", name="One input")
    ).first.click()
    values = page.get_by_test_id("stNumberInput").filter(has_text="Values").locator("input")
    values.fill(str(POINTS))
    values.press("Enter")
    expect(page.get_by_text(f"{POINTS} runs")).to_be_visible()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("button", name="Stop", exact=True).wait_for()
    tab.shot("sensitivity-running")
    page.get_by_test_id("stSidebar").get_by_text("Gate (the published rule)").click()
    page.wait_for_selector(VERDICT)
    chart = page.locator("[aria-label^='Line chart of the CO2e saved over Cache kept unused']")
    expect(chart).to_be_visible()
    tab.shot("sensitivity-line")

    scenario = Scenario()
    question = Question((ROUTER, "faircarbon"))  # all sessions, unless a sample is asked for
    axis = Axis("idle_s", sensitivity.spaced_values("idle_s", POINTS))
    points = Sweep(scenario, (axis,), question).points()
    outcomes = dict(run_points(points, question, own_series={}))  # the app holds the store
    savings = [sensitivity.saving_of(outcomes[number], ROUTER) for number in range(POINTS)]
    said = tab.text(VERDICT)
    for saving in (min(savings), max(savings)):
        assert fmt.less_or_more(saving).replace(fmt.NARROW_SPACE, " ") in said
    assert tab.errors == [] and tab.foreign_requests() == []


def test_the_schedule_that_is_downloaded_is_that_of_the_engine(
    open_tab: OpenTab, tmp_path: Path
) -> None:
    tab = open_tab("energy_planning", VERDICT)
    page = tab.page
    volume = (
        page.get_by_test_id("stNumberInput").filter(has_text="Conversations a day").locator("input")
    )
    volume.fill("1000000")
    volume.press("Enter")
    expect(page.locator(VERDICT).first).to_contain_text("At 1,000,000 conversations a day")
    tab.wait_until_done(VERDICT)
    tab.shot("energy-planning-1440")
    button = page.get_by_test_id("stDownloadButton").filter(has_text="schedule")
    with page.expect_download() as started:
        button.get_by_role("button").click()
    path = tmp_path / "schedule.csv"
    started.value.save_as(path)

    run = compare(Scenario(), choice.policies(ROUTER))
    factor = planning.volume_factor(run, 1_000_000.0)
    loads = [planning.hourly_load(run, name).times(factor) for name in run.runs]
    assert path.read_bytes() == planning.schedule_csv(run, loads).encode()
    assert started.value.suggested_filename == "carbonrouter-schedule.csv"
    assert tab.errors == [] and tab.foreign_requests() == []
