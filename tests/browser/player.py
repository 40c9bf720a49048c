"""The session player as a test holds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import Locator

from .tab import Tab

READY = ".player[data-ready]"

STEP_TIMES = """async (root, turns) => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  const key = (name) => root.dispatchEvent(
    new KeyboardEvent("keydown", { key: name, bubbles: true, composed: true }));
  key("Home");
  await frame();
  const script = [], drawn = [];
  for (let i = 0; i < turns; i++) {
    const began = performance.now();
    key("ArrowRight");
    script.push(performance.now() - began);
    await frame();
    drawn.push(performance.now() - began);
  }
  return { script, drawn, turn: Number(root.dataset.turn) };
}"""
"""Steps by keyboard: time in the script of each step, and until its frame was painted."""


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

    def step_times(self) -> dict[str, list[float]]:
        """Milliseconds of each step from the first turn to the last, measured in the browser."""
        times: dict[str, list[float]] = self.root.evaluate(STEP_TIMES, self.turns - 1)
        return times

    def rows(self) -> list[list[str]]:
        """The table of candidates, with ordinary spaces."""
        cells = "rows => rows.map(row => [...row.children].map(cell => cell.textContent))"
        table: list[list[str]] = self.root.locator("tbody tr").evaluate_all(cells)
        return [[cell.replace("\u202f", " ") for cell in row] for row in table]


def open_player(open_tab: Callable[..., Tab], **options: object) -> Player:
    """Opens page Session replay from the menu of the app."""
    return Player(open_tab(menu="Session replay", drawn=READY, **options))
