"""What page Traffic data shows: the report of a checked file, and the traces that there are."""

from __future__ import annotations

import tempfile
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.progress import Progress
from carbonrouter_core.replay.as_served import NameMatch, NamesSaid, has_served, name_matches
from carbonrouter_core.replay.run import run_as_served
from carbonrouter_core.results.comparison import LENGTH_BUCKETS
from carbonrouter_core.results.observed import (
    Against,
    CacheError,
    IdleFit,
    against_as_served,
    cache_error,
    can_check_cache,
    fit_idle_s,
)
from carbonrouter_core.routing.policies import AS_SERVED, ROUTER
from carbonrouter_core.store.store import open_store
from carbonrouter_core.store.traces import StoredTrace
from carbonrouter_core.traces.builtin import BUILTIN_TRACES
from carbonrouter_core.traces.importers import IMPORTERS
from carbonrouter_core.traces.importers.base import CachedTokens, ImportOptions, Prompts
from carbonrouter_core.traces.plausible import UNITS_S
from carbonrouter_core.traces.report import TraceReport
from carbonrouter_core.traces.schema import LONG_SESSION_TURNS
from carbonrouter_core.words import figures as fmt
from pages.parts.traffic_data import names
from pages.shared import cache, controls, findings, jobs, page, stored
from pages.shared.markdown import plain

PREVIEW_ROWS = 200
OBSERVED = "trace-observed-for"

FROM_CONTENT = "Found from the content"
CACHED_NAMES: dict[CachedTokens, str] = {
    "included": "hold the cached tokens",
    "excluded": "leave out the cached tokens",
}
PROMPT_NAMES: dict[Prompts, str] = {
    "whole": "holds the turns before it",
    "incremental": "holds only the new message",
}


# --- Asking ----------------------------------------------------------------------------------


def ask_what_is_not_said() -> tuple[str | None, ImportOptions]:
    """What the user knows of a file that the file does not say: format, region, dates."""
    with st.expander("What the file does not say"):
        chosen = st.selectbox(
            "Format",
            ["", *IMPORTERS],
            format_func=lambda name: IMPORTERS[name].label if name else FROM_CONTENT,
            key="trace-format",
        )
        regions = core.load_catalog().regions
        region = st.selectbox(
            "Region that served, where the log names none",
            ["", *regions],
            format_func=lambda name: regions[name].city if name else "Not known",
            key="trace-region",
        )
        keep = st.toggle(
            "Keep the dates of the log",
            value=True,
            key="trace-dates",
            help="Off: only the times within each session are kept, so that any window can be "
            "used. Carbon intensity comes with this program for 2021 to 2024.",
        )
        cached = st.selectbox(
            "Prompt counts",
            [None, *CACHED_NAMES],
            format_func=lambda name: CACHED_NAMES[name] if name else FROM_CONTENT,
            key="trace-cached",
            help="OpenAI counts cached tokens in the prompt, Anthropic beside it.",
        )
        prompts = st.selectbox(
            "Each prompt",
            list(PROMPT_NAMES),
            format_func=PROMPT_NAMES.__getitem__,
            key="trace-prompts",
        )
        timezone = st.selectbox(
            "Time zone of times that name none",
            ["", *sorted(zoneinfo.available_timezones())],
            format_func=lambda name: name or "UTC",
            key="trace-timezone",
        )
        unit = st.selectbox(
            "Unit of times that count from a start",
            [None, *UNITS_S],
            format_func=lambda name: name or FROM_CONTENT,
            key="trace-unit",
        )
    return chosen or None, ImportOptions(
        served_region=region or None,
        keep_dates=keep,
        cached_tokens=cached,
        prompts=prompts,
        timezone=timezone or None,
        time_unit=unit,
    )


# --- The report ------------------------------------------------------------------------------


