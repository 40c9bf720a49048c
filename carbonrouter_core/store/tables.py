"""Any other table in the store, under a kind and a name, such as carbon-intensity series."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import pyarrow as pa

from carbonrouter_core.errors import InputError
from carbonrouter_core.store.catalogue import Catalogue, checked_name, now, utc
from carbonrouter_core.store.table_files import NewTable
from carbonrouter_core.words.names import unknown

Result = TypeVar("Result")

FILE_AND_META = "SELECT file, meta FROM tables WHERE kind = $1 AND name = $2"


@dataclass(frozen=True)
class StoredTable:
    """A table of some kind in the store: what was stored beside it, without its rows."""

    name: str
    meta: Mapping[str, Any] = field(repr=False)
    created_utc: datetime


class Tables(Catalogue):
    """What a store does with tables of any kind."""

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
        with self.new_table() as file:
            file.write(table)
            with self.transaction() as connection:
                is_stored = connection.execute(FILE_AND_META, [kind, name]).fetchone() is not None
                if is_stored and not replace:
                    raise InputError(f"There is already {kind} data {name!r}; choose another name.")
                _put(connection, file, kind, name, meta or {})

    def change_table(
        self, kind: str, name: str, change: Callable[[pa.Table | None], tuple[pa.Table, Result]]
    ) -> Result:
        """Replace a table by what ``change`` makes of it; nothing that others store is lost.

        ``change`` takes the table, None where there is none, and gives the new one and what this
        returns. It is called again if another process has stored the table meanwhile. What it
        raises leaves the table as it was.
        """
        before: str | None = None

        def file() -> str:
            nonlocal before
            before, _ = self._file_and_meta(kind, name)
            return before

        while True:
            before = None
            is_stored = name in self.table_names(kind)
            table = self.table_rows(file, f"{kind} data {name!r}") if is_stored else None
            changed, result = change(table)
            with self.new_table() as new:
                new.write(changed)
                with self.transaction() as connection:
                    row = connection.execute(FILE_AND_META, [kind, name]).fetchone()
                    if (row[0] if row else None) == before:  # each write has a file of its own
                        _put(connection, new, kind, name, {})
                        return result

    def table_names(self, kind: str) -> list[str]:
        """Names of the tables of a kind."""
        rows = self.rows("SELECT name FROM tables WHERE kind = $1 ORDER BY name", [kind])
        return [str(row[0]) for row in rows]

    def tables(self, kind: str) -> list[StoredTable]:
        """The tables of a kind, newest first."""
        rows = self.rows(
            "SELECT name, meta, epoch(created_utc) FROM tables WHERE kind = $1 ORDER BY id DESC",
            [kind],
        )
        return [StoredTable(row[0], json.loads(row[1]), utc(row[2])) for row in rows]

    def load_table(self, kind: str, name: str) -> tuple[pa.Table, dict[str, Any]]:
        """A table and what was stored beside it."""
        meta = ""

        def file() -> str:
            nonlocal meta
            name_of_file, meta = self._file_and_meta(kind, name)
            return name_of_file

        table = self.table_rows(file, f"{kind} data {name!r}")
        return table, json.loads(meta)

    def delete_table(self, kind: str, name: str) -> None:
        """Delete a table and free its space."""
        if name not in self.table_names(kind):
            raise self._unknown_table(kind, name)
        with self.transaction() as connection:
            connection.execute("DELETE FROM tables WHERE kind = $1 AND name = $2", [kind, name])

    def _file_and_meta(self, kind: str, name: str) -> tuple[str, str]:
        rows = self.rows(FILE_AND_META, [kind, name])
        if not rows:
            raise self._unknown_table(kind, name)
        return rows[0][0], rows[0][1]

    def _unknown_table(self, kind: str, name: str) -> InputError:
        return InputError(unknown(f"{kind} data", name, self.table_names(kind) or ["none"]))


def _put(connection: Any, file: NewTable, kind: str, name: str, meta: Mapping[str, Any]) -> None:
    """Name a written file in the catalogue, in place of the table that had the name."""
    file.put_in_place()
    connection.execute("DELETE FROM tables WHERE kind = $1 AND name = $2", [kind, name])
    connection.execute(
        "INSERT INTO tables VALUES (nextval('ids'), $1, $2, $3, $4, $5)",
        [kind, name, json.dumps(dict(meta)), now(), file.name],
    )
