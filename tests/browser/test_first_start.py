"""The first start on a machine: whoever waits until the engine is compiled is told why."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import carbonrouter_core
from carbonrouter_core.compiled import _cache_dir
from tests.browser.fixtures import opener, running_app

pytestmark = pytest.mark.browser

NOT_COMPILED = ("decisions.", "kernel.")
"""What the app compiles here: the replay of a policy, not all that there is."""
HINT = ".cr-first-start"
VISIBLE_AT_MS = """(hint, time) => {
  const [appearing] = hint.getAnimations();
  appearing.pause();
  appearing.currentTime = time;
  return getComputedStyle(hint).visibility == "visible";
}"""
"""Whether the hint is in sight this long after it was put on the page."""


@pytest.fixture
def new_app_origin(compiled: None, tmp_path: Path) -> Iterator[str]:
    """Address of an app on a machine where it has not replayed yet."""
    compiled_code = tmp_path / "compiled"
    core = Path(carbonrouter_core.__file__).parent
    for folder in {Path(_cache_dir(module)) for module in core.rglob("*.py")}:
        if folder.is_dir():
            shutil.copytree(folder, compiled_code / folder.name)
    left_out = [path for path in compiled_code.rglob("*.nb*") if path.name.startswith(NOT_COMPILED)]
    assert left_out
    for path in left_out:
        path.unlink()
    with running_app(tmp_path, {"NUMBA_CACHE_DIR": str(compiled_code)}) as origin:
        yield origin


def test_a_first_start_says_why_it_takes_long(browser: Browser, new_app_origin: str) -> None:
    with opener(browser, new_app_origin) as open_tab:
        tab = open_tab(until_done=False)
        tab.page.wait_for_selector("[data-testid=stSpinner]")
        hint = tab.page.locator(HINT)
        hint.wait_for(state="attached")
        assert not hint.evaluate(VISIBLE_AT_MS, 2000), "not where the wait is short"
        assert hint.evaluate(VISIBLE_AT_MS, 4000)
        tab.shot("overview-first-start")
        assert "The first start on a machine compiles the engine" in hint.inner_text()
        tab.page.wait_for_selector(".cr-hero")
        expect(hint).not_to_be_attached()
