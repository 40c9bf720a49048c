"""The trace formats, one module each. To add one: a file with its importer, and a line here."""

from __future__ import annotations

from carbonrouter_core.reading.files import Source
from carbonrouter_core.reading.formats import Formats
from carbonrouter_core.traces.importers import no_requests
from carbonrouter_core.traces.importers.base import Importer
from carbonrouter_core.traces.importers.own import missing_columns

IMPORTERS: Formats[Importer] = Formats(
    "trace",
    __name__,
    (
        "own",
        "sharegpt",
        "wildchat",
        "lmsys",
        "claude_code",
        "qwen_bailian",
        "ragpulse",
        "mooncake",
        "azure",
        "chat_exports",
        "logs",
    ),
)
"""All importers by id, in the order in which they are asked whether they recognise a file."""


def choose(source: Source, format_id: str | None = None) -> tuple[Importer, str]:
    """The importer of a file, and why; ``format_id``: the format that the user names.

    Raises :class:`ReadingError` for an unknown format, and for a file that no importer recognises.
    """
    if (chosen := IMPORTERS.find(source, format_id)) is not None:
        return chosen
    no_requests.refuse(source)
    names = ", ".join(source.columns[:12]) or "none"
    hint = ""
    if source.kind == "csv" and (missing := missing_columns(source)):
        hint = f" For our own columns, {', '.join(missing)} would be needed."
    raise source.error(
        f"the format is not recognised; {'keys' if source.kind == 'json' else 'columns'} found: "
        f"{names}.{hint} Known formats: {', '.join(IMPORTERS)}."
    )
