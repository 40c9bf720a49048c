"""As served: what a log says happened, charged like any policy, and the cache model beside it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from carbonrouter_core import Scenario, ScenarioError, TraceError, compare, prepare, run_policy
from carbonrouter_core.replay.as_served import NamesSaid, name_matches
from carbonrouter_core.replay.run import run_as_served
from carbonrouter_core.results.observed import (
    IDLE_GRID_S,
    against_as_served,
    cache_error,
    fit_idle_s,
)
from carbonrouter_core.routing.policies import reasons
from carbonrouter_core.traces.importers.base import ImportOptions
from carbonrouter_core.traces.loading import staged_trace
from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.traces.staging import stage

SCENARIO = Scenario(window_start="2024-05-20", window_days=1)
START_S = 1716200000


def log(tmp_path: Path, *turns: dict[str, Any], **options: Any) -> Trace:
    """A trace from a usage log; each turn as session, seconds after the start, tokens, where."""
    path = tmp_path / "log.jsonl"
    records = []
    for turn in turns:
        usage = {"prompt_tokens": turn["prompt"], "completion_tokens": turn.get("output", 10)}
        if "cached" in turn:
            usage["prompt_tokens_details"] = {"cached_tokens": turn["cached"]}
        record = {
            "created": START_S + turn.get("at", 0),
            "model": turn.get("model", "llama-3.1-8b-instruct"),
            "session_id": turn.get("session", "s"),
            "usage": usage,
        }
        if "region" in turn:
            record["region"] = turn["region"]
        records.append(record)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    with stage([path], options=ImportOptions(**options)) as staged:
        staged.require()
        return staged_trace(staged, "log")


LONDON = {"region": "europe-west2"}


def test_turns_go_where_the_log_says_and_reuse_what_it_says(tmp_path: Path) -> None:
    trace = log(
        tmp_path,
        {"prompt": 500, "cached": 0, **LONDON},
        {"prompt": 700, "cached": 400, "at": 60, **LONDON},
        {"prompt": 900, "cached": 0, "at": 120, "model": "meta-llama/Llama-3.3-70B-Instruct"}
        | LONDON,
        {"prompt": 1000, "at": 180, "region": "Frankfurt"},
    )
    prepared = prepare(SCENARIO, trace)
    run = run_as_served(prepared)
    where = prepared.deployments.to_frame().iloc[run.decisions.deployment]
    assert where["model"].tolist() == ["Llama-3.1-8B"] * 2 + ["Llama-3.3-70B", "Llama-3.1-8B"]
    assert where["region"].tolist() == ["europe-west2"] * 3 + ["europe-west3"]
    assert run.decisions.cached_tokens.tolist() == [0, 400, 0, 0]
    assert run.decisions.reason.tolist() == [reasons.RULE] * 4
    assert any("observed on 3 of 4 turns" in note for note in run.notes)


def test_it_is_charged_by_the_same_accounting(tmp_path: Path) -> None:
    turns = [{"prompt": 500 * i, "at": 60 * i, **LONDON} for i in range(1, 6)]
    trace = log(tmp_path, *turns)
    one = SCENARIO.replace(regions=("europe-west2",), gpus=("H100-80GB",), models=("Llama-3.1-8B",))
    runs = compare(one, ["as-served", "sticky"], trace).runs
    # one deployment, no observed tokens: as served is what any policy would do
    for part in runs["sticky"].charges.__dict__:
        ours = getattr(runs["as-served"].charges, part)
        assert ours == pytest.approx(getattr(runs["sticky"].charges, part), nan_ok=True)


def test_observed_tokens_decide_what_is_recomputed(tmp_path: Path) -> None:
    cold = log(tmp_path, {"prompt": 500, **LONDON}, {"prompt": 700, "cached": 0, "at": 9} | LONDON)
    warm = log(
        tmp_path, {"prompt": 500, **LONDON}, {"prompt": 700, "cached": 510, "at": 9} | LONDON
    )
    recompute_g = [
        run_policy(prepare(SCENARIO, trace), "as-served").charges.recompute_g[1]
        for trace in (cold, warm)
    ]
    assert recompute_g[0] > 0
    assert recompute_g[1] == 0


def test_the_gpu_type_that_needs_least_energy_is_taken_and_said_or_chosen(tmp_path: Path) -> None:
    trace = log(tmp_path, {"prompt": 500, **LONDON}, {"prompt": 900, "at": 60, **LONDON})
    prepared = prepare(SCENARIO, trace)
    frame = prepared.deployments.to_frame()

    def gpu(run: Any) -> str:
        return str(frame["gpu"].iloc[int(run.decisions.deployment[0])])

    energies = {
        name: run_as_served(prepared, name).charges.energy_kwh.sum()
        for name in ("A100-80GB", "H100-80GB")
    }
    cheapest = run_as_served(prepared)
    assert gpu(cheapest) == min(energies, key=energies.__getitem__)
    assert any("no GPU type" in note and gpu(cheapest) in note for note in cheapest.notes)
    assert gpu(run_as_served(prepared, "A100-80GB")) == "A100-80GB"
    with pytest.raises(ScenarioError, match="Nearest known"):
        run_as_served(prepared, "T4")


def test_what_the_scenario_does_not_have_is_reported_and_kept_out(tmp_path: Path) -> None:
    trace = log(
        tmp_path,
        {"session": "a", "prompt": 500, **LONDON},
        {"session": "b", "prompt": 500, "model": "gpt-4", **LONDON},
        {"session": "c", "prompt": 500, "region": "mars-east1"},
        {"session": "d", "prompt": 500, **LONDON},
    )
    comparison = compare(SCENARIO, ["carbonrouter", "as-served"], trace)
    run = comparison.runs["as-served"]
    assert run.decisions.served.tolist() == [True, False, False, True]
    assert run.decisions.reason[1] == reasons.NOT_IN_SCENARIO
    (missing,) = [note for note in run.notes if "not charged" in note]
    assert "2 of 4 turns" in missing
    assert "model gpt-4 (1)" in missing
    assert "region mars-east1 (1)" in missing
    assert missing in comparison.to_dict()["warnings"]
    against = against_as_served(comparison, "carbonrouter")
    assert (against.sessions, against.of_sessions) == (2, 4)
    ours = comparison.session_carbon_g("carbonrouter")[[0, 3]].sum()
    theirs = comparison.session_carbon_g("as-served")[[0, 3]].sum()
    assert against.saving.value_percent == pytest.approx(100 * (1 - ours / theirs))


def test_a_log_without_regions_needs_one_to_be_said(tmp_path: Path) -> None:
    turns = [{"prompt": 500}, {"prompt": 900, "at": 60}]
    run = run_as_served(prepare(SCENARIO, log(tmp_path, *turns)))
    assert not run.decisions.served.any()
    assert any("region not named (2)" in note for note in run.notes)
    told = log(tmp_path, *turns, served_region="europe-west2")
    assert run_as_served(prepare(SCENARIO, told)).decisions.served.all()
    one = SCENARIO.replace(regions=("europe-west2",), gpus=("H100-80GB",))
    assert run_as_served(prepare(one, log(tmp_path, *turns))).decisions.served.all()


def test_a_trace_that_says_nothing_of_it_is_refused() -> None:
    with pytest.raises(TraceError, match="served_model"):
        compare(Scenario(), ["as-served"])
    with pytest.raises(TraceError, match="no cached tokens"):
        cache_error(prepare(Scenario()).placed, 3600, "latest")


def test_turns_that_no_model_holds_are_unserved_here_too(tmp_path: Path) -> None:
    trace = log(tmp_path, {"prompt": 900_000, **LONDON}, {"prompt": 900_100, "at": 9} | LONDON)
    run = run_as_served(prepare(SCENARIO, trace))
    assert not run.decisions.served.any()
    assert set(run.decisions.reason) == {reasons.UNSERVED}


# --- The cache model against the log ---------------------------------------------------------


def cached_log(tmp_path: Path, idle_s: float) -> Trace:
    """A log of a service that keeps what it computed for ``idle_s``."""
    rng = np.random.default_rng(3)
    turns = []
    for session in range(40):
        at, context = 100.0 * session, 0
        for turn in range(8):
            gap_s = float(rng.exponential(900)) if turn else 0.0
            at += gap_s
            prompt = context + 100
            cached = context if turn and gap_s <= idle_s else 0
            turns.append({"session": f"s{session}", "at": at, "prompt": prompt, "cached": cached})
            context = prompt + 10
    return log(tmp_path, *turns, served_region="europe-west2")


def test_the_error_of_the_cache_model_is_shown(tmp_path: Path) -> None:
    placed = prepare(SCENARIO, cached_log(tmp_path, 600.0)).placed
    right = cache_error(placed, 600.0, "latest")
    assert right.turns == 280
    assert right.mean_absolute_error_tokens == 0
    assert right.agree_share == 1
    wrong = cache_error(placed, 3600.0, "latest")
    assert wrong.mean_error_tokens > 0
    assert wrong.agree_share < 1
    assert "mean absolute error" in str(wrong)


@pytest.mark.parametrize("idle_s", [120.0, 600.0, 3600.0])
def test_the_cache_lifetime_is_found_again(tmp_path: Path, idle_s: float) -> None:
    fit = fit_idle_s(prepare(SCENARIO.replace(window_days=2), cached_log(tmp_path, idle_s)).placed)
    step = IDLE_GRID_S[1] / IDLE_GRID_S[0]
    assert fit.lowest_idle_s / step**1.5 <= idle_s <= fit.highest_idle_s * step**1.5
    assert fit.best.agree_share > 0.95


def test_names_of_gateways_are_matched_mapped_and_said(tmp_path: Path) -> None:
    trace = log(
        tmp_path,
        {"prompt": 500, "model": "llama3.1:8b-instruct-q4_K_M", "region": "uksouth"},
        {"prompt": 700, "at": 60, "model": "meta.llama3-3-70b-instruct-v1:0"}
        | {"region": "eu-central-1b"},
        {"prompt": 900, "at": 120, "model": "gpt-4o", "region": "our-cellar"},
    )
    prepared = prepare(SCENARIO, trace)
    run = run_as_served(prepared)
    assert (run.decisions.deployment >= 0).tolist() == [True, True, False]
    notes = " ".join(run.notes)
    assert "uksouth is europe-west2 (Azure's region in London, on the same grid (GB))" in notes
    assert "is quantised (q4), but is charged as bf16" in notes
    assert "your assumption" not in notes
    said = NamesSaid({"gpt-4o": "Llama-3.3-70B"}, {"our-cellar": "europe-west2"})
    run = run_as_served(prepared, said=said)
    where = prepared.deployments.to_frame().iloc[run.decisions.deployment]
    assert where["model"].tolist() == ["Llama-3.1-8B", "Llama-3.3-70B", "Llama-3.3-70B"]
    assert where["city"].tolist() == ["London", "Frankfurt", "London"]
    assert "gpt-4o as Llama-3.3-70B, our-cellar as europe-west2: your assumption" in " ".join(
        run.notes
    )
    matches = {match.name: match for match in name_matches(prepared, said)}
    assert matches["gpt-4o"].how == "you say so"
    assert matches["uksouth"].turns == 1


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (NamesSaid({"gpt-4o": "Llama-9"}), "Llama-9"),
        (NamesSaid({"gpt-5": "Llama-3.1-8B"}), "gpt-5"),
        (NamesSaid(regions={"our-cellar": "europe-north1"}), "europe-north1"),
    ],
)
def test_a_name_mapped_to_nothing_is_refused(tmp_path: Path, said: NamesSaid, message: str) -> None:
    trace = log(tmp_path, {"prompt": 500, "model": "gpt-4o", "region": "our-cellar"})
    with pytest.raises(ScenarioError, match=message):
        run_as_served(prepare(SCENARIO, trace), said=said)
