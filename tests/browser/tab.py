"""A browser tab with the app in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Page

from tests.waiting import attempts

ARTIFACTS = Path(__file__).resolve().parents[1] / "artifacts"
DRAWN = ".cr-hero, .cr-problem"
"""What page Overview shows once it has drawn its answer."""
IDLE = "[data-testid=stApp][data-test-script-state=notRunning]"
"""The app while no script of a page runs."""


@dataclass
class Tab:
    """A browser tab with the app in it, and where its requests went."""

    page: Page
    origin: str
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def open(self, address: str, drawn: str) -> None:
        """Go to an address of the app and wait until the page there is drawn."""
        self.page.goto(f"{self.origin}/{address}")
        self.wait_until_done(drawn)

    def wait_until_done(self, drawn: str = DRAWN) -> None:
        """Until the script has run to its end and the page has drawn it."""
        self.page.wait_for_selector(drawn)
        self.page.wait_for_selector(IDLE)
        # A browser that has just learned something, such as its width, may begin another run.
        self.page.wait_for_timeout(300)
        self.page.wait_for_selector(IDLE)

    def go_to(self, title: str, drawn: str) -> None:
        """Choose a page in the menu and wait until something that matches ``drawn`` is there."""
        link = self.page.get_by_test_id("stSidebarNav").get_by_text(title, exact=True)
        link.wait_for(state="attached")
        opener = self.page.get_by_test_id("stExpandSidebarButton")
        if opener.is_visible():  # on a phone the menu is folded away
            opener.click()
        link.click()
        self.wait_until_done(drawn)

    def wait_for_change(self, selector: str, before: str) -> None:
        """Until what an element says is no longer ``before``, as :meth:`text` gave it."""
        self.page.wait_for_function(
            """([selector, before]) => {
                 const found = document.querySelector(selector);
                 return found && found.innerText.replaceAll("\\u202f", " ") != before;
               }""",
            arg=[selector, before],
        )

    def attempts(self) -> Iterator[None]:
        """Now and again, until patience runs out: for what the page cannot be asked to wait for."""
        return attempts(lambda pause_s: self.page.wait_for_timeout(1000 * pause_s))

    def text(self, selector: str) -> str:
        """Text of an element, with ordinary spaces."""
        return self.page.locator(selector).first.inner_text().replace("\u202f", " ")

    def width(self) -> int:
        """Of the whole page, with what must be scrolled to sideways."""
        return int(self.page.evaluate("document.documentElement.scrollWidth"))

    def shot(self, name: str) -> None:
        """Keep a screenshot for people to look at."""
        ARTIFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png")

    def foreign_requests(self) -> list[str]:
        """Requests that left the app's own origin."""
        own = (self.origin + "/", self.origin.replace("http", "ws", 1) + "/", "data:", "blob:")
        return [url for url in self.requests if not url.startswith(own)]
