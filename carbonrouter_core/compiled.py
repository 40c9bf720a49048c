"""Compiling the kernel, with a disk cache that can never be stale."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numba
import numpy as np

Array = np.ndarray
"""An array as compiled code takes it; each docstring says of what shape."""

Record = Any
"""One record of a structured array, read and written by attribute in compiled code."""

_config: Any = numba.config  # its settings are made at import and have no types
_njit: Any = numba.njit  # its types leave out _nrt
_CORE = Path(__file__).resolve().parent


@lru_cache(maxsize=1)
def sources_sha256() -> str:
    """SHA-256 of all source files of the core: equal, if they compute the same."""
    digest = hashlib.sha256()
    for source in sorted(_CORE.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


@cache
def sources_of(module: Path) -> tuple[Path, ...]:
    """The source files that code compiled in the file ``module`` depends on, sorted.

    These are the file itself and all modules of the core that it imports, directly or through
    others: a function or a constant of any of them may be compiled in.
    """
    sources: set[Path] = set()
    pending = {module}
    while pending:
        path = pending.pop()
        sources.add(path)
        pending |= _imports(path) - sources
    return tuple(sorted(sources))


@cache
def _imports(path: Path) -> frozenset[Path]:
    """The files of the core that the module at ``path`` imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    files: set[Path] = set()
    for name in names:
        package, *inner = name.split(".")
        if package == _CORE.name and inner:
            place = _CORE.joinpath(*inner)
            files |= {place.with_suffix(".py"), place / "__init__.py"}
    return frozenset(file for file in files if file.is_file())


@cache
def _cache_dir(module: Path) -> str:
    """A folder that belongs to this exact state of the sources that ``module`` depends on.

    Numba looks only at the file of a function itself to see whether its cached machine code
    still holds; after an upgrade that changed a callee in another file it would go on with the
    old physics. Here a change to any file that compiled code depends on begins a new cache.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sources_of(module):
        digest.update(source.read_bytes())
    name = f"compiled-{digest.hexdigest()[:16]}"
    if _config.CACHE_DIR:
        return str(Path(_config.CACHE_DIR) / name)
    beside = _CORE / "__pycache__"
    with contextlib.suppress(OSError):
        beside.mkdir(exist_ok=True)
    if os.access(beside, os.W_OK):
        return str(beside / name)
    # never a shared folder: code loaded from it is run
    return str(Path.home() / ".cache" / "carbonrouter" / name)


def jit(function: Any) -> Any:
    """Compile ``function``: kept on disk, free of the interpreter lock, IEEE division.

    Always inlined: a call would copy the 20 arrays of a fleet for each argument that holds it,
    which takes longer than the work of the small functions here (measured: 2.3 times).
    """
    return _compiled(function, counts_references=True)


def jit_borrowing(function: Any) -> Any:
    """The same for a function that makes and returns no array: it counts no references.

    Compiled code counts who holds each array it is given, all 20 of a fleet in each function,
    in atomic steps that took 60 % of a replay. A function that only borrows its arguments needs
    none of it, since its caller holds them. Compiling fails for one that makes an array.
    """
    return _compiled(function, counts_references=False)


def _compiled(function: Any, counts_references: bool) -> Any:
    previous_folder = _config.CACHE_DIR
    _config.CACHE_DIR = _cache_dir(Path(function.__code__.co_filename).resolve())
    try:
        compile_function = _njit(
            cache=True,
            nogil=True,
            error_model="numpy",
            forceinline=True,
            _nrt=counts_references,  # always given: left out, it would come from the caller
        )
        return compile_function(function)
    finally:
        _config.CACHE_DIR = previous_folder
