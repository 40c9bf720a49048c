"""Files about carbon of a grid that are no series of its intensity: each is refused by name."""

from __future__ import annotations

from carbonrouter_core.errors import IntensityError
from carbonrouter_core.reading.files import Source

NO_SERIES = {
    b",CO2EII,": "this is AEMO's index of carbon intensity (CO2EII), one value a day. Carbon is "
    "charged by the time of day: bring a series with a value at least every 3 hours, such as that "
    "of Electricity Maps for AU-NSW",
}
"""What is wrong with a file whose first lines hold these bytes."""
FIRST_BYTES = 4096


def refuse_what_is_no_series(source: Source) -> None:
    """Raise :class:`IntensityError` for a file that is known to hold no usable series."""
    head = source.head[:FIRST_BYTES]
    for sign, what in NO_SERIES.items():
        if sign in head:
            raise IntensityError(f"{source.name}: {what}.")
