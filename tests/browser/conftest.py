"""The running app and a browser that looks at it.

The app is started once for all tests on a free port of this machine and ended by its own
process; the browser notes every request it makes.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from .tab import DRAWN, Tab

ROOT = Path(__file__).resolve().parents[2]
START_S = 60

CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    # WebGL without a graphics card, for the map
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
    # the browser's own errands are not the app's
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def app_origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the app, started as a user starts it."""
    with _running(tmp_path_factory.mktemp("app") / "app.log") as origin:
        yield origin


@pytest.fixture
def new_app_origin(tmp_path: Path) -> Iterator[str]:
    """Address of an app on a machine where it never ran: nothing is compiled yet."""
    compiled = {"NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    with _running(tmp_path / "app.log", compiled) as origin:
        yield origin


@contextmanager
def _running(log: Path, environment: dict[str, str] | None = None) -> Iterator[str]:
    origin = f"http://localhost:{_free_port()}"
    command = [sys.executable, "-m", "streamlit", "run", "app.py"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--server.port", origin.rpartition(":")[2]],
            cwd=ROOT,
            # a store of its own, which this process holds open, so that no other test waits for it
            env=os.environ | {"CARBONROUTER_HOME": str(log.parent / "home")} | (environment or {}),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_for(origin, process, log)
            yield origin
        finally:
            process.terminate()
            process.wait(timeout=20)


def _wait_for(origin: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{origin}/_stcore/health", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the app did not start:\n{log.read_text(errors='replace')}")


@pytest.fixture(scope="session")
def browser(chromium_path: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def plain_browser(browser: Browser, chromium_path: str) -> Iterator[Browser]:
    """A browser that draws without WebGL, for timing what needs none.

    Emulating a graphics card takes several times longer than anything that is measured here.
    """
    plain = browser.browser_type.launch(
        executable_path=chromium_path,
        args=[one for one in CHROMIUM_ARGUMENTS if "gl" not in one] + ["--disable-gpu"],
    )
    yield plain
    plain.close()


@pytest.fixture
def open_tab(browser: Browser, app_origin: str) -> Iterator[Callable[..., Tab]]:
    """Opens a page of the app, by its title in the menu, in a new tab and waits until it is
    drawn; ``within`` another browser where one is given."""
    contexts = []

    def start(
        width: int = 1440,
        height: int = 900,
        scheme: str = "light",
        menu: str = "Overview",
        drawn: str = DRAWN,
        within: Browser = browser,
    ) -> Tab:
        context = within.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        contexts.append(context)
        tab = Tab(context.new_page(), app_origin)
        tab.page.on("request", lambda request: tab.requests.append(request.url))
        tab.page.on("websocket", lambda socket: tab.requests.append(socket.url))
        tab.page.on("pageerror", lambda error: tab.errors.append(str(error)))
        tab.page.goto(app_origin)
        if menu != "Overview":  # not waiting for all that page Overview draws
            tab.go_to(menu, drawn)
        tab.wait_until_done(drawn)
        return tab

    yield start
    for context in contexts:
        context.close()
