"""CarbonRouter: carbon-aware routing of LLM conversations that counts what moving costs.

>>> from carbonrouter_core import Scenario, compare
>>> compare(Scenario()).saving("carbonrouter")  # doctest: +SKIP
"""

import carbonrouter_core.memory  # noqa: F401 - chooses Arrow's allocator, so before Arrow comes
from carbonrouter_core.errors import (
    CarbonRouterError,
    CatalogError,
    InputError,
    IntensityError,
    ScenarioError,
    StoreError,
    TraceError,
    TurnError,
)
from carbonrouter_core.live import CarbonRouter, Decision, LiveTurn
from carbonrouter_core.replay.run import run_policy
from carbonrouter_core.replay.world import prepare
from carbonrouter_core.results.comparison import FIGURES, Comparison, Interval, compare
from carbonrouter_core.routing.policies import BASELINE, OPTIMUM, POLICIES
from carbonrouter_core.scenario import FIELDS, PRESETS, Scenario, preset
from carbonrouter_core.store.find_trace import find_trace
from carbonrouter_core.store.sites import load_catalog
from carbonrouter_core.traces.builtin import BUILTIN_TRACES
from carbonrouter_core.version import VERSION

__version__ = VERSION

__all__ = [
    "BASELINE",
    "BUILTIN_TRACES",
    "FIELDS",
    "FIGURES",
    "OPTIMUM",
    "POLICIES",
    "PRESETS",
    "CarbonRouter",
    "CarbonRouterError",
    "CatalogError",
    "Comparison",
    "Decision",
    "InputError",
    "Interval",
    "IntensityError",
    "LiveTurn",
    "Scenario",
    "ScenarioError",
    "StoreError",
    "TraceError",
    "TurnError",
    "compare",
    "find_trace",
    "load_catalog",
    "prepare",
    "preset",
    "run_policy",
]
