"""From files to a checked trace, ready to be stored: in a temporary folder, in bounded memory.

Rows are read in chunks, checked, and sorted by session and turn in a temporary DuckDB database
that spills to disk; then the sessions pass through once more to be completed (history, repairs)
and are written to one Parquet file in the canonical schema. Nothing here touches the store.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from carbonrouter_core.errors import TraceError
from carbonrouter_core.progress import Progress, nobody_listens, part_of
from carbonrouter_core.reading.database import connect
from carbonrouter_core.reading.files import Source, reading_errors_as, sources_of
from carbonrouter_core.traces.importers import choose_all
from carbonrouter_core.traces.importers.base import (
    RAW,
    Importer,
    ImportOptions,
    Reading,
)
from carbonrouter_core.traces.plausible import looks_incremental, time_scale
from carbonrouter_core.traces.report import TraceReport
from carbonrouter_core.traces.rows import RowChecks
from carbonrouter_core.traces.schema import CANONICAL
from carbonrouter_core.traces.sessions import Sessions, whole_sessions

SORT_BYTES = (100_000_000, 700_000_000)
"""What the sorting database may hold in memory, least and most; it spills to disk beyond."""
SORT_BYTES_PER_ROW = 100
"""Between the two: what a row may take of it."""
SESSION_ROWS = 50_000
"""Rows completed at a time, rounded up to whole sessions."""
MAX_TRACE_TURNS = 50_000_000
"""A trace is read into memory to be replayed; more turns than this will not fit."""
_SQL_TYPES = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.string(): "VARCHAR"}
_PREFIX = "carbonrouter-import-"


@dataclass
class Staged:
    """A trace that was read and checked, but is stored nowhere yet.

    ``path``: Parquet in :data:`CANONICAL`; gone after :meth:`close`.
    """

    path: Path
    report: TraceReport
    difficulty_source: str
    folder: Path

    def require(self, accept_unreadable: bool = False, *, done: str = "stored") -> None:
        """Raise :class:`TraceError` unless this may be stored.

        ``accept_unreadable``: the user chose to go without the records that cannot be read;
        ``done``: what is not done with it otherwise, for the message.
        """
        report = self.report
        name = ", ".join(report.files)
        if report.refused:
            raise TraceError(f"{name}, {report.first_refusal}. Nothing was {done}.")
        if not report.turns:
            why = f": {report.first_refusal}" if report.first_refusal else ""
            raise TraceError(f"{name} has no turns; there is nothing to route{why}.")
        if report.unreadable and not accept_unreadable:
            raise TraceError(
                f"{name}, {report.first_refusal}. {report.turns:,} turns could be read; nothing "
                f"was {done}. Mend the file, or say that the rest is enough (--keep-readable)."
            )
        if report.turns > MAX_TRACE_TURNS:
            raise TraceError(
                f"{name} has {report.turns:,} turns; more than {MAX_TRACE_TURNS:,} do not fit "
                "into memory when they are replayed. Import a part of it."
            )

    def close(self) -> None:
        """Delete the temporary files."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Staged:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def stage(
    paths: Sequence[Path],
    format_id: str | None = None,
    *,
    names: Sequence[str] | None = None,
    options: ImportOptions | None = None,
    progress: Progress = nobody_listens,
) -> Staged:
    """Read and check the trace in ``paths`` (a folder stands for the files in it).

    ``format_id``: id of an importer; left out, the content decides. ``names``:
    names of the files, where their paths do not have them. Raises :class:`TraceError` for a
    file that is no trace; wrong rows are in the report instead.
    """
    _sweep()
    with reading_errors_as(TraceError):
        sources = sources_of(paths, names)
        reading = Reading(options=options or ImportOptions())
        importer, reason, sources = choose_all(
            sources, reading.findings, format_id, reading.options.columns
        )
        return _stage(importer, reason, sources, reading, progress)


def _stage(
    importer: Importer,
    reason: str,
    sources: Sequence[Source],
    reading: Reading,
    progress: Progress,
) -> Staged:
    checks = RowChecks(importer, sources, reading)
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    try:
        opened = connect(
            str(folder / "sort.duckdb"),
            memory_limit=_bytes(SORT_BYTES[0]),
            threads=2,
            preserve_insertion_order=False,
            temp_directory=str(folder / "spill"),
        )
        with contextlib.closing(opened) as database:
            rows = _gather(
                database, importer, sources, reading, checks, part_of(progress, 0.0, 0.6)
            )
            times = checks.times()
            sessions = Sessions(
                importer,
                sources,
                times,
                reading,
                incremental=looks_incremental(database, importer, reading),
                time_scale=time_scale(database, times, reading),
            )
            turns = folder / "turns.parquet"
            _complete(database, rows, sessions, turns, part_of(progress, 0.6, 0.4))
        report = sessions.report(reason)
        (folder / "sort.duckdb").unlink(missing_ok=True)
        progress(1.0)
        return Staged(turns, report, importer.difficulty_source, folder)
    except (duckdb.Error, OSError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise TraceError(
            f"{sources[0].name} could not be checked: {str(error).splitlines()[0]}. Sorting it "
            f"needs space for temporary files in {tempfile.gettempdir()}; TMPDIR names another "
            "folder."
        ) from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _sweep() -> None:
    """Remove what imports left behind whose process was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).split("-")[0]
        if os.name == "posix" and pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _gather(
    database: Any,
    importer: Importer,
    sources: Sequence[Source],
    reading: Reading,
    checks: RowChecks,
    progress: Progress,
) -> int:
    """Read and check all rows into the table ``raw`` of ``database``; how many there are."""
    columns = ", ".join(f'"{f.name}" {_SQL_TYPES[f.type]}' for f in RAW)
    database.execute(f'CREATE TABLE raw ("row" BIGINT, file SMALLINT, {columns})')
    database.begin()  # one commit, not one a batch
    rows, share = 0, 1.0 / len(sources)
    for source in sources:
        reading.progress = part_of(progress, source.number * share, share)
        for table in importer.read(source, reading):
            sound = checks.sound(source, table)
            if n := sound.num_rows:
                numbered = sound.add_column(
                    0, "row", pa.array(np.arange(rows, rows + n))
                ).add_column(1, "file", pa.array(np.full(n, source.number, np.int16)))
                database.register("numbered", numbered)
                database.execute("INSERT INTO raw SELECT * FROM numbered")
                database.unregister("numbered")
                rows += n
    database.commit()
    return rows


def _complete(database: Any, rows: int, sessions: Sessions, path: Path, progress: Progress) -> None:
    """Sort the ``rows`` and write the sessions that they are."""
    limit = min(max(rows * SORT_BYTES_PER_ROW, SORT_BYTES[0]), SORT_BYTES[1])
    database.execute(f"SET memory_limit = '{_bytes(limit)}'")
    reader = database.sql(
        'SELECT raw.*, f AS first_row FROM raw JOIN (SELECT session, min("row") AS f FROM raw '
        'GROUP BY session) USING (session) ORDER BY f, "order", "row"'
    ).to_arrow_reader(SESSION_ROWS)
    with pq.ParquetWriter(path, CANONICAL) as writer:
        done = 0
        for table in whole_sessions(reader):
            done += table.num_rows
            writer.write_table(sessions.complete(table))
            progress(done / max(1, rows))


def _bytes(count: int) -> str:
    """A number of bytes as the database takes it."""
    return f"{count // 1_000_000}MB"
