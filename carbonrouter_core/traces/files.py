"""Reading a trace from a file with our own columns (CSV or Parquet).

Columns: ``session``, ``turn``, ``new_prompt_tokens``, ``output_tokens``; optional
``history_tokens`` (else all earlier tokens of the session), ``difficulty``,
``user_region``, and one of ``start_s`` (seconds since the start of the window: the turn is
placed) or ``t_s`` (seconds since the start of the session). What ``--export-trace`` writes
reads back to the same figures.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from carbonrouter_core.errors import TraceError
from carbonrouter_core.traces.builtin import trace_from_columns
from carbonrouter_core.traces.schema import Trace

REQUIRED = ("session", "turn", "new_prompt_tokens", "output_tokens")
TOKENS = ("new_prompt_tokens", "output_tokens", "history_tokens")
OPTIONAL = ("history_tokens", "start_s", "t_s", "user_region", "difficulty")
MAX_TOKENS = 1e8
"""More tokens than this in one turn is a wrong number, not a long prompt."""


def read_trace(path: Path) -> Trace:
    """The trace in the CSV or Parquet file at ``path``; its name is the file's.

    Rows may stand in any order, and rows that stand twice count once.
    Raises :class:`TraceError` naming the line (CSV, header is line 1) or row (Parquet).
    """
    frame = _read(path)
    unknown = [name for name in frame.columns if name not in REQUIRED + OPTIONAL]
    missing = [name for name in REQUIRED if name not in frame.columns]
    if missing or unknown:
        what = f"column {missing[0]!r} is missing" if missing else f"unknown column {unknown[0]!r}"
        raise TraceError(
            f"{path.name}: {what}. Needed: {', '.join(REQUIRED)}; optional: {', '.join(OPTIONAL)}."
        )
    if "start_s" in frame and "t_s" in frame:
        raise TraceError(f"{path.name}: give start_s (placed) or t_s (relative), not both.")
    if frame.empty:
        raise TraceError(f"{path.name} has a header but no turns; there is nothing to route.")
    for name in frame.columns:
        if name in ("session", "user_region"):
            empty = frame[name].isna() | (frame[name] == "")
            _refuse(path, frame, empty, f"{name} is empty")
        else:
            frame[name] = _number(path, frame, name)
    frame = _ordered(path, frame)
    if "history_tokens" not in frame:
        both = frame["new_prompt_tokens"] + frame["output_tokens"]
        frame["history_tokens"] = both.groupby(frame["session"], sort=False).cumsum() - both
    for name in ("start_s", "t_s"):
        if name in frame:
            back = frame.groupby("session", sort=False)[name].diff() < 0
            _refuse(path, frame, back, f"{name} is earlier than the turn before it")

    def column(name: str) -> np.ndarray | None:
        return frame[name].to_numpy(np.float64) if name in frame else None

    return trace_from_columns(
        path.name,
        session=frame["session"],
        new_prompt_tokens=frame["new_prompt_tokens"],
        output_tokens=frame["output_tokens"],
        history_tokens=frame["history_tokens"],
        t_s=column("t_s"),
        start_s=column("start_s"),
        user_region=tuple(frame["user_region"]) if "user_region" in frame else None,
        difficulty=column("difficulty"),
    )


def _read(path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise TraceError(f"There is no trace file {path.name}; check the path.")
    try:
        if path.suffix == ".parquet":
            frame = pd.read_parquet(path)
            for name in ("session", "user_region"):
                if name in frame:
                    frame[name] = frame[name].astype(str)
        else:
            frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TraceError(
            f"{path.name} cannot be read as a {'Parquet' if path.suffix == '.parquet' else 'CSV'} "
            f"table: {reason}"
        ) from error
    return frame.rename_axis(index=None).reset_index(drop=True)


def _refuse(path: Path, frame: pd.DataFrame, wrong: pd.Series, what: str) -> None:
    if wrong.any():
        row = int(frame.index[wrong.to_numpy().argmax()])
        where = f"row {row + 1}" if path.suffix == ".parquet" else f"line {row + 2}"
        count = int(wrong.sum())
        more = f" (and {count - 1} more rows)" if count > 1 else ""
        raise TraceError(f"{path.name}, {where}: {what}{more}. Nothing was read.")


def _number(path: Path, frame: pd.DataFrame, name: str) -> pd.Series:
    cells = frame[name]
    values = pd.to_numeric(cells, errors="coerce").astype(np.float64)
    _refuse(path, frame, ~np.isfinite(values), f"{name} is not a number")
    if name in TOKENS or name == "turn":
        wrong = (values < 0) | (values > MAX_TOKENS) | (values % 1 != 0)
        _refuse(path, frame, wrong, f"{name} must be a whole number from 0 to {MAX_TOKENS:.0e}")
        return values.astype(np.int64)
    if name in ("start_s", "t_s"):
        _refuse(path, frame, values < 0, f"{name} is negative")
    return values


def _ordered(path: Path, frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.drop_duplicates()
    twice = frame.duplicated(["session", "turn"])
    _refuse(path, frame, twice, "this turn stands there twice with different values")
    first_seen = pd.Series(pd.factorize(frame["session"])[0], index=frame.index)
    order = np.lexsort((frame["turn"].to_numpy(), first_seen.to_numpy()))
    return frame.iloc[order]
