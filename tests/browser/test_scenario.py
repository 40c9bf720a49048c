"""Page Scenario in a real browser: every kind of choice can be made by keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.fixtures import OpenTab

pytestmark = pytest.mark.browser

ANSWER = ".st-key-scenario-columns .cr-answer"
FIGURES = ".st-key-scenario-columns .cr-table"


def test_choices_by_keyboard(open_tab: OpenTab) -> None:
    tab = open_tab("scenario", ANSWER)
    before = tab.text(FIGURES)
    handle = tab.page.get_by_role("slider", name="Quality floor")
    handle.focus()
    handle.press("ArrowRight")
    expect(tab.page.get_by_text("1 difference from preset Paper")).to_be_visible()
    tab.wait_for_change(FIGURES, before)
    tab.wait_until_done(ANSWER)
    box = tab.page.get_by_test_id("stMain").get_by_role("checkbox", name="B200-180GB").first
    box.focus()
    box.press("Space")
    expect(tab.page.get_by_text("2 differences from preset Paper")).to_be_visible()
    tab.page.get_by_role("button", name="Undo").first.focus()
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_text("1 difference from preset Paper")).to_be_visible()
    tab.wait_until_done(ANSWER)
    tab.shot("scenario-1440")
    assert tab.errors == []
