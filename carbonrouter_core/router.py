"""The online API: one turn in, one decision out.

    router = CarbonRouter(Scenario())
    decision = router.route(LiveTurn("chat-17", start_s=..., new_prompt_tokens=320, ...))
    ... serve the turn on decision.deployment ...
    router.observe("chat-17", decision.deployment, cached_tokens=0, output_tokens=211)

The decision is made by the same compiled lines as in a replay (:func:`.simulation.decide`); a
router only keeps the state of the sessions that are alive. It may be shared between threads.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral

import numpy as np
import pandas as pd

from carbonrouter_core import cache, feasibility
from carbonrouter_core.compiled import Array, Record, jit
from carbonrouter_core.deployments import Fleet
from carbonrouter_core.engine import Prepared, prepare
from carbonrouter_core.errors import InputError, IntensityError, ScenarioError
from carbonrouter_core.kernel import (
    NOTE,
    SESSION,
    Rules,
    Turn,
    note_prompt,
    open_session,
    predicted_output,
    required_theta,
)
from carbonrouter_core.policies import CODES, policy, reasons
from carbonrouter_core.quality import difficulty_of_text, text_of_prompt
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.simulation import charge_rows, decide
from carbonrouter_core.tables import unknown
from carbonrouter_core.traces.schema import session_key

DEFAULT_POLICY = "carbonrouter-lookahead"
DEFAULT_MAX_SESSIONS = 1_000_000
DEFAULT_FORGET_AFTER_S = 6 * 3600.0
"""A session without a turn for this long is forgotten; its caches have long expired."""
MAX_TOKENS = 10**9

Intensity = Callable[[str, float], float]
"""Carbon intensity in g/kWh of a region at a time in epoch seconds."""


@dataclass(frozen=True)
class LiveTurn:
    """A turn that asks for a place.

    Give ``difficulty`` (logit) or the ``prompt`` itself, with the session's ``previous_prompt``
    where there is one; text is read and not kept. ``history_tokens`` defaults to what the
    router has seen of the session, ``max_tokens`` is the limit the client set on the output.
    ``cached_tokens``: what backends report to hold of this history, by deployment, in place of
    the cache model. ``context_tokens`` overrides what must fit (h + p + the larger of the
    predicted output and ``max_tokens``).
    """

    session: str
    start_s: float
    new_prompt_tokens: int
    user_region: str
    difficulty: float | None = None
    prompt: str | None = None
    previous_prompt: str | None = None
    history_tokens: int | None = None
    max_tokens: int | None = None
    cached_tokens: Mapping[int, int] = field(default_factory=dict)
    context_tokens: float | None = None


@dataclass(frozen=True)
class Decision:
    """Where a turn goes, and why.

    ``deployment`` is None where no model holds the context; ``p_back``, ``saving_g``,
    ``rebuild_g`` and ``next_gain_g`` are the gate's figures (:mod:`.policies.gate`),
    None where it was not asked.
    """

    session: str
    deployment: int | None
    model: str | None
    gpu: str | None
    region: str | None
    reason: str
    cached_tokens: int
    home: int | None
    missed_ceiling: bool
    p_back: float | None
    saving_g: float | None
    rebuild_g: float | None
    next_gain_g: float | None
    _seen: _Seen = field(repr=False, compare=False)

    def candidates(self) -> pd.DataFrame:
        """One row a deployment, as the policy saw it (with the predicted output).

        Carbon in g by part, latency in ms, predicted quality, and whether it was feasible or
        why not.
        """
        return self._seen.table()


@dataclass(frozen=True)
class _Seen:
    """What a decision was made from."""

    prepared: Prepared
    turn: Turn
    cached: np.ndarray
    intensity: np.ndarray
    carbon_g: np.ndarray

    def table(self) -> pd.DataFrame:
        prepared, turn = self.prepared, self.turn
        fleet = prepared.deployments.fleet
        n = len(fleet.pair)
        charges = charge_rows(
            fleet,
            prepared.k,
            history=np.full(n, turn.history_tokens),
            prompt=np.full(n, turn.prompt_tokens),
            output=np.full(n, turn.output_tokens),
            difficulty=np.full(n, turn.difficulty),
            user=np.full(n, turn.user),
            intensity=np.tile(self.intensity, (n, 1)),
            deployment=np.arange(n),
            cached=self.cached,
        )
        frame = prepared.deployments.to_frame()
        frame["cached_tokens"] = self.cached.astype(np.int64)
        for name in ("recompute_g", "prompt_g", "decode_g", "host_g", "carbon_g", "embodied_g"):
            frame[name] = getattr(charges, name)
        for name in ("ttft_ms", "latency_ms", "quality"):
            frame[name] = getattr(charges, name)
        needed = required_theta(fleet, prepared.rules, turn)
        codes = feasibility.obstacles(
            fleet, self.carbon_g[None], np.array([turn.context_tokens]), np.array([needed])
        )[0]
        frame["feasible"] = codes == feasibility.FEASIBLE
        frame["why_not"] = [
            feasibility.in_words(code, fit_tokens, turn.context_tokens)
            for code, fit_tokens in zip(codes, fleet.fit_tokens[fleet.pair], strict=True)
        ]
        return frame


@dataclass(slots=True)
class _Session:
    """State of one live session; the running figures are a row of the router's records."""

    row: int
    last_start_s: float
    seen_tokens: int = 0
    holds: tuple[tuple[int, float, float], ...] = ()
    """(deployment, tokens, start of the last turn there) of each cache."""
    pending: tuple[float, float] | None = None
    """Start and tokens of history and prompt of the turn being served."""


