"""The answer of the Overview page in words: who emits less, how sure that is, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import pandas as pd

import carbonrouter_core as core
from carbonrouter_core.routing.policies import BOUND
from carbonrouter_core.units import DAYS_PER_YEAR
from carbonrouter_core.words import answer
from carbonrouter_core.words import figures as fmt
from pages.shared import theme

KV_CACHE_SENTENCE = (
    "While a model talks, it keeps its working notes on everything said so far in fast memory, "
    "the <b>KV cache</b>. The notes stay where the conversation was served: serve the next turn "
    "elsewhere, and the whole conversation must be read, and paid for, again."
)

WHY_LOOKAHEAD = (
    "Look-ahead also weighs the turns likely to follow. The case for it as the default rests on "
    "coding agents: it saves 32.4 % there, the published rule 22.8 %. On chat they are close, "
    "23.8 % and 21.3 %: their intervals overlap widely, and the published rule has slightly "
    "better quality and fewer moves (preset Paper, against FairCarbon, on the half of the sessions "
    "nothing was learned from)."
)

SMALL_PART = 0.02
"""Parts whose change is under this share of the total are not named in the answer."""


def headline(saving: core.Interval) -> tuple[str, str]:
    """The large figure, and the words beside it."""
    value = saving.value_percent
    if not fmt.known(value):
        return fmt.NOT_AVAILABLE, "no saving can be given: FairCarbon emits nothing here"
    if abs(value) < fmt.SAME_PERCENT:
        return fmt.percent(0.0), "difference in CO2e to FairCarbon"
    return fmt.percent(abs(value)), f"{'less' if value > 0 else 'more'} CO2e than FairCarbon"


def sentence(
    saving: core.Interval, saving_long: core.Interval, summary: pd.DataFrame, router: str
) -> str:
    """The answer in one sentence, as HTML without user text."""
    value = saving.value_percent
    if not fmt.known(value):
        return answer.no_saving("FairCarbon")
    compared = answer.compared(value, "FairCarbon")
    text = f"{theme.in_text(router)} emits <b>{compared}</b> on this workload"
    if fmt.known(saving_long.value_percent):
        long_value = saving_long.value_percent
        clash = (long_value > 0) != (value > 0)
        text += (
            f", {'but' if clash else 'and'} <b>{fmt.less_or_more(long_value)}</b> in sessions "
            "over 30 turns"
        )
    else:
        text += ", which has no session over 30 turns"
    reason = source(summary, router)
    return f"{text}; {reason}." if reason else f"{text}."


def sureness(saving: core.Interval, sessions: float) -> str:
    """The interval in plain words, as HTML; its ends are bold."""
    text = answer.sureness(saving.low_percent, saving.high_percent, sessions)
    if saving.low_percent is None or saving.high_percent is None:
        return text
    ends = answer.ends(saving.low_percent, saving.high_percent)
    return text.replace(ends, f"<b>{ends}</b>")


def confidence(saving: core.Interval, saving_long: core.Interval, sessions: float) -> str:
    """How sure the saving is, over all sessions and over the long ones, as HTML."""
    text = sureness(saving, sessions)
    if not fmt.known(saving.low_percent):
        return text
    text = f"How sure is that? {text}"
    if fmt.known(saving_long.low_percent):
        text += f" {answer.LONG_SESSIONS}: {fmt.between(*saving_long[1:])}."
    return text


def evidence(saving_test: core.Interval) -> str:
    """The saving on sessions that the router did not learn from; empty where there is none."""
    if not fmt.known(saving_test.value_percent):
        return ""
    return f"{answer.TEST_HALF}: <b>{answer.with_interval(*saving_test)}</b>."


def parts_saved(summary: pd.DataFrame, router: str) -> dict[str, float]:
    """Grams saved against FairCarbon in each part of carbon, by the part's column."""
    ours, theirs = summary.loc[router], summary.loc[core.FAIRCARBON]
    return {part.column: float(theirs[part.column] - ours[part.column]) for part in theme.PARTS}


