"""The routing engine once more, from the design page alone: plain, slow, one turn at a time.

Nothing here comes from the engine's own costs, caches or policies, so that a slip there cannot
hide here. Arrays run over the candidates (deployments); everything else is a loop.

>>> from carbonrouter_core import Scenario, load_catalog, prepare
>>> prepared = prepare(Scenario())
>>> world = World(prepared.scenario, load_catalog(), prepared.placed, prepared.intensity)
>>> replay_session(world, "carbonrouter", 0)[0].deployment  # doctest: +SKIP
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

DATA = Path(__file__).resolve().parents[1] / "data"

HOST_W_PER_GPU = 150.0
MEASURED_CONTEXT_TOKENS = 400.0
USABLE_MEMORY = 0.9
USABLE_BANDWIDTH = 0.7
SERVER_EMBODIED_KG_PER_GPU = 5700.0 / 8.0
EMBODIED_LIFE_S = 3 * 365.25 * 86400.0
J_PER_KWH = 3.6e6
FEWEST_AT_RISK = 50
NEXT_DIFFICULTY_Z = [NormalDist().inv_cdf((i - 0.5) / 9) for i in range(1, 10)]

GATED = "carbonrouter"
KNOWS_OUTPUT = ("free-migration",)
POLICIES = (
    "carbonrouter",
    "carbonrouter-no-gate",
    "faircarbon",
    "faircarbon-full-prompt",
    "sticky",
    "cleanest-region",
    "nearest-region",
    "largest-model",
    "smallest-model",
    "round-robin",
    "free-migration",
)
"""The policies that decide turn by turn; for the optimum see :func:`best_of_all_paths`."""


# --- Physics ----------------------------------------------------------------------------------


def attention_span(u: Any, layers: Any, global_layers: Any, window: Any) -> Any:
    """a(u): context that a token at position u attends to, averaged over layers."""
    return (global_layers * u + (layers - global_layers) * np.minimum(u, window)) / layers


def attended(x: Any, layers: Any, global_layers: Any, window: Any) -> Any:
    """A(x): integral of a(u) from 0 to x."""
    m = np.minimum(x, window)
    windowed = m * (x - m / 2.0)  # x²/2 up to the window, then W more with every token
    return (global_layers * x * x / 2.0 + (layers - global_layers) * windowed) / layers


def log_log(x: float, xs: Any, ys: Any) -> float:
    """Straight line between points on doubly logarithmic paper."""
    return math.exp(np.interp(math.log(x), np.log(xs), np.log(ys)))


def decode_energy_j(batch: float, batches: Any, energies: Any) -> float:
    """e_d(B): interpolated; below the smallest measured batch it goes as 1/B."""
    if batch < batches[0]:
        return energies[0] * batches[0] / batch
    return log_log(batch, batches, energies)


def inter_token_ms(batch: float, batches: Any, times: Any) -> float:
    """t(B): interpolated; below the smallest measured batch it stays."""
    return times[0] if batch < batches[0] else log_log(batch, batches, times)


def mean_context(trace: Any, context_tokens: float) -> float:
    """Output-weighted mean of h + p + o/2 over the turns that a context window can hold."""
    h, p, o = (
        np.asarray(column, float)
        for column in (trace.history_tokens, trace.new_prompt_tokens, trace.output_tokens)
    )
    o = np.where(h + p + o <= context_tokens, o, 0.0)  # a turn that is not held weighs nothing
    return float((o * (h + p + o / 2.0)).sum() / o.sum()) if o.any() else 0.0


@cache
def ability(accuracy_percent: float) -> float:
    """theta: mean over the MMLU-Pro questions of sigma(theta - b) is the published accuracy."""
    b = pd.read_parquet(DATA / "mmlu_pro_item_difficulty.parquet")["difficulty"].to_numpy()
    low, high = -30.0, 30.0
    for _ in range(80):
        middle = (low + high) / 2.0
        right = float(np.mean(1.0 / (1.0 + np.exp(b - middle))))
        low, high = (middle, high) if right < accuracy_percent / 100.0 else (low, middle)
    return (low + high) / 2.0


class Candidates:
    """The deployments of a scenario in order (model, GPU, region): one entry each an array."""

    def __init__(self, scenario: Any, catalog: Any, trace: Any) -> None:
        self.names: list[tuple[str, str, str]] = []
        rows: list[dict[str, float]] = []
        for model_name in scenario.models:
            model = catalog.models[model_name]
            context = mean_context(trace, model.context_tokens)
            theta = ability(model.mmlu_pro_percent)
            for gpu_name in scenario.gpus:
                if (model_name, gpu_name) not in catalog.energy:
                    continue
                gpu, curve = catalog.gpus[gpu_name], catalog.energy[model_name, gpu_name]
                kv_memory = USABLE_MEMORY * curve.n_gpus * gpu.memory_gb * 1e9
                kv_memory -= model.total_params_b * 1e9 * model.weight_bytes_per_param
                shape = (model.layers, model.global_layers, model.window_tokens)
                span = float(attention_span(context, *shape))
                held = kv_memory / (model.kv_bytes_per_token * span) if span else math.inf
                batch = min(scenario.concurrency, held)
                batch = min(max(batch, 1.0), float(curve.batch[-1]))
                beyond = max(0.0, span - MEASURED_CONTEXT_TOKENS)
                reading_s = batch * model.kv_bytes_per_token * beyond
                reading_s /= USABLE_BANDWIDTH * curve.n_gpus * gpu.bandwidth_gb_s * 1e9
                active_params = model.active_params_b * 1e9
                row = {
                    "layers": model.layers,
                    "global_layers": model.global_layers,
                    "window": model.window_tokens,
                    "alpha": 2.0 * model.layers * model.attention_dim / active_params,
                    "theta": theta,
                    "params_b": model.total_params_b,
                    "context_tokens": model.context_tokens,
                    "kv_bytes": model.kv_bytes_per_token,
                    "kv_memory": kv_memory,
                    "n_gpus": curve.n_gpus,
                    "batch": batch,
                    "prefill_j": curve.prefill_j_per_token,
                    "prefill_ms": curve.prefill_ms_per_token,
                    "decode_j": decode_energy_j(batch, curve.batch, curve.decode_j_per_token),
                    "kv_read_j": gpu.context_nj_per_byte * 1e-9 * model.kv_bytes_per_token,
                    "itl_ms": inter_token_ms(batch, curve.batch, curve.inter_token_ms)
                    + 1000.0 * reading_s,
                    "embodied_g": 1000.0 * (gpu.embodied_kgco2e + SERVER_EMBODIED_KG_PER_GPU),
                }
                for number, region in enumerate(scenario.regions):
                    if scenario.has(gpu_name, region):
                        pue = scenario.pue_overrides.get(region, catalog.regions[region].pue)
                        self.names.append((model_name, gpu_name, region))
                        rows.append(row | {"region": number, "pue": pue})
        for column in rows[0]:
            setattr(self, column, np.array([float(row[column]) for row in rows]))
        self.region = self.region.astype(int)
        self.shape = (self.layers, self.global_layers, self.window)

    def __len__(self) -> int:
        return len(self.names)

    def prefill_work(self, n: Any, start: Any) -> Any:
        """Tokens plus their attention, in tokens: what energy and time of a prefill go with."""
        more = attended(start + n, *self.shape) - attended(start, *self.shape)
        return n + self.alpha * more

    def fits(self, tokens: float) -> Any:
        """Which candidates hold that many tokens: context window, KV memory of one replica."""
        kv = self.kv_bytes * attention_span(tokens, *self.shape)
        return (tokens <= self.context_tokens) & (kv <= self.kv_memory)


class Cost(NamedTuple):
    """What serving one turn comes to on each candidate; energies without PUE."""

    recompute_j: Any
    prompt_j: Any
    decode_j: Any
    host_j: Any
    embodied_g: Any
    ttft_ms: Any
    latency_ms: Any

    @property
    def energy_j(self) -> Any:
        """GPU and host energy."""
        return self.recompute_j + self.prompt_j + self.decode_j + self.host_j


def cost_of_turn(d: Candidates, h: float, p: float, o: float, c: Any, rtt_ms: Any) -> Cost:
    """Cost of a turn on every candidate: history h, prompt p, output o, cached c (an array)."""
    recompute, prompt = d.prefill_work(h - c, c), d.prefill_work(p, h)
    context = attention_span(h + p + o / 2.0, *d.shape)
    decode_j = o * (d.decode_j + d.kv_read_j * np.maximum(0.0, context - MEASURED_CONTEXT_TOKENS))
    prefill_ms = (recompute + prompt) * d.prefill_ms
    busy_s = (prefill_ms + o * d.itl_ms / d.batch) / 1000.0
    ttft_ms = rtt_ms + prefill_ms + d.itl_ms
    return Cost(
        recompute_j=recompute * d.prefill_j,
        prompt_j=prompt * d.prefill_j,
        decode_j=decode_j,
        host_j=HOST_W_PER_GPU * d.n_gpus * busy_s,
        embodied_g=d.n_gpus * busy_s * d.embodied_g / EMBODIED_LIFE_S,
        ttft_ms=ttft_ms,
        latency_ms=ttft_ms + max(0.0, o - 1.0) * d.itl_ms,
    )


# --- What the training half teaches -----------------------------------------------------------


@dataclass
class Training:
    """Figures of the training half: groups whose first id has an even last byte of its SHA-256."""

    mean_output: float
    mean_later_prompt: float
    at_risk: list[int]
    """Sessions with at least n turns, n = 1, 2, ..."""
    gaps_s: list[float]
    mu: float
    sigma: float
    rho: float
    persistence: float
    """How much more alike turns that follow each other are than turns of one session."""
    memory: tuple[float, float]
    """What look-ahead forgets, and how much of a session's scatter is its own."""

    def survival(self, n: int) -> float:
        """P(another turn | n turns, this one counted)."""
        risk = [*self.at_risk, 0]
        if n <= len(self.at_risk) and risk[n - 1] >= FEWEST_AT_RISK:
            return risk[n] / risk[n - 1]
        few = [i for i in range(len(self.at_risk)) if risk[i] < FEWEST_AT_RISK]
        exposed = sum(risk[i] for i in few)
        return sum(risk[i + 1] for i in few) / exposed if exposed else 0.0

    def gap_share(self, idle_s: float) -> float:
        """P(gap <= idle_s)."""
        return sum(g <= idle_s for g in self.gaps_s) / len(self.gaps_s) if self.gaps_s else 0.0


