"""The report as one HTML file: for the annex of a sustainability report, printed on A4 or read.

It holds its charts and its style, asks for nothing from anywhere, and runs no script.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from carbonrouter_core.errors import InputError
from carbonrouter_core.fleet.costs import HOST_W_PER_GPU
from carbonrouter_core.fleet.sources import embodied_sentence, scaled_sentence
from carbonrouter_core.grid.knowledge import MEANING as KNOWLEDGE_MEANING
from carbonrouter_core.report import sources
from carbonrouter_core.report import svg_charts as svg
from carbonrouter_core.report.colours import PART_NAMES, policy_colour
from carbonrouter_core.report.metadata import (
    KIND_MEANING,
    LOCATION_BASED,
    nearest_preset,
    shared_scenario,
    sites,
    utc_seconds,
    years,
)
from carbonrouter_core.report.style import STYLE
from carbonrouter_core.report.tables import TOKENS_OF_UNIT, served_turns
from carbonrouter_core.results import provenance, unmet
from carbonrouter_core.results.comparison import Comparison, Interval, gap_closed_percent
from carbonrouter_core.routing.policies import BASELINE, OPTIMUM, policy
from carbonrouter_core.scenario import FIELDS, Scenario
from carbonrouter_core.units import HOURS_PER_DAY, S_PER_DAY, S_PER_HOUR
from carbonrouter_core.words import figures as fmt

BOUND = "free-migration"
REPORT_POLICIES = ("faircarbon-full-prompt", "sticky", "carbonrouter", BOUND)
"""What a report shows beside the router and FairCarbon, where time allows."""

MOST_REGIONS = 7
"""Regions with a colour of their own; the others are shown together."""
MOST_COLUMNS = 31
"""Columns over time: days, or spans of days where the window is longer."""

SHORT = 12
"""Characters of a cell that is never broken."""

EXTRA_NAMES = {
    "carbonrouter-lookahead": "CarbonRouter, look-ahead",
    "carbonrouter": "CarbonRouter, published rule",
}


def html_report(
    comparison: Comparison, router: str, *, generated_utc: datetime | None = None
) -> str:
    """The report on ``router`` against FairCarbon; other policies of ``comparison`` beside them.

    Raises :class:`InputError` where one of the two was not run.
    """
    for needed in (router, BASELINE):
        if needed not in comparison.runs:
            raise InputError(f"The report needs policy {needed}; run it too.")
    made = (generated_utc or datetime.now(UTC)).astimezone(UTC)
    report = _Report(comparison, router)
    sections = (
        _answer(report),
        _key_figures(report),
        _by_policy(report),
        _by_length(report),
        _where_and_when(report),
        _grid(report),
        _bounds(report),
        _sci(report),
        _inputs(report),
        _assumptions(report),
        _warnings(report),
        _sources(report),
        _redo(report, made),
    )
    title = f"Carbon of routed LLM conversations: {report.scenario.name}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f"{_head(report, made)}{''.join(sections)}</main></body></html>\n"
    )


@dataclass(frozen=True)
class _Report:
    """What the sections share."""

    comparison: Comparison
    router: str

    @property
    def scenario(self) -> Scenario:
        """The scenario as it may leave this machine."""
        return shared_scenario(self.comparison)

    @cached_property
    def figures(self) -> dict[str, dict[str, Any]]:
        """The figures of each policy."""
        return {name: self.comparison.figures(name) for name in self.comparison.runs}

    @cached_property
    def saving(self) -> Interval:
        """Of all sessions."""
        return self.comparison.saving(self.router)

    @cached_property
    def saving_long(self) -> Interval:
        """Of sessions over 30 turns."""
        return self.comparison.saving(self.router, sessions=self.comparison.long_sessions)

    @cached_property
    def saving_test(self) -> Interval:
        """Of the half that nothing was learned from."""
        return self.comparison.saving(self.router, sessions=self.comparison.test_half)

    @cached_property
    def mass(self) -> fmt.Mass:
        """One scale for all masses."""
        return fmt.Mass.for_largest(max(one["carbon_g"] for one in self.figures.values()))

    @cached_property
    def sites(self) -> list[dict[str, Any]]:
        """Regions with zone, PUE and intensity."""
        return sites(self.comparison)

    @property
    def ours(self) -> dict[str, Any]:
        """The router's figures."""
        return self.figures[self.router]

    @property
    def theirs(self) -> dict[str, Any]:
        """FairCarbon's figures."""
        return self.figures[BASELINE]


