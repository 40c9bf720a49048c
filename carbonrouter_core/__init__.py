"""CarbonRouter: carbon-aware routing of LLM conversations that counts what moving costs.

docs/python.md shows how to use it in a notebook.

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
from carbonrouter_core.fleet.catalog import Catalog
from carbonrouter_core.live import CarbonRouter, Decision, LiveTurn
from carbonrouter_core.replay.executors import open_executor
from carbonrouter_core.replay.run import Run, run_policy
from carbonrouter_core.replay.world import Prepared, prepare
from carbonrouter_core.report import html_report, write_bundle
from carbonrouter_core.results.comparison import Comparison, Interval, compare
from carbonrouter_core.results.totals import FIGURES
from carbonrouter_core.routing.policies import FAIRCARBON, OPTIMUM, POLICIES, Policy
from carbonrouter_core.scenario import FIELDS, PRESETS, Scenario, preset
from carbonrouter_core.store.find_trace import find_trace
from carbonrouter_core.store.sites import load_catalog
from carbonrouter_core.studies.inputs import SWEEP_INPUTS, Point
from carbonrouter_core.studies.planning import HourlyLoad, hourly_load, schedule
from carbonrouter_core.studies.sweep import Axis, Outcome, Question, Sweep, run_points
from carbonrouter_core.traces.builtin import BUILTIN_TRACES
from carbonrouter_core.traces.loading import read_trace
from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.version import VERSION

__version__ = VERSION

__all__ = [
    "Axis",
    "FAIRCARBON",
    "BUILTIN_TRACES",
    "CarbonRouter",
    "CarbonRouterError",
    "Catalog",
    "CatalogError",
    "Comparison",
    "Decision",
    "FIELDS",
    "FIGURES",
    "HourlyLoad",
    "InputError",
    "IntensityError",
    "Interval",
    "LiveTurn",
    "OPTIMUM",
    "Outcome",
    "POLICIES",
    "PRESETS",
    "Point",
    "Policy",
    "Prepared",
    "Question",
    "Run",
    "SWEEP_INPUTS",
    "Scenario",
    "ScenarioError",
    "StoreError",
    "Sweep",
    "Trace",
    "TraceError",
    "TurnError",
    "compare",
    "find_trace",
    "hourly_load",
    "html_report",
    "load_catalog",
    "open_executor",
    "prepare",
    "preset",
    "read_trace",
    "run_points",
    "run_policy",
    "schedule",
    "write_bundle",
]
