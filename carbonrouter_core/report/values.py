"""The values of the HTML report: what its tables, sentences and charts read of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from carbonrouter_core.fleet.costs import HOST_W_PER_GPU
from carbonrouter_core.fleet.sources import embodied_sentence, scaled_sentence
from carbonrouter_core.grid.knowledge import MEANING as KNOWLEDGE_MEANING
from carbonrouter_core.report.metadata import (
    KIND_MEANING,
    LOCATION_BASED,
    nearest_preset,
    shared_scenario,
    sites,
    utc_seconds,
    years,
)
from carbonrouter_core.report.sources import Source, built_in_sources
from carbonrouter_core.report.tables.summary import TOKENS_OF_UNIT, served_turns
from carbonrouter_core.results import provenance
from carbonrouter_core.results.comparison import Comparison, Interval
from carbonrouter_core.results.quoted_range import QuotedRange, quoted_range
from carbonrouter_core.results.unmet import unmet
from carbonrouter_core.routing.policies import BOUND, FAIRCARBON, FULL_PROMPT, OPTIMUM, policy
from carbonrouter_core.scenario import FIELDS, Scenario
from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.version import VERSION
from carbonrouter_core.words import answer, notes
from carbonrouter_core.words import figures as fmt

INDENT = "\N{NO-BREAK SPACE}" * 3


@dataclass(frozen=True)
class Report:
    """The values of the report, as its template and its charts read them.

    Rows of tables are tuples of text, in the order of the template's heads.
    """

    comparison: Comparison
    router: str
    made_utc: datetime

    @property
    def made(self) -> str:
        """When the report was made, UTC."""
        return utc_seconds(self.made_utc)

    @property
    def version(self) -> str:
        """Version of the program."""
        return VERSION

    @property
    def run_id(self) -> str:
        """The run's short name."""
        return provenance.run_id(self.comparison.prepared, self.comparison.runs)

    @property
    def fingerprints(self) -> list[tuple[str, str]]:
        """SHA-256 of what the figures rest on."""
        return list(provenance.fingerprints(self.comparison.prepared).items())

    @property
    def trace(self) -> Trace:
        """The trace that was replayed."""
        return self.comparison.trace

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario as it may leave this machine."""
        return shared_scenario(self.comparison)

    @cached_property
    def preset(self) -> str:
        """The preset the scenario is nearest to."""
        return nearest_preset(self.scenario)[0]

    @cached_property
    def changes(self) -> Mapping[str, Any]:
        """Fields in which the scenario differs from that preset."""
        return nearest_preset(self.scenario)[1]

    # --- Figures -----------------------------------------------------------------------------

    @cached_property
    def figures(self) -> dict[str, dict[str, Any]]:
        """The figures of each policy."""
        return {name: self.comparison.figures(name) for name in self.comparison.runs}

    @property
    def ours(self) -> dict[str, Any]:
        """The router's figures."""
        return self.figures[self.router]

    @property
    def theirs(self) -> dict[str, Any]:
        """FairCarbon's figures."""
        return self.figures[FAIRCARBON]

    @property
    def bound(self) -> dict[str, Any] | None:
        """Figures of the lower bound, where it was run."""
        return self.figures.get(BOUND)

    @property
    def optimum(self) -> dict[str, Any] | None:
        """Figures of the hindsight optimum, where it was run."""
        return self.figures.get(OPTIMUM)

    @property
    def full_prompt(self) -> dict[str, Any] | None:
        """Figures of the kindest reading of FairCarbon, where it was run."""
        return self.figures.get(FULL_PROMPT)

    @cached_property
    def mass(self) -> fmt.Mass:
        """One scale for all masses."""
        return fmt.Mass.for_largest(max(figures["carbon_g"] for figures in self.figures.values()))

    @cached_property
    def saving(self) -> Interval:
        """The router's saving over all sessions."""
        return self.comparison.saving(self.router, FAIRCARBON)

    @property
    def savings_of_groups(self) -> list[tuple[str, Interval]]:
        """The router's saving over some of the sessions."""
        groups = (
            (answer.LONG_SESSIONS, self.comparison.long_sessions),
            (answer.TEST_HALF, self.comparison.test_half),
        )
        return [
            (words, self.comparison.saving(self.router, FAIRCARBON, sessions))
            for words, sessions in groups
        ]

    @property
    def quoted(self) -> QuotedRange | None:
        """The range to quote with the saving on the test half, where there is one."""
        saving = self.comparison.saving(self.router, FAIRCARBON, self.comparison.test_half)
        return quoted_range(saving, self.trace.name, self.router)

    @property
    def intensity_g_per_kwh(self) -> float | None:
        """Energy-weighted mean intensity of the router's electricity."""
        energy_kwh = self.ours["energy_kwh"]
        return self.ours["carbon_g"] / energy_kwh if energy_kwh else None

    def name(self, policy_id: str) -> str:
        """What a policy is called in this report."""
        if policy_id == OPTIMUM:
            return self.comparison.optimum_label
        return policy(policy_id).label

    # --- Rows of tables ----------------------------------------------------------------------

    @property
    def key_figures(self) -> list[tuple[str, str, str, str]]:
        """Label, the router's figure, FairCarbon's, and the difference."""
        mass = fmt.Mass.for_largest(self.theirs["carbon_g"]).text
        shown = (
            ("Carbon", "carbon_g", mass),
            (f"{INDENT}recomputed history", "recompute_g", mass),
            (f"{INDENT}new prompts", "prompt_g", mass),
            (f"{INDENT}writing the answer", "decode_g", mass),
            (f"{INDENT}host servers", "host_g", mass),
            ("Embodied carbon, apart", "embodied_g", mass),
            ("Energy with PUE", "energy_kwh", fmt.energy),
            ("Recomputed share of carbon", "recompute_share", _percent_of_share),
            ("Moves per conversation", "moves_per_session", _two_decimals),
            ("Predicted quality, mean", "quality_mean", _three_decimals),
            ("Time to first token, mean", "ttft_ms_mean", fmt.duration),
            ("Time to first token, 95th percentile", "ttft_ms_p95", fmt.duration),
            ("Latency, mean", "latency_ms_mean", fmt.duration),
            ("Latency, 95th percentile", "latency_ms_p95", fmt.duration),
            ("Quality, best less worst user region", "quality_gap", _three_decimals),
            ("Latency, slowest less fastest user region", "latency_gap_ms", fmt.duration),
            ("Turns not served", "unserved_turns", fmt.number),
            ("Turns over the latency ceiling", "missed_ceiling_turns", fmt.number),
        )
        rows = []
        for label, name, text in shown:
            ours, theirs = self.ours[name], self.theirs[name]
            change = fmt.change_percent(ours, theirs)
            difference = "" if change is None else fmt.percent(change, signed=True)
            rows.append((label, text(ours), text(theirs), difference))
        return rows

    @cached_property
    def sites(self) -> list[dict[str, Any]]:
        """Regions with zone, PUE and intensity."""
        return sites(self.comparison)

    @property
    def cities_with_assumed_pue(self) -> list[str]:
        """Cities whose PUE is not published."""
        return [site["city"] for site in self.sites if "assumed" in site["pue_basis"]]

    @property
    def regions(self) -> list[tuple[str, ...]]:
        """Each region with the router's turns, energy and carbon, and FairCarbon's carbon."""
        ours = self.comparison.traffic(self.router)
        theirs = self.comparison.traffic(FAIRCARBON)
        turns = max(float(ours["turns"].sum()), 1.0)
        return [
            (
                f"{site['city']} ({site['region']})",
                site["zone"],
                fmt.number(site["pue"], 2) + ("*" if "assumed" in site["pue_basis"] else ""),
                fmt.number(site["mean_intensity_g_per_kwh"]),
                fmt.percent(100 * row["turns"] / turns),
                fmt.energy(row["energy_kwh"]),
                self.mass.text(row["carbon_g"]),
                self.mass.text(against["carbon_g"]),
            )
            for site, row, against in zip(
                self.sites, ours.to_dict("records"), theirs.to_dict("records"), strict=True
            )
        ]

    @property
    def sci(self) -> list[tuple[str, str, str]]:
        """Software Carbon Intensity by functional unit, of the router and of FairCarbon."""

        def per(count: float, figures: Mapping[str, Any]) -> str:
            grams = figures["carbon_g"] + figures["embodied_g"]
            return _on_its_own_scale(grams / count) if count else fmt.NOT_AVAILABLE

        def row(label: str, ours: float, theirs: float) -> tuple[str, str, str]:
            return label, per(ours, self.ours), per(theirs, self.theirs)

        both = (self.ours, self.theirs)
        turns = (served_turns(figures) for figures in both)
        sessions = (figures["sessions"] for figures in both)
        tokens = (figures["output_tokens"] / TOKENS_OF_UNIT for figures in both)
        return [
            row("one served turn", *turns),
            row("one conversation", *sessions),
            row(f"{fmt.number(TOKENS_OF_UNIT)} output tokens", *tokens),
        ]

    @property
    def inputs(self) -> list[tuple[str, str, str]]:
        """Every input with its value, and whether it differs from the preset."""
        rows = []
        for name, value in self.scenario.to_dict().items():
            if name == "name":
                continue
            unit = FIELDS[name]["unit"]
            text = _input_text(value) + (f" {unit}" if unit and value is not None else "")
            rows.append((FIELDS[name]["meaning"], text, "changed" if name in self.changes else ""))
        return rows

    @property
    def sources(self) -> list[tuple[str, str, str, str]]:
        """Data, source, years and licence of all that the figures rest on."""
        zones: dict[tuple[str, ...], list[str]] = {}
        for site in self.sites:
            names = ("series", "source", "granularity", "licence")
            key = tuple(site[f"intensity_{name}"] for name in names)
            zones.setdefault(key, []).append(site["zone"])
        rows = [
            (
                f"Carbon intensity of {', '.join(dict.fromkeys(used))}"
                + ("" if series == "built in" else f" (series {series})"),
                f"{source}; {granularity}",
                years(self.scenario),
                licence,
            )
            for (series, source, granularity, licence), used in zones.items()
        ]
        rows += [
            (source.what, source.source, source.years, source.licence)
            for source in self._sources_of_tables
        ]
        cities: dict[str, list[str]] = {}
        for site in self.sites:
            cities.setdefault(site["pue_basis"], []).append(site["city"])
        rows += [(f"PUE of {fmt.joined(at)}", basis, "", "") for basis, at in cities.items()]
        return rows

    @property
    def attributions(self) -> list[str]:
        """Sentences that name the built-in sources the figures rest on."""
        used = [source.attribution for source in self._sources_of_tables]
        if any(site["intensity_series"] == "built in" for site in self.sites):
            used = [*(source.attribution for source in _intensity_sources()), *used]
        return list(dict.fromkeys(used))

    @cached_property
    def _sources_of_tables(self) -> list[Source]:
        """Sources of the built-in tables that were used, those of carbon intensity left out."""
        tables = _tables_used(self.trace, self.scenario)
        return [source for source in built_in_sources() if source.table in tables]

    # --- Lists of sentences ------------------------------------------------------------------

    @property
    def assumptions(self) -> list[str]:
        """What the figures assume."""
        scenario, prepared = self.scenario, self.comparison.prepared
        copies = (
            "only where its last turn ran"
            if scenario.copies == "latest"
            else ("wherever a turn ran")
        )
        sentences = [
            f"{fmt.sentence_case(LOCATION_BASED)}; intensity is "
            f"{KIND_MEANING[scenario.intensity_kind]}, {scenario.carbon_basis}.",
            f"Policies know: {KNOWLEDGE_MEANING[scenario.intensity_knowledge]}; carbon is charged "
            "at the true intensity.",
            f"A session's cache is kept {copies}, for {fmt.minutes(scenario.idle_s)} after its "
            "last use there.",
            "Built-in GPU energy is from ML.ENERGY measurements by model, GPU type and batch size. "
            f"{scaled_sentence(prepared.deployments.curves)} A host draws {HOST_W_PER_GPU:.0f} W a "
            "busy GPU. Idle capacity is not charged.",
            f"{notes.difficulty(prepared.placed.difficulty_source)} {notes.QUALITY}",
            embodied_sentence(prepared.deployments.gpus),
            notes.FAIRCARBON,
            _times(self.trace, scenario),
            "The 95 % intervals come from 1,000 resamples of the conversations; they hold for "
            "other conversations of the same kind, and not for errors of the energy or carbon "
            "factors.",
        ]
        extrapolated = sum(replica.extrapolated for replica in prepared.deployments.replicas)
        if extrapolated:
            sentences.append(
                f"{fmt.plural(extrapolated, 'pair')} of model and GPU type decode fewer sequences "
                "together than was ever measured; their energy is extrapolated."
            )
        return sentences

    @property
    def warnings(self) -> list[str]:
        """What a reader of the figures must know."""
        sentences = list(self.comparison.warnings)
        if self.cities_with_assumed_pue:
            sentences.insert(0, notes.assumed_pue(self.cities_with_assumed_pue))
        estimated_share = self.ours.get("estimated_intensity_share")
        if estimated_share:
            sentences.append(
                f"{fmt.percent(100 * estimated_share)} of the energy is charged at carbon "
                "intensity that its source had estimated."
            )
        if self.ours["unserved_turns"]:
            sentences.append(notes.unserved(self.ours["unserved_turns"], self.ours["turns"]))
        return [*sentences, *unmet(self.comparison, self.router)]


