"""Replaying a placed trace under a policy: what it decides, turn by turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from carbonrouter_core.compiled import Array, jit
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.progress import Progress, nobody_listens
from carbonrouter_core.routing.decide import decide
from carbonrouter_core.routing.kernel import NOTE, SESSION, Rules, Turn, predicted_outputs
from carbonrouter_core.routing.policies import CODES, Policy, optimum
from carbonrouter_core.routing.session import begin_turn, end_turn, open_session
from carbonrouter_core.traces.placement import PlacedTrace

UNSERVED = -1
"""Deployment of a turn that no model holds."""

BLOCK_TURNS = 2_048
"""Turns between two reports of progress, which may end a replay; a session is never split."""
PLAN_SHARE = 0.9
"""Part of the time of a policy that knows the future that goes into its plan, roughly."""


class Decisions(NamedTuple):
    """What a policy decided, one entry a turn; filled by the compiled replay.

    ``deployment`` (-1: unserved), ``wanted`` (before the gate) and ``home`` (-1: none) are
    numbers of deployments; ``cached_tokens`` is what the chosen one had; ``reason`` is a code
    of :mod:`.policies.reasons`; ``p_back``, ``saving_g``, ``rebuild_g`` and
    ``next_gain_g`` are the gate's figures (:mod:`.policies.gate`), NaN where it was not asked.
    """

    deployment: np.ndarray
    wanted: np.ndarray
    home: np.ndarray
    cached_tokens: np.ndarray
    reason: np.ndarray
    missed_ceiling: np.ndarray
    p_back: np.ndarray
    saving_g: np.ndarray
    rebuild_g: np.ndarray
    next_gain_g: np.ndarray

    @property
    def served(self) -> np.ndarray:
        """Which turns were served."""
        return self.deployment >= 0


class _Turns(NamedTuple):
    """The columns of a placed trace as the compiled replay reads them."""

    offsets: np.ndarray
    start_at: np.ndarray
    history: np.ndarray
    prompt: np.ndarray
    output: np.ndarray
    difficulty: np.ndarray
    start_s: np.ndarray
    user: np.ndarray
    intensity: np.ndarray


def replay(
    policy: Policy,
    fleet: Fleet,
    rules: Rules,
    placed: PlacedTrace,
    intensity: np.ndarray,
    seeds: Sequence[np.ndarray] = (),
    progress: Progress = nobody_listens,
) -> Decisions:
    """Decide every turn of ``placed`` under ``policy``.

    ``intensity``: g/kWh, shape (turns, regions), at the start of each turn; ``seeds``:
    deployments other policies chose, one array of shape (turns,) each, where a policy that
    knows the future and is not exact starts from. ``progress`` is called after every
    :data:`BLOCK_TURNS` or so; decisions do not depend on it, since sessions are independent.
    """
    trace = placed.trace
    n = trace.n_turns
    decisions = Decisions(
        deployment=np.full(n, UNSERVED, np.int32),
        wanted=np.full(n, UNSERVED, np.int32),
        home=np.full(n, UNSERVED, np.int32),
        cached_tokens=np.zeros(n, np.int64),
        reason=np.zeros(n, np.int8),
        missed_ceiling=np.zeros(n, np.bool_),
        p_back=np.full(n, np.nan),
        saving_g=np.full(n, np.nan),
        rebuild_g=np.full(n, np.nan),
        next_gain_g=np.full(n, np.nan),
    )
    columns = _Turns(
        offsets=trace.offsets,
        start_at=(trace.session_keys >> np.uint64(1)).astype(np.int64),
        history=trace.history_tokens,
        prompt=trace.new_prompt_tokens,
        output=trace.output_tokens,
        difficulty=placed.difficulty,
        start_s=placed.start_s,
        user=placed.user,
        intensity=intensity,
    )
    turns = _Turns._make(map(_read_only, columns))
    # The records are made here: compiled code holds bare pointers into them, so that arrays
    # of its own could be freed under its feet.
    session, note = np.zeros(1, SESSION), np.zeros(1, NOTE)
    plan, planned = np.empty(0, np.int64), 0.0
    if policy.knows_future:
        plan, planned = np.full(n, UNSERVED), PLAN_SHARE
        paths = np.array(seeds, np.int64).reshape(len(seeds), n)
        for first, end, share in blocks(trace.offsets, BLOCK_TURNS):
            _plan(fleet, rules, turns, paths, plan, first, end)
            progress(planned * share)
    code, knows_output, free_history = CODES[policy.id], policy.knows_output, policy.free_history
    for first, end, share in blocks(trace.offsets, BLOCK_TURNS):
        _replay(
            code,
            knows_output,
            free_history,
            fleet,
            rules,
            turns,
            plan,
            session,
            note,
            decisions,
            first,
            end,
        )
        progress(planned + (1.0 - planned) * share)
    return decisions


def blocks(offsets: np.ndarray, turns: int) -> Iterator[tuple[int, int, float]]:
    """Sessions from, up to, and the share of all turns up to there; each of about ``turns``."""
    n = int(offsets[-1])
    marks = np.minimum(np.arange(turns, n + turns, turns), n)
    first = 0
    for end in np.unique(np.searchsorted(offsets, marks)):
        yield first, int(end), float(offsets[end] / n)
        first = int(end)


def _read_only(column: np.ndarray) -> np.ndarray:
    """A view that cannot be written to, whatever the column allows: one type to compile for."""
    view = column.view()
    view.flags.writeable = False
    return view


@jit
def _plan(
    fleet: Fleet,
    rules: Rules,
    turns: _Turns,
    seeds: Array,
    plan: Array,
    first_session: int,
    end_session: int,
) -> None:
    """Fill ``plan`` (turns,) with the deployments of least carbon, each session's future known."""
    for s in range(first_session, end_session):
        first, end = turns.offsets[s], turns.offsets[s + 1]
        history = turns.history[first:end].astype(np.float64)
        prompt = turns.prompt[first:end].astype(np.float64)
        output = turns.output[first:end].astype(np.float64)
        future = optimum.Future(
            history,
            prompt,
            output,
            predicted_outputs(rules, output),
            history + prompt + output,
            turns.difficulty[first:end],
            turns.start_s[first:end],
            turns.user[first:end],
            turns.intensity[first:end],
        )
        plan[first:end] = optimum.plan_session(fleet, rules, future, seeds[:, first:end])


