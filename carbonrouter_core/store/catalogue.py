"""The catalogue of a store: what every subject of it reads and writes with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from carbonrouter_core.errors import InputError, StoreError
from carbonrouter_core.store import migration
from carbonrouter_core.store.database import opened
from carbonrouter_core.store.folder import FILE_NAME, TABLES_NAME
from carbonrouter_core.store.schema import NAMED_FILES, VERSION, create, version_of
from carbonrouter_core.store.table_files import NewTable, delete_unnamed

MAX_NAME = 200
"""Characters of a name."""
ELSEWHERE = "set CARBONROUTER_HOME to another folder"


class Catalogue:
    """The catalogue in a folder. It is opened for each operation, and made where there is none.

    Every operation raises :class:`StoreError` where the file cannot be opened, read or written.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self.tables_folder = folder / TABLES_NAME

    @property
    def changes(self) -> tuple[tuple[int, int, int], ...]:
        """The state of the file; as long as it is the same, nothing has been written.

        For the file and for DuckDB's log, where one is left: inode, time in ns, and size.
        """
        states = []
        for path in (self.path, self.path.with_name(f"{FILE_NAME}.wal")):
            with suppress(OSError):
                facts = path.stat()
                states.append((facts.st_ino, facts.st_mtime_ns, facts.st_size))
        return tuple(states)

    @property
    def schema_version(self) -> int:
        """The schema version of the file."""
        return int(self.rows("SELECT version FROM schema_version")[0][0])

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows that a query of the catalogue gives."""
        with _errors("read"), self._current(read_only=True) as connection:
            return list(connection.execute(query, list(values)).fetchall())

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A connection whose work is stored as a whole when the block ends, or not at all.

        The block must be short, since others wait for it, and must use nothing else of the store.
        """
        with _errors("written"), self._current(read_only=False) as connection:
            connection.execute("BEGIN")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(duckdb.Error):
                    connection.execute("ROLLBACK")
                raise
            named = {name for (name,) in connection.execute(NAMED_FILES).fetchall()}
            delete_unnamed(self.tables_folder, named)

    def prepare(self) -> None:
        """Make the catalogue where there is none, and bring an older one forward."""
        with _errors("written"):
            self.tables_folder.mkdir(parents=True, exist_ok=True)
            with opened(self.path, read_only=False) as connection:
                version = version_of(connection)
                if version == 0:
                    connection.execute("BEGIN")
                    create(connection)
                    connection.execute("COMMIT")
                elif version < VERSION:
                    migration.bring_forward(connection, self.path, self.tables_folder)

    @contextmanager
    def _current(self, *, read_only: bool) -> Iterator[Any]:
        """A connection to a catalogue of the present version."""
        for _ in range(2):
            if self.path.exists():
                with opened(self.path, read_only=read_only) as connection:
                    if version_of(connection) == VERSION:
                        yield connection
                        return
            self.prepare()
        raise StoreError(f"The store {FILE_NAME} was removed by another program; try again.")

    # --- Table files -------------------------------------------------------------------------

    @contextmanager
    def new_table(self) -> Iterator[NewTable]:
        """A table file to write, which is deleted unless a transaction of the block names it."""
        with _errors("written"), NewTable(self.tables_folder) as file:
            yield file

    @contextmanager
    def table_file(self, find: Callable[[], str], what: str) -> Iterator[pq.ParquetFile]:
        """A table file, open: it can be read to its end even if it is deleted meanwhile.

        ``find`` looks up its name, and raises where there is no such table any more. ``what``:
        whose it is, for the message. The block must only read.
        """
        name = find()
        try:
            while True:
                try:
                    file = pq.ParquetFile(self.tables_folder / name)
                    break
                except FileNotFoundError:
                    before, name = name, find()  # another process deleted or replaced it
                    if name == before:
                        raise
            with file:
                yield file
        except FileNotFoundError:
            raise StoreError(f"The rows of {what} are missing: {_lost(name)}") from None
        except (pa.ArrowException, OSError) as error:
            raise StoreError(
                f"The rows of {what} cannot be read ({first_line(error)}): {_lost(name)}"
            ) from error

    def table_rows(self, find: Callable[[], str], what: str) -> pa.Table:
        """All rows of a table file, as they were stored."""
        with self.table_file(find, what) as file:
            return file.read()


def _lost(name: str) -> str:
    return (
        f"bring {TABLES_NAME}/{name} back from a copy of yours, or delete the entry and store it "
        "anew."
    )


@contextmanager
def _errors(done: str) -> Iterator[None]:
    """Turn errors of DuckDB and of the system into :class:`StoreError`; ``done``: read, written."""
    unchanged = " Nothing was changed." if done == "written" else ""
    try:
        yield
    except duckdb.SerializationException as error:
        raise StoreError(_not_a_store(error)) from error
    except duckdb.Error as error:
        if "not a valid duckdb" in str(error).lower():
            raise StoreError(_not_a_store(error)) from error
        raise StoreError(
            f"The store could not be {done}: {first_line(error)}.{unchanged} Make room or mend "
            f"what is named, or {ELSEWHERE}."
        ) from error
    except OSError as error:
        raise StoreError(
            f"The store could not be {done}: {error.strerror or error} "
            f"({os.path.basename(error.filename or FILE_NAME)}).{unchanged} Make room, see that "
            f"you may write there, or {ELSEWHERE}."
        ) from error


def _not_a_store(error: Exception) -> str:
    return (
        f"{FILE_NAME} is not a store of this program, or is damaged: {first_line(error)}. Move it "
        f"away, or {ELSEWHERE}."
    )


def first_line(error: Exception) -> str:
    """The first line of what an error says."""
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__


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


def now() -> datetime:
    """The time in UTC, as a column of the catalogue holds it."""
    return datetime.now(UTC).replace(tzinfo=None)


def utc(epoch_s: float) -> datetime:
    """A time of the catalogue, from its seconds since 1970."""
    return datetime.fromtimestamp(epoch_s, UTC)
