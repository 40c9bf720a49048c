"""Links to a scenario: the one a tab was opened with, and the one to pass on."""

from __future__ import annotations

from html import escape
from urllib.parse import urlsplit

import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.report import links
from carbonrouter_core.report.links import PARAMETER, Opened
from carbonrouter_core.routing.policies import ROUTERS
from carbonrouter_core.store.store import existing_store
from carbonrouter_core.words import figures as fmt
from pages.shared import cache, state, stored
from pages.shared.markdown import plain

OPENED = "opened-link"


def take_link() -> None:
    """Take over the scenario of a link, once: the address then stands for this tab alone.

    Whatever the link holds, the tab has a scenario afterwards, and :func:`notice` tells the rest.
    """
    text = st.query_params.get(PARAMETER)
    if text is None:
        return
    del st.query_params[PARAMETER]
    own, _ = stored.traces()
    opened = links.open_link(text, [trace.name for trace in own])
    if not opened.refused:
        state.adopt(opened.scenario, preset_name=state.nearest_preset(opened.scenario))
        if opened.router in ROUTERS:
            st.session_state[state.ROUTER_KEY] = opened.router
    st.session_state[OPENED] = opened


def notice() -> None:
    """What became of a link, until the reader has seen it."""
    opened: Opened | None = st.session_state.get(OPENED)
    if opened is None:
        return
    if not opened.notices:
        del st.session_state[OPENED]
        st.toast(f"Opened scenario {plain(opened.scenario.name)} from a link, as it was sent")
        return
    box = st.container(border=True, key="opened-link-notice")
    title = "The link could not be opened" if opened.refused else "Opened from a link, with changes"
    items = "".join(f"<li>{escape(notice)}</li>" for notice in opened.notices)
    box.html(f'<div role="status"><b>{title}</b><ul class="cr-note">{items}</ul></div>')
    if box.button("Understood", key="opened-link-seen"):
        del st.session_state[OPENED]
        st.rerun()


def share(scenario: core.Scenario, router: str) -> None:
    """The link to ``scenario``, behind a button."""
    with st.popover("Share", icon=":material/share:", help="A link to this scenario"):
        own = links.own_series_of(_prepared(scenario))
        text = links.link_text(
            scenario,
            router=router,
            own_series=own,
            own_entries=links.own_entries_of(scenario),
        )
        link = address(text)
        st.code(link, language=None, wrap_lines=True)
        sentences = [
            f"{fmt.number(len(link))} characters. The link holds every input of the scenario; "
            "traces and series stay here. Copy it with the button in its corner."
        ]
        sentences += links.needs(scenario, _prepared(scenario))
        sentences.append("As a file: page Scenario, \u201cAs a file (JSON)\u201d.")
        st.html("".join(f'<p class="cr-note">{escape(notice)}</p>' for notice in sentences))


def address(link_text: str) -> str:
    """The address that opens ``link_text``: that of the first page, where a newcomer starts."""
    here = urlsplit(st.context.url or "")
    origin = f"{here.scheme}://{here.netloc}" if here.netloc else ""
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"{origin}/{base + '/' if base else ''}?{PARAMETER}={link_text}"


def _prepared(scenario: core.Scenario) -> Prepared | None:
    """The prepared scenario, where it may rest on series of the user; a wrong one has none."""
    try:
        store = existing_store() if scenario.own_intensity else None
        if store is None or not store.table_names("intensity"):
            return None
        return cache.prepared(scenario)
    except core.CarbonRouterError:  # the page itself says what is wrong
        return None
