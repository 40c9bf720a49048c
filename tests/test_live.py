"""The online API: the same decisions as the replay, one turn at a time."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

from carbonrouter_core import CarbonRouter, LiveTurn, Scenario, prepare, run_policy
from carbonrouter_core.errors import InputError, IntensityError, ScenarioError, TurnError
from carbonrouter_core.live import _end, _open, _route
from carbonrouter_core.replay.world import Prepared
from tests.waiting import PATIENCE_S

START_S = 1_715_558_400.0  # 2024-05-13T00:00Z, the start of the default window


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return prepare(Scenario())


def turn(session: str = "s", at_s: float = 0.0, prompt: int = 200, **given: object) -> LiveTurn:
    fields = {"user_region": "europe-west2", "difficulty": -0.5} | given
    return LiveTurn(session, START_S + at_s, prompt, **fields)  # type: ignore[arg-type]


def replay_online(prepared: Prepared, policy_id: str, sessions: int) -> tuple[list[int], list[int]]:
    """Deployments and cached tokens of the first ``sessions`` sessions, decided one by one."""
    placed, scenario = prepared.placed, prepared.scenario
    trace, intensity = placed.trace, prepared.intensity
    row = 0
    regions = [site.region for site in prepared.deployments.regions]
    router = CarbonRouter(
        prepared,
        policy_id,
        intensity=lambda region, _: intensity[row, regions.index(region)],
        forget_after_s=1e9,  # a replay forgets nothing
    )
    went, cached = [], []
    for s in range(sessions):
        router.forget(trace.session_ids[s])
        for row in range(trace.offsets[s], trace.offsets[s + 1]):
            h, p, o = (
                int(column[row])
                for column in (trace.history_tokens, trace.new_prompt_tokens, trace.output_tokens)
            )
            decision = router.route(
                LiveTurn(
                    trace.session_ids[s],
                    scenario.window_start_s + placed.start_s[row],
                    p,
                    placed.user_regions[placed.user[row]],
                    difficulty=float(placed.difficulty[row]),
                    history_tokens=h,
                    context_tokens=h + p + o,
                )
            )
            went.append(-1 if decision.deployment is None else decision.deployment)
            cached.append(decision.cached_tokens)
            router.observe(trace.session_ids[s], decision.deployment, decision.cached_tokens, o)
    return went, cached


@pytest.mark.parametrize("trace", ["sharegpt", "claude-code"])
@pytest.mark.parametrize("copies", ["latest", "all"])
@pytest.mark.parametrize(
    ("policy_id", "share"),
    [
        ("carbonrouter", 1.0),
        ("carbonrouter-lookahead", 0.2),
        ("faircarbon", 0.05),
        ("round-robin", 0.05),
    ],
)
def test_online_decisions_are_those_of_the_replay(
    trace: str, copies: str, policy_id: str, share: float
) -> None:
    if copies == "all" and share == 1.0:
        share = 0.2  # the whole data once is enough
    # the weight binds FairCarbon alone
    prepared = prepare(Scenario(trace=trace, copies=copies, fairness_weight=20.0))
    sessions = int(prepared.placed.trace.n_sessions * share)
    rows = slice(0, int(prepared.placed.trace.offsets[sessions]))
    went, cached = replay_online(prepared, policy_id, sessions)
    decisions = run_policy(prepared, policy_id).decisions
    np.testing.assert_array_equal(went, decisions.deployment[rows])
    np.testing.assert_array_equal(cached, decisions.cached_tokens[rows])


def test_a_session_stays_where_its_history_is(prepared: Prepared) -> None:
    router = CarbonRouter(prepared, "carbonrouter")
    first = router.route(turn(prompt=4000))
    assert first.home is None and first.cached_tokens == 0
    router.observe("s", first.deployment, 0, 300)
    second = router.route(turn(at_s=60))
    assert second.deployment == second.home == first.deployment
    assert second.cached_tokens == 4300
    assert second.reason.startswith("Stays")


def test_the_candidate_table_adds_up_and_holds_the_choice(prepared: Prepared) -> None:
    router = CarbonRouter(prepared, "carbonrouter-no-gate")
    router.observe("s", router.route(turn(prompt=4000)).deployment, 0, 300)
    decision = router.route(turn(at_s=60))
    table = decision.candidates()
    parts = table[["recompute_g", "prompt_g", "decode_g", "host_g"]].sum(axis=1)
    np.testing.assert_allclose(parts, table["carbon_g"], rtol=1e-9)
    feasible = table[table["feasible"]]
    assert feasible["carbon_g"].idxmin() == decision.deployment
    assert (table.loc[~table["feasible"], "why_not"] != "").all()
    assert table.loc[decision.home, "cached_tokens"] == 4300


def test_what_a_backend_reports_overrides_the_cache_model(prepared: Prepared) -> None:
    router = CarbonRouter(prepared, "carbonrouter")
    first = router.route(turn(prompt=4000))
    assert first.deployment is not None
    router.observe("s", first.deployment, 0, 300)
    # the backend has evicted it, and another one happens to hold the prefix
    other = (first.deployment + 1) % len(prepared.deployments)
    second = router.route(turn(at_s=60, cached_tokens={first.deployment: 0, other: 4000}))
    assert second.home == other
    assert second.candidates()["cached_tokens"].sum() == 4000


def test_an_expired_cache_is_charged_in_full(prepared: Prepared) -> None:
    router = CarbonRouter(prepared, "carbonrouter")
    router.observe("s", router.route(turn(prompt=4000)).deployment, 0, 300)
    late = router.route(turn(at_s=prepared.scenario.idle_s + 1))
    assert late.home is None
    assert late.candidates()["recompute_g"].min() > 0


def test_what_must_fit_includes_the_limit_on_the_output(prepared: Prepared) -> None:
    router = CarbonRouter(prepared, "carbonrouter")
    fits = router.route(turn("a", prompt=100_000))
    assert fits.deployment is not None
    unserved = router.route(turn("b", prompt=200_000, max_tokens=100_000))
    assert unserved.deployment is None
    assert "holds" in unserved.candidates()["why_not"][0]
    router.observe("b", None, 0, 0)


def test_difficulty_can_be_read_from_the_prompt(prepared: Prepared) -> None:
    router = CarbonRouter(prepared)
    text = "Prove that every bounded monotone sequence of real numbers converges. " * 2
    hard = router.route(LiveTurn("t", START_S, 30, "us-west2", prompt=text))
    easy = router.route(LiveTurn("u", START_S, 30, "us-west2", prompt="hi"))
    follow_up = router.route(
        LiveTurn("v", START_S, 30, "us-west2", prompt="hi", previous_prompt=text)
    )
    quality = [d.candidates()["quality"].max() for d in (hard, follow_up, easy)]
    assert quality[0] < quality[2] and quality[1] < quality[2]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"user_region": "mars"}, "Unknown user region 'mars'"),
        ({"difficulty": None}, "Give the difficulty"),
        ({"difficulty": math.nan}, "finite"),
        ({"difficulty": "hard"}, "difficulty is 'hard'"),
        ({"prompt": -1}, "new_prompt_tokens is -1"),
        ({"prompt": 1.5}, "new_prompt_tokens is 1.5; it must be a whole number"),
        ({"prompt": "9"}, "new_prompt_tokens is '9'"),
        ({"prompt": True}, "new_prompt_tokens is True"),
        ({"prompt": None}, "new_prompt_tokens is None"),
        ({"at_s": math.inf}, "start_s is inf"),
        ({"session": 7}, "session is 7; it must be text"),
        ({"session": ["s"]}, "session is"),
        ({"user_region": ["us-west2"]}, "user_region is"),
        ({"history_tokens": 10**12}, "history_tokens"),
        ({"history_tokens": 0.5}, "history_tokens is 0.5"),
        ({"max_tokens": -5}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens is 'many'"),
        ({"context_tokens": math.nan}, "context_tokens is nan"),
        ({"context_tokens": -1}, "context_tokens is -1"),
        ({"cached_tokens": {999: 0}}, "unknown deployment 999"),
        ({"cached_tokens": {"0": 0}}, "cached_tokens is '0'"),
        ({"cached_tokens": {0: 0.5}}, "cached_tokens is 0.5"),
        ({"cached_tokens": {0: 5}}, "history has 0 tokens"),
        ({"cached_tokens": [5]}, "by deployment"),
    ],
)
def test_a_turn_that_cannot_be_is_refused_and_changes_nothing(
    prepared: Prepared, given: dict, what: str
) -> None:
    router = CarbonRouter(prepared)
    with pytest.raises(TurnError, match=what):
        router.route(turn(**given))
    assert len(router) == 0


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"prompt": 5}, "prompt, as text"),
        ({"prompt": "go on", "previous_prompt": 5}, "previous_prompt"),
    ],
)
def test_a_text_that_is_none_is_refused(prepared: Prepared, given: dict, what: str) -> None:
    router = CarbonRouter(prepared)
    with pytest.raises(TurnError, match=what):
        router.route(LiveTurn("s", START_S, 5, "us-west2", **given))
    with pytest.raises(TurnError, match="no LiveTurn"):
        router.route("s")  # type: ignore[arg-type]


def test_numbers_may_come_from_numpy(prepared: Prepared) -> None:
    router, other = CarbonRouter(prepared), CarbonRouter(prepared)
    plain = router.route(turn(prompt=400, difficulty=-1.0))
    given = {"prompt": np.int64(400), "difficulty": np.float64(-1.0), "at_s": np.float64(0.0)}
    assert other.route(turn(**given)) == plain
    other.observe("s", np.int64(plain.deployment), np.int32(0), np.int64(10))
    router.observe("s", plain.deployment, 0, 10)
    assert other.route(turn(at_s=5)) == router.route(turn(at_s=5))


def test_time_does_not_go_backwards(prepared: Prepared) -> None:
    router = CarbonRouter(prepared)
    router.route(turn(at_s=100))
    with pytest.raises(InputError, match="before the one before it"):
        router.route(turn(at_s=99))


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, None, "dirty"])
def test_no_intensity_is_made_up(prepared: Prepared, value: object) -> None:
    router = CarbonRouter(prepared, intensity=lambda region, time_s: value)  # type: ignore[arg-type, return-value]
    with pytest.raises(IntensityError, match="Carbon intensity of europe-west2"):
        router.route(turn())
    assert len(router) == 0


@pytest.mark.parametrize("error", [KeyError("zone"), ConnectionError("no route"), TimeoutError()])
def test_a_grid_service_that_fails_is_an_intensity_error(
    prepared: Prepared, error: Exception
) -> None:
    def ask(region: str, time_s: float) -> float:
        raise error

    router = CarbonRouter(prepared, intensity=ask)
    with pytest.raises(
        IntensityError, match=f"could not be read: {type(error).__name__}"
    ) as raised:
        router.route(turn())
    assert raised.value.__cause__ is error
    assert len(router) == 0


def test_the_grid_service_may_use_the_router_itself(prepared: Prepared) -> None:
    """It is asked outside the lock: a slow one holds up nobody else."""
    router: CarbonRouter

    def ask(region: str, time_s: float) -> float:
        other = threading.Thread(target=router.forget, args=("nobody",))
        other.start()
        other.join(timeout=PATIENCE_S)
        assert not other.is_alive()
        return 100.0 + len(router)

    router = CarbonRouter(prepared, intensity=ask)
    assert router.route(turn()).deployment is not None


@pytest.mark.parametrize("knowledge", ["current", "persistence", "usual-7d"])
def test_without_a_callable_the_series_tell_what_the_scenario_lets_policies_know(
    knowledge: str,
) -> None:
    prepared = prepare(Scenario(intensity_knowledge=knowledge))
    placed, trace = prepared.placed, prepared.placed.trace
    router = CarbonRouter(prepared, "cleanest-region")
    decided = run_policy(prepared, "cleanest-region").decisions.deployment
    for row in trace.offsets[:200]:
        p, o = int(trace.new_prompt_tokens[row]), int(trace.output_tokens[row])
        start_s = prepared.scenario.window_start_s + placed.start_s[row]
        live = LiveTurn(
            f"s{row}",
            float(start_s),
            p,
            placed.user_regions[placed.user[row]],
            float(placed.difficulty[row]),
            context_tokens=p + o,
        )
        assert router.route(live).deployment == decided[row]


def test_observing_needs_a_turn_being_served(prepared: Prepared) -> None:
    router = CarbonRouter(prepared)
    with pytest.raises(InputError, match="no turn being served"):
        router.observe("s", 0, 0, 10)
    router.route(turn())
    wrong_calls: tuple[tuple[object, object, object], ...] = (
        (999, 0, 10),
        (0, 10**6, 10),
        (0, 1, 10),  # the first turn has no history that could be cached
        (-1, 0, 10),
        (0, 0, -1),
        (True, 0, 10),
        (1.5, 0, 10),
        (0, "0", 10),
        (0, 0, 2.5),
    )
    for wrong in wrong_calls:
        with pytest.raises(TurnError):
            router.observe("s", *wrong)  # type: ignore[arg-type]
    router.observe("s", 0, 0, 10)
    with pytest.raises(InputError, match="no turn being served"):
        router.observe("s", 0, 0, 10)


def test_a_session_too_old_is_forgotten_even_if_it_comes_back(prepared: Prepared) -> None:
    router = CarbonRouter(prepared, forget_after_s=7200)
    router.observe("s", router.route(turn(prompt=4000)).deployment, 0, 300)
    router.route(turn("other", at_s=7000))
    back = router.route(turn(at_s=7201))
    assert back.candidates()["recompute_g"].max() == 0.0  # no history: a new session
    assert len(router) == 2
    remembered = CarbonRouter(prepared, forget_after_s=7200)
    remembered.observe("s", remembered.route(turn(prompt=4000)).deployment, 0, 300)
    assert remembered.route(turn(at_s=7200)).candidates()["recompute_g"].max() > 0.0


def test_nothing_is_left_to_compile_for_the_first_turn(prepared: Prepared) -> None:
    router = CarbonRouter(prepared)
    compiled = [_open, _route, _end]
    before = [len(function.signatures) for function in compiled]
    router.observe("s", router.route(turn(at_s=0)).deployment, 0, 10)
    router.route(turn(at_s=5, history_tokens=7, cached_tokens={0: 3}, max_tokens=9))
    assert [len(function.signatures) for function in compiled] == before
    assert min(before) > 0


def test_sessions_are_forgotten_by_age_and_by_number(prepared: Prepared) -> None:
    router = CarbonRouter(prepared, max_sessions=3, forget_after_s=7200)
    for i in range(5):
        router.route(turn(f"s{i}", at_s=i))
    assert len(router) == 3 and router.forgotten == 2
    with pytest.raises(TurnError, match="forgotten meanwhile"):
        router.observe("s0", 0, 0, 10)
    router.route(turn("late", at_s=20_000))
    assert len(router) == 1
    router.forget("late")
    router.forget("never seen")
    assert len(router) == 0
    with pytest.raises(InputError, match="forget_after_s"):
        CarbonRouter(prepared, forget_after_s=10)


@pytest.mark.parametrize("policy_id", ["hindsight-optimum", "free-migration"])
def test_a_policy_that_knows_the_future_cannot_route_live(
    prepared: Prepared, policy_id: str
) -> None:
    with pytest.raises(ScenarioError, match="future"):
        CarbonRouter(prepared, policy_id)


def test_threads_decide_as_one_would(prepared: Prepared) -> None:
    def visit(router: CarbonRouter, name: str, out: dict[str, list[int | None]]) -> None:
        out[name] = []
        for i in range(20):
            decision = router.route(turn(name, at_s=30 * i, difficulty=-1.0 + 0.1 * (i % 12)))
            router.observe(name, decision.deployment, decision.cached_tokens, 150)
            out[name].append(decision.deployment)

    together: dict[str, list[int | None]] = {}
    shared = CarbonRouter(prepared)
    threads = [threading.Thread(target=visit, args=(shared, f"s{i}", together)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone: dict[str, list[int | None]] = {}
    for i in range(16):
        visit(CarbonRouter(prepared), f"s{i}", alone)
    assert together == alone
