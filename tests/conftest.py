"""What all tests share: where reference data and the browser are, hypothesis' settings, and how
the tests are spread over two processes."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from carbonrouter_core import Scenario, compare

pytest_plugins = ["tests.browser.fixtures"]

ROOT = Path(__file__).resolve().parents[1]

# Whoever runs the tests may have series and sites of their own, which would be used: no test sees
# that store. One that stores something names a folder of its own.
os.environ["CARBONROUTER_HOME"] = str(
    Path(tempfile.gettempdir()) / f"carbonrouter-tests-{os.getpid()}"
)

# Compiling a kernel or a busy machine makes single examples slow; that is no failure.
settings.register_profile("carbonrouter", deadline=None)
settings.load_profile("carbonrouter")

BROWSER = "tests/browser/"
MEASURED = "measured"
"""What a test has measured, kept beside its outcome."""


def pytest_configure(config: pytest.Config) -> None:
    """Benchmarks only when they are asked for, whatever else is left out."""
    asked = config.option.markexpr
    if "benchmark" not in asked:
        config.option.markexpr = f"({asked}) and not benchmark" if asked else "not benchmark"


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two processes; one for benchmarks, which nothing else may disturb."""
    return 0 if config.option.markexpr == "benchmark" else 2


class ByFile(LoadScopeScheduling):
    """Hands out whole files, so that what the tests of a file share is made once. All that drives
    the browser goes to one process, with one app and one browser.
    """

    def _split_scope(self, nodeid: str) -> str:
        return BROWSER if nodeid.startswith(BROWSER) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return ByFile(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The browser first: it takes longest, and the other process has all else meanwhile."""
    items.sort(key=lambda item: not item.nodeid.startswith(BROWSER))


def compile_kernels() -> None:
    """What most tests need, so that it is on disk for every process and for the app."""
    compare(Scenario(), ["carbonrouter", "hindsight-optimum"])


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile once, before the processes would each do it at the same time."""
    if session.config.option.numprocesses:
        compile_kernels()


@pytest.fixture(scope="session")
def compiled() -> None:
    """The kernels are compiled: no page is kept waiting for that."""
    compile_kernels()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was measured, whichever process did it."""
    reports = [one for kind in ("passed", "failed") for one in terminalreporter.getreports(kind)]
    said = [text for one in reports for name, text in one.user_properties if name == MEASURED]
    if said:
        terminalreporter.section("measured")
    for text in said:
        terminalreporter.line(text)


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Takes a line about what was measured, for the end of the run."""
    return lambda text: record_property(MEASURED, text)


def skip_unless_ci(reason: str) -> NoReturn:
    """Skip here, fail in CI, where nothing that a test needs may be missing."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Source series and format samples, which stay outside the project."""
    path = ROOT.parent / "shared" / "data"
    if not path.is_dir():
        skip_unless_ci("../shared/data is not here")
    return path


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The system's Chromium, for tests that drive the app as a user would."""
    path = shutil.which("chromium")
    if path is None:
        skip_unless_ci("chromium is not installed")
    return path


@pytest.fixture(scope="session")
def tracked_files() -> list[Path]:
    """The files that git tracks and that are there."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        skip_unless_ci("this is no git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]
