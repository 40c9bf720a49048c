"""Reading times as people write them, and turning them into UTC.

A time without an offset needs a time zone, from the file or from the user; nothing is assumed.
In autumn a local hour comes twice: the order of the file tells the two apart.
"""

from __future__ import annotations

import re
import zoneinfo
from dataclasses import dataclass

import numpy as np
import pandas as pd

from carbonrouter_core.errors import ReadingError
from carbonrouter_core.units import S_PER_DAY, S_PER_HOUR
from carbonrouter_core.words.names import unknown

FIRST_S, LAST_S = 946_684_800, 4_102_444_800
"""2000-01-01 and 2100-01-01 UTC: a time outside is wrong, or in another unit."""

FALLS_BACK_S = 600.0
"""Lines of a log may stand out of order by this much."""

_OFFSET = re.compile(r"\d{1,2}:?\d{2}(:?\d{2}([.,]\d+)?)?\s*(Z|z|UTC|GMT|[+-]\d{2}(:?\d{2})?)$")
_NUMBER = re.compile(r"\d{9,19}(\.\d+)?")
_MIDNIGHT_24 = re.compile(r"(?<=[T ])24:00(?::00)?")
_ORDERS = (
    (re.compile(r"(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})"), "ymd"),
    (re.compile(r"(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})"), "dmy"),
    (re.compile(r"(?P<a>\d{1,2})[/-](?P<b>\d{1,2})[/-](?P<y>\d{4})"), "unclear"),
)
_CLOCK = r"(?:[T ]+(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,]\d+)?)?)?"


def has_offset(text: str) -> bool:
    """Whether a time says by itself how far from UTC it is."""
    return bool(_OFFSET.search(text.strip()) or _NUMBER.fullmatch(text.strip()))


