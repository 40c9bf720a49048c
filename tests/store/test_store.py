"""The store: what goes in comes out, whole or not at all."""

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
from carbonrouter_core.store.schema import NAMED_FILES
from carbonrouter_core.store.store import Store, existing_store, open_store
from carbonrouter_core.store.table_files import TEMPORARY
from carbonrouter_core.traces.loading import staged_trace
from carbonrouter_core.traces.staging import stage

ROOT = Path(__file__).resolve().parents[2]
RANDOM = pa.table({"x": np.random.default_rng(0).random(500_000)})
"""4 MB that cannot be packed."""
HEADER = "session,turn,new_prompt_tokens,output_tokens"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The user's store, in a folder of its own."""
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))
    return open_store()


def table_files(store: Store) -> list[str]:
    """The table files that the catalogue names."""
    return [name for (name,) in store.rows(NAMED_FILES)]


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
    assert find_trace("sharegpt").n_turns == 59_837
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


def size_of(store: Store) -> int:
    """Bytes of all files of a store."""
    return sum(path.stat().st_size for path in store.path.parent.rglob("*") if path.is_file())


def test_deleting_a_trace_frees_its_space(store: Store, tmp_path: Path) -> None:
    with stage([table(tmp_path / "s.csv", 50)]) as small:
        store.save_trace(small, "small")
    store.save_scenario("first", "{}")
    size = size_of(store)
    with stage([table(tmp_path / "t.csv", 500_000, 999)]) as staged:
        for _ in range(3):
            store.save_trace(staged, "large")
            assert size_of(store) > size + staged.path.stat().st_size - 100_000
            store.delete_trace("large")
            assert size_of(store) < size + 600_000
    assert [one.name for one in store.traces()] == ["small"]
    assert store.load_trace("small").n_turns == 50
    with pytest.raises(TraceError):
        store.delete_trace("nobody")


def test_what_is_read_while_it_is_deleted_is_read_to_its_end(store: Store) -> None:
    store.save_table("random", "large", RANDOM)
    with store.table_file(lambda: table_files(store)[0], "random data") as file:
        store.delete_table("random", "large")
        assert not list(store.tables_folder.iterdir())
        assert file.read() == RANDOM


def test_what_was_replaced_between_looking_up_and_opening_is_looked_up_again(
    store: Store,
) -> None:
    store.save_table("random", "x", RANDOM)
    names = table_files(store)
    store.save_table("random", "x", RANDOM.slice(0, 10), replace=True)
    names += table_files(store)
    assert store.table_rows(iter(names).__next__, "x") == RANDOM.slice(0, 10)


def test_a_full_disk_leaves_no_half_a_file(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(StoreError, match=r"No space left.*Nothing was changed"):
        store.save_table("random", "large", RANDOM)
    monkeypatch.undo()
    monkeypatch.setenv("CARBONROUTER_HOME", str(store.path.parent))
    assert not list(store.tables_folder.iterdir())
    assert store.table_names("random") == []
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
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, most))
try:
    store.save_table("random", "too large", random)
    print("stored?")
except StoreError as error:
    assert "Nothing was changed" in str(error), error
assert store.load_scenario("kept").text == "{}"
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, most))
try:
    store.save_scenario("too large", "x" * 1_000_000)
    print("stored?")
except StoreError as error:
    assert "Nothing was changed" in str(error), error
assert [one.name for one in store.scenarios()] == ["kept"]
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
    # what it has written goes with the next change, once it is old enough
    written = next(again.tables_folder.glob(f"*{TEMPORARY}"))
    again.save_scenario("now", "{}")
    assert written.exists()
    os.utime(written, (0, 0))
    again.save_scenario("later", "{}")
    assert not written.exists()
    assert [path.name for path in again.tables_folder.iterdir()] == table_files(again)
    with stage([path]) as staged:  # and the import can be done again
        assert again.save_trace(staged, "second").turns == 600_000


def test_threads_do_not_disturb_each_other(store: Store, tmp_path: Path) -> None:
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


# --- Bad input ------------------------------------------------------------------------------


