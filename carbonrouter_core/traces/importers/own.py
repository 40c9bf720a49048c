"""Our own columns, as ``--export-trace`` and the store write them: CSV, JSON Lines or Parquet.

Needed: ``session``, ``turn``, ``new_prompt_tokens``, ``output_tokens``. Optional:
``history_tokens`` (else all earlier tokens of the session), ``difficulty``, ``user_region``,
``cached_tokens_observed``, ``served_model``, ``served_region``, and one time: ``start_utc``
(date and time), ``start_s`` (seconds since the window's start) or ``t_s`` (seconds since the
session's start).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from carbonrouter_core.reading.columns import ColumnKind, Wanted
from carbonrouter_core.reading.files import Source
from carbonrouter_core.traces.importers.base import Importer, Reading, Times

REQUIRED = ("session", "turn", "new_prompt_tokens", "output_tokens")
TIMES: tuple[Times, ...] = ("start_utc", "start_s", "t_s")
OPTIONAL = (
    "history_tokens",
    *TIMES,
    "user_region",
    "difficulty",
    "cached_tokens_observed",
    "served_model",
    "served_region",
)
_MEANING = {
    "start_utc": "date and time",
    "start_s": "seconds since the window's start",
    "t_s": "seconds since the session's start",
}
_TEXTS = ("session", "user_region", "served_model", "served_region")


def missing_columns(source: Source) -> list[str]:
    """Columns that a file of ours would need and this one has not."""
    return [name for name in REQUIRED if name not in _names(source)]


def _names(source: Source) -> list[str]:
    return [name.strip() for name in source.columns]


def _recognise(source: Source) -> str | None:
    names = set(_names(source))
    mine = names & {*REQUIRED, *OPTIONAL}
    if not missing_columns(source):
        return f"it has our columns {', '.join(REQUIRED)}"
    # so that a file of ours with a column forgotten is told so, and not "unknown format"
    if len(names & set(REQUIRED)) >= 3 or ("session" in names and len(mine) >= 3):
        return f"most of its columns are ours ({', '.join(sorted(mine))})"
    return None


def _times(source: Source) -> Times:
    given = [name for name in TIMES if name in _filled(source)]
    if len(given) > 1:
        either = " or ".join(f"{name} ({_MEANING[name]})" for name in given[:2])
        raise source.error(f"give {either}, not both.")
    return given[0] if given else "none"


def _filled(source: Source) -> list[str]:
    """Columns that hold something: our own export leaves the two other times empty."""
    names = _names(source)
    if source.kind != "parquet":
        return names
    return [
        name
        for name in names
        if name not in TIMES or any(row.get(name) is not None for row in source.samples)
    ]


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    names = _names(source)
    missing = missing_columns(source)
    unknown = [name for name in names if name not in REQUIRED + OPTIONAL]
    if missing or unknown:
        what = f"column {missing[0]!r} is missing" if missing else f"unknown column {unknown[0]!r}"
        raise source.error(
            f"{what}. Needed: {', '.join(REQUIRED)}; optional: {', '.join(OPTIONAL)}."
        )
    if twice := [name for name in names if names.count(name) > 1]:
        raise source.error(f"unknown column {twice[0]!r}: it stands there twice; leave one out.")
    time = _times(source)
    wanted = [Wanted(name, (name,), "text" if name in _TEXTS else "number") for name in REQUIRED]
    wanted += [
        Wanted(name, (name,), "text" if name in _TEXTS else "number")
        for name in OPTIONAL
        if name not in TIMES
    ]
    if time != "none":
        kind: ColumnKind = "time" if time == "start_utc" else "number"
        wanted.append(Wanted("time_s", (time,), kind, label=time))
    for table in reading.columns(source, wanted):
        empty = table["history_tokens"].is_null().to_numpy()
        if "history_tokens" in names and empty.any():
            lines = table["line"].to_numpy()[empty]
            reading.findings.add_lines("refused", "history_tokens is empty", source, lines)
            table = table.filter(pa.array(np.logical_not(empty)))
        yield table.rename_columns({"turn": "order"})


IMPORTER = Importer(
    id="own",
    label="CarbonRouter table",
    sessions="sessions and turns are as the file numbers them",
    recognise=_recognise,
    read=_read,
    times=_times,
    turn_is_key=True,
    late="refuse",
    difficulty_source="as the trace gives it",
)
