"""The built-in tables with the years and the licence of each, as ``data/README.md`` says."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from carbonrouter_core.paths import data_path

_ROW = re.compile(
    r"^\| \[([\w. ]+)\]\([^)]*\) \|[^|]*\|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$", re.MULTILINE
)


class Source(NamedTuple):
    """A table: what it holds, of which years, under which licence, and where it is from."""

    table: str
    what: str
    years: str
    licence: str
    source: str


@lru_cache(maxsize=1)
def built_in_sources() -> tuple[Source, ...]:
    """The rows of the table at the top of ``data/README.md``, in its order."""
    text = data_path("README.md").read_text(encoding="utf-8")
    return tuple(Source(*(cell.strip() for cell in row)) for row in _ROW.findall(text))
