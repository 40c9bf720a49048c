"""Placing a trace in time: when each session starts, from where, and what it does not bring.

Rules: docs/design.md, section 6. One stream of draws a purpose, keyed by session (:mod:`.draws`):
a session is placed the same whatever other sessions there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from carbonrouter_core.errors import ScenarioError, TraceError
from carbonrouter_core.paths import data_path
from carbonrouter_core.quality.spread import difficulty_spread
from carbonrouter_core.traces import draws
from carbonrouter_core.traces.builtin import builtin_trace
from carbonrouter_core.traces.report import utc_text
from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.units import HOURS_PER_DAY, S_PER_DAY, S_PER_HOUR
from carbonrouter_core.words.names import unknown

RAGPULSE_CLOCK_START_H = 12
"""Local hour at which the RAGPulse clock starts."""

TIME_DECIMALS = 3
"""Placed times are whole milliseconds."""

VISIT_BREAK_S = 1800.0
"""A longer gap in RAGPulse begins another visit of the same user, not another turn of one."""

DRAWN = "drawn, with mean, spread and correlation of the chat data's training half"
"""Where the difficulty of a trace without text comes from."""


@dataclass(frozen=True)
class PlacedTrace:
    """A trace whose every turn has a time, a user region and a difficulty.

    ``start_s``: seconds since the start of the window, shape (turns,); ``user``: index into
    ``user_regions`` of each turn; ``difficulty_source``: how the difficulty came about.
    """

    trace: Trace
    start_s: np.ndarray
    user: np.ndarray
    user_regions: tuple[str, ...]
    difficulty: np.ndarray
    difficulty_source: str

    def to_frame(self) -> pd.DataFrame:
        """The placed trace as a table that reads back to the same figures."""
        trace = self.trace
        frame = pd.DataFrame(
            {
                "session": np.asarray(trace.session_ids, dtype=object)[trace.session_index],
                "turn": trace.turn,
                "start_s": self.start_s,
                "user_region": np.asarray(self.user_regions, dtype=object)[self.user],
                "difficulty": self.difficulty,
                "new_prompt_tokens": trace.new_prompt_tokens,
                "output_tokens": trace.output_tokens,
                "history_tokens": trace.history_tokens,
            }
        )
        if trace.cached_tokens_observed is not None:
            observed = pd.Series(trace.cached_tokens_observed, dtype="Int64")
            frame["cached_tokens_observed"] = observed.mask(observed < 0)
        for name in ("served_model", "served_region"):
            if (served := getattr(trace, name)) is not None:
                frame[name] = np.asarray(served, dtype=object)
        return frame


def place(
    trace: Trace,
    *,
    window_days: int,
    user_mix: Mapping[str, float],
    utc_offset_h: Mapping[str, int],
    gaps: str,
    gap_median_s: float | None,
    seed: int,
    window_start_s: float | None = None,
) -> PlacedTrace:
    """Place ``trace`` in a window of ``window_days`` days.

    ``user_mix``: weight of each user region, in order; ``utc_offset_h``: local time of each
    region less UTC; ``gaps``: one of :data:`~.scenario.GAP_TABLES`, stretched to the median
    ``gap_median_s`` if that is given. ``window_start_s``: epoch seconds, needed for a trace
    with dates. Values that the trace has are used as they are.
    """
    user_regions = tuple(user_mix)
    for name in user_regions:
        if name not in utc_offset_h:
            raise ScenarioError(unknown("region", name, utc_offset_h.keys()))
    keys = trace.session_keys
    edges = np.cumsum([user_mix[region] for region in user_regions])
    drawn = draws.uniform(seed, "users", keys) * edges[-1]
    by_session = np.minimum(np.searchsorted(edges, drawn, "right"), len(edges) - 1)
    user = by_session[trace.session_index]
    if trace.user_region is not None:
        user, user_regions = _own_users(trace.user_region, user, user_regions, utc_offset_h)
    if trace.start_utc_s is not None:
        start_s = _in_window(trace, trace.start_utc_s, window_start_s, window_days)
    elif trace.start_s is not None:
        start_s = trace.start_s
    else:
        offsets = np.array([utc_offset_h[region] for region in user_regions])
        first = np.minimum(trace.offsets[:-1], trace.n_turns - 1)  # a session may have no turns
        first_user = user[first]
        session_s = _session_starts(seed, keys, offsets[first_user], window_days)
        if trace.t_s is not None:
            relative_s = trace.t_s - np.repeat(trace.t_s[first], trace.session_turns)
        else:
            relative_s = _relative_times(trace, seed, gap_table(gaps, gap_median_s))
        # Whole milliseconds: sums of gaps may differ in the last bits with the order they were
        # added in, and "within idle_s" must not depend on that.
        start_s = np.round(session_s[trace.session_index] + relative_s, TIME_DECIMALS)
    if trace.difficulty is not None:
        difficulty, source = trace.difficulty, trace.difficulty_source
        if (missing := np.isnan(difficulty)).any():
            difficulty = np.where(missing, _drawn_difficulty(trace, seed), difficulty)
            source += f"; {DRAWN} for {int(missing.sum()):,} turns"
    else:
        difficulty, source = _drawn_difficulty(trace, seed), DRAWN
    return PlacedTrace(trace, start_s, user, user_regions, difficulty, source)


def _in_window(
    trace: Trace, start_utc_s: np.ndarray, window_start_s: float | None, window_days: int
) -> np.ndarray:
    """Seconds since the window's start of a trace with dates, which the window must cover."""
    if window_start_s is None:
        raise TraceError(f"{trace.name} has dates; it is placed by the date of the window.")
    first_s, last_s = float(start_utc_s.min()), float(start_utc_s.max())
    window_end_s = window_start_s + window_days * S_PER_DAY
    if first_s < window_start_s or last_s >= window_end_s:
        day = np.datetime64(int(first_s // S_PER_DAY), "D")
        days = int(last_s // S_PER_DAY - first_s // S_PER_DAY) + 1
        raise TraceError(
            f"{trace.name} runs from {utc_text(first_s)} to {utc_text(last_s)}, but the window "
            f"from {utc_text(window_start_s)} to {utc_text(window_end_s)}. Set window_start to "
            f"{day} and window_days to {days}, or import the trace without its dates."
        )
    return start_utc_s - window_start_s


def _own_users(
    named: Sequence[str | None],
    drawn: np.ndarray,
    listed: tuple[str, ...],
    known: Mapping[str, int],
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The users of each turn that the trace names, those ``drawn`` where it names none."""
    codes, names = pd.factorize(np.asarray(named, dtype=object))
    for name in names:
        if name not in known:
            raise TraceError(
                f"user_region of the trace: {unknown('region', str(name), known.keys())}"
            )
    regions = listed + tuple(str(name) for name in names if name not in listed)
    index = np.array([regions.index(str(name)) for name in names])
    return np.where(codes >= 0, index[codes], drawn), regions


def _session_starts(
    seed: int, keys: np.ndarray, offset_h: np.ndarray, window_days: int
) -> np.ndarray:
    """Start of each session: uniform day, local hour by RAGPulse's daily curve, uniform in it."""
    day = np.floor(draws.uniform(seed, "starts", keys, 0) * window_days)
    edges = np.cumsum(starts_by_local_hour())
    hour = np.searchsorted(edges, draws.uniform(seed, "starts", keys, 1) * edges[-1], "right")
    local_s = day * S_PER_DAY + (hour + draws.uniform(seed, "starts", keys, 2)) * S_PER_HOUR
    return (local_s - offset_h * S_PER_HOUR) % (window_days * S_PER_DAY)


def _relative_times(trace: Trace, seed: int, table: np.ndarray) -> np.ndarray:
    """Seconds from the start of the session to each turn, by gaps drawn from ``table``."""
    key = trace.session_keys[trace.session_index]
    drawn = draws.uniform(seed, "gaps", key, trace.turn)
    gap_s = table[(drawn * len(table)).astype(np.int64)]
    gap_s[trace.turn == 0] = 0.0
    total_s = np.cumsum(gap_s)
    first = np.minimum(trace.offsets[:-1], trace.n_turns - 1)
    return total_s - np.repeat(total_s[first], trace.session_turns)


def _drawn_difficulty(trace: Trace, seed: int) -> np.ndarray:
    mean, spread, correlation = chat_difficulty()
    of_session = draws.normal(seed, "difficulty", trace.session_keys, 0)[trace.session_index]
    key = trace.session_keys[trace.session_index]
    of_turn = draws.normal(seed, "difficulty", key, trace.turn + 1)
    shared, own = np.sqrt(correlation), np.sqrt(1.0 - correlation)
    return mean + spread * (shared * of_session + own * of_turn)


@lru_cache(maxsize=1)
def chat_difficulty() -> tuple[float, float, float]:
    """Mean, standard deviation and intra-session correlation: chat data, training half."""
    chat = builtin_trace("sharegpt")
    rows = chat.in_training[chat.session_index]
    assert chat.difficulty is not None
    return difficulty_spread(chat.difficulty[rows], chat.session_index[rows])


@lru_cache(maxsize=1)
def starts_by_local_hour() -> np.ndarray:
    """RAGPulse's session starts in each local hour, shape (24,)."""
    turns = pd.read_parquet(data_path("ragpulse_turns.parquet"))
    first_s = turns.loc[turns["turn"] == 0, "t_s"].to_numpy()
    hour = (RAGPULSE_CLOCK_START_H + first_s // S_PER_HOUR) % HOURS_PER_DAY
    return np.bincount(hour, minlength=HOURS_PER_DAY)


def gap_table(name: str, median_s: float | None = None) -> np.ndarray:
    """Start-to-start gaps in s, ascending; stretched to the median ``median_s`` if given."""
    table = _gaps(name)
    return table.copy() if median_s is None else table * (median_s / np.median(table))


@lru_cache(maxsize=2)
def _gaps(name: str) -> np.ndarray:
    if name == "mooncake":
        requests = pd.read_parquet(data_path("mooncake_conversation_sessions.parquet"))
        return np.sort(np.round(requests["gap_s"].dropna().to_numpy(np.float64), TIME_DECIMALS))
    turns = pd.read_parquet(data_path("ragpulse_turns.parquet")).sort_values(["session", "turn"])
    gaps_s = turns.groupby("session")["t_s"].diff().dropna().to_numpy(np.float64)
    return np.sort(gaps_s[gaps_s <= VISIT_BREAK_S])
