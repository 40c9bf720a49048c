"""Where the built-in tables are."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from carbonrouter_core.errors import CarbonRouterError

DATA_DIR = Path(__file__).resolve().parent.parent / "data"


def data_path(name: str) -> Path:
    """Path of the built-in table ``name``; an error that names it when it is not there."""
    path = DATA_DIR / name
    if not path.is_file():
        raise CarbonRouterError(
            f"The built-in table data/{name} is missing; restore the data folder of this version."
        )
    return path


@lru_cache(maxsize=1)
def data_sha256() -> str:
    """SHA-256 of all built-in tables: equal, if what is read from them is."""
    digest = hashlib.sha256()
    for path in sorted(DATA_DIR.glob("*.*")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