# --- Values as text --------------------------------------------------------------------------


def _two_decimals(value: float | None) -> str:
    return fmt.number(value, 2)


def _three_decimals(value: float | None) -> str:
    return fmt.number(value, 3)


def _percent_of_share(share: float | None) -> str:
    return fmt.percent(None if share is None else 100 * share)


def _on_its_own_scale(grams: float) -> str:
    return fmt.Mass.for_largest(grams).text(grams)


def _input_text(value: Any) -> str:
    """The value of an input as a cell."""
    if value is None or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(
            f"{key}: {', '.join(map(str, item)) if isinstance(item, list) else item}"
            for key, item in value.items()
        )
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,g}" if isinstance(value, float) else str(value)


def _times(trace: Trace, scenario: Scenario) -> str:
    """Where the times of turns come from."""
    if trace.start_utc_s is not None or trace.start_s is not None:
        return "Times of turns are those of the trace."
    gaps = "as in the trace" if trace.t_s is not None else f"drawn from {scenario.gaps}'s"
    return (
        f"Starts of conversations are drawn (seed {scenario.seed}) by the daily curve of a chat "
        f"service; gaps between turns are {gaps}."
    )


def _intensity_sources() -> list[Source]:
    return [source for source in built_in_sources() if source.section == "Carbon intensity"]


def _tables_used(trace: Trace, scenario: Scenario) -> set[str]:
    """The built-in tables that figures of ``trace`` rest on, carbon intensity left out."""
    used = {
        *("models.csv", "gpus.csv", "energy_points.csv", "regions.csv", "region_rtt_ms.csv"),
        "difficulty tables",
    }
    built_in = {
        "sharegpt": "sharegpt_turns.parquet",
        "claude-code": "claude_code_turns.parquet",
    }
    if trace.name in built_in:
        used.add(built_in[trace.name])
    if trace.start_s is None and trace.start_utc_s is None:
        used.add("ragpulse_turns.parquet")
        if trace.t_s is None and scenario.gaps == "mooncake":
            used.add("mooncake_conversation_sessions.parquet")
    return used
