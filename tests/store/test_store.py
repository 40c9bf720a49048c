"""The store: what goes in comes out, whole or not at all, for one process at a time."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from carbonrouter_core import Scenario, StoreError, TraceError, compare, find_trace
from carbonrouter_core.errors import InputError
from carbonrouter_core.store.folder import FILE_NAME, home
from carbonrouter_core.store.runs import StoredRun
from carbonrouter_core.store.store import MIGRATIONS, Store, existing_store, open_store
from carbonrouter_core.traces.loading import staged_trace
from carbonrouter_core.traces.staging import stage

ROOT = Path(__file__).resolve().parents[2]
RANDOM = pa.table({"x": np.random.default_rng(0).random(500_000)})
"""4 MB that cannot be packed."""
HEADER = "session,turn,new_prompt_tokens,output_tokens"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The user's store, in a folder of its own."""
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))
    yield open_store()


def table(path: Path, turns: int, sessions: int = 3) -> Path:
    rows = "".join(f"s{i % sessions},{i // sessions},{i % 97},5\n" for i in range(turns))
    path.write_text(f"{HEADER}\n{rows}")
    return path


def test_the_folder_is_the_one_that_is_named_or_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path))
    assert home() == tmp_path
    monkeypatch.delenv("CARBONROUTER_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert home() == tmp_path / "share" / "carbonrouter"


def test_nothing_is_made_before_something_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))
    assert existing_store() is None
    assert find_trace("sharegpt").n_turns == 61_224
    with pytest.raises(TraceError, match="Unknown trace"):
        find_trace("mine")
    assert not (tmp_path / "home").exists()


# --- Traces ----------------------------------------------------------------------------------


def test_a_stored_trace_comes_back_as_it_was(store: Store, tmp_path: Path) -> None:
    with stage([table(tmp_path / "t.csv", 50)]) as staged:
        before = staged_trace(staged, "mine")
        stored = store.save_trace(staged, " mine ")
    assert (stored.name, stored.turns, stored.sessions) == ("mine", 50, 3)
    assert stored.report["rows_read"] == 50
    assert [one.name for one in store.traces()] == ["mine"]
    after = store.load_trace("mine")
    assert after.sha256 == before.sha256
    assert find_trace("mine").sha256 == before.sha256
    assert store.trace_rows("mine", 5).num_rows == 5


def test_names_that_are_taken_or_cannot_be(store: Store, tmp_path: Path) -> None:
    with stage([table(tmp_path / "t.csv", 5)]) as staged:
        store.save_trace(staged, "mine")
        for name in ("mine", "sharegpt"):
            with pytest.raises(TraceError, match="already a trace"):
                store.save_trace(staged, name)
        for name in ("", " ", "x" * 201, "a\nb"):
            with pytest.raises(InputError, match="name"):
                store.save_trace(staged, name)
        odd = "'; DROP TABLE traces; -- ../../étc <b>"
        store.save_trace(staged, odd)
    assert store.load_trace(odd).n_turns == 5
    with pytest.raises(TraceError, match="mine"):
        store.load_trace("mien")


def test_what_is_refused_is_not_stored(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADER}\na,0,10,-5\n")
    with stage([path]) as staged, pytest.raises(TraceError, match="line 2"):
        store.save_trace(staged, "mine")
    assert store.traces() == []


def test_an_import_that_fails_half_way_leaves_nothing(store: Store, tmp_path: Path) -> None:
    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with stage([table(tmp_path / "t.csv", 50)]) as staged:
        with pytest.raises(KeyboardInterrupt):
            store.save_trace(staged, "mine", progress=stop)
        assert store.traces() == []
        store.save_trace(staged, "mine")
    assert store.load_trace("mine").n_turns == 50


def test_deleting_a_trace_frees_its_space(store: Store, tmp_path: Path) -> None:
    with stage([table(tmp_path / "t.csv", 500_000, 999)]) as staged:
        store.save_trace(staged, "large")
        with stage([table(tmp_path / "s.csv", 50)]) as small:
            store.save_trace(small, "small")  # behind it in the file, which cannot be cut off
        with_both = store.path.stat().st_size
        for _ in range(3):
            store.delete_trace("large")
            assert store.path.stat().st_size < 0.6 * with_both
            store.save_trace(staged, "large")
            assert store.path.stat().st_size < 1.6 * with_both
    assert [one.name for one in store.traces()] == ["large", "small"]
    assert store.load_trace("small").n_turns == 50
    with pytest.raises(TraceError):
        store.delete_trace("nobody")


