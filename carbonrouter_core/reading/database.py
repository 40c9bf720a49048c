"""Opening DuckDB so that it fetches nothing from the network and prints nothing."""

from __future__ import annotations

from typing import Any

import duckdb

OFFLINE: dict[str, Any] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
"""DuckDB would fetch an extension where a query could use one."""


def connect(path: str, **settings: Any) -> Any:
    """A connection to the file at ``path``, made where there is none."""
    connection = duckdb.connect(path, config=OFFLINE | settings)
    connection.execute("SET enable_progress_bar = false")
    return connection
