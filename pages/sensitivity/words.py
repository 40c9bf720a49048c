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
from carbonrouter_core.words import figures as fmt
from pages.shared import state, theme
from pages.shared.sweep_jobs import Asked, Run

HALF_WORDS = {
    "test": "of the half that nothing was learned from",
    "all": "of both halves, so also of sessions that the routers learned from",
}


def kind(one: SweepInput) -> str:
    """Whether an input is the user's to choose."""
    return "measured" if one.measured else "chosen"


def value_words(one: SweepInput, value: Any) -> str:
    """A value of an input with its unit."""
    if one.id in FIELDS:
        plain = value.isoformat() if isinstance(value, date) else value
        return state.value_words(one.id, plain)
    return f"{value:g}{fmt.NARROW}{one.unit}".rstrip()


def names(asked: Asked) -> tuple[str, str]:
    """The policy and what it is held against, within a sentence."""
    return theme.in_text(asked.policy_id), theme.in_text(asked.question.baseline)


def base(run: Run, outcome: Outcome) -> str:
    """The saving as the scenario stands, how sure it is, and of which sessions. HTML."""
    asked = run.asked
    ours, theirs = names(asked)
    saving = outcome.savings[asked.policy_id]
    sessions = outcome.figures[asked.policy_id]["sessions"]
    text = (
        f"As the scenario stands, {ours} emits <b>{fmt.less_or_more(saving.value_percent)}</b> "
        f"CO2e than {theirs}"
    )
    if fmt.less_or_more(saving.value_percent) == "as much":
        text = f"As the scenario stands, {ours} emits <b>as much</b> CO2e as {theirs}"
    if fmt.known(saving.low_percent):
        text += f" (95 % interval over sessions: {fmt.between(*saving[1:])})"
    drawn = "" if asked.question.sample is None else " sampled"
    text += f", on {fmt.number(sessions)}{drawn} sessions {HALF_WORDS[asked.question.half]}."
    if asked.question.sample is not None:
        text += (
            " A sample is for finding out what matters: the saving of all sessions can lie "
            "anywhere in its interval."
        )
    return text


# --- One at a time ----------------------------------------------------------------------------


def bars(run: Run) -> list[Swing]:
    """The bars of the inputs of which both values have come; none before the base has."""
    outcomes = run.outcomes()
    if outcomes[0] is None:
        return []
    ready, chosen = [outcomes[0]], []
    for number, name in enumerate(SWEEP_INPUTS):
        low, high = outcomes[1 + 2 * number], outcomes[2 + 2 * number]
        if low is not None and high is not None:
            ready += [low, high]
            chosen.append(name)
    return sensitivity.swings(ready, run.asked.policy_id, chosen) if chosen else []


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
                    dict.fromkeys(one.error for one in (bar.low, bar.high) if one.error)
                ),
            }
            for bar in shown
        ]
    )


# --- Sweeps -----------------------------------------------------------------------------------


