"""The tables of the catalogue, and the version they have."""

from __future__ import annotations

from typing import Any

import duckdb

from carbonrouter_core.errors import StoreError
from carbonrouter_core.store.folder import FILE_NAME

VERSION = 4
"""Version of the schema that :func:`create` makes. Older ones: :mod:`.migration`."""

TABLES = (
    "CREATE TABLE traces (name VARCHAR PRIMARY KEY, turns BIGINT NOT NULL, "
    "sessions BIGINT NOT NULL, format VARCHAR NOT NULL, times VARCHAR NOT NULL, "
    "first_utc_s DOUBLE, last_utc_s DOUBLE, difficulty_source VARCHAR NOT NULL, "
    "report VARCHAR NOT NULL, created_utc TIMESTAMP NOT NULL, file VARCHAR NOT NULL)",
    "CREATE TABLE scenarios (name VARCHAR PRIMARY KEY, json VARCHAR NOT NULL, "
    "note VARCHAR NOT NULL, created_utc TIMESTAMP NOT NULL)",
    "CREATE TABLE runs (id BIGINT PRIMARY KEY, name VARCHAR NOT NULL, note VARCHAR NOT NULL, "
    "scenario_json VARCHAR NOT NULL, summary_json VARCHAR NOT NULL, "
    "engine_version VARCHAR NOT NULL, data_hashes VARCHAR NOT NULL, seed BIGINT NOT NULL, "
    "created_utc TIMESTAMP NOT NULL, file VARCHAR)",
    "CREATE TABLE tables (id BIGINT PRIMARY KEY, kind VARCHAR NOT NULL, name VARCHAR NOT NULL, "
    "meta VARCHAR NOT NULL, created_utc TIMESTAMP NOT NULL, file VARCHAR NOT NULL, "
    "UNIQUE (kind, name))",
)
"""``file``: name of the table file; null for a run that was stored without its decisions."""
NAMED_FILES = (
    "SELECT file FROM traces UNION ALL SELECT file FROM runs WHERE file IS NOT NULL "
    "UNION ALL SELECT file FROM tables"
)
"""The table files that the catalogue names."""


def create(connection: Any, first_id: int = 1) -> None:
    """Make the tables in the present database of ``connection``."""
    connection.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
    connection.execute(f"INSERT INTO schema_version VALUES ({VERSION})")
    connection.execute(f"CREATE SEQUENCE ids START {int(first_id)}")
    for table in TABLES:
        connection.execute(table)


def version_of(connection: Any) -> int:
    """The schema version of the present database; 0 for an empty one.

    Raises :class:`StoreError` for a newer one than this program knows.
    """
    try:
        rows = connection.execute("SELECT max(version) FROM schema_version").fetchall()
    except duckdb.CatalogException:
        tables = connection.execute("SELECT 1 FROM duckdb_tables() WHERE NOT internal AND "
                                    "database_name = current_database()").fetchall()  # fmt: skip
        if tables:
            raise StoreError(
                f"{FILE_NAME} is a DuckDB file, but no store of this program. Move it away, or "
                "set CARBONROUTER_HOME to another folder."
            ) from None
        return 0
    version = int(rows[0][0] or 0)
    if version > VERSION:
        raise StoreError(
            f"{FILE_NAME} was written by a newer version of this program (schema {version}, this "
            f"one knows {VERSION}). Update it, or set CARBONROUTER_HOME to another folder."
        )
    return version
