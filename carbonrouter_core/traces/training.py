"""What a router may learn from past traffic: statistics of a trace's training half.

Source: docs/design.md, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from carbonrouter_core.quality.session_difficulty import learn_memory
from carbonrouter_core.quality.spread import difficulty_spread
from carbonrouter_core.traces.placement import PlacedTrace

LEARN_SESSIONS = 50_000
"""Sessions learned from at most: more would change the statistics by less than their digits."""
MIN_AT_RISK = 50
"""Turn counts with fewer training sessions at risk share one survival value (docs/design.md,
section 8)."""


@dataclass(frozen=True)
class Training:
    """Statistics of the training half of a placed trace.

    ``survival[n - 1]`` is S(n), the chance of another turn after n turns; the last entry
    holds for every longer session. ``gaps_s``: start-to-start gaps, ascending.
    ``note`` is not empty where the half could not be used as it is.
    """

    mean_output_tokens: float
    mean_later_prompt_tokens: float
    survival: np.ndarray
    gaps_s: np.ndarray
    difficulty_mean: float
    difficulty_spread: float
    difficulty_correlation: float
    difficulty_persistence: float
    difficulty_memory: float
    own_noise: float
    typical_prompt_log: float
    """Mean of ln(1 + tokens) over prompts after the first."""
    prompt_log_correlation: float
    """Correlation of that between two turns of a session, as of difficulty."""
    output_correlation: float
    """Correlation of the output tokens of two turns of a session."""
    note: str = ""

    def gap_within(self, idle_s: float) -> float:
        """P(gap <= idle_s); 0 where the training half has no gap to learn from."""
        if not len(self.gaps_s):
            return 0.0
        return float(np.searchsorted(self.gaps_s, idle_s, "right") / len(self.gaps_s))


def training_sessions(placed: PlacedTrace) -> np.ndarray:
    """Which sessions are learned from: the training half, or all where that half is empty."""
    return learned_from(placed.trace.session_keys, placed.trace.in_training)


def learned_from(keys: np.ndarray, in_training: np.ndarray) -> np.ndarray:
    """The same by session key: at most :data:`LEARN_SESSIONS`, those of the smallest keys.

    A key is a hash of the id, so these are a fair sample, and the same however a trace is cut.
    """
    chosen = in_training if in_training.any() else np.ones(len(keys), dtype=bool)
    if chosen.sum() > LEARN_SESSIONS:
        largest = np.partition(keys[chosen], LEARN_SESSIONS - 1)[LEARN_SESSIONS - 1]
        chosen = chosen & (keys <= largest)
    return chosen


def learn(placed: PlacedTrace) -> Training:
    """Statistics of the training half of ``placed``, or of all of it where that half is empty."""
    trace = placed.trace
    chosen, note = training_sessions(placed), ""
    if not trace.in_training.any():
        note = "No session of this trace falls into the training half; all of them are used."
    rows = chosen[trace.session_index]
    later = rows & (trace.turn > 0)
    prompts = trace.new_prompt_tokens
    gaps_s = np.diff(placed.start_s, prepend=0.0)
    mean, spread, correlation = difficulty_spread(
        placed.difficulty[rows], trace.session_index[rows]
    )
    # a trace of single turns has no later prompt: its only guess is the first
    prompted = later if later.any() else rows
    logs = difficulty_spread(np.log1p(prompts[prompted]), trace.session_index[prompted])
    memory, own_noise = learn_memory(
        placed.difficulty[rows],
        trace.history_tokens[rows],
        trace.session_turns[chosen],
        spread,
        correlation,
    )
    outputs = difficulty_spread(trace.output_tokens[rows], trace.session_index[rows])
    return Training(
        mean_output_tokens=float(trace.output_tokens[rows].mean()),
        mean_later_prompt_tokens=float(prompts[prompted].mean()),
        survival=survival(trace.session_turns[chosen]),
        gaps_s=np.sort(gaps_s[later]),
        difficulty_mean=mean,
        difficulty_spread=spread,
        difficulty_correlation=correlation,
        difficulty_persistence=persistence(placed.difficulty, trace.session_index, rows),
        difficulty_memory=memory,
        own_noise=own_noise,
        typical_prompt_log=logs.mu,
        prompt_log_correlation=logs.rho,
        output_correlation=outputs.rho,
        note=note,
    )


def survival(session_turns: np.ndarray) -> np.ndarray:
    """S(n) for n = 1, 2, ...: the share of sessions with n turns that have another.

    Every n with fewer than :data:`MIN_AT_RISK` sessions at risk shares the last entry, which
    is the pooled share over those n.
    """
    lengths = np.bincount(session_turns)
    at_risk = np.cumsum(lengths[::-1])[::-1][1:]  # sessions with n turns or more, from n = 1
    going_on = np.r_[at_risk[1:], 0]
    enough = at_risk >= MIN_AT_RISK
    pooled_risk = at_risk[~enough].sum()
    pooled = going_on[~enough].sum() / pooled_risk if pooled_risk else 0.0
    return np.r_[going_on[enough] / at_risk[enough], pooled]


def persistence(difficulty: np.ndarray, session: np.ndarray, rows: np.ndarray) -> float:
    """How much more alike two turns are when they follow each other, from 0 to 1.

    (r1 - r2) / (1 - r2) with r the autocorrelation of difficulty within sessions at lags 1
    and 2: what lag 1 has beyond the session's own level, which lag 2 has too.
    """
    lag_1, lag_2 = (_autocorrelation(difficulty, session, rows, lag) for lag in (1, 2))
    return min(max((lag_1 - lag_2) / (1.0 - lag_2), 0.0), 1.0) if lag_2 < 1.0 else 0.0


def _autocorrelation(
    difficulty: np.ndarray, session: np.ndarray, rows: np.ndarray, lag: int
) -> float:
    pairs = rows[lag:] & (session[lag:] == session[:-lag])
    deviation = difficulty - difficulty[rows].mean()
    variance = float((deviation[rows] ** 2).mean())
    if not pairs.any() or variance == 0.0:
        return 0.0
    return float((deviation[lag:] * deviation[:-lag])[pairs].mean()) / variance
