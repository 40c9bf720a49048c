"""Energy, carbon and latency of serving one turn: the only place with physics.

Formulas: docs/design.md, section 5.

Scalars in, scalars out, compiled, so that the routing kernel, the accounting and the tests
call the same lines. Tokens may be fractions where a mean is meant.

Sources of the constants: the same section; the energy points are ML.ENERGY measurements
(``data/README.md``).
"""

from __future__ import annotations

import numpy as np

from carbonrouter_core.compiled import jit_borrowing
from carbonrouter_core.units import MS_PER_S

HOST_W_PER_GPU = 150.0
"""Host power (CPU, memory, fans) for each busy GPU, W."""
SERVER_EMBODIED_G_PER_GPU = 5_700e3 / 8
"""One GPU's share of the embodied carbon of an 8-GPU server without its GPUs, gCO2e."""
LIFETIME_S = 3 * 365.25 * 86_400
"""Service life over which embodied carbon is spread, s."""
MEASURED_CONTEXT_TOKENS = 400.0
"""Mean context of the measured energy points, tokens."""
KV_MEMORY_SHARE = 0.9
"""Share of GPU memory that weights and KV cache may fill."""
KV_BANDWIDTH_SHARE = 0.7
"""Share of peak memory bandwidth reached while reading the KV cache."""


@jit_borrowing
def attention_context(tokens: float, global_share: float, window_tokens: float) -> float:
    """a(u): the context a token at position ``tokens`` attends to, averaged over layers."""
    return global_share * tokens + (1.0 - global_share) * min(tokens, window_tokens)


@jit_borrowing
def attention_span(tokens: float, global_share: float, window_tokens: float) -> float:
    """A(x): integral of a(u) from 0 to ``tokens``, in tokens squared."""
    whole = 0.5 * tokens * tokens
    if global_share == 1.0 or tokens <= window_tokens:
        return whole
    windowed = window_tokens * (tokens - 0.5 * window_tokens)
    return global_share * whole + (1.0 - global_share) * windowed


@jit_borrowing
def prefill_work(tokens: float, alpha: float, global_share: float, window_tokens: float) -> float:
    """Work of prefilling ``tokens`` from position 0, in tokens of the attention-free cost.

    Prefill of n tokens from position s costs ``prefill_work(s + n) - prefill_work(s)``
    times the energy or the time of one token.
    """
    return tokens + alpha * attention_span(tokens, global_share, window_tokens)


@jit_borrowing
def decode_context(
    history: float, prompt: float, output: float, global_share: float, window_tokens: float
) -> float:
    """Context beyond that of the measured points while a turn decodes, in tokens."""
    mean_tokens = history + prompt + 0.5 * output
    context = attention_context(mean_tokens, global_share, window_tokens)
    return max(0.0, context - MEASURED_CONTEXT_TOKENS)


@jit_borrowing
def host_energy_j(n_gpus: float, ms: float) -> float:
    """Host energy while ``n_gpus`` are busy for ``ms``."""
    return HOST_W_PER_GPU * n_gpus * ms / MS_PER_S


@jit_borrowing
def embodied_g(n_gpus: float, ms: float, gpu_embodied_kg: float) -> float:
    """Embodied carbon of ``n_gpus`` for ``ms`` each, with their share of the server."""
    per_gpu_g = gpu_embodied_kg * 1e3 + SERVER_EMBODIED_G_PER_GPU
    return n_gpus * ms / MS_PER_S * per_gpu_g / LIFETIME_S


def attention_alpha(layers: int, attention_dim: int, active_params_b: float) -> float:
    """α: attention FLOPs of one token of context over the 2·active_params of one token."""
    return 2.0 * layers * attention_dim / (active_params_b * 1e9)


def kv_memory_bytes(n_gpus: int, memory_gb: float, weight_bytes: float) -> float:
    """Memory of one replica left for KV cache; not positive where the model does not fit."""
    return KV_MEMORY_SHARE * n_gpus * memory_gb * 1e9 - weight_bytes


def fit_tokens(
    kv_bytes: float,
    kv_bytes_per_token: float,
    global_share: float,
    window_tokens: float,
    context_tokens: int,
) -> int:
    """The longest context, in whole tokens, that window and KV memory of a replica hold.

    The largest x with kv_bytes_per_token * a(x) <= kv_bytes, at most ``context_tokens``.
    """
    span = kv_bytes / kv_bytes_per_token  # a(x) may reach this
    if span < 1.0:
        return 0
    tokens = span if span <= window_tokens else _beyond_window(span, global_share, window_tokens)
    fit = int(min(tokens, float(context_tokens)))
    if kv_bytes_per_token * attention_context(float(fit), global_share, window_tokens) > kv_bytes:
        fit -= 1  # the inverse was rounded up
    return fit


def _beyond_window(span: float, global_share: float, window_tokens: float) -> float:
    windowed = (1.0 - global_share) * window_tokens
    return (span - windowed) / global_share if global_share > 0.0 else np.inf


def replica_batch(
    concurrency: float, kv_bytes: float, kv_bytes_per_token: float, context: float, largest: float
) -> float:
    """B: sequences decoding together on one replica, at a mean context a(x) of ``context``.

    Never below 1, never above ``largest``, the largest measured batch; not rounded.
    """
    held = kv_bytes / (kv_bytes_per_token * context) if context > 0.0 else np.inf
    return float(max(1.0, min(concurrency, held, largest)))


def decode_energy_at(batch: float, batches: np.ndarray, j_per_token: np.ndarray) -> float:
    """e_d(B): decode energy per output token, log-log between the measured batches.

    Below the smallest it goes as 1/B: the weights are read once a step for any batch.
    """
    if batch < batches[0]:
        return float(j_per_token[0] * batches[0] / batch)
    return float(np.exp(np.interp(np.log(batch), np.log(batches), np.log(j_per_token))))


def step_ms_at(batch: float, batches: np.ndarray, inter_token_ms: np.ndarray) -> float:
    """t(B): time of one decode step, log-log between the measured batches, flat below them."""
    return float(np.exp(np.interp(np.log(batch), np.log(batches), np.log(inter_token_ms))))


def context_read_ms(
    batch: float, kv_bytes_per_token: float, context: float, n_gpus: int, bandwidth_gb_s: float
) -> float:
    """Time a decode step takes longer than measured, for reading a longer KV cache.

    ``context`` is a(mean context) in tokens; bandwidth in 10^9 B/s.
    """
    extra = max(0.0, context - MEASURED_CONTEXT_TOKENS)
    bytes_read = batch * kv_bytes_per_token * extra
    return bytes_read / (KV_BANDWIDTH_SHARE * n_gpus * bandwidth_gb_s * 1e9) * MS_PER_S


def context_j_per_token(context_nj_per_byte: float, kv_bytes_per_token: float) -> float:
    """ε·kv_bytes_per_token: energy per output token and token of context beyond the measured, J.

    ``context_nj_per_byte``: energy of reading one byte of KV cache, of the GPU type, nJ/B.
    """
    return context_nj_per_byte * 1e-9 * kv_bytes_per_token
