"""One conversation turn by turn: what was decided, from which candidates, at what cost.

The decisions and charges are those of a replay; what the policy saw at each turn is priced
again by the same compiled lines (:func:`.decide.price_candidates`), since a replay of
millions of turns does not keep its candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import pandas as pd

from carbonrouter_core.compiled import Array, jit
from carbonrouter_core.errors import InputError
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.replay.charging import Charges, charge_rows
from carbonrouter_core.replay.decisions import Decisions
from carbonrouter_core.replay.run import Run
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.results.comparison import Comparison
from carbonrouter_core.routing import feasibility
from carbonrouter_core.routing.decide import price_candidates
from carbonrouter_core.routing.kernel import (
    SESSION,
    Rules,
    Turn,
    required_theta,
)
from carbonrouter_core.routing.policies import lookahead, reasons
from carbonrouter_core.routing.session import begin_turn, end_turn, open_session

HELD_REASONS = (reasons.HELD, reasons.AHEAD_STAYED)
"""Turns that stayed although another candidate was cheaper now."""


@dataclass(frozen=True)
class Candidates:
    """The candidates of each turn as the policy saw them, shape (turns, deployments).

    Carbon is with the output and the carbon intensity that the policy reckoned with.
    ``total_g`` is what it compared, embodied carbon in it where the scenario says so;
    ``to_come_g`` is what look-ahead expects of the turns that follow, NaN where it was not
    asked; ``obstacle`` is a code of :mod:`.feasibility`.
    """

    cached_tokens: np.ndarray
    recompute_g: np.ndarray
    prompt_g: np.ndarray
    decode_g: np.ndarray
    host_g: np.ndarray
    embodied_g: np.ndarray
    total_g: np.ndarray
    to_come_g: np.ndarray
    ttft_ms: np.ndarray
    latency_ms: np.ndarray
    quality: np.ndarray
    obstacle: np.ndarray


@dataclass(frozen=True)
class Story:
    """One session under one policy, or a stretch of it; arrays have an entry for each of its turns.

    ``first``: turns before these; ``turns_in_all``: of the session; ``before_g`` and ``in_all_g``:
    carbon of the turns before, and of the session; ``served_before``: whether any of the turns
    before was served.
    ``moved_from``: deployment of the last served turn where this one is served elsewhere, else
    -1; ``expected_output_tokens``: what the policy reckoned with; ``start_utc_s``: epoch
    seconds; ``intensity_g_per_kwh``: the true one, shape (turns, regions).
    """

    prepared: Prepared
    policy_id: str
    session_id: str
    history_tokens: np.ndarray
    new_prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    expected_output_tokens: np.ndarray
    start_utc_s: np.ndarray
    user: np.ndarray
    intensity_g_per_kwh: np.ndarray
    moved_from: np.ndarray
    decisions: Decisions
    charges: Charges
    candidates: Candidates
    first: int
    turns_in_all: int
    before_g: float
    in_all_g: float
    served_before: bool

    def __len__(self) -> int:
        return len(self.output_tokens)

    @property
    def recomputed_tokens(self) -> np.ndarray:
        """History that had to be prefilled again, 0 where the turn is unserved."""
        served = self.decisions.served
        return np.where(served, self.history_tokens - self.decisions.cached_tokens, 0)

    def turn_table(self) -> pd.DataFrame:
        """One row a turn: where it was served and why, and what that came to (true output)."""
        deployments, decisions = self.prepared.deployments, self.decisions
        frame = deployments.to_frame()[["model", "gpu", "region"]].iloc[decisions.deployment]
        frame = frame.reset_index(drop=True).where(pd.Series(decisions.served), "")
        frame.insert(0, "turn", np.arange(1, len(self) + 1) + self.first)
        frame.insert(1, "start_utc", pd.to_datetime(self.start_utc_s, unit="s", utc=True))
        frame["moved"] = self.moved_from >= 0
        frame["reason"] = [reasons.WORDS[code] for code in decisions.reason]
        frame["history_tokens"] = self.history_tokens
        frame["cached_tokens"] = np.where(decisions.served, decisions.cached_tokens, 0)
        frame["recomputed_tokens"] = self.recomputed_tokens
        frame["new_prompt_tokens"] = self.new_prompt_tokens
        frame["output_tokens"] = self.output_tokens
        for field in fields(self.charges):
            frame[field.name] = getattr(self.charges, field.name)
        return frame

    def candidate_table(self, turn: int) -> pd.DataFrame:
        """One row a deployment: what it holds, what it would emit, and why it cannot serve.

        ``turn``: counted from the first turn of the story. Raises InputError for one that is not.
        """
        if not 0 <= turn < len(self):
            raise InputError(f"Turn {turn} is not there: this story has 0 to {len(self) - 1}.")
        frame = self.prepared.deployments.to_frame()
        for field in fields(self.candidates):
            frame[field.name] = getattr(self.candidates, field.name)[turn]
        fit_tokens = self.prepared.deployments.fleet.fit_tokens
        context = float(
            self.history_tokens[turn] + self.new_prompt_tokens[turn] + self.output_tokens[turn]
        )
        frame["why_not"] = [
            feasibility.in_words(code, fits, context)
            for code, fits in zip(
                frame["obstacle"], fit_tokens[self.prepared.deployments.fleet.pair], strict=True
            )
        ]
        return frame


def session_table(comparison: Comparison, policy_id: str, other_id: str) -> pd.DataFrame:
    """One row a session, in the order of the trace: what makes it worth looking at.

    Columns: session, turns, moves and holds under ``policy_id``, carbon_g under it,
    other_carbon_g under ``other_id``, and saving_g, the difference.
    """
    trace = comparison.trace

    def per_session(turns: np.ndarray) -> np.ndarray:
        return np.bincount(trace.session_index, turns, trace.n_sessions).astype(np.int64)

    held = np.isin(comparison.runs[policy_id].decisions.reason, HELD_REASONS)
    carbon_g = comparison.session_carbon_g(policy_id)
    other_g = comparison.session_carbon_g(other_id)
    return pd.DataFrame(
        {
            "session": list(trace.session_ids),
            "turns": trace.session_turns,
            "moves": per_session(comparison.moved(policy_id)),
            "holds": per_session(held),
            "carbon_g": carbon_g,
            "other_carbon_g": other_g,
            "saving_g": other_g - carbon_g,
        }
    )


class _Seen(NamedTuple):
    """What a policy saw, filled by the compiled loop; shape (turns, D) or (turns,)."""

    cached: np.ndarray
    carbon_g: np.ndarray
    to_come_g: np.ndarray
    expected_output: np.ndarray
    theta_needed: np.ndarray


def tell(
    prepared: Prepared, run: Run, session: int, first: int = 0, end: int | None = None
) -> Story:
    """Turns ``first`` to ``end`` of session number ``session`` of the trace, as ``run`` decided.

    No policy weighed the candidates of a log; they are those that a router would have seen. Raises
    InputError for a session or turns that are not there.
    """
    placed, fleet = prepared.placed, prepared.deployments.fleet
    trace = placed.trace
    if not 0 <= session < trace.n_sessions:
        raise InputError(
            f"Session number {session} is not there: {trace.name} has {trace.n_sessions:,}."
        )
    start, turns_in_all = int(trace.offsets[session]), int(trace.session_turns[session])
    end = turns_in_all if end is None else end
    if not 0 <= first < end <= turns_in_all:
        raise InputError(f"Turns {first} to {end} are not there: the session has {turns_in_all:,}.")
    whole, until = slice(start, start + turns_in_all), slice(start, start + end)
    rows = slice(start + first, start + end)
    decisions = Decisions(*(column[rows] for column in run.decisions))
    charges = Charges(**{f.name: getattr(run.charges, f.name)[rows] for f in fields(Charges)})
    history, prompt = trace.history_tokens[rows], trace.new_prompt_tokens[rows]
    output, difficulty = trace.output_tokens[rows], placed.difficulty[rows]
    user = placed.user[rows]
    known = prepared.intensity_seen_by(run.policy)
    deployment = run.decisions.deployment[whole]
    n, n_deployments = len(output), len(fleet.pair)
    seen = _Seen(
        cached=np.zeros((n, n_deployments)),
        carbon_g=np.full((n, n_deployments), np.inf),
        to_come_g=np.full((n, n_deployments), np.nan),
        expected_output=np.zeros(n),
        theta_needed=np.zeros(n),
    )
    _look_again(
        run.policy.knows_output,
        run.policy.free_history,
        run.policy.looks_ahead,
        fleet,
        run.policy.from_log,
        prepared.rules_for(run.policy.id),
        trace.history_tokens[until].astype(np.float64),
        trace.new_prompt_tokens[until].astype(np.float64),
        trace.output_tokens[until].astype(np.float64),
        placed.difficulty[until],
        placed.start_s[until],
        placed.user[until],
        np.ascontiguousarray(known[until]),
        deployment[:end].astype(np.int64),
        np.zeros(1, SESSION),
        first,
        seen,
    )
    if run.policy.from_log:  # the log may say what was cached where it was served
        served = np.flatnonzero(decisions.served)
        seen.cached[served, decisions.deployment[served]] = decisions.cached_tokens[served]
    carbon_g = run.charges.carbon_g[whole]
    return Story(
        prepared=prepared,
        policy_id=run.policy.id,
        session_id=trace.session_ids[session],
        history_tokens=history,
        new_prompt_tokens=prompt,
        output_tokens=output,
        expected_output_tokens=seen.expected_output,
        start_utc_s=prepared.scenario.window_start_s + placed.start_s[rows],
        user=user,
        intensity_g_per_kwh=prepared.intensity[rows],
        moved_from=_moved_from(deployment)[first:end],
        decisions=decisions,
        charges=charges,
        candidates=_candidates(
            prepared, seen, history, prompt, output, difficulty, user, known[rows]
        ),
        first=first,
        turns_in_all=turns_in_all,
        before_g=float(carbon_g[:first].sum()),
        in_all_g=float(carbon_g.sum()),
        served_before=bool((deployment[:first] >= 0).any()),
    )


def _moved_from(deployment: np.ndarray) -> np.ndarray:
    before = np.full(len(deployment), -1)
    served = np.flatnonzero(deployment >= 0)
    last, now = deployment[served[:-1]], deployment[served[1:]]
    before[served[1:]] = np.where(last != now, last, -1)
    return before


def _candidates(
    prepared: Prepared,
    seen: _Seen,
    history: np.ndarray,
    prompt: np.ndarray,
    output: np.ndarray,
    difficulty: np.ndarray,
    user: np.ndarray,
    intensity: np.ndarray,
) -> Candidates:
    """Every turn charged on every deployment, with the output the policy expected."""
    fleet = prepared.deployments.fleet
    n, n_deployments = seen.cached.shape

    def each(values: np.ndarray) -> np.ndarray:
        return np.repeat(values, n_deployments, axis=0)

    charges = charge_rows(
        fleet,
        prepared.k,
        history=each(history.astype(np.float64)),
        prompt=each(prompt.astype(np.float64)),
        output=each(seen.expected_output),
        difficulty=each(difficulty),
        user=each(user.astype(np.int64)),
        intensity=each(intensity),
        deployment=np.tile(np.arange(n_deployments), n),
        cached=seen.cached.ravel(),
    )
    columns = {
        name: getattr(charges, name).reshape(n, n_deployments)
        for name in (
            *("recompute_g", "prompt_g", "decode_g", "host_g", "embodied_g"),
            *("ttft_ms", "latency_ms", "quality"),
        )
    }
    total_g = charges.carbon_g.reshape(n, n_deployments)
    if prepared.rules.embodied:
        total_g = total_g + columns["embodied_g"]
    context = (history + prompt + output).astype(np.float64)
    return Candidates(
        cached_tokens=seen.cached.astype(np.int64),
        total_g=total_g,
        to_come_g=seen.to_come_g,
        obstacle=feasibility.obstacles(fleet, seen.carbon_g, context, seen.theta_needed),
        **columns,
    )


@jit
def _look_again(
    knows_output: bool,
    free_history: bool,
    looks_ahead: bool,
    fleet: Fleet,
    served_elsewhere: bool,
    rules: Rules,
    history: Array,
    prompt: Array,
    output: Array,
    difficulty: Array,
    start_s: Array,
    user: Array,
    intensity: Array,
    deployment: Array,
    sessions: Array,
    first: int,
    seen: _Seen,
) -> None:
    """Price the candidates of each turn from ``first`` on again, given where the turns before it
    were served. ``served_elsewhere``: a turn that no deployment here served was served by another.
    """
    n_deployments = fleet.pair.size
    cached = np.zeros(n_deployments)
    last_s = np.zeros(n_deployments)
    g_per_j = np.empty(fleet.pue.size)
    session = sessions[0]
    open_session(session, cached, 0)
    for i in range(deployment.size):
        h, p, o = history[i], prompt[i], output[i]
        begin_turn(rules, session, cached, last_s, h, p, difficulty[i], start_s[i], free_history)
        d = deployment[i]
        if i >= first:
            row = i - first
            turn = Turn(h, p, o, h + p + o, difficulty[i], user[i])
            turn, _ = price_candidates(
                knows_output,
                fleet,
                rules,
                turn,
                session,
                cached,
                intensity[i],
                g_per_j,
                seen.carbon_g[row],
            )
            seen.cached[row] = cached
            seen.expected_output[row] = turn.output_tokens
            seen.theta_needed[row] = required_theta(fleet, rules, turn)
            if looks_ahead and d >= 0:
                lookahead.outlook(
                    fleet,
                    rules,
                    turn,
                    session,
                    cached,
                    g_per_j,
                    seen.carbon_g[row],
                    seen.to_come_g[row],
                )
        end_turn(
            session,
            cached,
            last_s,
            d,
            h + p + o,
            o,
            start_s[i],
            rules.copies_all,
            served_elsewhere,
        )