def training_half(trace: Any) -> list[bool]:
    """Whether each session is learned from: sessions of three turns or more whose first three
    have equal token counts stand with the first of them."""
    first: dict[Any, str] = {}
    half = []
    for i, name in enumerate(trace.session_ids):
        rows = range(trace.offsets[i], trace.offsets[i + 1])
        opening = tuple(
            (trace.new_prompt_tokens[t], trace.output_tokens[t], trace.history_tokens[t])
            for t in rows[:3]
        )
        group = first.setdefault(opening, name) if len(rows) >= 3 else name
        half.append(hashlib.sha256(group.encode()).digest()[-1] % 2 == 0)
    return half


def learn(placed: Any) -> Training:
    """The statistics of the training half of a placed trace."""
    trace = placed.trace
    outputs: list[float] = []
    later: list[float] = []
    lengths: list[int] = []
    gaps: list[float] = []
    groups: list[list[float]] = []
    stakes: list[list[float]] = []
    for i, training in enumerate(training_half(trace)):
        if not training:
            continue
        rows = range(trace.offsets[i], trace.offsets[i + 1])
        lengths.append(len(rows))
        outputs += [float(trace.output_tokens[t]) for t in rows]
        later += [float(trace.new_prompt_tokens[t]) for t in rows[1:]]
        gaps += [float(placed.start_s[t] - placed.start_s[t - 1]) for t in rows[1:]]
        groups.append([float(placed.difficulty[t]) for t in rows])
        stakes.append([float(trace.history_tokens[t]) for t in rows])
    every = [b for group in groups for b in group]
    mu = math.fsum(every) / len(every)
    sigma = math.sqrt(math.fsum((b - mu) ** 2 for b in every) / len(every))
    rho = anova_correlation(groups)
    return Training(
        mean_output=math.fsum(outputs) / len(outputs),
        mean_later_prompt=math.fsum(later) / len(later),
        at_risk=[int(np.sum(np.array(lengths) >= n)) for n in range(1, max(lengths) + 1)],
        gaps_s=gaps,
        mu=mu,
        sigma=sigma,
        rho=rho,
        persistence=persistence(groups, mu),
        memory=memory(groups, stakes, mu, sigma, rho),
    )