def sweep_table(run: Run) -> pd.DataFrame:
    """One row a point that has come, in order: values, saving with its interval, why not."""
    asked = run.asked
    rows = []
    for values, outcome in zip(settings(asked), run.outcomes(), strict=True):
        if outcome is None:
            continue
        saving = outcome.savings.get(asked.policy_id, Interval(None, None, None))
        row: dict[str, Any] = {
            SWEEP_INPUTS[axis.input].label: value_words(SWEEP_INPUTS[axis.input], value)
            for axis, value in zip(asked.axes, values, strict=True)
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


def settings(asked: Asked) -> list[tuple[Any, ...]]:
    """The values of each point of a sweep over axes, in order."""
    return Sweep(asked.scenario, asked.axes, asked.question).settings()


def sweep_words(run: Run) -> str:
    """Where the saving is largest and smallest, and whether it turns. HTML."""
    asked = run.asked
    known = [
        (saving, values)
        for values, outcome in zip(settings(asked), run.outcomes(), strict=True)
        if outcome is not None
        and (saving := sensitivity.saving_of(outcome, asked.policy_id)) is not None
    ]
    if not known:
        return "None of these values can run."
    (worst, at_worst), (best, at_best) = (
        min(known, key=lambda one: one[0]),
        max(known, key=lambda one: one[0]),
    )
    ours, theirs = names(asked)
    text = (
        f"{ours} against {theirs}: from <b>{fmt.less_or_more(worst)}</b> CO2e at "
        f"{_where(asked, at_worst)} to <b>{fmt.less_or_more(best)}</b> at {_where(asked, at_best)}."
    )
    losing = sum(saving < 0 for saving, _ in known)
    if losing:
        text += f" It loses at {fmt.number(losing)} of {fmt.number(len(known))}."
    return text


def _where(asked: Asked, values: Sequence[Any]) -> str:
    return escape(
        fmt.joined(
            [
                f"{sensitivity.label_in_text(SWEEP_INPUTS[axis.input])} "
                f"{value_words(SWEEP_INPUTS[axis.input], value)}"
                for axis, value in zip(asked.axes, values, strict=True)
            ]
        )
    )


# --- Search and draws -------------------------------------------------------------------------


def looked_at(run: Run) -> list[tuple[float, Outcome]]:
    """What a search has run so far, by value of its input, ascending."""
    one = SWEEP_INPUTS[run.asked.search]
    return sorted(
        ((float(one.get(outcome.point)), outcome) for outcome in list(run.seen.values())),
        key=lambda pair: pair[0],
    )


def search_table(run: Run) -> pd.DataFrame:
    """One row a value that was looked at."""
    one = SWEEP_INPUTS[run.asked.search]
    return pd.DataFrame(
        [
            {
                one.label: value_words(one, value),
                "Saving (%)": sensitivity.saving_of(outcome, run.asked.policy_id),
                "Cannot run": outcome.error,
            }
            for value, outcome in looked_at(run)
        ]
    )


def search_words(run: Run) -> str:
    """Where the sign changes, and what it does not say. HTML."""
    if run.found is None:
        return "Searching\N{HORIZONTAL ELLIPSIS}"
    text = f"<b>{escape(run.found.in_words(*names(run.asked)))}</b>"
    if run.found.crossings:
        text += (
            " By the best estimate of the saving; near there its interval over sessions has both "
            "signs."
        )
    return text + (
        f" {sensitivity.SEARCH_POINTS} evenly spaced values were looked at first; a change there "
        "and back between two of them would not be seen."
    )


def drawn(run: Run) -> list[float]:
    """The savings of the draws that have come, in percent."""
    outcomes = [one for one in run.outcomes()[1:] if one is not None]
    savings = [sensitivity.saving_of(one, run.asked.policy_id) for one in outcomes]
    return [saving for saving in savings if saving is not None]


def draws_words(run: Run) -> str:
    """The interval over the draws, beside what it leaves out. HTML."""
    asked = run.asked
    outcomes = [one for one in run.outcomes() if one is not None]
    found = sensitivity.factor_interval(outcomes, asked.policy_id)
    ours, theirs = names(asked)
    number = len(outcomes) - 1
    if not fmt.known(found.low_percent):
        return "Too few draws have come to give an interval."
    over = outcomes[0].savings[asked.policy_id]
    text = (
        f"With every measured factor drawn within its range, {ours} emits "
        f"<b>{fmt.between(found.low_percent, found.high_percent)}</b> than {theirs} in the middle "
        f"95 % of {fmt.number(number)} draws; as measured, "
        f"{fmt.less_or_more(found.value_percent)}."
    )
    if fmt.known(over.low_percent):
        text += (
            f" The interval over sessions ({fmt.between(*over[1:])}) comes on top of it: that is "
            "chance in the traffic, this is doubt about the factors."
        )
    losing = sum(saving < 0 for saving in drawn(run))
    if losing:
        text += f" It loses in {fmt.number(losing)} of the draws."
    return text


def draws_table(run: Run) -> pd.DataFrame:
    """One row a draw: the factors and the saving."""
    rows = [
        one.point.factors.to_dict()
        | {
            "saving_percent": sensitivity.saving_of(one, run.asked.policy_id),
            "cannot_run": one.error,
        }
        for one in run.outcomes()
        if one is not None
    ]
    return pd.DataFrame(rows)


def ranges_table() -> pd.DataFrame:
    """Between which values each measured factor is drawn, and why."""
    return pd.DataFrame(
        [
            {
                "Factor": one.label,
                "From": value_words(one, one.low),
                "To": value_words(one, one.high),
                "Why": one.why,
            }
            for one in SWEEP_INPUTS.values()
            if one.measured
        ]
    )
