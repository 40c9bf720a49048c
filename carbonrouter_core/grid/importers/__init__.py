"""The formats of carbon intensity.

To add one whose rows are plain: an entry in :data:`.published.TABLES`. To add another: a file with
its importer, and a line here.
"""

from __future__ import annotations

from carbonrouter_core.grid.importers.base import IntensityImporter
from carbonrouter_core.reading.formats import Formats

INTENSITY_IMPORTERS: Formats[IntensityImporter] = Formats(
    "carbon-intensity",
    __name__,
    (
        "uk_carbon_intensity",
        "watttime",
        "published",
        "own",
    ),
)
"""All importers by id, in the order in which they are asked whether they recognise a file."""
