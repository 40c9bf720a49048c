"""Opening DuckDB so that it fetches nothing from the network and prints nothing; sharing it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb

OFFLINE: dict[str, Any] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
"""DuckDB would fetch an extension where a query could use one."""


def connect(path: str, **settings: Any) -> Any:
    """A connection to the file at ``path``, made where there is none."""
    return quiet(duckdb.connect(path, config=OFFLINE | settings))


def quiet(connection: Any) -> Any:
    """``connection``, or a cursor of one, without the progress bar of long queries."""
    connection.execute("SET enable_progress_bar = false")
    return connection


class Users:
    """Counts the threads that use something, so that it can be exchanged while none does."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._waiting = False
        self._thread = threading.local()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Use it in the block; a thread that does already goes straight in."""
        depth = getattr(self._thread, "depth", 0)
        if not depth:
            with self._changed:
                self._changed.wait_for(lambda: not self._waiting)
                self._count += 1
        self._thread.depth = depth + 1
        try:
            yield
        finally:
            self._thread.depth = depth
            if not depth:
                with self._changed:
                    self._count -= 1
                    self._changed.notify_all()

    @contextmanager
    def none(self, wait_s: float) -> Iterator[bool]:
        """Keep all out of it in the block; False if after ``wait_s`` somebody still was in."""
        with self._changed:
            self._waiting = True
            try:
                yield self._changed.wait_for(lambda: not self._count, wait_s)
            finally:
                self._waiting = False
                self._changed.notify_all()
