"""Tables as grid operators and data services publish them: one entry of a list each.

To add one: an entry in :data:`TABLES`. docs/grid-data.md lists them from here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath

from carbonrouter_core.grid.importers.base import (
    Fact,
    IntensityImporter,
    Rows,
    header,
    text_columns,
)
from carbonrouter_core.grid.importers.clock import with_clock
from carbonrouter_core.progress import Progress
from carbonrouter_core.reading.files import Source
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.reading.numbers import plain_name, unit_in
from carbonrouter_core.scenario import BASES

FORMAT = "the format"


@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """What the columns of a published table mean, and what is true of all its rows.

    Column names are in lower case, with CO2 in plain digits; of several, the first that the file
    has is taken. ``time``: times; ``clock``: the hour beside a column that has the date only;
    ``values``: patterns of columns of intensity, by ``lifecycle``, ``direct``, or ``value`` where
    the name does not say; ``basis_column``: says it row by row; ``needed``: columns that must be
    there too; ``zone_names``: our zones by theirs; ``only``: the rows to take, by column;
    ``duration``: length of the interval as HH:MM:SS. ``timezone`` is of times without an offset.
    ``basis`` None: it must be said by the user, or stand in the name of the file; ``kind`` None:
    it may be average or marginal, and average is assumed.
    """

    id: str
    label: str
    time: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]
    unit: str
    kind: str | None = "average"
    basis: str | None = None
    basis_column: str = ""
    clock: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    zone: tuple[str, ...] = ()
    zone_is: str | None = None
    zone_names: Mapping[str, str] = field(default_factory=dict)
    forecast: tuple[str, ...] = ()
    estimated: tuple[str, ...] = ()
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    duration: str = ""
    timezone: str = "UTC"
    interval_end: bool = False
    source: str
    licence: str

    def columns(self, names: Sequence[str]) -> dict[str, str]:
        """The file's column for each of ours that it has; none if it is of another format."""
        plain = {plain_name(name).strip(): name for name in reversed(names)}

        def first(wanted: Sequence[str]) -> str | None:
            return next((plain[name] for name in wanted if name and name in plain), None)

        columns: dict[str, str | None] = {
            "time": first(self.time),
            "clock": first(self.clock),
            "zone": first(self.zone),
            "forecast": first(self.forecast),
            "estimated": first(self.estimated),
            "basis": first((self.basis_column,)),
            "duration": first((self.duration,)),
        }
        for meaning, patterns in self.values.items():
            columns[meaning] = next(
                (name for pattern in patterns for key, name in plain.items()
                 if re.fullmatch(pattern, key)), None
            )  # fmt: skip
        for name in self.only:
            columns[f"only {name}"] = first((name,))
        present = {ours: name for ours, name in columns.items() if name is not None}
        there = (
            "time" in present
            and self.values.keys() & present.keys()
            and all(name in plain for name in self.needed)
        )
        return present if there else {}

    @property
    def says(self) -> str:
        """What a file of this format says of itself, and what the user has to say."""
        zone = self.zone_is or ("zone" if self.zone else "**zone to be said**")
        bases = " and ".join(basis for basis in ("lifecycle", "direct") if basis in self.values)
        basis = bases or self.basis or "**basis to be said**"
        if self.basis_column:
            basis = f"basis row by row (else {self.basis})"
        times = f"times in {self.timezone} unless they say their offset"
        return f"{zone}; {basis}; {self.unit} unless the column says another; {times}"

    def importer(self) -> IntensityImporter:
        """The importer of this format."""
        return IntensityImporter(
            id=self.id,
            label=self.label,
            recognise=partial(_recognise, self),
            read=partial(_read, self),
        )


def _recognise(table: PublishedTable, source: Source) -> str | None:
    columns = table.columns(header(source))
    if not columns:
        return None
    names = [columns[name] for name in ("time", "zone", *table.values) if name in columns]
    return f"it has the columns {', '.join(names)}"


