"""The carbon-intensity formats, one module each. To add one: a file with its importer, a line."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from carbonrouter_core.errors import IntensityError
from carbonrouter_core.grid.importers import electricity_maps, own, uk_carbon_intensity, watttime
from carbonrouter_core.grid.importers.base import IntensityImporter
from carbonrouter_core.reading.files import Source
from carbonrouter_core.words.names import unknown

_ALL = (
    electricity_maps.IMPORTER,
    uk_carbon_intensity.IMPORTER,
    watttime.IMPORTER,
    own.IMPORTER,
)
INTENSITY_IMPORTERS: Mapping[str, IntensityImporter] = MappingProxyType(
    {one.id: one for one in _ALL}
)
"""All importers by id, in the order in which they are asked whether a file is theirs."""


def choose_importer(source: Source, format_id: str | None) -> tuple[IntensityImporter, str]:
    """The importer for a file and why: the one named, the one that recognises it, or a table."""
    if format_id is not None:
        if format_id not in INTENSITY_IMPORTERS:
            raise IntensityError(unknown("carbon-intensity format", format_id, INTENSITY_IMPORTERS))
        return INTENSITY_IMPORTERS[format_id], "chosen by name"
    for importer in _ALL:
        if (reason := importer.recognise(source)) is not None:
            return importer, reason
    return own.IMPORTER, "no other format is recognised"


def is_intensity(source: Source) -> bool:
    """Whether some importer recognises the file (used to tell it from other tables)."""
    return any(importer.recognise(source) is not None for importer in _ALL)
