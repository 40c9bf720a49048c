"""Opening a DuckDB file for the length of one operation.

DuckDB lets one process write a file, or several read it. So no process keeps the file open: it is
attached for each operation to a database in memory, which takes 2 ms, and detached after it. If it
is locked, the operation tries again. Within a process one thread at a time has it.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb

from carbonrouter_core.errors import StoreError
from carbonrouter_core.reading.database import connect

LOCK_WAIT_S = 10.0
"""How long an operation waits for others to end."""
PAUSE_S = 0.01
"""Mean time between two attempts; random, so that two processes do not stay in step."""
MEMORY_LIMIT = "700MB"
"""What DuckDB may hold in memory while an old store is brought forward."""
LOCKED = ("could not set lock on file", "used by another process")
"""What DuckDB says where another process has the file open (POSIX, Windows)."""

_one_thread = threading.Lock()
_connections: list[Any] = []
"""The database in memory, once there is one."""


@contextmanager
def opened(path: Path, *, read_only: bool) -> Iterator[Any]:
    """A connection with the file at ``path`` as its database, named ``store``, for the block.

    A file to write is made where there is none. Blocks of one thread must not be nested. Raises
    :class:`StoreError` where others had the file for :data:`LOCK_WAIT_S`, and
    :class:`duckdb.Error` where it cannot be opened.
    """
    deadline = time.monotonic() + LOCK_WAIT_S
    if not _one_thread.acquire(timeout=LOCK_WAIT_S):
        raise StoreError(_busy(path))
    try:
        if not _connections:
            # one thread: the catalogue is small, and a process that is forked has no threads
            _connections.append(connect(":memory:", memory_limit=MEMORY_LIMIT, threads=1))
        connection = _connections[0]
        _attach(connection, path, read_only, deadline)
        try:
            connection.execute("USE store")
            yield connection
        finally:
            _detach(connection)
    finally:
        _one_thread.release()


def quoted(path: Path) -> str:
    """A path as SQL text."""
    return "'" + str(path).replace("'", "''") + "'"


def _attach(connection: Any, path: Path, read_only: bool, deadline: float) -> None:
    attach = f"ATTACH {quoted(path)} AS store" + (" (READ_ONLY)" if read_only else "")
    while True:
        before = _inode(path)
        try:
            connection.execute(attach)
        except duckdb.IOException as error:
            if not any(text in str(error).lower() for text in LOCKED):
                raise
            if time.monotonic() > deadline:
                raise StoreError(_busy(path)) from None
            time.sleep(random.uniform(0.5, 1.5) * PAUSE_S)
            continue
        if before in (None, _inode(path)):
            return
        _detach(connection)  # another process put a new file in its place meanwhile


def _detach(connection: Any) -> None:
    try:
        connection.execute("USE memory")
        connection.execute("DETACH DATABASE IF EXISTS store")
    except duckdb.Error:
        # after an error that DuckDB does not go on from (a full disk) only a new one helps
        _connections.clear()
        with suppress(duckdb.Error):
            connection.close()


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _busy(path: Path) -> str:
    return (
        f"The store {path.name} has been in use by another process (the app, or a command that "
        f"still runs) for {LOCK_WAIT_S:g} s. Try again; if an older version of this program runs, "
        "close it. Or set CARBONROUTER_HOME to another folder; the built-in data can be used "
        "meanwhile."
    )
