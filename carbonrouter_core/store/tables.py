"""Any other table in the store, under a kind and a name, such as carbon-intensity series."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from carbonrouter_core.errors import InputError
from carbonrouter_core.store.catalogue import Catalogue, checked_name, now, utc
from carbonrouter_core.words.names import unknown


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
                found = connection.execute(
                    "SELECT 1 FROM tables WHERE kind = $1 AND name = $2", [kind, name]
                )
                if found.fetchone() and not replace:
                    raise InputError(f"There is already {kind} data {name!r}; choose another name.")
                file.put_in_place()
                connection.execute("DELETE FROM tables WHERE kind = $1 AND name = $2", [kind, name])
                connection.execute(
                    "INSERT INTO tables VALUES (nextval('ids'), $1, $2, $3, $4, $5)",
                    [kind, name, json.dumps(dict(meta or {})), now(), file.name],
                )

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
            rows = self.rows(
                "SELECT file, meta FROM tables WHERE kind = $1 AND name = $2", [kind, name]
            )
            if not rows:
                raise self._unknown_table(kind, name)
            meta = rows[0][1]
            return str(rows[0][0])

        table = self.table_rows(file, f"{kind} data {name!r}")
        return table, json.loads(meta)

    def delete_table(self, kind: str, name: str) -> None:
        """Delete a table and free its space."""
        if name not in self.table_names(kind):
            raise self._unknown_table(kind, name)
        with self.transaction() as connection:
            connection.execute("DELETE FROM tables WHERE kind = $1 AND name = $2", [kind, name])

    def _unknown_table(self, kind: str, name: str) -> InputError:
        return InputError(unknown(f"{kind} data", name, self.table_names(kind) or ["none"]))
