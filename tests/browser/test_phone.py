"""Every page on a phone: all that it shows fits the width, and the menu can be opened.

The map of page Overview is in test_map.py, the player of page Session replay in
test_session_replay.py.
"""

from __future__ import annotations

import pytest

from tests.browser.fixtures import OpenTab
from tests.browser.player import READY
from tests.browser.tab import DRAWN, Tab

pytestmark = pytest.mark.browser

WIDTH = 390
SHOWN = {
    "": DRAWN,
    "scenario": ".st-key-scenario-columns .cr-answer",
    "session_replay": READY,
    "compare": ".cr-verdict",
    "sensitivity": ".cr-empty",
    "energy_planning": ".cr-verdict",
    "traffic_data": "[data-testid=stFileUploader]",
    "grid_data": "text=How often each region is the cleanest",
    "report": "text=Download the figures",
    "method": ".cr-worked",
}
"""Address of each page, and what it shows once it is drawn."""

CUT_OFF = """width => {
  const parts = ".cr-hero, .cr-kpis, .cr-answer, .cr-verdict, .cr-table, .cr-empty, " +
    "[data-testid=stPlotlyChart], [data-testid=stMain] button";
  const main = document.querySelector("[data-testid=stMain]");
  const scrollsByItself = part => part != main && part.parentElement != null &&
    (/auto|scroll/.test(getComputedStyle(part).overflowX) || scrollsByItself(part.parentElement));
  return [...document.querySelectorAll(parts)]
    .filter(part => !scrollsByItself(part))
    .map(part => [part.className, part.getBoundingClientRect()])
    .filter(([_, box]) => box.width > 0 && (box.left < 0 || box.right > width))
    .map(([name, box]) => `${name}: ${box.left} to ${box.right}`);
}"""
"""The parts of a page that are not wholly in sight, and cannot be scrolled into it alone."""
LABELS_CUT_OFF = """() => [...document.querySelectorAll(".js-plotly-plot")].flatMap(plot => {
  const right = plot.getBoundingClientRect().right;
  return [...plot.querySelectorAll("text")]
    .filter(text => text.getBoundingClientRect().right > right + 1)
    .map(text => text.textContent);
})"""
"""Labels that stick out of their chart to the right."""


@pytest.fixture(scope="module")
def phone(open_lasting_tab: OpenTab) -> Tab:
    return open_lasting_tab(width=WIDTH, height=844, scheme="dark")


@pytest.mark.parametrize("address", SHOWN)
def test_a_page_fits(phone: Tab, address: str) -> None:
    phone.open(address, SHOWN[address])
    phone.shot(f"phone-{address or 'overview'}")
    assert phone.width() <= WIDTH
    main = phone.page.get_by_test_id("stMain")
    assert main.evaluate("main => main.scrollWidth") <= WIDTH
    assert phone.page.evaluate(CUT_OFF, WIDTH) == []
    assert phone.foreign_requests() == []
    assert phone.errors == []


@pytest.mark.parametrize("width", [WIDTH, 1440])
def test_no_label_of_a_grid_chart_is_cut_off(open_tab: OpenTab, width: int) -> None:
    tab = open_tab("grid_data", SHOWN["grid_data"], width=width)
    tab.page.wait_for_selector("text=Regions, their grids and sources")
    tab.page.wait_for_selector(".js-plotly-plot .heatmaplayer", state="attached")
    tab.shot(f"grid-{width}")
    assert tab.page.evaluate(LABELS_CUT_OFF) == []
    assert tab.width() <= width
    assert tab.foreign_requests() == []
    assert tab.errors == []


def test_controls_and_menu_are_behind_a_button(phone: Tab) -> None:
    phone.open("", DRAWN)
    phone.page.get_by_test_id("stExpandSidebarButton").click()
    phone.page.get_by_role("slider", name="Gate threshold").wait_for()
    phone.go_to("Report", SHOWN["report"])
