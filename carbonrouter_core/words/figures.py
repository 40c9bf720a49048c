"""Figures in words: rounding, signs, units and "n/a", the same on every page and in the report.

A figure that does not exist (a saving against 0 g, a mean over no turn) reads "n/a", never
"nan" or "inf".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeGuard

from carbonrouter_core import units

NOT_AVAILABLE = "n/a"
MINUS = "\N{MINUS SIGN}"
NARROW_SPACE = "\N{NARROW NO-BREAK SPACE}"
"""Stands between a figure and its unit, so that a line never breaks there."""

MOST_DECIMALS = 3

AS_MUCH = "as much"
"""A saving too small to be shown."""

SAME_PERCENT = 0.05
"""Differences below this read "the same": they vanish at the one decimal we show."""


def known(value: float | None) -> TypeGuard[float]:
    """Whether ``value`` is a figure that can be shown."""
    return value is not None and math.isfinite(value)


def number(value: float | None, decimals: int = 0, *, signed: bool = False) -> str:
    """``value`` with thousands separators, a real minus sign and no negative zero."""
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    rounded = round(value, decimals) + 0.0  # adding zero turns -0.0 into 0.0
    text = f"{abs(rounded):,.{decimals}f}"
    if rounded < 0:
        return MINUS + text
    return f"+{text}" if signed and rounded > 0 else text


def percent(value: float | None, decimals: int = 1, *, signed: bool = False) -> str:
    """``value``, which is in percent already, with its sign."""
    if not known(value):
        return NOT_AVAILABLE
    return f"{number(value, decimals, signed=signed)}{NARROW_SPACE}%"


def significant(value: float | None, digits: int = 3) -> str:
    """``value`` to about ``digits`` significant digits, without an exponent.

    Below 1 it has three decimals, so that figures in one unit line up; what would vanish so
    keeps one digit.
    """
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    decimals = min(digits - 1 - magnitude, MOST_DECIMALS)
    if round(value, MOST_DECIMALS) == 0:
        decimals = -magnitude
    return number(value, max(decimals, 0))


def exact(value: float | None, digits: int) -> str:
    """``value`` to ``digits`` significant digits, without an exponent or trailing zeros.

    For figures that others compute on with: whole numbers keep all of theirs.
    """
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    if value == 0:
        return "0"
    decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    text = number(value, decimals)
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True)
class Mass:
    """One scale for all masses of CO2e on a page, so that they can be read side by side."""

    scale: units.Scale

    @classmethod
    def for_largest(cls, largest_g: float) -> Mass:
        """The scale at which ``largest_g`` reads 1 or more."""
        return cls(units.mass_scale(largest_g if known(largest_g) else 0.0))

    @property
    def unit(self) -> str:
        """The unit, as written on an axis: "kg CO2e"."""
        return f"{self.scale.unit} CO2e"

    def value(self, grams: float) -> float:
        """``grams`` in this unit."""
        return grams * self.scale.factor

    def text(self, grams: float | None, *, with_unit: bool = True) -> str:
        """``grams`` in this unit, three significant digits."""
        if grams is None or not math.isfinite(grams):
            return NOT_AVAILABLE
        shown = significant(self.value(grams))
        return f"{shown}{NARROW_SPACE}{self.scale.unit}" if with_unit else shown


def energy(kwh: float | None) -> str:
    """Energy in Wh, kWh or MWh."""
    if kwh is None or not math.isfinite(kwh):
        return NOT_AVAILABLE
    scale = units.energy_scale(kwh)
    return f"{significant(kwh * scale.factor)}{NARROW_SPACE}{scale.unit}"


def duration(milliseconds: float | None) -> str:
    """A wait in ms, or in s from one second on."""
    if milliseconds is None or not math.isfinite(milliseconds):
        return NOT_AVAILABLE
    if abs(milliseconds) >= units.MS_PER_S:
        return f"{significant(milliseconds / units.MS_PER_S)}{NARROW_SPACE}s"
    return f"{number(milliseconds)}{NARROW_SPACE}ms"


def minutes(seconds: float) -> str:
    """A span in minutes or hours, for cache lifetimes; in seconds where it is under a minute."""
    if 0 < seconds < 60:
        return f"{number(seconds, 0 if seconds == round(seconds) else 1)}{NARROW_SPACE}s"
    whole = seconds / 60
    if whole >= 60 and whole % 60 == 0:
        return f"{number(whole / 60)}{NARROW_SPACE}h"
    return f"{number(whole, 0 if whole == round(whole) else 1)}{NARROW_SPACE}min"


def plural(count: float, singular: str, plural_noun: str | None = None) -> str:
    """``count`` with its noun: "1 change", "2 changes"."""
    noun = singular if count == 1 else (plural_noun or f"{singular}s")
    return f"{number(count)} {noun}"


def joined(parts: list[str]) -> str:
    """``parts`` as running text: "a, b and c"."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def sentence_case(text: str) -> str:
    """``text`` with its first letter large and the others as they are."""
    return text[:1].upper() + text[1:]


def change_percent(value: float, reference: float) -> float | None:
    """How much ``value`` lies above ``reference``, in percent; None where that has no meaning."""
    if not known(value) or not known(reference) or reference == 0:
        return None
    return 100.0 * (value - reference) / abs(reference)


def less_or_more(saving_percent: float | None, decimals: int = 1) -> str:
    """A saving in plain words: "21.3 % less", "4.0 % more" or "as much"."""
    if saving_percent is None or not math.isfinite(saving_percent):
        return NOT_AVAILABLE
    if abs(saving_percent) < SAME_PERCENT:
        return AS_MUCH
    word = "less" if saving_percent > 0 else "more"
    return f"{percent(abs(saving_percent), decimals)} {word}"


def between(low_percent: float | None, high_percent: float | None, word: str = "to") -> str:
    """An interval of savings in plain words: "3.0 % more to 12.0 % less", "13.0 to 30.4 % less".

    ``word`` stands between the ends: "and" where "between" stands before them.
    """
    if not known(low_percent) or not known(high_percent):
        return NOT_AVAILABLE
    assert low_percent is not None and high_percent is not None
    if low_percent >= 0:
        return f"{number(low_percent, 1)} {word} {percent(high_percent)} less"
    if high_percent <= 0:
        return f"{number(-high_percent, 1)} {word} {percent(-low_percent)} more"
    return f"{percent(-low_percent)} more {word} {percent(high_percent)} less"
