"""From a staged trace, or a file of any known format, to a :class:`Trace`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from carbonrouter_core.memory import give_back
from carbonrouter_core.traces.copies import counted_once
from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.traces.staging import Staged, stage


def read_trace(path: Path, *, once: bool = True) -> Trace:
    """Read a trace file in any known format.

    Parameters
    ----------
    path
        The file; its name becomes the name of the trace.
    once
        Whether copies of a session are left out (:mod:`.copies`).

    Returns
    -------
    Trace
        Its turns as columns of shape (turns,).

    Raises
    ------
    TraceError
        If anything in the file is wrong; the message names the first line (row of Parquet).
    """
    with stage([path]) as staged:
        staged.require(done="read")
        trace = staged_trace(staged, path.name)
    give_back()
    return counted_once(trace) if once else trace


def staged_trace(staged: Staged, name: str) -> Trace:
    """The trace that was staged, under ``name``."""
    return trace_from_table(name, _Columns(staged.path), staged.difficulty_source)


class _Columns:
    """The columns of a Parquet file, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        with pq.ParquetFile(self._path, pre_buffer=False) as file:
            return file.read([name], use_threads=False)[name]


def trace_from_table(name: str, table: pa.Table | _Columns, difficulty_source: str) -> Trace:
    """A trace from a table in the canonical schema, sorted by session and turn."""
    turn = table["turn"].to_numpy()
    starts = np.flatnonzero(turn == 0)
    ids = table["session"].take(pa.array(starts)).to_pylist()
    return Trace(
        name=name,
        session_ids=tuple(ids),
        offsets=np.r_[starts, len(turn)].astype(np.int64),
        new_prompt_tokens=_ints(table, "new_prompt_tokens"),
        output_tokens=_ints(table, "output_tokens"),
        history_tokens=_ints(table, "history_tokens"),
        t_s=_floats(table, "t_s"),
        start_s=_floats(table, "start_s"),
        start_utc_s=_utc_s(table),
        user_region=_texts(table, "user_region"),
        difficulty=_floats(table, "difficulty"),
        cached_tokens_observed=_observed(table),
        served_model=_texts(table, "served_model"),
        served_region=_texts(table, "served_region"),
        difficulty_source=difficulty_source,
    )


def _ints(table: pa.Table | _Columns, name: str) -> np.ndarray:
    return np.array(table[name].to_numpy(), np.int64)


def _floats(table: pa.Table | _Columns, name: str) -> np.ndarray | None:
    column = table[name]
    if column.null_count == len(column):
        return None
    return np.array(column.to_pandas(), np.float64)


def _utc_s(table: pa.Table | _Columns) -> np.ndarray | None:
    column = table["start_utc"]
    if column.null_count == len(column):
        return None
    us = column.cast(pa.timestamp("us")).cast(pa.int64())
    return np.array(us.to_numpy(), np.float64) / 1e6


def _observed(table: pa.Table | _Columns) -> np.ndarray | None:
    column = table["cached_tokens_observed"]
    if column.null_count == len(column):
        return None
    return np.array(column.fill_null(-1).to_numpy(), np.int64)


def _texts(table: pa.Table | _Columns, name: str) -> Any:
    """Names of each turn, shared between turns; None where the column is empty."""
    column = table[name]
    if column.null_count == len(column):
        return None
    coded = column.combine_chunks().dictionary_encode()
    names = np.array([*coded.dictionary.to_pylist(), None], dtype=object)
    return tuple(names[coded.indices.fill_null(len(names) - 1).to_numpy()])
