"""The store: traces, scenarios, runs and other tables of the user.

A small DuckDB file, the catalogue, says what there is; the rows of each table are in a Parquet
file of their own (:mod:`.folder`). Nothing is held open: the catalogue is open for the length of
one short operation (:mod:`.database`), and table files are read and written without it. So the
app and commands can work at the same time.

The built-in tables are not in the store; they are read where they are, so that everything built
in works without a store.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from carbonrouter_core.errors import StoreError
from carbonrouter_core.store.folder import FILE_NAME, home
from carbonrouter_core.store.runs import Runs
from carbonrouter_core.store.scenarios import Scenarios
from carbonrouter_core.store.tables import Tables
from carbonrouter_core.store.traces import Traces


class Store(Traces, Scenarios, Runs, Tables):
    """The store in a folder. It opens nothing before it is asked for something."""


def open_store() -> Store:
    """The user's store, made where there is none yet, and brought forward if it is older.

    Raises :class:`StoreError` where it cannot be read.
    """
    store = Store(home().absolute())
    _ = store.schema_version
    return store


def existing_store() -> Store | None:
    """The user's store as :func:`open_store` gives it; None where nothing has been stored yet."""
    return open_store() if (home() / FILE_NAME).is_file() else None


def table_if_readable(kind: str, name: str) -> pa.Table | None:
    """A table of the user's store; None where there is none, or the store cannot be read."""
    try:
        store = existing_store()
        return None if store is None else _table(store.path.parent, store.changes, kind, name)
    except StoreError:
        return None


@lru_cache(maxsize=8)
def _table(folder: Path, changes: object, kind: str, name: str) -> pa.Table | None:
    """``changes``: the state of the store, so that a table is read again after a write."""
    store = Store(folder)
    return store.load_table(kind, name)[0] if name in store.table_names(kind) else None