def memory(
    groups: list[list[float]], stakes: list[list[float]], mu: float, sigma: float, rho: float
) -> tuple[float, float]:
    """The memory and own noise under which the up to 24 next turns are least surprising.

    Each turn that is followed counts by its history; a parameter that departs costs one nat.
    """
    weights = [w for stake in stakes for w in stake[:-1]]
    guesses = sum(weights) ** 2 / sum(w * w for w in weights)
    scores = dict.fromkeys(
        itertools.product((1.0, 0.98, 0.95, 0.9), (0.0, 1 / 48, 1 / 24, 1 / 12)), 0.0
    )
    for group, stake in zip(groups, stakes, strict=True):
        if len(group) == 1:
            continue
        b, turn = np.array(group), np.arange(len(group))
        later = turn[None, :] - turn[:, None]  # how many turns after turn i turn j is
        ahead = (later >= 1) & (later <= 24)
        for kept, own in scores:
            if own == 0.0:
                fading = np.tril(kept ** np.maximum(0.0, -later))
                n = fading.sum(axis=1)
                mean = fading @ b / n
                within = (fading * (b[None, :] - mean[:, None]) ** 2).sum(axis=1)
                w = n * rho / (1 + (n - 1) * rho)
                missed = (b[None, :] - mu - (w * (mean - mu))[:, None]) ** 2
                missed = (missed * ahead).sum(axis=1)[:-1] / ahead.sum(axis=1)[:-1]
            noise = (sigma**2 * (1 - rho) + own * within) / (1 + own * (n - 1))
            variance = (noise + sigma**2 * rho * (1 - w))[:-1]
            nats = 0.5 * (np.log(variance) + missed / variance)
            scores[kept, own] += float(np.array(stake[:-1]) @ nats)
    for kept, own in scores:
        scores[kept, own] *= guesses / sum(weights)
        scores[kept, own] += (kept < 1) + (own > 0)
    return min(scores, key=scores.__getitem__)


