"""Regions with their grid zones and sources, and sites of the user."""

from __future__ import annotations

import pandas as pd
import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.fleet.catalog import ASSUMED_PUE
from carbonrouter_core.fleet.cloud_names import cloud_names_of
from carbonrouter_core.grid.series import builtin_series
from carbonrouter_core.store.sites import add_site, delete_site, known_zones, own_sites
from pages.parts.grid_data import imports
from pages.shared import cache, page, state
from pages.shared.markdown import plain


def table() -> pd.DataFrame:
    """One row a region: where it is, its zone, its PUE, and the series of its zone."""
    own: dict[str, list[str]] = {}
    for intensity in imports.stored()[0]:
        for zone in intensity.zones:
            own.setdefault(zone, []).append(intensity.name)
    mine = {site.region for site in own_sites()}
    built_in = builtin_series("lifecycle")
    rows = []
    for region in core.load_catalog().regions.values():
        series = [f"yours: {name}" for name in own.get(region.zone, [])]
        if region.zone in built_in:
            first, end = (pd.Timestamp(s, unit="s").year for s in (
                built_in[region.zone].start_s, built_in[region.zone].end_s - 1))  # fmt: skip
            years = str(first) if first == end else f"{first} to {end}"
            series.append(f"built in: {built_in[region.zone].granularity}, {years}")
        rows.append(
            {
                "Region": region.city,
                "Name": region.region,
                "Zone": region.zone,
                "On the same grid": ", ".join(cloud_names_of(region.zone)),
                "Carbon intensity": "; ".join(series),
                "PUE": region.pue,
                "PUE from": "assumed" if region.pue_assumed else region.pue_source,
                "Round trips": "by distance"
                if region.region in mine
                else "measured or by distance",
                "Latitude": region.latitude,
                "Longitude": region.longitude,
            }
        )
    return pd.DataFrame(rows)


def show() -> None:
    """The table of regions; add and delete a site."""
    st.html('<h2 class="cr-title">Regions, their grids and sources</h2>')
    st.dataframe(
        table(),
        hide_index=True,
        key="grid-regions",
        column_config={"PUE": st.column_config.NumberColumn(format="%.2f")},
    )
    page.note(
        "Search the table by city, zone or the name of a region of AWS, Azure or Google. "
        "The first source that covers the window is used. A PUE in the table can be overridden on "
        "page Scenario."
    )
    left, right = st.columns(2, gap="medium")
    with left, st.expander("Add a site"):
        _add()
    with right, st.expander("Delete a site of yours"):
        _delete()


def _add() -> None:
    with st.form("grid-site", border=False):
        name = st.text_input("Name of the site", max_chars=80, key="site-name")
        zone = st.selectbox(
            "Grid zone", known_zones(), index=None, placeholder="Choose", key="site-zone"
        )
        latitude = st.number_input(
            "Latitude, degrees north", -90.0, 90.0, None, format="%.4f", key="site-latitude"
        )
        longitude = st.number_input(
            "Longitude, degrees east", -180.0, 180.0, None, format="%.4f", key="site-longitude"
        )
        pue = st.number_input(
            f"PUE (empty: {ASSUMED_PUE:.2f}, shown as assumed)",
            1.0, 5.0, None, format="%.2f", key="site-pue",
        )  # fmt: skip
        sent = st.form_submit_button("Add", type="primary")
    page.note(
        "Round trips are estimated from the distance (16.8 ms and 15.1 ms per 1,000 km), and shown "
        "as estimated. You can then choose the site as a region of the scenario."
    )
    if sent:
        if zone is None or latitude is None or longitude is None:
            st.error(
                "A site needs its grid zone, latitude and longitude: carbon and round trips come "
                "from them.",
                icon=":material/block:",
            )
            return
        try:
            site = add_site(name, zone, latitude, longitude, pue)
        except core.CarbonRouterError as error:
            st.error(plain(str(error)), icon=":material/block:")
            return
        st.toast(f"Added {plain(site.city)}")
        st.rerun()


def _delete() -> None:
    names = [site.region for site in own_sites()]
    if not names:
        page.note("There is none yet.")
        return
    name = st.selectbox("Site", names, key="site-chosen")
    if st.button("Delete it", key="site-delete"):
        scenario = state.current()
        left = tuple(region for region in scenario.regions if region != name)
        if left != scenario.regions:  # a scenario cannot keep a region that is gone
            gone = {"regions": left or core.Scenario().regions}
            state.adopt(scenario.replace(**gone))
        delete_site(name)
        cache.forget()
        st.rerun()