def time_zone(name: str) -> zoneinfo.ZoneInfo:
    """The time zone ``name``; an error with the nearest names for an unknown one."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        known = sorted(zoneinfo.available_timezones())
        raise ReadingError(unknown("time zone", name, known)) from None


@dataclass(frozen=True)
class Times:
    """Times of rows: epoch seconds (NaN where ``problem`` says why not), and what was mended.

    ``once``: rows of a local hour that comes twice but stands there once.
    """

    utc_s: np.ndarray
    problem: np.ndarray
    once: np.ndarray
    naive: bool


def read_times(cells: pd.Series, zones: pd.Series, timezone: str | None) -> Times:
    """Read a column of times. ``zones``: grid zone of each row; ``timezone``: of naive times."""
    text = cells.fillna("").astype(str).str.strip()
    count = len(text)
    utc_s, problem = np.full(count, np.nan), np.full(count, "", dtype=object)
    once = np.zeros(count, bool)
    offset = text.map(has_offset).to_numpy(bool)
    if offset.any():
        utc_s[offset] = _with_offset(text[offset])
    naive = ~offset & (text != "").to_numpy()
    problem[(text == "").to_numpy()] = "the time is missing"
    if naive.any():
        if timezone is None:
            problem[naive] = (
                "the time does not say its time zone; give it (UTC, or Europe/Berlin and the like)"
            )
        else:
            wall_s = _naive(text[naive])
            at = np.flatnonzero(naive)
            good = np.isfinite(wall_s)
            localised, why, single = _localise(wall_s[good], zones.to_numpy()[at[good]], timezone)
            utc_s[at[good]] = localised
            problem[at[good]] = why
            once[at[good]] = single
    unread = np.isnan(utc_s) & (problem == "")
    problem[unread] = "the time cannot be read"
    outside = np.isfinite(utc_s) & ~((utc_s >= FIRST_S) & (utc_s < LAST_S))
    problem[outside] = "the time is not between 2000 and 2100"
    utc_s[problem != ""] = np.nan
    return Times(utc_s, problem, once, bool(naive.any()))


def _with_offset(text: pd.Series) -> np.ndarray:
    numbers = text.str.fullmatch(_NUMBER.pattern).to_numpy(bool)
    out = np.full(len(text), np.nan)
    if numbers.any():
        values = text[numbers].astype(float).to_numpy()
        # seconds, milliseconds, ... since 1970, whichever falls between 2000 and 2100
        for per_s in (1.0, 1e3, 1e6, 1e9):
            fits = (values / per_s >= FIRST_S) & (values / per_s < LAST_S)
            values = np.where(fits, values / per_s, values)
        out[numbers] = values
    if not numbers.all():
        plain = text[~numbers].str.replace(r"\s*(UTC|GMT|z)$", "Z", regex=True)
        late = plain.str.contains(_MIDNIGHT_24)
        plain = plain.str.replace(_MIDNIGHT_24, "00:00", regex=True)
        stamps = pd.to_datetime(plain, utc=True, errors="coerce", format="ISO8601")
        seconds = _epoch(stamps.to_numpy("datetime64[us]"))
        out[~numbers] = seconds + np.where(late.to_numpy(bool), S_PER_DAY, 0)
    return out


def _epoch(stamps: np.ndarray) -> np.ndarray:
    seconds = stamps.astype("datetime64[us]").astype(np.int64) / 1e6
    seconds[np.isnat(stamps)] = np.nan
    return seconds


def _naive(text: pd.Series) -> np.ndarray:
    """Wall-clock seconds of times without an offset; NaN where they cannot be read."""
    out = np.full(len(text), np.nan)
    for pattern, order in _ORDERS:
        todo = np.isnan(out)
        if not todo.any():
            break
        fields = text[todo].str.extract(f"^{pattern.pattern}{_CLOCK}$")
        hit = fields["y"].notna()
        if not hit.any():
            continue
        if order == "unclear":
            order = _day_first(fields.loc[hit, "a"], fields.loc[hit, "b"])
            if not order:
                continue
            fields = fields.rename(columns={"a": order[0], "b": order[1]})
        out[np.flatnonzero(todo)[hit.to_numpy()]] = _wall_s(fields[hit])
    return out


def _day_first(first: pd.Series, second: pd.Series) -> str:
    """Whether 03/04/2024 is a day or a month first, by the other rows; empty: not to be told."""
    day_first, month_first = (first.astype(int) > 12).any(), (second.astype(int) > 12).any()
    if day_first == month_first:
        return ""
    return "dmy" if day_first else "mdy"


def _wall_s(parts: pd.DataFrame) -> np.ndarray:
    number = {name: parts[name].fillna("0").astype(int) for name in ("y", "m", "d", "H", "M", "S")}
    late = (number["H"] == 24) & (number["M"] == 0) & (number["S"] == 0)  # the day's end
    frame = pd.DataFrame(
        {
            "year": number["y"],
            "month": number["m"],
            "day": number["d"],
            "hour": number["H"].mask(late, 0),
            "minute": number["M"],
            "second": number["S"],
        }
    )
    clock = (frame["hour"] < 24) & (frame["minute"] < 60) & (frame["second"] < 60)
    stamps = pd.to_datetime(frame.where(clock), errors="coerce")
    return _epoch(stamps.to_numpy("datetime64[us]")) + np.where(late.to_numpy(), S_PER_DAY, 0)


def _localise(
    wall_s: np.ndarray, zones: np.ndarray, timezone: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """UTC of wall-clock seconds, what is wrong with each, and hours that stand there once."""
    tz = time_zone(timezone)
    stamps = pd.DatetimeIndex((wall_s * 1e6).astype(np.int64).view("datetime64[us]"))
    count = len(stamps)
    problem, once = np.full(count, "", dtype=object), np.zeros(count, bool)
    early = stamps.tz_localize(tz, ambiguous=np.ones(count, bool), nonexistent="NaT")
    late = stamps.tz_localize(tz, ambiguous=np.zeros(count, bool), nonexistent="NaT")
    absent = early.isna()
    problem[absent] = f"there is no such time in {timezone}: clocks go forward then"
    early_s, late_s = _utc(early), _utc(late)
    out = early_s.copy()
    twice = ~absent & (early_s != late_s)
    for zone in pd.unique(zones[twice]):
        rows = np.flatnonzero(zones == zone)
        steps = np.diff(wall_s[rows])
        rises, falls = int((steps > 0).sum()), int((steps < 0).sum())
        forward = bool((steps >= -S_PER_HOUR).all()) and rises > falls
        backward = bool((steps <= S_PER_HOUR).all()) and falls > rises
        for wall in np.unique(wall_s[rows[twice[rows]]]):
            same = rows[wall_s[rows] == wall]
            if len(same) > 2:
                problem[same] = "this local time comes twice that day, but stands there more often"
            elif len(same) == 1:
                once[same] = True
            elif not (forward or backward):
                problem[same] = (
                    "this local time comes twice that day, and the rows are not in order of time: "
                    "which is which cannot be told; give the times with their offset"
                )
            else:
                second = same[1] if forward else same[0]
                out[second] = late_s[second]
    return out, problem, once


def _utc(stamps: pd.DatetimeIndex) -> np.ndarray:
    return _epoch(stamps.tz_convert("UTC").tz_localize(None).to_numpy("datetime64[us]"))


class LocalTimes:
    """Epoch seconds of the local times of a log, which come in about the order of the file.

    In autumn an hour comes twice: once times have fallen back by more than
    :data:`FALLS_BACK_S` within it, it is the second one.

    Raises :class:`ReadingError` for a time zone that is not known.
    """

    def __init__(self, timezone: str) -> None:
        self.timezone = timezone
        self._zone = time_zone(timezone)
        self._latest: dict[int, float] = {}
        self._second: set[int] = set()

    def epoch_s(self, wall_s: np.ndarray) -> np.ndarray:
        """Epoch seconds of wall-clock seconds; NaN for a time that does not exist."""
        stamps = pd.DatetimeIndex(np.rint(wall_s * 1e6).astype(np.int64).view("datetime64[us]"))
        count = len(stamps)
        first = _utc(
            stamps.tz_localize(self._zone, ambiguous=np.ones(count, bool), nonexistent="NaT")
        )
        second = _utc(
            stamps.tz_localize(self._zone, ambiguous=np.zeros(count, bool), nonexistent="NaT")
        )
        for row in np.flatnonzero(np.isfinite(first) & (first != second)):
            day, wall = int(wall_s[row] // S_PER_DAY), float(wall_s[row])
            latest = self._latest.get(day, wall)
            if wall < latest - FALLS_BACK_S:
                self._second.add(day)
            self._latest[day] = max(latest, wall)
            if day in self._second:
                first[row] = second[row]
        return first
