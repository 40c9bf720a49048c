"""The session player as a test holds it."""

from __future__ import annotations

from dataclasses import dataclass

from playwright.sync_api import Locator

from tests.browser.tab import Tab

READY = ".player[data-ready]"


@dataclass
class Player:
    """The player of a page in a tab."""

    tab: Tab

    @property
    def root(self) -> Locator:
        return self.tab.page.locator(READY)

    @property
    def turn(self) -> int:
        """The turn that is shown, from 1."""
        return int(self.root.get_attribute("data-turn") or 0)

    @property
    def turns(self) -> int:
        return int(self.root.locator(".jump input").get_attribute("max") or 0)

    def text(self, selector: str) -> str:
        """Text of a part, with ordinary spaces."""
        return self.root.locator(selector).first.inner_text().replace("\u202f", " ")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.root.press(key)

    def jump(self, turn: int) -> None:
        """Type the number of a turn."""
        field = self.root.locator(".jump input")
        field.fill(str(turn))
        field.press("Enter")

    def button(self, name: str) -> Locator:
        return self.root.get_by_role("button", name=name, exact=True)

    def rows(self) -> list[list[str]]:
        """The table of candidates, with ordinary spaces."""
        cells = "rows => rows.map(row => [...row.children].map(cell => cell.textContent))"
        table: list[list[str]] = self.root.locator("tbody tr").evaluate_all(cells)
        return [[cell.replace("\u202f", " ") for cell in row] for row in table]
