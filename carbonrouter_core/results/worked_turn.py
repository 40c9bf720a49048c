"""One turn worked through number by number, so that a reader can redo it on paper.

Every figure comes from the functions that the accounting uses, :mod:`.turn_costs` and
:mod:`.costs`; :func:`work_out` only keeps what they pass over on the way to the result, and
:func:`steps` says of each figure by which sum it follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from carbonrouter_core.fleet import costs
from carbonrouter_core.fleet.catalog import Catalog
from carbonrouter_core.fleet.turn_costs import cost_of_turn
from carbonrouter_core.quality.item_response import predicted_quality
from carbonrouter_core.replay.run import Run
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.results.comparison import Comparison
from carbonrouter_core.results.session_story import tell
from carbonrouter_core.routing.policies import FAIRCARBON, reasons
from carbonrouter_core.units import J_PER_KWH
from carbonrouter_core.words import figures as fmt


@dataclass(frozen=True)
class WorkedTurn:
    """A turn of a run: what it asks for, and what the policy did with it.

    ``deployment`` and ``home`` are numbers of deployments, -1 for none.
    """

    row: int
    session_id: str
    turn: int
    """From 1."""
    turns: int
    start_utc_s: float
    user_region: str
    history_tokens: int
    prompt_tokens: int
    output_tokens: int
    expected_output_tokens: float
    mean_output_tokens: float
    """Of the training half: the output that is expected of a first turn."""
    outputs_so_far_tokens: int
    deployment: int
    home: int
    reason: str
    cached_tokens: np.ndarray
    """(deployments,) live cached tokens as the turn begins."""
    why_not: tuple[str, ...]
    """What keeps each deployment from serving the turn; "" where nothing does."""


@dataclass(frozen=True)
class WorkedCandidate:
    """What serving a turn on one deployment comes to, with every figure on the way there."""

    label: str
    zone: str
    basis: str
    # the model and its replica
    layers: int
    global_layers: int
    window_tokens: float
    attention_dim: int
    active_params_b: float
    alpha: float
    n_gpus: int
    memory_gb: float
    weight_gb: float
    kv_memory_gb: float
    kv_bytes_per_token: float
    mean_context_tokens: float
    mean_context_attended: float
    held_sequences: float
    concurrency: float
    largest_batch: float
    batch: float
    # the energy points around the batch
    batch_below: float
    batch_above: float
    decode_j_below: float
    decode_j_above: float
    step_ms_below: float
    step_ms_above: float
    decode_j_per_token: float
    step_ms: float
    bandwidth_gb_s: float
    read_ms: float
    inter_token_ms: float
    # prefill
    history_tokens: int
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    recomputed_tokens: int
    span_cached: float
    span_history: float
    span_prompt_end: float
    recompute_work: float
    prompt_work: float
    prefill_j_per_token: float
    prefill_ms_per_token: float
    recompute_j: float
    prompt_j: float
    prefill_ms: float
    # decoding and host
    mean_position_tokens: float
    attended_tokens: float
    context_nj_per_byte: float
    decode_j: float
    decode_share_ms: float
    host_j: float
    # carbon
    pue: float
    pue_assumed: bool
    intensity_g_per_kwh: float
    energy_kwh: float
    recompute_g: float
    prompt_g: float
    decode_g: float
    host_g: float
    carbon_g: float
    gpu_embodied_kg: float
    embodied_g: float
    # latency and quality
    rtt_ms: float
    ttft_ms: float
    latency_ms: float
    theta: float
    difficulty: float
    k: float
    quality: float


def work_out_turn(prepared: Prepared, run: Run, row: int) -> WorkedTurn:
    """The turn in ``row`` of the trace, as ``run`` met it."""
    trace, placed = prepared.placed.trace, prepared.placed
    session = int(trace.session_index[row])
    first = int(trace.offsets[session])
    turn = row - first
    story, at = tell(prepared, run, session, turn, turn + 1), 0
    return WorkedTurn(
        row=row,
        session_id=story.session_id,
        turn=turn + 1,
        turns=story.turns_in_all,
        start_utc_s=float(story.start_utc_s[at]),
        user_region=placed.user_regions[placed.user[row]],
        history_tokens=int(story.history_tokens[at]),
        prompt_tokens=int(story.new_prompt_tokens[at]),
        output_tokens=int(story.output_tokens[at]),
        expected_output_tokens=float(story.expected_output_tokens[at]),
        mean_output_tokens=prepared.rules.mean_output_tokens,
        outputs_so_far_tokens=int(trace.output_tokens[first:row].sum()),
        deployment=int(story.decisions.deployment[at]),
        home=int(story.decisions.home[at]),
        reason=reasons.WORDS[int(story.decisions.reason[at])],
        cached_tokens=story.candidates.cached_tokens[at],
        why_not=tuple(story.candidate_table(at)["why_not"]),
    )


def work_out(
    prepared: Prepared, catalog: Catalog, turn: WorkedTurn, deployment: int
) -> WorkedCandidate:
    """What ``turn`` comes to on ``deployment`` with its true output, as it is accounted for.

    ``catalog``: the tables that ``prepared`` was made from.
    """
    deployments, placed = prepared.deployments, prepared.placed
    fleet = deployments.fleet
    pair, site = int(fleet.pair[deployment]), int(fleet.region[deployment])
    replica, region = deployments.replicas[pair], deployments.regions[site]
    model, gpu = catalog.models[replica.model], catalog.gpus[replica.gpu]
    curve = catalog.energy[replica.model, replica.gpu]
    share, window = model.global_layers / model.layers, model.window_tokens
    alpha = costs.attention_alpha(model.layers, model.attention_dim, model.active_params_b)

    kv_memory = costs.kv_memory_bytes(curve.n_gpus, gpu.memory_gb, model.weight_bytes)
    mean_attended = costs.attention_context(replica.mean_context_tokens, share, window)
    batch = replica.batch
    above = min(int(np.searchsorted(curve.batch, batch)), len(curve.batch) - 1)
    below = above if batch >= curve.batch[above] else max(above - 1, 0)
    step_ms = costs.step_ms_at(batch, curve.batch, curve.inter_token_ms)
    read_ms = costs.context_read_ms(
        batch, model.kv_bytes_per_token, mean_attended, curve.n_gpus, gpu.bandwidth_gb_s
    )
    inter_token_ms = step_ms + read_ms
    decode_j_per_token = costs.decode_energy_at(batch, curve.batch, curve.decode_j_per_token)

    h, p, o = float(turn.history_tokens), float(turn.prompt_tokens), float(turn.output_tokens)
    c = float(turn.cached_tokens[deployment])

    cost = cost_of_turn(fleet, deployment, int(placed.user[turn.row]), h, p, o, c)

    pue = float(fleet.pue[site])
    intensity = float(prepared.intensity[turn.row, site])
    g_per_j = pue * intensity / J_PER_KWH
    rtt_ms = float(fleet.rtt_ms[placed.user[turn.row], site])
    theta = float(fleet.theta[fleet.pair_model[pair]])
    difficulty = float(placed.difficulty[turn.row])
    joules = cost.recompute_j + cost.prompt_j + cost.decode_j + cost.host_j
    return WorkedCandidate(
        label=deployments.label(deployment),
        zone=region.zone,
        basis=replica.basis,
        layers=model.layers,
        global_layers=model.global_layers,
        window_tokens=window,
        attention_dim=model.attention_dim,
        active_params_b=model.active_params_b,
        alpha=alpha,
        n_gpus=curve.n_gpus,
        memory_gb=gpu.memory_gb,
        weight_gb=model.weight_bytes / 1e9,
        kv_memory_gb=kv_memory / 1e9,
        kv_bytes_per_token=model.kv_bytes_per_token,
        mean_context_tokens=replica.mean_context_tokens,
        mean_context_attended=mean_attended,
        held_sequences=(
            kv_memory / (model.kv_bytes_per_token * mean_attended) if mean_attended else np.inf
        ),
        concurrency=prepared.scenario.concurrency,
        largest_batch=float(curve.batch[-1]),
        batch=batch,
        batch_below=float(curve.batch[below]),
        batch_above=float(curve.batch[above]),
        decode_j_below=float(curve.decode_j_per_token[below]),
        decode_j_above=float(curve.decode_j_per_token[above]),
        step_ms_below=float(curve.inter_token_ms[below]),
        step_ms_above=float(curve.inter_token_ms[above]),
        decode_j_per_token=decode_j_per_token,
        step_ms=step_ms,
        bandwidth_gb_s=gpu.bandwidth_gb_s,
        read_ms=read_ms,
        inter_token_ms=inter_token_ms,
        history_tokens=int(h),
        prompt_tokens=int(p),
        output_tokens=int(o),
        cached_tokens=int(c),
        recomputed_tokens=int(h - c),
        span_cached=costs.attention_span(c, share, window),
        span_history=costs.attention_span(h, share, window),
        span_prompt_end=costs.attention_span(h + p, share, window),
        recompute_work=cost.recompute_work,
        prompt_work=cost.prompt_work,
        prefill_j_per_token=curve.prefill_j_per_token,
        prefill_ms_per_token=curve.prefill_ms_per_token,
        recompute_j=cost.recompute_j,
        prompt_j=cost.prompt_j,
        prefill_ms=cost.prefill_ms,
        mean_position_tokens=h + p + 0.5 * o,
        attended_tokens=costs.attention_context(h + p + 0.5 * o, share, window),
        context_nj_per_byte=gpu.context_nj_per_byte,
        decode_j=cost.decode_j,
        decode_share_ms=cost.decode_share_ms,
        host_j=cost.host_j,
        pue=pue,
        pue_assumed=region.pue_assumed and region.region not in prepared.scenario.pue_overrides,
        intensity_g_per_kwh=intensity,
        energy_kwh=joules * pue / J_PER_KWH,
        recompute_g=cost.recompute_j * g_per_j,
        prompt_g=cost.prompt_j * g_per_j,
        decode_g=cost.decode_j * g_per_j,
        host_g=cost.host_j * g_per_j,
        carbon_g=joules * g_per_j,
        gpu_embodied_kg=gpu.embodied_kgco2e,
        embodied_g=cost.embodied_g,
        rtt_ms=rtt_ms,
        ttft_ms=cost.ttft_ms,
        latency_ms=cost.latency_ms,
        theta=theta,
        difficulty=difficulty,
        k=prepared.k,
        quality=float(predicted_quality(np.array([theta]), np.array([difficulty]), prepared.k)[0]),
    )


INPUT_DIGITS = 12
"""Significant digits of what a sum begins with: tables, token counts."""
_DIGITS = {
    11: ("mean_context_tokens",),
    10: ("alpha", "mean_context_attended", "attended_tokens"),
    9: ("held_sequences", "batch", "step_ms", "recompute_work", "prompt_work"),
    8: ("inter_token_ms", "intensity_g_per_kwh"),
    7: (
        *("decode_j_per_token", "recompute_j", "prompt_j", "prefill_ms", "decode_share_ms"),
        *("theta", "difficulty", "k"),
    ),
    6: ("decode_j", "host_j"),
    5: (
        *("recompute_g", "prompt_g", "decode_g", "host_g", "carbon_g", "embodied_g"),
        *("energy_kwh", "ttft_ms", "latency_ms", "quality"),
    ),
}
"""Digits of each figure: fewer at every step, so that what is shown gives the next to its last."""
_DIGITS_OF = {name: digits for digits, names in _DIGITS.items() for name in names}

_SHARE = (
    "({global_layers} × {x} + ({layers} − {global_layers}) × min({x}, {window_tokens})) / {layers}"
)
_SPAN = (
    "({global_layers} × {x}^2 / 2 + ({layers} − {global_layers}) × {window_tokens} "
    "× ({x} − {window_tokens} / 2)) / {layers}"
)


@dataclass(frozen=True)
class Step:
    """A figure: symbol (our own HTML), what it is, the sum it follows from, and what that gives."""

    symbol: str
    meaning: str
    formula: str
    """The sum with its numbers in it."""
    value: str
    unit: str


def steps(candidate: WorkedCandidate, *, embodied: bool) -> dict[str, list[Step]]:
    """All figures of a candidate in the order they are computed, by heading."""
    values = {
        name: fmt.exact(value, _DIGITS_OF.get(name, INPUT_DIGITS))
        for name, value in asdict(candidate).items()
        if not isinstance(value, str)
    }

    def line(symbol: str, meaning: str, result: str, unit: str, template: str) -> Step:
        return Step(symbol, meaning, template.format(**values), values[result], unit)

    groups = {
        "The replica": _replica(candidate, line),
        "Energy": _energy(candidate, line),
        "Carbon: energy × PUE × carbon intensity": _carbon(line),
        "Latency and quality": _service(line),
    }
    if embodied:
        per_gpu = fmt.exact(costs.SERVER_EMBODIED_G_PER_GPU, INPUT_DIGITS)
        groups["Embodied carbon"] = [
            line(
                "embodied",
                "counted in the choice, apart from the carbon above",
                "embodied_g",
                "g",
                "{n_gpus} × ({prefill_ms} + {decode_share_ms}) / 1,000 × ({gpu_embodied_kg} "
                f"× 1,000 + {per_gpu}) / (3 × 365.25 × 86,400)",
            )
        ]
    return groups


_Maker = Callable[[str, str, str, str, str], Step]


def _replica(candidate: WorkedCandidate, line: _Maker) -> list[Step]:
    made = [
        line(
            "α",
            "attention work per token of context",
            "alpha",
            "1/token",
            "2 × {layers} × {attention_dim} / ({active_params_b} × 1,000,000,000)",
        )
    ]
    if candidate.mean_context_attended > 0:
        made += [
            line(
                "a(x̄)",
                "tokens attended to at the mean context of the trace",
                "mean_context_attended",
                "tokens",
                _attended(candidate, "{mean_context_tokens}"),
            ),
            line(
                "held",
                "sequences that the KV memory holds",
                "held_sequences",
                "",
                f"({costs.KV_MEMORY_SHARE} × {{n_gpus}} × {{memory_gb}} − {{weight_gb}}) "
                "× 1,000,000,000 / ({kv_bytes_per_token} × {mean_context_attended})",
            ),
        ]
        least = "min({concurrency}, {held_sequences}, {largest_batch})"
    else:
        least = "min({concurrency}, {largest_batch})"
    made.append(
        line("B", "sequences decoding together", "batch", "", f"max(1, {least})"),
    )
    energy, time = _between(candidate)
    step = "{step_ms}"
    made += [
        line("e<sub>d</sub>(B)", f"energy of an output token, {candidate.basis}",
             "decode_j_per_token", "J", energy),
        line("t(B)", "time of a decode step", "step_ms", "ms", time),
        line(
            "t<sub>itl</sub>",
            "time between output tokens",
            "inter_token_ms",
            "ms",
            f"{step} + 1,000 × {{batch}} × {{kv_bytes_per_token}} × max(0, "
            f"{{mean_context_attended}} − {costs.MEASURED_CONTEXT_TOKENS:.0f}) / "
            f"({costs.KV_BANDWIDTH_SHARE} × {{n_gpus}} × {{bandwidth_gb_s}} × 1,000,000,000)",
        ),
    ]  # fmt: skip
    return made


def _attended(candidate: WorkedCandidate, x: str) -> str:
    return x if candidate.global_layers == candidate.layers else _SHARE.replace("{x}", x)


def _between(candidate: WorkedCandidate) -> tuple[str, str]:
    """Sums of e_d(B) and t(B): a point itself, between two, or below the smallest."""
    if candidate.batch < candidate.batch_below:
        return "{decode_j_below} × {batch_below} / {batch}", "{step_ms_below}"
    if candidate.batch_below == candidate.batch_above:
        return "{decode_j_above}", "{step_ms_above}"
    power = "^(ln({batch} / {batch_below}) / ln({batch_above} / {batch_below}))"
    return (
        f"{{decode_j_below}} × ({{decode_j_above}} / {{decode_j_below}}){power}",
        f"{{step_ms_below}} × ({{step_ms_above}} / {{step_ms_below}}){power}",
    )


def _span(candidate: WorkedCandidate, x: str, tokens: float) -> str:
    windowed = candidate.global_layers < candidate.layers and tokens > candidate.window_tokens
    return (_SPAN if windowed else "{x}^2 / 2").replace("{x}", x)


def _energy(candidate: WorkedCandidate, line: _Maker) -> list[Step]:
    end = f"({candidate.history_tokens:,} + {candidate.prompt_tokens:,})"
    h, p = candidate.history_tokens, candidate.prompt_tokens
    beyond = f"max(0, {{attended_tokens}} − {costs.MEASURED_CONTEXT_TOKENS:.0f})"
    return [
        line("r", "history to recompute", "recomputed_tokens", "tokens",
             "{history_tokens} − {cached_tokens}"),
        line("A(c)", "attention span of what is cached", "span_cached", "tokens²",
             _span(candidate, "{cached_tokens}", candidate.cached_tokens)),
        line("A(h)", "of the history", "span_history", "tokens²",
             _span(candidate, "{history_tokens}", h)),
        line("A(h+p)", "of history and prompt", "span_prompt_end", "tokens²",
             _span(candidate, end, h + p)),
        line("w(r, c)", "work of recomputing", "recompute_work", "tokens",
             "{recomputed_tokens} + {alpha} × ({span_history} − {span_cached})"),
        line("w(p, h)", "work of the new prompt", "prompt_work", "tokens",
             "{prompt_tokens} + {alpha} × ({span_prompt_end} − {span_history})"),
        line("E<sub>recompute</sub>", "energy of recomputing", "recompute_j", "J",
             "{prefill_j_per_token} × {recompute_work}"),
        line("E<sub>prompt</sub>", "energy of the new prompt", "prompt_j", "J",
             "{prefill_j_per_token} × {prompt_work}"),
        line("a(h+p+o/2)", "tokens attended to while decoding", "attended_tokens", "tokens",
             _attended(candidate, "({history_tokens} + {prompt_tokens} + {output_tokens} / 2)")),
        line("E<sub>decode</sub>", "energy of the answer", "decode_j", "J",
             "{output_tokens} × ({decode_j_per_token} + {context_nj_per_byte} / 1,000,000,000 "
             f"× {{kv_bytes_per_token}} × {beyond})"),
        line("T<sub>prefill</sub>", "time of prefill", "prefill_ms", "ms",
             "{prefill_ms_per_token} × ({recompute_work} + {prompt_work})"),
        line("o·t<sub>itl</sub>/B", "share of the replica's time while decoding",
             "decode_share_ms", "ms", "{output_tokens} × {inter_token_ms} / {batch}"),
        line("E<sub>host</sub>", "energy of the host", "host_j", "J",
             f"{costs.HOST_W_PER_GPU:.0f} × {{n_gpus}} × ({{prefill_ms}} + {{decode_share_ms}}) "
             "/ 1,000"),
    ]  # fmt: skip


def _carbon(line: _Maker) -> list[Step]:
    grid = "× {pue} × {intensity_g_per_kwh} / 3,600,000"
    total = "({recompute_j} + {prompt_j} + {decode_j} + {host_j})"
    return [
        line("recompute", "recomputed history", "recompute_g", "g",
             f"{{recompute_j}} {grid}"),
        line("prompt", "new prompt", "prompt_g", "g", f"{{prompt_j}} {grid}"),
        line("decode", "writing the answer", "decode_g", "g", f"{{decode_j}} {grid}"),
        line("host", "host servers", "host_g", "g", f"{{host_j}} {grid}"),
        line("<b>carbon</b>", "of the turn", "carbon_g", "g", f"{total} {grid}"),
        line("energy", "with PUE", "energy_kwh", "kWh", f"{total} × {{pue}} / 3,600,000"),
    ]  # fmt: skip


def _service(line: _Maker) -> list[Step]:
    return [
        line("TTFT", "time to first token: round trip, prefill, one step", "ttft_ms", "ms",
             "{rtt_ms} + {prefill_ms} + {inter_token_ms}"),
        line("latency", "time to the last token", "latency_ms", "ms",
             "{rtt_ms} + {prefill_ms} + {inter_token_ms} + max(0, {output_tokens} − 1) "
             "× {inter_token_ms}"),
        line("q", "predicted quality", "quality", "",
             "1 / (1 + exp(−{k} × ({theta} − ({difficulty}))))"),
    ]  # fmt: skip


def examples(comparison: Comparison, policy_id: str) -> Mapping[str, int]:
    """Rows of the trace worth working through, by what happens in them, most telling first.

    Of all turns of a kind, the one whose history is nearest to their median; kinds that do
    not occur are left out, and there are none where nothing is served.
    """
    trace, decisions = comparison.trace, comparison.runs[policy_id].decisions
    served = decisions.served
    history, cached = trace.history_tokens, decisions.cached_tokens
    moved = comparison.moved(policy_id)
    kinds = {
        "A move with part of the history cached": moved & (cached > 0) & (cached < history),
        "A move": moved & (history > 0),
        "A stay, part of the history cached": served & ~moved & (cached > 0) & (cached < history),
        "A stay, all of the history cached": served & ~moved & (cached > 0) & (cached == history),
        "The history has expired": served & ~moved & (cached == 0) & (history > 0),
        "A first turn": served & (history == 0),
    }
    chosen = {}
    for kind, which in kinds.items():
        rows = np.flatnonzero(which)
        if len(rows):
            tokens = history[rows]
            chosen[kind] = int(rows[np.abs(tokens - np.median(tokens)).argmin()])
    return chosen


def contrast(comparison: Comparison, turn: WorkedTurn) -> int:
    """The deployment that ``turn`` is best compared with, -1 where there is only one.

    Home, where the turn was served elsewhere; else FairCarbon's choice; else the next one.
    """
    theirs = int(comparison.runs[FAIRCARBON].decisions.deployment[turn.row])
    following = (turn.deployment + 1) % len(comparison.prepared.deployments)
    for d in (turn.home, theirs, following):
        if d >= 0 and d != turn.deployment:
            return d
    return -1
