"""The controls beside every page: the few choices that are changed most. Page Scenario has all of
them, drawn by the same functions; ``where`` a control stands tells the two apart.
"""

from __future__ import annotations

from datetime import date, timedelta

import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.grid.choice import EPOCH, common_starts
from carbonrouter_core.routing.policies import ROUTERS, policy
from carbonrouter_core.studies.seasons import offered_series
from carbonrouter_core.traces.builtin import BUILTIN_TRACES
from carbonrouter_core.units import S_PER_DAY
from carbonrouter_core.words import figures as fmt
from pages.shared import answer, state, stored
from pages.shared.markdown import plain
from pages.shared.state import COPIES_NAMES, adopt, current, distance, router

__all__ = ["COPIES_NAMES", "adopt", "current", "distance", "router", "sidebar"]

ROUTER_NAMES = dict(
    zip(ROUTERS, ("Look-ahead (recommended)", "Gate (the published rule)"), strict=True)
)
LONGEST_IDLE_MIN = 240
"""End of the slider; a scenario from elsewhere may keep caches longer."""
SIDEBAR = "control"
"""Where the controls beside the page stand."""


def sidebar(*, brief: bool = False) -> core.Scenario:
    """Draw the controls and give the scenario they make; ``brief``: only what page Scenario, which
    has all the others, does not show itself.

    Raises CarbonRouterError where they make none; the scenario of the tab then stays as it was.
    """
    # Callbacks have run before the page does, so the draft is up to date already.
    wrong: core.CarbonRouterError | None = None
    try:
        state.settle()
    except core.CarbonRouterError as error:
        wrong = error
    if brief:
        _router_control()
    else:
        _preset_control(changed=wrong is not None or bool(distance(current())[1]))
        _routing_controls()
        _workload_controls()
        st.subheader("Sites", divider="gray")
        regions_control(SIDEBAR)
        st.page_link(
            "pages/scenario.py",
            label="All choices of this scenario",
            icon=":material/tune:",
        )
    if wrong is not None:
        raise wrong
    return current()


def _load_preset() -> None:
    name = st.session_state["control_preset"]
    adopt(core.PRESETS[name], preset_name=name)


def _preset_control(*, changed: bool) -> None:
    names = list(core.PRESETS)
    state.fill("control_preset", st.session_state[state.PRESET_KEY])
    st.selectbox(
        "Preset",
        names,
        index=names.index(st.session_state[state.PRESET_KEY]),
        key="control_preset",
        on_change=_load_preset,
        help="Presets differ in where and how long a conversation's KV cache is kept. "
        "Choosing one sets every control.",
    )
    st.button(
        f"Back to preset {st.session_state['control_preset']}",
        on_click=_load_preset,
        disabled=not changed,
        width="stretch",
    )


def _keep_router() -> None:
    st.session_state[state.ROUTER_KEY] = st.session_state["control_router"]


def _router_control() -> None:
    key = "control_router"
    state.fill(key, router())
    st.radio(
        "Router",
        ROUTERS,
        index=ROUTERS.index(router()),
        format_func=ROUTER_NAMES.__getitem__,
        key=key,
        on_change=_keep_router,
        help=answer.WHY_LOOKAHEAD,
    )


def _routing_controls() -> None:
    st.subheader("Routing", divider="gray")
    _router_control()
    gate_control(SIDEBAR)
    quality_control(SIDEBAR)
    cache_lifetime_control(SIDEBAR)


def gate_control(where: str) -> None:
    """The gate threshold."""
    st.slider(
        "Gate threshold",
        0.0,
        1.0,
        step=0.05,
        help="Smallest chance that a session comes straight back at which the gate may hold it "
        "where it is. 1 turns the gate off.",
        **state.bound(where, "gate_threshold"),
    )
    if not policy(router()).asks_gate:
        st.caption(
            "Acts on the published rule: see its bar in \u201cCarbon by policy\u201d "
            "on the Overview."
        )


def quality_control(where: str) -> None:
    """The quality floor."""
    st.slider(
        "Quality floor",
        0.0,
        1.0,
        step=0.01,
        help="Lowest predicted chance of a right answer that a model may have. Where no model "
        "reaches it, the best one serves.",
        **state.bound(where, "quality_floor"),
    )


def cache_lifetime_control(where: str) -> None:
    """How long a KV cache is kept."""
    idle_s = state.draft()["idle_s"]
    st.slider(
        "Cache lifetime (min)",
        0.0,
        float(max(LONGEST_IDLE_MIN, idle_s / 60)),
        step=5.0,
        format="%g",
        help="How long an unused KV cache is kept before its history must be recomputed.",
        **state.bound(where, "idle_s", lambda seconds: seconds / 60, lambda shown: shown * 60),
    )


