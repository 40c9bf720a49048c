"""Page Overview in a real browser: what only the browser knows of it. The map: test_map.py."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.fixtures import OpenTab

pytestmark = pytest.mark.browser


def test_presenting(open_tab: OpenTab) -> None:
    tab = open_tab()
    sidebar, figure = (
        tab.page.get_by_test_id("stSidebar"),
        tab.page.locator(".cr-hero-figure strong"),
    )
    small = figure.bounding_box()

    tab.page.get_by_text("Present", exact=True).click()
    expect(sidebar).not_to_be_visible()
    tab.wait_until_done()

    tab.shot("overview-present")
    large = figure.bounding_box()
    assert small is not None and large is not None
    assert large["height"] > 1.4 * small["height"]
    tab.page.get_by_text("Present", exact=True).click()
    expect(sidebar).to_be_visible()
    assert tab.errors == []


def test_what_is_chosen_in_the_sidebar_goes_along_to_other_pages(open_tab: OpenTab) -> None:
    tab = open_tab()
    sidebar, strip = tab.page.get_by_test_id("stSidebar"), tab.page.locator(".cr-strip")

    sidebar.get_by_role("combobox", name="Preset").click()
    tab.page.get_by_role("option", name="Prompt cache").click()
    expect(strip).to_contain_text("exactly as preset Prompt cache")
    tab.wait_until_done()
    regions = sidebar.get_by_role("combobox", name="Regions")
    regions.focus()
    regions.press("Backspace")
    expect(strip).to_contain_text("regions without Sydney")
    tab.wait_until_done()
    tab.shot("overview-changed")

    tab.go_to("Compare", ".cr-verdict")
    expect(strip).to_contain_text(re.compile("Compare.*regions without Sydney", re.DOTALL))
    assert tab.errors == []
    assert tab.foreign_requests() == []
