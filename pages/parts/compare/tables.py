"""Tables of page Compare: every figure with its signed difference, as HTML that can be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import pandas as pd

from carbonrouter_core.results.breakdowns import differences
from carbonrouter_core.words import figures as fmt
from pages.parts.compare.entries import Entry, Scale
from pages.parts.compare.plots import signed
from pages.shared import state, tables


@dataclass(frozen=True)
class Column:
    """A figure of the table: its head, its text, and how a difference is written."""

    head: str
    value: Callable[[Entry], float]
    text: Callable[[float], str]
    points: bool = False
    """The difference is in points, not in percent."""
    times: float = 1.0
    """What a difference in points is multiplied by."""
    slowest: str = ""
    """The figure of the 95th percentile that stands below."""


def _columns(scale: Scale) -> list[Column]:
    def figure(name: str) -> Callable[[Entry], float]:
        return lambda entry: entry.results.figures[name]

    return [
        Column(
            "CO2e" + (" a million turns" if scale.per_turns else ""),
            lambda entry: scale.grams(entry, entry.results.figures["carbon_g"]),
            scale.mass.text,
        ),
        Column("Energy", figure("energy_kwh"), fmt.energy),
        Column(
            "Recomputed share",
            figure("recompute_share"),
            lambda share: fmt.percent(100 * share),
            points=True,
            times=100,
        ),
        Column("Moves a session", figure("moves_per_session"), lambda n: fmt.number(n, 2)),
        Column("First token", figure("ttft_ms_mean"), fmt.duration, slowest="ttft_ms_p95"),
        Column("Turn latency", figure("latency_ms_mean"), fmt.duration, slowest="latency_ms_p95"),
        Column(
            "Predicted quality",
            figure("quality_mean"),
            lambda share: fmt.percent(100 * share),
            points=True,
            times=100,
        ),
        Column("Not served", figure("unserved_turns"), fmt.number, points=True),
    ]


def figures(
    shown: Sequence[Entry], reference: Entry, on_front: Sequence[bool], scale: Scale
) -> str:
    """One row an entry, each figure with its difference to ``reference``."""
    columns = _columns(scale)
    rows = []
    for entry, on in zip(shown, on_front, strict=True):
        mark = " <small>no router can do this</small>" if entry.out_of_reach else ""
        mark = " <small>on the front</small>" if on else mark
        if entry is reference:
            mark += " <small>the reference</small>"
        cells = (_cell(column, entry, reference) for column in columns)
        rows.append((f"{entry.swatch}{mark}", *cells))
    heads = ("", *(column.head for column in columns))
    return tables.html(heads, rows, label="Figures of all")


def _cell(column: Column, entry: Entry, reference: Entry) -> str:
    text = column.text(column.value(entry))
    if entry is not reference:
        text += f"<small>{_against(column, entry, reference)}</small>"
    if column.slowest:
        text += f"<small>p95 {fmt.duration(entry.results.figures[column.slowest])}</small>"
    return text


def _against(column: Column, entry: Entry, reference: Entry) -> str:
    mine, other = column.value(entry), column.value(reference)
    if column.points:
        difference = column.times * (mine - other)
        if column.times == 1:
            return fmt.number(difference, signed=True)
        return f"{fmt.number(difference, 1, signed=True)} points"
    change = fmt.change_percent(mine, other)
    if change is None:
        return "same" if mine == other else ""
    return fmt.percent(change, signed=True)


def breakdown(ours: Entry, theirs: Entry, dimension: str, label: str, scale: Scale) -> str:
    """One row a group: both entries, the signed difference, and the total they add up to."""
    mine, other = ours.results.by[dimension], theirs.results.by[dimension]
    less = differences(mine, other)
    rows = []
    for name in less.index:
        a, b = (
            table.loc[name] if name in table.index else pd.Series(0.0, index=table.columns)
            for table in (mine, other)
        )
        rows.append(_row(escape(state.place(name)), a, b, ours, theirs, scale))
    rows.append(_row("All", _total(mine), _total(other), ours, theirs, scale))
    heads = [
        label,
        f"CO2e, {ours.short}",
        f"CO2e, {theirs.short}",
        "Difference",
        f"Turns, {ours.short}",
        f"Turns, {theirs.short}",
        "Moves",
        "Latency",
        "Quality (points)",
    ]
    return tables.html(heads, rows, label="Breakdown", total=True)


def _total(table: pd.DataFrame) -> pd.Series:
    served = table["served_turns"].to_numpy(float)
    total = table.sum()
    for name in ("quality_mean", "latency_ms_mean", "ttft_ms_mean"):
        total[name] = (table[name] * served).sum() / served.sum() if served.any() else float("nan")
    return total


def _row(
    name: str, a: pd.Series, b: pd.Series, ours: Entry, theirs: Entry, scale: Scale
) -> list[str]:
    grams = scale.grams(ours, a["carbon_g"]), scale.grams(theirs, b["carbon_g"])
    difference = signed(scale.mass.value(grams[0]) - scale.mass.value(grams[1]))
    latency_ms = a["latency_ms_mean"] - b["latency_ms_mean"]
    return [
        name,
        *(scale.mass.text(value) for value in grams),
        f"<b>{difference}{fmt.NARROW_SPACE}{scale.mass.scale.unit}</b>",
        *(fmt.number(row["turns"]) for row in (a, b)),
        fmt.number(a["moves"] - b["moves"], signed=True),
        f"{fmt.number(latency_ms, signed=True)}{fmt.NARROW_SPACE}ms"
        if fmt.known(latency_ms)
        else fmt.NOT_AVAILABLE,
        fmt.number(100 * (a["quality_mean"] - b["quality_mean"]), 1, signed=True),
    ]


def fairness(shown: Sequence[Entry]) -> str:
    """One row an entry: how unevenly the users of different regions are served."""
    heads = ("", "Quality: largest gap", "Jain index", "Latency: largest gap", "Jain index")
    rows = []
    for entry in shown:
        figures = entry.results.figures
        gap = 100 * figures["quality_gap"]
        cells = (
            f"{fmt.number(gap, 2)} points" if fmt.known(gap) else fmt.NOT_AVAILABLE,
            fmt.number(figures["quality_jain"], 4),
            fmt.duration(figures["latency_gap_ms"]),
            fmt.number(figures["latency_jain"], 4),
        )
        rows.append((entry.swatch, *cells))
    return tables.html(heads, rows, label="Fairness")
