"""The row of key figures, each against FairCarbon: a tick where ours is better, a cross where
it is worse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import pandas as pd

import carbonrouter_core as core
from carbonrouter_core.words import figures as fmt

TURNS_OF_REFERENCE = 1_000_000


@dataclass(frozen=True)
class Kpi:
    """One card: our router's figure, FairCarbon's, and what the difference means."""

    label: str
    value: str
    against: str
    verdict: str
    tone: str = "same"
    """"better", "worse" or "same"."""
    extra: str = ""
    help: str = ""


def _verdict(
    ours: float, theirs: float, *, lower_is_better: bool, points: bool = False, decimals: int = 1
) -> tuple[str, str]:
    """The difference in words, and its tone."""
    if not fmt.known(ours) or not fmt.known(theirs):
        return fmt.NOT_AVAILABLE, "same"
    if points:
        difference = ours - theirs
        shown = f"{fmt.number(abs(difference), decimals)} points"
        same = abs(difference) < 0.5 * 10**-decimals
    else:
        change = fmt.change_percent(ours, theirs)
        if change is None:
            return ("the same" if ours == theirs else fmt.NOT_AVAILABLE), "same"
        difference, shown = change, fmt.percent(abs(change))
        same = abs(change) < fmt.SAME_PERCENT
    if same:
        return "the same", "same"
    tone = "better" if (difference < 0) == lower_is_better else "worse"
    return f"{shown} {'lower' if difference < 0 else 'higher'}", tone


def key_figures(summary: pd.DataFrame, saving: core.Interval, router: str) -> list[Kpi]:
    """The cards, in reading order."""
    ours, theirs = summary.loc[router], summary.loc[core.FAIRCARBON]
    value = saving.value_percent
    verdict, tone = fmt.NOT_AVAILABLE, "same"
    if fmt.known(value):
        verdict, tone = ("emits less", "better") if value > 0 else ("emits more", "worse")
        if abs(value) < fmt.SAME_PERCENT:
            verdict, tone = "the same", "same"

    def ratio(row: pd.Series, top: str, bottom: str, times: float) -> float:
        return times * row[top] / row[bottom] if row[bottom] else float("nan")

    def served(row: pd.Series) -> float:
        return row["turns"] - row["unserved_turns"]

    def per_turns(row: pd.Series) -> float:
        count = served(row)
        return row["carbon_g"] / count * TURNS_OF_REFERENCE if count else float("nan")

    mass = fmt.Mass.for_largest(max(per_turns(ours), per_turns(theirs)))
    cards = [
        Kpi(
            label="Carbon saved",
            value=fmt.percent(value),
            against=f"95 %: {_interval(saving)}",
            verdict=verdict,
            tone=tone,
            help="Carbon FairCarbon emits and CarbonRouter does not, as a share of FairCarbon's.",
        ),
        _card(
            "CO2e per 1M turns",
            per_turns(ours),
            per_turns(theirs),
            lambda grams: mass.text(grams),
            help="Operational carbon of a million served turns like these.",
        ),
        _card(
            "Recomputed share",
            ratio(ours, "recompute_g", "carbon_g", 100),
            ratio(theirs, "recompute_g", "carbon_g", 100),
            fmt.percent,
            points=True,
            help="Share of carbon spent on reading conversation history again after a move.",
        ),
        _card(
            "Moves per session",
            ours["moves_per_session"],
            theirs["moves_per_session"],
            lambda count: fmt.number(count, 2),
            help="Turns served by another model, GPU type or region than the turn before.",
        ),
        _wait_card("Time to first token", "ttft_ms", ours, theirs),
        _wait_card("Turn latency", "latency_ms", ours, theirs),
        _card(
            "Predicted quality",
            100 * ours["quality_mean"],
            100 * theirs["quality_mean"],
            fmt.percent,
            lower_is_better=False,
            points=True,
            help="Predicted chance of a right answer, averaged over turns.",
        ),
    ]
    return cards


def _interval(saving: core.Interval) -> str:
    low, high = saving.low_percent, saving.high_percent
    if not fmt.known(low) or not fmt.known(high):
        return fmt.NOT_AVAILABLE
    return f"{fmt.number(low, 1)} to {fmt.percent(high)}"


def _card(
    label: str,
    ours: float,
    theirs: float,
    text: Callable[[float], str],
    *,
    lower_is_better: bool = True,
    points: bool = False,
    help: str,
) -> Kpi:
    verdict, tone = _verdict(ours, theirs, lower_is_better=lower_is_better, points=points)
    return Kpi(label, text(ours), f"FairCarbon {text(theirs)}", verdict, tone, help=help)


def _wait_card(label: str, column: str, ours: pd.Series, theirs: pd.Series) -> Kpi:
    mean, p95 = f"{column}_mean", f"{column}_p95"
    verdict, tone = _verdict(ours[mean], theirs[mean], lower_is_better=True)
    return Kpi(
        label,
        fmt.duration(ours[mean]),
        f"FairCarbon {fmt.duration(theirs[mean])}",
        verdict,
        tone,
        extra=f"p95 {fmt.duration(ours[p95])} vs {fmt.duration(theirs[p95])}",
        help="Mean over turns, an estimate without queueing; p95: 95 of 100 turns are faster.",
    )


def _mark(tone: str) -> str:
    """Opens the verdict with a tick or a cross, said as a word to a screen reader."""
    mark = {"better": "\N{HEAVY CHECK MARK}", "worse": "\N{HEAVY BALLOT X}"}.get(tone)
    return "<b>" + (f'<i role="img" aria-label="{tone}">{mark}</i> ' if mark else "")


def html(cards: list[Kpi]) -> str:
    """The cards as a grid that wraps on a phone."""
    return (
        '<div class="cr-kpis" role="list" aria-label="Key figures against FairCarbon">'
        + "".join(
            f'<div class="cr-kpi cr-{card.tone}" role="listitem" title="{escape(card.help)}">'
            f"<span>{escape(card.label)}</span><strong>{escape(card.value)}</strong>"
            f"<small>{escape(card.against)}</small>"
            f"{_mark(card.tone)}<em>{escape(card.verdict)}</em></b>"
            + (f"<small>{escape(card.extra)}</small>" if card.extra else "")
            + "</div>"
            for card in cards
        )
        + "</div>"
    )
