"""The policies by id. To add one: a file with its rule, and an entry of :data:`POLICIES`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from types import MappingProxyType
from typing import Any

from carbonrouter_core.compiled import jit_borrowing
from carbonrouter_core.errors import ScenarioError
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
    today,
)
from carbonrouter_core.words.names import unknown


@dataclass(frozen=True)
class Policy:
    """A routing policy: what it is called, what it does, and what it knows.

    Attributes
    ----------
    id
        Its name in scenarios, links and files.
    choose
        The compiled rule (see :func:`_dispatch`); None where nothing is decided.
    label
        The name in lists and charts.
    rule
        What it does, in a few words.
    colour, dark_colour
        Its colour on a light and on a dark ground; :mod:`carbonrouter_core.report.colours` says how
        colours are chosen.
    short
        The name where there is little room; the label if left out.
    in_text
        The name within a sentence; the label if left out.
    knows_output
        It knows the true output length, not the predicted one.
    free_history
        It finds the whole history cached everywhere, and is charged so.
    knows_future
        It knows the whole session beforehand; :mod:`.optimum` solves it, not turn by turn.
    asks_gate
        It holds a session where it is by the scenario's ``gate_threshold`` (:mod:`.gate`).
    looks_ahead
        It weighs what it expects of the turns that follow (:mod:`.lookahead`).
    raises_floors
        It raises the quality floor of user regions by the scenario's ``fairness_weight``.
    unbound
        Neither the quality floor nor the latency ceiling of the scenario binds it: it is what a
        service does today, without a router.
    from_log
        It decides nothing: what the log says was decided is charged. It needs a log that says so,
        in one piece, and no demand of the scenario binds it.
    unseen
        What the session player shows and the policy does not see, in sentences.
    on_overview
        Shown on pages Overview and Session replay beside the router and the baseline.
    compared_at_first
        Selected on page Compare until the user selects others.
    in_report
        Shown in reports beside the router and the baseline, where time allows.
    """

    id: str
    choose: Any
    label: str
    rule: str
    colour: str = "#6B7280"
    dark_colour: str = "#AAB3BF"
    short: str = ""
    in_text: str = ""
    knows_output: bool = False
    free_history: bool = False
    knows_future: bool = False
    asks_gate: bool = False
    looks_ahead: bool = False
    raises_floors: bool = False
    unbound: bool = False
    from_log: bool = False
    unseen: str = ""
    on_overview: bool = False
    compared_at_first: bool = False
    in_report: bool = False

    def __post_init__(self) -> None:
        for name in ("short", "in_text"):
            object.__setattr__(self, name, getattr(self, name) or self.label)


_ALL = (
    Policy(
        "carbonrouter",
        carbonrouter.choose,
        "CarbonRouter, published rule",
        "least cache-aware carbon, then the gate",
        colour="#117733",
        dark_colour="#8FD19E",
        short="Published rule",
        in_text="CarbonRouter by the published rule",
        asks_gate=True,
        on_overview=True,
        compared_at_first=True,
        in_report=True,
    ),
    Policy(
        "carbonrouter-no-gate",
        carbonrouter.choose_without_gate,
        "CarbonRouter, no gate",
        "least cache-aware carbon",
        colour="#238C80",
        dark_colour="#44AA99",
        short="No gate",
        on_overview=True,
    ),
    Policy(
        "carbonrouter-lookahead",
        lookahead.choose,
        "CarbonRouter, look-ahead",
        "least carbon now and over the turns likely to follow",
        colour="#00916A",
        dark_colour="#1FB58A",
        short="Look-ahead",
        in_text="CarbonRouter with look-ahead",
        looks_ahead=True,
        on_overview=True,
        compared_at_first=True,
    ),
    Policy(
        "faircarbon",
        partial(faircarbon.choose, full_prompt=False),
        "FairCarbon",
        "least carbon of each query by itself (reconstruction)",
        colour="#D55E00",
        dark_colour="#EC7A22",
        raises_floors=True,
        unseen="Its own estimate has no history: it does not see Cached and Recompute.",
        compared_at_first=True,
    ),
    Policy(
        "faircarbon-full-prompt",
        partial(faircarbon.choose, full_prompt=True),
        "FairCarbon, full prompt",
        "least carbon with the whole prompt prefilled anywhere (reconstruction)",
        colour="#AD7C00",
        dark_colour="#E69F00",
        short="FairCarbon, full",
        raises_floors=True,
        unseen="Its own estimate prefills everything everywhere: it does not see what is cached.",
        on_overview=True,
        compared_at_first=True,
        in_report=True,
    ),
    Policy(
        "sticky",
        sticky.choose,
        "Sticky",
        "stay where the session is",
        colour="#0072B2",
        dark_colour="#4C9BE0",
        on_overview=True,
        compared_at_first=True,
        in_report=True,
    ),
    Policy(
        "cleanest-region",
        partial(regions.choose, nearest=False),
        "Cleanest region",
        "lowest carbon intensity, then least carbon",
        colour="#3A92CC",
        dark_colour="#8CCBF0",
        on_overview=True,
        compared_at_first=True,
    ),
    Policy(
        "nearest-region",
        partial(regions.choose, nearest=True),
        "Nearest region",
        "shortest round trip, then least carbon",
        colour="#CC79A7",
        dark_colour="#CC79A7",
        on_overview=True,
    ),
    Policy(
        "largest-model",
        partial(model_size.choose, largest=True),
        "Largest model",
        "most parameters, then least carbon",
        colour="#882255",
        dark_colour="#E8909C",
    ),
    Policy(
        "smallest-model",
        partial(model_size.choose, largest=False),
        "Smallest model",
        "fewest parameters, then least carbon",
        colour="#AA4499",
        dark_colour="#C98BD6",
    ),
    Policy(
        "round-robin",
        round_robin.choose,
        "Round-robin",
        "the next feasible deployment in turn",
        colour="#999933",
        dark_colour="#A8A83C",
    ),
    Policy(
        "hindsight-optimum",
        optimum.choose,
        "Hindsight optimum",
        "the least carbon possible, knowing the future of each session",
        colour="#6B7280",
        dark_colour="#AAB3BF",
        short="Optimum",
        knows_output=True,
        knows_future=True,
        on_overview=True,
        compared_at_first=True,
    ),
    Policy(
        "free-migration",
        free_migration.choose,
        "Free migration (bound)",
        "lower bound: the history is cached everywhere",
        colour="#8A94A0",
        dark_colour="#C6CDD6",
        knows_output=True,
        free_history=True,
        on_overview=True,
        in_report=True,
    ),
)
POLICIES: Mapping[str, Policy] = MappingProxyType({policy.id: policy for policy in _ALL})
"""All policies by id, in the order they are shown."""


AS_SERVED = Policy(
    "as-served",
    None,
    "As served",
    "what the log says was served where",
    unbound=True,
    from_log=True,
    unseen="The log does not say what was compared. These are the candidates that a router would "
    "have seen, with the output that it would have expected.",
)
"""Not among :data:`POLICIES`, since most traces do not say how they were served."""

FIXED_DEPLOYMENT = Policy(
    "fixed-deployment",
    today.choose,
    "Fixed site and model",
    "always the model and region that the scenario names",
    colour="#7A5C3E",
    dark_colour="#C9A27E",
    short="Fixed",
    in_text="one fixed site and model",
    unbound=True,
)
"""The service has one model in one region (``baseline_model``, ``baseline_region``)."""

OWN_MIX = Policy(
    "own-mix",
    today.choose,
    "Own mix of sites and models",
    "each session stays at a model and region drawn by the weights of the scenario",
    colour="#5B6ABF",
    dark_colour="#A5B0F0",
    short="Own mix",
    in_text="today's own mix of sites and models",
    unbound=True,
)
"""The service spreads its sessions over models and regions (``baseline_mix``)."""

PRACTICES: Mapping[str, Policy] = MappingProxyType(
    {policy.id: policy for policy in (FIXED_DEPLOYMENT, OWN_MIX, AS_SERVED)}
)
"""What a service does without a router, by id. Not among :data:`POLICIES`: they need what the
user says of today, and no demand of the scenario binds them."""

_DECIDING = (*_ALL, FIXED_DEPLOYMENT, OWN_MIX)

CODES: Mapping[str, int] = MappingProxyType({policy.id: i for i, policy in enumerate(_DECIDING)})
"""Number of each policy in the compiled code."""

ROUTER = "carbonrouter-lookahead"
"""The policy that is taken where the user names none, and that is shown first."""

PUBLISHED = "carbonrouter"
"""The policy by the rule that the paper gives."""

PUBLISHED_WITHOUT_GATE = "carbonrouter-no-gate"
"""The same rule without its gate."""

ROUTERS = (ROUTER, PUBLISHED)
"""The policies that a user of the app can choose between as the router."""

FAIRCARBON = "faircarbon"
"""The policy of the literature; every result stands beside it."""

NEAREST_REGION = "nearest-region"
"""What most services do where they have several sites."""

BASELINES = (
    NEAREST_REGION,
    FIXED_DEPLOYMENT.id,
    OWN_MIX.id,
    AS_SERVED.id,
    "sticky",
    "round-robin",
    FAIRCARBON,
)
"""What the app offers as today's practice; a scenario may name any other policy."""

