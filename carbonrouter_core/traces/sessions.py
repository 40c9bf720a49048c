"""Sorted rows become whole sessions in the canonical schema: history, times, repairs, totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from carbonrouter_core.reading.files import Source
from carbonrouter_core.reading.findings import MAX_PLACES, Findings, Kind
from carbonrouter_core.traces.contexts import contexts
from carbonrouter_core.traces.importers.base import (
    DIFFERING_TURN,
    SAME_TURN,
    Importer,
    Reading,
    Times,
)
from carbonrouter_core.traces.importers.prompt_counts import tell_prompt_counts
from carbonrouter_core.traces.report import TraceReport
from carbonrouter_core.traces.requests import (
    TEXTS,
    apart,
    floats,
    one_turn_a_request,
    records_apart,
    repeats,
    starts,
)
from carbonrouter_core.traces.rows import COUNTS, MORE_CACHED, NUMBERS
from carbonrouter_core.traces.schema import CANONICAL

MUCH_SHRANK = 0.03
"""Share of follow-up turns with a prompt shorter than the turns before it from which the report
begins with a warning."""

SEVERAL_LINES = "several lines of one request: one turn, with the largest of their counts"
OTHER_RECORD = "another conversation has the same name: a session of its own"
OTHER_CONTEXT = (
    "the call does not go on from the one before, which is taken up again later: a session of its "
    "own, as of a sub-agent"
)
SHRANK = (
    "history shrank: the prompt is shorter than the turns before it; all of it is taken as history"
)


class Sessions:
    """Completes whole sessions, table by table, and adds up the figures of the report.

    ``file_times``: what the times of the files are; ``incremental``: whether each prompt looks
    as if it held only the new message; ``time_scale``: seconds that one of their times is, where
    they count from a start.
    """

    def __init__(
        self,
        importer: Importer,
        sources: Sequence[Source],
        file_times: Times,
        reading: Reading,
        *,
        incremental: bool = False,
        time_scale: float = 1.0,
    ) -> None:
        options = reading.options
        self._importer, self._sources, self._reading = importer, sources, reading
        self._findings: Findings = reading.findings
        self._incremental = incremental
        self._follow_ups = self._shrank = 0
        self._served_region = options.served_region
        self._scale = time_scale
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
        self._note_sorted(table)
        table = self._contexts_apart(self._with_whole_prompts(table))
        n = table.num_rows
        first = starts(table["first_row"].to_numpy())
        begins = np.flatnonzero(first)
        lengths = np.diff(np.r_[begins, n])
        columns = {name: floats(table, name) for name in COUNTS}
        output = columns["output_tokens"]
        cached = floats(table, "cached_tokens_observed")
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
        """The rows without those that say again what another one says."""
        if not self._importer.turn_is_key:
            merged, twice, parts, differing = one_turn_a_request(table)
            self._note("repaired", SAME_TURN, table, twice)
            self._note("repaired", SEVERAL_LINES, table, parts)
            self._note("refused", DIFFERING_TURN, table, differing)
            return merged
        n = table.num_rows
        same = np.zeros(n, bool)
        same[1:] = ~starts(table["first_row"].to_numpy())[1:]
        same &= repeats(table["order"], nulls=False)
        if not same.any():
            return table
        if self._importer.record_is_session:
            again, part = records_apart(table)
            self._note("repaired", SAME_TURN, table, again)
            order = table["order"].to_numpy()
            self._note("note", OTHER_RECORD, table, (part > 0) & ~again & (order == 0))
            return apart(table.filter(pa.array(~again)), part[~again], "other")
        equal = np.ones(n, bool)
        for name in (*NUMBERS, *TEXTS, "time_s"):
            equal &= repeats(table[name], nulls=True)
        twice, differing = same & equal, same & ~equal
        self._note("repaired", SAME_TURN, table, twice)
        self._note("refused", DIFFERING_TURN, table, differing)
        return table.filter(pa.array(~same))

    def _note_sorted(self, table: pa.Table) -> None:
        row = table["row"].to_numpy()
        moved = np.zeros(len(row), bool)
        first = starts(table["first_row"].to_numpy())
        moved[1:] = (row[1:] < row[:-1]) & ~first[1:]
        reason = "the turns of a session stood out of order and were sorted"
        self._note("repaired", reason, table, moved)

    def _with_whole_prompts(self, table: pa.Table) -> pa.Table:
        """The prompts with the cached tokens that the log counts apart from them."""
        if table["beside_prompt_tokens"].null_count == table.num_rows:
            return table
        if not self._reading.evidence.excluded:
            return table
        whole = floats(table, "input_tokens")
        whole += np.nan_to_num(floats(table, "beside_prompt_tokens"))
        at = table.schema.get_field_index("input_tokens")
        return table.set_column(at, "input_tokens", pa.array(whole, from_pandas=True))

    def _contexts_apart(self, table: pa.Table) -> pa.Table:
        """Conversations within a session, as of sub-agents, as sessions of their own."""
        if not self._importer.infers_contexts or self._incremental:
            return table
        whole = floats(table, "input_tokens")
        if np.isnan(whole).any() or table["history_tokens"].null_count < table.num_rows:
            return table
        kept = whole + floats(table, "output_tokens") - _reasoning(table)
        first = starts(table["first_row"].to_numpy())
        part = contexts(first, whole, kept, floats(table, "cached_tokens_observed"))
        if not part.any():
            return table
        self._note("note", OTHER_CONTEXT, table, part > 0)
        return apart(table, part, "context")

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
        kept = output - _reasoning(table)  # of the output, in later prompts
        by_message = np.isnan(whole)
        if by_message.any():
            both = np.where(by_message, prompt, 0.0) + kept
            before = np.cumsum(both) - both
            begins = np.flatnonzero(first)
            before -= np.repeat(before[begins], np.diff(np.r_[begins, len(first)]))
            whole = np.where(by_message, np.where(np.isnan(given), before, given) + prompt, whole)
        if by_message.all():
            history = whole - prompt
        else:
            before = np.r_[0.0, (whole + kept)[:-1]]
            before[first] = 0.0
            shrank = np.isnan(given) & (before > whole)
            self._note("repaired", SHRANK, table, shrank)
            self._shrank += int(shrank.sum())
            self._follow_ups += int((~first & np.isnan(given)).sum())
            history = np.minimum(np.where(np.isnan(given), before, given), whole)
        over = cached > whole
        self._note("refused", MORE_CACHED, table, over)
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
        times = floats(table, "time_s") * self._scale
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
            self._longest_s = np.fmax(self._longest_s, np.fmax.reduce(spans))
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

    def _warnings(self) -> Iterator[str]:
        """Reasons to doubt that the file was read correctly."""
        yield from self._reading.warnings
        if self._follow_ups and self._shrank > MUCH_SHRANK * self._follow_ups:
            yield (
                f"{self._shrank:,} of {self._follow_ups:,} turns that follow another have a prompt "
                "shorter than the turns before it, so none of it counts as new: the history of "
                "these turns is not sure. If each prompt holds only the new message, import the "
                "file with --prompts incremental"
            )
        if self._incremental:
            yield (
                "the prompts look incremental: each seems to hold only the new message, and was "
                "read as a whole prompt"
            )

    def report(self, reason: str) -> TraceReport:
        """What was found, once everything has been read."""
        absolute = self._times == "start_utc" and self._turns > 0
        duration = None
        if self._turns and self._times != "none":
            duration = self._longest_s if self._times == "t_s" else self._last_s - self._first_s
        self._findings.guess(self._importer.sessions)
        tell_prompt_counts(self._reading)
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
            warnings=tuple(self._warnings()),
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


def _reasoning(table: pa.Table) -> np.ndarray:
    """Tokens of each output that later prompts do not hold; 0 where nothing is said."""
    if table["reasoning_tokens"].null_count == table.num_rows:
        return np.zeros(table.num_rows)
    reasoning = np.nan_to_num(floats(table, "reasoning_tokens"))
    return np.minimum(reasoning, floats(table, "output_tokens"))