def persistence(groups: list[list[float]], mu: float) -> float:
    """(r1 - r2) / (1 - r2), r the autocorrelation within sessions at lags 1 and 2, 0 to 1."""
    variance = np.mean([(b - mu) ** 2 for group in groups for b in group])

    def r(lag: int) -> float:
        pairs = [(a - mu) * (b - mu) for g in groups for a, b in zip(g, g[lag:], strict=False)]
        return float(np.mean(pairs) / variance) if pairs and variance else 0.0

    return min(1.0, max(0.0, (r(1) - r(2)) / (1.0 - r(2)))) if r(2) < 1.0 else 0.0


def anova_correlation(groups: list[list[float]]) -> float:
    """Correlation of two turns of a session by one-way analysis of variance, never below 0."""
    n, k = sum(len(g) for g in groups), len(groups)
    grand = math.fsum(b for g in groups for b in g) / n
    means = [math.fsum(g) / len(g) for g in groups]
    between = math.fsum(len(g) * (m - grand) ** 2 for g, m in zip(groups, means, strict=True))
    within = math.fsum((b - m) ** 2 for g, m in zip(groups, means, strict=True) for b in g)
    between /= k - 1
    within /= n - k
    n0 = (n - sum(len(g) ** 2 for g in groups) / n) / (k - 1)
    return max(0.0, (between - within) / (between + (n0 - 1.0) * within))


