"""Page Grid data in a real browser: it fits a phone, draws its charts and fetches nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .tab import FIRST_RUN_MS, Tab

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("width", "height", "scheme"), [(1440, 900, "light"), (390, 844, "dark")], ids=["desk", "phone"]
)
def test_the_grids_are_drawn_and_fit(
    open_tab: Callable[..., Tab], width: int, height: int, scheme: str
) -> None:
    tab = open_tab(width, height, scheme)
    page = tab.page
    page.goto(f"{tab.origin}/grid_data")
    page.wait_for_selector("text=Regions, their grids and sources", timeout=FIRST_RUN_MS)
    page.wait_for_selector(".js-plotly-plot .heatmaplayer", state="attached")
    page.wait_for_selector("text=How often each region is the cleanest")
    page.wait_for_timeout(1000)
    tab.shot(f"grid-{width}")
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0
    # no label of a chart sticks out of it to the right
    cut = page.evaluate(
        """[...document.querySelectorAll('.js-plotly-plot')].flatMap(plot => {
             const right = plot.getBoundingClientRect().right;
             return [...plot.querySelectorAll('text')]
               .filter(text => text.getBoundingClientRect().right > right + 1)
               .map(text => text.textContent);
           })"""
    )
    assert cut == []
    assert not tab.errors
    assert not tab.foreign_requests()
