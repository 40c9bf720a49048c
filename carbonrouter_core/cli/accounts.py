"""``accounts``: money, water, market-based carbon and key figures of policies, as JSON."""

from __future__ import annotations

import argparse
from typing import Any

from carbonrouter_core.cli.options import (
    add_command,
    add_policies_option,
    add_scenario_options,
    policies_from,
    scenario_from,
)
from carbonrouter_core.cli.output import print_json
from carbonrouter_core.cli.own_catalog import catalog_from
from carbonrouter_core.results.accounts import account, warnings_of
from carbonrouter_core.results.comparison import compare
from carbonrouter_core.routing.policies import FAIRCARBON, POLICIES, ROUTER
from carbonrouter_core.store.find_trace import find_trace


def add_to(commands: Any) -> None:
    """Add this command to the parser."""
    parser = add_command(
        commands,
        "accounts",
        _accounts,
        help="money, water, market-based carbon, key figures and parts of the saving, as JSON",
        description="Print money, water, market-based carbon, key figures (PUE, WUE, SCI) and what "
        f"the saving against {FAIRCARBON} is made of, as JSON. Prices and contracts are fields of "
        "the scenario (--set).",
    )
    add_scenario_options(parser)
    add_policies_option(parser, f"{ROUTER},{FAIRCARBON}", POLICIES)


def _accounts(options: argparse.Namespace) -> None:
    chosen = policies_from(options.policies, (ROUTER, FAIRCARBON))
    scenario = scenario_from(options)
    trace = find_trace(scenario.trace)
    runs = compare(scenario, [*chosen, FAIRCARBON], trace, catalog_from(options))
    accounts = {
        name: account(runs.prepared, runs.runs[name], runs.runs[FAIRCARBON]) for name in chosen
    }
    print_json(
        {
            "scenario": scenario.to_dict(),
            "baseline": FAIRCARBON,
            "policies": {name: each.to_dict(scenario) for name, each in accounts.items()},
            "warnings": [*runs.warnings, *warnings_of(accounts, scenario.currency)],
        }
    )
