"""One turn worked through on a page: each figure with the sum it comes from, to redo on paper.

The figures and their sums are those of :mod:`carbonrouter_core.results.worked_turn`; here they
are put into tables.
"""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

from carbonrouter_core.results.worked_turn import WorkedCandidate, WorkedTurn, steps
from carbonrouter_core.words import figures as fmt


def candidate_html(
    candidate: WorkedCandidate, why_not: str, *, served: bool, embodied: bool
) -> str:
    """A table of all figures of one candidate."""
    rows = []
    for heading, group in steps(candidate, embodied=embodied).items():
        rows.append(f'<tr><th colspan="3" scope="rowgroup">{heading}</th></tr>')
        rows += [
            f'<tr><td><span class="cr-symbol">{row.symbol}</span>'
            f"<small>{escape(row.meaning)}</small></td>"
            f'<td class="cr-sum">{row.formula}</td>'
            f'<td class="cr-value">= {_with_unit(row.value, row.unit)}</td>'
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


def _with_unit(value: str, unit: str) -> str:
    return f"{value}{fmt.NARROW_SPACE}{unit}" if unit else value
