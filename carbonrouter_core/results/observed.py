"""What a log says against the model: carbon against a policy, cached tokens against the cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from carbonrouter_core.errors import TraceError
from carbonrouter_core.replay.as_served import follow
from carbonrouter_core.results.comparison import Comparison, Interval, bootstrap_saving
from carbonrouter_core.routing.policies import AS_SERVED
from carbonrouter_core.traces.placement import PlacedTrace

IDLE_GRID_S = tuple(float(round(s)) for s in np.geomspace(30.0, 2 * 86_400.0, 49))
"""Cache lifetimes tried when one is fitted, s."""


@dataclass(frozen=True)
class Against:
    """A policy against what the log says, over the sessions that both serve in full."""

    sessions: int
    of_sessions: int
    as_served_g: float
    policy_g: float
    saving: Interval


def against_as_served(comparison: Comparison, policy_id: str) -> Against:
    """Saving of a policy against ``as-served``; both must be among the comparison's runs."""
    served = comparison.runs[AS_SERVED.id].decisions.served
    both = served & comparison.runs[policy_id].decisions.served
    trace = comparison.trace
    whole = np.bincount(trace.session_index, ~both, trace.n_sessions) == 0
    ours = comparison.session_carbon_g(policy_id)[whole]
    theirs = comparison.session_carbon_g(AS_SERVED.id)[whole]
    return Against(
        sessions=int(whole.sum()),
        of_sessions=comparison.trace.n_sessions,
        as_served_g=float(theirs.sum()),
        policy_g=float(ours.sum()),
        saving=bootstrap_saving(ours, theirs),
    )


# --- The cache model against observed cached tokens ------------------------------------------


@dataclass(frozen=True)
class CacheError:
    """How far the cache model is from the cached tokens that a log reports.

    Over turns that have a history and an observed figure. ``agree_share``: turns on which both
    say that something was cached, or both that nothing was.
    """

    idle_s: float
    copies: str
    turns: int
    observed_mean_tokens: float
    modelled_mean_tokens: float
    mean_error_tokens: float
    mean_absolute_error_tokens: float
    agree_share: float

    def __str__(self) -> str:
        return (
            f"{self.turns:,} turns with a history: {self.observed_mean_tokens:,.0f} tokens cached "
            f"on average, {self.modelled_mean_tokens:,.0f} by the cache model (idle "
            f"{self.idle_s:g} s, copies {self.copies}); mean error {self.mean_error_tokens:+,.0f}, "
            f"mean absolute error {self.mean_absolute_error_tokens:,.0f} tokens; hit or miss "
            f"agrees on {100 * self.agree_share:.1f} % of them"
        )


@dataclass(frozen=True)
class IdleFit:
    """The cache lifetime and copies that come closest to a log.

    Every lifetime of the grid from ``lowest_idle_s`` to ``highest_idle_s`` fits equally well.
    """

    best: CacheError
    lowest_idle_s: float
    highest_idle_s: float


def can_check_cache(placed: PlacedTrace) -> bool:
    """Whether the log reports cached tokens on a turn with a history.

    Where each session has one turn, it does not: there is nothing that could have been cached.
    """
    observed = placed.trace.cached_tokens_observed
    return observed is not None and bool(
        ((observed >= 0) & (placed.trace.history_tokens > 0)).any()
    )


def cache_error(placed: PlacedTrace, idle_s: float, copies: str) -> CacheError:
    """Compare the cache model with the log. Raises :class:`TraceError` if it reports nothing."""
    return _CacheCheck(placed).error(idle_s, copies)


def fit_idle_s(placed: PlacedTrace, copies: Sequence[str] = ("latest", "all")) -> IdleFit:
    """Least mean absolute error over :data:`IDLE_GRID_S` and ``copies``; first of equals."""
    check = _CacheCheck(placed)
    tried = [check.error(idle_s, rule) for rule in copies for idle_s in IDLE_GRID_S]
    best = min(tried, key=lambda trial: trial.mean_absolute_error_tokens)
    equal = [
        trial.idle_s
        for trial in tried
        if trial.copies == best.copies
        and trial.mean_absolute_error_tokens <= best.mean_absolute_error_tokens * (1 + 1e-9)
    ]
    return IdleFit(best, min(equal), max(equal))


class _CacheCheck:
    """The columns of a log that the cache model is compared with."""

    def __init__(self, placed: PlacedTrace) -> None:
        trace = placed.trace
        observed = trace.cached_tokens_observed
        if observed is None:
            raise TraceError(f"{trace.name} reports no cached tokens to compare with.")
        self._trace, self._start_s = trace, placed.start_s
        self._rows = (observed >= 0) & (trace.history_tokens > 0)
        if not self._rows.any():
            raise TraceError(
                f"{trace.name} reports cached tokens only on first turns: there is nothing to "
                "compare the cache model with."
            )
        self._observed = np.minimum(observed, trace.history_tokens)[self._rows].astype(np.float64)
        none: tuple[Any, ...] = (None,) * trace.n_turns
        names = zip(trace.served_model or none, trace.served_region or none, strict=True)
        self._site, sites = pd.factorize(np.array([f"{m}\x1f{r}" for m, r in names], dtype=object))
        self._n_sites = len(sites)
        self._context = trace.history_tokens + trace.new_prompt_tokens + trace.output_tokens

    def error(self, idle_s: float, copies: str) -> CacheError:
        trace, n = self._trace, self._trace.n_turns
        modelled, home = np.zeros(n, np.int64), np.zeros(n, np.int16)
        follow(
            trace.offsets,
            trace.history_tokens,
            self._context,
            self._start_s,
            self._site.astype(np.int16),
            np.full(n, -1),
            self._n_sites,
            float(idle_s),
            copies == "all",
            modelled,
            home,
        )
        mine = modelled[self._rows].astype(np.float64)
        off = mine - self._observed
        return CacheError(
            idle_s=float(idle_s),
            copies=copies,
            turns=len(off),
            observed_mean_tokens=float(self._observed.mean()),
            modelled_mean_tokens=float(mine.mean()),
            mean_error_tokens=float(off.mean()),
            mean_absolute_error_tokens=float(np.abs(off).mean()),
            agree_share=float(((mine > 0) == (self._observed > 0)).mean()),
        )