def test_a_newer_store_is_left_alone(store: Store) -> None:
    with duckdb.connect(str(store.path)) as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    before = store.path.read_bytes()
    for use in (open_store, store.traces, lambda: store.save_scenario("x", "{}")):
        with pytest.raises(StoreError, match=r"newer version.*99"):
            use()
    assert store.path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"not a database, but something of the user's", b"", b"x" * 9_000]
)
def test_what_is_no_store_is_said_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path))
    path = tmp_path / FILE_NAME
    path.write_bytes(content)
    for use in (open_store, Store(tmp_path).traces, lambda: Store(tmp_path).save_scenario("x", "")):
        with pytest.raises(StoreError, match=rf"{FILE_NAME}.*CARBONROUTER_HOME"):
            use()
    assert path.read_bytes() == content
    assert find_trace("sharegpt").n_turns == 59_837


def test_a_database_of_something_else_is_left_alone(store: Store) -> None:
    store.path.unlink()
    with duckdb.connect(str(store.path)) as connection:
        connection.execute("CREATE TABLE mine (x INTEGER)")
    with pytest.raises(StoreError, match="no store of this program"):
        open_store()
    with duckdb.connect(str(store.path)) as connection:
        assert connection.execute("SHOW TABLES").fetchall() == [("mine",)]


def test_a_truncated_catalogue_is_said(store: Store) -> None:
    store.save_scenario("x", "{}" * 100_000)
    whole = store.path.read_bytes()
    store.path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreError, match="could not be read|damaged"):
        open_store().scenarios()
    store.path.write_bytes(whole)
    assert len(open_store().scenarios()) == 1


def test_a_table_file_that_is_missing_or_damaged_is_said_and_can_be_deleted(
    store: Store, tmp_path: Path
) -> None:
    with stage([table(tmp_path / "t.csv", 5_000)]) as staged:
        store.save_trace(staged, "mine")
        store.save_trace(staged, "other")
    name = str(store.rows("SELECT file FROM traces WHERE name = 'mine'")[0][0])
    file = store.tables_folder / name
    content = file.read_bytes()
    for damaged in (content[:-500], content[:200] + b"x" * 2_000 + content[2_200:], b"", None):
        if damaged is None:
            file.unlink()
        else:
            file.write_bytes(damaged)
        with pytest.raises(StoreError, match=rf"trace 'mine'.*{name}.*copy"):
            store.load_trace("mine")
    assert [one.name for one in store.traces()] == ["other", "mine"]
    assert store.load_trace("other").n_turns == 5_000
    store.save_scenario("still", "{}")
    file.write_bytes(content)
    assert store.load_trace("mine").n_turns == 5_000
    file.unlink()
    store.delete_trace("mine")
    assert [one.name for one in store.traces()] == ["other"]


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_store_that_cannot_be_written_can_be_read(store: Store) -> None:
    store.save_table("random", "x", RANDOM)
    store.save_scenario("x", "{}")
    folders = (store.path.parent, store.tables_folder)
    before = store.path.read_bytes()
    store.path.chmod(0o400)
    for folder in folders:
        folder.chmod(0o500)
    try:
        assert open_store().load_table("random", "x")[0] == RANDOM
        with pytest.raises(StoreError, match=r"could not be written.*CARBONROUTER_HOME"):
            store.save_scenario("y", "{}")
        with pytest.raises(StoreError, match=r"could not be written.*CARBONROUTER_HOME"):
            store.save_table("random", "y", RANDOM)
        with pytest.raises(StoreError, match=r"could not be written.*CARBONROUTER_HOME"):
            store.delete_table("random", "x")
    finally:
        for folder in folders:
            folder.chmod(0o700)
    assert store.path.read_bytes() == before


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
    assert store.tables("intensity") == []
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
        assert store.rows(f"SELECT current_setting('{name}')") == [(False,)]
    with pytest.raises(StoreError):
        store.rows("SELECT * FROM read_csv('https://example.invalid/x.csv')")


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


def test_the_files_are_plain_duckdb_and_parquet(store: Store, tmp_path: Path) -> None:
    with stage([table(tmp_path / "t.csv", 9)]) as staged:
        store.save_trace(staged, "mine")
    with duckdb.connect(str(store.path), read_only=True) as connection:
        rows = connection.execute("SELECT name, turns, file FROM traces").fetchall()
        assert rows == [("mine", 9, table_files(store)[0])]
        path = store.tables_folder / rows[0][2]
        assert connection.read_parquet(str(path)).count("*").fetchall() == [(9,)]
