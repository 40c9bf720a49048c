"""Dates and clock times that stand in two columns, put together."""

from __future__ import annotations

import pandas as pd

_CLOCK = r"\d{1,2}[:h]\d{2}(:\d{2})?"
_HOUR = r"\d{1,2}(\.0)?"


def with_clock(frame: pd.DataFrame) -> tuple[pd.DataFrame, bool]:
    """``frame`` with its column ``clock`` put after the date in ``time``.

    Where ``time`` has clock times already, it stays; where ``clock`` has whole times, they are
    taken. Whole hours from 1 to 24 are ends of intervals.

    Returns
    -------
    tuple
        The frame without ``clock``, and whether its times are ends of intervals.
    """
    time = frame["time"].fillna("").astype(str).str.strip()
    clock = frame["clock"].fillna("").astype(str).str.strip()
    frame = frame.drop(columns="clock")
    if time.str.contains(":").any():
        return frame, False
    if clock.str.contains(r"\d{4}|[/-]").any():
        return frame.assign(time=clock), False
    hours = clock.str.fullmatch(_HOUR)
    ends = (
        bool(hours.any())
        and (number := clock[hours].astype(float)).max() == 24
        and number.min() > 0
    )
    whole = clock.where(~hours, clock.str.removesuffix(".0").str.zfill(2) + ":00")
    written = whole.str.fullmatch(_CLOCK)
    joined = (time + " " + whole.str.replace("h", ":")).where(written & (time != ""), time)
    return frame.assign(time=joined), bool(ends)
