"""Runs in the store: what was computed, from what, its figures and its decisions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq

from carbonrouter_core.errors import InputError
from carbonrouter_core.reading.database import connect
from carbonrouter_core.store.catalogue import Catalogue, checked_name, now, utc

MAX_NOTE = 2000
"""Characters of a note."""
COMPARED = ("policy", "session", "turn", "model", "gpu", "region")
"""Columns of decisions that two runs are compared by."""
MEMORY_LIMIT = "700MB"
"""What DuckDB may hold in memory while it compares; it spills to disk beyond."""


@dataclass(frozen=True)
class StoredRun:
    """A run: what was computed, from what, and its figures. ``id`` is 0 before it is stored."""

    name: str
    scenario_json: str
    summary_json: str
    engine_version: str
    seed: int
    data_hashes: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    id: int = 0
    created_utc: datetime | None = None


class Runs(Catalogue):
    """What a store does with runs."""

    def save_run(
        self, run: StoredRun, decisions: pa.Table | pa.RecordBatchReader | None = None
    ) -> StoredRun:
        """Store a run and its decisions (any table); returns it with its id and time."""
        checked_name(run.name)
        with nullcontext() if decisions is None else self.new_table() as file:
            if file is not None:
                file.write(decisions)
            with self.transaction() as connection:
                if file is not None:
                    file.put_in_place()
                key = connection.execute("SELECT nextval('ids')").fetchone()[0]
                connection.execute(
                    "INSERT INTO runs VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                    [
                        key,
                        run.name,
                        run.note,
                        run.scenario_json,
                        run.summary_json,
                        run.engine_version,
                        json.dumps(dict(run.data_hashes)),
                        run.seed,
                        now(),
                        None if file is None else file.name,
                    ],
                )
        return self.load_run(int(key))

    def runs(self) -> list[StoredRun]:
        """The stored runs, newest first, without their decisions."""
        rows = self.rows(
            "SELECT name, scenario_json, summary_json, engine_version, seed, data_hashes, note, "
            "id, epoch(created_utc) FROM runs ORDER BY id DESC"
        )
        return [
            StoredRun(
                name=row[0],
                scenario_json=row[1],
                summary_json=row[2],
                engine_version=row[3],
                seed=row[4],
                data_hashes=json.loads(row[5]),
                note=row[6],
                id=row[7],
                created_utc=utc(row[8]),
            )
            for row in rows
        ]

    def load_run(self, run_id: int) -> StoredRun:
        """The run ``run_id``."""
        for run in self.runs():
            if run.id == run_id:
                return run
        raise InputError(f"There is no stored run {run_id}.")

    def load_decisions(self, run_id: int) -> pa.Table:
        """The decisions of a run, as the table they were stored from."""
        with self._decisions(run_id) as file:
            return file.read()

    def update_run(self, run_id: int, *, name: str, note: str) -> StoredRun:
        """Give a run another name and note."""
        self.load_run(run_id)
        name = checked_name(name)
        if len(note) > MAX_NOTE:
            raise InputError(f"The note has {len(note):,} characters; at most {MAX_NOTE:,} fit.")
        with self.transaction() as connection:
            connection.execute(
                "UPDATE runs SET name = $1, note = $2 WHERE id = $3", [name, note, run_id]
            )
        return self.load_run(run_id)

    def turns_served_elsewhere(
        self, first: int, second: int, policies: Sequence[str]
    ) -> dict[str, tuple[int, int]] | None:
        """For each policy: turns that two runs have in common, and those they served elsewhere.

        None where one of them was stored without its decisions.
        """
        if not (self._decisions_file(first) and self._decisions_file(second)):
            return None
        with (
            self._decisions(first) as a,
            self._decisions(second) as b,
            connect(":memory:", memory_limit=MEMORY_LIMIT) as connection,
        ):
            connection.register("a", _batches(a))
            connection.register("b", _batches(b))
            rows = connection.execute(
                "SELECT a.policy, count(*), count(*) FILTER "
                "((a.model, a.gpu, a.region) IS DISTINCT FROM (b.model, b.gpu, b.region)) "
                "FROM a JOIN b USING (policy, session, turn) GROUP BY a.policy"
            ).fetchall()
        return {row[0]: (row[1], row[2]) for row in rows if row[0] in policies}

    def delete_run(self, run_id: int) -> None:
        """Delete a run with its decisions and free their space."""
        self.load_run(run_id)
        with self.transaction() as connection:
            connection.execute("DELETE FROM runs WHERE id = $1", [run_id])

    def _decisions(self, run_id: int) -> AbstractContextManager[pq.ParquetFile]:
        return self.table_file(lambda: self._file_of(run_id), f"run {run_id}")

    def _file_of(self, run_id: int) -> str:
        if file := self._decisions_file(run_id):
            return file
        raise InputError(f"Run {run_id} was stored without its decisions.")

    def _decisions_file(self, run_id: int) -> str | None:
        rows = self.rows("SELECT file FROM runs WHERE id = $1", [run_id])
        if not rows:
            raise InputError(f"There is no stored run {run_id}.")
        return None if rows[0][0] is None else str(rows[0][0])


def _batches(file: pq.ParquetFile) -> pa.RecordBatchReader:
    """What :meth:`Runs.turns_served_elsewhere` holds side by side, a part at a time."""
    schema = pa.schema([field for field in file.schema_arrow if field.name in COMPARED])
    return pa.RecordBatchReader.from_batches(schema, file.iter_batches(columns=list(COMPARED)))
