"""Sorted rows become whole sessions in the canonical schema: history, times, repairs, totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carbonrouter_core.reading.files import Source
from carbonrouter_core.reading.findings import MAX_PLACES, Findings, Kind
from carbonrouter_core.traces.importers.base import (
    DIFFERING_TURN,
    SAME_TURN,
    Importer,
    ImportOptions,
    Times,
)
from carbonrouter_core.traces.report import TraceReport
from carbonrouter_core.traces.rows import COUNTS, NUMBERS
from carbonrouter_core.traces.schema import CANONICAL

_TEXTS = ("served_model", "served_region", "user_region")


class Sessions:
    """Completes whole sessions, table by table, and adds up the figures of the report.

    ``file_times``: what the times of the files are.
    """

    def __init__(
        self,
        importer: Importer,
        sources: Sequence[Source],
        file_times: Times,
        options: ImportOptions,
        findings: Findings,
    ) -> None:
        self._importer, self._sources, self._findings = importer, sources, findings
        self._served_region = options.served_region
        self._file_times = file_times
        within_session = file_times == "clock" or (
            file_times == "start_utc" and not options.keep_dates
        )
        self._times: Times = "t_s" if within_session else file_times
        self._turns = self._sessions = 0
        self._turns_per_session = np.zeros(1, np.int64)
        self._first_s, self._last_s, self._longest_s = np.inf, -np.inf, 0.0
        self._totals: dict[str, int] = {}

    def complete(self, table: pa.Table) -> pa.Table:
        """The rows of whole sessions in the canonical schema; repairs them and adds them up."""
        table = self._without_duplicates(table)
        n = table.num_rows
        first = _starts(table["first_row"].to_numpy())
        begins = np.flatnonzero(first)
        lengths = np.diff(np.r_[begins, n])
        self._note_sorted(table, first)
        columns = {name: _floats(table, name) for name in COUNTS}
        output = columns["output_tokens"]
        cached = _floats(table, "cached_tokens_observed")
        history, prompt = self._history(table, first, columns, cached)
        times = self._times_of(table, first, begins, lengths)
        self._add_up(lengths, begins, times, table, prompt, output, cached)
        absent = pa.nulls(n, pa.float64())
        start_utc = pa.nulls(n, CANONICAL.field("start_utc").type)
        if self._times == "start_utc":
            start_utc = pa.array(np.round(times * 1e6).astype("datetime64[us]"))
        region = table["served_region"]
        if self._served_region:
            region = region.fill_null(self._served_region)
        turn = np.arange(n) - np.repeat(begins, lengths)
        return pa.table(
            {
                "session": table["session"],
                "turn": pa.array(turn, pa.int32()),
                "t_s": pa.array(times) if self._times == "t_s" else absent,
                "start_s": pa.array(times) if self._times == "start_s" else absent,
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

    def _note(self, kind: Kind, reason: str, table: pa.Table, which: np.ndarray) -> None:
        """Count a finding about the rows of ``table`` where ``which`` is true, if there are any."""
        rows = np.flatnonzero(which)
        if len(rows):
            listed = table.select(["file", "line"]).take(pa.array(rows[:MAX_PLACES])).to_pylist()
            places = (self._sources[row["file"]].place(row["line"]) for row in listed)
            self._findings.add(kind, reason, places, len(rows))

    def _without_duplicates(self, table: pa.Table) -> pa.Table:
        n = table.num_rows
        same = np.zeros(n, bool)
        same[1:] = ~_starts(table["first_row"].to_numpy())[1:]
        same &= _repeats(table["order"], nulls=False)
        if not self._importer.turn_is_key:
            same &= _repeats(table["ident"], nulls=False)
        if not same.any():
            return table
        equal = np.ones(n, bool)
        for name in (*NUMBERS, *_TEXTS, "time_s"):
            equal &= _repeats(table[name], nulls=True)
        twice, differing = same & equal, same & ~equal
        self._note("repaired", SAME_TURN, table, twice)
        self._note("refused", DIFFERING_TURN, table, differing)
        return table.filter(pa.array(~same))

    def _note_sorted(self, table: pa.Table, first: np.ndarray) -> None:
        row = table["row"].to_numpy()
        moved = np.zeros(len(row), bool)
        moved[1:] = (row[1:] < row[:-1]) & ~first[1:]
        reason = "the turns of a session stood out of order and were sorted"
        self._note("repaired", reason, table, moved)

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
            self._note("repaired", reason, table, shrank)
            history = np.minimum(np.where(np.isnan(given), before, given), whole)
        over = cached > whole
        self._note("refused", "there are more cached tokens than prompt tokens", table, over)
        beyond = (cached > history) & ~over
        if beyond.any():
            reason = (
                "more tokens were cached than the session's own history holds (a prefix shared "
                "with others, or turns before the log began): they count as history"
            )
            self._note("note", reason, table, beyond)
            history = np.where(beyond, cached, history)
        return history, whole - history

    def _times_of(
        self, table: pa.Table, first: np.ndarray, begins: np.ndarray, lengths: np.ndarray
    ) -> np.ndarray:
        times = _floats(table, "time_s")
        if self._file_times == "none":
            return times
        back = np.zeros(len(times), bool)
        back[1:] = (times[1:] < times[:-1]) & ~first[1:]
        if back.any():
            if self._importer.late == "refuse":
                reason = f"{self._file_times} is earlier than the turn before it"
                self._note("refused", reason, table, back)
            else:
                reason = "the time is before that of the turn before it; that one is taken"
                self._note("repaired", reason, table, back)
                for i in np.unique(np.searchsorted(begins, np.flatnonzero(back), "right") - 1):
                    rows = slice(begins[i], begins[i] + lengths[i])
                    times[rows] = np.maximum.accumulate(times[rows])
        if self._times == "t_s" and self._file_times != "t_s":
            times = times - np.repeat(times[begins], lengths)
        return times

    def _add_up(
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
        if len(counts) > len(self._turns_per_session):
            self._turns_per_session = np.r_[
                self._turns_per_session,
                np.zeros(len(counts) - len(self._turns_per_session), np.int64),
            ]
        self._turns_per_session[: len(counts)] += counts
        self._turns += len(times)
        self._sessions += len(lengths)
        if self._times != "none" and len(times) and np.isfinite(times).any():
            self._first_s = min(self._first_s, float(np.nanmin(times)))
            self._last_s = max(self._last_s, float(np.nanmax(times)))
            spans = times[begins + lengths - 1] - times[begins]
            self._longest_s = max(self._longest_s, float(np.nanmax(spans)))
        regions = len(times) - table["served_region"].null_count
        if self._served_region:
            regions = len(times)
        for name, value in (
            ("new_prompt_tokens", int(np.nansum(prompt))),
            ("output_tokens", int(np.nansum(output))),
            ("turns_with_cached", int((~np.isnan(cached)).sum())),
            ("turns_with_model", len(times) - table["served_model"].null_count),
            ("turns_with_region", regions),
            ("turns_with_difficulty", len(times) - table["difficulty"].null_count),
        ):
            self._totals[name] = self._totals.get(name, 0) + value

    def report(self, reason: str) -> TraceReport:
        """What was found, once everything has been read."""
        absolute = self._times == "start_utc" and self._turns > 0
        duration = None
        if self._turns and self._times != "none":
            duration = self._longest_s if self._times == "t_s" else self._last_s - self._first_s
        self._findings.guess(self._importer.sessions)
        return TraceReport(
            files=tuple(source.name for source in self._sources[:10])
            + ((f"and {len(self._sources) - 10} more",) if len(self._sources) > 10 else ()),
            format_id=self._importer.id,
            format_label=self._importer.label,
            format_reason=reason,
            rows_read=self._findings.rows_read,
            turns=self._turns,
            sessions=self._sessions,
            findings=self._findings.all(),
            guesses=self._findings.guesses,
            times=self._times,
            first_utc_s=self._first_s if absolute else None,
            last_utc_s=self._last_s if absolute else None,
            duration_s=duration,
            turns_per_session=self._turns_per_session,
            **self._totals,
        )


def whole_sessions(reader: Any) -> Iterator[pa.Table]:
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