def _read(table: PublishedTable, source: Source, findings: Findings, progress: Progress) -> Rows:
    columns = table.columns(header(source))
    if not columns:
        raise source.error(
            f"this is no {table.label}: it needs a column {' or '.join(table.time)} and one of "
            "intensity"
        )
    frame = text_columns(source, columns, findings, progress)
    for name, wanted in table.only.items():
        if f"only {name}" in frame:
            frame = frame[frame[f"only {name}"].str.lower().isin(wanted)].reset_index(drop=True)
    value = columns[next(name for name in table.values if name in columns)]
    facts = {
        "timezone": Fact(table.timezone, FORMAT),
        "interval_end": Fact(table.interval_end, FORMAT),
        "unit": Fact(*((u, "the column name") if (u := unit_in(value)) else (table.unit, FORMAT))),
        "source": Fact(table.source, FORMAT),
        "licence": Fact(table.licence, f"{FORMAT}; check the terms your file came under"),
        "column": Fact(value, FORMAT),
    }
    if table.kind is not None:
        facts["kind"] = Fact(table.kind, FORMAT)
    if "clock" in columns:
        frame, _ = with_clock(frame)
    if "basis" in columns:  # it says so row by row
        said = frame["basis"].str.lower().fillna(table.basis)
        for basis in BASES:
            frame[basis] = frame["value"].where(said == basis)
        frame = frame.drop(columns="value")
    if "value" in frame and (of_all := table.basis or _basis_in(source.name)):
        facts["basis"] = Fact(of_all, FORMAT if table.basis else "the name of the file")
    if "duration" in columns and (step_s := _seconds(frame["duration"].dropna().unique())):
        facts["step_s"] = Fact(step_s, f"the column {columns['duration']}")
    if table.zone_is is not None:
        facts["zone"] = Fact(table.zone_is, FORMAT)
    if table.zone_names:
        facts["zone_names"] = Fact(table.zone_names, FORMAT)
    return Rows(frame, facts)


def _basis_in(name: str) -> str | None:
    """The basis that the name of a file says, such as CISO_direct_emissions.csv."""
    words = re.findall(r"[a-z]+", PurePath(name).name.lower())
    said = {basis for basis in ("lifecycle", "direct") if basis in words}
    return said.pop() if len(said) == 1 else None


def _seconds(durations: Sequence[str]) -> int | None:
    """Seconds of a duration that is the same in all rows."""
    if len(durations) != 1 or not re.fullmatch(r"\d\d?:\d\d:\d\d", durations[0]):
        return None
    hours, minutes, seconds = map(int, durations[0].split(":"))
    return 3600 * hours + 60 * minutes + seconds or None


