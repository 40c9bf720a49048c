"""What every page begins with and is wrapped in: the scenario in sight, the Present switch, the
style sheet, and a net that turns any failure into a sentence.
"""

from __future__ import annotations

import logging
import runpy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from html import escape
from pathlib import Path

import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.words import figures as fmt
from pages.shared import cache, controls, jobs, sharing, state, theme

ROOT = Path(__file__).resolve().parents[2]
APP, ASSETS = ROOT / "app.py", ROOT / "assets"
HERE = Path(__file__).parent
STYLE_SHEETS = (ASSETS / "style.css", HERE / "components.css")
PRESENT_SHEET = HERE / "present.css"
FIRST_START = "The first start on a machine compiles the engine, about 20 s; later starts do not."
CANNOT_RUN = "This scenario cannot be run"
NAVIGATION_KEY = "navigation"
PRESENT_KEY, PRESENTING_KEY = "present", "presenting"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Page:
    """What a page needs to know: the scenario to show, and whether it is being presented."""

    scenario: core.Scenario
    router: str
    """The policy that is CarbonRouter on every page: look-ahead, or the published rule."""
    present: bool
    problem: str = ""
    """Why the controls make no scenario, where they do not; there is nothing to show then."""


def start(title: str, *, brief: bool = False) -> Page:
    """Draw the head of a page and, unless it is being presented, the controls beside it; ``brief``
    on a page that has the scenario's controls itself."""
    if NAVIGATION_KEY not in st.session_state:
        # Until a server has run app.py once, Streamlit runs the script of a page by itself where
        # the first visitor asks for its address. Then app.py is still to do.
        runpy.run_path(str(APP))
        st.stop()
    for sheet in STYLE_SHEETS:
        if sheet.is_file():
            st.html(sheet)
    colours = theme.palette()
    st.html(f"<style>:root {{--cr-page: {colours.background}; --cr-sea: {colours.sea}}}</style>")
    state.note_page(title)
    sharing.take_link()  # before anything asks for the scenario
    bar = st.container(key="scenario-bar", horizontal=True, vertical_alignment="center")
    with bar:
        strip = st.empty()
        link = st.empty()
        if PRESENT_KEY not in st.session_state:  # a widget's own state ends with its page
            st.session_state[PRESENT_KEY] = st.session_state.get(PRESENTING_KEY, False)
        present = st.toggle(
            "Present",
            key=PRESENT_KEY,
            help="Hides the controls and enlarges the figures, for a presentation.",
        )
    if present:
        st.html(PRESENT_SHEET)
    st.session_state[PRESENTING_KEY] = present
    wrong = ""
    if not present:
        with st.sidebar:
            try:
                controls.sidebar(brief=brief)
            except core.CarbonRouterError as error:
                wrong = str(error)
    scenario = controls.current()
    strip.html(_strip(title, scenario, runnable=not wrong))
    sharing.notice()
    if not present:
        with link:
            sharing.share(scenario, controls.router())
    return Page(scenario, controls.router(), present, wrong)


def _strip(title: str, scenario: core.Scenario, *, runnable: bool) -> str:
    """Title, scenario name and distance from its preset. The name is the user's own text."""
    preset_name, changes = controls.distance(scenario)
    if not runnable:
        distance = f"changed from preset {escape(preset_name)}, and cannot be run"
    elif not changes:
        distance = f"exactly as preset {escape(preset_name)}"
    else:
        count = f"{len(changes)} change{'' if len(changes) == 1 else 's'}"
        listed = "; ".join(escape(change) for change in changes)
        distance = f"<b>{count}</b> from preset {escape(preset_name)}: {listed}"
    return (
        f'<div class="cr-strip"><h1>{escape(title)}</h1>'
        f'<p><span class="cr-scenario">Scenario <b>{escape(scenario.name)}</b></span> '
        f'<span class="cr-distance" title="{distance.replace("<b>", "").replace("</b>", "")}">'
        f"{distance}</span></p></div>"
    )


def draw(shown: Page, content: Callable[[Page], None]) -> None:
    """What a page shows of a scenario that can be run, or what is wrong with the scenario."""
    if shown.problem:
        problem(CANNOT_RUN, shown.problem)
    else:
        with guard():
            content(shown)


@contextmanager
def guard() -> Iterator[None]:
    """Show a failure as what was wrong and what to do; the rest of the page goes on.

    Our own errors are sentences for the reader. Anything else is a defect: it goes to the log,
    and the reader is told what still works.
    """
    try:
        yield
    except jobs.StoppedError as error:
        jobs.offer_again([error])
    except core.CarbonRouterError as error:
        problem(CANNOT_RUN, str(error))
        _offer_window(getattr(error, "nearest_start", None))
    except Exception:
        _log.exception("page failed")
        problem(
            "Something went wrong here",
            "This is a defect of CarbonRouter, not of your scenario; what happened is in the "
            "log of the server. Reload the page, or go back to a preset in the controls.",
        )


def _offer_window(start: date | None) -> None:
    """A button for the nearest window that all chosen grids have, where an error names one."""
    if start is not None:
        st.button(
            f"Begin the window on {start}",
            on_click=lambda: controls.adopt(controls.current().replace(window_start=start)),
            key="nearest-window",
        )


def problem(title: str, message: str) -> None:
    """A box that says what is wrong; ``message`` is shown as plain text."""
    message = fmt.sentence_case(message)  # some begin with the name of a field
    st.html(
        f'<div class="cr-problem" role="alert"><h2>{escape(title)}</h2><p>{escape(message)}</p>'
        "<p class='cr-muted'>Nothing is lost: change the choice in the controls, or pick a preset "
        "there to start again.</p></div>"
    )


def note(*sentences: str) -> None:
    """Small print under a figure. ``sentences`` are HTML: no text of the user."""
    if sentences:
        st.html(f'<p class="cr-note">{" ".join(sentences)}</p>')


def assumptions(first: Sequence[str], further: Sequence[str]) -> None:
    """What the reader must know of the figures: ``first`` in sight, ``further`` behind a click.

    They may name what a user brought along, so they are shown as plain text.
    """
    note(*(escape(sentence) for sentence in first))
    if further:
        with st.expander(f"Further assumptions and warnings ({len(further)})"):
            items = "".join(f"<li>{escape(sentence)}</li>" for sentence in further)
            st.html(f'<ul class="cr-note">{items}</ul>')


@contextmanager
def busy(message: str) -> Iterator[None]:
    """A loading state that is only seen where the wait is.

    The first one of a process also says that the engine may have to be compiled. The style
    sheet holds that back for a few seconds, since nothing can be sent while the work is done.
    """
    if cache.has_replayed():
        with st.spinner(message, show_time=True):
            yield
        return
    with st.spinner(message, show_time=True):
        more = st.empty()
        more.html(f'<p class="cr-first-start">{FIRST_START}</p>')
        yield
    more.empty()
