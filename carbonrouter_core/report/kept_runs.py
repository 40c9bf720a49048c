"""Runs that are kept: what was computed, from what, and whether it still comes out the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from carbonrouter_core.progress import Progress, nobody_listens
from carbonrouter_core.report.bundle import decisions_sha256
from carbonrouter_core.report.fields import schema_of, to_table
from carbonrouter_core.report.tables.turns import DECISIONS, decisions
from carbonrouter_core.results import provenance
from carbonrouter_core.results.comparison import Comparison, compare
from carbonrouter_core.results.totals import FIGURES
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.store.runs import StoredRun
from carbonrouter_core.store.store import Store
from carbonrouter_core.version import VERSION

KEPT_COLUMNS = (
    *("policy", "session", "turn", "model", "gpu", "region", "cached_tokens"),
    *("energy_kwh", "carbon_g"),
)
"""Columns of ``decisions.csv`` that are kept with a run, to hold two runs side by side."""
_FIELDS_OF_RUN = tuple(field for field in DECISIONS if field.name in KEPT_COLUMNS)


@dataclass(frozen=True)
class Check:
    """What became of a run that was computed again.

    ``changed``: what has changed (program, trace, factors), in words. ``same_decisions``:
    whether ``decisions.csv`` has the same bytes.
    """

    version_then: str
    version_now: str
    changed: tuple[str, ...]
    same_decisions: bool

    def __str__(self) -> str:
        bytes_ = "the same bytes" if self.same_decisions else "other bytes"
        text = f"Computed again, decisions.csv has {bytes_}."
        if self.version_then != self.version_now:
            text += f" Version {self.version_then} then, {self.version_now} now."
        if self.changed:
            text += f" Changed since: {'; '.join(self.changed)}."
        elif self.same_decisions:
            text += " Nothing it rests on has changed."
        return text


@dataclass(frozen=True)
class Difference:
    """Two runs side by side.

    ``inputs``: fields that differ, (first, second). ``rests_on``: fingerprints that differ, in
    words. ``figures``: of each policy that both have, (first, second) of each figure.
    ``turns``: of each such policy, (turns in both, those served elsewhere); None where the
    decisions of one were not kept.
    """

    inputs: Mapping[str, tuple[Any, Any]]
    rests_on: tuple[str, ...]
    figures: Mapping[str, Mapping[str, tuple[Any, Any]]]
    turns: Mapping[str, tuple[int, int]] | None


def keep(store: Store, comparison: Comparison, name: str, note: str = "") -> StoredRun:
    """Store a run under ``name``: its inputs, figures, fingerprints and decisions."""
    prepared = comparison.prepared
    summary = comparison.to_dict() | {
        "run_id": provenance.run_id(prepared, comparison.runs),
        "decisions_sha256": decisions_sha256(comparison),
    }
    run = StoredRun(
        name=name,
        scenario_json=prepared.scenario.to_json(),
        summary_json=json.dumps(summary, ensure_ascii=False),
        engine_version=VERSION,
        seed=prepared.scenario.seed,
        data_hashes=provenance.fingerprints(prepared),
        note=note,
    )
    return store.save_run(run, _decisions(comparison))


def scenario_of(run: StoredRun) -> Scenario:
    """The scenario of a run, to open it again."""
    return Scenario.from_json(run.scenario_json)


def policies_of(run: StoredRun) -> tuple[str, ...]:
    """The policies of a run."""
    return tuple(json.loads(run.summary_json)["policies"])


def figures_of(run: StoredRun, policy_id: str) -> dict[str, Any]:
    """The figures of a policy as they were when the run was kept; those known to FIGURES."""
    figures = json.loads(run.summary_json)["policies"][policy_id]
    return {name: figures[name] for name in FIGURES if name in figures}


def run_again(run: StoredRun, progress: Progress = nobody_listens) -> tuple[Comparison, Check]:
    """Compute ``run`` anew from what is here now, and say whether it came out the same.

    ``progress`` as in :func:`~.run.run_policy`.
    Raises :class:`~.errors.InputError` where its trace or a name in it is not here any more.
    """
    comparison = compare(scenario_of(run), policies_of(run), progress=progress, on_disk=True)
    prepared = comparison.prepared
    check = Check(
        version_then=run.engine_version,
        version_now=VERSION,
        changed=provenance.changed(run.data_hashes, provenance.fingerprints(prepared)),
        same_decisions=decisions_sha256(comparison)
        == json.loads(run.summary_json).get("decisions_sha256"),
    )
    return comparison, check


def difference(store: Store, first: StoredRun, second: StoredRun) -> Difference:
    """What differs between two runs, in their inputs, their figures and turn by turn."""
    policies = [name for name in policies_of(first) if name in policies_of(second)]
    a, b = json.loads(first.scenario_json), json.loads(second.scenario_json)
    inputs = {
        name: (a.get(name), b.get(name))
        for name in dict.fromkeys([*a, *b])
        if name != "name" and a.get(name) != b.get(name)
    }
    figures = {}
    for policy_id in policies:
        ours, theirs = figures_of(first, policy_id), figures_of(second, policy_id)
        figures[policy_id] = {name: (ours[name], theirs[name]) for name in ours if name in theirs}
    return Difference(
        inputs=inputs,
        rests_on=provenance.changed(first.data_hashes, second.data_hashes),
        figures=figures,
        turns=store.turns_served_elsewhere(first.id, second.id, policies),
    )


def _decisions(comparison: Comparison) -> pa.RecordBatchReader:
    """A row for each served turn of each policy, made a chunk at a time."""
    batches = (
        batch
        for rows in decisions(comparison)
        for batch in to_table(_FIELDS_OF_RUN, rows).to_batches()
    )
    return pa.RecordBatchReader.from_batches(schema_of(_FIELDS_OF_RUN), batches)
