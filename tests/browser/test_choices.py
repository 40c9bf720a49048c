"""Pages Scenario and Compare in a real browser: by keyboard, on a phone, and how fast."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from .tab import Tab

pytestmark = pytest.mark.browser

OpenTab = Callable[..., Tab]
PHONE = {"width": 390, "height": 844}
ANSWER_WITHIN_S = 5.0
"""Far more than the 1 s that is aimed at, for slow machines; the time measured is printed."""
ANSWER = ".st-key-scenario-columns .cr-answer"
FIGURES = ".st-key-scenario-columns .cr-table"


def test_choices_by_keyboard_are_answered_at_once(
    open_tab: OpenTab, measured: Callable[[str], None]
) -> None:
    tab = open_tab()
    tab.go_to("Scenario", ANSWER)
    tab.wait_until_done(ANSWER)
    waits = []
    for _ in range(3):  # scenarios never run before
        before = tab.page.locator(FIGURES).inner_html()
        handle = tab.page.get_by_role("slider", name="Quality floor")
        handle.focus()
        began = time.monotonic()
        handle.press("ArrowRight")
        tab.page.wait_for_function(
            "([where, before]) => (t => t && t.innerHTML != before)(document.querySelector(where))",
            arg=[FIGURES, before],
        )
        waits.append(time.monotonic() - began)
        tab.wait_until_done(ANSWER)
    box = tab.page.get_by_test_id("stMain").get_by_role("checkbox", name="B200-180GB").first
    box.focus()
    box.press("Space")
    expect(tab.page.get_by_text("2 differences from preset Paper")).to_be_visible(timeout=60_000)
    tab.page.get_by_role("button", name="Undo").first.focus()
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_text("1 difference from preset Paper")).to_be_visible(timeout=60_000)
    tab.wait_until_done(ANSWER)
    tab.shot("scenario-1440")
    assert tab.errors == []
    measured("a choice answered after " + ", ".join(f"{wait:.2f} s" for wait in waits))
    assert statistics.median(waits) < ANSWER_WITHIN_S


@pytest.mark.parametrize(("title", "drawn"), [("Scenario", ANSWER), ("Compare", ".cr-verdict")])
def test_a_phone_shows_everything_without_sideways_scrolling(
    open_tab: OpenTab, title: str, drawn: str
) -> None:
    tab = open_tab(**PHONE, scheme="dark")
    tab.go_to(title, drawn)
    tab.wait_until_done(drawn)

    tab.shot(f"{title.lower()}-390")
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for selector in (drawn, ".cr-table", "[data-testid=stPlotlyChart]"):
        for part in tab.page.locator(selector).all():
            box = part.bounding_box()
            inside = part.evaluate("e => !!e.closest('.cr-wide')")  # scrolls by itself
            assert inside or box is None or box["x"] + box["width"] <= PHONE["width"], selector
    assert tab.foreign_requests() == []
