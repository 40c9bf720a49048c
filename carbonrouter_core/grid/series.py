"""Carbon intensity of the grid: series by zone, checked, and looked up at any time.

Times are seconds since 1970-01-01 UTC. A series has one resolution; between the midpoints
of intervals of three hours or more it is read linearly, finer series hold a step
(docs/design.md, section 6). A time that a series does not cover is an error, never a default.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd

from carbonrouter_core.compiled import Array, jit
from carbonrouter_core.errors import IntensityError
from carbonrouter_core.paths import data_path
from carbonrouter_core.scenario import BASES
from carbonrouter_core.units import S_PER_HOUR

LINEAR_FROM_S = 3 * S_PER_HOUR
"""Intervals this long or longer are means of a changing value and are read linearly."""

MAX_HOLE_S = 3 * S_PER_HOUR
"""A hole up to this long is filled linearly and counted as estimated."""

MIN_STEP_S, MAX_STEP_S = 300, 3 * S_PER_HOUR
"""The finest and the coarsest resolution a series of the user may have."""

"""Average: all power of the grid by its sources; marginal: the plant that one more kWh starts."""

BUILTIN_SOURCE = (
    "Electricity Maps (ODbL), 3-hour means: 2021-2024 as published with SustainCluster, "
    "14 further zones of 2022 as published with decarbonization-potential"
)
BUILTIN_LICENCE = "ODbL 1.0"


@dataclass(frozen=True, eq=False)
class ZoneSeries:
    """Carbon intensity of one zone on an even time grid.

    ``g_per_kwh`` and ``estimated_share`` have one value an interval; interval ``i`` runs
    from ``start_s + i * step_s`` (epoch seconds, UTC) for ``step_s`` seconds. A series is
    lifecycle or direct (``basis``), average or marginal (``kind``). ``forecast_g_per_kwh``:
    what had been forecast for each interval, NaN where nothing had; None where there is no
    forecast. ``name``: what the user stored it under; empty for what is built in.
    """

    zone: str
    basis: str
    start_s: int
    step_s: int
    g_per_kwh: np.ndarray
    estimated_share: np.ndarray
    source: str = BUILTIN_SOURCE
    licence: str = BUILTIN_LICENCE
    kind: str = "average"
    name: str = ""
    forecast_g_per_kwh: np.ndarray | None = None

    @property
    def end_s(self) -> int:
        """End of the last interval."""
        return self.start_s + self.step_s * len(self.g_per_kwh)

    @property
    def linear(self) -> bool:
        """Whether the series is read linearly between midpoints."""
        return self.step_s >= LINEAR_FROM_S

    @property
    def granularity(self) -> str:
        """What a value is: "3-hour means", "hourly values", "15-minute values"."""
        if self.step_s == S_PER_HOUR:
            return "hourly values"
        what = "means" if self.linear else "values"
        if self.step_s % S_PER_HOUR == 0:
            return f"{self.step_s // S_PER_HOUR}-hour {what}"
        return f"{self.step_s // 60}-minute {what}"

    @cached_property
    def _table(self) -> IntensityTable:
        return IntensityTable.of([self])

    @cached_property
    def sha256(self) -> str:
        """Fingerprint of zone, basis, kind, times and figures."""
        head = f"{self.zone}|{self.basis}|{self.kind}|{self.start_s}|{self.step_s}|"
        digest = hashlib.sha256(head.encode())
        digest.update(np.ascontiguousarray(self.g_per_kwh).tobytes())
        if self.forecast_g_per_kwh is not None:
            digest.update(np.ascontiguousarray(self.forecast_g_per_kwh).tobytes())
        return digest.hexdigest()

    def at(self, time_s: np.ndarray) -> np.ndarray:
        """Intensity in g/kWh at each of ``time_s`` (epoch seconds, any shape).

        Within half an interval of the series' ends the end value holds.
        Raises :class:`IntensityError` for a time outside the series.
        """
        time_s = np.asarray(time_s, dtype=np.float64)
        if time_s.size:
            self.require(float(time_s.min()), float(time_s.max()))
        return self._table.at(np.zeros(1, np.int64), time_s)

    def covers(self, first_s: float, last_s: float) -> bool:
        """Whether the series has a value at all times from ``first_s`` to ``last_s``."""
        return bool(self.start_s <= first_s and last_s < self.end_s)

    def require(self, first_s: float, last_s: float) -> None:
        """Raise :class:`IntensityError` unless the series covers ``first_s`` to ``last_s``."""
        if not self.covers(first_s, last_s):
            raise IntensityError(
                f"Carbon intensity of zone {self.zone} ({self.basis}) runs from "
                f"{utc_text(self.start_s)} to {utc_text(self.end_s)}, but "
                f"{utc_text(first_s)} to {utc_text(last_s)} is asked for. "
                "Move the window into that range, or bring a series that covers it."
            )

    def estimated_at(self, time_s: np.ndarray) -> np.ndarray:
        """Share of estimated source hours (0-1) in the interval of each time."""
        index = ((np.asarray(time_s) - self.start_s) // self.step_s).astype(np.int64)
        return self.estimated_share[np.clip(index, 0, len(self.estimated_share) - 1)]


@dataclass(frozen=True, eq=False)
class IntensityTable:
    """The series of several zones, one after another in one array, for looking up many times.

    ``start_s``, ``step_s``, ``linear`` have one entry a zone; the values of zone ``i`` are
    ``values[first[i]:first[i + 1]]``.
    """

    zones: tuple[str, ...]
    start_s: np.ndarray
    step_s: np.ndarray
    linear: np.ndarray
    first: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, series: Sequence[ZoneSeries]) -> IntensityTable:
        """The table of ``series``; zone ``i`` is the ``i``-th of them."""
        return cls(
            zones=tuple(zone_series.zone for zone_series in series),
            start_s=np.array([zone_series.start_s for zone_series in series], np.float64),
            step_s=np.array([zone_series.step_s for zone_series in series], np.float64),
            linear=np.array([zone_series.linear for zone_series in series], np.bool_),
            first=np.cumsum([0, *(len(zone_series.g_per_kwh) for zone_series in series)]).astype(
                np.int64
            ),
            values=np.concatenate(
                [np.asarray(zone_series.g_per_kwh, np.float64) for zone_series in series]
            ),
        )

    def at(self, zone: np.ndarray, time_s: np.ndarray) -> np.ndarray:
        """Intensity in g/kWh of zone number ``zone`` at ``time_s`` (epoch seconds).

        Any two shapes that broadcast. Raises :class:`IntensityError` for a time outside the
        series of its zone, or a zone that is none.
        """
        zone, time_s = np.asarray(zone, np.int64), np.asarray(time_s, np.float64)
        shape = np.broadcast_shapes(zone.shape if zone.size > 1 else (), time_s.shape)
        if time_s.shape != shape:
            time_s = np.broadcast_to(time_s, shape)
        if zone.size != 1 and zone.shape != shape:
            zone = np.broadcast_to(zone, shape)
        times = np.ascontiguousarray(time_s).ravel()
        zones = np.ascontiguousarray(zone).ravel()
        out = np.empty(times.size)
        wrong = _look_up(
            zones, times, self.start_s, self.step_s, self.linear, self.first, self.values, out
        )
        if wrong >= 0:
            self._refuse(int(zones[wrong if zones.size > 1 else 0]), float(times[wrong]))
        return out.reshape(shape)

    def of_all(self, time_s: float) -> np.ndarray:
        """Intensity in g/kWh of every zone at one time (epoch seconds), shape (zones,).

        Raises :class:`IntensityError` as :meth:`at` does, in a tenth of its time.
        """
        times = np.full(len(self.zones), time_s, np.float64)
        out = np.empty_like(times)
        wrong = _look_up(
            self._every, times, self.start_s, self.step_s, self.linear, self.first, self.values, out
        )
        if wrong >= 0:
            self._refuse(wrong, time_s)
        return out

    @cached_property
    def _every(self) -> np.ndarray:
        return np.arange(len(self.zones))

    def _refuse(self, zone: int, time_s: float) -> None:
        if not 0 <= zone < len(self.zones):
            raise IntensityError(f"There is no zone number {zone}; there are {len(self.zones)}.")
        count = int(self.first[zone + 1] - self.first[zone])
        end_s = self.start_s[zone] + count * self.step_s[zone]
        raise IntensityError(
            f"Carbon intensity of zone {self.zones[zone]} runs from "
            f"{utc_text(self.start_s[zone])} to {utc_text(end_s)}, but {utc_text(time_s)} is "
            "asked for. Move the window into that range, or bring a series that covers it."
        )


@jit
def _look_up(
    zone: Array,
    time_s: Array,
    start_s: Array,
    step_s: Array,
    linear: Array,
    first: Array,
    values: Array,
    out: Array,
) -> int:
    """Fill ``out``; the number of the first entry that no series covers, else -1.

    ``zone`` has one entry for all times, or one a time.
    """
    same_zone = zone.size == 1
    for i in range(time_s.size):
        z = zone[0] if same_zone else zone[i]
        if z < 0 or z >= start_s.size:
            return i
        begin = first[z]
        last = first[z + 1] - begin - 1
        # divided, not multiplied by the inverse: a full hour must fall into its own interval
        position = (time_s[i] - start_s[z]) / step_s[z]
        if not (position >= 0.0 and position < last + 1.0):
            return i
        if not linear[z]:
            out[i] = values[begin + int(position)]
            continue
        position -= 0.5  # a mean stands for the middle of its interval
        if position <= 0.0:
            out[i] = values[begin]
        elif position >= last:
            out[i] = values[begin + last]
        else:
            left = int(position)
            share = position - left
            out[i] = values[begin + left] * (1.0 - share) + values[begin + left + 1] * share
    return -1


def utc_text(time_s: float) -> str:
    """``2024-05-13T00:00Z`` for an epoch time in seconds."""
    try:
        return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%MZ")
    except (ValueError, OverflowError, OSError):  # no calendar goes that far
        return f"{time_s:.3g} s after 1970"


def builtin_series(basis: str) -> Mapping[str, ZoneSeries]:
    """The built-in series of ``basis`` ("lifecycle" or "direct") by zone."""
    if basis not in BASES:
        raise IntensityError(f"Carbon basis {basis!r} is unknown; choose lifecycle or direct.")
    return _builtin(basis)


@lru_cache(maxsize=2)
def _builtin(basis: str) -> Mapping[str, ZoneSeries]:
    column = f"{basis}_g_per_kwh"
    frame = pd.read_parquet(
        data_path("carbon_intensity_3h.parquet"),
        columns=["zone", "start_utc", column, "estimated_share"],
    )
    if basis == "lifecycle":  # the further zones come without direct figures
        extra = pd.read_parquet(data_path("carbon_intensity_3h_2022_extra_zones.parquet"))
        frame = pd.concat([frame, extra.assign(estimated_share=np.nan)])
    return {
        str(zone): _even(str(zone), basis, group, column)
        for zone, group in frame.groupby("zone", sort=True)
    }


def _even(zone: str, basis: str, group: pd.DataFrame, column: str) -> ZoneSeries:
    group = group.sort_values("start_utc")
    start_s = group["start_utc"].to_numpy("datetime64[s]").astype(np.int64)
    steps = np.unique(np.diff(start_s))
    values = group[column].to_numpy(np.float64)
    if len(steps) != 1:
        raise IntensityError(f"The built-in series of zone {zone} is not on an even grid.")
    estimated = group["estimated_share"].to_numpy(np.float64, copy=True)
    missing = ~(values > 0)
    if missing.any():
        # 0 g/kWh (Ontario's direct figure in two nights) is read as a hole: it would make any
        # amount of work there free.
        known = np.flatnonzero(~missing)
        edges = np.r_[-1, known, len(values)]
        if np.diff(edges).max() * steps[0] > MAX_HOLE_S + steps[0]:
            raise IntensityError(f"The built-in series of zone {zone} has a hole of over 3 h.")
        values = np.interp(np.arange(len(values)), known, values[known])
        estimated[missing] = 1.0
    return ZoneSeries(
        zone=zone,
        basis=basis,
        start_s=int(start_s[0]),
        step_s=int(steps[0]),
        g_per_kwh=values,
        estimated_share=estimated,
    )


def intensity_by_region(series: Sequence[ZoneSeries], time_s: np.ndarray) -> np.ndarray:
    """Intensity in g/kWh, shape (turns, regions), for the epoch seconds ``time_s`` (turns,)."""
    intensity = np.empty((len(time_s), len(series)))
    for number, zone_series in enumerate(series):
        intensity[:, number] = zone_series.at(time_s)
    return intensity
