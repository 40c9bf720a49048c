"""Absolute figures: what a policy comes to in a year, and in a conversation and a turn.

The sessions of the trace stand for all conversations of the service: a year's figure is that of
the trace, divided by its sessions, times the conversations of a year. The season is that of the
scenario's window.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from carbonrouter_core.units import DAYS_PER_YEAR, G_PER_T

WH_PER_KWH = 1e3

NOT_BY_SITE = (
    "per_year.cost and per_year.water_l are not known: they need energy by site and month, which "
    "is not added up for a trace in parts."
)


class PerYear(NamedTuple):
    """What a policy comes to in a year at the volume of the service.

    Attributes
    ----------
    carbon_t
        Operational carbon, tCO2e.
    energy_kwh
        Electricity with PUE, kWh.
    cost
        What :func:`.run_cost.cost_of` counts, in the currency of the scenario; None where a price
        is not known.
    water_l
        Water, in litres; None where it is not known.
    """

    carbon_t: float | None
    energy_kwh: float | None
    cost: float | None
    water_l: float | None

    def less(self, other: PerYear) -> PerYear:
        """By how much each figure is less than that of ``other``; None where one is not known."""
        return PerYear(
            *(
                None if mine is None or theirs is None else theirs - mine
                for mine, theirs in zip(self, other, strict=True)
            )
        )


class PerUse(NamedTuple):
    """Carbon and electricity of a conversation and of a served turn, on average.

    Attributes
    ----------
    conversation_g, conversation_wh
        gCO2e and Wh of a conversation; None without conversations.
    turn_g, turn_wh
        gCO2e and Wh of a served turn; None without served turns.
    """

    conversation_g: float | None
    conversation_wh: float | None
    turn_g: float | None
    turn_wh: float | None


def per_year(
    figures: Mapping[str, Any],
    conversations_per_day: float,
    cost: float | None = None,
    water_l: float | None = None,
) -> PerYear:
    """The figures of a year, from those of a trace (:data:`.totals.FIGURES`).

    ``cost`` and ``water_l``: of the trace, None where not known.
    """
    if not figures["sessions"]:
        return PerYear(None, None, None, None)
    times = conversations_per_day * DAYS_PER_YEAR / figures["sessions"]
    return PerYear(
        carbon_t=figures["carbon_g"] * times / G_PER_T,
        energy_kwh=figures["energy_kwh"] * times,
        cost=None if cost is None else cost * times,
        water_l=None if water_l is None else water_l * times,
    )


def per_use(figures: Mapping[str, Any]) -> PerUse:
    """The figures of one conversation and of one served turn (:data:`.totals.FIGURES`)."""
    carbon_g, energy_wh = figures["carbon_g"], figures["energy_kwh"] * WH_PER_KWH
    sessions, served = figures["sessions"], figures["turns"] - figures["unserved_turns"]
    return PerUse(
        carbon_g / sessions if sessions else None,
        energy_wh / sessions if sessions else None,
        carbon_g / served if served else None,
        energy_wh / served if served else None,
    )
