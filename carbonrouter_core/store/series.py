"""The user's carbon-intensity series in the store: one import, one name, one or more series."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from carbonrouter_core.errors import InputError, IntensityError, StoreError
from carbonrouter_core.grid.choice import OwnSeries
from carbonrouter_core.grid.series import ZoneSeries
from carbonrouter_core.grid.staging import StagedIntensity
from carbonrouter_core.scenario import Scenario
from carbonrouter_core.store.store import Store, existing_store, open_store

KIND = "intensity"
"""What the store calls these tables."""


@dataclass(frozen=True)
class StoredIntensity:
    """One import in the store: its series without their values."""

    name: str
    series: tuple[dict[str, Any], ...]
    """As in :class:`.report.SeriesSummary`, with ``start_s`` and ``intervals``."""
    report: dict[str, Any]
    created_utc: datetime

    @property
    def zones(self) -> tuple[str, ...]:
        """Zones that it has series of."""
        return tuple(dict.fromkeys(facts["zone"] for facts in self.series))


def save_intensity(staged: StagedIntensity, name: str, store: Store | None = None) -> str:
    """Store checked series under ``name``, in one transaction; returns the name as stored.

    Raises :class:`IntensityError` where the report says that they may not be stored, and
    :class:`InputError` for a name that is taken.
    """
    staged.require()
    summaries = staged.report.to_dict()["series"]
    facts = [
        summary
        | {
            "start_s": zone_series.start_s,
            "source": zone_series.source,
            "licence": zone_series.licence,
        }
        for summary, zone_series in zip(summaries, staged.series, strict=True)
    ]
    number = np.repeat(np.arange(len(staged.series)), [len(s.g_per_kwh) for s in staged.series])
    forecasts = [
        np.full(len(zone_series.g_per_kwh), np.nan)
        if zone_series.forecast_g_per_kwh is None
        else zone_series.forecast_g_per_kwh
        for zone_series in staged.series
    ]
    table = pa.table(
        {
            "series": pa.array(number, pa.int32()),
            "interval": pa.array(np.concatenate([np.arange(len(f)) for f in forecasts])),
            "g_per_kwh": pa.array(
                np.concatenate([zone_series.g_per_kwh for zone_series in staged.series])
            ),
            "estimated_share": pa.array(
                np.concatenate([zone_series.estimated_share for zone_series in staged.series])
            ),
            "forecast_g_per_kwh": pa.array(np.concatenate(forecasts)),
        }
    )
    name = name.strip()
    meta = {"series": facts, "report": staged.report.to_dict()}
    (store or open_store()).save_table(KIND, name, table, meta=meta)
    return name


def stored_intensity() -> list[StoredIntensity]:
    """The imports in the store, newest first: the order in which they go before each other.

    Raises :class:`StoreError` where the store cannot be read.
    """
    store = existing_store()
    return [] if store is None else _listed(store)


def _listed(store: Store) -> list[StoredIntensity]:
    return [
        StoredIntensity(
            name=table.name,
            series=tuple(table.meta["series"]),
            report=table.meta["report"],
            created_utc=table.created_utc,
        )
        for table in store.tables(KIND)
    ]


def load_intensity(name: str) -> tuple[ZoneSeries, ...]:
    """The series of one import."""
    store = existing_store()
    for stored in _listed(store) if store else []:
        if stored.name == name and store is not None:
            return _load(store.path, name, stored.created_utc)
    raise IntensityError(f"There is no stored carbon intensity {name!r}.")


def delete_intensity(name: str) -> None:
    """Delete an import and free its space."""
    open_store().delete_table(KIND, name)


def stored_series(zones: Iterable[str]) -> tuple[OwnSeries, str]:
    """The user's series of ``zones``, newest import first, and why they could not be read.

    Where the store cannot be read, there are none and the reason says so.
    """
    wanted = set(zones)
    try:
        store = existing_store()
        by_zone: dict[str, list[ZoneSeries]] = {}
        for stored in _listed(store) if store else []:
            if store is None or not wanted.intersection(stored.zones):
                continue
            try:
                loaded = _load(store.path, stored.name, stored.created_utc)
            except InputError:  # another process deleted it meanwhile
                continue
            for series in loaded:
                if series.zone in wanted:
                    by_zone.setdefault(series.zone, []).append(series)
    except StoreError as error:
        return {}, f"Your own carbon-intensity series could not be read: {error}"
    return by_zone, ""


def own_series_of(
    scenario: Scenario, zones: Iterable[str], given: OwnSeries | None = None
) -> tuple[OwnSeries, str]:
    """The series that go before the built-in ones, and why the store could not be read.

    ``given`` ones, or those in the store unless the scenario does without them.
    """
    if given is not None:
        return given, ""
    return stored_series(zones) if scenario.own_intensity else ({}, "")


@lru_cache(maxsize=32)
def _load(path: Path, name: str, created_utc: datetime) -> tuple[ZoneSeries, ...]:
    """The series of an import; the time it was stored at tells it from others of its name."""
    table, meta = open_store().load_table(KIND, name)
    number = table["series"].to_numpy()
    order = np.lexsort((table["interval"].to_numpy(), number))
    columns = {
        column: table[column].to_numpy()[order]
        for column in ("g_per_kwh", "estimated_share", "forecast_g_per_kwh")
    }
    edges = np.searchsorted(number[order], np.arange(len(meta["series"]) + 1))
    made = []
    for i, facts in enumerate(meta["series"]):
        rows = slice(edges[i], edges[i + 1])
        made.append(
            ZoneSeries(
                zone=facts["zone"],
                basis=facts["basis"],
                start_s=facts["start_s"],
                step_s=facts["step_s"],
                g_per_kwh=columns["g_per_kwh"][rows],
                estimated_share=columns["estimated_share"][rows],
                source=facts["source"],
                licence=facts["licence"],
                kind=facts["kind"],
                name=name,
                forecast_g_per_kwh=(
                    columns["forecast_g_per_kwh"][rows] if facts["has_forecast"] else None
                ),
            )
        )
    return tuple(made)
