"""Units: joules, kilowatt-hours, grams, and how a figure is scaled for reading."""

from __future__ import annotations

from typing import NamedTuple

J_PER_KWH = 3.6e6
G_PER_KG = 1e3
G_PER_T = 1e6
MS_PER_S = 1e3
S_PER_HOUR = 3600
S_PER_DAY = 86_400
HOURS_PER_DAY = 24
DAYS_PER_YEAR = 365.25


class Scale(NamedTuple):
    """How to show a figure: ``shown = value * factor`` in ``unit``."""

    factor: float
    unit: str


_MASS = (Scale(1e-6, "t"), Scale(1e-3, "kg"), Scale(1.0, "g"), Scale(1e3, "mg"))
_POWER = (Scale(1e-3, "MW"), Scale(1.0, "kW"), Scale(1e3, "W"))
_ENERGY = (Scale(1e-3, "MWh"), Scale(1.0, "kWh"), Scale(1e3, "Wh"))


def _pick(scales: tuple[Scale, ...], largest: float) -> Scale:
    for scale in scales:
        if abs(largest) * scale.factor >= 1.0:
            return scale
    return scales[-1]


def mass_scale(largest_g: float) -> Scale:
    """Scale for masses in grams, so that the largest of them reads 1 or more.

    Pick it once a page, from the largest figure there, so that all are read alike.
    """
    return _pick(_MASS, largest_g) if largest_g else Scale(1.0, "g")


def energy_scale(largest_kwh: float) -> Scale:
    """Scale for energies in kilowatt-hours, chosen as :func:`mass_scale` does."""
    return _pick(_ENERGY, largest_kwh) if largest_kwh else Scale(1.0, "kWh")


def power_scale(largest_kw: float) -> Scale:
    """Scale for powers in kilowatts, chosen as :func:`mass_scale` does."""
    return _pick(_POWER, largest_kw) if largest_kw else Scale(1.0, "kW")
