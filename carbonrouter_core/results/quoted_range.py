"""One range to quote with a saving: sessions, dates and seeds, and measured energies together.

Each part by itself is too narrow. Sessions: the bootstrap interval of the run. Dates and seeds:
``data/saving_draws.csv``. Energies: ``data/saving_uncertainty.csv``, each pair of model and GPU
type by itself, and all pairs alike. The two tables are of preset Paper.

The parts are independent, so their distances from the saving are joined as the root of their
sum of squares, on the scale of ln(1 - saving): what is multiplied there is carbon. The sides are
joined apart, since most parts reach farther to one side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import pandas as pd

from carbonrouter_core.paths import data_path
from carbonrouter_core.results.comparison import Interval
from carbonrouter_core.routing.policies import FAIRCARBON
from carbonrouter_core.words import figures as fmt

SESSIONS = "other sessions of the same kind"
DRAWS = "other dates and seeds"
ENERGIES = {
    "each pair by itself": "energies off by model and GPU type",
    "all pairs alike": "energies off for all alike",
}
"""The parts, by what is different in them."""


@dataclass(frozen=True)
class RangePart:
    """One part of a range: what is different, and the middle 95 % of the saving in percent.

    ``centre_percent``: the saving that the part spreads around.
    """

    what: str
    centre_percent: float
    low_percent: float
    high_percent: float


@dataclass(frozen=True)
class QuotedRange:
    """A saving with one range, in percent, and the parts it is made of.

    ``data``: the built-in data whose tables the parts on dates and energies come from.
    """

    value_percent: float
    low_percent: float
    high_percent: float
    parts: tuple[RangePart, ...]
    data: str

    @property
    def text(self) -> str:
        """The range, how it is made, and what is in it, in plain words."""
        parts = fmt.joined(
            [
                f"{part.what} ({_percent(part.low_percent)} to {_percent(part.high_percent)})"
                for part in self.parts
            ]
        )
        return (
            f"The range to quote: on the half of the sessions that nothing was learned from, the "
            f"saving is {_percent(self.value_percent)}, and with all causes together it lies "
            f"between {_percent(self.low_percent)} and {_percent(self.high_percent)} in 95 of 100 "
            f"cases. The causes: {parts}. They are joined as the root of the sum of squares of "
            "their distances, on the scale of the carbon that is left. The last three were found "
            f"for preset Paper on {self.data} (docs/draws.md, docs/method.md)."
        )


@lru_cache(maxsize=1)
def _tables() -> pd.DataFrame:
    energies = pd.read_csv(data_path("saving_uncertainty.csv"))
    energies["what"] = energies["perturbed"].map(ENERGIES)
    draws = pd.read_csv(data_path("saving_draws.csv")).assign(what=DRAWS)
    columns = ["trace", "policy", "what", "mean_percent", "low_percent", "high_percent"]
    return pd.concat([draws[columns], energies[columns]], ignore_index=True)


def quoted_range(
    saving: Interval, trace: str, policy_id: str, other: str = FAIRCARBON
) -> QuotedRange | None:
    """The range to quote with ``saving`` of ``policy_id`` against ``other``.

    ``saving``: with its bootstrap interval over sessions. ``trace``: its name; for a trace that
    is not built in, the tables of the data set with the wider spread are taken. None where the
    saving has no interval, and for a pair of policies that the tables do not hold.
    """
    if saving.value_percent is None or saving.low_percent is None or saving.high_percent is None:
        return None
    rows = _tables()
    rows = rows[rows["policy"] == policy_id]
    if other != FAIRCARBON or rows.empty or saving.value_percent >= 100.0:
        return None
    sessions = RangePart(SESSIONS, saving.value_percent, saving.low_percent, saving.high_percent)
    ranges = []
    for name, group in rows.groupby("trace", sort=False):
        if trace == name or trace not in set(rows["trace"]):
            parts = (
                sessions,
                *(
                    RangePart(row.what, row.mean_percent, row.low_percent, row.high_percent)
                    for row in group.itertuples()
                ),
            )
            low, high = joined(saving.value_percent, parts)
            ranges.append(QuotedRange(saving.value_percent, low, high, parts, str(name)))
    return max(ranges, key=lambda joint: joint.high_percent - joint.low_percent)


def joined(value_percent: float, parts: Sequence[RangePart]) -> tuple[float, float]:
    """The ends of the range around ``value_percent`` that independent ``parts`` make together."""
    up = down = 0.0
    for part in parts:
        centre = _log(part.centre_percent)
        up += max(centre - _log(part.high_percent), 0.0) ** 2
        down += max(_log(part.low_percent) - centre, 0.0) ** 2
    value = _log(value_percent)
    low = 100.0 * (1.0 - math.exp(value + math.sqrt(down)))
    high = 100.0 * (1.0 - math.exp(value - math.sqrt(up)))
    return low, high


def _percent(value: float) -> str:
    return f"{value:.1f} %"


def _log(saving_percent: float) -> float:
    return math.log1p(-saving_percent / 100.0)
