"""The map of page Overview, drawn: the only tests that look at it, since that takes long."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from carbonrouter_core.routing.policies import ROUTER
from pages.shared import theme
from tests.browser.fixtures import OpenTab
from tests.browser.tab import Tab

pytestmark = pytest.mark.browser

MAP = "[data-testid=stDeckGlJsonChart]"
TOOLBAR = f"{MAP} [data-testid=stElementToolbar]"
BARS = "[aria-label^='Bar chart of carbon by policy']"
SYDNEY_G_PER_KWH = 640.0
"""Mean intensity of the dirtiest site, which stands at the edge of the map."""
LAND_IS_DRAWN = 0.1
"""Share of the map that is land, at least, once it is drawn."""


def drawn_colours(page: Page) -> Counter[tuple[int, ...]]:
    """The colours of the map as the user sees it, with the number of pixels of each."""
    shot = page.locator(MAP).first.screenshot()
    return Counter(Image.open(io.BytesIO(shot)).convert("RGB").get_flattened_data())


def wait_until_drawn(tab: Tab, colours: theme.Palette = theme.LIGHT) -> Counter[tuple[int, ...]]:
    """The colours once land is there: the canvas fills after the page does."""
    for _ in tab.attempts():
        drawn = drawn_colours(tab.page)
        if drawn[colours.land] > LAND_IS_DRAWN * drawn.total():
            return drawn
    raise AssertionError  # attempts() has failed before


def shows_site(tab: Tab, g_per_kwh: float) -> bool:
    """Whether the map shows a site on a grid like this, once it knows how wide the window is."""
    sought = theme.intensity_colour(g_per_kwh)
    return any(
        max(abs(a - b) for a, b in zip(colour, sought, strict=True)) < 12
        for _ in tab.attempts()
        for colour in drawn_colours(tab.page)
    )


@pytest.fixture(scope="module")
def desk(open_lasting_tab: OpenTab) -> Tab:
    tab = open_lasting_tab(with_map=True)
    wait_until_drawn(tab)
    return tab


def test_saving_map_and_chart_are_in_the_first_screen(desk: Tab) -> None:
    desk.shot("overview-1440")
    for selector, share in ((".cr-hero", 1.0), (MAP, 0.8), (BARS, 0.5)):
        box = desk.page.locator(selector).first.bounding_box()
        assert box is not None
        seen = min(box["y"] + box["height"], 900) - box["y"]
        assert seen >= share * box["height"], selector


def test_those_who_cannot_see_map_and_charts_are_told(desk: Tab) -> None:
    for start in (
        "World map of the sites",
        "Bar chart of carbon by policy",
        "Bar chart of the carbon CarbonRouter, look-ahead saves",
        "Line from FairCarbon",
    ):
        expect(desk.page.locator(f"[aria-label^='{start}']"), start).to_have_count(1)


def check_colours(drawn: Counter[tuple[int, ...]], colours: theme.Palette) -> None:
    assert len(drawn) > 200
    assert drawn[theme.hex_to_rgb(colours.sea)] > 0.2 * drawn.total(), "sea"
    # Lines of the moves are nearly opaque: the green of CarbonRouter, a little lighter or darker.
    green = theme.hex_to_rgb(theme.colour(ROUTER, dark=colours.dark))
    lines = sum(
        count
        for colour, count in drawn.items()
        if max(abs(a - b) for a, b in zip(colour, green, strict=True)) < 40
    )
    assert lines > 0.003 * drawn.total(), "moves"


def test_land_sea_and_moves_are_drawn(desk: Tab) -> None:
    check_colours(wait_until_drawn(desk), theme.LIGHT)


def test_they_are_drawn_on_a_dark_page(open_tab: OpenTab) -> None:
    tab = open_tab(scheme="dark", with_map=True)
    drawn = wait_until_drawn(tab, theme.DARK)
    tab.shot("overview-map-dark")
    check_colours(drawn, theme.DARK)


COVERING = """element => {
  const box = element.getBoundingClientRect();
  return [0.05, 0.5, 0.95].flatMap(across => [0.1, 0.5, 0.9]
    .map(down => [box.x + across * box.width, box.y + down * box.height])
    .map(([x, y]) => [x, y, document.elementFromPoint(x, y)])
    .filter(([x, y, hit]) => !element.contains(hit))
    .map(([x, y, hit]) => `${x}, ${y}: ${hit && hit.cloneNode().outerHTML}`));
}"""
"""What a click on an element, in its middle or near its edges, would hit in its place."""


def check_what_stands_above(tab: Tab) -> None:
    """A click on it is not caught by the map's own toolbar, which comes with the mouse."""
    page = tab.page
    switch = page.locator(".st-key-map-users")
    controls = page.locator("[class*=st-key-map-policy] button").all()
    controls += [switch.locator("label"), switch.get_by_test_id("stTooltipHoverTarget")]
    assert len(controls) == 4
    for control in controls:
        control.scroll_into_view_if_needed()
        page.locator(MAP).hover(position={"x": 20, "y": 100})
        expect(page.locator(TOOLBAR)).to_have_css("opacity", "1")
        assert control.evaluate(COVERING) == []
    tab.shot(f"overview-map-toolbar-{page.evaluate('innerWidth')}")


def test_what_stands_above_the_map_takes_clicks_and_none_asks_others(desk: Tab) -> None:
    check_what_stands_above(desk)
    users = desk.page.locator(".cr-legend-users")
    switch = desk.page.get_by_text("Users", exact=True)
    expect(users).to_have_count(0)
    switch.click()
    expect(users).to_have_count(1)
    desk.page.mouse.wheel(0, 2000)
    desk.wait_until_done()
    assert len(desk.requests) > 5
    assert desk.foreign_requests() == []
    switch.click()  # as it was
    expect(users).to_have_count(0)
    assert desk.errors == []


def test_the_map_holds_all_sites_at_any_width(open_tab: OpenTab) -> None:
    """Sydney: the west end is as far from the middle."""
    tab = open_tab(width=1280, with_map=True)
    for width in (1280, 1024, 800, 390):
        tab.page.set_viewport_size({"width": width, "height": 844})
        assert shows_site(tab, SYDNEY_G_PER_KWH), width
        box = tab.page.locator(MAP).bounding_box()
        assert box is not None
        assert box["x"] >= 0 and box["x"] + box["width"] <= width, width
        tab.shot(f"overview-{width}")


def test_a_phone_shows_all_sites_and_its_switches_take_clicks(open_tab: OpenTab) -> None:
    tab = open_tab(width=390, height=844, with_map=True)
    assert shows_site(tab, SYDNEY_G_PER_KWH)
    assert drawn_colours(tab.page)[theme.LIGHT.land] > 5000
    check_what_stands_above(tab)
