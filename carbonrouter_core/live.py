"""The online API: one turn in, one decision out.

    router = CarbonRouter(Scenario())
    decision = router.route(LiveTurn("chat-17", start_s=..., new_prompt_tokens=320, ...))
    ... serve the turn on decision.deployment ...
    router.observe("chat-17", decision.deployment, cached_tokens=0, output_tokens=211)

The decision is made by the same compiled lines as in a replay (:func:`.decide.decide`); a
router only keeps the state of the sessions that are alive. It may be shared between threads.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral, Real

import numpy as np
import pandas as pd

from carbonrouter_core.compiled import Array, Record, jit
from carbonrouter_core.errors import InputError, IntensityError, ScenarioError, TurnError
from carbonrouter_core.fleet.deployments import Fleet
from carbonrouter_core.grid.knowledge import known_by_region
from carbonrouter_core.grid.series import IntensityTable
from carbonrouter_core.quality.prompt_difficulty import difficulty_of_text, text_of_prompt
from carbonrouter_core.replay.charging import charge_rows
from carbonrouter_core.replay.world import Prepared, prepare
from carbonrouter_core.routing import feasibility
from carbonrouter_core.routing.decide import decide
from carbonrouter_core.routing.kernel import (
    NOTE,
    SESSION,
    Rules,
    Turn,
    predicted_output,
    required_theta,
)
from carbonrouter_core.routing.policies import CODES, ROUTER, policy, reasons
from carbonrouter_core.routing.session import begin_turn, end_turn, open_session
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.traces.schema import session_key
from carbonrouter_core.words.names import unknown

DEFAULT_MAX_SESSIONS = 1_000_000
DEFAULT_FORGET_AFTER_S = 6 * 3600.0
"""A session without a turn for this long is forgotten; its caches have long expired."""
MAX_TOKENS = 10**9

Intensity = Callable[[str, float], float]
"""Carbon intensity in g/kWh of a region at a time in epoch seconds."""


@dataclass(frozen=True)
class LiveTurn:
    """A turn that asks for a place.

    Give ``difficulty`` or the ``prompt`` itself. Text is read and not kept.

    Attributes
    ----------
    session
        Id of the session.
    start_s
        When the turn starts, seconds since 1970-01-01 UTC.
    new_prompt_tokens
        Tokens that the prompt adds to the history.
    user_region
        The region of the user, from the scenario.
    difficulty
        Difficulty of the prompt in logits, instead of ``prompt``.
    prompt
        Text of the prompt, instead of ``difficulty``.
    previous_prompt
        Text of the session's prompt before it, if there is one.
    history_tokens
        Tokens of the history; what the router has seen of the session if left out.
    max_tokens
        The limit that the client set on the output.
    cached_tokens
        Tokens of this history that a backend reports to hold, by number of the deployment, in place
        of the cache model.
    context_tokens
        What must fit in the context window; if left out, history, prompt, and the larger of the
        predicted output and ``max_tokens``.
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

    Attributes
    ----------
    session
        Id of the session.
    deployment
        Number of the deployment; None where no model holds the context.
    model, gpu, region
        What the deployment is; None with it.
    reason
        The reason in words.
    cached_tokens
        Tokens of the history that the deployment holds.
    home
        Number of the deployment that holds most of the history; None where none holds any.
    missed_ceiling
        Whether no candidate was within the latency ceiling.
    p_back
        Chance that the session comes back home, 0 to 1; None where the gate was not asked, as for
        the figures below (:mod:`.policies.gate`).
    saving_g
        What the move saves at this turn, gCO2e.
    rebuild_g
        Carbon of rebuilding home's cache, gCO2e.
    next_gain_g
        What holding saves at the next turn, gCO2e.
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
        """Every deployment as the policy saw it, with the predicted output.

        Returns
        -------
        pandas.DataFrame
            A row for each deployment: carbon in gCO2e by part, ``ttft_ms`` and ``latency_ms``,
            predicted quality (0 to 1), whether it was feasible, and why not.
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
    pending: tuple[int, int] | None = None
    """History and prompt tokens of the turn being served, which began at ``last_start_s``."""


class CarbonRouter:
    """Routes live turns under one scenario and policy; threads may share it.

    Everything is compiled before the constructor returns.

    Parameters
    ----------
    scenario
        A scenario, or the result of :func:`prepare`. The policy learns from its trace.
    policy_id
        Id from :data:`POLICIES`; not a policy that knows the future.
    intensity
        A callable for live carbon intensity in gCO2e/kWh. It is called from the thread that
        routes, outside the lock of the router. If left out, the series of the scenario are used,
        with the knowledge that the scenario gives to policies.
    max_sessions
        Most sessions in memory; the longest unused is forgotten first.
    forget_after_s
        Seconds after its last turn when a session is forgotten; at least ``idle_s`` of the
        scenario.

    Raises
    ------
    ScenarioError, InputError
        If the policy cannot route live, or a limit is out of range.
    """

    def __init__(
        self,
        scenario: Scenario | Prepared,
        policy_id: str = ROUTER,
        *,
        intensity: Intensity | None = None,
        max_sessions: int = DEFAULT_MAX_SESSIONS,
        forget_after_s: float = DEFAULT_FORGET_AFTER_S,
    ) -> None:
        chosen = policy(policy_id)
        if policy_id not in CODES or chosen.knows_output or chosen.knows_future:
            raise ScenarioError(f"{policy_id} needs to know the future or a log: no live routing.")
        if _whole("max_sessions", max_sessions, error=InputError) < 1:
            raise InputError(f"max_sessions is {max_sessions}; it must be 1 or more.")
        forget_after_s = _number("forget_after_s", forget_after_s, error=InputError)
        prepared = prepare(scenario) if isinstance(scenario, Scenario) else scenario
        self.prepared = replace(prepared, rules=prepared.rules_for(policy_id))
        if not forget_after_s >= self.prepared.scenario.idle_s:
            raise InputError(
                f"forget_after_s is {forget_after_s}; it must be at least idle_s, "
                f"{self.prepared.scenario.idle_s:g} s, so that no live cache is forgotten."
            )
        self.policy = chosen
        self.forgotten = 0
        self._code = CODES[policy_id]
        self._max_sessions = max_sessions
        self._forget_after_s = forget_after_s
        deployments = self.prepared.deployments
        self._users = {name: i for i, name in enumerate(deployments.user_regions)}
        self._regions = tuple(site.region for site in deployments.regions)
        self._names = tuple(_names(deployments.to_frame()))
        self._ask = intensity
        self._table = IntensityTable.of(self.prepared.series)
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._records = np.zeros(16, SESSION)
        self._free = list(range(16))
        # one turn at a time is decided, in these
        n = len(deployments)
        self._note = np.zeros(1, NOTE)
        self._cached, self._last_s, self._reported = np.zeros(n), np.zeros(n), np.empty(n)
        self._carbon_g, self._g_per_j = np.zeros(n), np.zeros(len(self._regions))
        self._warm_up()

    def __len__(self) -> int:
        return len(self._sessions)

    def route(self, turn: LiveTurn) -> Decision:
        """Decide where a turn is served.

        A turn that was routed and never observed counts as not served. After an error nothing
        has changed.

        Parameters
        ----------
        turn
            The next turn of a session.

        Returns
        -------
        Decision
            The deployment, the reason, and the figures of every candidate.

        Raises
        ------
        TurnError
            If the turn cannot be served; the message names the field.
        IntensityError
            If the grid gives no usable value.
        """
        user, difficulty = self._checked(turn)
        start_s, prompt = float(turn.start_s), int(turn.new_prompt_tokens)
        intensity = self._intensity_at(start_s)
        with self._lock:
            known = self._sessions.get(turn.session)
            if known and start_s - known.last_start_s > self._forget_after_s:
                known = None  # too old to be remembered, even if it is the one that comes back
            if known and start_s < known.last_start_s:
                raise TurnError(
                    f"Session {turn.session!r}: this turn starts before the one before it."
                )
            if turn.history_tokens is not None:
                history = int(turn.history_tokens)
            else:
                history = known.seen_tokens if known else 0
            self._check_reported(turn, history)
            self._forget(start_s)
            session = known or self._open(turn.session, start_s)
            self._sessions.move_to_end(turn.session)
            self._scatter(session)
            decision = self._decide(turn, session.row, history, user, difficulty, intensity)
            self._gather(session)
            session.last_start_s = start_s
            session.pending = (history, prompt)
            session.seen_tokens = history + prompt
        return decision

    def observe(
        self, session: str, deployment: int | None, cached_tokens: int, output_tokens: int
    ) -> None:
        """Report how the turn that was last routed in a session was served.

        The deployment then holds the whole context. It may differ from the decision. After an
        error nothing has changed.

        Parameters
        ----------
        session
            Id of the session.
        deployment
            Number of the deployment that served the turn; None if none did.
        cached_tokens
            Tokens of the history that the backend reused
            (``usage.prompt_tokens_details.cached_tokens``). At most the history of the turn: a
            system prompt that sessions share is new to each of them.
        output_tokens
            Tokens that the backend generated.

        Raises
        ------
        TurnError
            If the session has no turn being served, or a number cannot be.
        """
        _whole("cached_tokens", cached_tokens)
        output_tokens = _whole("output_tokens", output_tokens)
        if deployment is not None:
            deployment = self._known_deployment("deployment", deployment)
        with self._lock:
            known = self._sessions.get(session) if isinstance(session, str) else None
            if known is None or known.pending is None:
                raise TurnError(
                    f"Session {session!r} has no turn being served; route it first "
                    "(or it was forgotten meanwhile)."
                )
            history, prompt = known.pending
            if cached_tokens > history:
                raise TurnError(
                    f"cached_tokens is {cached_tokens}; the turn's history has {history:,} "
                    "tokens. Report at most those: what is shared beyond them is new here."
                )
            known.seen_tokens = history + prompt + output_tokens
            known.pending = None
            self._scatter(known)
            _end(
                self._records,
                known.row,
                self._cached,
                self._last_s,
                -1 if deployment is None else deployment,
                float(known.seen_tokens),
                float(output_tokens),
                known.last_start_s,
                self.prepared.rules.copies_all,
            )
            self._gather(known)

    def forget(self, session: str) -> None:
        """Drop a session that has ended.

        Parameters
        ----------
        session
            Id of the session; an unknown one is no error.
        """
        with self._lock:
            if isinstance(session, str) and session in self._sessions:
                self._free.append(self._sessions.pop(session).row)

    # --- what is given ----------------------------------------------------------------------

    def _checked(self, turn: LiveTurn) -> tuple[int, float]:
        """User region and difficulty of a turn whose every field is what it must be."""
        if not isinstance(turn, LiveTurn):
            raise TurnError(f"{turn!r} is no LiveTurn.")
        for name in ("session", "user_region"):
            if not isinstance(getattr(turn, name), str):
                raise TurnError(f"{name} is {getattr(turn, name)!r}; it must be text.")
        if turn.user_region not in self._users:
            raise TurnError(unknown("user region", turn.user_region, self._users.keys()))
        _number("start_s", turn.start_s)
        _whole("new_prompt_tokens", turn.new_prompt_tokens)
        if turn.history_tokens is not None:
            _whole("history_tokens", turn.history_tokens)
        if turn.max_tokens is not None:
            _whole("max_tokens", turn.max_tokens)
        if turn.context_tokens is not None and _number("context_tokens", turn.context_tokens) < 0:
            raise TurnError(f"context_tokens is {turn.context_tokens}; it must be 0 or more.")
        if not isinstance(turn.cached_tokens, Mapping):
            raise TurnError(f"cached_tokens is {turn.cached_tokens!r}; it must be by deployment.")
        if turn.difficulty is not None:
            return self._users[turn.user_region], _number("difficulty", turn.difficulty)
        if not isinstance(turn.prompt, str):
            raise TurnError("Give the difficulty of the turn, or its prompt, as text, to read it.")
        if not isinstance(turn.previous_prompt, str | None):
            raise TurnError("previous_prompt must be text, or left out.")
        text = text_of_prompt(turn.prompt, turn.previous_prompt)
        return self._users[turn.user_region], difficulty_of_text(text)

    def _known_deployment(self, name: str, value: object) -> int:
        n = len(self._names)
        number = _whole(name, value)
        if number >= n:
            raise TurnError(f"{name} names the unknown deployment {number}; they are 0 to {n - 1}.")
        return number

    def _check_reported(self, turn: LiveTurn, history: int) -> None:
        for deployment, tokens in turn.cached_tokens.items():
            self._known_deployment("cached_tokens", deployment)
            if _whole("cached_tokens", tokens) > history:
                raise TurnError(
                    f"cached_tokens of deployment {deployment} is {tokens}; "
                    f"the history has {history:,} tokens."
                )

    def _intensity_at(self, time_s: float) -> np.ndarray:
        """Intensity in g/kWh of each region, shape (R,)."""
        if self._ask is None:
            knowledge = self.prepared.scenario.intensity_knowledge
            if knowledge == "current":
                return self._table.of_all(time_s)
            return known_by_region(self.prepared.series, np.array([time_s]), knowledge)[0]
        values = np.empty(len(self._regions))
        for i, region in enumerate(self._regions):
            try:
                value = float(self._ask(region, time_s))
            except Exception as error:  # whatever the callable may raise
                raise IntensityError(
                    f"Carbon intensity of {region} could not be read: "
                    f"{type(error).__name__}: {error}"
                ) from error
            if not (math.isfinite(value) and value > 0):
                raise IntensityError(
                    f"Carbon intensity of {region} is {value} g/kWh; it must be above 0. "
                    "Give a usable value: none is made up."
                )
            values[i] = value
        return values

    # --- the state of a session -------------------------------------------------------------

    def _open(self, name: str, start_s: float) -> _Session:
        if len(self._sessions) >= self._max_sessions:
            self._drop_oldest()
        if not self._free:
            n = len(self._records)
            self._records = np.concatenate([self._records, np.zeros(n, SESSION)])
            self._free.extend(range(n, 2 * n))
        if (old := self._sessions.pop(name, None)) is not None:
            self._free.append(old.row)
        session = _Session(self._free.pop(), start_s)
        _open(self._records, session.row, self._cached, session_key(name) >> 1)
        self._sessions[name] = session
        return session

    def _forget(self, now_s: float) -> None:
        """Drop the sessions that have been idle too long: the first ones, longest unused."""
        while self._sessions:
            oldest = next(iter(self._sessions.values()))
            if now_s - oldest.last_start_s <= self._forget_after_s:
                return
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, oldest = self._sessions.popitem(last=False)
        self._free.append(oldest.row)
        self.forgotten += 1

    def _scatter(self, session: _Session) -> None:
        self._cached[:] = 0.0
        for deployment, tokens, last_s in session.holds:
            self._cached[deployment] = tokens
            self._last_s[deployment] = last_s

    def _gather(self, session: _Session) -> None:
        session.holds = tuple(
            (d, self._cached.item(d), self._last_s.item(d))
            for d in self._cached.nonzero()[0].tolist()
        )

    # --- the decision -----------------------------------------------------------------------

    def _decide(
        self,
        turn: LiveTurn,
        row: int,
        history: int,
        user: int,
        difficulty: float,
        intensity: np.ndarray,
    ) -> Decision:
        prepared, prompt = self.prepared, turn.new_prompt_tokens
        self._reported[:] = -1.0
        for deployment, tokens in turn.cached_tokens.items():
            self._reported[deployment] = tokens
        chosen, output, context = _route(
            self._code,
            prepared.deployments.fleet,
            prepared.rules,
            self._records,
            row,
            self._note,
            float(turn.start_s),
            float(history),
            float(prompt),
            -1.0 if turn.context_tokens is None else float(turn.context_tokens),
            float(turn.max_tokens or 0),
            difficulty,
            user,
            self._cached,
            self._last_s,
            self._reported,
            intensity,
            self._g_per_j,
            self._carbon_g,
        )
        _, home, reason, missed, *gate = self._note[0].item()
        p_back, saving_g, rebuild_g, next_gain_g = (None if math.isnan(g) else g for g in gate)
        model, gpu, region = self._names[chosen] if chosen >= 0 else (None, None, None)
        seen_turn = Turn(float(history), float(prompt), output, context, difficulty, user)
        return Decision(
            session=turn.session,
            deployment=chosen if chosen >= 0 else None,
            model=model,
            gpu=gpu,
            region=region,
            reason=reasons.WORDS[reason],
            cached_tokens=int(self._cached[chosen]) if chosen >= 0 else 0,
            home=home if home >= 0 else None,
            missed_ceiling=missed,
            p_back=p_back,
            saving_g=saving_g,
            rebuild_g=rebuild_g,
            next_gain_g=next_gain_g,
            _seen=_Seen(prepared, seen_turn, self._cached.copy(), intensity, self._carbon_g.copy()),
        )

    def _warm_up(self) -> None:
        """Compile all that a turn needs, on a session that is forgotten again."""
        name, region = "", next(iter(self._users))
        user, difficulty = self._checked(LiveTurn(name, 0.0, 0, region, prompt=name))
        turn = LiveTurn(name, 0.0, 0, region, difficulty)
        self._table.of_all(float(self._table.start_s.max()))
        session = self._open(name, 0.0)
        self._decide(turn, session.row, 0, user, difficulty, np.ones(len(self._regions)))
        session.pending = (0, 0)
        self.observe(name, 0, 0, 0)
        self.forget(name)


def _names(deployments: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Model, GPU type and region of each deployment."""
    return list(deployments[["model", "gpu", "region"]].itertuples(index=False, name=None))


