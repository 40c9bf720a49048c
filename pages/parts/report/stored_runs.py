"""Stored runs in the store: name, note, open, compute again, compare, delete."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pandas as pd
import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.report import kept_runs
from carbonrouter_core.routing.policies import ROUTERS
from carbonrouter_core.store.catalogue import MAX_NAME
from carbonrouter_core.store.runs import MAX_NOTE, StoredRun
from carbonrouter_core.store.store import existing_store, open_store
from carbonrouter_core.words import figures as fmt
from pages.parts.report import work
from pages.parts.report.work import KEY, Subject
from pages.shared import cache, jobs, page, state, theme
from pages.shared.markdown import plain

CHOSEN, SECOND, MESSAGE = "run-chosen", "run-second", "run-told"
COMPARED_FIGURES = {
    "carbon_g": "Carbon, g CO2e",
    "recompute_g": "of which recomputed, g CO2e",
    "energy_kwh": "Energy, kWh",
    "moves_per_session": "Moves per session",
    "quality_mean": "Predicted quality",
    "ttft_ms_mean": "Time to first token, ms",
    "latency_ms_mean": "Latency, ms",
    "saving_vs_faircarbon_percent": "Saving against FairCarbon, %",
}


def draw(shown: page.Page) -> None:
    """The form that stores the current run, and the list of stored runs."""
    st.html('<h2 class="cr-title">Stored runs</h2>')
    page.note(
        "A stored run has its scenario, figures and decisions, and fingerprints of its data. It "
        "can be computed again, and the page then shows any difference."
    )
    if sentence := st.session_state.pop(MESSAGE, ""):
        st.success(plain(sentence))
    try:
        store = existing_store()
        runs = store.runs() if store else []
    except core.StoreError as error:
        st.warning(plain(str(error)), icon=":material/lock:")
        return
    _keep(shown)
    now = jobs.status(KEY)
    if now is not None and now.subject in (Subject("keep"), Subject("again")):
        jobs.watch(KEY)
    if not runs:
        page.note("None yet.")
        return
    _list(runs)
    chosen = st.selectbox(
        "Run", [run.id for run in runs], format_func=lambda run_id: _label(runs, run_id), key=CHOSEN
    )
    run = _by_id(runs, chosen)
    _facts(run)
    _actions(run)
    if len(runs) > 1:
        _compare(runs, run)


def say(text: str) -> None:
    """Say something above the list when it is drawn next."""
    st.session_state[MESSAGE] = text


def tell(check: kept_runs.Check) -> None:
    """What became of a run that was computed again."""
    same = check.same_decisions and not check.changed
    (st.success if same else st.warning)(plain(str(check)))


def _by_id(runs: Sequence[StoredRun], run_id: int) -> StoredRun:
    return next(run for run in runs if run.id == run_id)


def _label(runs: Sequence[StoredRun], run_id: int) -> str:
    return f"{run_id}: {_by_id(runs, run_id).name}"


def _keep(shown: page.Page) -> None:
    with st.form("keep-run", border=True):
        left, right = st.columns([1, 2])
        name = left.text_input("Name", shown.scenario.name, max_chars=MAX_NAME, key="run-name")
        note = right.text_input("Note", max_chars=MAX_NOTE, key="run-note")
        busy = KEY in st.session_state
        asked = st.form_submit_button(
            "Keep this run", disabled=bool(shown.problem) or busy, icon=":material/bookmark_add:"
        )
    if asked and not name.strip():
        st.error("Give the run a name.")
    elif asked:
        work.keep(shown.scenario, cache.main(shown.router), name, note)
        st.rerun()


def _list(runs: Sequence[StoredRun]) -> None:
    rows = [
        {
            "Run": run.id,
            "Name": run.name,
            "Note": run.note,
            "Kept (UTC)": f"{run.created_utc:%Y-%m-%d %H:%M}" if run.created_utc else "",
            "Trace": kept_runs.scenario_of(run).trace.replace("\\", "/").rpartition("/")[2],
            "Policies": ", ".join(
                theme.name(policy_id) for policy_id in kept_runs.policies_of(run)
            ),
            "Version": run.engine_version,
            "Seed": run.seed,
        }
        for run in runs
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True)


def _facts(run: StoredRun) -> None:
    summary = json.loads(run.summary_json)
    of_policies = []
    for policy_id in kept_runs.policies_of(run):
        figures = kept_runs.figures_of(run, policy_id)
        mass = fmt.Mass.for_largest(figures["carbon_g"])
        text = f"{theme.name(policy_id)}: {mass.text(figures['carbon_g'])} CO2e"
        saving = figures.get("saving_vs_faircarbon_percent")
        if policy_id != core.FAIRCARBON and saving is not None:
            text += f" ({fmt.less_or_more(saving)} than FairCarbon)"
        of_policies.append(text)
    hashes = ", ".join(f"{name} {value[:12]}" for name, value in run.data_hashes.items())
    st.caption(plain(f"{'; '.join(of_policies)}. Run {summary.get('run_id', '')}; {hashes}."))


def _actions(run: StoredRun) -> None:
    bar = st.container(horizontal=True)
    bar.button("Open its scenario", on_click=_open, args=(run,), key="run-open")
    if bar.button(
        "Compute again", key="run-again", disabled=KEY in st.session_state, icon=":material/replay:"
    ):
        work.run_again(run)
        st.rerun()
    with bar.popover("Name and note"):
        st.text_input("Name", run.name, max_chars=MAX_NAME, key=f"run-name-{run.id}")
        st.text_area("Note", run.note, max_chars=MAX_NOTE, key=f"run-note-{run.id}")
        st.button("Save", on_click=_rename, args=(run.id,), key="run-rename")
    with bar.popover("Delete"):
        st.markdown(f"Delete run {run.id}, **{plain(run.name)}**, with its decisions?")
        st.button("Yes, delete it", on_click=_delete, args=(run,), key="run-delete")


def _open(run: StoredRun) -> None:
    try:
        scenario = kept_runs.scenario_of(run)
    except core.CarbonRouterError as error:
        st.session_state[MESSAGE] = f"Run {run.id} cannot be opened: {error}"
        return
    state.adopt(scenario, preset_name=state.nearest_preset(scenario))
    for policy_id in kept_runs.policies_of(run):
        if policy_id in ROUTERS:
            st.session_state[state.ROUTER_KEY] = policy_id
            break
    st.session_state[MESSAGE] = f"The scenario of run {run.id} is now the one of every page."


def _rename(run_id: int) -> None:
    name, note = (st.session_state[f"run-{what}-{run_id}"] for what in ("name", "note"))
    try:
        open_store().update_run(run_id, name=name, note=note)
        st.session_state[MESSAGE] = f"Saved run {run_id}."
    except core.CarbonRouterError as error:
        st.session_state[MESSAGE] = f"Not saved: {error}"


def _delete(run: StoredRun) -> None:
    try:
        open_store().delete_run(run.id)
        st.session_state.pop(CHOSEN, None)
        st.session_state[MESSAGE] = f"Deleted run {run.id}, {run.name}."
    except core.CarbonRouterError as error:
        st.session_state[MESSAGE] = f"Not deleted: {error}"


def _compare(runs: Sequence[StoredRun], run: StoredRun) -> None:
    others = [other.id for other in runs if other.id != run.id]
    if st.session_state.get(SECOND) not in (None, *others):
        del st.session_state[SECOND]
    other = st.selectbox(
        "Compare with",
        others,
        index=None,
        placeholder="another run",
        format_func=lambda run_id: _label(runs, run_id),
        key=SECOND,
    )
    if other is None:
        return
    second = _by_id(runs, other)
    difference = kept_runs.difference(open_store(), run, second)
    inputs = [
        f"{state.field_name(name)} {state.value_words(name, was)} \N{RIGHTWARDS ARROW} "
        f"{state.value_words(name, now)}"
        for name, (was, now) in difference.inputs.items()
        if name in core.FIELDS
    ]
    st.caption(plain("Inputs: " + ("; ".join(inputs) if inputs else "all equal") + "."))
    if difference.rests_on:
        st.caption(plain("Computed from another state of: " + "; ".join(difference.rests_on) + "."))
    if not difference.figures:
        st.info("The two runs have no policy in common.")
    for policy_id, figures in difference.figures.items():
        rows = [
            {
                theme.name(policy_id): label,
                f"Run {run.id}": fmt.significant(figures[name][0], 4),
                f"Run {second.id}": fmt.significant(figures[name][1], 4),
                "Difference": _change(*figures[name]),
            }
            for name, label in COMPARED_FIGURES.items()
            if name in figures
        ]
        st.dataframe(pd.DataFrame(rows), hide_index=True)
        if difference.turns and policy_id in difference.turns:
            common, elsewhere = difference.turns[policy_id]
            st.caption(
                f"{fmt.number(elsewhere)} of {fmt.plural(common, 'turn')} in both runs are served "
                "elsewhere."
            )


def _change(first: float | None, second: float | None) -> str:
    if first is None or second is None:
        return fmt.NOT_AVAILABLE
    change = fmt.change_percent(second, first)
    return fmt.NOT_AVAILABLE if change is None else fmt.percent(change, signed=True)