# --- A scenario and its sessions --------------------------------------------------------------


class World:
    """A scenario with its placed trace and grid: all that the policies are told or charged by."""

    def __init__(
        self, scenario: Any, catalog: Any, placed: Any, intensity: Any, k: float | None = None
    ) -> None:
        self.scenario, self.placed, self.trace = scenario, placed, placed.trace
        self.candidates = Candidates(scenario, catalog, placed.trace)
        self.training = learn(placed)
        self.gap_share = self.training.gap_share(scenario.idle_s)
        self._survival: dict[int, float] = {}
        table = pd.read_csv(DATA / "quality_fit.csv", index_col="key")
        self.k = float(table.at["k", "value"]) if k is None else k
        self.intensity = intensity[:, self.candidates.region]
        self.rtt_ms = np.array(
            [
                [catalog.rtt_ms[user, region] for _, _, region in self.candidates.names]
                for user in placed.user_regions
            ]
        )

    def survival(self, n: int) -> float:
        """The training half's S(n), computed once an n."""
        if n not in self._survival:
            self._survival[n] = self.training.survival(n)
        return self._survival[n]

    def quality(self, difficulty: float) -> Any:
        """Predicted quality of each candidate's answer."""
        return 1.0 / (1.0 + np.exp(-self.k * (self.candidates.theta - difficulty)))

    def fair_floors(self, policy: str) -> Any:
        """Quality floor by user region, raised for FairCarbon where the training half is worse.

        A first pass with the floor as it is gives mean quality by user region and overall.
        """
        scenario, users = self.scenario, range(len(self.placed.user_regions))
        even = [scenario.quality_floor for _ in users]
        if not policy.startswith("faircarbon") or scenario.fairness_weight == 0:
            return even
        by_user: list[list[float]] = [[] for _ in users]
        for i, training in enumerate(training_half(self.trace)):
            if training:
                turns = replay_session(self, policy, i, floors=even)
                for row, turn in enumerate(turns, start=self.trace.offsets[i]):
                    if turn.deployment >= 0:
                        by_user[self.placed.user[row]].append(turn.quality)
        every = [q for values in by_user for q in values]
        mean = math.fsum(every) / len(every)
        lacks = [mean - math.fsum(own) / len(own) if own else 0.0 for own in by_user]
        raised = scenario.fairness_weight
        return [min(1.0, even[0] + raised * max(0.0, lack)) for lack in lacks]

    def good_enough(self, tokens: float, difficulty: float, floor: float | None = None) -> Any:
        """Which candidates hold the turn and meet the floor, or the best there is under it."""
        floor = self.scenario.quality_floor if floor is None else floor
        fits = self.candidates.fits(tokens)
        if not fits.any():
            return fits
        q = self.quality(difficulty)
        return fits & (q >= min(floor, q[fits].max()))

    def objective_g(self, cost: Cost, intensity: Any) -> Any:
        """What policies minimise: carbon, with embodied carbon if the scenario says so."""
        carbon = cost.energy_j / J_PER_KWH * self.candidates.pue * intensity
        return carbon + cost.embodied_g if self.scenario.embodied else carbon


class Served(NamedTuple):
    """One turn: the decision, its reasons, and its accounts (true output)."""

    deployment: int
    wanted: int
    home: int
    cached_tokens: float
    missed_ceiling: bool
    held: bool
    p_back: float
    saving_g: float
    rebuild_g: float
    next_gain_g: float
    recompute_g: float
    prompt_g: float
    decode_g: float
    host_g: float
    carbon_g: float
    embodied_g: float
    energy_kwh: float
    ttft_ms: float
    latency_ms: float
    quality: float


def unserved(home: int) -> Served:
    """The record of a turn that no model holds."""
    nothing, unknown = 0.0, math.nan
    return Served(
        deployment=-1,
        wanted=-1,
        home=home,
        cached_tokens=0.0,
        missed_ceiling=False,
        held=False,
        p_back=unknown,
        saving_g=unknown,
        rebuild_g=unknown,
        next_gain_g=unknown,
        recompute_g=nothing,
        prompt_g=nothing,
        decode_g=nothing,
        host_g=nothing,
        carbon_g=nothing,
        embodied_g=nothing,
        energy_kwh=nothing,
        ttft_ms=unknown,
        latency_ms=unknown,
        quality=unknown,
    )


