"""The basis of a result, as keys and values: ``metadata.csv``, and the annex of the report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from carbonrouter_core.errors import StoreError
from carbonrouter_core.grid.knowledge import MEANING as KNOWLEDGE_MEANING
from carbonrouter_core.grid.series import utc_text
from carbonrouter_core.report.fields import neutral
from carbonrouter_core.results import provenance
from carbonrouter_core.results.comparison import Comparison
from carbonrouter_core.scenario import FIELDS, PRESETS, Scenario
from carbonrouter_core.store.store import existing_store
from carbonrouter_core.traces.builtin import BUILTIN_TRACES
from carbonrouter_core.version import VERSION

LOCATION_BASED = "location-based (the grid each site stands on; no contracts or certificates)"
FUNCTIONAL_UNIT = "one served turn; also one session, and 1000 output tokens"
KIND_MEANING = {
    "average": "average (all power of the grid, by its sources)",
    "marginal": "marginal (the plant that one more kWh starts)",
}
UNKNOWN = "not recorded"


class Fact(NamedTuple):
    """One row of the metadata."""

    key: str
    value: Any


def shared_scenario(comparison: Comparison) -> Scenario:
    """The scenario as it may leave this machine: a trace file by its name, without its path."""
    return comparison.prepared.scenario.replace(trace=comparison.trace.name)


def metadata(comparison: Comparison, generated_utc: datetime) -> list[Fact]:
    """All that a reader needs to judge and to redo the figures."""
    prepared = comparison.prepared
    scenario = shared_scenario(comparison)
    facts = [
        Fact("run_id", provenance.run_id(prepared, comparison.runs)),
        Fact("app_version", VERSION),
        Fact("engine_version", VERSION),
        Fact("commit", provenance.commit() or UNKNOWN),
        Fact("generated_at_utc", utc_seconds(generated_utc)),
        *(
            Fact(f"sha256.{name}", value)
            for name, value in provenance.fingerprints(prepared).items()
        ),
        *(
            Fact(f"own.{entry.kind}.{entry.name}", f"{entry.row}, sha256 {entry.sha256}")
            for entry in prepared.deployments.own_entries
        ),
        Fact("policies", ", ".join(comparison.runs)),
    ]
    preset, changes = nearest_preset(scenario)
    facts.append(Fact("preset", preset))
    facts.append(Fact("changes_from_preset", {name: now for name, (_, now) in changes.items()}))
    default = Scenario().to_dict()
    for name, value in scenario.to_dict().items():
        facts.append(Fact(f"input.{name}", value))
        facts.append(Fact(f"input.{name}.unit", FIELDS[name]["unit"]))
        facts.append(Fact(f"input.{name}.is_default", value == default[name]))
    facts += [
        Fact("trace.name", comparison.trace.name),
        Fact("trace.sha256", comparison.trace.sha256),
        Fact("trace.sessions", comparison.trace.n_sessions),
        Fact("trace.turns", comparison.trace.n_turns),
        Fact("trace.difficulty", prepared.placed.difficulty_source),
        *(
            Fact(f"trace.{name}", count)
            for name, count in row_counts(comparison.trace.name).items()
        ),
        Fact("window_start_utc", utc_text(scenario.window_start_s)),
        Fact("window_end_utc", utc_text(scenario.window_end_s)),
        Fact("carbon_basis", scenario.carbon_basis),
        Fact("intensity_kind", KIND_MEANING[scenario.intensity_kind]),
        Fact("intensity_known_to_policies", KNOWLEDGE_MEANING[scenario.intensity_knowledge]),
        Fact("accounting", LOCATION_BASED),
        Fact("embodied_in_total", False),
        Fact("embodied_in_choice", scenario.embodied),
        Fact("functional_unit", FUNCTIONAL_UNIT),
        Fact("energy_basis", "energy_kwh is the facility's (with PUE), it_energy_kwh the servers'"),
    ]
    for name, unserved in _unserved(comparison).items():
        facts.append(Fact(f"unserved_turns.{name}", unserved))
    for site in sites(comparison):
        region = site.pop("region")
        facts += [Fact(f"region.{region}.{key}", value) for key, value in site.items()]
    facts += [Fact(f"warning.{i}", text) for i, text in enumerate(comparison.warnings, 1)]
    return facts


def nearest_preset(scenario: Scenario) -> tuple[str, dict[str, tuple[Any, Any]]]:
    """The preset that ``scenario`` is closest to; (the preset's value, its own) by field."""
    changes = {name: scenario.differences(preset) for name, preset in PRESETS.items()}
    name = min(changes, key=lambda preset_name: len(changes[preset_name]))
    return name, changes[name]


def sites(comparison: Comparison) -> list[dict[str, Any]]:
    """Each region with its zone, PUE and the source of its carbon intensity in the window."""
    prepared = comparison.prepared
    scenario = prepared.scenario
    rows = []
    for row, region, source in zip(
        comparison.sites().to_dict("records"),
        prepared.deployments.regions,
        prepared.intensity_sources,
        strict=True,
    ):
        own_pue = row["region"] in scenario.pue_overrides
        published = "assumed: none is published" if row["pue_assumed"] else region.pue_source
        rows.append(
            {
                "region": row["region"],
                "city": row["city"],
                "zone": row["zone"],
                "pue": row["pue"],
                "pue_basis": "set by the user" if own_pue else published,
                "mean_intensity_g_per_kwh": row["mean_intensity_g_per_kwh"],
                "intensity_estimated_share": row["estimated_share"],
                "intensity_series": source.series if source.own else "built in",
                "intensity_source": source.source,
                "intensity_licence": source.licence,
                "intensity_kind": source.kind,
                "intensity_granularity": source.granularity,
                "intensity_years": years(scenario),
                "intensity_sha256": source.sha256,
            }
        )
    return rows


def years(scenario: Scenario) -> str:
    """The year of the window, or the years it touches."""
    last = scenario.window_start + timedelta(days=scenario.window_days - 1)
    first = scenario.window_start.year
    return str(first) if first == last.year else f"{first}-{last.year}"


def row_counts(trace: str) -> dict[str, Any]:
    """Rows that were read, repaired and dropped when a trace was brought in."""
    names = ("rows_read", "rows_repaired", "rows_refused", "rows_unreadable")
    if trace in BUILTIN_TRACES:
        return dict.fromkeys(names, "built in: see data/README.md")
    try:
        store = existing_store()
        stored = {trace.name: trace.report for trace in store.traces()} if store else {}
    except StoreError:
        stored = {}
    return {name: stored.get(trace, {}).get(name, UNKNOWN) for name in names}


def utc_seconds(time: datetime) -> str:
    """A time in UTC, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def value_text(value: Any) -> str:
    """A value of the metadata as a cell: numbers as they are, text made neutral."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, int | float | np.number):
        return "" if isinstance(value, float) and not np.isfinite(value) else repr(_plain(value))
    if isinstance(value, Mapping | list | tuple):
        return neutral(json.dumps(value, ensure_ascii=False))
    return neutral(str(value))


def _plain(value: Any) -> int | float:
    return value.item() if isinstance(value, np.number) else value


def _unserved(comparison: Comparison) -> dict[str, int]:
    return {name: int((~run.decisions.served).sum()) for name, run in comparison.runs.items()}
