"""Rows of record formats, gathered into tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from carbonrouter_core.reading.files import Source
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.traces.importers.base import RAW

BATCH_ROWS = 16_384
"""Rows handed on at a time."""


class Batches:
    """Collects rows by name; what a row leaves out is null."""

    def __init__(self, source: Source, findings: Findings) -> None:
        self._source, self._findings = source, findings
        self._rows: list[dict[str, Any]] = []

    def add(self, **row: Any) -> None:
        """Add a row with columns of :data:`~.base.RAW`."""
        self._rows.append(row)

    def full(self) -> Iterator[pa.Table]:
        """A table, once there are enough rows for one."""
        if len(self._rows) >= BATCH_ROWS:
            yield from self.rest()

    def rest(self) -> Iterator[pa.Table]:
        """A table of what is left."""
        if self._rows:
            yield pa.Table.from_pylist(self._rows, schema=RAW)
            self._rows = []

    def refuse(self, line: int, reason: str) -> None:
        """Count a record as refused."""
        self._findings.add_line("refused", reason, self._source, line)

    def broken(self, line: int, reason: str) -> None:
        """Count a record as unreadable."""
        self._findings.unreadable(self._source, line, reason)

    def note(self, line: int, reason: str) -> None:
        """Note something about a record that is stored as it is."""
        self._findings.add_line("note", reason, self._source, line)

    def number(self, line: int, name: str, value: Any) -> float | None:
        """``value`` as a number; a record without one is refused."""
        try:
            if isinstance(value, bool):
                raise TypeError
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number):
            return number
        self.refuse(line, f"{name} is {'empty' if value is None else 'not a number'}")
        return None
