"""The form of page Scenario: every choice, by subject, and beside each group what is measured or
assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from html import escape
from typing import Any

import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.fleet.catalog import ASSUMED_PUE
from carbonrouter_core.fleet.sources import embodied_sentence, scaled_sentence
from carbonrouter_core.scenario import FIELDS
from pages.shared import controls, state
from pages.shared.markdown import plain

HERE, MORE = "scenario", "scenario-more"
"""Where these controls stand, beside those of the sidebar; and those without a group."""


@contextmanager
def _group(title: str, why: str, measured: str) -> Iterator[None]:
    """A framed group of choices: what they decide, and what is measured in their place."""
    with st.container(border=True):
        st.html(f'<h2 class="cr-title">{escape(title)}</h2><p class="cr-note">{escape(why)}</p>')
        yield
        st.html(f'<p class="cr-note cr-measured"><b>Not a choice here.</b> {escape(measured)}</p>')


def draw() -> None:
    """The whole form; every widget writes to the draft of the tab."""
    _traffic()
    _sites()
    _caches()
    _quality_and_speed()
    _carbon()
    _more()


# --- Groups -----------------------------------------------------------------------------------


def _traffic() -> None:
    with _group(
        "Traffic: which conversations, when, from where",
        "The same conversations are sent through every router.",
        "Measured: how many tokens each turn of the data set reads and writes, and in which order; "
        "for coding agents also the pauses. Drawn, with the seed: when a conversation starts, "
        "where its user is and, for chat, the pauses, which are not in its source.",
    ):
        left, right = st.columns(2, gap="medium")
        with left:
            controls.data_set_control(HERE)
            st.page_link(
                "pages/traffic_data.py",
                label="Bring your own traffic",
                icon=":material/upload:",
            )
        with right:
            controls.window_controls(HERE)
        _user_mix()
        with st.expander("Pauses between turns, and the seed"):
            st.radio(
                "Gap table",
                list(state.GAPS_NAMES),
                format_func=state.GAPS_NAMES.__getitem__,
                help="Measured pauses from the start of one turn to the start of the next. Used "
                "if the data set has no times.",
                **state.bound_choice(HERE, "gaps", list(state.GAPS_NAMES)),
            )
            _number("gap_median_s", "Stretch the pauses to a median of (s)", "as in the table")
            _number(
                "seed",
                "Seed",
                help="Equal seeds draw equal starts, users and pauses. Another seed shows how "
                "much depends on the draw.",
                step=1,
            )


def _user_mix() -> None:
    regions = core.load_catalog().regions
    mix = dict(state.draft()["user_mix"])
    key = f"{HERE}_users_in"
    if list(st.session_state.get(key, [])) != list(mix):
        st.session_state[key] = list(mix)
    st.multiselect(
        "Users are in",
        [*regions, *(name for name in mix if name not in regions)],
        default=list(mix),
        format_func=state.place,
        key=key,
        on_change=_keep_users,
        args=(key,),
        placeholder="equally in all regions that serve",
        help="Empty: equally in the regions that serve. Weights need not add up to anything: "
        "twice the weight is twice the users.",
    )
    if not mix:
        return
    whole = sum(mix.values())
    cells = st.container(horizontal=True)
    for name, weight in mix.items():
        share = f"{100 * weight / whole:.0f} %" if whole else "no users"
        _entry(
            cells,
            f"{HERE}_weight_{name}",
            f"{_label(state.place(name), name in regions)}: {share}",
            weight,
            partial(_keep_entry, "user_mix", name),
            low=0.0,
        )


def _keep_users(key: str) -> None:
    mix = state.draft()["user_mix"]
    state.change("user_mix", {name: mix.get(name, 1.0) for name in st.session_state[key]})


def _sites() -> None:
    with _group(
        "Sites, machines and models",
        "A router may serve each turn by any model below, on any GPU type, in any region that has "
        "it.",
        "Measured: how much energy and time each model takes on each GPU type, and how long the "
        "network takes between regions. Published: each site's PUE (energy that enters the "
        "building for each unit that reaches the servers) and each model's accuracy. Assumed: PUE "
        f"{ASSUMED_PUE:.2f} where none is published. "
        + scaled_sentence(core.load_catalog().energy.values()),
    ):
        controls.regions_control(HERE)
        controls.models_control(HERE)
        controls.gpus_control(HERE)
        _availability_grid()
        with st.expander("PUE of a site, if yours differs"):
            _pue()


def _availability_grid() -> None:
    """Region × GPU type: a box for each pair."""
    draft = state.draft()
    regions, gpus = list(draft["regions"]), list(draft["gpus"])
    if not regions or not gpus:
        return
    st.html('<h3 class="cr-title">Which region has which GPU type</h3>')
    grid = st.container(key="availability-grid", gap="small")
    for region in regions:
        row = grid.container(horizontal=True, vertical_alignment="center")
        row.html(f'<span class="cr-row-name">{escape(state.place(region))}</span>')
        for gpu in gpus:
            key = f"{HERE}_has_{region}_{gpu}"
            st.session_state[key] = region in draft["gpu_regions"].get(gpu, regions)
            row.checkbox(
                _label(gpu, gpu in core.load_catalog().gpus),
                value=st.session_state[key],
                key=key,
                on_change=_keep_availability,
                args=(region, gpu, key),
            )


def _label(name: str, known: bool) -> str:
    """``name`` as a label. One that a file brought along must not act as Markdown; those of the
    catalog are read out as they are, and so without escapes.
    """
    return name if known else plain(name)


def _keep_availability(region: str, gpu: str, key: str) -> None:
    draft = state.draft()
    regions = list(draft["regions"])
    has = {name for name in regions if name in draft["gpu_regions"].get(gpu, regions)}
    has = has | {region} if st.session_state[key] else has - {region}
    gpu_regions = {name: where for name, where in draft["gpu_regions"].items() if name != gpu}
    if len(has) < len(regions):  # a GPU type that is not listed is everywhere
        gpu_regions[gpu] = tuple(name for name in regions if name in has)
    state.change("gpu_regions", gpu_regions)


def _pue() -> None:
    draft, regions = state.draft(), core.load_catalog().regions
    cells = st.container(horizontal=True)
    names = [*draft["regions"], *(n for n in draft["pue_overrides"] if n not in draft["regions"])]
    for name in names:
        site = regions.get(name)
        table = (
            "" if site is None else f"{site.pue:.2f}" + (" (assumed)" if site.pue_assumed else "")
        )
        _entry(
            cells,
            f"{HERE}_pue_{name}",
            _label(state.place(name), site is not None),
            draft["pue_overrides"].get(name),
            partial(_keep_entry, "pue_overrides", name),
            low=1.0,
            high=5.0,
            empty=table,
        )


def _caches() -> None:
    with _group(
        "Caches: how long a site remembers a conversation",
        "A model's working notes on a conversation (its KV cache) stay in fast memory where the "
        "last turn ran. The presets differ in these two choices alone.",
        "Measured or from data sheets: how much memory the notes of one token take, and how much "
        "memory a GPU has. How many conversations fit follows from them.",
    ):
        left, right = st.columns(2, gap="medium")
        with left:
            controls.copies_control(HERE)
            controls.cache_lifetime_control(HERE)
        with right:
            _number(
                "concurrency",
                "Conversations answered together on one machine, at most",
                help="More of them share the energy of each step, and each waits longer. Where "
                "memory holds fewer, that number counts: see the table of what runs where.",
                step=8.0,
            )


def _quality_and_speed() -> None:
    with _group(
        "What users may ask for: quality, speed, and when to hold",
        "Every router chooses among the candidates that meet both limits. Only the published rule "
        "uses the gate, and only FairCarbon the fairness weight.",
        "Predicted: the chance of a right answer, from published answers of each model to 12,032 "
        "exam questions. Estimated: waiting times, without queueing.",
    ):
        left, right = st.columns(2, gap="medium")
        with left:
            controls.quality_control(HERE)
            controls.gate_control(HERE)
            _number(
                "fairness_weight",
                "Fairness weight",
                help="For FairCarbon alone: how strongly it raises the quality floor of user "
                "regions that were served below the average. 0: not at all.",
                step=0.5,
            )
        with right:
            _number(
                "latency_ceiling_ms",
                "Latency ceiling (s)",
                "no ceiling",
                scale=1000.0,
                help="Candidates predicted to take longer are left out; where all do, the fastest "
                "serves and the turn counts as missed.",
            )
            st.radio(
                "The ceiling is on",
                list(state.CEILING_NAMES),
                format_func=state.CEILING_NAMES.__getitem__,
                disabled=state.draft()["latency_ceiling_ms"] is None,
                **state.bound_choice(HERE, "latency_ceiling_on", list(state.CEILING_NAMES)),
            )


def _carbon() -> None:
    with _group(
        "Carbon accounting",
        "What counts as the carbon of a kilowatt-hour, and of the machines themselves.",
        "Measured: each grid's carbon intensity, built in as means of three hours. "
        + embodied_sentence(core.load_catalog().gpus.values()),
    ):
        left, right = st.columns(2, gap="medium")
        with left:
            st.radio(
                "Carbon basis",
                list(state.BASIS_NAMES),
                format_func=state.BASIS_NAMES.__getitem__,
                **state.bound_choice(HERE, "carbon_basis", list(state.BASIS_NAMES)),
            )
        with right:
            st.radio(
                "Intensity of a grid",
                list(state.KIND_NAMES),
                format_func=state.KIND_NAMES.__getitem__,
                **state.bound_choice(HERE, "intensity_kind", list(state.KIND_NAMES)),
            )
        st.selectbox(
            "What routers know of carbon intensity",
            list(state.KNOWLEDGE_NAMES),
            format_func=state.KNOWLEDGE_NAMES.__getitem__,
            help="Routers decide by this. Their emissions are always computed with the true "
            "intensity.",
            **state.bound_choice(HERE, "intensity_knowledge", list(state.KNOWLEDGE_NAMES)),
        )
        st.toggle(
            "Use your own series before the built-in ones",
            **state.bound(HERE, "own_intensity"),
        )
        st.toggle(
            "Embodied carbon counts in the choice",
            help="Routers then also count the carbon of making the machines, by the time they are "
            "busy. Reports always show it separately.",
            **state.bound(HERE, "embodied"),
        )


def _more() -> None:
    """Fields that no group draws, such as new ones, by their entry in the scenario."""
    draft, default = state.draft(), core.Scenario()
    without_group = [
        name
        for name, value in draft.items()
        if f"{HERE}_{name}" not in st.session_state and not isinstance(value, Mapping | tuple)
    ]
    if not without_group:
        return
    with st.container(border=True):
        st.html('<h2 class="cr-title">More choices</h2>')
        for name in without_group:
            label = FIELDS[name]["meaning"].capitalize()
            if isinstance(draft[name], bool):
                st.toggle(label, **state.bound(MORE, name))
            elif "choices" in FIELDS[name]:
                choices = FIELDS[name]["choices"]
                st.selectbox(label, choices, **state.bound_choice(MORE, name, choices))
            elif "low" in FIELDS[name]:
                unit, value = FIELDS[name]["unit"], getattr(default, name)
                _number(
                    name,
                    f"{label} ({unit})" if unit else label,
                    "none" if value is None else "",
                    step=1 if isinstance(value, int) else None,
                    where=MORE,
                )
            else:
                st.text_input(label, **state.bound(MORE, name))


# --- Numbers ----------------------------------------------------------------------------------


def _number(
    field: str,
    label: str,
    empty: str = "",
    *,
    scale: float = 1.0,
    step: float | None = None,
    help: str | None = None,
    where: str = HERE,
) -> None:
    """A number of the scenario within its own limits; ``empty``: what none means, where it may."""
    limits = FIELDS[field]
    kind = int if isinstance(step, int) else float

    def to_widget(value: float | None) -> float | None:
        return None if value is None else kind(value / scale)

    def to_field(value: float | None) -> float | None:
        return None if value is None else kind(value * scale)

    tied = state.bound(where, field, to_widget, to_field)
    if empty:  # a number input with a default cannot be emptied
        tied["value"] = None
    st.number_input(
        label,
        min_value=to_widget(limits["low"]),
        max_value=to_widget(limits["high"]),
        step=step,
        format="%d" if kind is int else "%g",
        placeholder=empty or None,
        help=help,
        **tied,
    )


def _entry(
    cells: Any,
    key: str,
    label: str,
    value: float | None,
    keep: Callable[[float | None], None],
    *,
    low: float,
    high: float | None = None,
    empty: str = "",
) -> None:
    """One number of a mapping of the draft."""
    if st.session_state.get(key) != value or key not in st.session_state:
        st.session_state[key] = value
    cells.number_input(
        label,
        min_value=low,
        max_value=high,
        value=None if empty else value,
        step=0.05,
        format="%g",
        placeholder=empty or None,
        key=key,
        on_change=lambda: keep(st.session_state[key]),
        width=190,
    )


def _keep_entry(field: str, name: str, value: float | None) -> None:
    entries = dict(state.draft()[field])
    if value is not None:
        entries[name] = value
    elif field == "pue_overrides":
        entries.pop(name, None)
    else:
        entries[name] = 0.0
    state.change(field, entries)