def show_report(report: TraceReport) -> None:
    """The validation report: what was read, what was guessed, what is wrong and where."""
    for warning in report.warnings:
        st.warning(plain(warning[:1].upper() + warning[1:]) + ".", icon=":material/warning:")
    if report.refused:
        st.error(
            f"{fmt.plural(report.refused, 'row')} cannot be right, so nothing can be stored. "
            f"The first: {plain(report.first_refusal)}. "
            "Mend what is listed below and bring the file again.",
            icon=":material/block:",
        )
    elif not report.turns:
        st.error("There are no turns in this file; there is nothing to route.")
    elif report.unreadable:
        st.warning(
            f"{fmt.plural(report.unreadable, 'record')} cannot be read; the rest is sound. You "
            "can mend the file, or store what could be read.",
            icon=":material/warning:",
        )
    else:
        sound = (
            "The file can be stored." if report.warnings else "The file is sound and can be stored."
        )
        st.success(sound, icon=":material/check_circle:")
    st.markdown(f"**{plain(report.format_label)}**: {plain(report.format_reason)}.")
    figures = st.container(horizontal=True, key="trace-figures")
    share = report.long_session_share
    for label, value in (
        ("Rows read", fmt.number(report.rows_read)),
        ("Turns", fmt.number(report.turns)),
        ("Sessions", fmt.number(report.sessions)),
        ("Repaired", fmt.number(report.count("repaired"))),
        ("Refused", fmt.number(report.refused + report.unreadable)),
        ("Left out", fmt.number(report.count("left out"))),
        (
            f"Sessions over {LONG_SESSION_TURNS} turns",
            fmt.NOT_AVAILABLE if share is None else fmt.percent(100 * share),
        ),
    ):
        figures.metric(label, value, width="content")
    st.markdown(f"**Time:** {plain(report.span)}.")
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown("**Turns a session**")
        st.dataframe(_lengths(report), hide_index=True, key="trace-lengths")
    with right:
        st.markdown("**What was assumed**")
        for guess in report.guesses:
            st.markdown(f"- {plain(guess)}")
        st.markdown(f"- {plain(_observed_sentence(report))}")
    findings.show(report.findings, "trace-findings")


def _observed_sentence(report: TraceReport) -> str:
    if not (report.turns_with_cached or report.turns_with_model):
        return "the file does not say how its turns were served"
    return (
        f"the file says which model served {report.turns_with_model:,} turns, in which region "
        f"{report.turns_with_region:,}, and how many tokens were cached on "
        f"{report.turns_with_cached:,}"
    )


def _lengths(report: TraceReport) -> pd.DataFrame:
    counts = report.turns_per_session
    rows = []
    for label, fewest, most in LENGTH_BUCKETS:
        chosen = counts[fewest : None if most is None else most + 1]
        turns = sum((fewest + i) * int(count) for i, count in enumerate(chosen))
        rows.append(
            {
                "Turns": label,
                "Sessions": int(chosen.sum()),
                "Share of turns": fmt.percent(100 * turns / max(1, report.turns)),
            }
        )
    return pd.DataFrame(rows)


# --- Using a trace ---------------------------------------------------------------------------


