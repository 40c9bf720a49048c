"""What came of a sweep, in words and as tables that can be taken away."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from html import escape
from typing import Any

import pandas as pd

from carbonrouter_core.results.comparison import Interval
from carbonrouter_core.scenario import FIELDS
from carbonrouter_core.studies import sensitivity
from carbonrouter_core.studies.inputs import SWEEP_INPUTS, SweepInput
from carbonrouter_core.studies.sensitivity import Swing
from carbonrouter_core.studies.sweep import Outcome, Sweep
from carbonrouter_core.words import answer
from carbonrouter_core.words import figures as fmt
from pages.shared import state, theme
from pages.shared.studies import Results, Study

HALF_WORDS = {
    "test": "of the half that the routers did not learn from",
    "all": "of both halves, so also of sessions that the routers learned from",
}


def kind(swept: SweepInput) -> str:
    """Whether an input is the user's to choose."""
    return "measured" if swept.measured else "chosen"


def value_words(swept: SweepInput, value: Any) -> str:
    """A value of an input with its unit."""
    if swept.id in FIELDS:
        plain = value.isoformat() if isinstance(value, date) else value
        return state.value_words(swept.id, plain)
    return f"{value:g}{fmt.NARROW_SPACE}{swept.unit}".rstrip()


def names(study: Study) -> tuple[str, str]:
    """The policy and its baseline, within a sentence."""
    return theme.in_text(study.policy_id), theme.in_text(study.question.baseline)


def base(results: Results, outcome: Outcome) -> str:
    """The saving as the scenario stands, how sure it is, and of which sessions. HTML."""
    study = results.study
    ours, theirs = names(study)
    saving = outcome.savings[study.policy_id]
    sessions = outcome.figures[study.policy_id]["sessions"]
    compared = answer.compared(saving.value_percent, theirs)
    text = f"As the scenario stands, {ours} emits <b>{compared}</b>"
    if fmt.known(saving.low_percent):
        text += f" (95 % interval over sessions: {fmt.between(*saving[1:])})"
    drawn = "" if study.question.sample is None else " sampled"
    text += f", on {fmt.number(sessions)}{drawn} sessions {HALF_WORDS[study.question.half]}."
    if study.question.sample is not None:
        text += (
            " A sample shows which inputs matter. The saving of all sessions can be anywhere in "
            "its interval."
        )
    return text


# --- One at a time ----------------------------------------------------------------------------


def bars(results: Results) -> list[Swing]:
    """The bars of the inputs of which both values have come; none before the base has."""
    outcomes = results.in_order()
    if outcomes[0] is None:
        return []
    ready, chosen = [outcomes[0]], []
    for number, name in enumerate(SWEEP_INPUTS):
        low, high = outcomes[1 + 2 * number], outcomes[2 + 2 * number]
        if low is not None and high is not None:
            ready += [low, high]
            chosen.append(name)
    return sensitivity.swings(ready, results.study.policy_id, chosen) if chosen else []


def tornado_table(shown: Sequence[Swing]) -> pd.DataFrame:
    """One row an input: between which values, why those, and what became of the saving."""
    return pd.DataFrame(
        [
            {
                "Input": bar.input.label,
                "Is": kind(bar.input),
                "Low": value_words(bar.input, bar.input.low),
                "High": value_words(bar.input, bar.input.high),
                "Saving at low (%)": bar.low_percent,
                "Saving at high (%)": bar.high_percent,
                "Points": bar.span_percent,
                "Why these values": bar.input.why,
                "Cannot run": "; ".join(
                    dict.fromkeys(outcome.error for outcome in (bar.low, bar.high) if outcome.error)
                ),
            }
            for bar in shown
        ]
    )


# --- Sweeps -----------------------------------------------------------------------------------


def sweep_table(results: Results) -> pd.DataFrame:
    """One row a point that has come, in order: values, saving with its interval, why not."""
    study = results.study
    rows = []
    for values, outcome in zip(settings(study), results.in_order(), strict=True):
        if outcome is None:
            continue
        saving = outcome.savings.get(study.policy_id, Interval(None, None, None))
        row: dict[str, Any] = {
            SWEEP_INPUTS[axis.input].label: value_words(SWEEP_INPUTS[axis.input], value)
            for axis, value in zip(study.axes, values, strict=True)
        }
        rows.append(
            row
            | {
                "Saving (%)": saving.value_percent,
                "From (%)": saving.low_percent,
                "To (%)": saving.high_percent,
                "Cannot run": outcome.error,
            }
        )
    return pd.DataFrame(rows)


def settings(study: Study) -> list[tuple[Any, ...]]:
    """The values of each point of a sweep over axes, in order."""
    return Sweep(study.scenario, study.axes, study.question).settings()


