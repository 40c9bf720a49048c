"""Bringing forward a store of an older version, which had all its tables in the DuckDB file.

The tables are written to table files and the rest to a new catalogue, which takes the place of
the old file in one step. A process that is killed before that leaves the old store as it was (the
table files are leftovers); after it, the new one is whole.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from carbonrouter_core.store.database import quoted
from carbonrouter_core.store.schema import create
from carbonrouter_core.store.table_files import NewTable, sync_folder

CHUNK_ROWS = 250_000
"""Rows of a table that are copied at a time."""
COLUMNS = {
    "traces": "name, turns, sessions, format, times, first_utc_s, last_utc_s, difficulty_source, "
    "report, created_utc",
    "scenarios": "name, json, note, created_utc",
    "runs": "id, name, note, scenario_json, summary_json, engine_version, data_hashes, seed, "
    "created_utc",
    "tables": "id, kind, name, meta, created_utc",
}
"""What older versions had of each table of the catalogue; the first ones lack some tables."""
PREFIXES = {"traces": "turns_", "runs": "decisions_", "tables": "table_"}
"""Name of a table of rows, before the id of its row in the catalogue."""


def bring_forward(connection: Any, path: Path, tables_folder: Path) -> None:
    """Exchange the file at ``path``, which ``connection`` has open to write as ``store``."""
    new = path.with_name(f"{path.name}.new")
    for leftover in (new, new.with_name(f"{new.name}.wal")):
        leftover.unlink(missing_ok=True)
    there = {
        name
        for (name,) in connection.execute(
            "SELECT table_name FROM duckdb_tables() WHERE database_name = 'store'"
        ).fetchall()
    }
    first_id = connection.execute("SELECT nextval('ids')").fetchone()[0]
    connection.execute("CHECKPOINT store")  # the log of the old file must not meet the new one
    try:
        with ExitStack() as files:
            connection.execute(f"ATTACH {quoted(new)} AS new")
            try:
                connection.execute("USE new")
                create(connection, first_id)
                for table, columns in COLUMNS.items():
                    if table in there:
                        _copy(connection, table, columns, there, tables_folder, files)
            finally:
                connection.execute("USE store")
                connection.execute("DETACH new")
        if os.name == "nt":  # no open file can be replaced there
            connection.execute("USE memory")
            connection.execute("DETACH store")
        os.replace(new, path)
        sync_folder(path.parent)
    finally:
        new.unlink(missing_ok=True)


def _copy(
    connection: Any,
    table: str,
    columns: str,
    there: set[str],
    tables_folder: Path,
    files: ExitStack,
) -> None:
    """Copy a table of the catalogue and write the files that its rows are to name."""
    if table not in PREFIXES:
        connection.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM store.{table}")
        return
    for (key,) in connection.execute(f"SELECT id FROM store.{table} ORDER BY id").fetchall():
        rows, name = f"{PREFIXES[table]}{int(key)}", None
        if rows in there:
            file = files.enter_context(NewTable(tables_folder))
            name = file.name
            file.write(connection.sql(f"SELECT * FROM store.{rows}").to_arrow_reader(CHUNK_ROWS))
            file.put_in_place()
        connection.execute(
            f"INSERT INTO {table} ({columns}, file) SELECT {columns}, $1 FROM store.{table} "
            "WHERE id = $2",
            [name, key],
        )