def use(name: str, first_utc_s: float | None, last_utc_s: float | None) -> None:
    """Make the trace the data set of this tab's scenario; dates bring their window along."""
    changes: dict[str, Any] = {"trace": name}
    if first_utc_s is not None and last_utc_s is not None:
        first = datetime.fromtimestamp(first_utc_s, UTC).date()
        last = datetime.fromtimestamp(last_utc_s, UTC).date()
        changes |= {
            "window_start": first,
            "window_days": min(366, (last - first) // timedelta(days=1) + 1),
        }
    controls.adopt(controls.current().replace(**changes))


# --- What there is ---------------------------------------------------------------------------


def table(own: list[StoredTrace]) -> pd.DataFrame:
    """One row a trace, those of the user first."""
    rows = [
        {
            "Name": trace.name,
            "Turns": trace.turns,
            "Sessions": trace.sessions,
            "Format": trace.report["format_label"],
            "Time": trace.report["span"],
            "Stored": trace.created_utc.strftime("%Y-%m-%d %H:%M UTC"),
        }
        for trace in own
    ]
    for name, label in BUILTIN_TRACES.items():
        trace = core.find_trace(name)
        rows.append(
            {
                "Name": name,
                "Turns": trace.n_turns,
                "Sessions": trace.n_sessions,
                "Format": "built in: " + label.partition(": ")[0].lower(),
                "Time": "starts are drawn when it is placed in a window",
                "Stored": "",
            }
        )
    return pd.DataFrame(rows)


def delete(name: str) -> None:
    """Delete a stored trace; a scenario that used it goes back to the built-in chats."""
    open_store().delete_trace(name)
    if controls.current().trace == name:
        controls.adopt(controls.current().replace(trace="sharegpt"))
    # figures are kept under the trace's name, which another trace may have next
    cache.forget()


@st.cache_data(max_entries=4, show_spinner="Writing the file")
def exported(name: str, stored_at: datetime) -> bytes:
    """A stored trace as Parquet. ``stored_at`` tells it from another one of the same name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.parquet"
        open_store().export_trace(name, path)
        return path.read_bytes()


# --- What was observed -----------------------------------------------------------------------


@dataclass(frozen=True)
class Observed:
    """What a log says of its own routing; what it does not say is None."""

    against: Against | None
    notes: tuple[str, ...]
    error: CacheError | None
    fit: IdleFit | None
    matches: tuple[NameMatch, ...] = ()


@st.cache_resource(max_entries=8, show_spinner=False)
def _observe(
    scenario_key: str,
    said_key: str,
    _scenario: core.Scenario,
    _said: NamesSaid,
    _progress: Progress,
) -> Observed:
    prepared = core.prepare(_scenario)
    trace = prepared.placed.trace
    against: Against | None = None
    notes: tuple[str, ...] = ()
    matches: tuple[NameMatch, ...] = ()
    if has_served(trace):
        _said = names.in_log(_said, trace)
        matches = name_matches(prepared, _said)
        runs = {
            AS_SERVED.id: run_as_served(prepared, said=_said),
            ROUTER: core.run_policy(prepared, ROUTER, _progress),
        }
        against = against_as_served(core.Comparison(prepared, runs), ROUTER)
        notes = runs[AS_SERVED.id].notes
    if not can_check_cache(prepared.placed):
        return Observed(against, notes, None, None, matches)
    error = cache_error(prepared.placed, _scenario.idle_s, _scenario.copies)
    return Observed(against, notes, error, fit_idle_s(prepared.placed), matches)


def show_observed(scenario: core.Scenario) -> None:
    """What the log's own routing emitted against CarbonRouter, and the cache model's error."""
    key = cache.key_of(scenario)
    said = names.said(scenario)
    said_key = repr((sorted(said.models.items()), sorted(said.regions.items())))
    work = partial(_observe, key, said_key, scenario, said)
    observed = jobs.wait(("observed", key, said_key), "Replaying the log", work)
    if observed.against is not None:
        against = observed.against
        mass = fmt.Mass.for_largest(against.as_served_g)
        if against.saving.value_percent is None:
            st.markdown("No session of this log can be charged in full in this scenario.")
        else:
            less = fmt.less_or_more(against.saving.value_percent)
            st.markdown(
                f"On {against.sessions:,} of {against.of_sessions:,} sessions, those that the "
                f"scenario can serve in full, your own routing emitted "
                f"**{mass.text(against.as_served_g)} CO2e**; CarbonRouter would have emitted "
                f"**{mass.text(against.policy_g)}**, {less}"
                f" (95 % interval {fmt.between(*against.saving[1:])})."
            )
        page.note(*(plain_html(note) for note in observed.notes))
        names.ask(observed.matches, scenario)
        page.note("Page Session replay shows it turn by turn: choose As served there.")
    if observed.against is None and observed.error is None:
        st.markdown(
            "The log reports cached tokens only on turns without a history: they say nothing "
            "about the cache model."
        )
    if observed.error is not None and observed.fit is not None:
        fit = observed.fit
        st.markdown(f"**Cache model against the log:** {plain(str(observed.error))}.")
        st.markdown(
            f"**Best fit:** a cache lifetime of {fmt.minutes(fit.lowest_idle_s)} to "
            f"{fmt.minutes(fit.highest_idle_s)}, kept {controls.COPIES_NAMES[fit.best.copies]}; "
            f"mean absolute error {fmt.number(fit.best.mean_absolute_error_tokens)} tokens."
        )


def plain_html(text: str) -> str:
    """``text`` for a note, which may hold markup of ours but not of a log."""
    return escape(text)


# --- The list, and what can be done with one ------------------------------------------------


def show_stored(scenario: core.Scenario) -> None:
    """The traces there are; preview, use, export and delete one."""
    own, locked = stored.traces()
    st.html('<h2 class="cr-title">Traffic that can be used</h2>')
    if locked:
        st.warning(plain(locked), icon=":material/lock:")
    thousands = st.column_config.NumberColumn(format="localized")
    st.dataframe(
        table(own),
        hide_index=True,
        key="trace-table",
        column_config={"Turns": thousands, "Sessions": thousands},
    )
    by_name = {trace.name: trace for trace in own}
    names = [*by_name, *BUILTIN_TRACES]
    if st.session_state.get("trace-chosen") not in names:
        st.session_state["trace-chosen"] = names[0]
    name = st.selectbox("Trace", names, key="trace-chosen")
    trace = by_name.get(name)
    actions = st.container(horizontal=True)
    if actions.button("Use in the scenario", disabled=scenario.trace == name, key="trace-take"):
        use(name, trace.first_utc_s if trace else None, trace.last_utc_s if trace else None)
        st.rerun()
    if trace is not None:
        actions.download_button(
            "Export as Parquet",
            lambda: exported(trace.name, trace.created_utc),
            file_name="trace.parquet",
            on_click="ignore",
            key="trace-export",
        )
        with actions.popover("Delete"):
            st.markdown(f"Delete **{plain(name)}** and free its space?")
            if st.button("Yes, delete it", key="trace-delete"):
                delete(name)
                st.rerun()
    _preview(name, trace)
    if trace is not None and scenario.trace == name:
        _observed(scenario, trace)


def _preview(name: str, own: StoredTrace | None) -> None:
    with st.expander("First turns"):
        if own is not None:
            shown = open_store().trace_rows(name, PREVIEW_ROWS).to_pandas()
        else:
            trace = core.find_trace(name)
            rows = slice(0, PREVIEW_ROWS)
            shown = pd.DataFrame(
                {
                    "session": [trace.session_ids[i] for i in trace.session_index[rows]],
                    "turn": trace.turn[rows],
                    "new_prompt_tokens": trace.new_prompt_tokens[rows],
                    "history_tokens": trace.history_tokens[rows],
                    "output_tokens": trace.output_tokens[rows],
                }
            )
        st.dataframe(shown.dropna(axis="columns", how="all"), hide_index=True, key="trace-preview")
        page.note(f"At most {PREVIEW_ROWS} turns are shown.")


def _observed(scenario: core.Scenario, trace: StoredTrace) -> None:
    report = trace.report
    if not (report["turns_with_served_region"] or report["turns_with_observed_cache"]):
        return
    with st.expander("What your own routing emitted"):
        if st.button("Charge the log as it was served", key="trace-observed"):
            st.session_state[OBSERVED] = cache.key_of(scenario)
        if st.session_state.get(OBSERVED) == cache.key_of(
            scenario
        ):  # whatever is clicked meanwhile
            with page.guard(), page.busy("Replaying the log\N{HORIZONTAL ELLIPSIS}"):
                show_observed(scenario)
