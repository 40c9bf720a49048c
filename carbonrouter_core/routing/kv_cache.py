"""Where a session's KV cache is live (docs/design.md, section 6).

The state of one session is two arrays over the deployments: ``cached`` (tokens of its
context that each holds) and ``last_s`` (start of the last turn served there). Compiled; the
replay and the online API call the same lines.
"""

from __future__ import annotations

from carbonrouter_core.compiled import Array, jit_borrowing


@jit_borrowing
def begin_turn(
    cached: Array, last_s: Array, history_tokens: float, start_s: float, idle_s: float
) -> None:
    """Drop what has expired and cut the rest to the history of the turn that begins.

    A cache is live when ``start_s - last_s <= idle_s``. The cut matters where a client
    rewrites its context: what no longer leads the prompt cannot be reused.
    """
    for d in range(cached.size):
        if cached[d] > 0:
            if start_s - last_s[d] > idle_s:
                cached[d] = 0
            elif cached[d] > history_tokens:
                cached[d] = history_tokens


@jit_borrowing
def end_turn(
    cached: Array,
    last_s: Array,
    deployment: int,
    context_tokens: float,
    start_s: float,
    copies_all: bool,
) -> None:
    """Note that a turn was served: ``deployment`` now holds its whole context.

    With ``copies_all`` the other deployments keep what they have until it expires, else
    only this one keeps anything. ``deployment`` -1: none of these, where a log names another.
    """
    if not copies_all:
        cached[:] = 0
    if deployment >= 0:
        cached[deployment] = context_tokens
        last_s[deployment] = start_s


@jit_borrowing
def home(cached: Array) -> int:
    """The deployment holding the most live cached tokens, the first of equals; -1 if none."""
    best, most = -1, 0
    for d in range(cached.size):
        if cached[d] > most:
            best, most = d, cached[d]
    return best
