"""Every failure a user can meet, as one tree.

    CarbonRouterError
    ├── InputError            something handed to us is wrong (file, field, value)
    │   ├── ScenarioError     a scenario field is out of range or cannot be run
    │   ├── CatalogError      a model, GPU, region or energy table is wrong
    │   ├── IntensityError    a carbon-intensity series is missing or wrong
    │   ├── ReadingError      a file cannot be read, whatever it should hold
    │   ├── TraceError        a trace file or its rows are wrong
    │   └── TurnError         a live turn, or what is reported of one, cannot be
    └── StoreError            the store on disk cannot be opened, read or written

The text of each says what was wrong, where, and what to do; it is shown as it is.
"""

from __future__ import annotations

from datetime import date


class CarbonRouterError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(CarbonRouterError):
    """An input is wrong: the message names the file, line or field and what to change."""


class ScenarioError(InputError):
    """A scenario field is out of range, or its choices cannot be run together."""


class CatalogError(InputError):
    """A table of models, GPUs, regions, round-trip times or energy points is wrong."""


class IntensityError(InputError):
    """A carbon-intensity series is unknown, wrong, or does not cover the time asked for.

    ``nearest_start``: first day of the nearest window that would do, where there is one.
    """

    def __init__(self, message: str, *, nearest_start: date | None = None) -> None:
        super().__init__(message)
        self.nearest_start = nearest_start


class ReadingError(InputError):
    """A file cannot be read: it is missing, damaged, or not text or a table.

    Imports raise it again as the error of what the file should hold, such as a trace.
    """


class TraceError(InputError):
    """A trace cannot be read, or one of its rows cannot be."""


class TurnError(InputError):
    """A live turn cannot be routed as it is given, or what is observed of it cannot be."""


class StoreError(CarbonRouterError):
    """The store on disk cannot be opened, read or written."""
