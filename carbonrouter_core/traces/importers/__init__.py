"""The trace formats, one module each. To add one: a file with its importer, a line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from carbonrouter_core.errors import TraceError
from carbonrouter_core.reading.files import Source
from carbonrouter_core.traces.importers import (
    azure,
    claude_code,
    lmsys,
    mooncake,
    own,
    qwen_bailian,
    ragpulse,
    sharegpt,
    usage,
    wildchat,
)
from carbonrouter_core.traces.importers.base import Importer
from carbonrouter_core.words.names import unknown

_ALL = (
    own.IMPORTER,
    usage.IMPORTER,
    sharegpt.IMPORTER,
    wildchat.IMPORTER,
    lmsys.IMPORTER,
    claude_code.IMPORTER,
    qwen_bailian.IMPORTER,
    ragpulse.IMPORTER,
    mooncake.IMPORTER,
    azure.IMPORTER,
)
IMPORTERS: Mapping[str, Importer] = MappingProxyType({one.id: one for one in _ALL})
"""All importers by id, in the order in which they are asked whether a file is theirs."""


def choose(source: Source, format_id: str | None = None) -> tuple[Importer, str]:
    """The importer for a file and why: the one named, or the first that recognises it."""
    if format_id is not None:
        if format_id not in IMPORTERS:
            raise TraceError(unknown("trace format", format_id, IMPORTERS.keys()))
        _ = source.kind  # a file that is no table or list of records is refused here
        return IMPORTERS[format_id], "chosen by name"
    for importer in _ALL:
        if (reason := importer.recognise(source)) is not None:
            return importer, reason
    found = ", ".join(source.columns[:12]) or "none"
    if source.kind == "csv":
        missing = own.missing_columns(source)
        hint = f" For our own columns, {', '.join(missing)} would be needed." if missing else ""
    else:
        hint = ""
    raise source.error(
        f"the format is not recognised; {'columns' if source.kind != 'json' else 'keys'} found: "
        f"{found}.{hint} Known formats: {', '.join(IMPORTERS)}."
    )


def is_trace(source: Source) -> bool:
    """Whether some importer recognises the file (used to tell traces from other tables)."""
    return any(importer.recognise(source) is not None for importer in _ALL)
