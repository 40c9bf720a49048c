"""``reproduce``: the published savings beside ours, by data set, preset and reconstruction.

Prints Markdown; ``docs/reproduction.md`` holds what it printed and says what it means.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from carbonrouter_core.cli.draws import print_draws
from carbonrouter_core.cli.options import (
    add_command,
    add_executor_options,
    add_json_option,
    refuse_executor_options,
)
from carbonrouter_core.cli.output import saving_text
from carbonrouter_core.errors import InputError
from carbonrouter_core.results.comparison import Comparison, Interval, compare
from carbonrouter_core.routing.policies import FAIRCARBON, FULL_PROMPT
from carbonrouter_core.scenario import PRESETS
from carbonrouter_core.studies.headline import OURS
from carbonrouter_core.traces.builtin import BUILTIN_TRACES

PUBLISHED_SAVING_PERCENT = 16.1
"""Published saving against FairCarbon, mean of two data sets."""
PUBLISHED_LONG_SAVING_PERCENT = 23.1
"""The same for sessions of over 30 turns."""

READINGS = (FAIRCARBON, FULL_PROMPT)
"""FairCarbon, of which only an abstract is known, as it can be read in two ways."""


class Row(NamedTuple):
    """A policy against a reconstruction of FairCarbon, on the test half of a data set."""

    trace: str
    preset: str
    baseline: str
    policy: str
    saving: Interval
    long_saving: Interval
    quality: float
    baseline_quality: float
    latency_ms: float
    baseline_latency_ms: float
    ttft_ms: float
    baseline_ttft_ms: float


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = add_command(
        commands,
        "reproduce",
        _run,
        help="print the published savings beside ours, as Markdown",
        description="Print the published savings beside ours, as Markdown.",
    )
    parser.add_argument(
        "--draws",
        metavar="N",
        type=int,
        help="print instead how the savings spread over N random dates and seeds, for several "
        "sets of regions",
    )
    add_executor_options(parser)
    add_json_option(parser, "with --draws: every saving")


def _run(options: argparse.Namespace) -> None:
    if options.draws is not None:
        print_draws(options)
        return
    refuse_executor_options(options, "it is for --draws.")
    if options.json:
        raise InputError("--json has no use here: it is for --draws.")
    rows = [row for name in PRESETS for trace in BUILTIN_TRACES for row in rows_of(trace, name)]
    print(_table(rows))
    print()
    print(_averages(rows))
    print()
    print(_at_faircarbons_latency())


def rows_of(trace: str, preset_name: str) -> Iterator[Row]:
    """The rows of one data set under one preset, each on its test half."""
    comparison = compare(PRESETS[preset_name].replace(trace=trace), [*OURS, *READINGS])
    half = comparison.test_half
    long = half & comparison.long_sessions
    for baseline in READINGS:
        theirs = comparison.figures(baseline, half)
        for policy in OURS:
            ours = comparison.figures(policy, half)
            yield Row(
                trace,
                preset_name,
                baseline,
                policy,
                comparison.saving(policy, baseline, half),
                comparison.saving(policy, baseline, long),
                ours["quality_mean"],
                theirs["quality_mean"],
                ours["latency_ms_mean"],
                theirs["latency_ms_mean"],
                ours["ttft_ms_mean"],
                theirs["ttft_ms_mean"],
            )


def _table(rows: list[Row]) -> str:
    lines = [
        "| preset | data | against | policy | saving, all | saving, > 30 turns | quality "
        "| TTFT ms | latency s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row.preset} | {row.trace} | {row.baseline} | {row.policy} "
            f"| {saving_text(row.saving)} | {saving_text(row.long_saving)} "
            f"| {row.baseline_quality:.3f} → {row.quality:.3f} "
            f"| {row.baseline_ttft_ms:.0f} → {row.ttft_ms:.0f} "
            f"| {row.baseline_latency_ms / 1e3:.1f} → {row.latency_ms / 1e3:.1f} |"
        )
    return "\n".join(lines)


def _averages(rows: list[Row]) -> str:
    lines = [
        f"Published: {PUBLISHED_SAVING_PERCENT} % on average over two data sets, "
        f"{PUBLISHED_LONG_SAVING_PERCENT} % in sessions over 30 turns. "
        "Ours, average of the two data sets, test half:",
        "",
        "| preset | against | policy | all | > 30 turns |",
        "|---|---|---|---|---|",
    ]
    keys = dict.fromkeys((row.preset, row.baseline, row.policy) for row in rows)
    for key in keys:
        chosen = [row for row in rows if (row.preset, row.baseline, row.policy) == key]
        mean = np.mean([row.saving.value_percent or np.nan for row in chosen])
        long = np.mean([row.long_saving.value_percent or np.nan for row in chosen])
        lines.append(f"| {' | '.join(key)} | {mean:.1f} % | {long:.1f} % |")
    return "\n".join(lines)


def _at_faircarbons_latency() -> str:
    """The saving if no turn may be slower than the mean latency of FairCarbon."""
    lines = [
        "Latency ceiling at FairCarbon's own mean (Paper, test half); both policies keep it:",
        "",
        "| data | ceiling s | policy | saving, all | latency s | quality | missed turns |",
        "|---|---|---|---|---|---|---|",
    ]
    for trace in BUILTIN_TRACES:
        scenario = PRESETS["Paper"].replace(trace=trace)
        free = compare(scenario, [FAIRCARBON])
        ceiling_ms = round(free.figures(FAIRCARBON, free.test_half)["latency_ms_mean"])
        bound = compare(scenario.replace(latency_ceiling_ms=ceiling_ms), [*OURS, FAIRCARBON])
        for policy in OURS:
            lines.append(_bound_line(bound, trace, ceiling_ms, policy))
    return "\n".join(lines)


def _bound_line(bound: Comparison, trace: str, ceiling_ms: float, policy: str) -> str:
    ours = bound.figures(policy, bound.test_half)
    theirs = bound.figures(FAIRCARBON, bound.test_half)
    return (
        f"| {trace} | {ceiling_ms / 1e3:.1f} | {policy} "
        f"| {saving_text(bound.saving(policy, FAIRCARBON, bound.test_half))} "
        f"| {theirs['latency_ms_mean'] / 1e3:.1f} → {ours['latency_ms_mean'] / 1e3:.1f} "
        f"| {theirs['quality_mean']:.3f} → {ours['quality_mean']:.3f} "
        f"| {ours['missed_ceiling_turns']:,} |"
    )