def copies_control(where: str) -> None:
    """Which deployments keep a session's KV cache."""
    st.radio(
        "Cache is kept",
        list(COPIES_NAMES),
        format_func=COPIES_NAMES.__getitem__,
        help="After a move, does the site that was left still hold the conversation?",
        **state.bound_choice(where, "copies", list(COPIES_NAMES)),
    )


def _workload_controls() -> None:
    st.subheader("Workload", divider="gray")
    data_set_control(SIDEBAR)
    window_controls(SIDEBAR)


def data_set_control(where: str) -> None:
    """The trace: built in, or brought by the user."""
    chosen = state.draft()["trace"]
    stored_traces, _ = stored.traces()  # page Traffic data says why there are none
    own = {
        trace.name: f"{fmt.plural(trace.turns, 'turn')} in {fmt.plural(trace.sessions, 'session')}"
        for trace in stored_traces
    }
    traces = [*BUILTIN_TRACES, *own]
    if chosen not in traces:
        traces.append(chosen)
    st.radio(
        "Data set",
        traces,
        format_func=lambda name: state.DATA_SET_NAMES.get(name) or plain(name),
        captions=[
            own.get(name) or BUILTIN_TRACES.get(name, "").partition(": ")[2] for name in traces
        ],
        **state.bound_choice(where, "trace", traces),
    )


def window_controls(where: str) -> None:
    """First day and length of the window."""
    first, last, shared = _days_to_choose()
    st.date_input(
        "First day",
        min_value=first,
        max_value=last,
        format="YYYY-MM-DD",
        help="Day from which carbon intensity is taken, in UTC.",
        **state.bound(where, "window_start"),
    )
    st.caption(shared)
    longest = max(28, state.draft()["window_days"])
    st.slider("Days", 1, longest, **state.bound(where, "window_days"))


def _days_to_choose() -> tuple[date, date, str]:
    """First and last day that can be picked, and why: what all chosen grids have data for."""
    draft, chosen = state.draft(), state.draft()["window_start"]
    known = [name for name in draft["regions"] if name in core.load_catalog().regions]
    if not known:
        return chosen, chosen, "Choose a region first: its grid says which days there are."
    fields = ("carbon_basis", "intensity_kind", "own_intensity")
    scenario = current().replace(regions=known, **{name: draft[name] for name in fields})
    try:
        offered = offered_series(scenario)
    except core.IntensityError as error:
        return chosen, chosen, plain(str(error))
    spans = common_starts(list(offered.values()), days=1)
    if not spans:
        ends = {name: max(series.end_s for series in group) for name, group in offered.items()}
        starts = {name: min(series.start_s for series in group) for name, group in offered.items()}
        late, early = max(starts, key=starts.__getitem__), min(ends, key=ends.__getitem__)
        return (
            chosen,
            chosen,
            f"{state.place(late)} has data from {_day(starts[late])}, {state.place(early)} only "
            f"to {_day(ends[early] - 1)}: no day has both. Leave one of them out.",
        )
    days = [(EPOCH + timedelta(days=a), EPOCH + timedelta(days=b)) for a, b in spans]
    text = "All chosen grids have data from " + fmt.joined(
        [f"{first} to {last}" for first, last in days]
    )
    own = [series.name for group in offered.values() for series in group if series.name]
    if own:
        text += f", with {fmt.joined([plain(name) for name in dict.fromkeys(own)])} of yours"
    # A day out of range can come from an earlier choice of regions: it stays visible, and the
    # page says what is wrong with it.
    return min(days[0][0], chosen), max(days[-1][1], chosen), f"{text}."


def _day(epoch_s: float) -> date:
    return EPOCH + timedelta(days=epoch_s // S_PER_DAY)


def regions_control(where: str) -> None:
    """The regions that can serve."""
    regions = core.load_catalog().regions
    st.multiselect(
        "Regions",
        _with_chosen(list(regions), state.draft()["regions"]),
        format_func=lambda name: (
            f"{state.place(name)} ({regions[name].zone})" if name in regions else name
        ),
        **state.bound_choices(where, "regions"),
    )


def gpus_control(where: str) -> None:
    """The GPU types."""
    known = _with_chosen(list(core.load_catalog().gpus), state.draft()["gpus"])
    st.multiselect("GPU types", known, **state.bound_choices(where, "gpus"))


def models_control(where: str) -> None:
    """The models."""
    known = _with_chosen(list(core.load_catalog().models), state.draft()["models"])
    st.multiselect("Models", known, **state.bound_choices(where, "models"))


def _with_chosen(known: list[str], chosen: tuple[str, ...]) -> list[str]:
    """The names to offer: those known, and any the scenario brought along."""
    return known + [name for name in chosen if name not in known]