class Caches:
    """Where the KV cache of one session lives."""

    def __init__(self, n: int, idle_s: float, copies: str) -> None:
        self.tokens, self.last_s = np.zeros(n), np.full(n, -math.inf)
        self.idle_s, self.copies = idle_s, copies

    def cut(self, history: float) -> None:
        """Before each turn: nothing longer than the history is of use."""
        self.tokens = np.minimum(self.tokens, history)

    def live(self, now_s: float) -> Any:
        """Cached tokens on each candidate that have not expired."""
        return np.where(now_s - self.last_s <= self.idle_s, self.tokens, 0.0)

    def serve(self, d: int, tokens: float, now_s: float) -> None:
        """After a turn on d: it holds all tokens; the others keep theirs or nothing."""
        if self.copies == "latest":
            self.tokens[:] = 0.0
        self.tokens[d], self.last_s[d] = tokens, now_s

    def copy(self) -> Caches:
        """An independent copy."""
        other = Caches(len(self.tokens), self.idle_s, self.copies)
        other.tokens, other.last_s = self.tokens.copy(), self.last_s.copy()
        return other


class Situation(NamedTuple):
    """What a policy looks at in one turn; arrays run over the candidates."""

    feasible: Any
    carbon_g: Any
    """Cache-aware objective with the predicted output."""
    estimate_g: Callable[[float, float], Any]
    """Objective of a query alone: (history prefilled as part of it, new prompt)."""
    history: float
    prompt: float
    intensity: Any
    rtt_ms: Any
    last: int
    """Deployment of the last served turn, -1 before it."""
    start: int
    """Round robin: where this session starts."""


def lowest(values: Any, among: Any) -> int:
    """The first candidate with the lowest value among those marked."""
    return int(np.argmin(np.where(among, values, math.inf)))


def choose(policy: str, world: World, s: Situation) -> int:
    """The candidate a policy takes, before the gate."""
    d = world.candidates
    if policy in ("carbonrouter", "carbonrouter-no-gate", "free-migration"):
        return lowest(s.carbon_g, s.feasible)
    if policy == "faircarbon":
        return lowest(s.estimate_g(0.0, s.prompt), s.feasible)
    if policy == "faircarbon-full-prompt":
        return lowest(s.estimate_g(0.0, s.history + s.prompt), s.feasible)
    if policy == "sticky":
        stays = s.last >= 0 and s.feasible[s.last]
        return s.last if stays else lowest(s.carbon_g, s.feasible)
    if policy == "round-robin":
        first = s.start if s.last < 0 else s.last + 1
        order = [(first + i) % len(d) for i in range(len(d))]
        return next(i for i in order if s.feasible[i])
    rank = {
        "cleanest-region": s.intensity,
        "nearest-region": s.rtt_ms,
        "largest-model": -d.params_b,
        "smallest-model": d.params_b,
    }[policy]
    best = np.where(s.feasible, rank, math.inf).min()
    return lowest(s.carbon_g, s.feasible & (rank == best))


def round_robin_start(session_id: str, n: int) -> int:
    """A hash of the session id: half its SHA-256's first 8 bytes (little-endian), modulo n."""
    key = int.from_bytes(hashlib.sha256(session_id.encode()).digest()[:8], "little")
    return key // 2 % n


