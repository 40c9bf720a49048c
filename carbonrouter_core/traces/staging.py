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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from carbonrouter_core.errors import ReadingError, TraceError
from carbonrouter_core.progress import Progress, nobody_listens, part_of
from carbonrouter_core.reading.database import connect
from carbonrouter_core.reading.files import Source
from carbonrouter_core.reading.findings import MAX_PLACES, Kind
from carbonrouter_core.traces.importers import choose
from carbonrouter_core.traces.importers.base import (
    DIFFERING_TURN,
    RAW,
    SAME_TURN,
    Importer,
    ImportOptions,
    Reading,
    Times,
)
from carbonrouter_core.traces.report import TraceReport

MAX_TOKENS = 1e8
"""More tokens than this in one turn is a wrong number, not a long prompt."""
MAX_START_S = 1e9
"""A start this long after the window's is most likely an epoch time in the wrong column, s."""
EPOCH_START = (
    "start_s counts from the window's start, but this looks like seconds since 1970: no window "
    "will cover it; name the column start_utc if it is a date"
)
MAX_DIFFICULTY = 50.0
"""Difficulties are logits; beyond this the number is something else."""
SORT_BYTES = (100_000_000, 700_000_000)
"""What the sorting database may hold in memory, least and most; it spills to disk beyond."""
SORT_BYTES_PER_ROW = 100
"""Between the two: what a row may take of it."""
SESSION_ROWS = 50_000
"""Rows completed at a time, rounded up to whole sessions."""
MAX_TRACE_TURNS = 50_000_000
"""A trace is read into memory to be replayed; more turns than this will not fit."""

