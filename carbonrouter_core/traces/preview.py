"""The first rows of a log, and what they would become."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from carbonrouter_core.errors import TraceError
from carbonrouter_core.reading.columns import value_at
from carbonrouter_core.reading.files import reading_errors_as, sources_of
from carbonrouter_core.traces.importers.base import ImportOptions
from carbonrouter_core.traces.importers.logs import names_of
from carbonrouter_core.traces.staging import stage

ROWS = 5
_SHOWN = (
    "session",
    "turn",
    "start_utc",
    "start_s",
    "t_s",
    "history_tokens",
    "new_prompt_tokens",
    "output_tokens",
    "cached_tokens_observed",
    "served_model",
    "served_region",
)
_MOST_CHARACTERS = 200
"""Of a value that is shown: prompts are long."""


def first_rows(path: Path, name: str) -> pd.DataFrame:
    """The first rows of a log as text, with its columns, or the paths of the values in JSON.

    Raises
    ------
    TraceError
        If the file is no table and no list of records.
    """
    with reading_errors_as(TraceError):
        (source,) = sources_of([path], [name])
        records = source.sample_rows[:ROWS]
        names = names_of(source)
    rows = [[value_at(record, column) for column in names] for record in records]
    frame = pd.DataFrame(rows, columns=names, dtype=object)
    nested = [
        column for column in names if any(isinstance(value, dict | list) for value in frame[column])
    ]
    return frame.drop(columns=nested).map(_shown)


def _shown(value: Any) -> str:
    return "" if value is None else str(value)[:_MOST_CHARACTERS]


def what_rows_become(path: Path, name: str, options: ImportOptions) -> pd.DataFrame:
    """The turns that the first records become, read by ``options.columns``.

    Raises
    ------
    TraceError
        If the columns are not there, or the first records cannot be right.
    """
    with reading_errors_as(TraceError), TemporaryDirectory() as folder:
        (source,) = sources_of([path], [name])
        head = Path(folder) / "head.jsonl"
        with head.open("w", encoding="utf-8") as file:
            for record in source.sample_rows:
                given = {key: value for key, value in record.items() if value != ""}
                file.write(json.dumps(given, default=str) + "\n")
        with stage([head], names=[name], options=options) as staged:
            report = staged.report
            if report.refused or not report.turns:
                raise TraceError(
                    f"{name}: {report.first_refusal or 'the first records hold no turn'}."
                )
            table = pq.read_table(staged.path).slice(0, ROWS)
    frame = table.select(_SHOWN).to_pandas()
    return frame.dropna(axis="columns", how="all")