def gate(
    world: World,
    home: int,
    choice: int,
    live: Any,
    turn: dict[str, float],
    intensity: Any,
    carbon_g: Any,
) -> tuple[float, float, float, float]:
    """(p_back, saving, rebuild, next gain) of a move from home to choice.

    ``turn``: n (turns seen), h, p, o (predicted), next_p (predicted), b_mean (difficulty so far).
    """
    d, training = world.candidates, world.training
    history = turn["h"] + turn["p"] + turn["o"]

    def next_g_with_history_on(holder: int) -> Any:
        cached = live.copy() if world.scenario.copies == "all" else np.zeros(len(d))
        cached[holder] = history
        cost = cost_of_turn(d, history, turn["next_p"], turn["o"], cached, np.zeros(len(d)))
        return world.objective_g(cost, intensity)

    moved_g, held_g = next_g_with_history_on(choice), next_g_with_history_on(home)
    n, rho = turn["n"], training.rho
    w = n * rho / (1.0 + (n - 1.0) * rho)
    mean = training.mu + w * (turn["b_mean"] - training.mu)
    spread = training.sigma * math.sqrt(1.0 - rho * w)
    home_best, gain_g = 0, 0.0
    for z in NEXT_DIFFICULTY_Z:
        allowed = world.good_enough(history + turn["next_p"] + turn["o"], mean + spread * z)
        if allowed.any():
            home_best += lowest(moved_g, allowed) == home
            gain_g += moved_g[allowed].min() - held_g[allowed].min()
    reach = world.survival(int(n)) * world.gap_share / len(NEXT_DIFFICULTY_Z)
    saving_g, rebuild_g = carbon_g[home] - carbon_g[choice], moved_g[home] - held_g[home]
    return reach * home_best, saving_g, rebuild_g, reach * gain_g


def replay_session(
    world: World, policy: str, session: int, floors: list[float] | None = None
) -> list[Served]:
    """Every turn of a session under a policy, decided and charged.

    ``floors``: quality floor of each user region, where it is not the scenario's for all.
    """
    trace, placed, scenario = world.trace, world.placed, world.scenario
    d = world.candidates
    caches = Caches(len(d), scenario.idle_s, scenario.copies)
    start = round_robin_start(trace.session_ids[session], len(d))
    last = -1
    outputs, later_prompts, difficulties = [], [], []
    records = []
    for n, row in enumerate(range(trace.offsets[session], trace.offsets[session + 1]), start=1):
        h, p, o = (
            float(column[row])
            for column in (trace.history_tokens, trace.new_prompt_tokens, trace.output_tokens)
        )
        now_s, b = float(placed.start_s[row]), float(placed.difficulty[row])
        intensity, rtt_ms = world.intensity[row], world.rtt_ms[placed.user[row]]
        o_hat = (world.training.mean_output + sum(outputs)) / (1 + len(outputs))
        if policy in KNOWS_OUTPUT:
            o_hat = o
        outputs.append(o)
        difficulties.append(b)
        if n > 1:
            later_prompts.append(p)
        caches.cut(h)
        live = caches.live(now_s)
        cached = np.full(len(d), h) if policy == "free-migration" else live
        home = int(np.argmax(cached)) if cached.max() > 0 else -1
        floor = floors[placed.user[row]] if floors else None
        feasible = world.good_enough(h + p + o, b, floor)
        if not feasible.any():
            records.append(unserved(home))
            continue
        cost = cost_of_turn(d, h, p, o_hat, cached, rtt_ms)
        missed = False
        if policy != "free-migration":  # which obeys no ceiling, or it would bound nothing
            feasible, missed = within_ceiling(scenario, feasible, cost)
        carbon_g = world.objective_g(cost, intensity)

        def estimate(
            history: float,
            prompt: float,
            o: float = o_hat,
            rtt: Any = rtt_ms,
            grid: Any = intensity,
        ) -> Any:
            alone = cost_of_turn(d, history, prompt, o, np.zeros(len(d)), rtt)
            return world.objective_g(alone, grid)

        seen = Situation(feasible, carbon_g, estimate, h, p, intensity, rtt_ms, last, start)
        wanted = chosen = choose(policy, world, seen)
        p_back = saving = rebuild = gain = math.nan  # the gate was not asked
        theta = scenario.gate_threshold
        if policy == GATED and theta < 1 and wanted != home and home >= 0 and feasible[home]:
            next_p = world.training.mean_later_prompt + sum(later_prompts)
            turn = {
                "n": n,
                "h": h,
                "p": p,
                "o": o_hat,
                "next_p": next_p / (1 + len(later_prompts)),
                "b_mean": sum(difficulties) / n,
            }
            p_back, saving, rebuild, gain = gate(
                world, home, wanted, live, turn, intensity, carbon_g
            )
            if p_back >= theta and p_back * rebuild > saving and gain > saving:
                chosen = home
        records.append(
            charge(world, row, chosen, float(cached[chosen]))._replace(
                wanted=wanted,
                home=home,
                missed_ceiling=missed,
                held=chosen != wanted,
                p_back=p_back,
                saving_g=saving,
                rebuild_g=rebuild,
                next_gain_g=gain,
            )
        )
        caches.serve(chosen, h + p + o, now_s)
        last = chosen
    return records


