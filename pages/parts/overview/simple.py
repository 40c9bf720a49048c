"""Where a simple policy emits less than the router that is selected, Overview says so."""

from __future__ import annotations

import pandas as pd
from streamlit.delta_generator import DeltaGenerator

from carbonrouter_core.routing.policies import SIMPLE
from carbonrouter_core.words import figures as fmt
from pages.shared import answer, cache, page, theme


def draw(shown: page.Page, rows: pd.DataFrame, mass: fmt.Mass, place: DeltaGenerator) -> None:
    """The sentence at ``place``, where there is something to say.

    ``rows``: the figures of the policies on the page; the simple ones not on it are replayed.
    """
    rows = rows.copy()
    for name in SIMPLE:
        if name not in rows.index:
            rows.loc[name], _ = cache.policy_row(shown.scenario, name)
    if text := sentence(answer.minimised_g(rows, shown.scenario), shown.router, mass):
        place.warning(text)


def sentence(carbon_g: pd.Series, router: str, mass: fmt.Mass) -> str:
    """The simple policies that emit less than ``router``, least first; "" where none does.

    Parameters
    ----------
    carbon_g
        What the policies minimise, by policy: of :func:`.answer.minimised_g`.
    router
        Id of the router.
    mass
        The unit.

    Returns
    -------
    str
        Plain text.
    """
    simple = carbon_g[carbon_g.index.intersection(SIMPLE)]
    better = simple[simple < carbon_g[router] * (1.0 - fmt.SAME_PERCENT / 100.0)].sort_values()
    if better.empty:
        return ""
    names = fmt.joined([f"{theme.name(name)} ({mass.text(g)})" for name, g in better.items()])
    verb = "emits" if len(better) == 1 else "emit"
    return (
        f"In this scenario {names} {verb} less than {theme.name(router)} "
        f"({mass.text(carbon_g[router])}), and may be the better choice."
    )
