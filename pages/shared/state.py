"""The scenario of a browser tab, shared by all its pages and every control on them.

Four things are kept in the session of a browser tab, and nowhere else:

- the *router*: which of our rules the pages show as CarbonRouter;
- the *draft*: the raw value of each field, which may be impossible (no region chosen);
- the *scenario*: the last draft that could be made into one;
- the *preset* its distance is measured from.

Controls write to the draft and are filled from it on every run, wherever they stand, so that
leaving a page or hiding the controls loses nothing and two controls of one field agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.grid.knowledge import MEANING
from carbonrouter_core.routing.policies import ROUTER
from carbonrouter_core.scenario import FIELDS
from carbonrouter_core.words import figures as fmt

DEFAULT_PRESET = "Paper"
SCENARIO_KEY = "scenario"
PRESET_KEY = "preset_name"
ROUTER_KEY = "router"
DRAFT_KEY = "scenario_draft"
_PAGE_KEY, _FRESH_KEY = "page-drawn", "page-fresh"

DATA_SET_NAMES = {"sharegpt": "Chat", "claude-code": "Coding agents"}
COPIES_NAMES = {
    "latest": "only where the last turn ran",
    "all": "wherever a turn ran",
}
BASIS_NAMES = {
    "lifecycle": "lifecycle (plants and fuel chain included)",
    "direct": "direct (burning alone)",
}
KIND_NAMES = {
    "average": "average of all its power plants",
    "marginal": "marginal: the plant that one more kWh starts",
}
KNOWLEDGE_NAMES = MEANING
CEILING_NAMES = {"latency": "the whole turn", "ttft": "the first token"}
GAPS_NAMES = {
    "mooncake": "Mooncake (chat service)",
    "ragpulse": "RAGPulse (document assistant)",
}
CHOICE_NAMES: Mapping[str, Mapping[str, str]] = {
    "trace": DATA_SET_NAMES,
    "copies": COPIES_NAMES,
    "carbon_basis": BASIS_NAMES,
    "intensity_kind": KIND_NAMES,
    "intensity_knowledge": KNOWLEDGE_NAMES,
    "latency_ceiling_on": CEILING_NAMES,
    "gaps": GAPS_NAMES,
}
"""What the values of a field are called."""

MOST_NAMES = 4
"""More names than this are counted, not listed, where a change is described."""


# --- The scenario -----------------------------------------------------------------------------


def current() -> core.Scenario:
    """The scenario of this browser tab."""
    if SCENARIO_KEY not in st.session_state:
        adopt(core.PRESETS[DEFAULT_PRESET], preset_name=DEFAULT_PRESET)
    elif DRAFT_KEY not in st.session_state:
        adopt(st.session_state[SCENARIO_KEY])
    return st.session_state[SCENARIO_KEY]


def router() -> str:
    """The policy that this tab shows as CarbonRouter: a choice of view, not of the scenario."""
    return st.session_state.setdefault(ROUTER_KEY, ROUTER)


def adopt(scenario: core.Scenario, *, preset_name: str | None = None) -> None:
    """Make ``scenario`` the one of this tab, on this and every other page.

    ``preset_name`` says which preset its distance is measured from; None keeps the last.
    """
    st.session_state[SCENARIO_KEY] = scenario
    if preset_name is not None or PRESET_KEY not in st.session_state:
        st.session_state[PRESET_KEY] = preset_name or DEFAULT_PRESET
    st.session_state[DRAFT_KEY] = {name: getattr(scenario, name) for name in FIELDS}


def draft() -> dict[str, Any]:
    """The raw value of each field, by name."""
    current()
    return st.session_state[DRAFT_KEY]


def change(field: str, value: Any) -> None:
    """Write one field of the draft."""
    draft()[field] = value


def settle() -> core.Scenario:
    """Make the draft the scenario of this tab.

    Raises CarbonRouterError where it makes none; the scenario then stays as it was.
    """
    scenario = st.session_state[SCENARIO_KEY] = current().replace(**draft())
    for name, preset in core.PRESETS.items():
        if preset.key == scenario.key:  # chosen by hand
            st.session_state[PRESET_KEY] = name
    return scenario


def preset() -> core.Scenario:
    """The preset that the scenario's distance is measured from."""
    current()
    return core.PRESETS[st.session_state[PRESET_KEY]]


def nearest_preset(scenario: core.Scenario) -> str:
    """The preset with the fewest differences: where a scenario from elsewhere started from."""
    return min(core.PRESETS, key=lambda name: len(scenario.differences(core.PRESETS[name])))


# --- Controls ---------------------------------------------------------------------------------


def _keep(field: str, key: str, to_field: Callable[[Any], Any]) -> None:
    change(field, to_field(st.session_state[key]))


