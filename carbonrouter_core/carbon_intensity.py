"""Carbon intensity of the grid: series by zone, checked, and looked up at any time.

Times are seconds since 1970-01-01 UTC. A series has one resolution; between the midpoints
of intervals of three hours or more it is read linearly, finer series hold a step
(DESIGN §6). A time that a series does not cover is an error, never a default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

import numpy as np
import pandas as pd

from carbonrouter_core.compiled import Array, jit
from carbonrouter_core.errors import IntensityError
from carbonrouter_core.paths import data_path
from carbonrouter_core.tables import unknown
from carbonrouter_core.units import S_PER_HOUR

LINEAR_FROM_S = 3 * S_PER_HOUR
"""Intervals this long or longer are means of a changing value and are read linearly."""

MAX_HOLE_S = 3 * S_PER_HOUR
"""A hole up to this long is filled linearly and counted as estimated."""

BASES = ("lifecycle", "direct")

BUILTIN_SOURCE = (
    "Electricity Maps (ODbL), 3-hour means: 2021-2024 as published with SustainCluster, "
    "14 further zones of 2022 as published with decarbonization-potential"
)


@dataclass(frozen=True)
class ZoneSeries:
    """Carbon intensity of one zone on an even time grid.

    ``g_per_kwh`` and ``estimated_share`` have one value an interval; interval ``i`` runs
    from ``start_s + i * step_s`` (epoch seconds, UTC) for ``step_s`` seconds.
    """

    zone: str
    basis: str
    start_s: int
    step_s: int
    g_per_kwh: np.ndarray
    estimated_share: np.ndarray
    source: str = BUILTIN_SOURCE

    @property
    def end_s(self) -> int:
        """End of the last interval."""
        return self.start_s + self.step_s * len(self.g_per_kwh)

    @property
    def linear(self) -> bool:
        """Whether the series is read linearly between midpoints."""
        return self.step_s >= LINEAR_FROM_S

    def at(self, time_s: np.ndarray) -> np.ndarray:
        """Intensity in g/kWh at each of ``time_s`` (epoch seconds, any shape).

        Within half an interval of the series' ends the end value holds.
        Raises :class:`IntensityError` for a time outside the series.
        """
        time_s = np.asarray(time_s, dtype=np.float64)
        if time_s.size:
            self.require(float(time_s.min()), float(time_s.max()))
        flat = np.ascontiguousarray(time_s).ravel()
        out = np.empty_like(flat)
        _look_up(flat, float(self.start_s), float(self.step_s), self.g_per_kwh, self.linear, out)
        return out.reshape(time_s.shape)

    def require(self, first_s: float, last_s: float) -> None:
        """Raise :class:`IntensityError` unless the series covers ``first_s`` to ``last_s``."""
        if not (self.start_s <= first_s and last_s < self.end_s):
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


@jit
def _look_up(
    time_s: Array, start_s: float, step_s: float, values: Array, linear: bool, out: Array
) -> None:
    last = values.size - 1
    per_s = 1.0 / step_s
    for i in range(time_s.size):
        position = (time_s[i] - start_s) * per_s
        if not linear:
            out[i] = values[min(int(position), last)]
            continue
        position -= 0.5  # a mean stands for the middle of its interval
        if position <= 0.0:
            out[i] = values[0]
        elif position >= last:
            out[i] = values[last]
        else:
            left = int(position)
            share = position - left
            out[i] = values[left] * (1.0 - share) + values[left + 1] * share


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


def series_for(zones: Iterable[str], basis: str) -> tuple[ZoneSeries, ...]:
    """The series of each zone in turn; an error with the nearest names for an unknown one."""
    known = builtin_series(basis)
    for zone in zones:
        if zone not in known:
            if basis == "direct" and zone in builtin_series("lifecycle"):
                raise IntensityError(
                    f"Zone {zone} has lifecycle intensity only; choose the lifecycle basis "
                    "or leave its region out."
                )
            raise IntensityError(unknown("zone", zone, known.keys()))
    return tuple(known[zone] for zone in zones)


def intensity_by_region(series: Iterable[ZoneSeries], time_s: np.ndarray) -> np.ndarray:
    """Intensity in g/kWh, shape (turns, regions), for the epoch seconds ``time_s`` (turns,)."""
    return np.ascontiguousarray(np.stack([one.at(time_s) for one in series], axis=1))