def policy_name(policy_id: str) -> str:
    """What a policy is called in the report."""
    return EXTRA_NAMES.get(policy_id) or policy(policy_id).label


# --- Sections --------------------------------------------------------------------------------


def _head(report: _Report, made: datetime) -> str:
    scenario = report.scenario
    preset, changes = nearest_preset(scenario)
    distance = (
        f"exactly as preset {escape(preset)}"
        if not changes
        else f"{fmt.plural(len(changes), 'change')} from preset {escape(preset)} "
        "(marked among the inputs)"
    )
    labels = (
        "Location-based",
        f"{scenario.intensity_kind.capitalize()} intensity",
        f"{scenario.carbon_basis.capitalize()} basis",
        "Embodied carbon stated apart",
        "Estimate, not a meter reading",
    )
    return (
        "<header><p class=kicker>Carbon of routed LLM conversations</p>"
        f"<h1><bdi>{escape(scenario.name)}</bdi></h1>"
        f"<p class=labels>{''.join(f'<span>{one}</span>' for one in labels)}</p>"
        f"<p class=muted>Scenario: {distance}. {_workload(report)} Made "
        f"{utc_seconds(made)} with CarbonRouter {provenance.engine_version()}, run "
        f"{provenance.run_id(report.comparison.prepared, report.comparison.runs)}.</p></header>"
    )


def _workload(report: _Report) -> str:
    scenario, trace = report.scenario, report.comparison.trace
    return (
        f"Trace <bdi>{escape(trace.name)}</bdi>: {fmt.plural(trace.n_turns, 'turn')} in "
        f"{fmt.plural(trace.n_sessions, 'conversation')}, "
        f"{fmt.plural(scenario.window_days, 'day')} from {scenario.window_start} 00:00 UTC."
    )


def _answer(report: _Report) -> str:
    saving, who = report.saving, escape(policy_name(report.router))
    mass, name = report.mass, escape(policy_name(BASELINE))
    if not fmt.known(saving.value_percent):
        return _section(
            "Result", f"<p class=answer>{name} emits nothing here: no saving can be given.</p>"
        )
    than = fmt.less_or_more(saving.value_percent)
    compared = "as much CO2e as" if than == "as much" else f"{than} CO2e than"
    text = (
        f"<p class=answer>{who} emits <b>{compared} {name}</b> on this workload: "
        f"{mass.text(report.ours['carbon_g'])} against {mass.text(report.theirs['carbon_g'])}.</p>"
    )
    said = []
    if saving.low_percent is not None and saving.high_percent is not None:
        said.append(
            f"With {fmt.number(report.ours['sessions'])} other conversations of the same kind the "
            f"result would be {fmt.between(saving.low_percent, saving.high_percent)} in 95 of 100 "
            "cases (bootstrap over sessions)."
        )
        if saving.low_percent < 0 < saving.high_percent:
            said.append("This workload does not settle which of the two emits less.")
    else:
        said.append("There are too few conversations to say how sure this is.")
    for words, one in (
        ("In conversations over 30 turns", report.saving_long),
        ("On the half of the conversations that nothing was learned from", report.saving_test),
    ):
        if fmt.known(one.value_percent):
            inside = fmt.between(one.low_percent, one.high_percent)
            said.append(f"{words}: {fmt.less_or_more(one.value_percent)} ({inside}).")
    said.append(_latency_and_quality(report))
    return _section("Result", text + _paragraph(*said))


def _latency_and_quality(report: _Report) -> str:
    parts = []
    for words, name in (
        ("Mean latency", "latency_ms_mean"),
        ("mean time to first token", "ttft_ms_mean"),
    ):
        parts.append(
            f"{words} {fmt.duration(report.ours[name])} against {fmt.duration(report.theirs[name])}"
        )
    ours, theirs = report.ours["quality_mean"], report.theirs["quality_mean"]
    parts.append(f"mean predicted quality {fmt.number(ours, 3)} against {fmt.number(theirs, 3)}")
    return f"{'; '.join(parts)}."


