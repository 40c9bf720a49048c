"""Where a scenario comes from and goes to: presets, names in the store, and JSON files."""

from __future__ import annotations

import re
from html import escape

import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.scenario import FIELDS
from carbonrouter_core.store.scenarios import StoredText
from carbonrouter_core.store.store import open_store
from carbonrouter_core.words import figures as fmt
from pages.parts.scenario import form
from pages.shared import state, stored, ways
from pages.shared.markdown import plain

PRESET_WORDS = {
    "Paper": "One copy of a conversation's notes, kept for an hour where the last turn ran.",
    "Prompt cache": "Every site that served keeps its copy for 10 minutes, as hosted APIs do.",
    "Long-lived cache": "Every site that served keeps its copy for an hour.",
}
MAX_FILE_BYTES = 1_000_000
CHOSEN, NOTICE = "scenario-chosen", "scenario-notice"


def draw() -> None:
    """The start of the page: presets, the name, saving, loading and files."""
    with st.container(border=True):
        _presets()
        _name_and_save()
        left, right = st.columns(2, gap="medium")
        with left, st.expander("Saved scenarios"):
            _saved()
        with right, st.expander("As a file (JSON)"):
            _files()
        _notice()


def _presets() -> None:
    key = "scenario_preset"
    state.fill(key, state.preset().name)
    bar = st.container(horizontal=True, vertical_alignment="bottom")
    bar.segmented_control(
        "Start from a preset",
        list(core.PRESETS),
        default=state.preset().name,
        key=key,
        required=True,
        on_change=_take_preset,
    )
    bar.button(
        f"Back to preset {state.preset().name}",
        on_click=_take_preset,
        disabled=not state.current().differences(state.preset()) and not _draft_is_wrong(),
        key="scenario-back",
    )
    st.html(f'<p class="cr-note">{escape(PRESET_WORDS[state.preset().name])}</p>')


def _draft_is_wrong() -> bool:
    """Whether the draft makes no valid scenario, so that the last valid one still applies."""
    return any(getattr(state.current(), name) != value for name, value in state.draft().items())


def _take_preset() -> None:
    name = st.session_state["scenario_preset"]
    state.adopt(core.PRESETS[name], preset_name=name)


# --- Names ------------------------------------------------------------------------------------


def _name_and_save() -> None:
    known, locked = stored.scenarios()
    scenario, name = state.current(), str(state.draft()["name"]).strip()
    bar = st.container(horizontal=True, vertical_alignment="bottom")
    bar.text_input(
        "Name",
        max_chars=FIELDS["name"]["max_length"],
        width=320,
        **state.bound(form.HERE, "name"),
    )
    is_saved = name in known and known[name].text == scenario.replace(name=name).to_json()
    bar.button(
        "Saved" if is_saved else "Save over it" if name in known else "Save",
        type="primary",
        on_click=_save,
        disabled=bool(locked) or is_saved,
        key="scenario-save",
        icon=":material/save:",
    )
    if locked:
        st.warning(plain(locked), icon=":material/lock:")


def _tell(text: str, *, wrong: bool = False) -> None:
    """Say on the next run what became of a click."""
    st.session_state[NOTICE] = (text, wrong)


def _notice() -> None:
    text, wrong = st.session_state.pop(NOTICE, ("", False))
    if text:
        (st.error if wrong else st.success)(plain(text))


def _save() -> None:
    try:
        scenario = state.settle()
        name = scenario.name.strip()
        if name in core.PRESETS and scenario.key != core.PRESETS[name].key:
            _tell(f"{name} is the name of a preset; give another name.", wrong=True)
            return
        scenario = scenario.replace(name=name)
        open_store().save_scenario(name, scenario.to_json(), replace=name in stored.scenarios()[0])
    except core.CarbonRouterError as error:
        _tell(f"Not saved: {error}", wrong=True)
        return
    state.adopt(scenario)
    st.session_state[CHOSEN] = name
    _tell(f"Saved as {name}.")


