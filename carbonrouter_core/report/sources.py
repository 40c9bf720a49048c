"""The sources of the built-in tables, as ``data/sources.csv`` lists them.

The table of ``data/README.md``, the report and page Method are made from that file.
"""

from __future__ import annotations

import csv
import re
from functools import lru_cache
from typing import NamedTuple

from carbonrouter_core.paths import data_path


class Source(NamedTuple):
    """One built-in table. All fields are text."""

    table: str
    section: str
    """Title of the section of ``data/README.md`` that describes it."""
    rows: str
    """Number of rows; empty where there are several tables, or none."""
    what: str
    years: str
    licence: str
    source: str
    attribution: str
    """The sentence to show beside results."""


@lru_cache(maxsize=1)
def built_in_sources() -> tuple[Source, ...]:
    """All sources, in the order of ``data/sources.csv``."""
    with data_path("sources.csv").open(encoding="utf-8", newline="") as file:
        return tuple(Source(**row) for row in csv.DictReader(file))


def markdown_table() -> str:
    """The table at the top of ``data/README.md``; ``data/build/sources_table.py`` writes it."""
    lines = [
        "| table | rows | what | years | licence | source | attribution |",
        "|---|---|---|---|---|---|---|",
    ]
    for source in built_in_sources():
        anchor = re.sub(r"[^\w -]", "", source.section).lower().replace(" ", "-")
        rows = f"{int(source.rows):,}" if source.rows else ""
        cells = (f"[{source.table}](#{anchor})", rows, source.what, source.years, source.licence)
        lines.append(f"| {' | '.join((*cells, source.source, source.attribution))} |")
    return "\n".join(lines)
