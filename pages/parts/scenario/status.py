"""What the choices of page Scenario come to: whether they can be run, what differs from the preset,
and the answer they give.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import pandas as pd
import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.replay.checks import Problem, problems
from carbonrouter_core.scenario import FIELDS, plain
from carbonrouter_core.words import figures as fmt
from pages.shared import answer, cache, page, state, tables, theme


def draw(shown: page.Page) -> None:
    """Everything beside the form, the quickest first."""
    wrong = _problems(shown)
    verdict = st.empty()
    with st.container(border=True):
        _differences()
    if wrong:
        with verdict.container():
            _cannot_run(wrong)
        return
    with verdict.container(border=True), page.guard():
        with page.busy("Replaying every conversation under both routers\N{HORIZONTAL ELLIPSIS}"):
            figures = cache.overview(shown.scenario, shown.router)
        _answer(shown, figures)


def _problems(shown: page.Page) -> list[Problem]:
    """Why the choices cannot be run: invalid values first, else all errors."""
    if shown.problem:
        return [Problem("", shown.problem)]
    return list(problems(shown.scenario, core.load_catalog()))


def _cannot_run(wrong: Sequence[Problem]) -> None:
    items = "".join(
        f"<li>{escape(fmt.sentence_case(error.message))}</li>" for error in dict.fromkeys(wrong)
    )
    st.html(
        '<div class="cr-problem" role="alert"><h2>These choices cannot be run</h2>'
        f"<ul>{items}</ul><p class='cr-muted'>Nothing is lost. Change a choice, undo one below, or "
        "go back to the preset.</p></div>"
    )


def _answer(shown: page.Page, figures: cache.Overview) -> None:
    """The result of these choices, in short."""
    summary, router = figures.summary, shown.router
    figure, words = answer.headline(figures.saving)
    ours, theirs = summary.loc[router], summary.loc[core.FAIRCARBON]
    mass = fmt.Mass.for_largest(float(summary["carbon_g"].max()))
    rows = (
        ("CO2e", *(mass.text(row["carbon_g"]) for row in (ours, theirs))),
        ("First token", *(fmt.duration(row["ttft_ms_mean"]) for row in (ours, theirs))),
        ("Whole turn", *(fmt.duration(row["latency_ms_mean"]) for row in (ours, theirs))),
        ("Quality", *(fmt.percent(100 * row["quality_mean"]) for row in (ours, theirs))),
    )
    st.html(
        '<h2 class="cr-title">The result of these choices</h2>'
        f'<p class="cr-answer" aria-live="polite"><b>{escape(figure)}</b> {escape(words)}</p>'
        f'<p class="cr-note">95 %: {fmt.between(*figures.saving[1:])}.</p>'
        + tables.html(("", theme.short(router), "FairCarbon"), rows)
    )
    for sentence in figures.unmet:
        page.note(sentence)
    st.page_link("pages/overview.py", label="See it on the Overview", icon=":material/eco:")


def _differences() -> None:
    """What the draft has changed from the preset, each with its way back."""
    preset, draft = state.preset(), state.draft()
    before, now = preset.to_dict(), _plain(draft)
    changed = [name for name in before if name != "name" and before[name] != now[name]]
    count = fmt.plural(len(changed), "difference") if changed else "No difference"
    st.html(f'<h2 class="cr-title">{count} from preset {escape(preset.name)}</h2>')
    for name in changed:
        row = st.container(horizontal=True, vertical_alignment="center")
        words = state.change_words(name, before[name], now[name])
        field = state.field_name(name)
        row.html(f'<p class="cr-change"><b>{escape(field)}</b> {escape(words)}</p>')
        row.button(
            "Undo",
            on_click=state.change,
            args=(name, getattr(preset, name)),
            key=f"undo_{name}",
            type="tertiary",
            help=f"Back to the preset's {field}",
        )


def _plain(draft: dict[str, object]) -> dict[str, object]:
    """The draft as plain values, as ``Scenario.to_dict`` has them; it may make no scenario."""
    return {name: plain(value) for name, value in draft.items()}


def listing(scenario: core.Scenario) -> None:
    """Every choice in words, to be shown to others."""
    texts = (
        (
            fmt.sentence_case(state.field_name(name)),
            state.value_words(name, value),
            str(FIELDS[name]["meaning"]),
        )
        for name, value in scenario.to_dict().items()
        if name != "name"
    )
    rows = [tuple(map(escape, row)) for row in texts]
    st.html(tables.html(("Choice", "Value", "What it is"), rows))


def replicas(scenario: core.Scenario, router: str) -> None:
    """What runs where: machines of each model on each GPU type, and what one holds."""
    with st.expander("What runs where: how many conversations share a machine"):
        try:
            prepared = cache.prepared_beside(scenario)
        except core.CarbonRouterError:
            page.note("Shown once the choices can be run.")
            return
        table = pd.DataFrame(
            [
                {
                    "Model": replica.model,
                    "GPUs": f"{replica.n_gpus} \N{MULTIPLICATION SIGN} {replica.gpu}",
                    "Together": replica.batch,
                    "Longest conversation (tokens)": replica.fit_tokens,
                    "Energy of a token (J)": replica.decode_j_per_token,
                    "Time of a token (ms)": replica.inter_token_ms,
                    "Basis": replica.basis + (", extrapolated" if replica.extrapolated else ""),
                }
                for replica in prepared.deployments.replicas
            ]
        )
        st.dataframe(
            table,
            hide_index=True,
            column_config={
                "Together": st.column_config.NumberColumn(
                    format="%.1f", help="Conversations answered together on one machine"
                ),
                "Longest conversation (tokens)": st.column_config.NumberColumn(format="localized"),
                "Energy of a token (J)": st.column_config.NumberColumn(format="%.3f"),
                "Time of a token (ms)": st.column_config.NumberColumn(format="%.1f"),
            },
        )
