"""The map of page Overview with its two choices: whose traffic, and whether users are drawn."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from carbonrouter_core.words import figures as fmt
from pages.shared import cache, maps, page, theme
from pages.shared.window_width import widest_px


def draw(shown: page.Page, sites: pd.DataFrame, mass: fmt.Mass) -> None:
    """Sites, traffic and moves of one of the two policies."""
    head = st.container(horizontal=True, vertical_alignment="center")
    head.html('<h2 class="cr-title">Where conversations run</h2>')
    chosen = head.segmented_control(
        "Show on the map",
        cache.main(shown.router),
        format_func=theme.name,
        default=shown.router,
        required=True,
        key=f"map-policy-{shown.router}",
        label_visibility="collapsed",
    )
    users = head.toggle("Users", key="map-users", help="Lines from users to the sites that serve.")
    window_px = widest_px("site-map")
    run = cache.comparison(shown.scenario, shown.router)
    drawn = maps.site_map(
        sites,
        run.traffic(chosen),
        run.region_moves(chosen),
        run.move_kinds(chosen),
        policy_id=chosen,
        mass=mass,
        users=maps.user_flows(run, chosen) if users else None,
        present=shown.present,
        window_px=window_px,
    )
    maps.show(drawn, key="site-map", present=shown.present)
