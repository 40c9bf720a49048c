"""The store: one DuckDB file with traces, scenarios, runs and intensity series of the user.

It lives in the folder that ``CARBONROUTER_HOME`` names, else in the user's data folder. The
built-in tables are not in it; they are read where they are, so that everything built in works
without a store, or while another process holds it.

DuckDB lets one process write a file. Within a process there is one connection and a cursor for
each thread, since one connection shared by threads mixes up their results.

DuckDB keeps the blocks of what was deleted for what comes next; only at its end does its file
shrink. Where much of it is free, what is left is copied into a new file that takes its place in
one step: a process killed before or after leaves a whole store.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from carbonrouter_core.errors import InputError, StoreError, TraceError
from carbonrouter_core.progress import Progress, nobody_listens
from carbonrouter_core.reading.database import Users, connect, quiet
from carbonrouter_core.traces.builtin import BUILTIN_TRACES
from carbonrouter_core.traces.loading import trace_from_table
from carbonrouter_core.traces.schema import CANONICAL, Trace
from carbonrouter_core.traces.staging import Staged
from carbonrouter_core.words.names import unknown

FILE_NAME = "carbonrouter.duckdb"
MEMORY_LIMIT = "700MB"
"""What the database may hold in memory; it spills to disk beyond."""
MAX_NAME = 200
"""Characters of a name."""
MAX_NOTE = 2000
"""Characters of a note."""
CHUNK_ROWS = 250_000
"""Turns written at a time within the one transaction of an import."""

LEAST_FREE_BYTES = 2**20
"""Free space worth copying the rest for (and only if it is over half of what is left)."""
EXCHANGE_WAIT_S = 5.0
"""How long a smaller file waits for others of this process to finish reading the old one."""

Migration = Callable[[Any], None]


def home() -> Path:
    """The folder of the user's data: ``CARBONROUTER_HOME``, or where the system keeps such."""
    chosen = os.environ.get("CARBONROUTER_HOME", "").strip()
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "CarbonRouter"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "CarbonRouter"
    base = os.environ.get("XDG_DATA_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".local" / "share") / "carbonrouter"


# --- What is stored --------------------------------------------------------------------------


@dataclass(frozen=True)
class StoredTrace:
    """A trace in the store: what can be said about it without reading its turns."""

    name: str
    turns: int
    sessions: int
    format_id: str
    times: str
    first_utc_s: float | None
    last_utc_s: float | None
    created_utc: datetime
    report: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class StoredText:
    """A named text with a note: a scenario as JSON."""

    name: str
    text: str
    note: str
    created_utc: datetime


@dataclass(frozen=True)
class StoredTable:
    """A table of some kind in the store: what was stored beside it, without its rows."""

    name: str
    meta: Mapping[str, Any] = field(repr=False)
    created_utc: datetime


@dataclass(frozen=True)
class StoredRun:
    """A run: what was computed, from what, and its figures. ``id`` is 0 before it is stored."""

    name: str
    scenario_json: str
    summary_json: str
    engine_version: str
    seed: int
    data_hashes: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    id: int = 0
    created_utc: datetime | None = None


# --- Schema ----------------------------------------------------------------------------------


def _first_schema(cursor: Any) -> None:
    """Traces: a row each here, and a table of turns each, so that dropping it frees its space."""
    cursor.execute("CREATE SEQUENCE ids START 1")
    cursor.execute(
        "CREATE TABLE traces (id BIGINT PRIMARY KEY, name VARCHAR UNIQUE NOT NULL, "
        "turns BIGINT NOT NULL, sessions BIGINT NOT NULL, format VARCHAR NOT NULL, "
        "times VARCHAR NOT NULL, first_utc_s DOUBLE, last_utc_s DOUBLE, "
        "difficulty_source VARCHAR NOT NULL, report VARCHAR NOT NULL, "
        "created_utc TIMESTAMP NOT NULL)"
    )


def _scenarios_and_runs(cursor: Any) -> None:
    cursor.execute(
        "CREATE TABLE scenarios (name VARCHAR PRIMARY KEY, json VARCHAR NOT NULL, "
        "note VARCHAR NOT NULL, created_utc TIMESTAMP NOT NULL)"
    )
    cursor.execute(
        "CREATE TABLE runs (id BIGINT PRIMARY KEY, name VARCHAR NOT NULL, note VARCHAR NOT NULL, "
        "scenario_json VARCHAR NOT NULL, summary_json VARCHAR NOT NULL, "
        "engine_version VARCHAR NOT NULL, data_hashes VARCHAR NOT NULL, seed BIGINT NOT NULL, "
        "created_utc TIMESTAMP NOT NULL)"
    )


def _tables(cursor: Any) -> None:
    """Any other table of the user under a kind and a name, such as intensity series."""
    cursor.execute(
        "CREATE TABLE tables (id BIGINT PRIMARY KEY, kind VARCHAR NOT NULL, "
        "name VARCHAR NOT NULL, meta VARCHAR NOT NULL, created_utc TIMESTAMP NOT NULL, "
        "UNIQUE (kind, name))"
    )


MIGRATIONS: tuple[Migration, ...] = (_first_schema, _scenarios_and_runs, _tables)
"""What takes a store from each schema version to the next. Only ever append."""


# --- The store -------------------------------------------------------------------------------


class Store:
    """An open store. Use :func:`open_store`, which opens each file once in a process."""

    def __init__(self, folder: Path, migrations: Sequence[Migration] = MIGRATIONS) -> None:
        self.path = folder / FILE_NAME
        self._smaller = folder / f"{FILE_NAME}.smaller"
        self._writing = threading.RLock()
        self._users = Users()
        self._broken = False
        self.changes = 0
        """How often something was written: tells what was read before from what is there now."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._connect()
        except OSError as error:
            raise StoreError(
                f"The store cannot be opened: {error.strerror} ({folder.name}). Set "
                "CARBONROUTER_HOME to a folder you may write to."
            ) from error
        except duckdb.IOException as error:
            raise StoreError(_why_not_opened(self.path, error)) from error
        except duckdb.Error as error:
            raise StoreError(
                f"{self.path.name} is not a store of this program, or is damaged: "
                f"{_first_line(error)}. Move it away, or set CARBONROUTER_HOME to another folder."
            ) from error
        try:
            self._migrate(migrations)
        except BaseException:
            self.close()
            raise
        with suppress(OSError):
            self._drop_smaller()  # of a process that was killed while it shrank the file
        self._free_space()

    def _connect(self) -> None:
        self._connection = connect(str(self.path), memory_limit=MEMORY_LIMIT)
        self._local = threading.local()
        self._cursors: weakref.WeakSet[Any] = weakref.WeakSet()  # of all threads

    def close(self) -> None:
        """Close the file, so that another process can open it."""
        for cursor in list(self._cursors):
            cursor.close()
        self._connection.close()

    @property
    def _cursor(self) -> Any:
        cursor = getattr(self._local, "cursor", None)
        if cursor is None:
            cursor = self._local.cursor = quiet(self._connection.cursor())
            self._cursors.add(cursor)
        return cursor

    def _migrate(self, migrations: Sequence[Migration]) -> None:
        with self.transaction() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
            row = cursor.execute("SELECT max(version) FROM schema_version").fetchone()
            version = row[0] or 0
            if version > len(migrations):
                raise StoreError(
                    f"{self.path.name} was written by a newer version of this program (schema "
                    f"{version}, this one knows {len(migrations)}). Update it, or set "
                    "CARBONROUTER_HOME to another folder."
                )
            for migrate in migrations[version:]:
                migrate(cursor)
            if version < len(migrations):
                cursor.execute("DELETE FROM schema_version")
                cursor.execute("INSERT INTO schema_version VALUES ($1)", [len(migrations)])

    @property
    def schema_version(self) -> int:
        """The schema version of the open file."""
        return int(self._rows("SELECT version FROM schema_version")[0][0])

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A cursor whose work is stored as a whole when the block ends, or not at all."""
        try:
            with self._writing, self._use() as cursor:
                try:
                    cursor.execute("BEGIN")
                    yield cursor
                    cursor.execute("COMMIT")
                    self.changes += 1
                except BaseException:
                    with suppress(duckdb.Error):
                        cursor.execute("ROLLBACK")
                    raise
        except duckdb.Error as error:
            raise StoreError(
                f"The store could not be written: {_first_line(error)}. Nothing was changed."
            ) from error

    @contextmanager
    def _use(self) -> Iterator[Any]:
        """This thread's cursor, for the block."""
        if self._broken:
            self._restart()
        with self._users.one(), self._breakable() as cursor:
            yield cursor

    @contextmanager
    def _breakable(self) -> Iterator[Any]:
        """The same for who has said so that the file is in use, or has it alone."""
        try:
            yield self._cursor
        except duckdb.FatalException:
            self._broken = True
            raise

    def _restart(self) -> None:
        """Open the file anew after an error that DuckDB does not go on from (a full disk)."""
        with self._users.none(EXCHANGE_WAIT_S) as idle:
            if idle and self._broken:
                self.close()
                self._connect()
                self._broken = False

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._use() as cursor:
                return list(cursor.execute(query, list(values)).fetchall())
        except duckdb.Error as error:
            raise StoreError(f"The store could not be read: {_first_line(error)}.") from error

    def _arrow(self, query: str) -> pa.Table:
        try:
            with self._use() as cursor:
                return cursor.sql(query).to_arrow_table()
        except duckdb.Error as error:
            raise StoreError(f"The store could not be read: {_first_line(error)}.") from error

    def _free_space(self) -> None:
        """Give back the space of what was deleted, where that is over half of what is left."""
        with self._writing, suppress(StoreError, duckdb.Error, OSError):
            # blocks of what was deleted are free only once a checkpoint has been written while
            # nobody was reading them
            with self._users.none(EXCHANGE_WAIT_S) as idle:
                if idle:
                    with self._breakable() as cursor:
                        cursor.execute("CHECKPOINT")
            size = "SELECT block_size * used_blocks FROM pragma_database_size()"
            used = self._rows(size)[0][0]
            # not by its free blocks: those of an import that was killed are not among them
            if self.path.stat().st_size - used > max(LEAST_FREE_BYTES, used // 2):
                self._shrink()

    def _shrink(self) -> None:
        """Put a copy of all there is in the place of the file."""
        copy = str(self._smaller).replace("'", "''")
        cursor = self._cursor
        try:
            self._drop_smaller()
            name = cursor.execute("SELECT current_database()").fetchone()[0].replace('"', '""')
            cursor.execute(f"ATTACH '{copy}' AS smaller")
            try:
                cursor.execute(f'COPY FROM DATABASE "{name}" TO smaller')
            finally:
                cursor.execute("DETACH smaller")
            with self._users.none(EXCHANGE_WAIT_S) as idle:
                if idle:
                    # the old file is still open, hence locked: nobody can come in between
                    os.replace(self._smaller, self.path)
                    self.close()
                    self._connect()
        finally:
            self._drop_smaller()

    def _drop_smaller(self) -> None:
        for path in (self._smaller, self._smaller.with_name(f"{self._smaller.name}.wal")):
            path.unlink(missing_ok=True)

    # --- Traces ------------------------------------------------------------------------------

    def save_trace(
        self,
        staged: Staged,
        name: str,
        *,
        accept_unreadable: bool = False,
        progress: Progress = nobody_listens,
    ) -> StoredTrace:
        """Store what was staged under ``name``, in one transaction.

        Raises :class:`TraceError` where the report says that it may not be stored, and for a
        name that is taken. ``accept_unreadable`` as in :meth:`Staged.require`.
        """
        staged.require(accept_unreadable)
        name = checked_name(name)
        if name in BUILTIN_TRACES or name in self._names("traces"):
            raise TraceError(f"There is already a trace {name!r}; choose another name.")
        report = staged.report
        with self.transaction() as cursor:
            key = cursor.execute("SELECT nextval('ids')").fetchone()[0]
            types = ", ".join(f"{f.name} {_SQL[f.type]}" for f in CANONICAL)
            cursor.execute(f"CREATE TABLE turns_{key} ({types})")
            done = 0
            for batch in pq.ParquetFile(staged.path).iter_batches(batch_size=CHUNK_ROWS):
                cursor.register("chunk", pa.Table.from_batches([batch]))
                cursor.execute(f"INSERT INTO turns_{key} SELECT * FROM chunk")
                cursor.unregister("chunk")
                done += batch.num_rows
                progress(done / max(1, report.turns))
            cursor.execute(
                "INSERT INTO traces VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
                [
                    key,
                    name,
                    report.turns,
                    report.sessions,
                    report.format_id,
                    report.times,
                    report.first_utc_s,
                    report.last_utc_s,
                    staged.difficulty_source,
                    json.dumps(report.to_dict()),
                    _now(),
                ],
            )
        return self.trace(name)

    def traces(self) -> list[StoredTrace]:
        """The stored traces, newest first."""
        rows = self._rows(
            "SELECT name, turns, sessions, format, times, first_utc_s, last_utc_s, "
            "epoch(created_utc), report FROM traces ORDER BY created_utc DESC, name"
        )
        return [
            StoredTrace(
                name=row[0],
                turns=row[1],
                sessions=row[2],
                format_id=row[3],
                times=row[4],
                first_utc_s=row[5],
                last_utc_s=row[6],
                created_utc=_utc(row[7]),
                report=json.loads(row[8]),
            )
            for row in rows
        ]

    def trace(self, name: str) -> StoredTrace:
        """What is known about the trace ``name``."""
        for one in self.traces():
            if one.name == name:
                return one
        raise TraceError(unknown("trace", name, [*self._names("traces"), *BUILTIN_TRACES]))

    def load_trace(self, name: str) -> Trace:
        """The trace ``name``, read into memory."""
        key, source = self._trace_key(name)
        table = self._arrow(f"SELECT * FROM turns_{key}")
        return trace_from_table(name, table, source)

    def trace_rows(self, name: str, rows: int = 200) -> pa.Table:
        """The first ``rows`` turns of a trace in the canonical schema."""
        key, _ = self._trace_key(name)
        return self._arrow(f"SELECT * FROM turns_{key} LIMIT {int(rows)}")

    def export_trace(self, name: str, path: Path) -> None:
        """Write a trace as Parquet; what is written reads back to the same trace."""
        key, _ = self._trace_key(name)
        table = self._arrow(f"SELECT * FROM turns_{key}").cast(CANONICAL)
        at = CANONICAL.get_field_index("start_utc")
        utc = table["start_utc"].cast(pa.timestamp("us", tz="UTC"))
        table = table.set_column(at, "start_utc", utc)
        empty = [f.name for f in CANONICAL if table[f.name].null_count == len(table)]
        try:
            pq.write_table(table.drop_columns(empty), path)
        except OSError as error:
            raise InputError(f"The trace cannot be written to {path.name}: {error}") from error

    def delete_trace(self, name: str) -> None:
        """Delete a trace and free its space in the file."""
        key, _ = self._trace_key(name)
        with self.transaction() as cursor:
            cursor.execute(f"DROP TABLE turns_{key}")
            cursor.execute("DELETE FROM traces WHERE id = $1", [key])
        self._free_space()

    def _trace_key(self, name: str) -> tuple[int, str]:
        rows = self._rows("SELECT id, difficulty_source FROM traces WHERE name = $1", [name])
        if not rows:
            raise TraceError(unknown("trace", name, [*self._names("traces"), *BUILTIN_TRACES]))
        return int(rows[0][0]), str(rows[0][1])

    def _names(self, table: str) -> list[str]:
        return [str(row[0]) for row in self._rows(f"SELECT name FROM {table} ORDER BY name")]

    # --- Scenarios ---------------------------------------------------------------------------

    def save_scenario(
        self, name: str, text: str, *, note: str = "", replace: bool = False
    ) -> StoredText:
        """Store a scenario's JSON under ``name``; ``replace``: whether it may be there already."""
        name = checked_name(name)
        if not replace and name in self._names("scenarios"):
            raise InputError(f"There is already a scenario {name!r}; choose another name.")
        with self.transaction() as cursor:
            cursor.execute("DELETE FROM scenarios WHERE name = $1", [name])
            cursor.execute(
                "INSERT INTO scenarios VALUES ($1, $2, $3, $4)",
                [name, text, note, _now()],
            )
        return self.load_scenario(name)

    def scenarios(self) -> list[StoredText]:
        """The stored scenarios, by name."""
        rows = self._rows(
            "SELECT name, json, note, epoch(created_utc) FROM scenarios ORDER BY name"
        )
        return [StoredText(row[0], row[1], row[2], _utc(row[3])) for row in rows]

    def load_scenario(self, name: str) -> StoredText:
        """The scenario ``name``."""
        for one in self.scenarios():
            if one.name == name:
                return one
        raise InputError(unknown("scenario", name, self._names("scenarios") or ["none stored"]))

    def delete_scenario(self, name: str) -> None:
        """Delete the scenario ``name``."""
        self.load_scenario(name)
        with self.transaction() as cursor:
            cursor.execute("DELETE FROM scenarios WHERE name = $1", [name])

    # --- Runs --------------------------------------------------------------------------------

    def save_run(
        self, run: StoredRun, decisions: pa.Table | pa.RecordBatchReader | None = None
    ) -> StoredRun:
        """Store a run and its decisions (any table); returns it with its id and time."""
        checked_name(run.name)
        with self.transaction() as cursor:
            key = cursor.execute("SELECT nextval('ids')").fetchone()[0]
            cursor.execute(
                "INSERT INTO runs VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                [
                    key,
                    run.name,
                    run.note,
                    run.scenario_json,
                    run.summary_json,
                    run.engine_version,
                    json.dumps(dict(run.data_hashes)),
                    run.seed,
                    _now(),
                ],
            )
            if decisions is not None:
                self._write_table(cursor, f"decisions_{key}", decisions)
        return self.load_run(int(key))

    def runs(self) -> list[StoredRun]:
        """The stored runs, newest first, without their decisions."""
        rows = self._rows(
            "SELECT name, scenario_json, summary_json, engine_version, seed, data_hashes, note, "
            "id, epoch(created_utc) FROM runs ORDER BY id DESC"
        )
        return [
            StoredRun(
                name=row[0],
                scenario_json=row[1],
                summary_json=row[2],
                engine_version=row[3],
                seed=row[4],
                data_hashes=json.loads(row[5]),
                note=row[6],
                id=row[7],
                created_utc=_utc(row[8]),
            )
            for row in rows
        ]

    def load_run(self, run_id: int) -> StoredRun:
        """The run ``run_id``."""
        for run in self.runs():
            if run.id == run_id:
                return run
        raise InputError(f"There is no stored run {run_id}.")

    def load_decisions(self, run_id: int) -> pa.Table:
        """The decisions of a run, as the table they were stored from."""
        self.load_run(run_id)
        if not self._has_table(f"decisions_{int(run_id)}"):
            raise InputError(f"Run {run_id} was stored without its decisions.")
        return self._arrow(f"SELECT * FROM decisions_{int(run_id)}")

    def update_run(self, run_id: int, *, name: str, note: str) -> StoredRun:
        """Give a run another name and note."""
        self.load_run(run_id)
        name = checked_name(name)
        if len(note) > MAX_NOTE:
            raise InputError(f"The note has {len(note):,} characters; at most {MAX_NOTE:,} fit.")
        with self.transaction() as cursor:
            cursor.execute(
                "UPDATE runs SET name = $1, note = $2 WHERE id = $3", [name, note, run_id]
            )
        return self.load_run(run_id)

    def turns_served_elsewhere(
        self, first: int, second: int, policies: Sequence[str]
    ) -> dict[str, tuple[int, int]] | None:
        """For each policy: turns that two runs have in common, and those they served elsewhere.

        None where one of them was stored without its decisions.
        """
        names = [f"decisions_{int(one)}" for one in (first, second)]
        if not all(self._has_table(name) for name in names):
            return None
        rows = self._rows(
            "SELECT a.policy, count(*), count(*) FILTER "
            "((a.model, a.gpu, a.region) IS DISTINCT FROM (b.model, b.gpu, b.region)) "
            f"FROM {names[0]} a JOIN {names[1]} b USING (policy, session, turn) GROUP BY a.policy"
        )
        return {row[0]: (row[1], row[2]) for row in rows if row[0] in policies}

    def delete_run(self, run_id: int) -> None:
        """Delete a run with its decisions and free their space."""
        self.load_run(run_id)
        with self.transaction() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS decisions_{int(run_id)}")
            cursor.execute("DELETE FROM runs WHERE id = $1", [run_id])
        self._free_space()

    # --- Other tables ------------------------------------------------------------------------

    def save_table(
        self,
        kind: str,
        name: str,
        table: pa.Table,
        *,
        meta: Mapping[str, Any] | None = None,
        replace: bool = False,
    ) -> None:
        """Store any table under a kind ("intensity", ...) and a name; ``meta``: JSON values."""
        name = checked_name(name)
        there = name in self.table_names(kind)
        if there and not replace:
            raise InputError(f"There is already {kind} data {name!r}; choose another name.")
        with self.transaction() as cursor:
            if there:
                self._drop_table(cursor, kind, name)
            key = cursor.execute("SELECT nextval('ids')").fetchone()[0]
            cursor.execute(
                "INSERT INTO tables VALUES ($1, $2, $3, $4, $5)",
                [key, kind, name, json.dumps(dict(meta or {})), _now()],
            )
            self._write_table(cursor, f"table_{key}", table)
        self._free_space()

    def table_names(self, kind: str) -> list[str]:
        """Names of the tables of a kind."""
        rows = self._rows("SELECT name FROM tables WHERE kind = $1 ORDER BY name", [kind])
        return [str(row[0]) for row in rows]

    def tables(self, kind: str) -> list[StoredTable]:
        """The tables of a kind, newest first."""
        rows = self._rows(
            "SELECT name, meta, epoch(created_utc) FROM tables WHERE kind = $1 ORDER BY id DESC",
            [kind],
        )
        return [StoredTable(row[0], json.loads(row[1]), _utc(row[2])) for row in rows]

    def load_table(self, kind: str, name: str) -> tuple[pa.Table, dict[str, Any]]:
        """A table and what was stored beside it."""
        rows = self._rows("SELECT id, meta FROM tables WHERE kind = $1 AND name = $2", [kind, name])
        if not rows:
            raise InputError(unknown(f"{kind} data", name, self.table_names(kind) or ["none"]))
        return self._arrow(f"SELECT * FROM table_{int(rows[0][0])}"), json.loads(rows[0][1])

    def delete_table(self, kind: str, name: str) -> None:
        """Delete a table and free its space."""
        if name not in self.table_names(kind):
            raise InputError(unknown(f"{kind} data", name, self.table_names(kind) or ["none"]))
        with self.transaction() as cursor:
            self._drop_table(cursor, kind, name)
        self._free_space()

    def _drop_table(self, cursor: Any, kind: str, name: str) -> None:
        key = cursor.execute(
            "SELECT id FROM tables WHERE kind = $1 AND name = $2", [kind, name]
        ).fetchone()[0]
        cursor.execute(f"DROP TABLE table_{int(key)}")
        cursor.execute("DELETE FROM tables WHERE id = $1", [key])

    def _write_table(self, cursor: Any, name: str, table: pa.Table | pa.RecordBatchReader) -> None:
        cursor.register("chunk", table)
        cursor.execute(f"CREATE TABLE {name} AS SELECT * FROM chunk")
        cursor.unregister("chunk")

    def _has_table(self, name: str) -> bool:
        query = "SELECT 1 FROM information_schema.tables WHERE table_name = $1"
        return bool(self._rows(query, [name]))


_SQL = {
    pa.string(): "VARCHAR",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.timestamp("us"): "TIMESTAMP",
}

_open: dict[Path, Store] = {}
_opening = threading.Lock()


def open_store() -> Store:
    """The user's store, opened once in this process and made where there is none yet.

    Raises :class:`StoreError` where another process has it open.
    """
    folder = home().absolute()
    with _opening:
        if folder not in _open:
            _open[folder] = Store(folder)
        return _open[folder]


def existing_store() -> Store | None:
    """The user's store, or None where nothing has been stored yet."""
    return open_store() if (home() / FILE_NAME).is_file() else None


def close_store() -> None:
    """Close the store of this process, so that another one can open it."""
    with _opening:
        store = _open.pop(home().absolute(), None)
        if store is not None:
            store.close()


def checked_name(name: str) -> str:
    """``name`` as it is stored; raises :class:`InputError` for one that cannot be."""
    name = name.strip()
    if not name:
        raise InputError("The name is empty; give one.")
    if len(name) > MAX_NAME:
        raise InputError(f"The name has {len(name):,} characters; at most {MAX_NAME} are kept.")
    if not name.isprintable():
        raise InputError("The name holds line breaks or control characters; leave them out.")
    return name


def _why_not_opened(path: Path, error: Exception) -> str:
    if "lock" in str(error).lower():
        return (
            f"The store {path.name} is open in another process (the app, or a command that still "
            "runs). Close that one, or set CARBONROUTER_HOME to another folder; the built-in data "
            "can be used meanwhile."
        )
    return (
        f"The store {path.name} cannot be opened: {_first_line(error)}. Set CARBONROUTER_HOME to "
        "another folder."
    )


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__


def _now() -> datetime:
    """The time in UTC, as a column of the store holds it."""
    return datetime.now(UTC).replace(tzinfo=None)


def _utc(epoch_s: float) -> datetime:
    return datetime.fromtimestamp(epoch_s, UTC)
