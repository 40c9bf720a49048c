"""The folder of the user's data, and where the files of the store are in it.

carbonrouter.duckdb     the catalogue: what is stored, without the rows of tables
carbonrouter.tables/    a Parquet file for each trace, for the decisions of each run, and for
                        each other table
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FILE_NAME = "carbonrouter.duckdb"
TABLES_NAME = "carbonrouter.tables"


def home() -> Path:
    """The folder of the user's data: ``CARBONROUTER_HOME``, or where the system keeps such."""
    chosen = os.environ.get("CARBONROUTER_HOME", "").strip()
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "CarbonRouter"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "CarbonRouter"
    base = os.environ.get("XDG_DATA_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".local" / "share") / "carbonrouter"
