"""A large trace as a folder of Parquet files, each session whole in one of them.

A part is read, replayed and forgotten by one worker, so that memory does not grow with the
trace. Parts have the canonical schema, whole sessions, and names that sort in their order.
Copies of a session are left out when a trace is split (:mod:`.copies`); since no part knows the
others, the metadata of a part say which of its sessions are of the training half.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from carbonrouter_core.errors import InputError, TraceError
from carbonrouter_core.traces.copies import first_alike, keys_of
from carbonrouter_core.traces.loading import read_trace, trace_from_table
from carbonrouter_core.traces.schema import CANONICAL, Trace
from carbonrouter_core.traces.staging import Staged

SESSIONS_PER_PART = 20_000
"""About 130,000 chat turns: some 100 MB in a worker, and tasks of seconds."""


TRAINING = b"carbonrouter.training"
"""Key of a part's metadata: one bit a session, whether it is of the training half."""


def part_files(folder: Path) -> list[Path]:
    """The parts in ``folder``, in order."""
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise TraceError(
            f"There is no Parquet file in folder {folder.name}; split a trace into it."
        )
    return files


def read_part(path: Path) -> Trace:
    """The sessions of one part, in the halves that :func:`split` found.

    In a part without the key :data:`TRAINING` each session stands in the half of its own id.
    """
    trace = read_trace(path, once=False)
    bits = (pq.read_schema(path).metadata or {}).get(TRAINING)
    if bits is None:
        return trace
    training = np.unpackbits(np.frombuffer(bits, np.uint8), count=trace.n_sessions)
    return replace(trace, training=training.astype(bool))


def split(
    staged: Staged,
    folder: Path,
    sessions_per_part: int = SESSIONS_PER_PART,
) -> list[Path]:
    """Write a staged trace to ``folder`` in parts, in memory of some 30 bytes a session."""
    tables = partial(_sessions_of, staged.path, sessions_per_part)
    openings, wholes, halves = [], [], []
    for table in tables():
        trace = trace_from_table(staged.path.name, table, staged.difficulty_source)
        opening, whole = keys_of(trace)
        openings.append(opening)
        wholes.append(whole)
        halves.append(trace.in_training)
    first = first_alike(np.concatenate(wholes))
    original = first == np.arange(len(first))
    training = np.concatenate(halves)[first_alike(np.concatenate(openings))]
    return _write(_originals(tables(), original, training), folder)


def _originals(
    tables: Iterator[pa.Table], original: np.ndarray, training: np.ndarray
) -> Iterator[pa.Table]:
    """The ``tables`` without copies, with :data:`TRAINING` in their metadata.

    ``original`` and ``training``: bool, one entry for each session of all the tables.
    """
    sessions = 0
    for table in tables:
        begins = table["turn"].to_numpy() == 0
        session = sessions + np.cumsum(begins) - 1
        sessions += int(begins.sum())
        rows = original[session]
        if rows.any():
            bits = np.packbits(training[session[begins & rows]]).tobytes()
            kept = table.filter(pa.array(rows))
            yield kept.replace_schema_metadata({**(kept.schema.metadata or {}), TRAINING: bits})


def repeat(
    trace: Trace,
    folder: Path,
    sessions: int,
    seed: int = 0,
    sessions_per_part: int = SESSIONS_PER_PART,
) -> list[Path]:
    """Write ``sessions`` sessions drawn from ``trace`` with replacement, under new ids.

    New ids give each its own start, user and gaps when it is placed in time. For measuring how
    run time grows: it holds no more variety than ``trace``.
    """
    if sessions < 1:
        raise InputError(f"{sessions} sessions asked for; ask for 1 or more.")
    _check(sessions_per_part)

    def tables() -> Iterator[pa.Table]:
        rng = np.random.default_rng([seed, 9])
        for first in range(0, sessions, sessions_per_part):
            count = min(sessions_per_part, sessions - first)
            drawn = rng.integers(0, trace.n_sessions, count)
            yield _drawn(trace, drawn, first)

    return _write(tables(), folder)


def _drawn(trace: Trace, drawn: np.ndarray, first: int) -> pa.Table:
    turns = trace.session_turns[drawn]
    within = np.arange(turns.sum()) - np.repeat(np.cumsum(turns) - turns, turns)
    row = np.repeat(trace.offsets[drawn], turns) + within
    names = np.array([f"{first + n}-{trace.session_ids[s]}" for n, s in enumerate(drawn)], object)
    columns: dict[str, Any] = {"session": np.repeat(names, turns), "turn": within.astype(np.int32)}
    for name in ("new_prompt_tokens", "history_tokens", "output_tokens", "t_s", "difficulty"):
        if (values := getattr(trace, name)) is not None:
            columns[name] = values[row]
    return pa.table(
        {
            field.name: pa.array(columns[field.name], field.type)
            if field.name in columns
            else pa.nulls(len(row), field.type)
            for field in CANONICAL
        }
    )


def _sessions_of(path: Path, sessions_per_part: int) -> Iterator[pa.Table]:
    """Tables of ``sessions_per_part`` whole sessions of a sorted canonical file."""
    _check(sessions_per_part)
    held: pa.Table = CANONICAL.empty_table()
    for batch in pq.ParquetFile(path).iter_batches(batch_size=2**17):
        held = pa.concat_tables([held, pa.Table.from_batches([batch]).cast(CANONICAL)])
        starts = np.flatnonzero(held["turn"].to_numpy() == 0)
        while len(starts) > sessions_per_part:
            end = starts[sessions_per_part]
            yield held.slice(0, end)
            held, starts = held.slice(end).combine_chunks(), starts[sessions_per_part:] - end
    if held.num_rows:
        yield held


def _check(sessions_per_part: int) -> None:
    if sessions_per_part < 1:
        raise InputError(f"{sessions_per_part} sessions a part; give 1 or more.")


def _write(tables: Iterator[pa.Table], folder: Path) -> list[Path]:
    paths: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError(f"Folder {folder.name} is not empty; give a new one for the parts.")
        for number, table in enumerate(tables):
            path = folder / f"part-{number:06d}.parquet"
            pq.write_table(table, path)
            paths.append(path)
    except OSError as error:
        raise InputError(f"The parts cannot be written to {folder.name}: {error}") from error
    return paths