CANONICAL = pa.schema(
    [
        ("session", pa.string()),
        ("turn", pa.int32()),
        ("t_s", pa.float64()),
        ("start_s", pa.float64()),
        ("start_utc", pa.timestamp("us")),
        ("new_prompt_tokens", pa.int64()),
        ("history_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("cached_tokens_observed", pa.int64()),
        ("served_model", pa.string()),
        ("served_region", pa.string()),
        ("user_region", pa.string()),
        ("difficulty", pa.float64()),
    ]
)
"""The canonical schema of a trace: one row a turn, sessions together and in order.

Source: docs/design.md, section 6.

At most one of ``t_s`` (since the session's start), ``start_s`` (since the window's start) and
``start_utc`` (UTC, though its type does not say so) is filled; observed columns, user region and
difficulty may be null. There is no text.
"""

_COUNTS = ("new_prompt_tokens", "input_tokens", "history_tokens", "output_tokens")
_NUMBERS = (*_COUNTS, "cached_tokens_observed", "order", "difficulty")
_TEXTS = ("served_model", "served_region", "user_region")
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

    ``format_id``: id of an importer; left out, the format is told by the content. ``names``:
    what the files are called, where their paths do not say. Raises :class:`TraceError` for a
    file that is no trace; wrong rows are in the report instead.
    """
    _sweep()
    sources = _sources(paths, names)
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    try:
        importer, reason = choose(sources[0], format_id)
        reading = Reading(options=options or ImportOptions())
        work = _Work(folder, importer, sources, reading)
        opened = connect(
            str(folder / "sort.duckdb"),
            memory_limit=_bytes(SORT_BYTES[0]),
            threads=2,
            preserve_insertion_order=False,
            temp_directory=str(folder / "spill"),
        )
        with contextlib.closing(opened) as database:
            work.gather(database, lambda share: progress(0.6 * share))
            work.complete(database, lambda share: progress(0.6 + 0.4 * share))
        report = work.report(reason)
        (folder / "sort.duckdb").unlink(missing_ok=True)
        progress(1.0)
        return Staged(folder / "turns.parquet", report, importer.difficulty_source, folder)
    except ReadingError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise TraceError(str(error)) from error
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


def _sources(paths: Sequence[Path], names: Sequence[str] | None) -> list[Source]:
    files: list[tuple[Path, str]] = []
    for i, path in enumerate(paths):
        if path.is_dir():
            inside = sorted(p for p in path.iterdir() if p.is_file() and p.name[0] != ".")
            files += [(file, file.name) for file in inside]
        else:
            files.append((path, names[i] if names else path.name))
    if not files:
        raise TraceError("There is no file to import.")
    return [Source(path, name, i, len(files) > 1) for i, (path, name) in enumerate(files)]


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


class _Work:
    """One import: rows in, sorted sessions out, and the figures of the report."""

    def __init__(
        self, folder: Path, importer: Importer, sources: Sequence[Source], reading: Reading
    ) -> None:
        self.folder, self.importer, self.sources = folder, importer, sources
        self.reading, self.findings = reading, reading.findings
        kinds = {importer.times(source) for source in sources}
        if len(kinds) > 1:
            raise TraceError("The files have times of different kinds; import them apart.")
        self.file_times: Times = kinds.pop()
        self.times: Times = self.file_times
        if self.times == "clock" or (self.times == "start_utc" and not reading.options.keep_dates):
            self.times = "t_s"
        self.rows = self.turns = self.sessions = 0
        self.lengths = np.zeros(1, np.int64)
        self.first_s, self.last_s, self.longest_s = np.inf, -np.inf, 0.0
        self.totals: dict[str, int] = {}
        self.timeless: list[str] = []
        self.n_timeless = self.n_timed = 0

    # --- Gathering ---------------------------------------------------------------------------

    def gather(self, database: Any, progress: Progress) -> None:
        """Read and check all rows into the table ``raw`` of ``database``."""
        columns = ", ".join(f'"{f.name}" {_sql_type(f.type)}' for f in RAW)
        database.execute(f'CREATE TABLE raw ("row" BIGINT, file SMALLINT, {columns})')
        database.begin()  # one commit, not one a batch
        for source in self.sources:
            share = 1.0 / len(self.sources)
            self.reading.progress = part_of(progress, source.number * share, share)
            for table in self.importer.read(source, self.reading):
                checked = self._checked(source, _raw(table))
                n = checked.num_rows
                if n:
                    numbered = checked.add_column(
                        0, "row", pa.array(np.arange(self.rows, self.rows + n))
                    ).add_column(1, "file", pa.array(np.full(n, source.number, np.int16)))
                    database.register("numbered", numbered)
                    database.execute("INSERT INTO raw SELECT * FROM numbered")
                    database.unregister("numbered")
                    self.rows += n
        database.commit()
        if self.file_times != "none" and self.n_timeless:
            if self.n_timed:
                self.findings.add(
                    "refused",
                    "the time is empty, though other rows have one",
                    self.timeless,
                    self.n_timeless,
                )
            else:
                self.findings.guess("no row has a time: starts and gaps are drawn")
                self.times = self.file_times = "none"

    def _checked(self, source: Source, table: pa.Table) -> pa.Table:
        lines = table["line"].to_numpy()
        keep = np.ones(table.num_rows, bool)

        def refuse(wrong: np.ndarray, reason: str) -> None:
            wrong = wrong & keep
            if wrong.any():
                self.findings.add_lines("refused", reason, source, lines[wrong])
                keep[wrong] = False

        def numbers(name: str) -> tuple[np.ndarray, np.ndarray]:
            column = table[name].combine_chunks()
            given = column.is_valid().to_numpy(zero_copy_only=False)
            return column.fill_null(0.0).to_numpy(zero_copy_only=False), given

        empty = table["session"].is_null().to_numpy()
        refuse(
            empty | pc.equal(table["session"], "").fill_null(True).to_numpy(), "session is empty"
        )
        columns = {name: numbers(name) for name in (*_NUMBERS, "time_s")}
        for name, (values, given) in columns.items():
            label = self.file_times if name == "time_s" else "turn" if name == "order" else name
            refuse(given & ~np.isfinite(values), f"{label} is not a number")
        for name in (*_COUNTS, "cached_tokens_observed"):
            values, given = columns[name]
            wrong = (values < 0) | (values > MAX_TOKENS) | (np.floor(values) != values)
            refuse(given & wrong, f"{name} must be a whole number from 0 to {MAX_TOKENS:.0e}")
        prompt = columns["input_tokens"][1] | columns["new_prompt_tokens"][1]
        name = "new_prompt_tokens" if self.importer.turn_is_key else "input_tokens"
        refuse(~prompt, f"{name} is not a number (it is empty)")
        refuse(~columns["output_tokens"][1], "output_tokens is not a number (it is empty)")
        given = columns["input_tokens"][1] & columns["cached_tokens_observed"][1]
        more = columns["cached_tokens_observed"][0] > columns["input_tokens"][0]
        refuse(given & more, "there are more cached tokens than prompt tokens")
        if self.importer.turn_is_key:
            values, given = columns["order"]
            refuse(~given, "turn is not a number (it is empty)")
            wrong = (values < 0) | (values > MAX_TOKENS) | (np.floor(values) != values)
            refuse(given & wrong, f"turn must be a whole number from 0 to {MAX_TOKENS:.0e}")
        values, given = columns["difficulty"]
        refuse(given & (np.abs(values) > MAX_DIFFICULTY), "difficulty is not a logit (-50 to 50)")
        values, given = columns["time_s"]
        if self.file_times != "none":
            missing = keep & ~given
            self.n_timeless += int(missing.sum())
            self.n_timed += int((keep & given).sum())
            self.timeless += [source.place(int(i)) for i in lines[missing][:100]]
        if self.file_times in ("t_s", "start_s"):
            refuse(given & (values < 0), f"{self.file_times} is negative")
        if self.file_times == "start_s":
            epoch = keep & given & (values > MAX_START_S)
            self.findings.add_lines("note", EPOCH_START, source, lines[epoch])
        return table if keep.all() else table.filter(pa.array(keep))

    # --- Completing --------------------------------------------------------------------------

    def complete(self, database: Any, progress: Progress) -> None:
        """Pass the sorted sessions through :meth:`_session_rows` and write them."""
        limit = min(max(self.rows * SORT_BYTES_PER_ROW, SORT_BYTES[0]), SORT_BYTES[1])
        database.execute(f"SET memory_limit = '{_bytes(limit)}'")
        reader = database.sql(
            'SELECT raw.*, f AS first_row FROM raw JOIN (SELECT session, min("row") AS f FROM raw '
            'GROUP BY session) USING (session) ORDER BY f, "order", "row"'
        ).to_arrow_reader(SESSION_ROWS)
        with pq.ParquetWriter(self.folder / "turns.parquet", CANONICAL) as writer:
            done = 0
            for table in _whole_sessions(reader):
                done += table.num_rows
                writer.write_table(self._session_rows(table))
                progress(done / max(1, self.rows))

    def _session_rows(self, table: pa.Table) -> pa.Table:
        """The rows of whole sessions in the canonical schema; counts and repairs."""
        table = self._without_duplicates(table)
        n = table.num_rows
        first = _starts(table["first_row"].to_numpy())
        begins = np.flatnonzero(first)
        lengths = np.diff(np.r_[begins, n])
        self._order_kept(table, first)
        columns = {name: _floats(table, name) for name in _COUNTS}
        output = columns["output_tokens"]
        cached = _floats(table, "cached_tokens_observed")
        history, prompt = self._history(table, first, columns, cached)
        times = self._times(table, first, begins, lengths)
        self._count(lengths, begins, times, table, prompt, output, cached)
        absent = pa.nulls(n, pa.float64())
        start_utc = pa.nulls(n, CANONICAL.field("start_utc").type)
        if self.times == "start_utc":
            start_utc = pa.array(np.round(times * 1e6).astype("datetime64[us]"))
        region = table["served_region"]
        if self.reading.options.served_region:
            region = region.fill_null(self.reading.options.served_region)
        turn = np.arange(n) - np.repeat(begins, lengths)
        return pa.table(
            {
                "session": table["session"],
                "turn": pa.array(turn, pa.int32()),
                "t_s": pa.array(times) if self.times == "t_s" else absent,
                "start_s": pa.array(times) if self.times == "start_s" else absent,
                "start_utc": start_utc,
                "new_prompt_tokens": pa.array(prompt.astype(np.int64)),
                "history_tokens": pa.array(history.astype(np.int64)),
                "output_tokens": pa.array(output.astype(np.int64)),
                "cached_tokens_observed": pa.array(cached, from_pandas=True).cast(pa.int64()),
                "served_model": table["served_model"],
                "served_region": region,
                "user_region": table["user_region"],
                "difficulty": table["difficulty"],
            },
            schema=CANONICAL,
        )

    def _found(self, kind: Kind, reason: str, table: pa.Table, which: np.ndarray) -> None:
        """Count a finding about the rows of ``table`` where ``which`` is true, if there are any."""
        rows = np.flatnonzero(which)
        if len(rows):
            listed = table.select(["file", "line"]).take(pa.array(rows[:MAX_PLACES])).to_pylist()
            places = (self.sources[row["file"]].place(row["line"]) for row in listed)
            self.findings.add(kind, reason, places, len(rows))

    def _without_duplicates(self, table: pa.Table) -> pa.Table:
        n = table.num_rows
        same = np.zeros(n, bool)
        same[1:] = ~_starts(table["first_row"].to_numpy())[1:]
        same &= _repeats(table["order"], nulls=False)
        if not self.importer.turn_is_key:
            same &= _repeats(table["ident"], nulls=False)
        if not same.any():
            return table
        equal = np.ones(n, bool)
        for name in (*_NUMBERS, *_TEXTS, "time_s"):
            equal &= _repeats(table[name], nulls=True)
        twice, differing = same & equal, same & ~equal
        self._found("repaired", SAME_TURN, table, twice)
        self._found("refused", DIFFERING_TURN, table, differing)
        return table.filter(pa.array(~same))

    def _order_kept(self, table: pa.Table, first: np.ndarray) -> None:
        row = table["row"].to_numpy()
        moved = np.zeros(len(row), bool)
        moved[1:] = (row[1:] < row[:-1]) & ~first[1:]
        reason = "the turns of a session stood out of order and were sorted"
        self._found("repaired", reason, table, moved)

    def _history(
        self,
        table: pa.Table,
        first: np.ndarray,
        columns: dict[str, np.ndarray],
        cached: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """History and new prompt tokens of each turn."""
        whole, given = columns["input_tokens"], columns["history_tokens"]
        output, prompt = columns["output_tokens"], columns["new_prompt_tokens"]
        if np.isnan(whole).all():
            both = prompt + output
            before = np.cumsum(both) - both
            begins = np.flatnonzero(first)
            before -= np.repeat(before[begins], np.diff(np.r_[begins, len(first)]))
            history = np.where(np.isnan(given), before, given)
            whole = history + prompt
        else:
            before = np.r_[0.0, (whole + output)[:-1]]
            before[first] = 0.0
            shrank = np.isnan(given) & (before > whole)
            reason = (
                "history shrank: the prompt is shorter than the turns before it; "
                "all of it is taken as history"
            )
            self._found("repaired", reason, table, shrank)
            history = np.minimum(np.where(np.isnan(given), before, given), whole)
        over = cached > whole
        self._found("refused", "there are more cached tokens than prompt tokens", table, over)
        beyond = (cached > history) & ~over
        if beyond.any():
            reason = (
                "more tokens were cached than the session's own history holds (a prefix shared "
                "with others, or turns before the log began): they count as history"
            )
            self._found("note", reason, table, beyond)
            history = np.where(beyond, cached, history)
        return history, whole - history

    def _times(
        self, table: pa.Table, first: np.ndarray, begins: np.ndarray, lengths: np.ndarray
    ) -> np.ndarray:
        times = _floats(table, "time_s")
        if self.file_times == "none":
            return times
        back = np.zeros(len(times), bool)
        back[1:] = (times[1:] < times[:-1]) & ~first[1:]
        if back.any():
            if self.importer.late == "refuse":
                reason = f"{self.file_times} is earlier than the turn before it"
                self._found("refused", reason, table, back)
            else:
                reason = "the time is before that of the turn before it; that one is taken"
                self._found("repaired", reason, table, back)
                for i in np.unique(np.searchsorted(begins, np.flatnonzero(back), "right") - 1):
                    rows = slice(begins[i], begins[i] + lengths[i])
                    times[rows] = np.maximum.accumulate(times[rows])
        if self.times == "t_s" and self.file_times != "t_s":
            times = times - np.repeat(times[begins], lengths)
        return times

    def _count(
        self,
        lengths: np.ndarray,
        begins: np.ndarray,
        times: np.ndarray,
        table: pa.Table,
        prompt: np.ndarray,
        output: np.ndarray,
        cached: np.ndarray,
    ) -> None:
        counts = np.bincount(lengths)
        if len(counts) > len(self.lengths):
            self.lengths = np.r_[self.lengths, np.zeros(len(counts) - len(self.lengths), np.int64)]
        self.lengths[: len(counts)] += counts
        self.turns += len(times)
        self.sessions += len(lengths)
        if self.times != "none" and len(times) and np.isfinite(times).any():
            self.first_s = min(self.first_s, float(np.nanmin(times)))
            self.last_s = max(self.last_s, float(np.nanmax(times)))
            spans = times[begins + lengths - 1] - times[begins]
            self.longest_s = max(self.longest_s, float(np.nanmax(spans)))
        regions = len(times) - table["served_region"].null_count
        if self.reading.options.served_region:
            regions = len(times)
        for name, value in (
            ("new_prompt_tokens", int(np.nansum(prompt))),
            ("output_tokens", int(np.nansum(output))),
            ("turns_with_cached", int((~np.isnan(cached)).sum())),
            ("turns_with_model", len(times) - table["served_model"].null_count),
            ("turns_with_region", regions),
            ("turns_with_difficulty", len(times) - table["difficulty"].null_count),
        ):
            self.totals[name] = self.totals.get(name, 0) + value

    def report(self, reason: str) -> TraceReport:
        """What was found, once everything has been read."""
        absolute = self.times == "start_utc" and self.turns > 0
        duration = None
        if self.turns and self.times != "none":
            duration = self.longest_s if self.times == "t_s" else self.last_s - self.first_s
        self.findings.guess(self.importer.sessions)
        return TraceReport(
            files=tuple(source.name for source in self.sources[:10])
            + ((f"and {len(self.sources) - 10} more",) if len(self.sources) > 10 else ()),
            format_id=self.importer.id,
            format_label=self.importer.label,
            format_reason=reason,
            rows_read=self.findings.rows_read,
            turns=self.turns,
            sessions=self.sessions,
            findings=self.findings.all(),
            guesses=self.findings.guesses,
            times=self.times,
            first_utc_s=self.first_s if absolute else None,
            last_utc_s=self.last_s if absolute else None,
            duration_s=duration,
            turns_per_session=self.lengths,
            **self.totals,
        )


def _whole_sessions(reader: Any) -> Iterator[pa.Table]:
    """Tables of whole sessions from batches that may cut one."""
    held: list[pa.RecordBatch] = []
    for batch in reader:
        if not batch.num_rows:
            continue
        rows = batch.column(batch.schema.get_field_index("first_row")).to_numpy()
        cut = len(rows) - int((rows == rows[-1]).sum())  # where the last, maybe cut, one begins
        if cut or (held and _last_row(held[-1]) != rows[0]):
            table = pa.Table.from_batches([*held, batch.slice(0, cut)])
            if table.num_rows:
                yield table.combine_chunks()
            held = [batch.slice(cut)]
        else:
            held.append(batch)
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def _last_row(batch: pa.RecordBatch) -> int:
    return int(batch.column(batch.schema.get_field_index("first_row"))[-1].as_py())


def _starts(first_row: np.ndarray) -> np.ndarray:
    """Which rows begin a session."""
    starts = np.ones(len(first_row), bool)
    starts[1:] = first_row[1:] != first_row[:-1]
    return starts


def _repeats(column: Any, *, nulls: bool) -> np.ndarray:
    """Which rows equal the row before; ``nulls``: whether two nulls are equal."""
    array = column.combine_chunks()
    same = np.zeros(len(array), bool)
    if len(array) > 1:
        above, below = array.slice(0, len(array) - 1), array.slice(1)
        equal = pc.equal(above, below).fill_null(False)
        if nulls:
            equal = pc.or_(equal, pc.and_(above.is_null(), below.is_null()))
        same[1:] = equal.to_numpy(zero_copy_only=False)
    return same


def _floats(table: pa.Table, name: str) -> np.ndarray:
    """A number column with NaN for null; the caller's own copy."""
    return np.array(table[name].to_pandas(), np.float64)


def _raw(table: pa.Table) -> pa.Table:
    """``table`` with exactly the columns of :data:`RAW`."""
    names = table.schema.names
    return pa.table(
        [
            table[f.name].cast(f.type) if f.name in names else pa.nulls(table.num_rows, f.type)
            for f in RAW
        ],
        schema=RAW,
    )


def _bytes(count: int) -> str:
    """A number of bytes as the database takes it."""
    return f"{count // 1_000_000}MB"


def _sql_type(kind: pa.DataType) -> str:
    return {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.string(): "VARCHAR"}[kind]
