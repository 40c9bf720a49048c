"""``observed``: carbon of the routing in a log against CarbonRouter; error of the cache model."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from carbonrouter_core.cli.options import (
    add_command,
    add_json_option,
    add_scenario_options,
    scenario_from,
)
from carbonrouter_core.cli.output import print_json, saving_text
from carbonrouter_core.cli.own_catalog import catalog_from
from carbonrouter_core.errors import InputError
from carbonrouter_core.replay.as_served import NameMatch, NamesSaid, has_served, name_matches
from carbonrouter_core.replay.run import run_as_served, run_policy
from carbonrouter_core.replay.world import prepare
from carbonrouter_core.results.comparison import Comparison
from carbonrouter_core.results.observed import (
    against_as_served,
    cache_error,
    can_check_cache,
    fit_idle_s,
)
from carbonrouter_core.routing.policies import AS_SERVED, ROUTER
from carbonrouter_core.units import mass_scale


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = add_command(
        commands,
        "observed",
        _observed,
        help="what the routing in a log emitted, against CarbonRouter",
        description="Charge a log as it was served, compare it with CarbonRouter, and "
        "compare the cache model with the cached tokens that the log reports.",
    )
    add_scenario_options(parser)
    parser.add_argument("--gpu", metavar="GPU", help="GPU type that served, if it was one type")
    for kind in ("model", "region"):
        parser.add_argument(
            f"--{kind}-map",
            metavar=f"NAME={kind.upper()}",
            action="append",
            default=[],
            help=f"{kind} of the scenario that a name in the log stands for; shown as assumed",
        )
    parser.add_argument(
        "--fit-idle", action="store_true", help="fit the cache lifetime to the cached tokens"
    )
    add_json_option(parser)


def _observed(options: argparse.Namespace) -> None:
    scenario = scenario_from(options)
    prepared = prepare(scenario, catalog=catalog_from(options))
    trace = prepared.placed.trace
    lines: list[str] = []
    out: dict[str, Any] = {"scenario": scenario.to_dict()}
    # if the trace reports neither, run_as_served raises the error
    if has_served(trace) or options.gpu or trace.cached_tokens_observed is None:
        said = NamesSaid(
            _pairs("--model-map", options.model_map), _pairs("--region-map", options.region_map)
        )
        served = run_as_served(prepared, options.gpu, said)
        matches = name_matches(prepared, said)
        lines += ["names in the log:", *map(_match_line, matches)] if matches else []
        runs = {AS_SERVED.id: served, ROUTER: run_policy(prepared, ROUTER)}
        comparison = Comparison(prepared, runs)
        against = against_as_served(comparison, ROUTER)
        scale = mass_scale(against.as_served_g)
        lines.append(
            f"{against.sessions:,} of {against.of_sessions:,} sessions are charged in full: "
            f"as served {against.as_served_g * scale.factor:.3f} {scale.unit} CO2e, CarbonRouter "
            f"{against.policy_g * scale.factor:.3f} {scale.unit} CO2e"
        )
        if against.saving.value_percent is not None:
            lines.append(f"saving of CarbonRouter, 95 % interval: {saving_text(against.saving)}")
        lines += [f"note: {note}" for note in comparison.warnings]
        out["as_served"] = asdict(against) | {"notes": list(comparison.warnings)}
        out["names"] = [asdict(match) for match in matches]
    check = can_check_cache(prepared.placed)
    if not check and trace.cached_tokens_observed is not None:
        note = (
            "the log reports cached tokens only on turns without a history: they say nothing "
            "about the cache model"
        )
        lines.append(f"note: {note}")
        out["cache_note"] = note
    if check:
        error = cache_error(prepared.placed, scenario.idle_s, scenario.copies)
        lines.append(f"cached tokens: {error}")
        out["cache_error"] = asdict(error)
    if options.fit_idle and (check or trace.cached_tokens_observed is None):
        fit = fit_idle_s(prepared.placed)
        lines.append(
            f"best fit: idle_s from {fit.lowest_idle_s:g} to {fit.highest_idle_s:g}, "
            f"copies {fit.best.copies}: {fit.best}"
        )
        out["idle_fit"] = asdict(fit)
    if options.json:
        print_json(out)
    else:
        print("\n".join(lines))


def _pairs(option: str, assignments: list[str]) -> dict[str, str]:
    """Names by what the user says they are; a name may have ``=`` in it."""
    pairs = {}
    for assignment in assignments:
        name, equals, ours = assignment.rpartition("=")
        if not equals or not name or not ours:
            raise InputError(f"{option} {assignment!r} is no NAME=OURS.")
        pairs[name] = ours
    return pairs


def _match_line(match: NameMatch) -> str:
    taken = (
        f"{match.ours}, {match.how}"
        if match.ours
        else (f"not in the scenario; say what it is: --{match.kind}-map {match.name}=...")
    )
    return f"  {match.kind} {match.name} ({match.turns:,} turns): {taken}"
