"""What each policy chooses, on examples small enough to work out by hand.

Unless said otherwise a joule emits one milligram everywhere, prefill and decode cost the same
wherever the context stands, and a first turn of p prompt and o output tokens costs
p x prefill + o x decode millijoules of carbon: see hand_made.py.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math

import numpy as np
import pytest

from carbonrouter_core import FAIRCARBON, POLICIES, ScenarioError, run_policy
from carbonrouter_core.fleet.catalog import Catalog
from carbonrouter_core.quality.item_response import ability_from_accuracy
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.routing.kernel import SESSION
from carbonrouter_core.routing.policies import policy, reasons
from carbonrouter_core.routing.policies.lookahead import typical_turn
from carbonrouter_core.routing.session import begin_turn, open_session
from tests.hand_made import Costs, T, as_mg, make_catalog, make_trace, make_world, served_by

NORTH_SOUTH = {"north": 1.0, "south": 1.0}
ONE_MODEL = make_catalog({("M", "G"): Costs(prefill_j=1.0, decode_j=2.0)}, NORTH_SOUTH)
"""One model on one GPU type at two sites."""


def carbon_mg(prepared: Prepared, policy_id: str) -> list[float]:
    """What each turn emits, in milligrams."""
    return as_mg(run_policy(prepared, policy_id).charges.carbon_g)


def sites(prepared: Prepared, policy_id: str) -> list[str]:
    """Region of each turn."""
    return [name.split()[-1] if name else "" for name in served_by(prepared, policy_id)]


# --- Cache-aware and history-blind ------------------------------------------------------------

# Turn 1: 900 + 50 tokens, south emits 1 % more. Turn 2: 10 + 50 tokens, south emits half.
#   staying north:  10 x 1 + 50 x 2 =   110 J x 1.0 = 110 mg
#   moving south:  960 x 1 + 50 x 2 = 1,060 J x 0.5 = 530 mg
GREENER_SOUTH = make_world(
    make_trace({"s": [T(900, 50), T(10, 50, 60)]}), ONE_MODEL, mg_per_j=[[1.0, 1.01], [1.0, 0.5]]
)


@pytest.mark.parametrize("policy_id", ["carbonrouter", "carbonrouter-no-gate", "sticky"])
def test_who_counts_the_history_stays(policy_id: str) -> None:
    assert sites(GREENER_SOUTH, policy_id) == ["north", "north"]
    assert carbon_mg(GREENER_SOUTH, policy_id) == [1000.0, 110.0]  # turn 1: 900 + 100


@pytest.mark.parametrize("policy_id", ["faircarbon", "faircarbon-full-prompt", "cleanest-region"])
def test_who_does_not_count_it_moves_and_is_charged_for_it(policy_id: str) -> None:
    assert sites(GREENER_SOUTH, policy_id) == ["north", "south"]
    run = run_policy(GREENER_SOUTH, policy_id)
    assert as_mg(run.charges.carbon_g) == [1000.0, 530.0]
    # 950 tokens at 0.85 J of GPU energy (0.15 J is the host's) and 0.5 mg/J
    assert as_mg(run.charges.recompute_g) == [0.0, 403.75]
    assert run.decisions.cached_tokens.tolist() == [0, 0]


def test_free_migration_moves_without_paying() -> None:
    assert sites(GREENER_SOUTH, "free-migration") == ["north", "south"]
    assert carbon_mg(GREENER_SOUTH, "free-migration") == [1000.0, 55.0]  # 110 J x 0.5
    assert run_policy(GREENER_SOUTH, "free-migration").charges.recompute_g.sum() == 0.0


def test_once_the_cache_has_expired_carbonrouter_moves_too() -> None:
    later = make_trace({"s": [T(900, 50), T(10, 50, 7200)]})
    prepared = make_world(later, ONE_MODEL, mg_per_j=[[1.0, 1.01], [1.0, 0.5]])
    run = run_policy(prepared, "carbonrouter")
    assert served_by(prepared, run) == ["M G north", "M G south"]
    assert run.decisions.reason.tolist() == [reasons.FRESH, reasons.FRESH]
    assert sites(prepared, "sticky") == ["north", "north"]  # at 1,060 mg


def test_moving_pays_where_the_history_is_short() -> None:
    # Turn 2 of 10 + 50 tokens after 5 + 5: north 110 mg, south (20 + 100) J x 0.5 = 60 mg
    prepared = make_world(
        make_trace({"s": [T(5, 5), T(10, 50, 60)]}), ONE_MODEL, mg_per_j=[[1.0, 1.01], [1.0, 0.5]]
    )
    run = run_policy(prepared, "carbonrouter-no-gate")
    assert served_by(prepared, run) == ["M G north", "M G south"]
    assert run.decisions.reason.tolist() == [reasons.FRESH, reasons.MOVED]
    assert as_mg(run.charges.carbon_g) == [15.0, 60.0]


def test_pue_weighs_like_intensity() -> None:
    lossy = make_catalog({("M", "G"): Costs(1.0, 2.0)}, {"north": 1.5, "south": 1.0})
    prepared = make_world(make_trace({"s": [T(100, 0)]}), lossy, mg_per_j=[[1.0, 1.4]])
    # north 100 J x 1.5 x 1.0 = 150 mg, south 100 J x 1.0 x 1.4 = 140 mg
    assert sites(prepared, "carbonrouter") == ["south"]
    assert carbon_mg(prepared, "carbonrouter") == [140.0]
    assert sites(prepared, "cleanest-region") == ["north"]  # by intensity alone
    assert carbon_mg(prepared, "cleanest-region") == [150.0]


def test_the_two_readings_of_faircarbon() -> None:
    # P reads cheaply, D writes cheaply. A turn of 10 + 20 tokens:
    #   new prompt alone:  P 10 x 1 + 20 x 2 = 50 J      D 10 x 2 + 20 x 1.6 = 52 J
    # and of 10 + 40 tokens:
    #   new prompt alone:  P 10 x 1 + 40 x 2 = 90 J      D 10 x 2 + 40 x 1.6 = 84 J
    #   whole prompt:      P 1,010 x 1 + 80 = 1,090 J    D 1,010 x 2 + 64 = 2,084 J
    catalog = make_catalog({("M", "P"): Costs(1.0, 2.0), ("M", "D"): Costs(2.0, 1.6)}, {"one": 1.0})
    short = make_world(make_trace({"s": [T(10, 20), T(10, 20, history=1000)]}), catalog)
    assert served_by(short, "faircarbon") == ["M P one"] * 2
    long = make_world(make_trace({"s": [T(10, 40), T(10, 40, history=1000)]}), catalog)
    assert served_by(long, "faircarbon") == ["M D one"] * 2
    # turn 1 has no history: both readings agree; on turn 2 the full prompt tells
    assert served_by(long, "faircarbon-full-prompt") == ["M D one", "M P one"]


def test_ties_go_to_the_first_deployment() -> None:
    for policy_id in POLICIES:
        if policy_id != "round-robin":
            prepared = make_world(make_trace({"s": [T(10, 10), T(10, 10)]}), ONE_MODEL)
            assert sites(prepared, policy_id) == ["north", "north"], policy_id


# --- What policies know -----------------------------------------------------------------------


def test_output_is_predicted_from_the_session_and_the_training_mean() -> None:
    # P costs 100 x 1 + 4ô, D 100 x 2 + 3ô: P is cheaper up to 100 output tokens, ties to P.
    # The one session is all there is to learn from: mean (20 + 20 + 300 + 60) / 4 = 100.
    #   ô1 = 100 -> P;  ô2 = (100 + 20) / 2 = 60 -> P;  ô3 = (100 + 20 + 20) / 3 = 46.7 -> P
    #   ô4 = (100 + 20 + 20 + 300) / 4 = 110 -> D
    catalog = make_catalog({("M", "P"): Costs(1.0, 4.0), ("M", "D"): Costs(2.0, 3.0)}, {"one": 1.0})
    turns = [T(100, output, history=0) for output in (20, 20, 300, 60)]
    prepared = make_world(make_trace({"s": turns}), catalog)
    predicted = ["M P one", "M P one", "M P one", "M D one"]
    for policy_id in ("carbonrouter", "carbonrouter-no-gate", "faircarbon"):
        assert served_by(prepared, policy_id) == predicted, policy_id
    # accounting uses what came: turn 3 costs 100 + 300 x 4 on P
    assert carbon_mg(prepared, "carbonrouter") == [180.0, 180.0, 1300.0, 380.0]
    # who knows the output goes by it: 300 -> D, else P
    known = ["M P one", "M P one", "M D one", "M P one"]
    for policy_id in ("free-migration", "hindsight-optimum"):
        assert served_by(prepared, policy_id) == known, policy_id


def test_hindsight_goes_where_the_session_will_want_to_be() -> None:
    # Turn 1, 100 + 100 tokens: north 300 mg, south 330 mg. Turn 2, 10 + 100 tokens after 200:
    #   north: warm 210 J x 3 = 630 mg, cold 410 J x 3;  south: warm 210 mg, cold 410 mg
    # turn by turn: north, then south cold: 300 + 410 = 710; in hindsight: 330 + 210 = 540
    prepared = make_world(
        make_trace({"s": [T(100, 100), T(10, 100, 60)]}), ONE_MODEL, mg_per_j=[[1, 1.1], [3, 1]]
    )
    assert sites(prepared, "carbonrouter-no-gate") == ["north", "south"]
    assert carbon_mg(prepared, "carbonrouter-no-gate") == [300.0, 410.0]
    assert sites(prepared, "hindsight-optimum") == ["south", "south"]
    assert carbon_mg(prepared, "hindsight-optimum") == [330.0, 210.0]
    assert carbon_mg(prepared, "free-migration") == [300.0, 210.0]


# --- The feasible set -------------------------------------------------------------------------

SIZES = make_catalog(
    {("S", "G"): Costs(1.0, 2.0), ("L", "G"): Costs(4.0, 8.0)},
    {"north": 1.0},
    accuracy_percent={"S": 50.0, "L": 80.0},
    params_b={"S": 8.0, "L": 70.0},
    context_tokens={"S": 1000, "L": 5000},
)
"""A small model and a large one that is abler and holds more."""
EASY = ability_from_accuracy(50.0)
"""The difficulty at which S answers well half the time."""
HARD = ability_from_accuracy(80.0)
"""The difficulty at which L answers well half the time."""


def models(difficulties: list[float], tokens: int = 100, **fields: object) -> list[str]:
    """Model that CarbonRouter gives each of some single-turn sessions."""
    sessions = {f"s{i}": [T(tokens, 10, 0.0, b)] for i, b in enumerate(difficulties)}
    prepared = make_world(make_trace(sessions), SIZES, **fields)
    return [name[:1] for name in served_by(prepared, "carbonrouter")]


def test_the_quality_floor_asks_for_the_abler_model() -> None:
    # floor 0.5: ability at least the difficulty
    assert models([EASY - 0.01, EASY + 0.01, HARD - 0.01], quality_floor=0.5) == ["S", "L", "L"]
    assert models([EASY - 0.01, EASY + 0.01, HARD - 0.01], quality_floor=0.0) == ["S", "S", "S"]


def test_where_none_reaches_the_floor_the_best_serves() -> None:
    assert models([HARD + 5.0], quality_floor=0.5) == ["L"]
    assert models([EASY], quality_floor=1.0) == ["L"]


def test_what_does_not_fit_is_not_chosen_and_sets_no_floor() -> None:
    # S holds 1,000 tokens: 990 + 10 fit, 991 + 10 do not
    assert models([EASY], tokens=990) == ["S"]
    assert models([EASY], tokens=991) == ["L"]
    assert models([EASY], tokens=4991) == [""]
    # Where the abler model does not fit, the floor is what the other can do.
    turned = dataclasses.replace(
        SIZES,
        models={
            "S": SIZES.models["S"],
            "L": dataclasses.replace(SIZES.models["L"], context_tokens=500),
        },
    )
    prepared = make_world(make_trace({"s": [T(600, 10, 0.0, HARD)]}), turned, quality_floor=0.9)
    assert served_by(prepared, "carbonrouter") == ["S G north"]


@pytest.mark.parametrize("policy_id", POLICIES)
def test_every_policy_keeps_to_the_feasible_set(policy_id: str) -> None:
    turns = [T(100, 10, 0, EASY - 1), T(100, 10, 9, HARD - 0.1), T(900, 10, 18, EASY - 1)]
    prepared = make_world(make_trace({"s": turns}), SIZES, quality_floor=0.5)
    assert served_by(prepared, policy_id)[1:] == ["L G north", "L G north"]  # able; large enough


# A turn of 100 + 11 tokens: TTFT = RTT + 100 ms + 100 ms, and 10 more tokens of 100 ms.
FAR_AND_NEAR = make_catalog(
    {("M", "G"): Costs(1.0, 2.0)}, NORTH_SOUTH, rtt_ms={("north", "south"): 50.0}
)
ASKED_FROM_NORTH = make_trace({"s": [T(100, 11)]}, users=["north"])


@pytest.mark.parametrize(
    ("on", "ceiling_ms", "site", "missed"),
    [
        ("ttft", None, "south", False),  # half the carbon
        ("ttft", 250.5, "south", False),  # 50 + 100 + 100: within
        ("ttft", 249.5, "north", False),  # 10 + 100 + 100
        ("ttft", 209.5, "north", True),  # none is: the fastest, counted
        ("latency", 1250.5, "south", False),
        ("latency", 1249.5, "north", False),
        ("latency", 1209.5, "north", True),
    ],
)
def test_the_latency_ceiling(on: str, ceiling_ms: float | None, site: str, missed: bool) -> None:
    prepared = make_world(
        ASKED_FROM_NORTH,
        FAR_AND_NEAR,
        mg_per_j=[[1.0, 0.5]],
        latency_ceiling_on=on,
        latency_ceiling_ms=ceiling_ms,
    )
    for policy_id in POLICIES.keys() - {"nearest-region", "round-robin", "free-migration"}:
        run = run_policy(prepared, policy_id)
        assert served_by(prepared, run) == [f"M G {site}"], policy_id
        assert run.decisions.missed_ceiling.tolist() == [missed], policy_id
    bound = run_policy(prepared, "free-migration")  # obeys no ceiling
    assert served_by(prepared, bound) == ["M G south"]
    assert not bound.decisions.missed_ceiling.any()


def test_recomputation_counts_towards_the_ceiling() -> None:
    # Turn 2 of 10 + 1 tokens after 300: warm in the north 10 + 10 + 100 ms, in the south
    # 50 + 310 + 100 = 460 ms.
    trace = make_trace({"s": [T(299, 1), T(10, 1, 60)]}, users=["north"] * 2)
    options = {"mg_per_j": [[1.0, 2.0], [1.0, 0.01]], "latency_ceiling_on": "ttft"}
    wide = make_world(trace, FAR_AND_NEAR, latency_ceiling_ms=460.5, **options)
    assert sites(wide, "carbonrouter-no-gate") == ["north", "south"]
    narrow = make_world(trace, FAR_AND_NEAR, latency_ceiling_ms=459.5, **options)
    assert sites(narrow, "carbonrouter-no-gate") == ["north", "north"]


def test_embodied_carbon_is_in_the_objective_only_if_asked_for() -> None:
    # Two GPU types at the same energy; making one of the first emits 1e6 kg.
    costs = {("M", "heavy"): Costs(1.0, 2.0), ("M", "light"): Costs(1.1, 2.0)}
    plain = make_catalog(costs, {"north": 1.0})
    gpus = dict(plain.gpus)
    gpus["heavy"] = dataclasses.replace(gpus["heavy"], embodied_kgco2e=1e6)
    catalog = dataclasses.replace(plain, gpus=gpus)
    trace = make_trace({"s": [T(100, 0)]})
    for policy_id in ("carbonrouter", "faircarbon", "hindsight-optimum", "free-migration"):
        without = make_world(trace, catalog)
        assert served_by(without, policy_id) == ["M heavy north"]
        with_it = make_world(trace, catalog, embodied=True)
        assert served_by(with_it, policy_id) == ["M light north"]
        # 100 ms of one GPU: 0.1 s x (1e9 + 712,500) g / 94,672,800 s; in no total
        charges = run_policy(without, policy_id).charges
        assert charges.embodied_g[0] == pytest.approx(0.1 * 1_000_712_500 / 94_672_800)
        assert as_mg(charges.carbon_g) == [100.0]


# --- The gate ---------------------------------------------------------------------------------
#
# One session of two turns, all there is to learn from, floor 0.5. The first prompt is hard, only
# L can: home. The second is easy, S is cheaper even with the history recomputed.
#   training means: output 100, prompts after the first 10; gaps: one, 60 s, within the hour: P = 1
#   S(2): at risk 1 and 1, go on 1 and 0: 1/2
#   difficulties EASY + 1 and EASY - 1.2: mean EASY - 0.1, deviation 1.1, one session: no
#   correlation. The nine quantiles are mean + 1.1 z, z = 0, ±0.282, ±0.589, ±0.967, ±1.593;
#   above EASY (z > 0.0909) are four: there S is not able and home is the cheapest next.
#   p_back = 1/2 x 1 x 4/9 = 2/9
# Turn 2: 10 + ô = 100 tokens after 200, on L warm: 10 x 4 + 100 x 8 = 840 mg
# Next turn: 200 + 10 + 100 = 310 tokens of history; rebuilding them on L: 310 x 4 = 1,240 mg
#   p_back x rebuild = 275.6 mg
# What the next turn gains by holding: where home is the cheapest next, the rebuilding. Else S
# serves after moving, warm, and after holding the cheaper of L warm and S cold.
GATE_TURNS = [T(100, 100, 0, EASY + 1.0), T(10, 100, 60, EASY - 1.2)]
P_BACK, REBUILD_MG = 2 / 9, 1240.0


def gated(small_decode_j: float, **fields: object) -> tuple[Prepared, Catalog]:
    """The session above, with S at so many joules an output token."""
    catalog = make_catalog(
        {("S", "G"): Costs(1.0, small_decode_j), ("L", "G"): Costs(4.0, 8.0)},
        {"north": 1.0},
        accuracy_percent={"S": 50.0, "L": 80.0},
    )
    trace = make_trace({"s": GATE_TURNS})
    return make_world(trace, catalog, **({"quality_floor": 0.5, "gate_threshold": 0.2} | fields))


def test_the_gate_holds_a_small_saving() -> None:
    # S: 210 x 1 + 100 x 6 = 810 mg; saving 840 - 810 = 30 mg < 275.6 mg: held
    prepared = gated(6.0)
    decisions = run_policy(prepared, "carbonrouter").decisions
    assert served_by(prepared, "carbonrouter") == ["L G north", "L G north"]
    assert decisions.reason.tolist() == [reasons.FRESH, reasons.HELD]
    assert decisions.p_back[1] == pytest.approx(P_BACK)
    assert decisions.saving_g[1] * 1e3 == pytest.approx(30.0)
    assert decisions.rebuild_g[1] * 1e3 == pytest.approx(REBUILD_MG)
    wanted = prepared.deployments.label(decisions.wanted[1])
    assert wanted.startswith("S")
    # without the gate it goes
    assert served_by(prepared, "carbonrouter-no-gate") == ["L G north", "S G north"]


def test_the_gate_holds_only_where_the_next_turn_gains_by_it() -> None:
    # S at 3.8 J: 210 + 380 = 590 mg, saving 250 mg < 275.6 mg. Next turn, of 10 + 100 tokens:
    #   difficult (4 of 9): L cold 2,080 mg after moving, warm 840 mg after holding: gains 1,240 mg
    #   easy (5 of 9): S warm 390 mg after moving; after holding S cold, 700 mg (L warm: 840)
    #   next gain = 1/2 x (4 x 1,240 - 5 x 310) / 9 = 189.4 mg < 250 mg: moves
    prepared = gated(3.8)
    decisions = run_policy(prepared, "carbonrouter").decisions
    assert decisions.p_back[1] * decisions.rebuild_g[1] > decisions.saving_g[1]
    assert decisions.saving_g[1] * 1e3 == pytest.approx(250.0)
    assert decisions.next_gain_g[1] * 1e3 == pytest.approx((4 * 1240 - 5 * 310) / 18)
    assert served_by(prepared, "carbonrouter") == ["L G north", "S G north"]
    # S at 5 J: saving 130 mg, and the same next gain: held
    prepared = gated(5.0)
    decisions = run_policy(prepared, "carbonrouter").decisions
    assert decisions.next_gain_g[1] * 1e3 == pytest.approx((4 * 1240 - 5 * 310) / 18)
    assert served_by(prepared, "carbonrouter") == ["L G north", "L G north"]


def test_the_gate_lets_a_large_saving_go() -> None:
    # S: 210 x 1 + 100 x 2 = 410 mg; saving 840 - 410 = 430 mg > 275.6 mg: moves
    prepared = gated(2.0)
    decisions = run_policy(prepared, "carbonrouter").decisions
    assert served_by(prepared, "carbonrouter") == ["L G north", "S G north"]
    assert decisions.reason.tolist() == [reasons.FRESH, reasons.MOVED]
    assert decisions.p_back[1] == pytest.approx(P_BACK)
    assert decisions.saving_g[1] * 1e3 == pytest.approx(430.0)
    assert decisions.rebuild_g[1] * 1e3 == pytest.approx(REBUILD_MG)


def test_below_the_threshold_the_gate_never_holds() -> None:
    assert served_by(gated(6.0, gate_threshold=0.22), "carbonrouter")[1] == "L G north"
    assert served_by(gated(6.0, gate_threshold=0.23), "carbonrouter")[1] == "S G north"
    # threshold 0: any chance of coming back that outweighs the saving holds
    assert served_by(gated(6.0, gate_threshold=0.0), "carbonrouter")[1] == "L G north"


def test_threshold_1_asks_no_gate() -> None:
    prepared = gated(6.0, gate_threshold=1.0)
    decisions = run_policy(prepared, "carbonrouter").decisions
    assert served_by(prepared, "carbonrouter")[1] == "S G north"
    assert np.isnan(decisions.p_back).all()


def test_copies_make_the_way_back_cheaper() -> None:
    # L keeps the 200 tokens it has: rebuilding takes 110 x 4 = 440 mg; 2/9 x 440 = 97.8 mg
    kept = gated(6.0, copies="all")
    decisions = run_policy(kept, "carbonrouter").decisions
    assert decisions.rebuild_g[1] * 1e3 == pytest.approx(440.0)
    assert served_by(kept, "carbonrouter")[1] == "L G north"  # 30 mg < 97.8 mg
    # S at 5 J: 710 mg, saving 130 mg: between 97.8 (all) and 275.6 (latest)
    assert served_by(gated(5.0, copies="all"), "carbonrouter")[1] == "S G north"
    assert served_by(gated(5.0, copies="latest"), "carbonrouter")[1] == "L G north"


def test_the_gate_is_not_asked_when_home_has_expired() -> None:
    prepared = gated(6.0, idle_s=59.0)
    decisions = run_policy(prepared, "carbonrouter").decisions
    # cold, L would cost 210 x 4 + 800 = 1,640 mg
    assert served_by(prepared, "carbonrouter")[1] == "S G north"
    assert decisions.reason[1] == reasons.FRESH
    assert np.isnan(decisions.p_back[1])


def test_the_gate_is_not_asked_when_home_cannot_serve() -> None:
    # easy first, then hard: home S is not able
    trace = make_trace({"s": [T(100, 100, 0, EASY - 1.2), T(10, 100, 60, EASY + 1.0)]})
    prepared = make_world(trace, SIZES, quality_floor=0.5, gate_threshold=0.0)
    decisions = run_policy(prepared, "carbonrouter").decisions
    assert served_by(prepared, "carbonrouter") == ["S G north", "L G north"]
    assert decisions.reason[1] == reasons.FORCED
    assert np.isnan(decisions.p_back[1])


def test_a_short_idle_time_makes_coming_back_unlikely() -> None:
    # Three turns, gaps 60 s and 5,000 s: P(gap <= 3,600 s) = 1/2. S(2): at risk 1, 1, 1; go on
    # 1, 1, 0: 2/3. Difficulties 1.0, -1.2 and -1.2 off EASY: mean EASY - 0.4667, deviation
    # √((1.4667² + 2 x 0.7333²) / 3) = 1.0371; EASY is at z = 0.45: three quantiles above.
    # p_back = 2/3 x 1/2 x 3/9 = 1/9
    turns = [*GATE_TURNS, T(10, 100, 5060, EASY - 1.2)]
    catalog = make_catalog(
        {("S", "G"): Costs(1.0, 6.0), ("L", "G"): Costs(4.0, 8.0)},
        {"north": 1.0},
        accuracy_percent={"S": 50.0, "L": 80.0},
    )
    prepared = make_world(make_trace({"s": turns}), catalog, quality_floor=0.5)
    decisions = run_policy(prepared, "carbonrouter").decisions
    assert decisions.p_back[1] == pytest.approx(1 / 9)
    assert decisions.reason[1] == reasons.MOVED


def test_the_gate_takes_the_choice_to_be_warm_and_home_to_be_rebuilt() -> None:
    # P reads at 1 J and writes at 4 J in the north, D reads at 2 J and writes at 3 J in the south,
    # which is very dirty on turn 1. Training: output (5 + 385) / 2 = 195, later prompts 10.
    # Turn 2, 10 tokens after 20, ô = (195 + 5) / 2 = 100:
    #   P warm 10 x 1 + 100 x 4 = 410 mg, D cold 30 x 2 + 100 x 3 = 360 mg: saving 50 mg
    # Next turn, 10 tokens after 130: D warm 10 x 2 + 300 = 320 mg, P cold 140 x 1 + 400 = 540 mg,
    # so home is never the cheapest next. (Were D cold too, at 280 + 300 = 580 mg, it would be.)
    catalog = make_catalog({("M", "P"): Costs(1.0, 4.0), ("M", "D"): Costs(2.0, 3.0)}, NORTH_SOUTH)
    prepared = make_world(
        make_trace({"s": [T(15, 5), T(10, 385, 60)]}),
        catalog,
        mg_per_j=[[1.0, 10.0], [1.0, 1.0]],
        gpu_regions={"P": ["north"], "D": ["south"]},
        gate_threshold=0.0,
    )
    run = run_policy(prepared, "carbonrouter")
    assert served_by(prepared, run) == ["M P north", "M D south"]
    assert run.decisions.p_back[1] == 0.0
    assert run.decisions.saving_g[1] * 1e3 == pytest.approx(50.0)
    assert run.decisions.rebuild_g[1] * 1e3 == pytest.approx(130.0)


def test_the_gate_knows_how_many_sessions_go_on_after_this_turn() -> None:
    # 40 sessions of 1 turn, 30 of 2, 30 of 3, all in the training half: S(1) = 60/100,
    # S(2) = 30/60, S(3) = 0/30. S, in the south (very dirty on first turns), holds 320 tokens:
    # turn 2 with 310, but not the next with 420, which only home can serve:
    # p_back = S(2) x 1 x 1 = 1/2.
    catalog = make_catalog(
        {("S", "small"): Costs(1.0, 6.0), ("L", "big"): Costs(4.0, 8.0)},
        NORTH_SOUTH,
        context_tokens={"S": 320, "L": 5000},
    )
    names = (f"session {i}" for i in range(1000))
    training = [n for n in names if hashlib.sha256(n.encode()).digest()[-1] % 2 == 0]
    lengths = [1] * 40 + [2] * 30 + [3] * 30
    turns = [T(100, 100, 0), T(10, 100, 60), T(10, 100, 120)]
    trace = make_trace({name: turns[:n] for name, n in zip(training, lengths, strict=False)})
    prepared = make_world(
        trace,
        catalog,
        mg_per_j=[[1.0, 100.0 if turn == 0 else 1.0] for turn in trace.turn],
        gpu_regions={"big": ["north"], "small": ["south"]},
    )
    decisions = run_policy(prepared, "carbonrouter").decisions
    second = trace.turn == 1
    assert decisions.p_back[second] == pytest.approx(np.full(60, 0.5))
    assert (decisions.reason[second] == reasons.HELD).all()  # saving 30 mg, 1/2 x 1,240 mg


# --- Look-ahead ---------------------------------------------------------------------------------


def test_look_ahead_holds_and_lets_go_where_the_gate_does() -> None:
    # Staying costs 30 mg (S at 6 J) or 430 mg (at 2 J) more now. Moving, the next turn is one for
    # L alone with 1/2 x P(difficulty above EASY) = 1/2 x P(z > 0.0909) = 0.232, and then takes
    # 1,240 mg to rebuild: 287 mg.
    small, large = gated(6.0), gated(2.0)
    assert served_by(small, "carbonrouter-lookahead")[1] == "L G north"
    reason = run_policy(small, "carbonrouter-lookahead").decisions.reason[1]
    assert reason == reasons.AHEAD_STAYED
    assert served_by(large, "carbonrouter-lookahead")[1] == "S G north"
    assert run_policy(large, "carbonrouter-lookahead").decisions.reason[1] == reasons.MOVED


def test_look_ahead_takes_the_abler_model_before_it_must() -> None:
    # An easy first prompt of 2,000 tokens, then hard ones: S costs 2,000 + 20 mg now, L 0.1 mg
    # more a token; on S, the next turn rebuilds 2,010 tokens on L.
    catalog = make_catalog(
        {("S", "G"): Costs(1.0, 2.0), ("L", "G"): Costs(1.1, 2.2)},
        {"north": 1.0},
        accuracy_percent={"S": 50.0, "L": 80.0},
    )
    turns = [T(2000, 10, 0, EASY - 0.1), *(T(10, 10, 60 * i, EASY + 1.5) for i in range(1, 9))]
    prepared = make_world(make_trace({"s": turns}), catalog, quality_floor=0.5)
    assert served_by(prepared, "carbonrouter-no-gate")[:2] == ["S G north", "L G north"]
    assert served_by(prepared, "carbonrouter-lookahead")[:2] == ["L G north", "L G north"]
    ahead, greedy = (
        sum(carbon_mg(prepared, name))
        for name in ("carbonrouter-lookahead", "carbonrouter-no-gate")
    )
    assert ahead < greedy


def test_look_ahead_lets_go_of_the_past_as_fast_as_it_learned_to() -> None:
    # Six turns for L alone, then 20 far easier ones. An output token costs 28 mJ more on L, 280 mJ
    # a turn; going to S recomputes the history of 620 tokens and more, and so does coming back.
    catalog = make_catalog(
        {("S", "G"): Costs(1.0, 2.0), ("L", "G"): Costs(1.0, 30.0)},
        {"north": 1.0},
        accuracy_percent={"S": 50.0, "L": 80.0},
    )
    difficulties = [EASY + 1.0] * 6 + [EASY - 1.5] * 20
    turns = [T(500 if i == 0 else 10, 10, 60 * i, b) for i, b in enumerate(difficulties)]
    world = make_world(make_trace({"s": turns}), catalog, quality_floor=0.5)

    def on_large(memory: float) -> tuple[int, float]:
        rules = world.rules._replace(
            difficulty_mean=EASY - 0.5,
            difficulty_spread=1.0,
            difficulty_correlation=0.4,
            persistence=0.0,
            survival=np.array([0.95]),
            difficulty_memory=memory,
        )
        prepared = dataclasses.replace(world, rules=rules)
        names = served_by(prepared, "carbonrouter-lookahead")
        large = sum(name.startswith("L") for name in names)
        assert all(name.startswith("L") for name in names[:large])  # it does not come back
        return large, sum(carbon_mg(prepared, "carbonrouter-lookahead"))

    forgets_nothing, forgets, forgets_faster = (on_large(memory) for memory in (1.0, 0.9, 0.8))
    assert forgets_nothing[0] == 26
    assert 6 < forgets_faster[0] < forgets[0] < 20
    assert forgets_faster[1] < forgets[1] < forgets_nothing[1]


def test_a_typical_turn_is_drawn_from_all_sessions_to_its_own() -> None:
    rules = make_world(make_trace({"s": [T(10, 10)] * 2}), ONE_MODEL).rules._replace(
        typical_prompt_log=math.log(100.0),
        prompt_log_correlation=0.25,
        mean_output_tokens=300.0,
        output_correlation=0.5,
    )
    session, cached, last_s = np.zeros(1, SESSION)[0], np.zeros(1), np.zeros(1)

    def begin(prompt: int) -> None:
        begin_turn(rules, session, cached, last_s, 0.0, float(prompt), 0.0, 0.0, False)

    open_session(session, cached, 0)
    begin(5_000)  # a first prompt says nothing of those to come
    assert typical_turn(rules, session) == pytest.approx((99.0, 300.0))
    # Two turns on: prompts of 9 and 999 tokens, ln(1 + tokens) ln 10 and ln 1,000, mean ln 100;
    # own weight 2 x 0.25 / 1.25 = 0.4. Outputs 100 and 50, mean 75, own weight 1 / 1.5 = 2/3.
    for prompt, output in ((9, 100), (999, 50)):
        session["output_tokens"] += output
        begin(prompt)
    assert typical_turn(rules, session) == pytest.approx((99.0, 300 - 225 * 2 / 3))
    # One of a million - 1 more: the arithmetic mean would be 333,669, the typical prompt is
    # exp((1 - w) ln 100 + w (ln 10^10) / 3) - 1 with w = 3 x 0.25 / 1.5 = 1/2
    session["output_tokens"] += 75
    begin(10**6 - 1)
    typical = math.exp(0.5 * math.log(100) + 0.5 * math.log(10 * 1000 * 10**6) / 3) - 1
    assert typical_turn(rules, session)[0] == pytest.approx(typical)


def test_with_no_turn_to_come_look_ahead_sees_what_is_now() -> None:
    trace = make_trace({f"s{i}": [T(10 * i, 10, 0, EASY + i - 3)] for i in range(6)})
    prepared = make_world(trace, SIZES, quality_floor=0.5)
    now = served_by(prepared, "carbonrouter-no-gate")
    assert served_by(prepared, "carbonrouter-lookahead") == now


# --- Rules ------------------------------------------------------------------------------------


def test_sticky_leaves_only_when_it_must_and_stays_there() -> None:
    # S serves the easy prompt; the hard one needs L; the easy one after it stays on L
    turns = [T(100, 10, 0, EASY - 1), T(10, 10, 9, HARD - 0.1), T(10, 10, 18, EASY - 1)]
    prepared = make_world(make_trace({"s": turns}), SIZES, quality_floor=0.5)
    assert served_by(prepared, "sticky") == ["S G north", "L G north", "L G north"]


def test_sticky_stays_after_its_cache_has_expired() -> None:
    prepared = make_world(
        make_trace({"s": [T(10, 10), T(10, 10, 90_000)]}), ONE_MODEL, mg_per_j=[[1, 2], [2, 1]]
    )
    assert sites(prepared, "sticky") == ["north", "north"]


def test_cleanest_region_takes_the_cheapest_model_there() -> None:
    catalog = make_catalog(
        {("L", "G"): Costs(4.0, 8.0), ("S", "G"): Costs(1.0, 2.0)}, {"north": 1.0, "south": 3.0}
    )
    prepared = make_world(make_trace({"s": [T(10, 10)]}), catalog, mg_per_j=[[1.0, 0.9]])
    assert served_by(prepared, "cleanest-region") == ["S G south"]  # though its PUE is 3


def test_nearest_region_follows_the_user() -> None:
    trace = make_trace({"a": [T(10, 10)], "b": [T(10, 10)]}, users=["south", "north"])
    prepared = make_world(trace, ONE_MODEL, mg_per_j=[[1.0, 9.0]] * 2)
    assert sites(prepared, "nearest-region") == ["south", "north"]


def test_a_region_with_nothing_feasible_is_passed_over() -> None:
    # The cleaner, nearer south has only S, which cannot answer the hard prompt.
    prepared = make_world(
        make_trace({"s": [T(10, 10, 0, HARD - 0.1)]}, users=["south"]),
        make_catalog(
            {("S", "small"): Costs(1.0, 2.0), ("L", "big"): Costs(4.0, 8.0)},
            NORTH_SOUTH,
            accuracy_percent={"S": 50.0, "L": 80.0},
        ),
        mg_per_j=[[1.0, 0.5]],
        gpu_regions={"big": ["north"]},
        quality_floor=0.5,
    )
    for policy_id in ("cleanest-region", "nearest-region"):
        assert served_by(prepared, policy_id) == ["L big north"]


def test_largest_and_smallest_model_go_by_parameters_then_carbon() -> None:
    # L is the larger; on T it costs less than on G
    catalog = make_catalog(
        {
            ("S", "G"): Costs(1.0, 2.0),
            ("S", "T"): Costs(2.0, 3.0),
            ("L", "G"): Costs(0.5, 1.6),
            ("L", "T"): Costs(0.4, 1.6),
        },
        {"north": 1.0},
        params_b={"S": 8.0, "L": 70.0},
    )
    prepared = make_world(make_trace({"s": [T(10, 10)]}), catalog)
    assert served_by(prepared, "largest-model") == ["L T north"]
    assert served_by(prepared, "smallest-model") == ["S G north"]


def test_round_robin_goes_through_the_deployments_in_order() -> None:
    three = make_catalog({("M", "G"): Costs(1.0, 2.0)}, {"north": 1.0, "east": 1.0, "south": 1.0})
    trace = make_trace({f"s{i}": [T(10, 10)] * 4 for i in range(30)})
    prepared = make_world(trace, three)
    deployment = run_policy(prepared, "round-robin").decisions.deployment.reshape(30, 4)
    assert ((np.diff(deployment, axis=1) - 1) % 3 == 0).all()
    assert set(deployment[:, 0]) == {0, 1, 2}  # sessions begin at different ones
    # where a session begins hangs on its id alone
    reversed_trace = make_trace({f"s{i}": [T(10, 10)] * 4 for i in reversed(range(30))})
    again = run_policy(make_world(reversed_trace, three), "round-robin").decisions.deployment
    assert (again.reshape(30, 4)[::-1] == deployment).all()


def test_round_robin_passes_over_what_is_not_feasible() -> None:
    # Between S and L a hard prompt always goes to L.
    turns = [T(10, 10, i, HARD - 0.1) for i in range(3)]
    prepared = make_world(make_trace({"s": turns}), SIZES, quality_floor=0.5)
    assert served_by(prepared, "round-robin") == ["L G north"] * 3


# --- The register -----------------------------------------------------------------------------


def test_every_policy_of_the_design_is_there() -> None:
    asked_for = {
        "carbonrouter",
        "carbonrouter-no-gate",
        "carbonrouter-lookahead",
        "faircarbon",
        "faircarbon-full-prompt",
        "sticky",
        "cleanest-region",
        "nearest-region",
        "largest-model",
        "smallest-model",
        "round-robin",
        "hindsight-optimum",
        "free-migration",
    }
    assert set(POLICIES) == asked_for
    assert all(one.label and one.rule for one in POLICIES.values())
    assert FAIRCARBON == "faircarbon"


def test_faircarbon_is_labelled_a_reconstruction() -> None:
    for name in ("faircarbon", "faircarbon-full-prompt"):
        assert "reconstruction" in POLICIES[name].rule


def test_an_unknown_policy_is_refused_with_the_nearest() -> None:
    with pytest.raises(ScenarioError, match="Unknown policy 'fair-carbon'.*faircarbon"):
        policy("fair-carbon")


def test_every_reason_has_its_words() -> None:
    for policy_id in POLICIES:
        for code in run_policy(GREENER_SOUTH, policy_id).decisions.reason:
            assert reasons.WORDS[int(code)].endswith(".")
