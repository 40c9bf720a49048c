"""Memory that was freed goes back to the system: allocators keep a hundred MB after a trace was
read, unless they are set not to."""

from __future__ import annotations

import ctypes
import os
import sys

LARGE_BYTES = 2**20
"""From this size on an array has pages of its own, which go when it does."""
_M_MMAP_THRESHOLD = -3
"""Of glibc's ``mallopt``; unless it is set, it rises to the size of what was freed."""


def _of_libc(name: str) -> ctypes._FuncPointer | None:
    """A function of the C library, if it is glibc."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


def large_arrays_apart() -> None:
    """From now on large arrays have pages of their own, which go back as soon as they are freed.

    Not for imports, whose many arrays are all alike: they are a fifth slower with it.
    """
    if (settle := _of_libc("mallopt")) is not None:
        settle(_M_MMAP_THRESHOLD, LARGE_BYTES)


def give_back() -> None:
    """Hand back what small things that were freed took, as far as no other lies between."""
    if (trim := _of_libc("malloc_trim")) is not None:
        trim(0)


# Arrow settles which allocator it takes when it is imported. Reading a trace takes as long with
# the system's as with its own.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
