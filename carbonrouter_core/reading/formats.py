"""Formats of files that can be imported, and how the format of a file is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TypeVar

from carbonrouter_core.errors import ReadingError
from carbonrouter_core.reading.files import Source
from carbonrouter_core.words.names import unknown


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format of files; what its rows mean is for the importers of each kind of data to say."""

    id: str
    label: str
    recognise: Callable[[Source], str | None]
    """The reason to take a file for this format; None if it is of another one."""


Importer = TypeVar("Importer", bound=Format)


class Formats(Mapping[str, Importer]):
    """The importers of one kind of data by the id of their format, in the order of trial.

    ``package`` holds the modules; each has its importer as ``IMPORTER``, or several as
    ``IMPORTERS``. ``kind`` names the data in messages.
    """

    def __init__(self, kind: str, package: str, modules: Iterable[str]) -> None:
        self._kind = kind
        self._by_id: dict[str, Importer] = {}
        for name in modules:
            module = import_module(f"{package}.{name}")
            importers = getattr(module, "IMPORTERS", None) or (module.IMPORTER,)
            self._by_id |= {importer.id: importer for importer in importers}

    def __getitem__(self, format_id: str) -> Importer:
        return self._by_id[format_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, source: Source, format_id: str | None = None) -> tuple[Importer, str] | None:
        """The importer of a file, and why it was chosen; None if no importer recognises the file.

        ``format_id``: the format that the user names; :class:`ReadingError` if it is unknown.
        """
        if format_id is not None:
            if format_id not in self._by_id:
                raise ReadingError(unknown(f"{self._kind} format", format_id, self._by_id))
            _ = source.kind  # a file that is no table and no list of records is refused here
            return self._by_id[format_id], "chosen by name"
        for importer in self._by_id.values():
            if (reason := importer.recognise(source)) is not None:
                return importer, reason
        return None
