"""Checks of the rows of a trace file, one by one: wrong rows are counted and left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carbonrouter_core.errors import TraceError
from carbonrouter_core.reading.files import Source
from carbonrouter_core.reading.findings import MAX_PLACES, Kind
from carbonrouter_core.traces.importers.base import RAW, Importer, Reading, Times

MAX_TOKENS = 1e8
"""More tokens than this in one turn is a wrong number, not a long prompt."""
MAX_START_S = 1e9
"""A start this long after the window's is most likely an epoch time in the wrong column, s."""
EPOCH_START = (
    "start_s counts from the window's start, but this looks like seconds since 1970: no window "
    "will cover it; name the column start_utc if it is a date"
)
MORE_CACHED = (
    "there are more cached tokens than prompt tokens; if the prompt counts leave out cached "
    "tokens, say so (--cached-tokens excluded)"
)
MAX_DIFFICULTY = 50.0
"""Difficulties are logits; beyond this the number is something else."""

COUNTS = (
    "new_prompt_tokens",
    "input_tokens",
    "beside_prompt_tokens",
    "history_tokens",
    "output_tokens",
    "reasoning_tokens",
)
NUMBERS = (*COUNTS, "cached_tokens_observed", "order", "difficulty")
"""Columns of :data:`~.importers.base.RAW` that hold numbers, but for the time."""


class RowChecks:
    """Checks the rows of all files of an import, table by table, and counts what it finds.

    Raises :class:`TraceError` where the files have times of different kinds.
    """

    def __init__(self, importer: Importer, sources: Sequence[Source], reading: Reading) -> None:
        kinds = {importer.times(source) for source in sources}
        if len(kinds) > 1:
            raise TraceError("The files have times of different kinds; import them apart.")
        self._times: Times = kinds.pop()
        self._turn_is_key = importer.turn_is_key
        self._reading, self._findings = reading, reading.findings
        self._with_time = self._without_time = 0
        self._places_without_time: list[str] = []

    def times(self) -> Times:
        """What the times are, once all rows are checked; "none" where no row has one."""
        if self._times == "none" or not self._without_time:
            return self._times
        if not self._with_time:
            self._findings.guess("no row has a time: starts and gaps are drawn")
            return "none"
        reason = "the time is empty, though other rows have one"
        self._findings.add("refused", reason, self._places_without_time, self._without_time)
        return self._times

    def sound(self, source: Source, table: pa.Table) -> pa.Table:
        """The sound rows of ``table``, with exactly the columns of :data:`~.importers.base.RAW`."""
        table = _raw(table)
        if self._reading.options.prompts == "incremental":
            table = _incremental(table)
        lines = table["line"].to_numpy()
        keep = np.ones(table.num_rows, bool)

        def refuse(wrong: np.ndarray, reason: str, kind: Kind = "refused") -> None:
            wrong = wrong & keep
            if wrong.any():
                self._findings.add_lines(kind, reason, source, lines[wrong])
                keep[wrong] = False

        def called(name: str) -> str:
            return self._reading.names.get(name, name)

        nothing = np.zeros(table.num_rows), np.zeros(table.num_rows, bool)

        def numbers(name: str) -> tuple[np.ndarray, np.ndarray]:
            if table[name].null_count == table.num_rows:
                return nothing
            column = table[name].combine_chunks()
            given = column.is_valid().to_numpy(zero_copy_only=False)
            return column.fill_null(0.0).to_numpy(zero_copy_only=False), given

        empty = table["session"].is_null().to_numpy()
        refuse(
            empty | pc.equal(table["session"], "").fill_null(True).to_numpy(), "session is empty"
        )
        columns = {name: numbers(name) for name in (*NUMBERS, "time_s")}
        for name, (values, given) in columns.items():
            label = "turn" if name == "order" else called(name)
            if name == "time_s" and name not in self._reading.names:
                label = self._times
            refuse(given & ~np.isfinite(values), f"{label} is not a number")
        for name in (*COUNTS, "cached_tokens_observed"):
            values, given = columns[name]
            wrong = (values < 0) | (values > MAX_TOKENS) | (np.floor(values) != values)
            reason = f"{called(name)} must be a whole number from 0 to {MAX_TOKENS:.0e}"
            refuse(given & wrong, reason)
        prompt = columns["input_tokens"][1] | columns["new_prompt_tokens"][1]
        name = "new_prompt_tokens" if self._turn_is_key else "input_tokens"
        refuse(~prompt, f"{called(name)} is not a number (it is empty)", "unreadable")
        empty = ~columns["output_tokens"][1]
        reason = f"{called('output_tokens')} is not a number (it is empty)"
        refuse(empty, reason, "unreadable")
        given = columns["input_tokens"][1] & columns["cached_tokens_observed"][1]
        given &= ~columns["beside_prompt_tokens"][1]
        more = columns["cached_tokens_observed"][0] > columns["input_tokens"][0]
        refuse(given & more, MORE_CACHED)
        if self._turn_is_key:
            values, given = columns["order"]
            refuse(~given, "turn is not a number (it is empty)")
            wrong = (values < 0) | (values > MAX_TOKENS) | (np.floor(values) != values)
            refuse(given & wrong, f"turn must be a whole number from 0 to {MAX_TOKENS:.0e}")
        values, given = columns["difficulty"]
        refuse(given & (np.abs(values) > MAX_DIFFICULTY), "difficulty is not a logit (-50 to 50)")
        values, given = columns["time_s"]
        if self._times != "none":
            missing = keep & ~given
            self._without_time += int(missing.sum())
            self._with_time += int((keep & given).sum())
            self._places_without_time += map(source.place, lines[missing][:MAX_PLACES].tolist())
        if self._times in ("t_s", "start_s"):
            refuse(given & (values < 0), f"{self._times} is negative")
        if self._times == "start_s":
            epoch = keep & given & (values > MAX_START_S)
            self._findings.add_lines("note", EPOCH_START, source, lines[epoch])
        return table if keep.all() else table.filter(pa.array(keep))


def _incremental(table: pa.Table) -> pa.Table:
    """``table`` with the prompts read as new messages alone."""
    nothing = pa.nulls(table.num_rows, pa.float64())
    if table["input_tokens"].null_count == table.num_rows:
        return table
    new = pc.coalesce(table["new_prompt_tokens"], table["input_tokens"])
    for name, column in (
        ("new_prompt_tokens", new),
        ("input_tokens", nothing),
        ("beside_prompt_tokens", nothing),
        ("history_tokens", nothing),
    ):
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return table


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
