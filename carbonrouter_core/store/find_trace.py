"""Finding a trace by its name: built in, in a file, or in the store."""

from __future__ import annotations

from pathlib import Path

from carbonrouter_core.errors import TraceError
from carbonrouter_core.memory import large_arrays_apart
from carbonrouter_core.store.store import existing_store
from carbonrouter_core.traces.builtin import BUILTIN_TRACES, builtin_trace
from carbonrouter_core.traces.copies import counted_once
from carbonrouter_core.traces.loading import read_trace
from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.words.names import nearest


def find_trace(name: str) -> Trace:
    """The trace of a name: built in, a file or in the store.

    Parameters
    ----------
    name
        A built-in name, the path of a trace file, or the name of a stored trace; they are looked
        up in this order.

    Returns
    -------
    Trace
        Its turns as columns of shape (turns,).

    Raises
    ------
    TraceError
        If there is no such trace, or the file cannot be read.
    """
    large_arrays_apart()  # it is read to be replayed: both go through arrays of all its turns
    if name in BUILTIN_TRACES:
        return builtin_trace(name)
    path = Path(name)
    if _is_file(path):
        return read_trace(path)
    store = existing_store()
    stored = [] if store is None else [trace.name for trace in store.traces()]
    if store is not None and name in stored:
        return counted_once(store.load_trace(name))
    if path.suffix and not stored:
        raise TraceError(f"There is no trace file {path.name}; check the path.")
    known = f"({nearest(name, BUILTIN_TRACES)})"
    known += f" nor stored ({nearest(name, stored)})" if stored else ""
    raise TraceError(f"Unknown trace {name!r}: neither built in {known} nor a file.")


def parts_folder(name: str) -> Path | None:
    """The folder of parts at path ``name``; None for a built-in trace, whatever folder lies
    beside, and for what is no folder."""
    if name in BUILTIN_TRACES or not name:  # an empty path is the present folder
        return None
    try:
        return path.resolve() if (path := Path(name)).is_dir() else None
    except (OSError, ValueError):  # a name that no folder can have
        return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False