@jit
def _replay(
    code: int,
    knows_output: bool,
    free_history: bool,
    fleet: Fleet,
    rules: Rules,
    turns: _Turns,
    plan: Array,
    sessions: Array,
    notes: Array,
    out: Decisions,
    first_session: int,
    end_session: int,
) -> None:
    n_deployments = fleet.pair.size
    cached = np.zeros(n_deployments)
    last_s = np.zeros(n_deployments)
    carbon_g = np.empty(n_deployments)
    g_per_j = np.empty(fleet.pue.size)
    session, note = sessions[0], notes[0]
    for s in range(first_session, end_session):
        open_session(session, cached, turns.start_at[s])
        for i in range(turns.offsets[s], turns.offsets[s + 1]):
            h, p, o = float(turns.history[i]), float(turns.prompt[i]), float(turns.output[i])
            difficulty, now_s = turns.difficulty[i], turns.start_s[i]
            begin_turn(rules, session, cached, last_s, h, p, difficulty, now_s, free_history)
            if plan.size:
                session.planned = plan[i]
            turn = Turn(h, p, o, h + p + o, difficulty, turns.user[i])
            d = decide(
                code,
                knows_output,
                fleet,
                rules,
                turn,
                session,
                cached,
                turns.intensity[i],
                g_per_j,
                carbon_g,
                note,
            )
            out.wanted[i] = note.wanted
            out.home[i] = note.home
            out.reason[i] = note.reason
            if d >= 0:
                out.deployment[i] = d
                out.cached_tokens[i] = int(cached[d])
                out.missed_ceiling[i] = note.missed_ceiling
                out.p_back[i] = note.p_back
                out.saving_g[i] = note.saving_g
                out.rebuild_g[i] = note.rebuild_g
                out.next_gain_g[i] = note.next_gain_g
            end_turn(session, cached, last_s, d, h + p + o, o, now_s, rules.copies_all, False)
