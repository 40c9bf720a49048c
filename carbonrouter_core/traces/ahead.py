"""Parts of a file worked on ahead of the one that is needed, in threads, in their order.

Reading stays with the caller, as does what is done with the results: only what lies between is
shared. It is worth it for work that lets go of the interpreter (Arrow, compiled code).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

WORKERS = 2
"""Threads: the memory of an import is that of the parts which they hold."""
AHEAD = 3
"""Parts that are worked on, or ready, while the caller is busy with one."""

Part = TypeVar("Part")
Result = TypeVar("Result")


def worked_ahead(work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
    """``work(part)`` of each of ``parts``, in order; an error comes up in its place."""
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="import") as threads:
        try:
            for part in parts:
                waiting.append(threads.submit(work, part))
                if len(waiting) > AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
