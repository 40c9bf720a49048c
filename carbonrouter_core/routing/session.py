"""A session from turn to turn: it opens, and each turn begins, is decided and ends.

A replay, the story of a session and the online API all go through these lines, with
:func:`.decide.decide` between the beginning and the end of a turn. The state of a session is its
:data:`~.kernel.SESSION` record and its caches (:mod:`.kv_cache`).

Two loops read the caches alone and not these lines. The plan of :mod:`.policies.optimum` goes
backwards, and then through many possible pasts of a session at once: its caches differ between
them, and the record, which is for predictions, has no part in it. :func:`.as_served.follow` checks
cache models against a log, also where the scenario has no such deployments and decides nothing.
"""

from __future__ import annotations

import math

from carbonrouter_core.compiled import Array, Record, jit_borrowing
from carbonrouter_core.routing import kv_cache
from carbonrouter_core.routing.kernel import Rules


@jit_borrowing
def open_session(session: Record, cached: Array, start_at: int) -> None:
    """The state of a session before its first turn; ``start_at``: hash of its id."""
    cached[:] = 0.0
    session.turns = 0
    session.current = -1
    session.planned = -1
    session.output_tokens = 0.0
    session.later_prompt_tokens = 0.0
    session.later_prompt_logs = 0.0
    session.difficulty = 0.0
    session.recent_turns = 0.0
    session.recent_difficulty = 0.0
    session.recent_squares = 0.0
    session.start_at = start_at


@jit_borrowing
def begin_turn(
    rules: Rules,
    session: Record,
    cached: Array,
    last_s: Array,
    history_tokens: float,
    prompt_tokens: float,
    difficulty: float,
    start_s: float,
    free_history: bool,
) -> None:
    """Drop the caches that have expired and count the turn.

    ``free_history``: the whole history is cached everywhere instead.
    """
    if free_history:
        cached[:] = history_tokens
    else:
        kv_cache.begin_turn(cached, last_s, history_tokens, start_s, rules.idle_s)
    if session.turns > 0:
        session.later_prompt_tokens += prompt_tokens
        session.later_prompt_logs += math.log1p(prompt_tokens)
    session.turns += 1
    session.difficulty += difficulty
    memory = rules.difficulty_memory
    session.recent_turns = memory * session.recent_turns + 1.0
    session.recent_difficulty = memory * session.recent_difficulty + difficulty
    session.recent_squares = memory * session.recent_squares + difficulty * difficulty


@jit_borrowing
def end_turn(
    session: Record,
    cached: Array,
    last_s: Array,
    deployment: int,
    context_tokens: float,
    output_tokens: float,
    start_s: float,
    copies_all: bool,
    served_elsewhere: bool,
) -> None:
    """Count the output of a turn that ended on ``deployment``, -1 where it was not served.

    ``served_elsewhere``: where it is -1, a deployment that is not among these served the turn.
    """
    session.output_tokens += output_tokens
    if deployment >= 0:
        session.current = deployment
    if deployment >= 0 or served_elsewhere:
        kv_cache.end_turn(cached, last_s, deployment, context_tokens, start_s, copies_all)