def _whole(name: str, value: object, error: type[InputError] = TurnError) -> int:
    """``value`` if it is a whole number that tokens can have."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise error(f"{name} is {value!r}; it must be a whole number.")
    number = int(value)
    if not 0 <= number <= MAX_TOKENS:
        raise error(f"{name} is {number}; it must be from 0 to {MAX_TOKENS:,}.")
    return number


def _number(name: str, value: object, error: type[InputError] = TurnError) -> float:
    """``value`` if it is a finite number."""
    if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value):
        raise error(f"{name} is {value!r}; it must be a finite number.")
    return float(value)


@jit
def _open(records: Array, row: int, cached: Array, start_at: int) -> None:
    open_session(records[row], cached, start_at)


@jit
def _end(
    records: Array,
    row: int,
    cached: Array,
    last_s: Array,
    deployment: int,
    context: float,
    output: float,
    start_s: float,
    copies_all: bool,
) -> None:
    end_turn(records[row], cached, last_s, deployment, context, output, start_s, copies_all, False)


@jit
def _route(
    code: int,
    fleet: Fleet,
    rules: Rules,
    records: Array,
    row: int,
    notes: Array,
    start_s: float,
    history: float,
    prompt: float,
    context: float,
    max_tokens: float,
    difficulty: float,
    user: int,
    cached: Array,
    last_s: Array,
    reported: Array,
    intensity: Array,
    g_per_j: Array,
    carbon_g: Array,
) -> tuple[int, float, float]:
    """Begin the turn and decide it: (deployment, predicted output, what had to fit).

    ``reported`` (D,): cached tokens by the backends' own account, below 0 where none is given.
    """
    session: Record = records[row]
    begin_turn(rules, session, cached, last_s, history, prompt, difficulty, start_s, False)
    for d in range(reported.size):
        if reported[d] >= 0.0:
            cached[d] = reported[d]
            last_s[d] = start_s
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
