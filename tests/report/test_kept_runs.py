"""Runs that are kept: listed, named, opened again, computed again, compared, deleted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from carbonrouter_core import Comparison, InputError, Scenario, compare
from carbonrouter_core.report import kept_runs
from carbonrouter_core.results import provenance
from carbonrouter_core.store.store import Store
from carbonrouter_core.version import VERSION

POLICIES = ("carbonrouter", "faircarbon")
LOG = "session,turn,new_prompt_tokens,output_tokens,history_tokens,t_s\n" + "".join(
    f"s{i},{turn},{50 + 7 * i},{80 + 11 * turn},{turn * 200},{turn * 60}\n"
    for i in range(40)
    for turn in range(i % 5 + 1)
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "none"))
    return Store(tmp_path / "home")


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    path = tmp_path_factory.mktemp("trace") / "log.csv"
    path.write_text(LOG)
    return Scenario(trace=str(path), name="Mine", window_days=2)


@pytest.fixture(scope="module")
def comparison(scenario: Scenario) -> Comparison:
    return compare(scenario, POLICIES)


def test_a_run_keeps_what_it_was_computed_from(store: Store, comparison: Comparison) -> None:
    run = kept_runs.keep(store, comparison, "First", "before the move")
    (listed,) = store.runs()
    assert (listed.name, listed.note, listed.id) == ("First", "before the move", run.id)
    assert listed.engine_version == VERSION
    assert listed.seed == 7
    assert set(listed.data_hashes) == set(provenance.WHAT)
    assert listed.data_hashes["trace"] == comparison.trace.sha256
    assert kept_runs.scenario_of(listed) == comparison.prepared.scenario
    assert kept_runs.policies_of(listed) == POLICIES
    assert kept_runs.figures_of(listed, "faircarbon") == comparison.figures("faircarbon")
    kept = store.load_decisions(run.id)
    assert kept.column_names == list(kept_runs.KEPT_COLUMNS)
    assert len(kept) == 2 * comparison.trace.n_turns


def test_a_run_is_renamed_noted_and_deleted(store: Store, comparison: Comparison) -> None:
    run = kept_runs.keep(store, comparison, "First")
    renamed = store.update_run(run.id, name='=HYPERLINK("x")', note="<b>note</b>")
    assert (renamed.name, renamed.note) == ('=HYPERLINK("x")', "<b>note</b>")
    with pytest.raises(InputError, match="name is empty"):
        store.update_run(run.id, name=" ", note="")
    with pytest.raises(InputError, match="2,001 characters"):
        store.update_run(run.id, name="x", note="n" * 2001)
    store.delete_run(run.id)
    assert store.runs() == []
    with pytest.raises(InputError, match="no stored run"):
        store.update_run(run.id, name="x", note="")


def test_computed_again_it_has_the_same_bytes(store: Store, comparison: Comparison) -> None:
    run = kept_runs.keep(store, comparison, "First")
    again, check = kept_runs.run_again(run)
    assert check.same_decisions
    assert check.changed == ()
    assert str(check) == (
        "Computed again, decisions.csv has the same bytes. Nothing it rests on has changed."
    )
    assert again.figures("carbonrouter") == comparison.figures("carbonrouter")


def test_what_has_changed_since_is_said(
    store: Store, scenario: Scenario, comparison: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = kept_runs.keep(store, comparison, "First")
    path = Path(scenario.trace)
    try:
        path.write_text(LOG.replace("s3,0,71,80", "s3,0,9000,80"))
        monkeypatch.setattr(kept_runs, "VERSION", "9.9")
        _, check = kept_runs.run_again(run)
    finally:
        path.write_text(LOG)
    assert not check.same_decisions
    assert "the trace" in check.changed and "carbon intensity" not in check.changed
    said = str(check)
    assert "other bytes" in said and "Version 0.1.0 then, 9.9 now" in said
    assert "Changed since: the trace" in said


def test_a_run_whose_trace_is_gone_says_so(store: Store, comparison: Comparison) -> None:
    run = kept_runs.keep(store, comparison, "First")
    values = json.loads(run.scenario_json) | {"trace": "gone.csv"}
    gone = store.save_run(type(run)(**(vars(run) | {"scenario_json": json.dumps(values), "id": 0})))
    with pytest.raises(InputError, match="gone.csv"):
        kept_runs.run_again(gone)


def test_two_runs_side_by_side(store: Store, scenario: Scenario, comparison: Comparison) -> None:
    first = kept_runs.keep(store, comparison, "First")
    other = compare(scenario.replace(quality_floor=0.8, name="Other"), ("faircarbon", "sticky"))
    second = kept_runs.keep(store, other, "Second")
    found = kept_runs.difference(store, first, second)
    assert found.inputs == {"quality_floor": (0.65, 0.8)}
    assert found.rests_on == ()
    assert list(found.figures) == ["faircarbon"]
    was, now = found.figures["faircarbon"]["carbon_g"]
    assert was == comparison.figures("faircarbon")["carbon_g"]
    assert now == other.figures("faircarbon")["carbon_g"]
    turns = comparison.trace.n_turns
    elsewhere = comparison.runs["faircarbon"].decisions.deployment
    elsewhere = int((elsewhere != other.runs["faircarbon"].decisions.deployment).sum())
    assert elsewhere > 0
    assert found.turns == {"faircarbon": (turns, elsewhere)}
    assert kept_runs.difference(store, first, first).turns == {
        "carbonrouter": (turns, 0),
        "faircarbon": (turns, 0),
    }


def test_runs_without_their_decisions_are_compared_without_turns(
    store: Store, comparison: Comparison
) -> None:
    run = kept_runs.keep(store, comparison, "First")
    bare = store.save_run(run)
    assert kept_runs.difference(store, run, bare).turns is None