def test_the_file_shrinks_while_others_read_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "carbonrouter_core.store.store.EXCHANGE_WAIT_S", 60.0
    )  # on a busy machine, too
    store.save_table("random", "large", RANDOM)
    with stage([table(tmp_path / "t.csv", 5_000)]) as staged:
        store.save_trace(staged, "small")
    expected = store.load_trace("small").sha256
    found: list[object] = []
    deleted = threading.Event()

    def read() -> None:
        try:
            last = False
            while not last:
                last = deleted.is_set()
                found.append(store.load_trace("small").sha256 == expected)
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    store.delete_table("random", "large")
    deleted.set()
    for thread in threads:
        thread.join()
    assert set(found) == {True}
    assert store.path.stat().st_size < 2_000_000


def test_who_does_not_let_go_only_puts_off_the_shrinking(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carbonrouter_core.store.store.EXCHANGE_WAIT_S", 0.01)
    store.save_table("random", "large", RANDOM)
    store.save_scenario("kept", "{}")
    store.save_table("random", "last", RANDOM.slice(400_000))
    inside, out = threading.Event(), threading.Event()

    def use() -> None:
        with store._users.one():
            inside.set()
            out.wait()

    user = threading.Thread(target=use)
    user.start()
    inside.wait()
    store.delete_table("random", "large")
    out.set()
    user.join()
    assert store.path.stat().st_size > 4_000_000
    assert store.table_names("random") == ["last"]
    again = open_store()
    assert again.path.stat().st_size < 2_500_000
    assert again.load_table("random", "last")[0] == RANDOM.slice(400_000)
    assert again.load_scenario("kept").text == "{}"


def test_a_full_disk_only_keeps_the_file_from_shrinking(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    store.save_table("random", "large", RANDOM)
    store.save_table("random", "last", RANDOM.slice(400_000))
    monkeypatch.setattr(os, "replace", full)
    store.delete_table("random", "large")
    assert [path.name for path in store.path.parent.iterdir()] == [FILE_NAME]
    store.save_table("random", "again", RANDOM)
    assert store.load_table("random", "again")[0] == RANDOM


FULL = """
import resource, signal, sys
import numpy as np, pyarrow as pa
from carbonrouter_core.errors import StoreError
from carbonrouter_core.store.store import open_store

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = open_store()
store.save_scenario("kept", "{}")
random = pa.table({"x": np.random.default_rng(0).random(500_000)})
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
for limit in (2_000_000, 500_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    try:
        store.save_table("random", "too large", random)
        print("stored?")
    except StoreError as error:
        assert "Nothing was changed" in str(error), error
    store.save_scenario(f"at {limit}", "{}")
    store._free_space()  # as after deleting something; the second time it breaks the database
    assert store.load_scenario(f"at {limit}").text == "{}"
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
store.save_table("random", "c", random)
assert store.load_table("random", "c")[0] == random
assert store.table_names("random") == ["c"]
print("went on")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits the size of files as POSIX does")
def test_a_full_disk_stops_an_import_and_nothing_else(tmp_path: Path) -> None:
    # a limit on the size of files stands in for a full disk: writing fails the same way
    done = subprocess.run(
        [sys.executable, "-c", FULL],
        cwd=ROOT,
        env=os.environ | {"CARBONROUTER_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("went on\n", "")


SHRINKING = """
import os, sys, time
from carbonrouter_core.store import store

replace = os.replace

def stop(old, new):
    if sys.argv[1] == "after":
        replace(old, new)
    print("here", flush=True)
    time.sleep(60)

os.replace = stop
store.open_store().delete_table("random", "large")
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_killed_while_the_file_shrinks_leaves_a_whole_store(
    store: Store, tmp_path: Path, when: str
) -> None:
    store.save_table("random", "large", RANDOM)
    with stage([table(tmp_path / "t.csv", 50)]) as staged:
        store.save_trace(staged, "small")
    before = store.load_trace("small").sha256
    process = subprocess.Popen(
        [sys.executable, "-c", SHRINKING, when], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    again = open_store()
    assert [one.name for one in again.traces()] == ["small"]
    assert again.load_trace("small").sha256 == before
    assert again.path.stat().st_size < 2_000_000
    assert [path.name for path in again.path.parent.iterdir()] == [FILE_NAME]


KILLED = """
import sys, time
from pathlib import Path
from carbonrouter_core.store.store import open_store
from carbonrouter_core.traces.staging import stage

def half(share):
    if share >= 0.5:
        print("half", flush=True)
        time.sleep(60)

with stage([Path(sys.argv[1])]) as staged:
    open_store().save_trace(staged, "second", progress=half)
"""


def test_a_process_killed_while_importing_leaves_what_was_there(
    store: Store, tmp_path: Path
) -> None:
    path = table(tmp_path / "t.csv", 600_000, 1999)
    with stage([table(tmp_path / "first.csv", 50)]) as staged:
        store.save_trace(staged, "first")
    before = store.load_trace("first").sha256
    size = store.path.stat().st_size
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "half\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    again = open_store()
    assert [one.name for one in again.traces()] == ["first"]
    assert again.load_trace("first").sha256 == before
    assert again.path.stat().st_size <= size + 300_000
    tables = again._rows("SELECT table_name FROM information_schema.tables")
    assert len([name for (name,) in tables if name.startswith("turns_")]) == 1
    with stage([path]) as staged:  # and the import can be done again
        assert again.save_trace(staged, "second").turns == 600_000


HOLDING = """
from carbonrouter_core.store.store import open_store
open_store()
print("open", flush=True)
input()
"""


def test_a_second_process_is_told_and_can_use_what_is_built_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "open\n"
        with pytest.raises(StoreError, match="another process.*CARBONROUTER_HOME.*built-in data"):
            open_store()
        assert find_trace("sharegpt").n_turns == 61_224
        with pytest.raises(StoreError, match="another process"):
            find_trace("mine")
    finally:
        process.communicate("\n")
    open_store()  # once the other one has gone


def test_threads_have_a_cursor_each(store: Store, tmp_path: Path) -> None:
    with stage([table(tmp_path / "t.csv", 3000)]) as staged:
        store.save_trace(staged, "mine")
    expected = store.load_trace("mine").sha256
    found: list[object] = []

    def work(number: int) -> None:
        try:
            for i in range(10):
                found.append(store.load_trace("mine").sha256 == expected)
                store.save_scenario(f"{number}-{i}", "{}")
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 60
    assert len(store.scenarios()) == 60


# --- Schema ----------------------------------------------------------------------------------


def test_an_older_store_is_brought_forward_with_what_it_holds(tmp_path: Path) -> None:
    old = Store(tmp_path, MIGRATIONS[:1])
    with stage([table(tmp_path / "t.csv", 9)]) as staged:
        old.save_trace(staged, "mine")
    assert old.schema_version == 1
    old.close()
    new = Store(tmp_path)
    assert new.schema_version == len(MIGRATIONS)
    assert new.load_trace("mine").n_turns == 9
    new.save_scenario("a", "{}")
    new.close()


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    def wrong(cursor: object) -> None:
        cursor.execute("CREATE TABLE half (x INTEGER)")
        cursor.execute("SELECT * FROM nowhere")

    Store(tmp_path).close()
    with pytest.raises(StoreError):
        Store(tmp_path, (*MIGRATIONS, wrong))
    store = Store(tmp_path)
    assert store.schema_version == len(MIGRATIONS)
    assert not store._has_table("half")
    store.close()


def test_a_newer_store_is_left_alone(tmp_path: Path) -> None:
    Store(tmp_path, (*MIGRATIONS, lambda cursor: None)).close()
    with pytest.raises(StoreError, match="newer version"):
        Store(tmp_path)


def test_what_is_no_store_is_said_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("not a database, but something of the user's")
    with pytest.raises(StoreError, match=FILE_NAME):
        Store(tmp_path)
    assert (tmp_path / FILE_NAME).read_text().startswith("not a database")


# --- Scenarios, runs, tables -----------------------------------------------------------------


def test_scenarios_are_kept_by_name(store: Store) -> None:
    text = Scenario(name="mine", idle_s=60).to_json()
    saved = store.save_scenario("mine", text, note="a note")
    assert saved.created_utc.tzinfo is not None
    with pytest.raises(InputError, match="already a scenario"):
        store.save_scenario("mine", "{}")
    store.save_scenario("mine", text, replace=True)
    assert Scenario.from_json(store.load_scenario("mine").text).idle_s == 60
    store.delete_scenario("mine")
    assert store.scenarios() == []
    with pytest.raises(InputError):
        store.load_scenario("mine")


def test_runs_are_kept_with_their_decisions(store: Store) -> None:
    scenario = Scenario(window_days=1)
    run = StoredRun(
        name="first",
        scenario_json=scenario.to_json(),
        summary_json=json.dumps({"carbon_g": 1.5}),
        engine_version="0.1.0",
        seed=7,
        data_hashes={"trace": "abc"},
        note="n",
    )
    decisions = pa.table({"turn": [0, 1], "deployment": pa.array([3, 4], pa.int16())})
    saved = store.save_run(run, decisions)
    bare = store.save_run(run)
    assert [one.id for one in store.runs()] == [bare.id, saved.id]
    again = store.load_run(saved.id)
    assert (again.data_hashes, again.seed, again.note) == ({"trace": "abc"}, 7, "n")
    assert store.load_decisions(saved.id) == decisions
    with pytest.raises(InputError, match="without its decisions"):
        store.load_decisions(bare.id)
    store.delete_run(saved.id)
    assert [one.id for one in store.runs()] == [bare.id]
    with pytest.raises(InputError):
        store.load_decisions(saved.id)


def test_other_tables_are_kept_by_kind_and_name(store: Store) -> None:
    series = pa.table({"start_s": [0, 3600], "g_per_kwh": [100.0, 200.0]})
    store.save_table("intensity", "DE-LU", series, meta={"basis": "lifecycle"})
    with pytest.raises(InputError, match="already"):
        store.save_table("intensity", "DE-LU", series)
    store.save_table("intensity", "DE-LU", series.slice(1), meta={}, replace=True)
    back, meta = store.load_table("intensity", "DE-LU")
    assert back["g_per_kwh"].to_pylist() == [200.0]
    assert meta == {}
    assert store.table_names("other") == []
    store.delete_table("intensity", "DE-LU")
    with pytest.raises(InputError):
        store.load_table("intensity", "DE-LU")


def test_nothing_is_fetched_from_the_network(store: Store) -> None:
    for name in ("autoinstall_known_extensions", "autoload_known_extensions"):
        assert store._rows(f"SELECT current_setting('{name}')") == [(False,)]
    with pytest.raises(StoreError):
        store._rows("SELECT * FROM read_csv('https://example.invalid/x.csv')")


# --- Export and import -----------------------------------------------------------------------


@pytest.mark.parametrize("source", ["sharegpt", "claude-code"])
def test_a_trace_exported_and_imported_gives_the_same_figures(
    store: Store, tmp_path: Path, source: str
) -> None:
    scenario = Scenario(trace=source)
    policies = ["carbonrouter", "faircarbon", "sticky"]
    first = compare(scenario, policies)
    placed = tmp_path / "placed.parquet"
    first.prepared.placed.to_frame().to_parquet(placed, index=False)
    with stage([placed]) as staged:
        assert not staged.report.findings
        store.save_trace(staged, "again")
    second = compare(scenario.replace(trace="again"), policies)
    one, two = first.to_dict(), second.to_dict()
    assert json.dumps(one["policies"]) == json.dumps(two["policies"])
    # and what the store writes is the same trace once more
    store.export_trace("again", tmp_path / "again.parquet")
    assert find_trace(str(tmp_path / "again.parquet")).sha256 == second.trace.sha256


def test_a_log_with_dates_and_observed_figures_survives_export_and_import(
    store: Store, shared_data: Path, tmp_path: Path
) -> None:
    with stage([shared_data / "formats" / "openai_usage.jsonl"]) as staged:
        store.save_trace(staged, "log")
    store.export_trace("log", tmp_path / "log.parquet")
    with stage([tmp_path / "log.parquet"]) as staged:
        store.save_trace(staged, "again")
    assert store.load_trace("again").sha256 == store.load_trace("log").sha256


def test_the_file_is_a_plain_duckdb_file(store: Store, tmp_path: Path) -> None:
    with stage([table(tmp_path / "t.csv", 9)]) as staged:
        store.save_trace(staged, "mine")
    with duckdb.connect(str(store.path), read_only=True) as connection:
        assert connection.execute("SELECT name, turns FROM traces").fetchall() == [("mine", 9)]
