"""Any other table with a request a row, whose columns the user names (``--column``)."""

from __future__ import annotations

from collections.abc import Mapping

from carbonrouter_core.reading.files import Source
from carbonrouter_core.reading.mapping import check_columns
from carbonrouter_core.traces.importers.base import Importer
from carbonrouter_core.traces.importers.log_formats import COMMON, LogFormat
from carbonrouter_core.traces.importers.logs import importer_of, names_of

_COLUMNS = {
    "session": "session",
    "time": "time_s",
    "prompt_tokens": "prompt",
    "output_tokens": "output_tokens",
    "cached_tokens": "cached_tokens_observed",
    "cache_read_tokens": "cache_read",
    "cache_written_tokens": "cache_written_tokens",
    "reasoning_tokens": "reasoning_tokens",
    "total_tokens": "total_tokens",
    "request": "ident",
    "model": "served_model",
    "region": "served_region",
    "user_region": "user_region",
}
"""Our column for each name that can be said."""

MAPPED = tuple(_COLUMNS)
"""What a column of the user's table can be."""
NEEDED = ("prompt_tokens", "output_tokens")
"""What must be said."""


def mapped_importer(columns: Mapping[str, str], source: Source) -> Importer:
    """The importer of tables with ``columns``: the file's column for each of :data:`MAPPED`.

    Raises
    ------
    ReadingError
        If a column is not in the file, or one of :data:`NEEDED` is not said.
    """
    check_columns(columns, names_of(source), source.name)
    for name in NEEDED:
        if name not in columns:
            raise source.error(f"say which column holds {name}: --column {name}=COLUMN.")
    fields = {_COLUMNS[ours]: (theirs,) for ours, theirs in columns.items()}
    return importer_of(
        LogFormat(
            id="mapped",
            label="Table with columns that you name",
            what="any other table with a request a row, whose columns you name",
            url="",
            signs=(tuple(columns.values()),),
            fields=fields,
            replaced=frozenset(COMMON),
        )
    )