def note_page(title: str) -> None:
    """Note which page is drawn, before any of its widgets is."""
    st.session_state[_FRESH_KEY] = st.session_state.get(_PAGE_KEY) != title
    st.session_state[_PAGE_KEY] = title


def fill(key: str, value: Any) -> None:
    """Give the widget ``key`` its value before it is drawn.

    Only where it has another one: setting it moves the widget under the user's hand. And on a
    page that has just been opened: its widgets are new to the browser, and one that was filled
    on the page before, and never touched there, would begin at its lowest value.
    """
    fresh = st.session_state.get(_FRESH_KEY, True)
    if fresh or key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value


def bound(
    where: str,
    field: str,
    to_widget: Callable[[Any], Any] = lambda value: value,
    to_field: Callable[[Any], Any] = lambda value: value,
) -> dict[str, Any]:
    """Arguments that tie a widget with a ``value`` to a field of the draft, both ways; ``where`` it
    stands tells it from others of the same field.

    The value is given as the widget's default too: a browser that draws it late, after a second
    run, would begin at another one and send that back as a choice.
    """
    value = to_widget(draft()[field])
    return {"value": value, **_tied(where, field, value, to_field)}


def bound_choice(where: str, field: str, options: Sequence[Any]) -> dict[str, Any]:
    """The same for a widget that takes one of ``options`` by its ``index``."""
    value = draft()[field]
    return {"index": options.index(value), **_tied(where, field, value)}


def bound_choices(where: str, field: str) -> dict[str, Any]:
    """The same for a widget that takes several, whose argument is called ``default``."""
    value = list(draft()[field])
    return {"default": value, **_tied(where, field, value, tuple)}


def _tied(
    where: str, field: str, value: Any, to_field: Callable[[Any], Any] = lambda value: value
) -> dict[str, Any]:
    key = f"{where}_{field}"
    fill(key, value)
    return {"key": key, "on_change": _keep, "args": (field, key, to_field)}


# --- Distance from a preset, in words ---------------------------------------------------------


def distance(scenario: core.Scenario) -> tuple[str, list[str]]:
    """The preset the scenario started from, and each change from it in words."""
    for name, preset in core.PRESETS.items():
        if preset.key == scenario.key:
            return name, []
    name = st.session_state.get(PRESET_KEY, DEFAULT_PRESET)
    changes = scenario.differences(core.PRESETS[name])
    return name, [
        f"{field_name(field)} {change_words(field, before, now)}"
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
    "latency_ceiling_on": "ceiling on",
    "pue_overrides": "PUE",
    "user_mix": "users",
    "embodied": "embodied carbon",
    "intensity_knowledge": "what routers know",
    "own_intensity": "own series first",
    "gaps": "gap table",
    "gap_median_s": "gap median",
}


def field_name(field: str) -> str:
    """A scenario field as people call it."""
    return _FIELD_NAMES.get(field, field.replace("_", " "))


def change_words(field: str, before: Any, now: Any) -> str:
    """What became of a field: both values, or the names that came and went."""
    if isinstance(now, list):
        return _list_change(before, now)
    return f"{value_words(field, before)} \N{RIGHTWARDS ARROW} {value_words(field, now)}"


def value_words(field: str, value: Any) -> str:
    """A field's value, as plain JSON has it, in words."""
    if value is None or value == {}:
        return "equally in all" if field == "user_mix" else "none"
    if field == "idle_s":
        return fmt.minutes(value)
    if isinstance(value, list):
        return ", ".join(map(place, value))
    if field in CHOICE_NAMES:
        return CHOICE_NAMES[field].get(value, value)
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Mapping):
        return "; ".join(
            f"{place(name)}: {', '.join(map(place, item)) or 'nowhere'}"
            if isinstance(item, list)
            else f"{place(name)} {item:g}"
            for name, item in value.items()
        )
    if isinstance(value, float | int):
        unit = FIELDS[field]["unit"]
        return f"{value:g}{fmt.NARROW_SPACE}{unit}" if unit else f"{value:g}"
    return str(value)


def _list_change(before: list[str], now: list[str]) -> str:
    """Which names came and went, rather than two long lists."""
    changes = []
    for word, names in (
        ("without", [name for name in before if name not in now]),
        ("with", [name for name in now if name not in before]),
    ):
        if len(names) > MOST_NAMES:
            changes.append(f"{len(names)} {'fewer' if word == 'without' else 'more'}")
        elif names:
            changes.append(f"{word} {fmt.joined([place(name) for name in names])}")
    return ", ".join(changes) or "in another order"


def place(name: str) -> str:
    """A region by its city; any other name as it is."""
    region = core.load_catalog().regions.get(name)
    return region.city if region else name