_ROWS = (
    ("Carbon", "carbon_g", "mass"),
    ("  recomputed history", "recompute_g", "mass"),
    ("  new prompts", "prompt_g", "mass"),
    ("  writing the answer", "decode_g", "mass"),
    ("  host servers", "host_g", "mass"),
    ("Embodied carbon, apart", "embodied_g", "mass"),
    ("Energy with PUE", "energy_kwh", "energy"),
    ("Recomputed share of carbon", "recompute_share", "share"),
    ("Moves per conversation", "moves_per_session", "number"),
    ("Predicted quality, mean", "quality_mean", "quality"),
    ("Time to first token, mean", "ttft_ms_mean", "duration"),
    ("Time to first token, 95th percentile", "ttft_ms_p95", "duration"),
    ("Latency, mean", "latency_ms_mean", "duration"),
    ("Latency, 95th percentile", "latency_ms_p95", "duration"),
    ("Quality, best less worst user region", "quality_gap", "quality"),
    ("Latency, slowest less fastest user region", "latency_gap_ms", "duration"),
    ("Turns not served", "unserved_turns", "count"),
    ("Turns over the latency ceiling", "missed_ceiling_turns", "count"),
)


def _key_figures(report: _Report) -> str:
    scale = fmt.Mass.for_largest(report.theirs["carbon_g"])

    def shown(kind: str, value: Any) -> str:
        return {
            "mass": lambda: scale.text(value),
            "energy": lambda: fmt.energy(value),
            "share": lambda: fmt.percent(None if value is None else 100 * value),
            "number": lambda: fmt.number(value, 2),
            "quality": lambda: fmt.number(value, 3),
            "duration": lambda: fmt.duration(value),
            "count": lambda: fmt.number(value),
        }[kind]()

    rows = []
    for label, name, kind in _ROWS:
        ours, theirs = report.ours[name], report.theirs[name]
        change = fmt.change_percent(ours, theirs)
        rows.append(
            (
                ("\N{NO-BREAK SPACE}" * 3 if label.startswith("  ") else "") + label.strip(),
                shown(kind, ours),
                shown(kind, theirs),
                "" if change is None else fmt.percent(change, signed=True),
            )
        )
    head = ("", policy_name(report.router), policy_name(BASELINE), "difference")
    return _section(
        "Key figures",
        _table(head, rows, numbers=(1, 2, 3))
        + _paragraph(
            "Carbon is operational: energy at the servers × PUE × carbon intensity of the grid at "
            "the start of each turn. Times are estimates without queueing."
        ),
    )


def _by_policy(report: _Report) -> str:
    names = {OPTIMUM: report.comparison.optimum_label}
    bars = [
        svg.Bar(
            name, names.get(name) or policy_name(name), {part: one[part] for part in PART_NAMES}
        )
        for name, one in report.figures.items()
    ]
    mean_g = report.comparison.same_energy_at_mean_intensity_g(report.router)
    return _section(
        "How the policies compare",
        _figure(svg.policy_bars(bars))
        + _paragraph(
            f"The electricity of {policy_name(report.router)} at the plain mean intensity of the "
            f"chosen zones would emit {report.mass.text(mean_g)}."
        ),
    )


def _by_length(report: _Report) -> str:
    frame = report.comparison.saving_by_length(report.router)
    ranges = [
        svg.Range(
            f"{row['turns_per_session']} turn{'' if row['turns_per_session'] == '1' else 's'}",
            f"{fmt.number(row['sessions'])} conv., "
            f"{fmt.percent(_percent(row['share_of_baseline_carbon']), 0)} of carbon",
            _none(row["value_percent"]),
            _none(row["low_percent"]),
            _none(row["high_percent"]),
        )
        for row in frame.to_dict("records")
    ]
    chart = svg.saving_ranges(
        "Saving by length of the conversation",
        "with 95 % bootstrap intervals; beside it, conversations and their share of "
        "FairCarbon's carbon",
        ranges,
        policy_colour(report.router),
    )
    return _section("Which conversations save", _figure(chart))


def _percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share


