"""Page Session replay in a real browser: its steps, its figures, its looks."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

from carbonrouter_core import Comparison, Scenario, compare
from carbonrouter_core.results.session_story import Story, tell
from carbonrouter_core.routing import feasibility
from carbonrouter_core.routing.policies import ROUTER, reasons
from carbonrouter_core.words import figures as fmt
from pages.parts.session_replay import decisions, player
from pages.shared import theme
from tests.browser.fixtures import OpenTab
from tests.browser.player import READY, Player

pytestmark = pytest.mark.browser

PHONE = {"width": 390, "height": 844}
FAIRCARBON = "faircarbon"


@pytest.fixture(scope="module")
def longest() -> tuple[Story, Story]:
    """The longest chat conversation under the two main policies, from the engine."""
    world: Comparison = compare(Scenario(), (ROUTER, FAIRCARBON))
    session = int(world.trace.session_turns.argmax())
    ours, theirs = (tell(world.prepared, run, session) for run in world.runs.values())
    return ours, theirs


def open_player(open_tab: OpenTab, **options: object) -> Player:
    return Player(open_tab("session_replay", READY, **options))


@pytest.fixture(scope="module")
def desk(open_lasting_tab: OpenTab) -> Player:
    return open_player(open_lasting_tab)


@pytest.fixture
def shown(desk: Player) -> Player:
    """The player at its first turn, for tests that leave nothing but the turn changed."""
    desk.press("Home")
    return desk


def plain(text: str) -> str:
    return text.replace("\u202f", " ")


def test_the_figures_shown_are_those_of_the_engine(
    shown: Player, longest: tuple[Story, Story]
) -> None:
    total, mass = player.scales(*longest)
    ours = longest[0]
    words = [decisions.in_words(story, mass) for story in longest]
    moves = [int(np.flatnonzero(story.moved_from >= 0)[-1]) for story in longest]
    ahead = int(np.flatnonzero(ours.decisions.reason == reasons.AHEAD_STAYED)[0])

    for turn in (0, ahead, *moves, len(ours) - 1):
        shown.jump(turn + 1)
        assert shown.turn == turn + 1
        for side, story, said in zip("ab", longest, words, strict=True):
            card = f".card-{side}"
            carbon_g = story.charges.carbon_g
            assert shown.text(f"{card} .verdict").endswith(said[turn].verdict)
            assert shown.text(f"{card} .why") == said[turn].why
            assert shown.text(f"{card} .numbers") == plain(said[turn].numbers)
            assert shown.text(f"{card} .who span") == plain(
                f"{mass.text(carbon_g[turn])} this turn"
            )
            assert shown.text(f".lane-{side} em") == plain(
                f"{total.text(carbon_g[: turn + 1].sum())} of {total.text(carbon_g.sum())}"
            )
            recomputed = story.recomputed_tokens[turn]
            expected = f"{recomputed:,} tokens" if recomputed else "Nothing recomputed"
            assert shown.text(f"{card} .made").startswith(expected)
        check_candidates(shown, ours, turn, mass)
    saving = 100 * (1 - ours.charges.carbon_g.sum() / longest[1].charges.carbon_g.sum())
    assert shown.text(".saving strong") == plain(f"{fmt.percent(saving)} less")
    assert "in all" in shown.text(".saving span")


def check_candidates(shown: Player, story: Story, turn: int, mass: fmt.Mass) -> None:
    """The table shows the cheapest first, the chosen one among them, with its figures."""
    table = story.candidate_table(turn)
    table["label"] = [story.prepared.deployments.label(d) for d in table.index]
    feasible = table[table["obstacle"] == feasibility.FEASIBLE].sort_values("total_g")
    rows = {row[0]: row[1:] for row in shown.rows()}
    assert next(iter(rows)) == feasible["label"].iloc[0]
    here = table.loc[story.decisions.deployment[turn]]
    cells = rows[here["label"]]
    assert cells[0].startswith("chosen")
    expected = [
        fmt.number(here["cached_tokens"]),
        *(
            mass.text(here[name], with_unit=False)
            for name in ("recompute_g", "prompt_g", "decode_g", "host_g", "total_g", "to_come_g")
        ),
        fmt.duration(here["ttft_ms"]),
        fmt.percent(100 * here["quality"]),
    ]
    assert cells[1:] == [plain(text) for text in expected]


def test_all_candidates_with_the_reason_of_each_that_cannot_serve(
    open_tab: OpenTab, longest: tuple[Story, Story]
) -> None:
    shown = open_player(open_tab)
    shown.jump(295)
    assert 8 <= len(shown.rows()) <= 10

    shown.root.get_by_role("button", name="Show all 45").click()
    shown.button("FairCarbon").click()

    table = longest[1].candidate_table(294)
    rows = {row[0]: row[1] for row in shown.rows()}
    assert len(rows) == len(table) == 45
    for d, row in table.iterrows():
        said = rows[longest[1].prepared.deployments.label(int(str(d)))]
        assert (f"no: {row['why_not']}" in said) == bool(row["why_not"]), said
    assert sum("chosen" in said for said in rows.values()) == 1
    assert "does not see Cached and Recompute" in shown.text(".candidates-note")


def test_steps_by_keyboard(shown: Player, longest: tuple[Story, Story]) -> None:
    assert shown.turn == 1

    for key, turn in (
        ("ArrowRight", 2),
        ("ArrowRight", 3),
        ("ArrowLeft", 2),
        ("PageDown", 12),
        ("PageUp", 2),
        ("End", 300),
        ("ArrowRight", 300),
        ("Home", 1),
        ("ArrowLeft", 1),
    ):
        shown.press(key)
        assert shown.turn == turn, key
    shown.press("m")
    first = min(int(np.flatnonzero(story.moved_from >= 0)[0]) for story in longest)
    assert shown.turn == first + 1
    shown.press("Space")
    expect(shown.button("Pause")).to_be_visible()
    shown.press("Space")
    expect(shown.button("Play")).to_be_visible()


def test_steps_by_pointer(shown: Player) -> None:
    strip = shown.root.locator("canvas")
    strip.scroll_into_view_if_needed()
    box = strip.bounding_box()
    assert box is not None
    for turn in (107, 1, 300):
        shown.tab.page.mouse.click(
            box["x"] + (turn - 0.5) / 300 * box["width"], box["y"] + box["height"] / 2
        )
        assert shown.turn == turn
    assert strip.get_attribute("aria-valuenow") == "300"
    assert "Turn 300 of 300" in (strip.get_attribute("aria-valuetext") or "")
    shown.button("First turn").click()
    shown.button("Next turn").click()
    shown.button("Next turn").click()
    shown.button("Previous turn").click()
    assert shown.turn == 2
    shown.jump(1000)
    assert shown.turn == 300, "no further than there is"
    shown.jump(-3)
    assert shown.turn == 1


def test_it_plays_to_the_end_and_can_be_played_again(shown: Player) -> None:
    shown.root.locator(".speed select").select_option("25")
    shown.jump(240)

    shown.button("Play").click()
    assert shown.turn < 300
    shown.tab.page.wait_for_function(
        "root => root.dataset.turn === '300'", arg=shown.root.element_handle()
    )
    expect(shown.button("Play")).to_be_visible()
    assert "in all" in shown.text(".saving span")
    shown.button("Play").click()
    assert shown.turn < 300, "from the start again"
    shown.button("Pause").click()


def test_no_request_leaves_the_origin_and_a_step_makes_none(shown: Player) -> None:
    before = len(shown.tab.requests)

    shown.press("ArrowRight", "End", "Home", "m", "ArrowRight")
    shown.tab.page.wait_for_timeout(500)  # for a request that should not come

    assert len(shown.tab.requests) == before
    assert shown.tab.foreign_requests() == []
    assert shown.tab.errors == []


@pytest.mark.parametrize(("scheme", "colours"), [("light", theme.LIGHT), ("dark", theme.DARK)])
def test_it_follows_the_theme(open_tab: OpenTab, scheme: str, colours: theme.Palette) -> None:
    shown = open_player(open_tab, scheme=scheme)
    shown.jump(295)

    shown.tab.shot(f"session-replay-{scheme}")
    styles = shown.root.evaluate(
        """root => {
          const of = (selector, name) => getComputedStyle(root.querySelector(selector))[name];
          return {
            land: of(".land path", "fill"),
            sea: of(".world", "backgroundColor"),
            text: getComputedStyle(root).color,
          };
        }"""
    )
    assert styles["land"] == f"rgb{tuple(colours.land)}"
    assert styles["sea"] == f"rgb{theme.hex_to_rgb(colours.sea)}"
    assert styles["text"] == f"rgb{theme.hex_to_rgb(colours.text)}"


def test_a_phone_shows_everything_without_sideways_scrolling(open_tab: OpenTab) -> None:
    shown = open_player(open_tab, **PHONE)
    shown.jump(295)

    page = shown.tab.page
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for selector in (".race", ".controls", ".map", ".card-a", ".card-b", ".strip", ".scroll"):
        part = shown.root.locator(selector).first
        part.scroll_into_view_if_needed()
        shown.tab.shot(f"session-replay-390{selector.replace('.', '-')}")
        box = part.bounding_box()
        assert box is not None
        assert box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"], selector
    assert shown.text(".card-a .verdict")


def test_those_who_cannot_see_it_are_told(shown: Player) -> None:
    shown.jump(295)

    label = shown.root.locator(".world .acts").get_attribute("aria-label") or ""
    assert label.startswith("Map at turn 295. User in Los Angeles.")
    assert "FairCarbon: Moves to another model in Los Angeles" in label
    spoken = shown.root.locator(".spoken")
    assert spoken.get_attribute("aria-live") == "polite"
    assert spoken.text_content().startswith("Turn 295 of 300.")  # type: ignore[union-attr]
    table = shown.root.locator("table")
    assert "Candidates of turn 295" in (table.locator("caption").text_content() or "")
    assert table.locator("thead th[scope=col]").count() == 11
    rows = table.locator("tbody tr").count()
    assert table.locator("tbody th[scope=row]").count() == rows >= 8
    for button in shown.root.locator("button").all():
        assert button.get_attribute("aria-label") or button.inner_text().strip()


def test_nothing_glides(shown: Player) -> None:
    shown.press("ArrowRight")
    moving = "root => root.getRootNode().getAnimations({ subtree: true }).length"
    assert shown.root.evaluate(moving) == 0, "for whoever does not want motion, and for speed"


def test_presenting_keeps_the_place_and_enlarges_it(open_tab: OpenTab) -> None:
    shown = open_player(open_tab)
    shown.jump(295)
    size = "root => parseFloat(getComputedStyle(root.querySelector('.verdict')).fontSize)"
    small = shown.root.evaluate(size)

    shown.tab.page.get_by_text("Present", exact=True).click()
    expect(shown.tab.page.get_by_test_id("stSidebar")).not_to_be_visible()
    shown.tab.page.wait_for_selector(".player.present")
    shown.tab.wait_until_done(READY)

    shown.tab.shot("session-replay-present")
    assert shown.turn == 295
    assert shown.root.evaluate(size) > 1.25 * small
    shown.root.press("ArrowLeft")
    assert shown.turn == 294
