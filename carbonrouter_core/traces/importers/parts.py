"""Parts of a file read ahead in threads; what is found in them is told in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from carbonrouter_core.traces.ahead import worked_ahead
from carbonrouter_core.traces.importers.base import Reading
from carbonrouter_core.traces.report import Findings
from carbonrouter_core.traces.sources import Source, record_chunks

Part = TypeVar("Part")
Result = TypeVar("Result")


def parts_ahead(
    reading: Reading, parts: Iterable[Part], read_part: Callable[[Part, Reading], Result]
) -> Iterator[Result]:
    """What ``read_part`` makes of each part, in order.

    It runs in a thread, with a reading of its own that knows nothing of the other parts.
    """

    def read(part: Part) -> tuple[Findings, Result]:
        own = Reading(options=reading.options)
        return own.findings, read_part(part, own)

    for findings, result in worked_ahead(read, parts):
        reading.findings.add_all(findings)
        yield result


def chunks_ahead(
    source: Source,
    reading: Reading,
    read_chunk: Callable[[tuple[int, bytes], Reading], Result],
) -> Iterator[Result]:
    """What ``read_chunk`` makes of the number of the first line (or record) and the bytes of each
    chunk of records, in order: see :func:`parts_ahead`."""
    at_end = Findings()  # a file that breaks off is told after what stands before

    def broken(line: int, reason: str) -> None:
        unreadable(source, at_end, line, reason)

    chunks = record_chunks(source, broken, reading.progress)
    yield from parts_ahead(reading, chunks, read_chunk)
    reading.findings.add_all(at_end)


def unreadable(source: Source, findings: Findings, line: int, reason: str) -> None:
    """Count a record that cannot be read."""
    findings.rows_read += 1
    findings.add("unreadable", reason, [source.place(line)])
