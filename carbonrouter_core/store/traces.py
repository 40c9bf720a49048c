"""The user's traces in the store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from carbonrouter_core.errors import InputError, TraceError
from carbonrouter_core.progress import Progress, nobody_listens
from carbonrouter_core.store.catalogue import Catalogue, checked_name, now, utc
from carbonrouter_core.traces.builtin import BUILTIN_TRACES
from carbonrouter_core.traces.loading import trace_from_table
from carbonrouter_core.traces.schema import CANONICAL, Trace
from carbonrouter_core.traces.staging import Staged
from carbonrouter_core.words.names import unknown


@dataclass(frozen=True)
class StoredTrace:
    """A trace in the store: what can be said about it without reading its turns."""

    name: str
    turns: int
    sessions: int
    format_id: str
    times: str
    first_utc_s: float | None
    last_utc_s: float | None
    created_utc: datetime
    report: Mapping[str, Any] = field(repr=False)


class Traces(Catalogue):
    """What a store does with traces."""

    def save_trace(
        self,
        staged: Staged,
        name: str,
        *,
        accept_unreadable: bool = False,
        progress: Progress = nobody_listens,
    ) -> StoredTrace:
        """Store what was staged under ``name``, all of it or nothing.

        Raises :class:`TraceError` where the report says that it may not be stored, and for a
        name that is taken. ``accept_unreadable`` as in :meth:`Staged.require`.
        """
        staged.require(accept_unreadable)
        name = checked_name(name)
        taken = TraceError(f"There is already a trace {name!r}; choose another name.")
        if name in BUILTIN_TRACES or name in self._trace_names():
            raise taken
        report = staged.report
        with self.new_table() as file:
            file.copy(staged.path, progress)
            with self.transaction() as connection:
                if connection.execute("SELECT 1 FROM traces WHERE name = $1", [name]).fetchone():
                    raise taken
                file.put_in_place()
                connection.execute(
                    "INSERT INTO traces VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
                    [
                        name,
                        report.turns,
                        report.sessions,
                        report.format_id,
                        report.times,
                        report.first_utc_s,
                        report.last_utc_s,
                        staged.difficulty_source,
                        json.dumps(report.to_dict()),
                        now(),
                        file.name,
                    ],
                )
        return self.trace(name)

    def traces(self) -> list[StoredTrace]:
        """The stored traces, newest first."""
        rows = self.rows(
            "SELECT name, turns, sessions, format, times, first_utc_s, last_utc_s, "
            "epoch(created_utc), report FROM traces ORDER BY created_utc DESC, name"
        )
        return [
            StoredTrace(
                name=row[0],
                turns=row[1],
                sessions=row[2],
                format_id=row[3],
                times=row[4],
                first_utc_s=row[5],
                last_utc_s=row[6],
                created_utc=utc(row[7]),
                report=json.loads(row[8]),
            )
            for row in rows
        ]

    def trace(self, name: str) -> StoredTrace:
        """What is known about the trace ``name``."""
        for trace in self.traces():
            if trace.name == name:
                return trace
        raise self._unknown_trace(name)

    def load_trace(self, name: str) -> Trace:
        """The trace ``name``, read into memory."""
        source = ""

        def file() -> str:
            nonlocal source
            name_of_file, source = self._file_and_source(name)
            return name_of_file

        table = self.table_rows(file, f"trace {name!r}")
        return trace_from_table(name, table, source)

    def trace_rows(self, name: str, rows: int = 200) -> pa.Table:
        """The first ``rows`` turns of a trace in the canonical schema."""
        with self.table_file(lambda: self._trace_file(name), f"trace {name!r}") as file:
            first = next(file.iter_batches(batch_size=rows))
            return pa.Table.from_batches([first])

    def export_trace(self, name: str, path: Path) -> None:
        """Write a trace as Parquet; what is written reads back to the same trace."""
        table = self.table_rows(lambda: self._trace_file(name), f"trace {name!r}").cast(CANONICAL)
        at = CANONICAL.get_field_index("start_utc")
        times = table["start_utc"].cast(pa.timestamp("us", tz="UTC"))
        table = table.set_column(at, "start_utc", times)
        empty = [f.name for f in CANONICAL if table[f.name].null_count == len(table)]
        try:
            pq.write_table(table.drop_columns(empty), path)
        except OSError as error:
            raise InputError(f"The trace cannot be written to {path.name}: {error}") from error

    def delete_trace(self, name: str) -> None:
        """Delete a trace and free its space."""
        self._trace_file(name)
        with self.transaction() as connection:
            connection.execute("DELETE FROM traces WHERE name = $1", [name])

    def _trace_file(self, name: str) -> str:
        return self._file_and_source(name)[0]

    def _file_and_source(self, name: str) -> tuple[str, str]:
        rows = self.rows("SELECT file, difficulty_source FROM traces WHERE name = $1", [name])
        if not rows:
            raise self._unknown_trace(name)
        return str(rows[0][0]), str(rows[0][1])

    def _trace_names(self) -> list[str]:
        return [str(row[0]) for row in self.rows("SELECT name FROM traces ORDER BY name")]

    def _unknown_trace(self, name: str) -> TraceError:
        return TraceError(unknown("trace", name, [*self._trace_names(), *BUILTIN_TRACES]))
