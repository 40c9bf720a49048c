"""Parts of a file read ahead of the one that is needed, in threads; results in their order.

Reading the bytes stays with the caller, as does what is done with the results: only what lies
between is shared. It is worth it for work that lets go of the interpreter (Arrow, compiled code).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from carbonrouter_core.progress import Progress
from carbonrouter_core.reading.files import Source, record_chunks
from carbonrouter_core.reading.findings import Findings

WORKERS = 2
"""Threads: the memory of an import is that of the parts which they hold."""
AHEAD = 3
"""Parts that are worked on, or ready, while the caller is busy with one."""

Part = TypeVar("Part")
Result = TypeVar("Result")


def worked_ahead(work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
    """``work(part)`` of each of ``parts``, in order; an error comes up in its place."""
    waiting: deque[Future[Result]] = deque()
    threads = ThreadPoolExecutor(WORKERS, thread_name_prefix="import")
    try:
        for part in parts:
            waiting.append(threads.submit(work, part))
            if len(waiting) > AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        # who stops waits for no part: what still runs touches nothing but its own bytes
        threads.shutdown(wait=False, cancel_futures=True)


def parts_ahead(
    findings: Findings, parts: Iterable[Part], read: Callable[[Part, Findings], Result]
) -> Iterator[Result]:
    """What ``read`` makes of each part, in order.

    It runs in a thread with findings of its own; they become part of ``findings`` in its turn.
    """

    def reading(part: Part) -> tuple[Findings, Result]:
        own = Findings()
        result = read(part, own)
        return own, result

    for own, result in worked_ahead(reading, parts):
        findings.add_all(own)
        yield result


def chunks_ahead(
    source: Source,
    findings: Findings,
    progress: Progress,
    read: Callable[[tuple[int, bytes], Findings], Result],
) -> Iterator[Result]:
    """What ``read`` makes of the number of the first line (or record) and the bytes of each
    chunk of records, in order: see :func:`parts_ahead`."""
    at_end = Findings()  # that a file breaks off is reported after the rows before it

    def broken(line: int, reason: str) -> None:
        at_end.unreadable(source, line, reason)

    yield from parts_ahead(findings, record_chunks(source, broken, progress), read)
    findings.add_all(at_end)
