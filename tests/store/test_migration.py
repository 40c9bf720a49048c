"""Stores of older versions: brought forward with all that they hold, or left as they were."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from carbonrouter_core import Scenario, StoreError
from carbonrouter_core.store import database, migration
from carbonrouter_core.store.folder import FILE_NAME
from carbonrouter_core.store.schema import NAMED_FILES, VERSION
from carbonrouter_core.store.store import Store
from carbonrouter_core.traces.loading import staged_trace
from carbonrouter_core.traces.staging import Staged, stage

ROOT = Path(__file__).resolve().parents[2]
VERSION_1 = """
CREATE TABLE schema_version (version INTEGER NOT NULL);
INSERT INTO schema_version VALUES (1);
CREATE SEQUENCE ids START 1;
CREATE TABLE traces (id BIGINT PRIMARY KEY, name VARCHAR UNIQUE NOT NULL, turns BIGINT NOT NULL,
    sessions BIGINT NOT NULL, format VARCHAR NOT NULL, times VARCHAR NOT NULL, first_utc_s DOUBLE,
    last_utc_s DOUBLE, difficulty_source VARCHAR NOT NULL, report VARCHAR NOT NULL,
    created_utc TIMESTAMP NOT NULL);
"""
VERSION_2 = """
UPDATE schema_version SET version = 2;
CREATE TABLE scenarios (name VARCHAR PRIMARY KEY, json VARCHAR NOT NULL, note VARCHAR NOT NULL,
    created_utc TIMESTAMP NOT NULL);
CREATE TABLE runs (id BIGINT PRIMARY KEY, name VARCHAR NOT NULL, note VARCHAR NOT NULL,
    scenario_json VARCHAR NOT NULL, summary_json VARCHAR NOT NULL, engine_version VARCHAR NOT NULL,
    data_hashes VARCHAR NOT NULL, seed BIGINT NOT NULL, created_utc TIMESTAMP NOT NULL);
"""
VERSION_3 = """
UPDATE schema_version SET version = 3;
CREATE TABLE tables (id BIGINT PRIMARY KEY, kind VARCHAR NOT NULL, name VARCHAR NOT NULL,
    meta VARCHAR NOT NULL, created_utc TIMESTAMP NOT NULL, UNIQUE (kind, name));
"""
DECISIONS = pa.table(
    {
        "policy": ["sticky", "sticky"],
        "session": ["a", "a"],
        "turn": pa.array([0, 1], pa.int32()),
        "model": ["m", "m"],
        "gpu": ["g", "g"],
        "region": ["r", None],
    }
)
OTHER = DECISIONS.set_column(5, "region", pa.array(["r", "q"]))
SERIES = pa.table({"series": pa.array([0, 0], pa.int32()), "g_per_kwh": [1.5, float("nan")]})


@pytest.fixture
def staged(tmp_path: Path):
    path = tmp_path / "t.csv"
    rows = "".join(f"s{i % 9},{i // 9},{i % 97},5\n" for i in range(3_000))
    path.write_text(f"session,turn,new_prompt_tokens,output_tokens\n{rows}")
    with stage([path]) as staged:
        yield staged


def old_store(folder: Path, staged: Staged, version: int) -> None:
    """A store as the versions before table files made it, with something of everything."""
    folder.mkdir(exist_ok=True)
    with duckdb.connect(str(folder / FILE_NAME)) as connection:
        connection.execute("".join((VERSION_1, VERSION_2, VERSION_3)[:version]))

        def key() -> int:
            return connection.execute("SELECT nextval('ids')").fetchall()[0][0]

        def rows(name: str, content: pa.Table) -> None:
            connection.register("content", content)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM content")
            connection.unregister("content")

        report = staged.report
        for trace, when in (("mine", "2024-05-01 10:00:00.123456"), ("it's", "2024-06-01")):
            rows(f"turns_{(number := key())}", pq.read_table(staged.path))
            connection.execute(
                "INSERT INTO traces VALUES ($1, $2, $3, $4, $5, $6, NULL, NULL, $7, $8, $9)",
                [number, trace, report.turns, report.sessions, report.format_id, report.times,
                 staged.difficulty_source, json.dumps(report.to_dict()), when],
            )  # fmt: skip
        if version >= 2:
            connection.execute(
                "INSERT INTO scenarios VALUES ('windy', $1, 'a note', '2024-05-02')",
                [Scenario(idle_s=60).to_json()],
            )
            for run, content in (("first", DECISIONS), ("bare", None), ("third", OTHER)):
                number = key()
                connection.execute(
                    "INSERT INTO runs VALUES ($1, $2, 'n', '{}', '{\"x\": 1}', '0.1', "
                    "'{\"trace\": \"abc\"}', 7, '2024-05-03')",
                    [number, run],
                )
                if content is not None:
                    rows(f"decisions_{number}", content)
        if version >= 3:
            number = key()
            rows(f"table_{number}", SERIES)
            connection.execute(
                "INSERT INTO tables VALUES ($1, 'intensity', 'mine', '{\"a\": 1}', '2024-05-04')",
                [number],
            )


def check(store: Store, staged: Staged, version: int) -> None:
    """All that :func:`old_store` stored is there."""
    assert store.schema_version == VERSION
    assert [one.name for one in store.traces()] == ["it's", "mine"]
    mine = store.trace("mine")
    assert (mine.turns, mine.sessions) == (3_000, 9)
    assert mine.report == json.loads(json.dumps(staged.report.to_dict()))
    assert mine.created_utc.isoformat() == "2024-05-01T10:00:00.123456+00:00"
    for name in ("mine", "it's"):
        assert store.load_trace(name).sha256 == staged_trace(staged, name).sha256
    if version >= 2:
        assert Scenario.from_json(store.load_scenario("windy").text).idle_s == 60
        assert store.load_scenario("windy").note == "a note"
        third, bare, first = store.runs()
        assert [one.name for one in (third, bare, first)] == ["third", "bare", "first"]
        assert (first.id, first.seed, first.data_hashes) == (3, 7, {"trace": "abc"})
        assert store.load_decisions(first.id) == DECISIONS
        moved = store.turns_served_elsewhere(first.id, third.id, ["sticky"])
        assert moved == {"sticky": (2, 1)}
        assert store.turns_served_elsewhere(first.id, bare.id, ["sticky"]) is None
    else:
        assert store.scenarios() == store.runs() == []
    if version >= 3:
        table, meta = store.load_table("intensity", "mine")
        assert table["g_per_kwh"].to_pylist()[0] == 1.5 and meta == {"a": 1}
        assert table.schema == SERIES.schema
    named = [name for (name,) in store.rows(NAMED_FILES)]
    assert len(named) == (2, 4, 5)[version - 1]
    # it can be used on: ids are new ones, and leftovers go
    store.save_scenario("new", "{}")
    store.save_table("intensity", "new", SERIES)
    assert [one.name for one in store.tables("intensity")][0] == "new"
    store.delete_table("intensity", "new")
    assert {path.name for path in store.tables_folder.iterdir()} == set(named)
    assert {path.name for path in store.path.parent.iterdir()} == {
        store.path.name,
        store.tables_folder.name,
    }


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_older_store_is_brought_forward_with_what_it_holds(
    tmp_path: Path, staged: Staged, version: int
) -> None:
    old_store(tmp_path / "it's", staged, version)
    check(Store(tmp_path / "it's"), staged, version)


def test_the_log_of_a_process_that_was_killed_is_not_lost(tmp_path: Path, staged: Staged) -> None:
    old_store(tmp_path / "home", staged, 3)
    path = tmp_path / "home" / FILE_NAME
    late = (
        "import duckdb, os, sys\n"
        "connection = duckdb.connect(sys.argv[1])\n"
        "connection.execute(\"INSERT INTO scenarios VALUES ('late', '{}', '', '2024-05-09')\")\n"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", late, str(path)], check=True)
    assert path.with_name(f"{FILE_NAME}.wal").stat().st_size
    store = Store(tmp_path / "home")
    assert [one.name for one in store.scenarios()] == ["late", "windy"]
    check(store, staged, 3)


@pytest.mark.parametrize("files", range(6))
def test_a_migration_that_fails_changes_nothing(
    tmp_path: Path, staged: Staged, files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each table file, and when the new catalogue takes the place of the old one."""
    old_store(tmp_path / "home", staged, 3)
    done = 0

    def full(*arguments: object) -> None:
        nonlocal done
        if done == files:
            raise OSError(28, "No space left on device")
        done += 1

    monkeypatch.setattr(migration.NewTable, "put_in_place", full) if files < 5 else None
    monkeypatch.setattr(migration.os, "replace", full)
    store = Store(tmp_path / "home")
    if files == 5:
        done = 5
    with pytest.raises(StoreError, match=r"No space left.*Nothing was changed"):
        store.traces()
    with duckdb.connect(str(store.path)) as connection:
        assert connection.execute("SELECT version FROM schema_version").fetchall() == [(3,)]
        assert connection.execute("SELECT count(*) FROM turns_1").fetchall() == [(3_000,)]
    monkeypatch.undo()
    check(store, staged, 3)


