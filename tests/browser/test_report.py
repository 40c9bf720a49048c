"""Page Report and links in a browser: what is downloaded is what was built, and links travel."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from carbonrouter_core import Scenario
from carbonrouter_core.report.links import link_text
from tests.browser.fixtures import OpenTab
from tests.browser.tab import Tab

pytestmark = pytest.mark.browser


def download(tab: Tab, kind: str, folder: Path) -> Path:
    """Build, wait, download; the page can be used meanwhile."""
    tab.page.locator(f".st-key-build-{kind} button").click()
    button = tab.page.locator(f".st-key-download-{kind} button")
    button.wait_for()
    with tab.page.expect_download() as started:
        button.click()
    path = folder / started.value.suggested_filename
    started.value.save_as(path)
    return path


def test_bundle_and_report_are_downloaded_whole(open_tab: OpenTab, tmp_path: Path) -> None:
    tab = open_tab("report", "text=Download the figures")
    bundle = download(tab, "bundle", tmp_path)
    with zipfile.ZipFile(bundle) as files:
        assert files.testzip() is None
        assert files.read("decisions.csv").count(b"\n") == 2 * 59_837 + 1
    report = download(tab, "html", tmp_path)
    assert report.suffix == ".html"
    tab.shot("report-page")
    page = tab.page.context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    assert page.locator("svg").count() == 4
    assert "less CO2e than FairCarbon" in page.locator(".answer").inner_text()
    assert len(asked) == 1
    assert tab.foreign_requests() == []
    assert tab.errors == []


def test_a_shared_link_opens_the_same_scenario_elsewhere(open_tab: OpenTab) -> None:
    tab = open_tab()
    tab.page.get_by_role("button", name="Share").click()
    link = tab.page.get_by_test_id("stCode").locator("code").inner_text()
    assert link.startswith(f"{tab.origin}/?s=2.")
    assert len(link) < 2000
    sent = link_text(Scenario(name="<b>Sent</b>", idle_s=600.0))
    tab.open(f"?s={sent}", ".cr-hero")
    assert "Scenario <b>Sent</b>" in tab.text(".cr-strip")
    assert "cache lifetime" in tab.text(".cr-strip")
    assert "?s=" not in tab.page.url  # the address stands for the tab, which may change
