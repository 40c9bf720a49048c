"""The physics, worked by hand: every expected number here can be redone with a calculator.

Figures of the tables that are used (data/models.csv, gpus.csv, energy_points.csv):

* Gemma-3-12B: 12.2e9 parameters (all active, 2 bytes each), 48 layers, 8 of them global, the
  rest with a window of 1,024 tokens; attention dimension 4,096; KV cache 393,216 B a token.
* H100-80GB: 80e9 B, 3,350e9 B/s, 164 kg embodied.
* Gemma-3-12B on one H100: prefill 0.02562 J and 0.04067 ms a token; decode by batch:
  8: 0.6968 J, 13.096 ms; 16: 0.41259 J, 14.532 ms; 32: 0.2655 J, 17.485 ms;
  64: 0.19548 J, 22.892 ms.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carbonrouter_core import Scenario, load_catalog, prepare, run_policy
from carbonrouter_core.fleet import costs
from carbonrouter_core.fleet.deployments import mean_context_tokens
from carbonrouter_core.replay.charging import Charges
from tests.hand_made import T, make_trace

GLOBAL = (1.0, math.inf)
"""Share of global layers and window of a model whose layers are all global."""
GEMMA = (8 / 48, 1024.0)
GEMMA_ALPHA = 2 * 48 * 4096 / 12.2e9  # = 393,216 / 12.2e9 = 3.223082e-5

BATCHES = np.array([8.0, 16.0, 32.0, 64.0])
DECODE_J = np.array([0.6968, 0.41259, 0.2655, 0.19548])
STEP_MS = np.array([13.096, 14.532, 17.485, 22.892])

close = pytest.approx


# --- Attention --------------------------------------------------------------------------------


def test_a_global_model_attends_to_all_that_stands_before() -> None:
    assert costs.attention_context(4000.0, *GLOBAL) == 4000.0
    assert costs.attention_span(4000.0, *GLOBAL) == 4000.0**2 / 2  # 8,000,000


def test_within_its_window_a_windowed_model_is_like_a_global_one() -> None:
    assert costs.attention_context(500.0, *GEMMA) == close(500.0)
    assert costs.attention_span(500.0, *GEMMA) == close(500.0**2 / 2)  # 125,000


def test_beyond_its_window_only_the_global_layers_attend_further() -> None:
    # a(4000) = (8 x 4,000 + 40 x 1,024) / 48 = (32,000 + 40,960) / 48 = 1,520
    assert costs.attention_context(4000.0, *GEMMA) == close(1520.0)
    # windowed layers: 1,024² / 2 + 1,024 x (4,000 - 1,024) = 524,288 + 3,047,424 = 3,571,712
    # A(4000) = (8 x 8,000,000 + 40 x 3,571,712) / 48 = 206,868,480 / 48 = 4,309,760
    assert costs.attention_span(4000.0, *GEMMA) == close(4_309_760.0)


@given(
    tokens=st.floats(0, 300_000),
    more=st.floats(1, 1000),
    share=st.floats(0, 1),
    window=st.floats(1, 100_000),
)
def test_the_span_is_the_integral_of_the_context(
    tokens: float, more: float, share: float, window: float
) -> None:
    grown = costs.attention_span(tokens + more, share, window) - costs.attention_span(
        tokens, share, window
    )
    low = costs.attention_context(tokens, share, window)
    high = costs.attention_context(tokens + more, share, window)
    slack = 1e-9 * (1.0 + tokens * tokens)
    assert more * low - slack <= grown <= more * high + slack


# --- Prefill ----------------------------------------------------------------------------------


def test_alpha_is_attention_work_in_tokens() -> None:
    assert costs.attention_alpha(48, 4096, 12.2) == close(3.2230819672e-5)
    # a mixture of experts counts its active parameters: 2 x 94 x 8,192 / 22e9
    assert costs.attention_alpha(94, 8192, 22.0) == close(7.0004363636e-5)


def test_prefill_from_a_position_costs_more_than_from_the_start() -> None:
    def work(tokens: float) -> float:
        return costs.prefill_work(tokens, GEMMA_ALPHA, *GEMMA)

    # 1,000 tokens from 0: 1,000 + 3.223082e-5 x 500,000 = 1,016.11541
    assert work(1000.0) == close(1016.1154098)
    # 300 tokens from 1,200: A(1,500) - A(1,200) with
    #   A(1,500) = (8 x 1,125,000 + 40 x (524,288 + 1,024 x 476)) / 48 = 1,030,593.333
    #   A(1,200) = (8 x   720,000 + 40 x (524,288 + 1,024 x 176)) / 48 =   707,093.333
    # 300 + 3.223082e-5 x 323,500 = 310.42667
    assert work(1500.0) - work(1200.0) == close(310.4266702)
    # the same 300 tokens from 0: 300 + 3.223082e-5 x 45,000 = 301.45039
    assert work(300.0) == close(301.4503869)


# --- Concurrency ------------------------------------------------------------------------------


def test_kv_memory_is_what_the_weights_leave() -> None:
    # 0.9 x 1 x 80e9 - 12.2e9 x 2 = 72e9 - 24.4e9
    assert costs.kv_memory_bytes(1, 80, 24.4e9) == close(47.6e9)
    # 70.6e9 x 2 bytes on one H100: 72e9 - 141.2e9, so it does not fit
    assert costs.kv_memory_bytes(1, 80, 141.2e9) == close(-69.2e9)


def test_concurrency_is_bounded_by_memory() -> None:
    # At a context of 10,000 tokens a sequence takes 393,216 x 10,000 = 3.93216e9 B:
    # 47.6e9 / 3.93216e9 = 12.105306 sequences, not rounded.
    assert costs.replica_batch(64, 47.6e9, 393_216, 10_000.0, 128) == close(12.105306)
    assert costs.replica_batch(8, 47.6e9, 393_216, 10_000.0, 128) == 8.0  # the scenario's
    assert costs.replica_batch(500, 47.6e9, 393_216, 100.0, 128) == 128.0  # largest measured
    assert costs.replica_batch(64, 47.6e9, 393_216, 1e6, 128) == 1.0  # never below one
    assert costs.replica_batch(64, 47.6e9, 393_216, 0.0, 128) == 64.0  # no context at all


def test_the_longest_context_that_memory_holds() -> None:
    # span: 47.6e9 / 393,216 = 121,053.06 tokens of a(x); beyond the window
    # a(x) = (8x + 40 x 1,024) / 48 = 121,053.06  ->  x = 6 x 121,053.06 - 5,120 = 721,198.4
    assert costs.fit_tokens(47.6e9, 393_216, *GEMMA, context_tokens=10**7) == 721_198
    assert costs.fit_tokens(47.6e9, 393_216, *GEMMA, context_tokens=131_072) == 131_072
    # all layers global: x is the span itself
    assert costs.fit_tokens(47.6e9, 393_216, *GLOBAL, context_tokens=131_072) == 121_053
    assert costs.fit_tokens(1000.0, 393_216, *GLOBAL, context_tokens=131_072) == 0
    # a(19,473) = (19,473 + 5,120) / 6 = 4,098.8333 tokens take 1,611,726,848 B; a hair less memory
    # holds one token less, though the inverse rounds to 19,473
    hair_less = math.nextafter(1_611_726_848.0, 0.0)
    assert costs.fit_tokens(hair_less, 393_216, *GEMMA, context_tokens=131_072) == 19_472


@given(
    memory=st.floats(1e6, 1e12),
    kv=st.floats(1e3, 1e6),
    share=st.sampled_from([0.0, 1 / 6, 0.5, 1.0]),
    window=st.sampled_from([128.0, 1024.0, math.inf]),
)
def test_what_fits_is_the_largest_that_fits(
    memory: float, kv: float, share: float, window: float
) -> None:
    fit = costs.fit_tokens(memory, kv, share, window, 10**6)

    def need(tokens: int) -> float:
        return kv * costs.attention_context(float(tokens), share, window)

    assert fit == 0 or need(fit) <= memory
    assert fit == 10**6 or need(fit + 1) > memory * (1 - 1e-12)


def test_the_mean_context_weighs_turns_by_their_output() -> None:
    # turn 1: 0 + 1,000 + 200/2 = 1,100, weight 200; turn 2: 1,200 + 300 + 100/2 = 1,550, weight 100
    # (200 x 1,100 + 100 x 1,550) / 300 = 1,250
    trace = make_trace({"s": [T(1000, 200), T(300, 100)]})
    assert mean_context_tokens(trace, 131_072) == close(1250.0)
    # a window of 1,500 holds turn 1 alone: 1,200 tokens, against 1,600 of turn 2
    assert mean_context_tokens(trace, 1500) == close(1100.0)
    assert mean_context_tokens(trace, 100) == 0.0
    # no output at all: the plain mean of 1,000 and 1,300
    silent = make_trace({"s": [T(1000, 0), T(300, 0)]})
    assert mean_context_tokens(silent, 131_072) == close(1150.0)


# --- Energy and time between the measured batches ---------------------------------------------


def test_energy_is_log_log_between_the_measured_batches() -> None:
    assert costs.decode_energy_at(16.0, BATCHES, DECODE_J) == close(0.41259)
    # The middle of 16 and 32 on a log scale is 16 x √2 = 22.627417; there the energy is the
    # geometric mean √(0.41259 x 0.2655) = √0.109542645 = 0.33097227, the time
    # √(14.532 x 17.485) = √254.09202 = 15.9402641.
    middle = 16.0 * math.sqrt(2.0)
    assert costs.decode_energy_at(middle, BATCHES, DECODE_J) == close(0.3309722723)
    assert costs.step_ms_at(middle, BATCHES, STEP_MS) == close(15.9402641)
    # 24: ln(24/16) / ln(32/16) = 0.4054651 / 0.6931472 = 0.5849625
    # 0.41259 x (0.2655 / 0.41259)^0.5849625 = 0.3188050
    assert costs.decode_energy_at(24.0, BATCHES, DECODE_J) == close(0.3188050457)


def test_below_the_smallest_batch_the_weights_are_read_for_fewer() -> None:
    # 0.6968 J x 8 / 2 = 2.7872 J; the step takes as long as for 8
    assert costs.decode_energy_at(2.0, BATCHES, DECODE_J) == close(2.7872)
    assert costs.step_ms_at(2.0, BATCHES, STEP_MS) == close(13.096)


# --- Decode, host, embodied -------------------------------------------------------------------


def test_decode_reads_the_context_beyond_the_measured_400_tokens() -> None:
    # h + p + o/2 = 1,200 + 300 + 50 = 1,550; a(1,550) = (8 x 1,550 + 40,960) / 48 = 1,111.667
    assert costs.decode_context(1200.0, 300.0, 100.0, *GEMMA) == close(711.6666667)
    # 300 + 50 = 350 tokens: less than measured costs no less
    assert costs.decode_context(0.0, 300.0, 100.0, *GEMMA) == 0.0
    gpus = load_catalog().gpus
    # 0.22 nJ/B x 393,216 B = 8.650752e-5 J; the B200 reads at 0.165 nJ/B
    assert costs.context_j_per_token(gpus["H100-80GB"].context_nj_per_byte, 393_216) == close(
        8.650752e-5
    )
    assert costs.context_j_per_token(gpus["A100-80GB"].context_nj_per_byte, 393_216) == close(
        8.650752e-5
    )
    assert costs.context_j_per_token(gpus["B200-180GB"].context_nj_per_byte, 393_216) == close(
        6.488064e-5
    )


def test_a_longer_context_slows_each_decode_step() -> None:
    # a(1,250) = (8 x 1,250 + 40,960) / 48 = 1,061.667; 661.667 tokens more than measured
    # 64 x 393,216 B x 661.667 = 16,651,386,880 B over 0.7 x 3,350e9 B/s = 7.100805 ms
    context = costs.attention_context(1250.0, *GEMMA)
    assert costs.context_read_ms(64.0, 393_216, context, 1, 3350) == close(7.1008046397)
    assert costs.context_read_ms(64.0, 393_216, context, 2, 3350) == close(3.5504023198)
    assert costs.context_read_ms(64.0, 393_216, 400.0, 1, 3350) == 0.0
    assert costs.context_read_ms(64.0, 393_216, 100.0, 1, 3350) == 0.0


def test_host_and_embodied_count_gpu_seconds() -> None:
    # 150 W x 4 GPUs x 0.25 s = 150 J
    assert costs.host_energy_j(4.0, 250.0) == close(150.0)
    # an H100 and its eighth of a server: 164,000 + 5,700,000 / 8 = 876,500 g over
    # 3 x 365.25 x 86,400 = 94,672,800 s; 4 GPUs x 0.25 s = 1 s: 0.0092582 g
    assert costs.embodied_g(4.0, 250.0, 164.0) == close(0.009258203)


# --- Whole turns: Gemma-3-12B on one H100 in London -------------------------------------------
#
# Two turns, 1,000 + 200 and 300 + 100 tokens; mean context 1,250 (above).
# B: memory holds 47.6e9 / (393,216 x 1,061.667) = 114.02 sequences, so the scenario's 64.
# e_d(64) = 0.19548 J; t_itl = 22.892 + 7.100805 = 29.992805 ms.
# London publishes no PUE: 1.20 is assumed. London to London takes 5 ms.
# Grid (GB, lifecycle, 2024-05-13): 117.8 g/kWh for 12:00-15:00, so at 13:30; 135.7 for
# 15:00-18:00, so at 16:30. At 14:00: 117.8 + (135.7 - 117.8) x 0.5 h / 3 h = 120.78333.

AT_1330, AT_1400, AT_1630 = 13.5 * 3600, 14.0 * 3600, 16.5 * 3600


def charges_in_london(second_turn_s: float, history: int | None = None) -> Charges:
    """Both turns of the session charged, the second at ``second_turn_s``.

    ``history`` of the second turn: all 1,200 tokens before it if left out.
    """
    scenario = Scenario(
        models=("Gemma-3-12B",),
        gpus=("H100-80GB",),
        regions=("europe-west2",),
        gpu_regions={},
        window_start="2024-05-13",
        window_days=1,
        conversations_per_day=1e8,  # so many that the assumed batch is filled
    )
    trace = make_trace(
        {"s": [T(1000, 200, AT_1330), T(300, 100, second_turn_s, history=history)]},
        users=["europe-west2"] * 2,
    )
    prepared = prepare(scenario, trace)
    (replica,) = prepared.deployments.replicas
    assert replica.batch == 64.0
    assert replica.decode_j_per_token == close(0.19548)
    assert history or replica.inter_token_ms == close(29.9928046397)
    assert not replica.extrapolated
    return run_policy(prepared, "carbonrouter").charges


def test_a_first_turn_by_hand() -> None:
    charges = charges_in_london(AT_1400)
    g_per_j = 1.2 * 117.8 / 3.6e6  # PUE x g/kWh / (J/kWh) = 3.926667e-5
    # prompt: 1,016.11541 x 0.02562 J = 26.0328768 J
    # decode: at 1,000 + 100 = 1,100 tokens a = (8 x 1,100 + 40,960) / 48 = 1,036.667, so
    #   200 x (0.19548 + 8.650752e-5 x 636.667) = 200 x 0.25055645 = 50.1112909 J
    # busy: 1,016.11541 x 0.04067 + 200 x 29.992805 / 64 = 41.3254 + 93.7275 = 135.0529282 ms
    # host: 150 W x 0.1350529 s = 20.2579392 J
    assert charges.recompute_g[0] == 0.0
    assert charges.prompt_g[0] == close(26.0328768 * g_per_j)
    assert charges.decode_g[0] == close(50.1112909 * g_per_j)
    assert charges.host_g[0] == close(20.2579392 * g_per_j)
    # 26.0328768 + 50.1112909 + 20.2579392 = 96.4021069 J
    assert charges.carbon_g[0] == close(0.0037853894)
    assert charges.energy_kwh[0] == close(96.4021069 * 1.2 / 3.6e6)
    assert charges.intensity_g_per_kwh[0] == close(117.8)
    # embodied: 0.1350529 s x 876,500 g / 94,672,800 s
    assert charges.embodied_g[0] == close(0.0012503474)
    # 5 + 41.325414 + 29.992805 ms; then 199 more tokens at 29.992805 ms
    assert charges.ttft_ms[0] == close(76.3182184)
    assert charges.latency_ms[0] == close(76.3182184 + 199 * 29.9928046)


def test_a_warm_turn_by_hand() -> None:
    charges = charges_in_london(AT_1400)  # half an hour later: the cache is live
    g_per_j = 1.2 * 120.78333333 / 3.6e6
    # prompt: 310.42667 x 0.02562 = 7.9531313 J
    # decode: 100 x (0.19548 + 8.650752e-5 x 711.667) = 100 x 0.25704452 = 25.7044518 J
    # busy: 310.42667 x 0.04067 + 100 x 29.992805 / 64 = 12.6251 + 46.8638 = 59.4888099 ms
    # host: 150 W x 0.0594888 s = 8.9233215 J
    assert charges.recompute_g[1] == 0.0
    assert charges.prompt_g[1] == close(7.9531313 * g_per_j)
    assert charges.decode_g[1] == close(25.7044518 * g_per_j)
    assert charges.host_g[1] == close(8.9233215 * g_per_j)
    # 42.5809046 J x 1.2 / 3.6e6 x 120.78333 g/kWh
    assert charges.carbon_g[1] == close(0.0017143545)
    # 5 + 12.6250527 + 29.9928046 ms
    assert charges.ttft_ms[1] == close(47.6178573)


def test_a_cold_turn_by_hand() -> None:
    charges = charges_in_london(AT_1630)  # three hours later: the cache is gone after one
    g_per_j = 1.2 * 135.7 / 3.6e6
    # recompute 1,200 tokens from 0: 1,200 + 3.223082e-5 x 707,093.333 = 1,222.7901977
    #   x 0.02562 J = 31.3278849 J and x 0.04067 ms = 49.7308773 ms
    # prompt and decode are those of the warm turn; host: 150 W x (59.4888099 + 49.7308773) ms
    assert charges.recompute_g[1] == close(31.3278849 * g_per_j)
    assert charges.prompt_g[1] == close(7.9531313 * g_per_j)
    assert charges.decode_g[1] == close(25.7044518 * g_per_j)
    assert charges.host_g[1] == close(16.3829531 * g_per_j)
    # 81.3684211 J x 1.2 / 3.6e6 x 135.7 g/kWh
    assert charges.carbon_g[1] == close(0.0036805649)
    # the warm 47.6178573 ms and 49.7308773 ms of recomputation
    assert charges.ttft_ms[1] == close(97.3487347)
    assert charges.latency_ms[1] == close(97.3487347 + 99 * 29.9928046)


def test_a_turn_that_is_cached_in_part_recomputes_the_rest_from_there() -> None:
    # The agent's context is now 1,500 tokens, of which the 1,200 of turn 1 are cached: 300 are
    # recomputed from position 1,200 (310.4266702, above), not from 0 (301.4503869).
    charges = charges_in_london(AT_1400, history=1500)
    g_per_j = 1.2 * 120.78333333 / 3.6e6
    assert charges.recompute_g[1] == close(310.4266702 * 0.02562 * g_per_j)
    # the new 300 from 1,500: A(1,800) = (8 x 1,620,000 + 40 x (524,288 + 1,024 x 776)) / 48
    #   = 1,369,093.333; 300 + 3.223082e-5 x (1,369,093.333 - 1,030,593.333) = 310.9101325
    assert charges.prompt_g[1] == close(310.9101325 * 0.02562 * g_per_j)


def test_the_tables_still_say_what_these_examples_use() -> None:
    catalog = load_catalog()
    curve = catalog.energy["Gemma-3-12B", "H100-80GB"]
    assert (curve.n_gpus, curve.prefill_j_per_token, curve.prefill_ms_per_token) == (
        1,
        0.02562,
        0.04067,
    )
    assert curve.batch[:4].tolist() == BATCHES.tolist()
    assert curve.decode_j_per_token[:4].tolist() == DECODE_J.tolist()
    assert curve.inter_token_ms[:4].tolist() == STEP_MS.tolist()
    london = catalog.regions["europe-west2"]
    assert (london.pue, london.pue_assumed) == (1.2, True)
    assert catalog.rtt_ms["europe-west2", "europe-west2"] == 5.0
