"""The controls beside every page, and the scenario they make, shared by all pages of a tab.

Three things are kept in the session of a browser tab, and nowhere else:

- the *router*: which of our rules the pages show as CarbonRouter;
- the *draft*: the raw values of the controls, which may be impossible (no region chosen);
- the *scenario*: the last draft that could be made into one.

Widgets are filled from the draft on every run, so that leaving a page or hiding the controls
loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.scenario import FIELDS
from carbonrouter_core.traces.builtin import BUILTIN_TRACES
from pages.components import cache, trace_jobs
from pages.components import formatting as fmt

DEFAULT_PRESET = "Paper"
SCENARIO_KEY = "scenario"
PRESET_KEY = "preset_name"
ROUTER_KEY = "router"
DRAFT_KEY = "scenario_draft"

DATA_SET_NAMES = {"sharegpt": "Chat", "claude-code": "Coding agents"}
ROUTER_NAMES = dict(
    zip(cache.ROUTERS, ("Look-ahead (recommended)", "Gate (the published rule)"), strict=True)
)
COPIES_NAMES = {
    "latest": "only where the last turn ran",
    "all": "wherever a turn ran",
}
LONGEST_IDLE_MIN = 240
"""End of the slider; a scenario from elsewhere may keep caches longer."""

MOST_NAMES = 4
"""More names than this are counted, not listed, where a change is described."""

# Fields the controls here set; all others of the scenario stay as they are.
CONTROLLED = (
    "trace",
    "window_start",
    "window_days",
    "regions",
    "gpus",
    "models",
    "gpu_regions",
    "copies",
    "idle_s",
    "quality_floor",
    "gate_threshold",
)


def current() -> core.Scenario:
    """The scenario of this browser tab."""
    if SCENARIO_KEY not in st.session_state:
        adopt(core.PRESETS[DEFAULT_PRESET], preset_name=DEFAULT_PRESET)
    elif DRAFT_KEY not in st.session_state:
        adopt(st.session_state[SCENARIO_KEY])
    return st.session_state[SCENARIO_KEY]


def router() -> str:
    """The policy that this tab shows as CarbonRouter: a choice of view, not of the scenario."""
    return st.session_state.setdefault(ROUTER_KEY, cache.ROUTERS[0])


def adopt(scenario: core.Scenario, *, preset_name: str | None = None) -> None:
    """Make ``scenario`` the one of this tab, on this and every other page.

    ``preset_name`` says which preset its distance is measured from; None keeps the last.
    """
    st.session_state[SCENARIO_KEY] = scenario
    if preset_name is not None or PRESET_KEY not in st.session_state:
        st.session_state[PRESET_KEY] = preset_name or DEFAULT_PRESET
    st.session_state[DRAFT_KEY] = {name: getattr(scenario, name) for name in CONTROLLED}


def distance(scenario: core.Scenario) -> tuple[str, list[str]]:
    """The preset the scenario started from, and each change from it in words."""
    for name, preset in core.PRESETS.items():
        if preset.key == scenario.key:
            return name, []
    name = st.session_state.get(PRESET_KEY, DEFAULT_PRESET)
    changes = scenario.differences(core.PRESETS[name])
    return name, [
        f"{field_name(field)} {_value(field, before)} \N{RIGHTWARDS ARROW} {_value(field, now)}"
        if not isinstance(now, list)
        else f"{field_name(field)} {_list_change(field, before, now)}"
        for field, (before, now) in changes.items()
    ]


_FIELD_NAMES = {
    "trace": "data set",
    "window_start": "start",
    "window_days": "days",
    "gpus": "GPU types",
    "gpu_regions": "GPU availability",
    "copies": "cache kept",
    "idle_s": "cache lifetime",
    "latency_ceiling_ms": "latency ceiling",
    "pue_overrides": "PUE",
    "gap_median_s": "gap median",
}


def field_name(field: str) -> str:
    """A scenario field as people call it."""
    return _FIELD_NAMES.get(field, field.replace("_", " "))


def _value(field: str, value: Any) -> str:
    if value is None or value == {}:
        return "none"
    if field == "idle_s":
        return fmt.minutes(value)
    if field == "copies":
        return COPIES_NAMES[value]
    if field == "trace":
        return DATA_SET_NAMES.get(value, value)
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Mapping):
        return "; ".join(
            f"{name}: {', '.join(map(_name, item)) if isinstance(item, list) else item}"
            for name, item in value.items()
        )
    if isinstance(value, float | int):
        unit = FIELDS[field]["unit"]
        return f"{value:g}{fmt.NARROW}{unit}" if unit else f"{value:g}"
    return str(value)


def _list_change(field: str, before: list[str], now: list[str]) -> str:
    """Which names came and went, rather than two long lists."""
    changes = []
    for word, names in (
        ("without", [name for name in before if name not in now]),
        ("with", [name for name in now if name not in before]),
    ):
        if len(names) > MOST_NAMES:
            changes.append(f"{len(names)} {'fewer' if word == 'without' else 'more'}")
        elif names:
            changes.append(f"{word} {fmt.joined([_name(name) for name in names])}")
    return ", ".join(changes) or "in another order"


def _name(name: str) -> str:
    """A region by its city; any other name as it is."""
    region = core.load_catalog().regions.get(name)
    return region.city if region else name


def sidebar() -> core.Scenario:
    """Draw the controls and give the scenario they make.

    Raises ScenarioError where they make none; the scenario of the tab then stays as it was.
    """
    current()  # the draft must be there before the widgets are
    # Callbacks have run before the page does, so the draft is up to date already.
    wrong: core.CarbonRouterError | None = None
    try:
        st.session_state[SCENARIO_KEY] = current().replace(**st.session_state[DRAFT_KEY])
    except core.CarbonRouterError as error:
        wrong = error
    _preset_control(changed=wrong is not None or bool(distance(current())[1]))
    _routing_controls()
    _workload_controls()
    _place_controls()
    if wrong is not None:
        raise wrong
    return current()


def _key(field: str) -> str:
    return f"control_{field}"


def _keep(field: str, key: str, to_field: Callable[[Any], Any]) -> None:
    st.session_state[DRAFT_KEY][field] = to_field(st.session_state[key])


def _bound(
    field: str,
    to_widget: Callable[[Any], Any] = lambda value: value,
    to_field: Callable[[Any], Any] = lambda value: value,
) -> dict[str, Any]:
    """Arguments that tie a widget to a field of the draft, both ways."""
    key = _key(field)
    value = to_widget(st.session_state[DRAFT_KEY][field])
    # Set only where it differs: setting it moves the widget under the user's hand.
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    return {"key": key, "on_change": _keep, "args": (field, key, to_field)}


def _load_preset() -> None:
    name = st.session_state["control_preset"]
    adopt(core.PRESETS[name], preset_name=name)


def _preset_control(*, changed: bool) -> None:
    names = list(core.PRESETS)
    if st.session_state.get("control_preset") != st.session_state[PRESET_KEY]:
        st.session_state["control_preset"] = st.session_state[PRESET_KEY]
    st.selectbox(
        "Preset",
        names,
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
    st.session_state[ROUTER_KEY] = st.session_state["control_router"]


def _router_control() -> None:
    key = "control_router"
    if st.session_state.get(key) != router():
        st.session_state[key] = router()
    st.radio(
        "Router",
        cache.ROUTERS,
        format_func=ROUTER_NAMES.__getitem__,
        key=key,
        on_change=_keep_router,
        help="Look-ahead also weighs the turns likely to follow, and saves more: 30.0 % on chat "
        "and 31.0 % on coding agents, against 29.3 % and 23.1 % by the published rule (preset "
        "Paper, against FairCarbon, on the half of the sessions nothing was learned from).",
    )


def _routing_controls() -> None:
    st.subheader("Routing", divider="gray")
    _router_control()
    st.slider(
        "Gate threshold",
        0.0,
        1.0,
        step=0.05,
        help="Smallest chance that a session comes straight back at which the gate may hold it "
        "where it is. 1 turns the gate off.",
        **_bound("gate_threshold"),
    )
    if router() != "carbonrouter":
        st.caption("Acts on the published rule: see its bar in \u201cCarbon by policy\u201d.")
    st.slider(
        "Quality floor",
        0.0,
        1.0,
        step=0.01,
        help="Lowest predicted chance of a right answer that a model may have. Where no model "
        "reaches it, the best one serves.",
        **_bound("quality_floor"),
    )
    idle_s = st.session_state[DRAFT_KEY]["idle_s"]
    st.slider(
        "Cache lifetime (min)",
        0.0,
        float(max(LONGEST_IDLE_MIN, idle_s / 60)),
        step=5.0,
        format="%g",
        help="How long an unused KV cache is kept before its history must be recomputed.",
        **_bound("idle_s", lambda seconds: seconds / 60, lambda shown: shown * 60),
    )
    st.radio(
        "Cache is kept",
        list(COPIES_NAMES),
        format_func=COPIES_NAMES.__getitem__,
        help="After a move, does the site that was left still hold the conversation?",
        **_bound("copies"),
    )


def _workload_controls() -> None:
    st.subheader("Workload", divider="gray")
    draft = st.session_state[DRAFT_KEY]
    stored, _ = trace_jobs.stored()  # page Traffic data says why there are none
    own = {one.name: f"{one.turns:,} turns in {one.sessions:,} sessions" for one in stored}
    traces = [*BUILTIN_TRACES, *own]
    if draft["trace"] not in traces:
        traces.append(draft["trace"])
    st.radio(
        "Data set",
        traces,
        format_func=lambda name: DATA_SET_NAMES.get(name) or fmt.plain(name),
        captions=[
            own.get(name) or BUILTIN_TRACES.get(name, "").partition(": ")[2] for name in traces
        ],
        **_bound("trace"),
    )
    first, last, shared = _days_to_choose()
    st.date_input(
        "First day",
        min_value=first,
        max_value=last,
        format="YYYY-MM-DD",
        help="Day from which carbon intensity is taken, in UTC.",
        **_bound("window_start"),
    )
    st.caption(shared)
    longest = max(28, draft["window_days"])
    st.slider("Days", 1, longest, **_bound("window_days"))


def _days_to_choose() -> tuple[date, date, str]:
    """First and last day that can be picked, and why."""
    draft = st.session_state[DRAFT_KEY]
    covered = cache.covered_days(current().carbon_basis)
    regions = core.load_catalog().regions
    zones = {
        name: covered[regions[name].zone]
        for name in draft["regions"]
        if name in regions and regions[name].zone in covered
    }
    chosen = draft["window_start"]
    if not zones:
        return chosen, chosen, "Choose a region first: its grid says which days there are."
    first = max(days[0] for days in zones.values())
    last = min(days[1] for days in zones.values())
    if first > last:
        late = max(zones, key=lambda name: zones[name][0])
        early = min(zones, key=lambda name: zones[name][1])
        return (
            chosen,
            chosen,
            f"{_name(late)} has data from {first}, {_name(early)} only to {last}: no day has "
            "both. Leave one of them out.",
        )
    text = f"All chosen grids have data from {first} to {last}."
    # A day out of range can come from an earlier choice of regions: it stays visible, and the
    # page says what is wrong with it.
    return min(first, chosen), max(last, chosen), text


def _place_controls() -> None:
    catalog = core.load_catalog()
    draft = st.session_state[DRAFT_KEY]
    st.subheader("Sites and models", divider="gray")
    st.multiselect(
        "Regions",
        _with_chosen(list(catalog.regions), draft["regions"]),
        format_func=lambda name: (
            f"{_name(name)} ({catalog.regions[name].zone})" if name in catalog.regions else name
        ),
        **_bound("regions", list, tuple),
    )
    st.multiselect(
        "GPU types", _with_chosen(list(catalog.gpus), draft["gpus"]), **_bound("gpus", list, tuple)
    )
    with st.expander("Which region has which GPU"):
        for gpu in draft["gpus"]:
            _availability_control(gpu)
    st.multiselect(
        "Models",
        _with_chosen(list(catalog.models), draft["models"]),
        **_bound("models", list, tuple),
    )


def _with_chosen(known: list[str], chosen: tuple[str, ...]) -> list[str]:
    """The names to offer: those known, and any the scenario brought along."""
    return known + [name for name in chosen if name not in known]


def _availability_control(gpu: str) -> None:
    """One row of the region x GPU grid: the regions that have ``gpu``."""
    draft = st.session_state[DRAFT_KEY]
    regions = list(draft["regions"])
    has = [name for name in regions if name in draft["gpu_regions"].get(gpu, regions)]
    # Another choice of regions is another widget, so that it never holds a region that is gone.
    key = f"control_has_{gpu}_{'_'.join(regions)}"
    if key not in st.session_state or list(st.session_state[key] or []) != has:
        st.session_state[key] = has
    st.pills(
        gpu,
        regions,
        selection_mode="multi",
        format_func=_name,
        key=key,
        on_change=_keep_availability,
        args=(gpu, key),
    )


def _keep_availability(gpu: str, key: str) -> None:
    draft = st.session_state[DRAFT_KEY]
    regions = list(draft["regions"])
    chosen = tuple(name for name in regions if name in (st.session_state[key] or []))
    availability = {name: where for name, where in draft["gpu_regions"].items() if name != gpu}
    if len(chosen) < len(regions):  # a GPU type that is not listed is everywhere
        availability[gpu] = chosen
    draft["gpu_regions"] = availability
