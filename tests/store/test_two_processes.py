"""Two processes use one store at once: nobody waits long, nothing is lost, nothing is left."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from carbonrouter_core import StoreError, find_trace
from carbonrouter_core.paths import DATA_DIR
from carbonrouter_core.store import database
from carbonrouter_core.store.folder import FILE_NAME
from carbonrouter_core.store.own_catalog import stored_additions
from carbonrouter_core.store.sites import own_sites
from carbonrouter_core.store.store import open_store

ROOT = Path(__file__).resolve().parents[2]

AT_ONCE = """
import sys
from pathlib import Path
import pyarrow as pa
from carbonrouter_core.errors import CarbonRouterError
from carbonrouter_core.store.store import open_store
from carbonrouter_core.traces.staging import stage

me, other, log = sys.argv[1:]
shared = pa.table({"x": range(1_000)})
with stage([Path(log)]) as staged:
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(50):
        store = open_store()
        store.save_trace(staged, f"{me}-{i}")
        assert store.load_trace(f"{me}-{i}").n_turns == 300
        if i % 5 == 0:
            store.save_table("shared", "x", shared, replace=True)
        table, _ = store.load_table("shared", "x")
        assert table == shared
        names = [one.name for one in store.traces()]
        assert f"{me}-{i}" in names and len(names) <= 4, names
        for name in names:
            if name.startswith(other):  # which the other process deletes about now
                try:
                    assert store.load_trace(name).n_turns == 300
                except CarbonRouterError as error:
                    assert "Unknown trace" in str(error), error
        if i:
            store.delete_trace(f"{me}-{i - 1}")
print("done")
"""


def run_at_once(script: str, *arguments: list[str]) -> list[str]:
    """What ``script`` prints in a process for each list of arguments, all at the same time.

    It prints "ready", and goes on when it reads a line.
    """
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, *of_process],
            cwd=ROOT,
            env=dict(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for of_process in arguments
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    with ThreadPoolExecutor(len(processes)) as pool:
        ends = list(pool.map(lambda process: process.communicate("go\n"), processes))
    assert [errors for _, errors in ends] == [""] * len(ends)
    return [printed for printed, _ in ends]


def test_two_processes_import_read_and_delete_at_once_a_hundred_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))
    log = tmp_path / "t.csv"
    rows = "".join(f"s{i % 3},{i // 3},{i % 97},5\n" for i in range(300))
    log.write_text(f"session,turn,new_prompt_tokens,output_tokens\n{rows}")
    assert run_at_once(AT_ONCE, ["a", "b", str(log)], ["b", "a", str(log)]) == ["done\n"] * 2
    store = open_store()
    assert sorted(trace.name for trace in store.traces()) == ["a-49", "b-49"]
    assert store.load_table("shared", "x")[0] == pa.table({"x": range(1_000)})
    assert len(list(store.tables_folder.iterdir())) == 3


ENTRIES = """
import sys
from pathlib import Path
from carbonrouter_core.store.own_catalog import import_catalog
from carbonrouter_core.store.sites import add_site, delete_site

me, gpus = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
for i in range(20):
    add_site(f"{me} {i}", "DE-LU", 50.0, 8.0)
    if i % 2:
        delete_site(f"{me} {i}")
    path = Path(gpus) / f"{me}-{i}.csv"
    import_catalog(gpus=path)
print("done")
"""


def test_no_site_or_catalogue_entry_is_lost_where_two_processes_add_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))
    columns, a100 = (DATA_DIR / "gpus.csv").read_text(encoding="utf-8").splitlines()[:2]
    of_gpu = a100.partition(",")[2]
    for name in (f"{process}-{i}" for process in "ab" for i in range(20)):
        (tmp_path / f"{name}.csv").write_text(f"{columns}\nGPU-{name},{of_gpu}\n")
    printed = run_at_once(ENTRIES, ["a", str(tmp_path)], ["b", str(tmp_path)])
    assert printed == ["done\n"] * 2
    of_both = [(process, i) for process in "ab" for i in range(20)]
    sites = [f"{process} {i}" for process, i in of_both if i % 2 == 0]
    assert sorted(site.region for site in own_sites()) == sorted(sites)
    gpus = {entry.name for entry in stored_additions().all}
    assert gpus == {f"GPU-{process}-{i}" for process, i in of_both}


HOLDING = """
import sys
import duckdb
connection = duckdb.connect(sys.argv[1])
print("open", flush=True)
input()
"""


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A process that holds a store open, as older versions of this program did."""
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path))
    open_store().save_scenario("before", "{}")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(tmp_path / FILE_NAME)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    yield process
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        pipe.close()


def let_go(process: subprocess.Popen) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_a_store_that_stays_locked_is_said_and_what_is_built_in_can_be_used(
    held: subprocess.Popen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LOCK_WAIT_S", 0.1)
    with pytest.raises(StoreError, match=r"another process.*CARBONROUTER_HOME.*built-in data"):
        open_store()
    assert find_trace("sharegpt").n_turns == 59_837
    with pytest.raises(StoreError, match="another process"):
        find_trace("mine")
    let_go(held)
    held.wait()
    assert [one.name for one in open_store().scenarios()] == ["before"]


def test_who_finds_it_locked_waits(held: subprocess.Popen) -> None:
    assert held.poll() is None
    threading.Timer(0.3, let_go, [held]).start()
    open_store().save_scenario("after", "{}")
    assert [one.name for one in open_store().scenarios()] == ["after", "before"]


def test_another_program_can_open_the_file_between_two_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path))
    store = open_store()
    store.save_scenario("x", "{}")
    done = subprocess.run(
        [sys.executable, "-c", HOLDING, str(store.path)],
        input="\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "open\n")
    with duckdb.connect(str(store.path), read_only=True) as reading:
        assert [one.name for one in store.scenarios()] == [
            "x"
        ]  # readers do not shut each other out
        assert reading.execute("SELECT name FROM scenarios").fetchall() == [("x",)]