def source(summary: pd.DataFrame, router: str) -> str:
    """Where the gain comes from, or the loss: the parts that changed, the largest first."""
    mass = fmt.Mass.for_largest(float(summary["carbon_g"].max()))
    saved = parts_saved(summary, router)
    total = sum(saved.values())
    worth = SMALL_PART * max(abs(amount) for amount in saved.values())
    floor = max(worth, 1e-9 * float(summary["carbon_g"].max()))
    names = {part.column: part.gain for part in theme.PARTS}
    ordered = sorted(saved.items(), key=lambda item: -abs(item[1]))
    less = [f"{mass.text(g)} less {names[c]}" for c, g in ordered if g > floor]
    more = [f"{mass.text(-g)} more {names[c]}" for c, g in ordered if g < -floor]
    if not less and not more:
        return ""
    if total >= 0:
        text = f"the gain comes from {fmt.joined(less)}"
        return f"{text}, against {fmt.joined(more)}" if more else text
    text = f"the loss comes from {fmt.joined(more)}"
    return f"{text}, against {fmt.joined(less)}" if less else text


def electricity(summary: pd.DataFrame, router: str) -> str:
    """The saving as electricity: kilowatt-hours, and the carbon of each."""
    ours, theirs = summary.loc[router], summary.loc[core.FAIRCARBON]

    def intensity(row: pd.Series) -> float | None:
        return row["carbon_g"] / row["energy_kwh"] if row["energy_kwh"] else None

    return (
        f"{theme.in_text(router)} uses {fmt.energy(ours['energy_kwh'])} at "
        f"{fmt.number(intensity(ours))} g/kWh, FairCarbon {fmt.energy(theirs['energy_kwh'])} at "
        f"{fmt.number(intensity(theirs))} g/kWh, cooling (PUE) included."
    )


def by_city(sites: pd.DataFrame, traffic: pd.DataFrame) -> str:
    """Why the grams in a kilowatt-hour are not the means that the map shows, city by city.

    ``traffic``: electricity and carbon by region, of the router whose figures are explained.
    """
    rows = sites.merge(traffic, on="region")
    rows = rows[rows["energy_kwh"] > 0].sort_values("energy_kwh", ascending=False, kind="stable")
    if rows.empty:
        return ""
    total_kwh = rows["energy_kwh"].sum()
    drawn = rows["carbon_g"] / rows["energy_kwh"]
    mean = rows["mean_intensity_g_per_kwh"]
    parts = [
        f"{escape(row.city)} {fmt.percent(100 * row.energy_kwh / total_kwh, 0)} at "
        f"{fmt.number(grams)} g/kWh (all hours: {fmt.number(row.mean_intensity_g_per_kwh)})"
        for row, grams in zip(rows.itertuples(), drawn, strict=True)
    ]
    below_all = rows["carbon_g"].sum() / total_kwh < sites["mean_intensity_g_per_kwh"].min()
    text = "Why less than any city on the map? " if below_all else ""
    text += "The map shows means over all hours of the window"
    if (drawn < mean).all():
        text += "; turns go to a city in its cleaner hours"
    return f"{text}. CarbonRouter's electricity: {fmt.joined(parts)}."


SESSIONS_A_DAY = 1_000_000
"""Conversations a day of the service that a saving is scaled to."""


def scale(summary: pd.DataFrame, router: str) -> str:
    """What the difference would come to in a large service, with its arithmetic.

    Without embodied carbon, like every other figure of the page.
    """
    grams = summary["carbon_g"]
    difference_g = float(grams[core.FAIRCARBON] - grams[router])
    sessions = float(summary["sessions"].max())
    if not sessions or not difference_g:
        return ""
    amount_g = abs(difference_g)
    year_g = amount_g / sessions * SESSIONS_A_DAY * DAYS_PER_YEAR
    amount, year = (fmt.Mass.for_largest(grams).text(grams) for grams in (amount_g, year_g))
    less = "less" if difference_g > 0 else "more"
    return (
        f"Is that much? {amount} is the difference over the {fmt.number(sessions)} "
        "conversations replayed here. A service with a million such conversations a day would emit "
        f"<b>{year} CO2e {less} a year</b>: {amount} / {fmt.number(sessions)} × "
        f"{fmt.number(SESSIONS_A_DAY)} × {DAYS_PER_YEAR:g} days, on grids as in this window. "
        "Page Energy planning takes your own number."
    )