def sentences(results: Results) -> str:
    """Where the saving is largest and smallest, and whether it turns. HTML."""
    study = results.study
    known = [
        (saving, values)
        for values, outcome in zip(settings(study), results.in_order(), strict=True)
        if outcome is not None
        and (saving := sensitivity.saving_of(outcome, study.policy_id)) is not None
    ]
    if not known:
        return "None of these values can run."
    (worst, at_worst), (best, at_best) = (
        min(known, key=lambda end: end[0]),
        max(known, key=lambda end: end[0]),
    )
    ours, theirs = names(study)
    text = (
        f"{ours} against {theirs}: from <b>{fmt.less_or_more(worst)}</b> CO2e at "
        f"{_where(study, at_worst)} to <b>{fmt.less_or_more(best)}</b> at {_where(study, at_best)}."
    )
    losing = sum(saving < 0 for saving, _ in known)
    if losing:
        text += f" It loses at {fmt.number(losing)} of {fmt.number(len(known))}."
    return text


def _where(study: Study, values: Sequence[Any]) -> str:
    return escape(
        fmt.joined(
            [
                f"{sensitivity.label_in_text(SWEEP_INPUTS[axis.input])} "
                f"{value_words(SWEEP_INPUTS[axis.input], value)}"
                for axis, value in zip(study.axes, values, strict=True)
            ]
        )
    )


# --- Search and draws -------------------------------------------------------------------------


def looked_at(results: Results) -> list[tuple[float, Outcome]]:
    """What a search has run so far, by value of its input, ascending."""
    swept = SWEEP_INPUTS[results.study.search]
    return sorted(
        ((float(swept.get(outcome.point)), outcome) for outcome in results.outcomes.values()),
        key=lambda pair: pair[0],
    )


def search_table(results: Results) -> pd.DataFrame:
    """A row for each value that was computed."""
    swept = SWEEP_INPUTS[results.study.search]
    return pd.DataFrame(
        [
            {
                swept.label: value_words(swept, value),
                "Saving (%)": sensitivity.saving_of(outcome, results.study.policy_id),
                "Cannot run": outcome.error,
            }
            for value, outcome in looked_at(results)
        ]
    )


def search_words(results: Results) -> str:
    """Where the sign changes, and what it does not say. HTML."""
    if results.break_even is None:
        return "Searching\N{HORIZONTAL ELLIPSIS}"
    text = f"<b>{escape(results.break_even.in_words(*names(results.study)))}</b>"
    if results.break_even.crossings:
        text += (
            " There the best estimate of the saving is 0. Near it the interval over sessions has "
            "both signs."
        )
    return text + (
        f" {sensitivity.SEARCH_POINTS} evenly spaced values were computed first. If the sign "
        "changes twice between two of them, the search does not find it."
    )


def drawn(results: Results) -> list[float]:
    """The savings of the finished draws, in percent."""
    outcomes = [outcome for outcome in results.in_order()[1:] if outcome is not None]
    savings = [sensitivity.saving_of(outcome, results.study.policy_id) for outcome in outcomes]
    return [saving for saving in savings if saving is not None]


def draws_words(results: Results) -> str:
    """The interval over the draws, beside what it leaves out. HTML."""
    study = results.study
    outcomes = [outcome for outcome in results.in_order() if outcome is not None]
    middle = sensitivity.factor_interval(outcomes, study.policy_id)
    ours, theirs = names(study)
    number = len(outcomes) - 1
    if not fmt.known(middle.low_percent):
        return "There are too few draws for an interval yet."
    over = outcomes[0].savings[study.policy_id]
    text = (
        f"With every measured factor drawn within its range, {ours} emits "
        f"<b>{fmt.between(middle.low_percent, middle.high_percent)}</b> than {theirs} in the "
        f"middle 95 % of {fmt.number(number)} draws; as measured, "
        f"{fmt.less_or_more(middle.value_percent)}."
    )
    if fmt.known(over.low_percent):
        text += (
            f" The interval over sessions ({fmt.between(*over[1:])}) is not included: it is "
            "about chance in the traffic, this range about errors of the factors."
        )
    losing = sum(saving < 0 for saving in drawn(results))
    if losing:
        text += f" It loses in {fmt.number(losing)} of the draws."
    return text


def draws_table(results: Results) -> pd.DataFrame:
    """One row a draw: the factors and the saving."""
    rows = [
        outcome.point.factors.to_dict()
        | {
            "saving_percent": sensitivity.saving_of(outcome, results.study.policy_id),
            "cannot_run": outcome.error,
        }
        for outcome in results.in_order()
        if outcome is not None
    ]
    return pd.DataFrame(rows)


def ranges_table() -> pd.DataFrame:
    """Between which values each measured factor is drawn, and why."""
    return pd.DataFrame(
        [
            {
                "Factor": swept.label,
                "From": value_words(swept, swept.low),
                "To": value_words(swept, swept.high),
                "Why": swept.why,
            }
            for swept in SWEEP_INPUTS.values()
            if swept.measured
        ]
    )