def _none(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def _where_and_when(report: _Report) -> str:
    comparison = report.comparison
    traffic = comparison.traffic(report.router)
    theirs = comparison.traffic(BASELINE)
    total = max(float(traffic["turns"].sum()), 1.0)
    rows = [
        (
            f"{site['city']} ({site['region']})",
            site["zone"],
            fmt.number(site["pue"], 2) + ("*" if "assumed" in site["pue_basis"] else ""),
            fmt.number(site["mean_intensity_g_per_kwh"]),
            fmt.percent(100 * here["turns"] / total),
            fmt.energy(here["energy_kwh"]),
            report.mass.text(here["carbon_g"]),
            report.mass.text(there["carbon_g"]),
        )
        for site, here, there in zip(
            report.sites, traffic.to_dict("records"), theirs.to_dict("records"), strict=True
        )
    ]
    head = (
        *("Region", "Zone", "PUE", "Mean g/kWh", "Turns", "Energy", "Carbon"),
        f"{policy_name(BASELINE)}'s",
    )
    note = "Turns, energy and carbon are those of " + policy_name(report.router) + "."
    if any("assumed" in site["pue_basis"] for site in report.sites):
        note += " * PUE assumed: none is published for the site."
    return _section(
        "Where and when",
        _table(head, rows, numbers=(2, 3, 4, 5, 6, 7))
        + _paragraph(note)
        + _figure(_over_time(report)),
    )


def _over_time(report: _Report) -> svg.Chart:
    """Carbon by region in spans of days, against FairCarbon's total."""
    comparison = report.comparison
    scenario, placed = report.scenario, comparison.prepared.placed
    day = (placed.start_s // S_PER_DAY).astype(np.int64)
    first, days = int(min(0, day.min())), int(max(day.max() + 1, scenario.window_days))
    span = -(-(days - first) // MOST_COLUMNS)
    column = (day - first) // span
    count = int(column.max()) + 1
    region = _region_of(comparison, report.router)
    carbon_g = comparison.runs[report.router].charges.carbon_g
    regions = [site["city"] for site in report.sites]
    layers = [
        np.bincount(column[region == i], carbon_g[region == i], count) for i in range(len(regions))
    ]
    order = sorted(range(len(regions)), key=lambda i: -layers[i].sum())
    shown, rest = order[:MOST_REGIONS], order[MOST_REGIONS:]
    against = np.bincount(column, comparison.runs[BASELINE].charges.carbon_g, count)
    most = max(float(np.sum(layers, axis=0).max()), float(against.max()))
    mass = fmt.Mass.for_largest(most)
    stacks = [svg.Line(regions[i], [mass.value(v) for v in layers[i]]) for i in shown]
    if rest:
        others = np.sum([layers[i] for i in rest], axis=0)
        stacks.append(svg.Line("other regions", [mass.value(v) for v in others]))
    starts = pd.Timestamp(scenario.window_start) + pd.to_timedelta(
        first + span * np.arange(count), unit="D"
    )
    each = "day" if span == 1 else f"{span} days"
    columns = "a day" if span == 1 else f"for each {span} days"
    return svg.stacked_columns(
        f"Carbon of {policy_name(report.router)} by region",
        f"one column {columns}, UTC; a turn counts where it starts; the line is "
        f"{policy_name(BASELINE)}'s total",
        [f"{one:%d %b}".lstrip("0") for one in starts],
        stacks,
        svg.Line(policy_name(BASELINE), [mass.value(v) for v in against]),
        f"{mass.unit} per {each}",
    )


def _region_of(comparison: Comparison, policy_id: str) -> np.ndarray:
    decided = comparison.runs[policy_id].decisions.deployment
    return np.where(decided >= 0, comparison.prepared.deployments.fleet.region[decided], -1)


def _grid(report: _Report) -> str:
    prepared, scenario = report.comparison.prepared, report.scenario
    hours_s = np.arange(scenario.window_start_s, scenario.window_end_s, S_PER_HOUR) + S_PER_HOUR / 2
    hour = ((hours_s % S_PER_DAY) // S_PER_HOUR).astype(np.int64)
    profiles: dict[str, svg.Line] = {}
    for site, series in zip(report.sites, prepared.series, strict=True):
        if site["zone"] not in profiles and series.covers(hours_s[0], hours_s[-1]):
            total = np.bincount(hour, series.at(hours_s), HOURS_PER_DAY)
            mean = total / np.bincount(hour, minlength=HOURS_PER_DAY)
            profiles[site["zone"]] = svg.Line(site["zone"], mean.tolist())
    if not profiles:
        return ""
    chart = svg.lines(
        "Carbon intensity on a typical day",
        f"mean of each hour over the window, {scenario.carbon_basis}, {scenario.intensity_kind}",
        "hour of the day, UTC",
        [str(i) for i in range(HOURS_PER_DAY)],
        list(profiles.values()),
        "gCO2e/kWh",
    )
    return _section("The grids", _figure(chart))


def _bounds(report: _Report) -> str:
    figures, theirs = report.figures, report.theirs["carbon_g"]
    said = []
    ceiling = report.scenario.latency_ceiling_ms is not None
    if ceiling and BOUND in figures:
        said.append(f"With a latency ceiling {policy_name(BOUND)} is no bound.")
    elif BOUND in figures:
        bound = figures[BOUND]
        said.append(
            "A lower bound that no router can reach, every conversation finding its history "
            f"cached wherever it goes, emits {report.mass.text(bound['carbon_g'])}: "
            f"{fmt.less_or_more(bound['saving_vs_faircarbon_percent'])} than "
            f"{policy_name(BASELINE)}."
        )
        way = gap_closed_percent(report.ours["carbon_g"], theirs, bound["carbon_g"])
        if way is not None:
            said.append(f"{policy_name(report.router)} goes {fmt.percent(way)} of the way there.")
    if OPTIMUM in figures:
        closed = report.comparison.gap_closed_percent(report.router)
        proven = (
            "proven to be the least with the future known"
            if report.comparison.optimum_is_exact
            else "the least that was found with the future known, not proven"
        )
        text = f"{report.comparison.optimum_label} ({proven}) emits "
        said.append(f"{text}{report.mass.text(figures[OPTIMUM]['carbon_g'])}.")
        if closed is not None:
            said.append(
                f"{policy_name(report.router)} closes {fmt.percent(closed)} of the gap from "
                f"{policy_name(BASELINE)} to it."
            )
    full = figures.get("faircarbon-full-prompt")
    if full is not None and full["carbon_g"] > 0:
        kinder = 100 * (1 - report.ours["carbon_g"] / full["carbon_g"])
        said.append(
            "Against the kindest reading of FairCarbon, which prefills the whole prompt in its "
            f"estimate, it is {fmt.less_or_more(kinder)}."
        )
    return _section("Bounds", _paragraph(*said)) if said else ""


def _sci(report: _Report) -> str:
    units = (
        ("one served turn", served_turns, 1.0),
        ("one conversation", lambda one: one["sessions"], 1.0),
        (
            f"{fmt.number(TOKENS_OF_UNIT)} output tokens",
            lambda one: one["output_tokens"],
            TOKENS_OF_UNIT,
        ),
    )
    rows = []
    for words, count, size in units:
        row = [words]
        for one in (report.ours, report.theirs):
            n = count(one) / size
            total = one["carbon_g"] + one["embodied_g"]
            row.append(_small(total / n) if n else fmt.NOT_AVAILABLE)
        rows.append(tuple(row))
    ours = report.ours
    intensity = ours["carbon_g"] / ours["energy_kwh"] if ours["energy_kwh"] else None
    text = (
        f"E = {fmt.energy(ours['energy_kwh'])} (GPU and host, with PUE), I = "
        f"{fmt.number(intensity, 1)} gCO2e/kWh (energy-weighted mean, location-based), M = "
        f"{report.mass.text(ours['embodied_g'])} embodied carbon of GPUs and their servers, by "
        f"GPU time over three years; for {policy_name(report.router)}."
    )
    head = ("R", policy_name(report.router), policy_name(BASELINE))
    return _section(
        "SCI: (E × I + M) / R",
        _table(head, rows, numbers=(1, 2))
        + _paragraph(
            "Software Carbon Intensity by functional unit R.",
            escape(text),
            "Networks, users' devices, storage, idle capacity, cooling water and training are "
            "outside its boundary.",
        ),
        whole=True,
    )


def _small(grams: float) -> str:
    return fmt.Mass.for_largest(grams).text(grams)


def _inputs(report: _Report) -> str:
    scenario = report.scenario
    preset, changes = nearest_preset(scenario)
    rows = []
    for name, value in scenario.to_dict().items():
        if name == "name":
            continue
        mark = "changed" if name in changes else ""
        unit = FIELDS[name]["unit"]
        rows.append(
            (
                FIELDS[name]["meaning"],
                _shown(value) + (f" {unit}" if unit and value is not None else ""),
                mark,
            )
        )
    return _section("Inputs", _table(("Input", "Value", f"Against {preset}"), rows, wide=1))


def _shown(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(
            f"{key}: {', '.join(map(str, one)) if isinstance(one, list) else one}"
            for key, one in value.items()
        )
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,g}" if isinstance(value, float) else str(value)


def _assumptions(report: _Report) -> str:
    scenario, prepared = report.scenario, report.comparison.prepared
    items = [
        f"{LOCATION_BASED[:1].upper()}{LOCATION_BASED[1:]}; intensity is "
        f"{KIND_MEANING[scenario.intensity_kind]}, {scenario.carbon_basis}.",
        f"Policies know: {KNOWLEDGE_MEANING[scenario.intensity_knowledge]}; carbon is charged at "
        "the true intensity.",
        "A session's cache is kept "
        + ("only where its last turn ran" if scenario.copies == "latest" else "wherever a turn ran")
        + f", for {fmt.minutes(scenario.idle_s)} after its last use there.",
        "Built-in GPU energy is from ML.ENERGY measurements by model, GPU type and batch size. "
        f"{scaled_sentence(prepared.deployments.curves)} A host draws {HOST_W_PER_GPU:.0f} W a "
        "busy GPU. Idle capacity is not charged.",
        f"Difficulty of prompts, for predicted quality: {prepared.placed.difficulty_source}. "
        "Predicted quality is a common yardstick and no measured rate of good answers.",
        embodied_sentence(prepared.deployments.gpus),
        "FairCarbon is reconstructed from its published abstract.",
        _times(report),
        "The 95 % intervals come from 1,000 resamples of the conversations; they hold for other "
        "conversations of the same kind, and not for errors of the energy or carbon factors.",
    ]
    batches = [one for one in prepared.deployments.replicas if one.extrapolated]
    if batches:
        items.append(
            f"{fmt.plural(len(batches), 'pair')} of model and GPU type decode fewer sequences "
            "together than was ever measured; their energy is extrapolated."
        )
    return _section("Assumptions", _list(items))


def _times(report: _Report) -> str:
    trace = report.comparison.trace
    if trace.start_utc_s is not None or trace.start_s is not None:
        return "Times of turns are those of the trace."
    gaps = "as in the trace" if trace.t_s is not None else f"drawn from {report.scenario.gaps}'s"
    return (
        f"Starts of conversations are drawn (seed {report.scenario.seed}) by the daily curve of a "
        f"chat service; gaps between turns are {gaps}."
    )


def _warnings(report: _Report) -> str:
    items = list(report.comparison.warnings)
    assumed = [site["city"] for site in report.sites if "assumed" in site["pue_basis"]]
    if assumed:
        items.insert(0, f"PUE is assumed for {fmt.joined(assumed)}: none is published.")
    estimated = report.ours.get("estimated_intensity_share")
    if estimated:
        items.append(
            f"{fmt.percent(100 * estimated)} of the energy is charged at carbon intensity that its "
            "source had estimated."
        )
    unserved = report.ours["unserved_turns"]
    if unserved:
        items.append(
            f"{fmt.number(unserved)} of {fmt.number(report.ours['turns'])} turns fit in no model "
            "and are in no figure."
        )
    items += unmet.unmet(report.comparison, report.router)
    return _section("Warnings", _list(items) if items else _paragraph("None."))


def _sources(report: _Report) -> str:
    grids: dict[tuple[str, ...], list[str]] = {}
    for site in report.sites:
        key = tuple(
            site[name]
            for name in (
                "intensity_series",
                "intensity_source",
                "intensity_granularity",
                "intensity_licence",
            )
        )
        grids.setdefault(key, []).append(site["zone"])
    rows = [
        (
            f"Carbon intensity of {', '.join(dict.fromkeys(zones))}"
            + ("" if series == "built in" else f" (series {series})"),
            f"{source}; {granularity}",
            years(report.scenario),
            licence,
        )
        for (series, source, granularity, licence), zones in grids.items()
    ]
    used = _tables_used(report)
    rows += [
        (one.what, one.source, one.years, one.licence)
        for one in sources.built_in_sources()
        if one.table in used
    ]
    by_basis: dict[str, list[str]] = {}
    for site in report.sites:
        by_basis.setdefault(site["pue_basis"], []).append(site["city"])
    rows += [(f"PUE of {fmt.joined(cities)}", basis, "", "") for basis, cities in by_basis.items()]
    return _section(
        "Sources",
        _table(("Data", "Source", "Years", "Licence"), rows, wide=1)
        + _paragraph(
            "Contains data from Electricity Maps, made available under the Open Database License "
            "1.0. Method and limits of each table are in data/README.md of the program."
        ),
    )


def _tables_used(report: _Report) -> set[str]:
    trace = report.comparison.trace
    used = {
        "models.csv",
        "gpus.csv",
        "energy_points.csv",
        "regions.csv",
        "region_rtt_ms.csv",
        "difficulty tables",
    }
    used |= {
        "sharegpt": {"sharegpt_turns.parquet"},
        "claude-code": {"claude_code_turns.parquet"},
    }.get(trace.name, set())
    if trace.start_s is None and trace.start_utc_s is None:
        used.add("ragpulse_turns.parquet")
        if trace.t_s is None and report.scenario.gaps == "mooncake":
            used.add("mooncake_conversation_sessions.parquet")
    return used


def _redo(report: _Report, made: datetime) -> str:
    prepared = report.comparison.prepared
    rows = [(name, value) for name, value in provenance.fingerprints(prepared).items()]
    cite = (
        f"CarbonRouter {provenance.engine_version()}, run "
        f"{provenance.run_id(prepared, report.comparison.runs)}, scenario "
        f"<bdi>{escape(report.scenario.name)}</bdi>, {utc_seconds(made)}."
    )
    return _section(
        "To redo these figures",
        _paragraph(
            "Run the scenario of the CSV bundle (scenario.json) on the same version and data: "
            "decisions.csv comes out with the same bytes. SHA-256 of what the figures rest on:"
        )
        + _table(("What", "SHA-256"), rows)
        + _paragraph(f"Cite as: {cite}"),
        whole=True,
    )


# --- Markup ----------------------------------------------------------------------------------


def _section(title: str, body: str, *, whole: bool = False) -> str:
    """``whole``: it is short enough to be kept on one page."""
    return f"<section{' class=whole' if whole else ''}><h2>{escape(title)}</h2>{body}</section>"


def _paragraph(*sentences: str) -> str:
    """Our own words; what may come from a user is escaped before."""
    return f"<p>{' '.join(sentences)}</p>"


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"


def _table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Sequence[int] = (),
    wide: int | None = None,
) -> str:
    """A table of text; ``numbers``: columns set to the right, ``wide``: the one that may wrap."""

    def cell(tag: str, i: int, text: str) -> str:
        kind = (
            "num"
            if i in numbers
            else "wide"
            if i == wide
            else "short"
            if len(text) <= SHORT
            else ""
        )
        return f"<{tag}{f' class={kind}' if kind else ''}>{escape(text)}</{tag}>"

    body = "".join(
        f"<tr>{''.join(cell('td', i, text) for i, text in enumerate(row))}</tr>" for row in rows
    )
    return (
        f"<table><thead><tr>{''.join(cell('th', i, text) for i, text in enumerate(head))}"
        f"</tr></thead><tbody>{body}</tbody></table>"
    )


def _figure(chart: svg.Chart) -> str:
    return (
        f"<figure><figcaption><b>{escape(chart.title)}</b><span>{escape(chart.subtitle)}</span>"
        f"</figcaption>{chart.svg}</figure>"
    )
