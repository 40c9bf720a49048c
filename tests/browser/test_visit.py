"""A visit from the first page to the meeting room, in a real browser, as one walk.

Screenshots of each stop are kept in tests/artifacts/.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from carbonrouter_core import PRESETS, compare
from carbonrouter_core.words import figures as fmt
from pages.shared import kept_figures

from .player import READY, Player
from .tab import Tab

pytestmark = pytest.mark.browser

ROUTER, BASELINE = kept_figures.ROUTERS[0], "faircarbon"
SCRIPT_MS = 30.0
"""What the script of a step may take here. Until it is painted takes far longer in a browser that
emulates a graphics card, as this one does for the map of page Overview: that time is printed
here, and asserted without the emulation in test_session_replay.py."""


def change_and_wait(tab: Tab, change: Callable[[], None], shown: Locator) -> None:
    """Make a change in the sidebar and wait until ``shown`` reads something else."""
    before = shown.inner_text()
    change()
    expect(shown).not_to_have_text(before, use_inner_text=True, timeout=180_000)
    tab.wait_until_done()


def test_a_visit(open_tab: Callable[..., Tab], measured: Callable[[str], None]) -> None:
    # Open: the answer, before anything is touched.
    tab = open_tab()
    page = tab.page
    headline = page.locator(".cr-hero-figure")
    assert "less CO2e than FairCarbon" in headline.inner_text()
    tab.shot("visit-1-open")

    # Choose the preset Prompt cache.
    sidebar = page.get_by_test_id("stSidebar")

    def choose_preset() -> None:
        sidebar.get_by_role("combobox", name="Preset").click()
        page.get_by_role("option", name="Prompt cache").click()

    change_and_wait(tab, choose_preset, page.locator(".cr-scenario"))
    assert "exactly as preset Prompt cache" in tab.text(".cr-strip")
    tab.shot("visit-2-prompt-cache")

    # Change the regions: without Sydney, the last of the four.
    def leave_sydney_out() -> None:
        box = sidebar.get_by_role("combobox", name="Regions")
        box.focus()
        box.press("Backspace")

    change_and_wait(tab, leave_sydney_out, page.locator(".cr-distance"))
    assert "regions without Sydney" in tab.text(".cr-strip")
    tab.shot("visit-3-regions")

    # The same from the engine.
    preset = PRESETS["Prompt cache"]
    scenario = preset.replace(
        regions=preset.regions[:-1],
        gpu_regions={
            gpu: tuple(name for name in where if name in preset.regions[:-1])
            for gpu, where in preset.gpu_regions.items()
        },
    )
    world = compare(scenario, (ROUTER, BASELINE))
    saving = fmt.less_or_more(world.saving(ROUTER).value_percent).replace(fmt.NARROW, " ")
    assert saving.split(" %")[0] in headline.inner_text().replace(fmt.NARROW, " ")

    # Replay the longest conversation to its end.
    tab.go_to("Session replay", READY)
    shown = Player(tab)
    longest = int(world.trace.session_turns.argmax())
    assert shown.turns == world.trace.session_turns[longest] == 300
    times = shown.step_times()
    script, drawn = (statistics.median(times[name]) for name in ("script", "drawn"))
    assert shown.turn == 300
    assert script < SCRIPT_MS
    shown.root.locator(".speed select").select_option("25")
    shown.jump(270)
    shown.button("Play").click()
    page.wait_for_function(
        "root => root.dataset.turn === '300'", arg=shown.root.element_handle(), timeout=60_000
    )
    ours, theirs = (world.session_carbon_g(name)[longest] for name in (ROUTER, BASELINE))
    ends = fmt.less_or_more(100 * (1 - ours / theirs)).replace(fmt.NARROW, " ")
    assert shown.text(".saving strong") == ends
    assert "in all" in shown.text(".saving span")
    tab.shot("visit-4-replayed")

    # Compare.
    tab.go_to("Compare", ".cr-verdict")
    tab.wait_until_done(".cr-verdict")
    assert f"{saving} CO2e than FairCarbon" in tab.text(".cr-verdict .cr-answer")
    tab.shot("visit-5-compare")

    # Present, and take it back to the conversation.
    page.get_by_text("Present", exact=True).click()
    expect(sidebar).not_to_be_visible(timeout=60_000)
    tab.wait_until_done(".cr-verdict")
    tab.shot("visit-6-present")
    page.get_by_text("Present", exact=True).click()
    expect(sidebar).to_be_visible(timeout=60_000)

    assert tab.errors == []
    assert tab.foreign_requests() == []
    measured(
        f"a visit: a step of the replay takes {script:.1f} ms in the script and "
        f"{drawn:.0f} ms until painted with an emulated graphics card (median of 299)"
    )
