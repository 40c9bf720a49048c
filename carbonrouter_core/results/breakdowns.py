"""Figures of a policy by group (region, model, hour and so on), and the differences of two.

Every turn is in exactly one group of a dimension, so that what can be added up adds up to the
total of the run, to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd

from carbonrouter_core.results.comparison import LENGTH_BUCKETS, Comparison
from carbonrouter_core.units import S_PER_HOUR

HOURS_PER_DAY = 24

UNSERVED = "not served"
"""Group of the turns that no deployment served, where groups are of what served them."""

DIMENSIONS: Mapping[str, str] = MappingProxyType(
    {
        "region": "region that served the turn",
        "model": "model that served the turn",
        "gpu": "GPU type that served the turn",
        "hour_utc": "hour of the day at which the turn started, UTC",
        "turns_per_session": "turns of the session the turn belongs to",
        "user_region": "region the user is in",
    }
)
"""What turns can be grouped by, and what it means."""

SUMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "turns": ("", "turns, unserved ones included"),
        "served_turns": ("", "turns served"),
        "moves": ("", "turns served away from the deployment of the last served turn"),
        "recomputed_tokens": ("tokens", "history that was not cached where the turn was served"),
        "recompute_g": ("gCO2e", "GPU carbon of recomputing history"),
        "prompt_g": ("gCO2e", "GPU carbon of prefilling the new prompts"),
        "decode_g": ("gCO2e", "GPU carbon of decoding"),
        "host_g": ("gCO2e", "carbon of the hosts of the busy GPUs"),
        "carbon_g": ("gCO2e", "operational carbon: the four parts"),
        "embodied_g": ("gCO2e", "embodied carbon of the GPU time; in no other figure"),
        "energy_kwh": ("kWh", "energy with PUE"),
    }
)
"""Columns of a breakdown that add up to the run's total: unit and meaning."""

MEANS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "quality_mean": ("", "mean predicted quality of the served turns"),
        "ttft_ms_mean": ("ms", "mean time to first token, without queueing"),
        "latency_ms_mean": ("ms", "mean time to the last token, without queueing"),
    }
)
"""Columns of a breakdown that are means over the served turns of a group; NaN where it has none."""


def groups(run: Comparison, policy_id: str, dimension: str) -> tuple[np.ndarray, list[str]]:
    """Number of the group of each turn, shape (turns,), and the name of each group.

    Groups stand in the order of the scenario, of the clock or of length; one may have no turn.
    """
    trace, placed, deployments = run.trace, run.prepared.placed, run.prepared.deployments
    if dimension == "user_region":
        return placed.user, list(placed.user_regions)
    if dimension == "hour_utc":
        start_s = run.prepared.scenario.window_start_s + placed.start_s
        hour = (start_s // S_PER_HOUR).astype(np.int64) % HOURS_PER_DAY
        return hour, [f"{hour:02d}" for hour in range(HOURS_PER_DAY)]
    if dimension == "turns_per_session":
        fewest = [low for _, low, _ in LENGTH_BUCKETS]
        bucket = np.searchsorted(fewest, trace.session_turns, "right") - 1
        return bucket[trace.session_index], [label for label, _, _ in LENGTH_BUCKETS]
    deployment = run.runs[policy_id].decisions.deployment
    fleet, served = deployments.fleet, deployment >= 0
    if dimension == "region":
        of_deployment, names = fleet.region, [site.region for site in deployments.regions]
    else:
        pair_name = [getattr(replica, dimension) for replica in deployments.replicas]
        names = list(dict.fromkeys(pair_name))
        of_deployment = np.array([names.index(name) for name in pair_name])[fleet.pair]
    group = np.where(served, of_deployment[deployment], len(names))
    return group, names if served.all() else [*names, UNSERVED]


def breakdown(run: Comparison, policy_id: str, dimension: str) -> pd.DataFrame:
    """One row a group of ``dimension`` (of :data:`DIMENSIONS`), with :data:`SUMS` and
    :data:`MEANS`.
    """
    group, names = groups(run, policy_id, dimension)
    run_of_policy, n = run.runs[policy_id], len(names)
    served = run_of_policy.decisions.served

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(group, values, n)

    recomputed = run.trace.history_tokens - run_of_policy.decisions.cached_tokens
    columns = {
        "turns": np.bincount(group, minlength=n),
        "served_turns": np.bincount(group[served], minlength=n),
        "moves": np.bincount(group[run.moved(policy_id)], minlength=n),
        "recomputed_tokens": total(np.where(served, recomputed, 0)),
    }
    columns |= {
        name: total(getattr(run_of_policy.charges, name)) for name in SUMS if name not in columns
    }
    for name in MEANS:
        values = getattr(run_of_policy.charges, name.removesuffix("_mean"))[served]
        with np.errstate(invalid="ignore"):
            columns[name] = np.bincount(group[served], values, n) / columns["served_turns"]
    return pd.DataFrame(columns, index=pd.Index(names, name=dimension))


def differences(ours: pd.DataFrame, theirs: pd.DataFrame) -> pd.DataFrame:
    """``ours`` less ``theirs``, group by group: negative where ours is less.

    A group that one of the two does not have counts as nothing there; a mean is then NaN.
    """
    names = [*ours.index, *(name for name in theirs.index if name not in ours.index)]
    mine, other = ours.reindex(names), theirs.reindex(names)
    sums = list(SUMS)
    result = mine - other
    result[sums] = mine[sums].fillna(0.0) - other[sums].fillna(0.0)
    return result
