"""Parquet files of the store: one for each table, written once and never changed.

A file is written under a temporary name, without a lock on the catalogue. It gets its own name in
the transaction that puts this name into the catalogue, and is deleted in the one that takes the
name out. So a file that the catalogue does not name is a leftover, if no process is writing.

A temporary file is locked while it is written. The system frees the lock of a process that ends,
whatever the reason: an old file without a lock is a leftover too.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from carbonrouter_core.progress import Progress

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

SUFFIX = ".parquet"
TEMPORARY = ".writing"
"""End of the name of a file that is not in the catalogue yet."""
COPY_BYTES = 2**20
"""Bytes that are copied between two reports of progress."""
LEFTOVER_S = 60.0
"""A temporary file without a lock is left alone for this long: its writer may be about to lock
it, or to name it in the catalogue."""


class NewTable:
    """A table file that is being written. It is deleted on closing unless it was named.

    Raises :class:`OSError` where it cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.name = f"{uuid.uuid4().hex}{SUFFIX}"
        """Its name in the folder, for the catalogue."""
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / self.name
        self._temporary = folder / f"{self.name}{TEMPORARY}"
        self._file: IO[bytes] = self._temporary.open("xb")
        try_lock(self._file)

    def __enter__(self) -> NewTable:
        return self

    def __exit__(self, *raised: object) -> None:
        with suppress(OSError):  # a full disk fails once more when the rest is written out
            self._file.close()
        with suppress(OSError):
            self._temporary.unlink()

    def write(self, table: pa.Table | pa.RecordBatchReader) -> None:
        """Write a table, or batches as they come."""
        batches = table if isinstance(table, pa.RecordBatchReader) else table.to_reader()
        with pq.ParquetWriter(self._file, table.schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)
        self._finish()

    def copy(self, source: Path, progress: Progress) -> None:
        """Copy a Parquet file; ``progress`` is called with the share that is done."""
        size = max(1, source.stat().st_size)
        with source.open("rb") as content:
            while chunk := content.read(COPY_BYTES):
                self._file.write(chunk)
                progress(min(1.0, content.tell() / size))
        self._finish()

    def put_in_place(self) -> None:
        """Give the file its name, in the transaction that puts the name into the catalogue."""
        os.replace(self._temporary, self._path)
        sync_folder(self._path.parent)

    def _finish(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()  # Windows renames no open file


def delete_unnamed(folder: Path, named: Collection[str]) -> None:
    """Delete the table files that the catalogue does not name, and temporary ones left behind.

    The caller has the catalogue open to write. A file that cannot be deleted (on Windows, while
    it is read) is deleted by a later call.
    """
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError):
                unnamed = path.suffix == SUFFIX and path.name not in named
                if unnamed or (path.suffix == TEMPORARY and _is_leftover(path)):
                    path.unlink()


def _is_leftover(path: Path) -> bool:
    if time.time() - path.stat().st_mtime < LEFTOVER_S:
        return False
    with path.open("r+b") as file:
        return try_lock(file)


def try_lock(file: IO[Any]) -> bool:
    """Lock an open file until it is closed; False if it is locked, or the disk has no locks."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Have the names in a folder written to disk, where the system can (not on Windows)."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