TABLES = (
    PublishedTable(
        id="electricity-maps",
        label="Electricity Maps CSV",
        time=("datetime (utc)",),
        zone=("zone id",),
        needed=("zone id",),
        values={
            "direct": (r".*carbon intensity.*\(direct\)",),
            "lifecycle": (r".*carbon intensity.*\((lca|life cycle|lifecycle)\)",),
        },
        estimated=("data estimated",),
        unit="g/kWh",
        source="Electricity Maps",
        licence="ODbL 1.0",
    ),
    PublishedTable(
        id="electricity-maps-older",
        label="Electricity Maps CSV of 2021 and before",
        time=("datetime",),
        zone=("zone_name", "zone_key", "zone"),
        values={"value": ("carbon_intensity_avg",)},
        unit="g/kWh",
        basis="lifecycle",
        source="Electricity Maps",
        licence="ODbL 1.0",
    ),
    PublishedTable(
        id="electricity-maps-api",
        label="Electricity Maps API (JSON)",
        time=("datetime",),
        zone=("zone", "countrycode"),
        values={"value": ("carbonintensity", "data.carbonintensity")},
        basis_column="emissionfactortype",
        estimated=("isestimated",),
        unit="g/kWh",
        basis="lifecycle",
        source="Electricity Maps",
        licence="terms of the Electricity Maps API",
    ),
    PublishedTable(
        id="energy-charts",
        label="Energy-Charts API (JSON)",
        time=("unix_seconds",),
        values={"value": ("co2eq",)},
        forecast=("co2eq_forecast",),
        unit="g/kWh",
        source="Energy-Charts, Fraunhofer ISE",
        licence="CC BY 4.0",
    ),
    PublishedTable(
        id="rte-eco2mix",
        label="RTE éCO2mix (RTE and ODRÉ, CSV or JSON)",
        time=("date et heure", "date - heure", "date_heure", "date"),
        clock=("heure", "heures"),
        values={"value": (r"taux de co2.*", "taux_co2")},
        timezone="Europe/Paris",
        unit="g/kWh",
        basis="direct",
        zone_is="FR",
        source="RTE éCO2mix",
        licence="Licence Ouverte 2.0",
    ),
    PublishedTable(
        id="energi-data-service",
        label="Energi Data Service, Energinet (CSV or JSON)",
        time=("minutes5utc", "hourutc", "timeutc"),
        zone=("pricearea",),
        zone_names={"DK1": "DK-DK1", "DK2": "DK-DK2"},
        values={"value": ("co2emission", r"co2perkwh")},
        unit="g/kWh",
        basis="direct",
        source="Energi Data Service, Energinet",
        licence="terms of Energi Data Service",
    ),
    PublishedTable(
        id="carboncast",
        label="CarbonCast (CSV)",
        time=("utc time", "utc_time"),
        values={"value": ("carbon_intensity",)},
        unit="g/kWh",
        source="CarbonCast",
        licence="not stated",
    ),
    PublishedTable(
        id="carbon-aware-sdk",
        label="Carbon Aware SDK (JSON: data files and command line)",
        time=("time",),
        zone=("location",),
        needed=("rating",),
        values={"value": ("rating",)},
        duration="duration",
        unit="g/kWh",
        kind=None,
        source="Carbon Aware SDK",
        licence="that of its data source",
    ),
    PublishedTable(
        id="gridstatus",
        label="gridstatus (CSV or JSON)",
        time=("interval_start_utc",),
        zone=("respondent", "balancing_authority", "location"),
        values={"value": (r"(co2_)?(carbon|emissions?)_(intensity|rate)_.*", "carbon_intensity",
                          r"co2_emissions_intensity.*")},
        unit="kg/MWh",
        basis="direct",
        source="gridstatus",
        licence="terms of gridstatus and of the grid operator",
    ),
    PublishedTable(
        id="neso",
        label="National Energy System Operator, historic generation mix (CSV or JSON)",
        time=("datetime",),
        needed=("low_carbon",),
        values={"value": ("carbon_intensity",)},
        unit="g/kWh",
        basis="direct",
        zone_is="GB",
        source="National Energy System Operator",
        licence="NESO Open Data Licence",
    ),
    PublishedTable(
        id="open-grid-emissions",
        label="Open Grid Emissions (CSV)",
        time=("datetime_utc",),
        zone=("ba_code",),
        values={
            "value": (
                r"consumed_co2e_rate_(lb|kg)_per_mwh_for_electricity",
                r"consumed_co2_rate_(lb|kg)_per_mwh_for_electricity",
                r"generated_co2e_rate_(lb|kg)_per_mwh_for_electricity",
                r"generated_co2_rate_(lb|kg)_per_mwh_for_electricity",
            )
        },
        only={"fuel_category": ("total",)},
        unit="lb/MWh",
        basis="direct",
        source="Open Grid Emissions",
        licence="CC BY 4.0",
    ),
)  # fmt: skip
"""All published tables, in the order in which they are tried."""

IMPORTERS = tuple(table.importer() for table in TABLES)
