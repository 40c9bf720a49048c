"""The first visit to a server by the address of a page: as complete as any later one."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.fixtures import opener, running_app
from tests.browser.tab import Tab

pytestmark = pytest.mark.browser

DRAWN = ".cr-strip h1"


def content_width(tab: Tab) -> float:
    box = tab.page.get_by_test_id("stMainBlockContainer").bounding_box()
    assert box is not None
    return box["width"]


def test_the_first_visit_may_be_to_any_page(
    browser: Browser, compiled: None, tmp_path: Path
) -> None:
    with running_app(tmp_path) as origin, opener(browser, origin) as open_tab:
        first = open_tab("traffic_data", drawn=DRAWN)
        first.shot("first-visit")
        later = open_tab("traffic_data", drawn=DRAWN)
        for tab in (first, later):
            assert tab.text(DRAWN) == "Traffic data"
            expect(tab.page).to_have_title("CarbonRouter")
            expect(tab.page.get_by_role("dialog")).to_have_count(0)
            titles = tab.page.get_by_test_id("stSidebarNavLink").all_inner_texts()
            assert [title.split("\n")[-1] for title in titles][:2] == ["Overview", "Scenario"]
            assert len(titles) == 10
        assert content_width(first) == content_width(later)
        first.go_to("Method", drawn=DRAWN)
        assert first.text(DRAWN) == "Method"