def _saved() -> None:
    known, _ = stored.scenarios()
    if not known:
        st.html(
            '<p class="cr-note">None yet. Give this scenario a name and save it; then change '
            "something and compare the two.</p>"
        )
        return
    if st.session_state.get(CHOSEN) not in known:
        st.session_state[CHOSEN] = next(iter(known))
    name = st.selectbox("Scenario", list(known), key=CHOSEN)
    saved = known[name]
    st.caption(f"Saved {saved.created_utc:%Y-%m-%d %H:%M} UTC")
    actions = st.container(horizontal=True)
    actions.button("Load", on_click=_load, args=(saved,), key="scenario-load")
    actions.button("Duplicate", on_click=_duplicate, args=(saved,), key="scenario-duplicate")
    if actions.button("Compare with this one", key="scenario-compare"):
        ways.compare_with(name)
    with actions.popover("Delete"):
        st.markdown(f"Delete **{plain(name)}**? The scenario on screen stays as it is.")
        st.button("Yes, delete it", on_click=_delete, args=(name,), key="scenario-delete")


def _load(saved: StoredText) -> None:
    try:
        scenario = core.Scenario.from_json(saved.text)
    except core.CarbonRouterError as error:
        _tell(f"{saved.name} cannot be loaded: {error} Nothing was changed.", wrong=True)
        return
    state.adopt(scenario, preset_name=state.nearest_preset(scenario))
    _tell(f"Loaded {saved.name}.")


def _duplicate(saved: StoredText) -> None:
    names, number = stored.scenarios()[0], 2
    copy = f"{saved.name} copy"
    while copy in names:
        copy, number = f"{saved.name} copy {number}", number + 1
    try:
        scenario = core.Scenario.from_json(saved.text).replace(name=copy)
        open_store().save_scenario(copy, scenario.to_json())
    except core.CarbonRouterError as error:
        _tell(f"Not duplicated: {error}", wrong=True)
        return
    state.adopt(scenario, preset_name=state.nearest_preset(scenario))
    st.session_state[CHOSEN] = copy
    _tell(f"Saved as {copy}, and loaded.")


def _delete(name: str) -> None:
    try:
        open_store().delete_scenario(name)
    except core.CarbonRouterError as error:
        _tell(f"Not deleted: {error}", wrong=True)
        return
    _tell(f"Deleted {name}.")


# --- Files ------------------------------------------------------------------------------------


def _files() -> None:
    scenario = state.current()
    st.download_button(
        "Download this scenario",
        scenario.to_json(),
        file_name=file_name(scenario),
        mime="application/json",
        on_click="ignore",
        key="scenario-download",
        icon=":material/download:",
    )
    st.file_uploader("Open a scenario file", type="json", key="scenario-file", on_change=_take_file)


def file_name(scenario: core.Scenario) -> str:
    """A file name that every system accepts, from the scenario's name."""
    words = re.sub(r"[^a-z0-9]+", "-", scenario.name.casefold()).strip("-")[:60]
    return f"carbonrouter-{words or 'scenario'}.json"


def _take_file() -> None:
    file = st.session_state["scenario-file"]
    if file is None:
        return
    try:
        scenario, left_out = read_scenario(file.getvalue())
    except core.CarbonRouterError as error:
        _tell(f"{file.name} was not opened, and nothing was changed. {error}", wrong=True)
        return
    state.adopt(scenario, preset_name=state.nearest_preset(scenario))
    text = f"Opened {file.name}."
    if left_out:
        names = fmt.joined([state.field_name(name) for name in left_out])
        text += f" It does not give {names}, taken from preset {state.DEFAULT_PRESET}."
    _tell(text)


def read_scenario(data: bytes) -> tuple[core.Scenario, list[str]]:
    """The scenario of a JSON file, and the fields it leaves to their defaults.

    Raises ScenarioError naming field and value.
    """
    if len(data) > MAX_FILE_BYTES:
        raise core.ScenarioError(
            f"The file has {len(data):,} bytes; a scenario has at most {MAX_FILE_BYTES:,}."
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise core.ScenarioError(
            f"The file is not UTF-8 text (byte {error.start:,}); a scenario is a JSON file."
        ) from error
    values = core.Scenario.parse(text)
    return core.Scenario.from_dict(values), [name for name in FIELDS if name not in values]
