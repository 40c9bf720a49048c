"""Reading intensities as people write them: decimal commas, missing values, units.

One way of writing numbers holds for a whole column; where it is not certain, the column is refused
and nothing is guessed ("1,234" is 1.234 or 1234).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

MISSING = frozenset({"", "-", "--", "null", "none", "nan", "na", "n/a", "#n/a", "<na>", "."})
"""What stands for "no value", in lower case."""

_G_PER_MASS = {"g": 1.0, "kg": 1e3, "t": 1e6, "lb": 453.59237, "short ton": 907_184.74}
_KWH_PER_ENERGY = {"kWh": 1.0, "MWh": 1e3, "GWh": 1e6}
G_PER_KWH = {
    f"{mass}/{energy}": grams / kwh
    for energy, kwh in _KWH_PER_ENERGY.items()
    for mass, grams in _G_PER_MASS.items()
}
"""g/kWh in one of each unit; a pound is 453.59237 g, a short ton 2,000 pounds."""

_POINT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_POINT_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+\.\d+|[+-]?\d{1,3}(,\d{3}){2,}")
_COMMA = re.compile(r"[+-]?(\d+(,\d*)?|,\d+)")
_COMMA_GROUPED = re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+|[+-]?\d{1,3}(\.\d{3}){2,}")
_UNCLEAR = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_MASSES = {
    "kg": r"kgs?|kilograms?",
    "lb": r"lbs?|pounds?",
    "short ton": r"short[\s_-]*tons?|us[\s_]*tons?",
    "t": r"metric[\s_-]*tons?|tonnes?|mt|t",
    "g": r"g|grams?",
}
_UNIT_WORDS = tuple(
    (
        re.compile(
            rf"(?<![a-z])({mass})[\s_]*((of[\s_]*)?co2[\s_-]*(e|eq|equiv\w*)?)?"
            rf"([\s_]*per[\s_]*|[\s_]*/[\s_]*){energy.lower()}"
        ),
        f"{short}/{energy}",
    )
    for short, mass in _MASSES.items()
    for energy in _KWH_PER_ENERGY
)
_TONS = re.compile(r"(?<![a-z])tons?[\s_]*(co2e?q?)?([\s_]*per[\s_]*|[\s_]*/[\s_]*)[mg]wh")


def unit_in(text: str) -> str | None:
    """The unit that a column name or a unit field says, as in :data:`G_PER_KWH`."""
    plain = plain_name(text)
    return next((unit for pattern, unit in _UNIT_WORDS if pattern.search(plain)), None)


def is_unclear_ton(text: str) -> bool:
    """Whether a column name says tons, which may be metric (1,000 kg) or short (907.18474 kg)."""
    return bool(_TONS.search(plain_name(text))) and unit_in(text) is None


def plain_name(text: str) -> str:
    """A column name in lower case, with CO2 written in plain digits."""
    return text.lower().replace("\N{SUBSCRIPT TWO}", "2").replace("\N{SUPERSCRIPT TWO}", "2")


@dataclass(frozen=True)
class Numbers:
    """A column of numbers: values (NaN where missing) and the rows that are none."""

    values: np.ndarray
    wrong: np.ndarray
    decimal: str
    """ "," or "."."""
    unclear: str = ""
    """A value that could be read in two ways, where the column does not tell which."""


def read_numbers(cells: Iterable[str | None], decimal: str | None = None) -> Numbers:
    """Read a column; ``decimal``: what the user says the decimal mark is."""
    text = pd.Series(list(cells), dtype=object).fillna("").astype(str).str.strip()
    codes, unique = pd.factorize(text)
    words = [str(word) for word in unique]
    present = [word for word in words if word.lower() not in MISSING]
    chosen = decimal or _decimal_of(present)
    unclear = ""
    if chosen is None:
        unclear = next((word for word in present if "," in word), "")
        chosen = "."
    plain, grouped = (_COMMA, _COMMA_GROUPED) if chosen == "," else (_POINT, _POINT_GROUPED)
    group = "." if chosen == "," else ","
    values = np.full(len(words), np.nan)
    wrong = np.zeros(len(words), bool)
    for i, word in enumerate(words):
        if word.lower() in MISSING:
            continue
        if plain.fullmatch(word):
            values[i] = float(word.replace(",", "."))
        elif grouped.fullmatch(word):
            values[i] = float(word.replace(group, "").replace(",", "."))
        else:
            wrong[i] = True
    return Numbers(values[codes], wrong[codes], chosen, unclear)


def _decimal_of(words: list[str]) -> str | None:
    """The decimal mark that a column uses; None where it is not certain."""
    with_comma = [word for word in words if "," in word]
    if not with_comma:
        return "."
    points = any(_POINT_GROUPED.fullmatch(word) for word in with_comma)
    commas = any(_COMMA_GROUPED.fullmatch(word) for word in words) or any(
        _COMMA.fullmatch(word) and not _UNCLEAR.fullmatch(word) for word in with_comma
    )
    if commas == points:
        return None
    return "," if commas else "."
