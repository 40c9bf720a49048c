"""The running app and the browser that looks at it; tests/conftest.py makes them known.

All tests share one app and one browser. Each has a context of its own, so that no test sees the
cookies, the size or the theme of another.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest
from playwright.sync_api import Browser, BrowserContext, Route, expect, sync_playwright

from tests.browser.tab import DRAWN, Tab
from tests.waiting import PATIENCE_MS, PATIENCE_S, attempts

ROOT = Path(__file__).resolve().parents[2]

CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    # Pages are drawn without a graphics card, and without emulating one, which takes several
    # times longer. Only WebGL is emulated, for the few tests that look at the map.
    "--disable-gpu",
    "--enable-unsafe-swiftshader",
    # the browser's own errands are not the app's
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
MAP_SCRIPT = "**/DeckGlJsonChart.*.js"
NO_MAP = "const nothing = () => null; export const t = { default: nothing };"
"""Stands in for the script that draws maps, as Streamlit imports it."""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def app_origin(
    compiled: None, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Address of the app, started as a user starts it."""
    with running_app(tmp_path_factory.mktemp("app")) as origin:
        # Until app.py has run once, Streamlit takes pages/ for pages of its own kind, and says of
        # any address but the first that there is no such page.
        with opener(browser, origin) as open_tab:
            open_tab()
        yield origin


@contextmanager
def running_app(
    folder: Path, environment: Mapping[str, str] = MappingProxyType({})
) -> Iterator[str]:
    """Address of an app that runs meanwhile; its log and its store are kept in ``folder``."""
    origin, log = f"http://localhost:{_free_port()}", folder / "app.log"
    command = [sys.executable, "-m", "streamlit", "run", "app.py"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--server.port", origin.rpartition(":")[2]],
            cwd=ROOT,
            # a store of its own, which this process holds open, so that no other test waits for it
            env=os.environ | {"CARBONROUTER_HOME": str(folder / "home")} | environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_for(origin, process, log)
            yield origin
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_S)


def _wait_for(origin: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in attempts():
        if process.poll() is not None:
            pytest.fail(f"the app did not start:\n{log.read_text(errors='replace')}")
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"{origin}/_stcore/health", timeout=PATIENCE_S),
        ):
            return


@pytest.fixture(scope="session")
def browser(chromium_path: str) -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


OpenTab = Callable[..., Tab]


@pytest.fixture
def open_tab(browser: Browser, app_origin: str) -> Iterator[OpenTab]:
    """Opens a page of the app in a tab of its own; see :func:`opener`."""
    with opener(browser, app_origin) as open_one:
        yield open_one


@pytest.fixture(scope="module")
def open_lasting_tab(browser: Browser, app_origin: str) -> Iterator[OpenTab]:
    """The same for a tab that several tests of a module look at one after the other."""
    with opener(browser, app_origin) as open_one:
        yield open_one


@contextmanager
def opener(browser: Browser, origin: str) -> Iterator[OpenTab]:
    """Opens tabs, which are closed at the end.

    A tab is opened on the page at ``address``, where ``until_done`` once that has run to its end
    and has drawn what matches ``drawn``. Maps stay blank unless asked for ``with_map``: drawing
    one in software takes longer than all else.
    """
    contexts: list[BrowserContext] = []

    def start(
        address: str = "",
        drawn: str = DRAWN,
        width: int = 1440,
        height: int = 900,
        scheme: str = "light",
        with_map: bool = False,
        until_done: bool = True,
    ) -> Tab:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        if not with_map:
            context.route(MAP_SCRIPT, _leave_out_the_map)
        tab = Tab(context.new_page(), origin)
        tab.page.on("request", lambda request: tab.requests.append(request.url))
        tab.page.on("websocket", lambda socket: tab.requests.append(socket.url))
        tab.page.on("pageerror", lambda error: tab.errors.append(str(error)))
        tab.page.goto(f"{origin}/{address}")
        if until_done:
            tab.wait_until_done(drawn)
        return tab

    try:
        yield start
    finally:
        for context in contexts:
            context.close()


def _leave_out_the_map(route: Route) -> None:
    route.fulfill(content_type="text/javascript", body=NO_MAP)