KILLED = """
import os, sys, time
from pathlib import Path
from carbonrouter_core.store.store import Store

replace, left = os.replace, int(sys.argv[2])

def stop(old, new):
    global left
    if left == 0:
        print("here", flush=True)
        time.sleep(60)
    left -= 1
    replace(old, new)
    if left == 0 and sys.argv[3] == "after":
        print("here", flush=True)
        time.sleep(60)

os.replace = stop
Store(Path(sys.argv[1])).traces()
"""


@pytest.mark.parametrize(
    ("replaced", "when"), [(0, "before"), (3, "before"), (5, "before"), (6, "after")]
)
def test_a_migration_that_is_killed_loses_nothing(
    tmp_path: Path, staged: Staged, replaced: int, when: str
) -> None:
    """At the first and a later of the five table files, and before and after the catalogue."""
    old_store(tmp_path / "home", staged, 3)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "home"), str(replaced), when],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    for path in (tmp_path / "home" / "carbonrouter.tables").iterdir():
        os.utime(path, (0, 0))  # as if it had been a while ago
    check(Store(tmp_path / "home"), staged, 3)


def test_two_processes_bring_it_forward_once(tmp_path: Path, staged: Staged) -> None:
    old_store(tmp_path / "home", staged, 3)
    work = (
        "import sys\nfrom pathlib import Path\nfrom carbonrouter_core.store.store import Store\n"
        "sys.stdin.readline()\nstore = Store(Path(sys.argv[1]))\n"
        "store.save_scenario(sys.argv[2], '{}')"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", work, str(tmp_path / "home"), name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b")
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    store = Store(tmp_path / "home")
    assert [one.name for one in store.scenarios()] == ["a", "b", "windy"]
    check(store, staged, 3)


def test_an_older_store_in_use_by_an_older_version_is_waited_for(
    tmp_path: Path, staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_store(tmp_path / "home", staged, 3)
    monkeypatch.setattr(database, "LOCK_WAIT_S", 0.1)
    hold = "import duckdb, sys\nc = duckdb.connect(sys.argv[1])\nprint('open', flush=True)\ninput()"
    process = subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path / "home" / FILE_NAME)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    with pytest.raises(StoreError, match="older version of this program runs"):
        Store(tmp_path / "home").traces()
    process.communicate("\n")
    check(Store(tmp_path / "home"), staged, 3)
