"""The trace formats, one module each. To add one: a file with its importer, and a line here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from carbonrouter_core.errors import ReadingError
from carbonrouter_core.reading.files import Source
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.reading.formats import Formats
from carbonrouter_core.reading.mapping import way_out
from carbonrouter_core.traces.importers import no_requests
from carbonrouter_core.traces.importers.base import Importer
from carbonrouter_core.traces.importers.mapped import MAPPED, NEEDED, mapped_importer
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
        "codex",
        "spans",
        "chat_exports",
        "logs",
    ),
)
"""All importers by id, in the order in which they are asked whether they recognise a file."""


WAY_OUT = (*NEEDED, *(name for name in MAPPED if name not in NEEDED))
"""What can be said of a file's columns, what must be said first."""
NOT_RECOGNISED = "a file of the folder that is of no format that is known"


def choose_all(
    sources: Sequence[Source],
    findings: Findings,
    format_id: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> tuple[Importer, str, list[Source]]:
    """The importer of several files, why, and the files that it is to read.

    ``format_id``: the format that the user names; ``columns``: the columns that the user names,
    as :data:`.mapped.MAPPED`. Files of formats that are read alike may be
    mixed. What a folder holds besides is left out, and counted in ``findings``. Raises
    :class:`ReadingError` for a file that no importer recognises, and for formats that do not go
    together.
    """
    if columns:
        if format_id is not None:
            raise ReadingError("Give the format or the columns of a file, not both.")
        for source in sources:
            importer = mapped_importer(columns, source)
        return importer, "you name its columns", list(sources)
    if len(sources) == 1 or format_id is not None:
        importer, reason = choose(sources[0], format_id)
        return importer, reason, list(sources)
    chosen: list[tuple[Importer, str]] = []
    used: list[Source] = []
    for source in sources:
        try:
            chosen.append(choose(source))
        except ReadingError:
            if not source.in_folder:
                raise
            findings.add("left out", NOT_RECOGNISED, [source.name], 1)
        else:
            used.append(replace(source, number=len(used)))
    if not used:
        choose(sources[0])  # which says what is wrong with it
    first, reason = chosen[0]
    for source, (other, _) in zip(used, chosen, strict=True):
        if other.id != first.id and not _alike(first, other):
            raise ReadingError(
                f"{used[0].name} is of format {first.label}, {source.name} of {other.label}; "
                "import them apart."
            )
    labels = dict.fromkeys(importer.label for importer, _ in chosen)
    mixed = replace(
        first,
        label=", ".join(labels),
        read=lambda source, reading: chosen[source.number][0].read(source, reading),
        times=lambda source: chosen[source.number][0].times(source),
    )
    return (first if len(labels) == 1 else mixed), reason, used


def _alike(first: Importer, other: Importer) -> bool:
    """Whether the rows of two formats become turns in the same way."""
    ways = ("turn_is_key", "record_is_session", "infers_contexts", "late")
    return all(getattr(first, way) == getattr(other, way) for way in ways)


def choose(source: Source, format_id: str | None = None) -> tuple[Importer, str]:
    """The importer of a file, and why; ``format_id``: the format that the user names.

    Raises :class:`ReadingError` for an unknown format, and for a file that no importer recognises.
    """
    if format_id is None:
        no_requests.refuse_sums_of_turns(source)
    if (chosen := IMPORTERS.find(source, format_id)) is not None:
        return chosen
    no_requests.refuse(source)
    names = ", ".join(source.columns[:12]) or "none"
    hint = ""
    if source.kind == "csv" and (missing := missing_columns(source)):
        hint = f" For our own columns, {', '.join(missing)} would be needed."
    raise source.error(
        f"the format is not recognised; {'keys' if source.kind == 'json' else 'columns'} found: "
        f"{names}.{hint} Known formats: {', '.join(IMPORTERS)}. {way_out(WAY_OUT)}"
    )
