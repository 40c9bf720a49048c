"""What the rows of a trace as a whole say of how they are to be read: prompts and times.

Looked at in the first rows of the sorting database, before the sessions are completed.
"""

from __future__ import annotations

from typing import Any

from carbonrouter_core.traces.importers.base import Importer, Reading, Times, TimeUnit

SAMPLE_ROWS = 200_000
"""Rows looked at."""
INCREMENTAL_SHARE = 0.8
"""Share of follow-up prompts shorter than the turn before from which prompts look incremental."""
LEAST_FOLLOW_UPS = 2
"""With fewer follow-ups nothing is said."""
LEAST_GAP_S, MOST_GAP_S = 0.1, 4 * 3600.0
"""Between them lies the median gap of turns in a session: nobody reads an answer and asks again
within a tenth of a second, and a session with gaps of hours is none for a cache. Own choice."""

UNITS_S: dict[TimeUnit, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Seconds in a unit of time."""
_UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_FACTORS = (1.0, 1e3, 1e-3, 1e6, 1e-6, 1e9, 1e-9)


def looks_incremental(database: Any, importer: Importer, reading: Reading) -> bool:
    """Whether nearly every follow-up prompt is shorter than the turn before it."""
    if reading.options.prompts == "incremental" or importer.turn_is_key:
        return False
    added = "+ coalesce(beside_prompt_tokens, 0)" if reading.evidence.excluded else ""
    # lines of one request, with one id and prompt, are one turn
    follow_ups, shorter = database.execute(
        'WITH requests AS (SELECT session, coalesce(ident, CAST("row" AS VARCHAR)) AS request, '
        f"input_tokens {added} AS whole, max(output_tokens) AS output, max(reasoning_tokens) AS "
        'reasoning, min("order") AS place, min("row") AS line FROM raw WHERE '
        f'"row" < {SAMPLE_ROWS} AND history_tokens IS NULL GROUP BY ALL), '
        "pairs AS (SELECT whole, lag(whole + output - coalesce(reasoning, 0)) OVER "
        "(PARTITION BY session ORDER BY place, line) AS before FROM requests) "
        "SELECT count(*), count(*) FILTER (whole < before) FROM pairs WHERE before IS NOT NULL"
    ).fetchone()
    return bool(follow_ups >= LEAST_FOLLOW_UPS and shorter >= INCREMENTAL_SHARE * follow_ups)


def time_scale(database: Any, times: Times, reading: Reading) -> float:
    """Seconds that a time of the file is, where times count from a start.

    The unit that the format has is kept if the gaps between the turns of a session are plausible
    with it, or with no other; ``time_unit`` of the options overrides both. Where the name of the
    column says the unit, it is kept, with a warning.
    """
    unit = reading.options.time_unit
    if times not in ("clock", "t_s", "start_s"):
        return 1.0
    if unit is not None:
        reading.findings.guess(f"times are {_UNIT_NAMES[unit]}, as --time-unit says")
        return UNITS_S[unit] / reading.time_unit_s
    (gap_s,) = database.execute(
        "SELECT median(gap) FROM (SELECT time_s - lag(time_s) OVER (PARTITION BY session ORDER BY "
        f'"order", "row") AS gap FROM raw WHERE "row" < {SAMPLE_ROWS}) WHERE gap > 0'
    ).fetchone()
    if gap_s is None or LEAST_GAP_S <= gap_s <= MOST_GAP_S:
        return 1.0
    for factor in _FACTORS:
        likely = _unit(factor * reading.time_unit_s)
        if likely is None or not LEAST_GAP_S <= gap_s * factor <= MOST_GAP_S:
            continue
        mine = _unit(reading.time_unit_s) or "s"
        gap = f"as {_UNIT_NAMES[mine]} the median gap between the turns of a session is"
        if times != "clock":  # the name of the column says its unit
            reading.warnings.append(
                f"{gap} {gap_s:,.4g} s: if {times} is in {_UNIT_NAMES[likely]}, import the file "
                f"with --time-unit {likely}"
            )
            return 1.0
        reading.findings.guess(
            f"times are {_UNIT_NAMES[likely]}: {gap} {gap_s:,.4g} s; --time-unit {mine} keeps that"
        )
        return factor
    return 1.0


def _unit(seconds: float) -> TimeUnit | None:
    return next((name for name, s in UNITS_S.items() if abs(s / seconds - 1) < 1e-6), None)
