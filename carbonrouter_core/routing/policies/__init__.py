"""The policies by id. To add one: a file with its rule, a line here, a branch below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from carbonrouter_core.compiled import Array, Record, jit_borrowing
from carbonrouter_core.errors import ScenarioError
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.routing.kernel import Rules, Turn
from carbonrouter_core.routing.policies import (
    carbonrouter,
    faircarbon,
    free_migration,
    lookahead,
    model_size,
    optimum,
    regions,
    round_robin,
    sticky,
)
from carbonrouter_core.words.names import unknown


@dataclass(frozen=True)
class Policy:
    """A routing policy: how it is called, what it does, and what it is told."""

    id: str
    label: str
    """The name in lists and charts."""
    rule: str
    colour: str = "#6B7280"
    dark_colour: str = "#AAB3BF"
    """On a dark ground; :mod:`carbonrouter_core.report.colours` says how colours are chosen."""
    short: str = ""
    """The name where there is little room; the label where none is given."""
    in_text: str = ""
    """The name within a sentence; the label where none is given."""
    knows_output: bool = False
    """Told the true output length instead of the predicted one."""
    free_history: bool = False
    """Finds the whole history cached everywhere, and is charged so."""
    knows_future: bool = False
    """Told the whole session beforehand; solved by :mod:`.optimum`, not turn by turn."""
    looks_ahead: bool = False
    """Weighs what it expects of the turns that follow (:mod:`.lookahead`)."""
    raises_floors: bool = False
    """Raises the quality floor of user regions by the scenario's ``fairness_weight``."""
    from_log: bool = False
    """Decides nothing: what the log says was decided is charged. Needs a log that says it, as a
    whole, and is bound by no demand of the scenario."""

    def __post_init__(self) -> None:
        for name in ("short", "in_text"):
            object.__setattr__(self, name, getattr(self, name) or self.label)


_ALL = (
    Policy(
        "carbonrouter",
        "CarbonRouter, published rule",
        "least cache-aware carbon, then the gate",
        colour="#117733",
        dark_colour="#8FD19E",
        short="Published rule",
        in_text="CarbonRouter by the published rule",
    ),
    Policy(
        "carbonrouter-no-gate",
        "CarbonRouter, no gate",
        "least cache-aware carbon",
        colour="#238C80",
        dark_colour="#44AA99",
        short="No gate",
    ),
    Policy(
        "carbonrouter-lookahead",
        "CarbonRouter, look-ahead",
        "least carbon now and over the turns likely to follow",
        colour="#00916A",
        dark_colour="#1FB58A",
        short="Look-ahead",
        in_text="CarbonRouter with look-ahead",
        looks_ahead=True,
    ),
    Policy(
        "faircarbon",
        "FairCarbon",
        "least carbon of each query by itself (reconstruction)",
        colour="#D55E00",
        dark_colour="#EC7A22",
        raises_floors=True,
    ),
    Policy(
        "faircarbon-full-prompt",
        "FairCarbon, full prompt",
        "least carbon with the whole prompt prefilled anywhere (reconstruction)",
        colour="#AD7C00",
        dark_colour="#E69F00",
        short="FairCarbon, full",
        raises_floors=True,
    ),
    Policy(
        "sticky",
        "Sticky",
        "stay where the session is",
        colour="#0072B2",
        dark_colour="#4C9BE0",
    ),
    Policy(
        "cleanest-region",
        "Cleanest region",
        "lowest carbon intensity, then least carbon",
        colour="#3A92CC",
        dark_colour="#8CCBF0",
    ),
    Policy(
        "nearest-region",
        "Nearest region",
        "shortest round trip, then least carbon",
        colour="#CC79A7",
        dark_colour="#CC79A7",
    ),
    Policy(
        "largest-model",
        "Largest model",
        "most parameters, then least carbon",
        colour="#882255",
        dark_colour="#E8909C",
    ),
    Policy(
        "smallest-model",
        "Smallest model",
        "fewest parameters, then least carbon",
        colour="#AA4499",
        dark_colour="#C98BD6",
    ),
    Policy(
        "round-robin",
        "Round-robin",
        "the next feasible deployment in turn",
        colour="#999933",
        dark_colour="#A8A83C",
    ),
    Policy(
        "hindsight-optimum",
        "Hindsight optimum",
        "the least carbon possible, knowing the future of each session",
        colour="#6B7280",
        dark_colour="#AAB3BF",
        short="Optimum",
        knows_output=True,
        knows_future=True,
    ),
    Policy(
        "free-migration",
        "Free migration (bound)",
        "lower bound: the history is cached everywhere",
        colour="#8A94A0",
        dark_colour="#C6CDD6",
        knows_output=True,
        free_history=True,
    ),
)
POLICIES: Mapping[str, Policy] = MappingProxyType({policy.id: policy for policy in _ALL})
"""All policies by id, in the order they are shown."""