FULL_PROMPT = "faircarbon-full-prompt"
"""The other reading of FairCarbon, which is kinder to it."""

STICKY = "sticky"
"""The policy that moves a session only where it must."""

CLEANEST_REGION = "cleanest-region"
"""The policy that depends most on what is known of carbon intensity."""

SIMPLE = (FAIRCARBON, STICKY, CLEANEST_REGION, "nearest-region", "largest-model")
"""What any operator could do instead of our policies."""

OPTIMUM = "hindsight-optimum"
"""The policy that says how much could have been saved."""

BOUND = "free-migration"
"""The policy that no other can undercut."""


def policy(policy_id: str) -> Policy:
    """The policy ``policy_id``; an error with the nearest ids for an unknown one."""
    known = {**POLICIES, **PRACTICES}
    if policy_id not in known:
        raise ScenarioError(unknown("policy", policy_id, known.keys()))
    return known[policy_id]


def _dispatch(rules: Sequence[Any]) -> Any:
    """One compiled function for all ``rules``, which picks by number.

    ``choose(code, fleet, rules, turn, session, cached, intensity, g_per_j, carbon_g, note)`` is
    the deployment that rule number ``code`` picks, where some candidate is feasible; ``carbon_g``
    (D,) is the cache-aware carbon of each, infinite where infeasible. A rule takes those of the
    arguments that it needs, by these names. The lines are written here since compiled code cannot
    call a function out of a list.
    """
    lines = [
        "def choose(code, fleet, rules, turn, session, cached, intensity, g_per_j, carbon_g, note):"
    ]
    names: dict[str, Any] = {"__name__": __name__}  # a kernel kept on disk names its module
    for code, rule in enumerate(rules):
        function: Any = rule.func if isinstance(rule, partial) else rule
        fixed = rule.keywords if isinstance(rule, partial) else {}
        names[f"rule_{code}"] = function
        taken = [fixed.get(name, name) for name in signature(function).parameters]
        lines += [
            f"    if code == {code}:",
            f"        return rule_{code}({', '.join(map(str, taken))})",
        ]
    lines.append("    return -1")
    exec(compile("\n".join(lines), __file__, "exec"), names)
    return jit_borrowing(names["choose"])


choose = _dispatch([policy.choose for policy in _DECIDING])
