"""A browser tab with the app in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Page

ARTIFACTS = Path(__file__).resolve().parents[1] / "artifacts"
FIRST_RUN_MS = 180_000  # kernels may have to be compiled
DRAWN = ".cr-hero, .cr-problem"
"""What page Overview shows once it has drawn its answer."""


@dataclass
class Tab:
    """A browser tab with the app in it, and where its requests went."""

    page: Page
    origin: str
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def wait_until_done(self, drawn: str = DRAWN) -> None:
        """Until the script has run to its end and the page has drawn it."""
        self.page.wait_for_selector(drawn, timeout=FIRST_RUN_MS)
        self.page.wait_for_timeout(500)
        self.page.wait_for_function(
            "!document.querySelector('[data-testid=stStatusWidget]')", timeout=FIRST_RUN_MS
        )
        self.page.wait_for_timeout(500)

    def go_to(self, title: str, drawn: str) -> None:
        """Choose a page in the menu and wait until something that matches ``drawn`` is there."""
        link = self.page.get_by_test_id("stSidebarNav").get_by_text(title, exact=True)
        link.wait_for(state="attached", timeout=FIRST_RUN_MS)
        opener = self.page.get_by_test_id("stExpandSidebarButton")
        if opener.is_visible():  # on a phone the menu is folded away
            opener.click()
        link.click()
        self.page.wait_for_selector(drawn, timeout=FIRST_RUN_MS)

    def text(self, selector: str) -> str:
        """Text of an element, with ordinary spaces."""
        return self.page.locator(selector).inner_text().replace("\u202f", " ")

    def shot(self, name: str) -> None:
        """Keep a screenshot for people to look at."""
        ARTIFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png")

    def foreign_requests(self) -> list[str]:
        """Requests that left the app's own origin."""
        own = (self.origin + "/", self.origin.replace("http", "ws", 1) + "/", "data:", "blob:")
        return [url for url in self.requests if not url.startswith(own)]
