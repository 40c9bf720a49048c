"""Reading intensities as people write them: decimal commas, missing values, units.

One way of writing numbers holds for a whole column; where that cannot be told, the column is
refused rather than guessed at ("1,234" is 1.234 or 1234).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

MISSING = frozenset({"", "-", "--", "null", "none", "nan", "na", "n/a", "#n/a", "<na>", "."})
"""What stands for "no value", in lower case."""

G_PER_KWH = {
    "g/kWh": 1.0,
    "kg/MWh": 1.0,
    "kg/kWh": 1000.0,
    "t/MWh": 1000.0,
    "g/MWh": 0.001,
    "lb/MWh": 0.45359237,
}
"""g/kWh in one of each unit; a pound is 453.59237 g."""

_POINT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_POINT_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+\.\d+|[+-]?\d{1,3}(,\d{3}){2,}")
_COMMA = re.compile(r"[+-]?(\d+(,\d*)?|,\d+)")
_COMMA_GROUPED = re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+|[+-]?\d{1,3}(\.\d{3}){2,}")
_UNCLEAR = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_UNIT_WORDS = (
    (re.compile(r"lbs?[\s_]*(co2e?q?)?([\s_]*per[\s_]*|[\s_]*/[\s_]*)mwh"), "lb/MWh"),
    (re.compile(r"(?<![a-z])kg[\s_]*(co2e?q?)?([\s_]*per[\s_]*|[\s_]*/[\s_]*)kwh"), "kg/kWh"),
    (re.compile(r"(?<![a-z])kg[\s_]*(co2e?q?)?([\s_]*per[\s_]*|[\s_]*/[\s_]*)mwh"), "kg/MWh"),
    (re.compile(r"(?<![a-z])t(ons?|onnes?)?[\s_]*(co2e?q?)?([\s_]*per[\s_]*|[\s_]*/[\s_]*)mwh"),
     "t/MWh"),
    (re.compile(r"(?<![a-z])g[\s_]*(co2e?q?)?([\s_]*per[\s_]*|[\s_]*/[\s_]*)mwh"), "g/MWh"),
    (re.compile(r"(?<![a-z])g[\s_]*(co2e?q?)?([\s_]*per[\s_]*|[\s_]*/[\s_]*)kwh"), "g/kWh"),
)  # fmt: skip


def unit_in(text: str) -> str | None:
    """The unit that a column name or a unit field says, as in :data:`G_PER_KWH`."""
    plain = plain_name(text)
    return next((unit for pattern, unit in _UNIT_WORDS if pattern.search(plain)), None)


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
    """The decimal mark that a column uses; None where it cannot be told."""
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
