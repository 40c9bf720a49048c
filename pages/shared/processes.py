"""The pool of processes that all studies of this server share.

The processes end and give back their memory when they have had no work for a while.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Executor

from carbonrouter_core.replay.executors import cores, process_pool

IDLE_S = 120.0
"""Processes without work for this long end."""
WORKER_BYTES = 600e6
"""Memory to allow for a process; on the built-in data it takes about 400 MB."""
MEMORY_SHARE = 0.25
"""Part of the machine's memory that the processes may have."""
UNKNOWN_MEMORY_BYTES = 8e9
"""Memory to assume where the system does not tell."""


def workers() -> int:
    """Number of processes: one a core, as far as memory allows."""
    fit = int(MEMORY_SHARE * _memory_bytes() / WORKER_BYTES)
    return max(1, min(cores(), fit))


def _memory_bytes() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # not on this system
        return UNKNOWN_MEMORY_BYTES


class _Pool:
    """The pool of this server, made when first needed and again after it was lost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: Executor | None = None

    def get(self) -> Executor:
        with self._lock:
            if self._executor is None:
                self._executor = process_pool(workers(), IDLE_S)
            return self._executor

    def drop(self, executor: Executor) -> None:
        with self._lock:
            if self._executor is executor:
                self._executor = None


POOL = _Pool()