def hero_html(
    saving: core.Interval,
    saving_long: core.Interval,
    saving_test: core.Interval,
    summary: pd.DataFrame,
    router: str,
    unmet: Sequence[str] = (),
) -> str:
    """The head of the page. ``unmet``: limits of the scenario that some turns do not meet."""
    figure, words = headline(saving)
    confident = confidence(saving, saving_long, summary["sessions"].max())
    value = saving.value_percent
    tone = "none" if not fmt.known(value) else "loss" if value < -fmt.SAME_PERCENT else "gain"
    not_kept = "".join(
        f'<p class="cr-unmet"><b>Not kept:</b> {escape(sentence)}</p>' for sentence in unmet
    )
    return (
        f'<section class="cr-hero cr-{tone}" aria-label="The answer">'
        f'<div class="cr-hero-figure"><strong>{escape(figure)}</strong>'
        f"<span>{escape(words)}</span>{not_kept}</div>"
        f'<div class="cr-hero-text"><p class="cr-answer">'
        f"{sentence(saving, saving_long, summary, router)}</p>"
        f'<p class="cr-muted">{confident}</p>'
        f'<p class="cr-muted cr-evidence">{evidence(saving_test)}</p></div></section>'
    )


def tail(by_length: pd.DataFrame) -> str:
    """How much of the carbon a few long sessions hold: the saving depends on them."""
    long = by_length[by_length["turns_per_session"] == "> 30"]
    if long.empty:
        return "No session of this workload has over 30 turns, where routing matters most."
    longest, sessions = long.iloc[0], by_length["sessions"].sum()
    rare = longest["sessions"] < 0.5 * sessions
    return (
        f"Sessions over 30 turns are {fmt.percent(100 * longest['sessions'] / sessions)} of all "
        f"sessions and {fmt.percent(100 * longest['share_of_baseline_carbon'], 0)} of "
        "FairCarbon's carbon." + (" The overall figure depends on these few." if rare else "")
    )


def minimised_g(rows: pd.DataFrame, scenario: core.Scenario) -> pd.Series:
    """What the policies minimise, by policy: what a possible saving is measured by.

    ``rows``: their figures. With embodied carbon where the scenario lets it count.
    """
    return rows["carbon_g"] + (rows["embodied_g"] if scenario.embodied else 0.0)


def possible(
    carbon_g: pd.Series, scenario: core.Scenario, names: Mapping[str, str], mass: fmt.Mass
) -> str:
    """What the possible saving is measured by; ``carbon_g``: of :func:`minimised_g`.

    ``names``: as in :class:`~.cache.Details`.
    """
    text = _possible(carbon_g, scenario, names, mass)
    if scenario.embodied:
        text += (
            " Only here the carbon of making the machines (embodied carbon) is included, since in "
            "this scenario routers choose by it too."
        )
    return text


def _possible(
    carbon_g: pd.Series, scenario: core.Scenario, names: Mapping[str, str], mass: fmt.Mass
) -> str:
    if core.OPTIMUM not in names:
        return "The hindsight optimum knows the future of every session; no router can do better."
    text = (
        f"{names[core.OPTIMUM]}: a search that knows the future of every session. It is not "
        "proven that nothing emits less"
    )
    bound = mass.text(carbon_g[BOUND])
    text = f"{text}, but no router can emit less than free migration, {bound}"
    return text + (", which ignores the latency ceiling." if scenario.latency_ceiling_ms else ".")
