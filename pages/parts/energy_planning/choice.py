"""The choices of page Energy planning: volume, price, policy, and the policy to compare with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.routing.policies import STICKY
from carbonrouter_core.studies import planning
from pages.shared import choices, page, theme

KEY = "plan"
USUAL_PRICE = 100.0
"""A tonne of CO2e in any currency: a round figure to begin with, the user's to change."""
AMOUNTS = {"energy": "Energy (kWh)", "carbon": "Carbon (CO2e)"}


@dataclass(frozen=True)
class Choice:
    """``sessions_per_day``: conversations a day; ``price``: of a tonne; ``policy_id`` is shown
    and compared with ``against``; ``amount``: an id of :data:`AMOUNTS`."""

    sessions_per_day: float
    price: float
    policy_id: str
    against: str
    amount: str


def policies(router: str) -> tuple[str, ...]:
    """The policies that are planned for: the router, and those it is compared with."""
    return router, core.FAIRCARBON, STICKY


def choose(shown: page.Page, own_per_day: float) -> Choice:
    """The choices; while presenting, those made before."""
    names = policies(shown.router)
    volume_key = f"volume-{shown.scenario.trace}-{shown.scenario.window_days}"
    _restore(volume_key, own_per_day, lambda value: value > 0)
    _restore("price", USUAL_PRICE, lambda value: value >= 0)
    _restore("policy", shown.router, names.__contains__)
    others = [name for name in names if name != st.session_state[f"{KEY}-policy"]]
    first = core.FAIRCARBON if core.FAIRCARBON in others else others[0]
    _restore("against", first, others.__contains__)
    _restore("amount", "energy", AMOUNTS.__contains__)
    if not shown.present:
        _widgets(volume_key, own_per_day, names, others)
    volume, price, policy_id, against, amount = (
        choices.keep(f"{KEY}-{name}", st.session_state[f"{KEY}-{name}"])
        for name in (volume_key, "price", "policy", "against", "amount")
    )
    return Choice(float(volume), float(price), policy_id, against, amount)


def _widgets(
    volume_key: str, own_per_day: float, names: Sequence[str], others: Sequence[str]
) -> None:
    row = st.container(horizontal=True, vertical_alignment="bottom", key="plan-choice")
    row.number_input(
        "Conversations a day",
        min_value=1.0,
        max_value=planning.MAX_SESSIONS_PER_DAY,
        step=100.0,
        format="%.0f",
        key=f"{KEY}-{volume_key}",
        width=190,
        help=f"The traffic of the scenario has {own_per_day:,.0f} a day. Another number is "
        "spread over regions and hours in the same way.",
    )
    row.number_input(
        "Price of a tonne of CO2e",
        min_value=0.0,
        max_value=planning.MAX_CARBON_PRICE,
        format="%g",
        key=f"{KEY}-price",
        width=190,
        help="In any currency; costs are in the same.",
    )
    row.selectbox("Look at", names, format_func=theme.name, key=f"{KEY}-policy", width=260)
    row.selectbox("Against", others, format_func=theme.name, key=f"{KEY}-against", width=220)
    choices.segments(row, "Show", AMOUNTS, f"{KEY}-amount", "energy")


def _restore(name: str, usual: object, allowed: Callable[[Any], bool]) -> None:
    choices.restore(f"{KEY}-{name}", usual, allowed)