class CarbonRouter:
    """Routes live turns under one scenario and policy; safe to share between threads.

    ``scenario``: a scenario, or one already made ready by :func:`~.engine.prepare`; what the
    policy has learned comes from its trace. ``intensity``: a callable for live values; left
    out, the scenario's series. A session is forgotten ``forget_after_s`` after its last turn,
    or when there are more than ``max_sessions``, the one longest unused first.
    """

    def __init__(
        self,
        scenario: Scenario | Prepared,
        policy_id: str = DEFAULT_POLICY,
        *,
        intensity: Intensity | None = None,
        max_sessions: int = DEFAULT_MAX_SESSIONS,
        forget_after_s: float = DEFAULT_FORGET_AFTER_S,
    ) -> None:
        chosen = policy(policy_id)
        if chosen.knows_output or chosen.knows_future:
            raise ScenarioError(f"{policy_id} needs to know the future; it cannot route live.")
        if max_sessions < 1:
            raise InputError(f"max_sessions is {max_sessions}; it must be 1 or more.")
        prepared = prepare(scenario) if isinstance(scenario, Scenario) else scenario
        self.prepared = replace(prepared, rules=prepared.rules_for(policy_id))
        if not forget_after_s >= self.prepared.scenario.idle_s:
            raise InputError(
                f"forget_after_s is {forget_after_s}; it must be at least idle_s, "
                f"{self.prepared.scenario.idle_s:g} s, so that no live cache is forgotten."
            )
        self.policy = chosen
        self.forgotten = 0
        self._intensity = intensity or self._from_series
        self._max_sessions = max_sessions
        self._forget_after_s = forget_after_s
        deployments = self.prepared.deployments
        self._users = {name: i for i, name in enumerate(deployments.user_regions)}
        self._regions = [site.region for site in deployments.regions]
        n = len(deployments)
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._records = np.zeros(16, SESSION)
        self._free = list(range(16))
        self._note = np.zeros(1, NOTE)
        self._cached, self._last_s = np.zeros(n), np.zeros(n)
        self._carbon_g, self._g_per_j = np.zeros(n), np.zeros(len(self._regions))

    def __len__(self) -> int:
        return len(self._sessions)

    def route(self, turn: LiveTurn) -> Decision:
        """Decide where ``turn`` is served.

        Raises :class:`~.errors.InputError` for a turn that cannot be, and
        :class:`~.errors.IntensityError` where the grid gives no usable value; then nothing has
        changed. A turn that was routed and never observed counts as not served.
        """
        user, difficulty = self._checked(turn)
        with self._lock:
            known = self._sessions.get(turn.session)
            history = turn.history_tokens
            if history is None:
                history = known.seen_tokens if known else 0
            if known and turn.start_s < known.last_start_s:
                raise InputError(
                    f"Session {turn.session!r}: this turn starts before the one before it."
                )
            self._scatter(known)
            self._check_reported(turn, history)
            intensity = self._intensity_at(turn.start_s)
            session = known or self._open(turn.session, turn.start_s)
            session.last_start_s = turn.start_s
            self._sessions.move_to_end(turn.session)
            prepared = self.prepared
            cache.begin_turn(
                self._cached, self._last_s, history, turn.start_s, prepared.rules.idle_s
            )
            for deployment, tokens in turn.cached_tokens.items():
                self._cached[deployment] = tokens
                self._last_s[deployment] = turn.start_s
            decided, seen = self._decide(turn, session, history, user, difficulty, intensity)
            self._gather(session)
            session.pending = (turn.start_s, history + turn.new_prompt_tokens)
            session.seen_tokens = history + turn.new_prompt_tokens
            self._forget(turn.start_s)
            return self._decision(turn, decided, seen)

    def observe(
        self, session: str, deployment: int | None, cached_tokens: int, output_tokens: int
    ) -> None:
        """Report that the turn last routed was served on ``deployment`` (None: not at all).

        ``cached_tokens``: what the backend reused of the prompt
        (``usage.prompt_tokens_details.cached_tokens``); ``output_tokens``: what it put out.
        The deployment may be another than the one decided on.
        """
        n = len(self.prepared.deployments)
        for name, value in (
            ("deployment", 0 if deployment is None else deployment),
            ("cached_tokens", cached_tokens),
            ("output_tokens", output_tokens),
        ):
            if not isinstance(value, Integral):
                raise InputError(f"{name} is {value!r}; it must be a whole number.")
        if deployment is not None and not 0 <= deployment < n:
            raise InputError(f"Deployment {deployment} is unknown; there are 0 to {n - 1}.")
        if not 0 <= output_tokens <= MAX_TOKENS:
            raise InputError(f"output_tokens is {output_tokens}; it must be 0 to {MAX_TOKENS:,}.")
        with self._lock:
            known = self._sessions.get(session)
            if known is None or known.pending is None:
                raise InputError(
                    f"Session {session!r} has no turn being served; route it first "
                    "(or it was forgotten meanwhile)."
                )
            start_s, prompt_end = known.pending
            if not 0 <= cached_tokens <= prompt_end:
                raise InputError(
                    f"cached_tokens is {cached_tokens}; the prompt has {prompt_end:,.0f} tokens."
                )
            record = self._records[known.row]
            record["output_tokens"] += output_tokens
            known.seen_tokens = int(prompt_end + output_tokens)
            known.pending = None
            if deployment is None:
                return
            record["current"] = deployment
            self._scatter(known)
            cache.end_turn(
                self._cached,
                self._last_s,
                deployment,
                prompt_end + output_tokens,
                start_s,
                self.prepared.rules.copies_all,
            )
            self._gather(known)

    def forget(self, session: str) -> None:
        """Drop a session that has ended; an unknown one is no error."""
        with self._lock:
            if session in self._sessions:
                self._free.append(self._sessions.pop(session).row)

    # --- what is given ----------------------------------------------------------------------

    def _checked(self, turn: LiveTurn) -> tuple[int, float]:
        if turn.user_region not in self._users:
            raise InputError(unknown("user region", turn.user_region, self._users.keys()))
        if not math.isfinite(turn.start_s):
            raise InputError(f"start_s is {turn.start_s}; it must be epoch seconds.")
        for name in ("new_prompt_tokens", "history_tokens", "max_tokens"):
            value = getattr(turn, name)
            if value is not None and not 0 <= value <= MAX_TOKENS:
                raise InputError(f"{name} is {value}; it must be from 0 to {MAX_TOKENS:,}.")
        difficulty = turn.difficulty
        if difficulty is None:
            if turn.prompt is None:
                raise InputError("Give the difficulty of the turn, or its prompt to read it from.")
            difficulty = difficulty_of_text(text_of_prompt(turn.prompt, turn.previous_prompt))
        if not math.isfinite(difficulty):
            raise InputError(f"difficulty is {difficulty}; it must be a finite number (logit).")
        return self._users[turn.user_region], difficulty

    def _check_reported(self, turn: LiveTurn, history: int) -> None:
        for deployment, tokens in turn.cached_tokens.items():
            if not 0 <= deployment < len(self._cached):
                raise InputError(f"cached_tokens names the unknown deployment {deployment}.")
            if not 0 <= tokens <= history:
                raise InputError(
                    f"cached_tokens of deployment {deployment} is {tokens}; "
                    f"the history has {history:,} tokens."
                )

    def _from_series(self, region: str, time_s: float) -> float:
        series = self.prepared.series[self._regions.index(region)]
        return float(series.at(np.array([time_s]))[0])

    def _intensity_at(self, time_s: float) -> np.ndarray:
        values = np.empty(len(self._regions))
        for i, region in enumerate(self._regions):
            try:
                values[i] = self._intensity(region, time_s)
            except (TypeError, ValueError) as error:
                raise IntensityError(
                    f"Carbon intensity of {region} could not be had: {error}"
                ) from error
            if not (math.isfinite(values[i]) and values[i] > 0):
                raise IntensityError(
                    f"Carbon intensity of {region} is {values[i]} g/kWh; it must be above 0. "
                    "Give a usable value: none is made up."
                )
        return values

    # --- the state of a session -------------------------------------------------------------

    def _open(self, name: str, start_s: float) -> _Session:
        if not self._free:
            n = len(self._records)
            self._records = np.concatenate([self._records, np.zeros(n, SESSION)])
            self._free.extend(range(n, 2 * n))
        session = _Session(self._free.pop(), start_s)
        _open(self._records, session.row, session_key(name) >> 1)
        self._sessions[name] = session
        return session

    def _forget(self, now_s: float) -> None:
        while self._sessions:
            name, oldest = next(iter(self._sessions.items()))
            crowded = len(self._sessions) > self._max_sessions
            if not crowded and now_s - oldest.last_start_s <= self._forget_after_s:
                return
            del self._sessions[name]
            self._free.append(oldest.row)
            self.forgotten += 1

    def _scatter(self, session: _Session | None) -> None:
        self._cached[:] = 0.0
        for deployment, tokens, last_s in session.holds if session else ():
            self._cached[deployment] = tokens
            self._last_s[deployment] = last_s

    def _gather(self, session: _Session) -> None:
        session.holds = tuple(
            (int(d), float(self._cached[d]), float(self._last_s[d]))
            for d in np.flatnonzero(self._cached)
        )

    # --- the decision -----------------------------------------------------------------------

    def _decide(
        self,
        turn: LiveTurn,
        session: _Session,
        history: int,
        user: int,
        difficulty: float,
        intensity: np.ndarray,
    ) -> tuple[int, _Seen]:
        prepared, prompt = self.prepared, turn.new_prompt_tokens
        deployment, output, context = _route(
            CODES[self.policy.id],
            prepared.deployments.fleet,
            prepared.rules,
            self._records,
            session.row,
            self._note,
            float(history),
            float(prompt),
            -1.0 if turn.context_tokens is None else float(turn.context_tokens),
            float(turn.max_tokens or 0),
            difficulty,
            user,
            self._cached,
            intensity,
            self._g_per_j,
            self._carbon_g,
        )
        seen_turn = Turn(float(history), float(prompt), output, context, difficulty, user)
        return deployment, _Seen(
            prepared, seen_turn, self._cached.copy(), intensity, self._carbon_g.copy()
        )

    def _decision(self, turn: LiveTurn, deployment: int, seen: _Seen) -> Decision:
        note, deployments = self._note[0], self.prepared.deployments
        asked = not math.isnan(note["p_back"])
        decision = Decision(
            session=turn.session,
            deployment=None,
            model=None,
            gpu=None,
            region=None,
            reason=reasons.WORDS[int(note["reason"])],
            cached_tokens=0,
            home=int(note["home"]) if note["home"] >= 0 else None,
            missed_ceiling=bool(note["missed_ceiling"]),
            p_back=float(note["p_back"]) if asked else None,
            saving_g=float(note["saving_g"]) if asked else None,
            rebuild_g=float(note["rebuild_g"]) if asked else None,
            next_gain_g=float(note["next_gain_g"]) if asked else None,
            _seen=seen,
        )
        if deployment < 0:
            return decision
        replica = deployments.replicas[deployments.fleet.pair[deployment]]
        return replace(
            decision,
            deployment=int(deployment),
            model=replica.model,
            gpu=replica.gpu,
            region=deployments.regions[deployments.fleet.region[deployment]].region,
            cached_tokens=int(seen.cached[deployment]),
        )


@jit
def _open(records: Array, row: int, start_at: int) -> None:
    open_session(records[row], start_at)


@jit
def _route(
    code: int,
    fleet: Fleet,
    rules: Rules,
    records: Array,
    row: int,
    notes: Array,
    history: float,
    prompt: float,
    context: float,
    max_tokens: float,
    difficulty: float,
    user: int,
    cached: Array,
    intensity: Array,
    g_per_j: Array,
    carbon_g: Array,
) -> tuple[int, float, float]:
    """Count the turn and decide it: (deployment, predicted output, what had to fit)."""
    session: Record = records[row]
    note_prompt(session, prompt, difficulty)
    output = predicted_output(rules, session)
    if context < 0.0:
        context = history + prompt + max(output, max_tokens)
    turn = Turn(history, prompt, output, context, difficulty, user)
    deployment = decide(
        code,
        False,
        fleet,
        rules,
        turn,
        session,
        cached,
        intensity,
        g_per_j,
        carbon_g,
        notes[0],
    )
    return deployment, output, context