CODES: Mapping[str, int] = MappingProxyType({policy.id: i for i, policy in enumerate(_ALL)})
"""Number of each policy in the compiled code."""

AS_SERVED = Policy("as-served", "As served", "what the log says was served where", from_log=True)
"""Not among :data:`POLICIES`, since most traces do not say how they were served."""

ROUTER = "carbonrouter-lookahead"
"""The policy that is taken where the user names none, and that is shown first."""

BASELINE = "faircarbon"
"""The policy that savings are measured against."""

OPTIMUM = "hindsight-optimum"
"""The policy that says how much could have been saved."""

_CARBONROUTER = CODES["carbonrouter"]
_NO_GATE = CODES["carbonrouter-no-gate"]
_LOOKAHEAD = CODES["carbonrouter-lookahead"]
_FAIRCARBON = CODES["faircarbon"]
_FULL_PROMPT = CODES["faircarbon-full-prompt"]
_STICKY = CODES["sticky"]
_CLEANEST_REGION = CODES["cleanest-region"]
_NEAREST_REGION = CODES["nearest-region"]
_LARGEST_MODEL = CODES["largest-model"]
_SMALLEST_MODEL = CODES["smallest-model"]
_ROUND_ROBIN = CODES["round-robin"]
_OPTIMUM = CODES[OPTIMUM]


def policy(policy_id: str) -> Policy:
    """The policy ``policy_id``; an error with the nearest ids for an unknown one."""
    if policy_id == AS_SERVED.id:
        return AS_SERVED
    if policy_id not in POLICIES:
        raise ScenarioError(unknown("policy", policy_id, POLICIES.keys()))
    return POLICIES[policy_id]


@jit_borrowing
def choose(
    code: int,
    fleet: Fleet,
    rules: Rules,
    turn: Turn,
    session: Record,
    cached: Array,
    intensity: Array,
    g_per_j: Array,
    carbon_g: Array,
    note: Record,
) -> int:
    """The deployment that policy number ``code`` picks; some candidate is feasible.

    ``carbon_g`` (D,) is the cache-aware carbon of each, infinite where infeasible.
    """
    if code == _CARBONROUTER:
        return carbonrouter.choose(fleet, rules, turn, session, cached, g_per_j, carbon_g, note)
    if code == _NO_GATE:
        return carbonrouter.choose_without_gate(cached, carbon_g, note)
    if code == _LOOKAHEAD:
        return lookahead.choose(fleet, rules, turn, session, cached, g_per_j, carbon_g, note)
    if code == _FAIRCARBON:
        return faircarbon.choose(fleet, rules, turn, g_per_j, carbon_g, note, False)
    if code == _FULL_PROMPT:
        return faircarbon.choose(fleet, rules, turn, g_per_j, carbon_g, note, True)
    if code == _STICKY:
        return sticky.choose(session, carbon_g, note)
    if code == _CLEANEST_REGION:
        return regions.choose(fleet, intensity, carbon_g, note)
    if code == _NEAREST_REGION:
        return regions.choose(fleet, fleet.rtt_ms[turn.user], carbon_g, note)
    if code == _LARGEST_MODEL:
        return model_size.choose(fleet, True, carbon_g, note)
    if code == _SMALLEST_MODEL:
        return model_size.choose(fleet, False, carbon_g, note)
    if code == _ROUND_ROBIN:
        return round_robin.choose(session, carbon_g, note)
    if code == _OPTIMUM:
        return optimum.choose(session, note)
    return free_migration.choose(carbon_g, note)
