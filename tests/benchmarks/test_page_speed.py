"""How fast pages answer, against what the same machine does in the same run."""

from __future__ import annotations

import statistics
import time

import pytest

from carbonrouter_core import Scenario, compare
from carbonrouter_core.routing.policies import ROUTER
from tests.browser.fixtures import OpenTab
from tests.browser.player import READY, Player
from tests.browser.tab import Tab

pytestmark = [pytest.mark.benchmark, pytest.mark.browser]

STEP_TIMES = """async (root, steps) => {
  const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)));
  const key = name => root.dispatchEvent(
    new KeyboardEvent("keydown", { key: name, bubbles: true, composed: true }));
  key("Home");
  await frame();
  const times = [];
  for (let i = 0; i < steps; i++) {
    const began = performance.now();
    key("ArrowRight");
    const script = performance.now() - began;
    await frame();
    times.push([script, performance.now() - began]);
  }
  return times;
}"""
"""Milliseconds of each step by keyboard: in its script, and until its frame was painted."""


def test_a_step_of_the_player_does_not_grow_with_the_conversation(open_tab: OpenTab) -> None:
    player = Player(open_tab("session_replay", READY))
    player.root.evaluate(STEP_TIMES, player.turns - 1)  # compiled by now
    times = player.root.evaluate(STEP_TIMES, player.turns - 1)
    script_ms, painted_ms = (statistics.median(one) for one in zip(*times, strict=True))
    print(f"\na step: {script_ms:.1f} ms in the script, {painted_ms:.1f} ms until painted (median)")
    assert player.turn == player.turns == 300
    first, last = (statistics.median(ms for ms, _ in part) for part in (times[:75], times[-75:]))
    assert last < 2 * first + 1  # the browser's clock has steps of 0.1 ms
    assert script_ms < painted_ms / 2


def answer_s(tab: Tab, key: str) -> float:
    """Seconds from a move of the slider for the quality floor to another headline."""
    before = tab.text(".cr-hero")
    handle = tab.page.get_by_role("slider", name="Quality floor")
    handle.focus()
    began = time.perf_counter()
    handle.press(key)
    tab.wait_for_change(".cr-hero", before)
    took_s = time.perf_counter() - began
    tab.wait_until_done()
    return took_s


def test_a_moved_slider_is_answered_as_fast_as_the_engine_computes(open_tab: OpenTab) -> None:
    tab = open_tab()
    policies = (ROUTER, "faircarbon")
    new_s = [answer_s(tab, "ArrowRight") for _ in range(3)]  # scenarios never run before
    known_s = [answer_s(tab, key) for key in ("ArrowLeft", "ArrowRight", "ArrowLeft")]
    engine_s = []
    for floor in (0.61, 0.62, 0.63):
        began = time.perf_counter()
        compare(Scenario(quality_floor=floor), policies)
        engine_s.append(time.perf_counter() - began)
    new, known, engine = map(statistics.median, (new_s, known_s, engine_s))
    print(f"\na moved slider: {new:.2f} s, {known:.2f} s where known; the engine: {engine:.2f} s")
    assert new < known + 4 * engine
