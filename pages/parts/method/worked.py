"""One turn worked through on a page: each figure with the sum it comes from, to redo on paper.

The figures are those of :mod:`carbonrouter_core.results.worked_turn`; here they are only put
into words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from html import escape

from carbonrouter_core.fleet import costs
from carbonrouter_core.results.worked_turn import WorkedCandidate, WorkedTurn
from carbonrouter_core.words import figures as fmt

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
class Line:
    """A figure: its symbol (our HTML), what it is, the sum it comes from, and what that gives."""

    symbol: str
    meaning: str
    sum: str
    value: str
    unit: str


def lines(candidate: WorkedCandidate, *, embodied: bool) -> dict[str, list[Line]]:
    """All figures of a candidate in the order they are computed, by heading."""
    values = {
        name: fmt.exact(value, _DIGITS_OF.get(name, INPUT_DIGITS))
        for name, value in asdict(candidate).items()
        if not isinstance(value, str)
    }

    def line(symbol: str, meaning: str, result: str, unit: str, template: str) -> Line:
        return Line(symbol, meaning, template.format(**values), values[result], unit)

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


_Maker = Callable[[str, str, str, str, str], Line]


def _replica(candidate: WorkedCandidate, line: _Maker) -> list[Line]:
    steps = [
        line(
            "α",
            "attention work per token of context",
            "alpha",
            "1/token",
            "2 × {layers} × {attention_dim} / ({active_params_b} × 1,000,000,000)",
        )
    ]
    if candidate.mean_context_attended > 0:
        steps += [
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
    steps.append(
        line("B", "sequences decoding together", "batch", "", f"max(1, {least})"),
    )
    energy, time = _between(candidate)
    step = "{step_ms}"
    steps += [
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
    return steps


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


def _energy(candidate: WorkedCandidate, line: _Maker) -> list[Line]:
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


def _carbon(line: _Maker) -> list[Line]:
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


def _service(line: _Maker) -> list[Line]:
    return [
        line("TTFT", "time to first token: round trip, prefill, one step", "ttft_ms", "ms",
             "{rtt_ms} + {prefill_ms} + {inter_token_ms}"),
        line("latency", "time to the last token", "latency_ms", "ms",
             "{rtt_ms} + {prefill_ms} + {inter_token_ms} + max(0, {output_tokens} − 1) "
             "× {inter_token_ms}"),
        line("q", "predicted quality", "quality", "",
             "1 / (1 + exp(−{k} × ({theta} − ({difficulty}))))"),
    ]  # fmt: skip


def candidate_html(
    candidate: WorkedCandidate, why_not: str, *, served: bool, embodied: bool
) -> str:
    """A table of all figures of one candidate."""
    rows = []
    for heading, group in lines(candidate, embodied=embodied).items():
        rows.append(f'<tr><th colspan="3" scope="rowgroup">{heading}</th></tr>')
        rows += [
            f'<tr><td><span class="cr-symbol">{row.symbol}</span>'
            f"<small>{escape(row.meaning)}</small></td>"
            f'<td class="cr-sum">{row.sum}</td>'
            f'<td class="cr-value">= {row.value}{fmt.NARROW if row.unit else ""}{row.unit}</td>'
            "</tr>"
            for row in group
        ]
    role = "served the turn" if served else "for comparison"
    note = f"Could not serve it: {why_not}." if why_not else ""
    assumed = " (assumed)" if candidate.pue_assumed else ""
    return (
        f'<table class="cr-worked"><caption><b>{escape(candidate.label)}</b>, {role}. '
        f"{escape(note)} Zone {escape(candidate.zone)}, PUE {fmt.exact(candidate.pue, 4)}"
        f"{assumed}, {fmt.exact(candidate.intensity_g_per_kwh, 4)} g/kWh as the turn starts."
        f"</caption><tbody>{''.join(rows)}</tbody></table>"
    )


def turn_html(turn: WorkedTurn, policy: str, user_city: str) -> str:
    """What the turn asks for, and why it went where it went."""
    start = datetime.fromtimestamp(turn.start_utc_s, UTC)
    mean = fmt.exact(turn.mean_output_tokens, 8)
    expected = fmt.exact(turn.expected_output_tokens, 6)
    return (
        f'<p class="cr-turn">Turn {turn.turn} of {turn.turns} of session '
        f"<b>{escape(turn.session_id)}</b>, {start:%Y-%m-%d %H:%M:%S} UTC, user in "
        f"{escape(user_city)}: <b>h = {turn.history_tokens:,}</b> history tokens, "
        f"<b>p = {turn.prompt_tokens:,}</b> new prompt tokens, <b>o = {turn.output_tokens:,}</b> "
        f"output tokens. {escape(policy)}. {escape(turn.reason)} It expected ô = ({mean} + "
        f"{turn.outputs_so_far_tokens:,}) / {turn.turn} = {expected} output tokens; what is "
        "charged, and shown below, is the true output.</p>"
    )


def difference(served: WorkedCandidate, other: WorkedCandidate) -> str:
    """The two candidates in one sentence."""
    mass = fmt.Mass.for_largest(max(served.carbon_g, other.carbon_g))
    change = fmt.change_percent(other.carbon_g, served.carbon_g)
    more = f" ({fmt.percent(change, signed=True)})" if fmt.known(change) else ""
    return (
        f"{escape(served.label)} emits <b>{mass.text(served.carbon_g)}</b> for this turn, "
        f"{escape(other.label)} <b>{mass.text(other.carbon_g)}</b>{more}."
    )
