"""Compiling the kernel, with a disk cache that can never be stale."""

from __future__ import annotations

import contextlib
import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
import numpy as np

Array = np.ndarray
"""An array as compiled code takes it; each docstring says of what shape."""

Record = Any
"""One record of a structured array, read and written by attribute in compiled code."""

_config: Any = numba.config  # its settings are made at import and have no types
_CORE = Path(__file__).resolve().parent


@lru_cache(maxsize=1)
def sources_sha256() -> str:
    """SHA-256 of all source files of the core: equal, if they compute the same."""
    digest = hashlib.sha256()
    for source in sorted(_CORE.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _cache_dir() -> str:
    """A folder that belongs to this exact state of the sources.

    Numba looks only at the file of a function itself to see whether its cached machine code
    still holds; after an upgrade that changed a callee in another file it would go on with the
    old physics. Here any change to any file of the core begins a new cache.
    """
    digest = hashlib.sha256((numba.__version__ + sources_sha256()).encode())
    name = f"compiled-{digest.hexdigest()[:16]}"
    if _config.CACHE_DIR:
        return str(Path(_config.CACHE_DIR) / name)
    beside = _CORE / "__pycache__"
    with contextlib.suppress(OSError):
        beside.mkdir(exist_ok=True)
    if os.access(beside, os.W_OK):
        return str(beside / name)
    # never a shared folder: what is loaded from it is run
    return str(Path.home() / ".cache" / "carbonrouter" / name)


def jit(function: Any) -> Any:
    """Compile ``function``: kept on disk, free of the interpreter lock, IEEE division.

    Always inlined: a call would copy the 20 arrays of a fleet for each argument that holds it,
    which takes longer than the work of the small functions here (measured: 2.3 times).
    """
    asked_for = _config.CACHE_DIR
    _config.CACHE_DIR = _cache_dir()
    try:
        compile_it = numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
        return compile_it(function)
    finally:
        _config.CACHE_DIR = asked_for