def within_ceiling(scenario: Any, good_enough: Any, cost: Cost) -> tuple[Any, bool]:
    """The feasible set under the latency ceiling, and whether no candidate is within it."""
    if scenario.latency_ceiling_ms is None:
        return good_enough, False
    time_ms = cost.ttft_ms if scenario.latency_ceiling_on == "ttft" else cost.latency_ms
    within = good_enough & (time_ms <= scenario.latency_ceiling_ms)
    if within.any():
        return within, False
    return np.arange(len(good_enough)) == lowest(time_ms, good_enough), True


def charge(world: World, row: int, d: int, cached: float) -> Served:
    """The accounts of a turn served on d: the true output, the intensity at its start."""
    trace, placed = world.trace, world.placed
    h, p, o = (
        float(column[row])
        for column in (trace.history_tokens, trace.new_prompt_tokens, trace.output_tokens)
    )
    cost = cost_of_turn(world.candidates, h, p, o, cached, world.rtt_ms[placed.user[row]])
    kwh = world.candidates.pue[d] / J_PER_KWH
    g = kwh * world.intensity[row, d]
    return Served(
        deployment=d,
        wanted=d,
        home=-1,
        cached_tokens=cached,
        missed_ceiling=False,
        held=False,
        p_back=math.nan,
        saving_g=math.nan,
        rebuild_g=math.nan,
        next_gain_g=math.nan,
        recompute_g=cost.recompute_j[d] * g,
        prompt_g=cost.prompt_j[d] * g,
        decode_g=cost.decode_j[d] * g,
        host_g=cost.host_j[d] * g,
        carbon_g=cost.energy_j[d] * g,
        embodied_g=cost.embodied_g[d],
        energy_kwh=cost.energy_j[d] * kwh,
        ttft_ms=cost.ttft_ms[d],
        latency_ms=cost.latency_ms[d],
        quality=world.quality(float(placed.difficulty[row]))[d],
    )


def best_of_all_paths(world: World, session: int) -> float:
    """Lowest carbon of a short session over every path through the feasible sets (no ceiling)."""
    trace = world.trace
    end = trace.offsets[session + 1]

    def cheapest_from(row: int, caches: Caches) -> float:
        if row == end:
            return 0.0
        h, p, o = (
            float(column[row])
            for column in (trace.history_tokens, trace.new_prompt_tokens, trace.output_tokens)
        )
        now_s = float(world.placed.start_s[row])
        caches.cut(h)
        allowed = world.good_enough(h + p + o, float(world.placed.difficulty[row]))
        if not allowed.any():
            return cheapest_from(row + 1, caches)
        live = caches.live(now_s)
        rtt_ms = world.rtt_ms[world.placed.user[row]]
        cost = cost_of_turn(world.candidates, h, p, o, live, rtt_ms)
        here_g = world.objective_g(cost, world.intensity[row])
        best = math.inf
        for d in np.flatnonzero(allowed):
            after = caches.copy()
            after.serve(d, h + p + o, now_s)
            best = min(best, here_g[d] + cheapest_from(row + 1, after))
        return best

    scenario = world.scenario
    caches = Caches(len(world.candidates), scenario.idle_s, scenario.copies)
    return cheapest_from(trace.offsets[session], caches)
