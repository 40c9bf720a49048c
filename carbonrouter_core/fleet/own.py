"""Models, GPU types and energy points that the user adds to the built-in ones.

The tables are those of ``data/`` (columns: :mod:`.tables`). An entry keeps file and line, so that
a report can say where its figures are from.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from carbonrouter_core.errors import CatalogError
from carbonrouter_core.fleet.catalog import (
    Catalog,
    EnergyCurve,
    Gpu,
    Model,
    OwnEntry,
    does_not_fit,
)
from carbonrouter_core.fleet.tables import (
    ENERGY_COLUMNS,
    GPU_COLUMNS,
    MODEL_COLUMNS,
    read_catalog,
    read_energy_curves,
    read_gpus,
    read_models,
)
from carbonrouter_core.paths import data_path
from carbonrouter_core.units import MS_PER_S

Entry = Model | Gpu | EnergyCurve

KINDS: dict[str, type[Entry]] = {"model": Model, "GPU type": Gpu, "energy points": EnergyCurve}
"""What can be added, by its name in words."""
TABLES = {"models": MODEL_COLUMNS, "gpus": GPU_COLUMNS, "energy_points": ENERGY_COLUMNS}
"""The table of each kind, and its columns."""

MAX_NAME = 80
"""Characters of the name of a model or GPU type."""
MAX_POWER = 1.5
"""Power of an energy point that is still believed, as a share of the GPUs' TDP.

The built-in points reach 1.12: a TDP is no hard limit. More means a wrong unit.
"""
MIN_POWER = 0.5
"""The least power that is believed, as a share of the GPUs' idle power; built in: 2.8."""


@dataclass(frozen=True)
class Additions:
    """What the user adds to a catalog."""

    models: tuple[Model, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    energy: tuple[EnergyCurve, ...] = ()

    @classmethod
    def among(cls, entries: Iterable[Entry]) -> Additions:
        """Those of ``entries`` that the user added."""
        own = [entry for entry in entries if entry.own_row]
        return cls(
            tuple(entry for entry in own if isinstance(entry, Model)),
            tuple(entry for entry in own if isinstance(entry, Gpu)),
            tuple(entry for entry in own if isinstance(entry, EnergyCurve)),
        )

    def chosen(self, models: Collection[str], gpus: Collection[str]) -> Additions:
        """Those that a scenario with these models and GPU types uses."""
        return Additions(
            tuple(model for model in self.models if model.model in models),
            tuple(gpu for gpu in self.gpus if gpu.gpu in gpus),
            tuple(curve for curve in self.energy if curve.model in models and curve.gpu in gpus),
        )

    @property
    def all(self) -> tuple[Entry, ...]:
        """Models, then GPU types, then energy curves."""
        return (*self.models, *self.gpus, *self.energy)

    @property
    def lacking(self) -> tuple[str, ...]:
        """Which models and GPU types have no energy points of the user, so cannot be used yet."""
        known = {name for curve in self.energy for name in (curve.model, curve.gpu)}
        return tuple(
            f"{entry.name} has no energy points yet; it can serve nothing until you add some."
            for entry in self.all[: len(self.models) + len(self.gpus)]
            if entry.name not in known
        )

    @property
    def entries(self) -> tuple[OwnEntry, ...]:
        """What a report says of each."""
        return tuple(
            OwnEntry(kind_of(entry), entry.name, entry.own_row, sha256_of(entry))
            for entry in self.all
        )


def additions_of(catalog: Catalog) -> Additions:
    """What the user added to ``catalog``."""
    return Additions.among(
        [*catalog.models.values(), *catalog.gpus.values(), *catalog.energy.values()]
    )


def kind_of(entry: Entry) -> str:
    """The kind of an entry, in words: one of :data:`KINDS`."""
    return next(kind for kind, type_ in KINDS.items() if isinstance(entry, type_))


# --- Reading and checking ---------------------------------------------------------------------


def read_additions(
    catalog: Catalog,
    models: Path | None = None,
    gpus: Path | None = None,
    energy_points: Path | None = None,
) -> Additions:
    """The entries of the user's CSV tables, checked against ``catalog``, to which they are added.

    Raises :class:`CatalogError` naming file and line: for what :mod:`.tables` refuses, for a
    built-in name, for a model that does not fit its GPUs, and for a power that no GPU has.
    """
    own_models = read_models(models, own=True) if models else ()
    own_gpus = read_gpus(gpus, own=True) if gpus else ()
    builtin = read_catalog()
    for model in own_models:
        _check_name(model, builtin.models)
    for gpu in own_gpus:
        _check_name(gpu, builtin.gpus)
    catalog = with_additions(catalog, Additions(own_models, own_gpus))
    curves: tuple[EnergyCurve, ...] = ()
    if energy_points:
        curves = read_energy_curves(energy_points, set(catalog.models), set(catalog.gpus), own=True)
    for curve in curves:
        if (curve.model, curve.gpu) in builtin.energy:
            raise CatalogError(
                f"{curve.own_row}: {curve.name} has built-in energy points. Add the model or the "
                "GPU type under a name of your own, with points for that."
            )
    added = Additions(own_models, own_gpus, curves)
    catalog = with_additions(catalog, added)
    for curve in additions_of(catalog).energy:  # all: a replaced GPU type has points from before
        _check_curve(curve, catalog.models[curve.model], catalog.gpus[curve.gpu])
    return added


def _check_name(entry: Model | Gpu, builtin: Iterable[str]) -> None:
    name, kind = entry.name, kind_of(entry)
    if len(name) > MAX_NAME or not name.isprintable() or name != name.strip():
        raise CatalogError(
            f"{entry.own_row}: the name of a {kind} is 1 to {MAX_NAME} printable characters, "
            "without blanks around it."
        )
    if name.casefold() in {known.casefold() for known in builtin}:
        raise CatalogError(f"{entry.own_row}: {name!r} is a built-in {kind}; choose another name.")


def _check_curve(curve: EnergyCurve, model: Model, gpu: Gpu) -> None:
    """Points that cannot be: the model does not fit, or the power is none of these GPUs."""
    if problem := does_not_fit(model, gpu, curve.n_gpus):
        raise CatalogError(f"{curve.own_row}: {problem}")
    prefill_w = curve.prefill_j_per_token / curve.prefill_ms_per_token * MS_PER_S
    decode_w = curve.decode_j_per_token * curve.batch / curve.inter_token_ms * MS_PER_S
    low_w, high_w = MIN_POWER * gpu.idle_w, MAX_POWER * gpu.tdp_w
    for what, watts in (
        ("prefill", prefill_w),
        *((f"decode at batch {b:g}", float(w)) for b, w in zip(curve.batch, decode_w, strict=True)),
    ):
        each_w = watts / curve.n_gpus
        if not low_w <= each_w <= high_w:
            raise CatalogError(
                f"{curve.own_row}: {curve.name} comes to {each_w:,.4g} W a GPU in {what}; "
                f"with {gpu.idle_w:g} W idle and {gpu.tdp_w:g} W TDP, {low_w:,.4g} to "
                f"{high_w:,.4g} W can be. Check the units: J and ms per token."
            )


def with_additions(catalog: Catalog, added: Additions) -> Catalog:
    """``catalog`` with the user's entries behind its own; an entry of the same name is replaced."""
    if not added.all:
        return catalog
    return dataclasses.replace(
        catalog,
        models=MappingProxyType(dict(catalog.models) | {m.model: m for m in added.models}),
        gpus=MappingProxyType(dict(catalog.gpus) | {g.gpu: g for g in added.gpus}),
        energy=MappingProxyType(dict(catalog.energy) | {(c.model, c.gpu): c for c in added.energy}),
    )


# --- Text ---------------------------------------------------------------------------------------


def entry_to_json(entry: Entry) -> str:
    """An entry as JSON, for the store."""
    values = {name: _plain(value) for name, value in vars(entry).items()}
    return json.dumps(values, ensure_ascii=False)


def entry_from_json(kind: str, text: str) -> Entry:
    """The entry of :func:`entry_to_json`; ``kind`` is one of :data:`KINDS`."""
    values = json.loads(text)
    if kind == "energy points":
        for name in ("batch", "decode_j_per_token", "inter_token_ms"):
            values[name] = np.array(values[name], np.float64)
        values["basis"] = tuple(values["basis"])
    return KINDS[kind](**values)


def sha256_of(entry: Entry) -> str:
    """SHA-256 of the figures of an entry, without file and line."""
    return hashlib.sha256(
        entry_to_json(dataclasses.replace(entry, own_row="")).encode()
    ).hexdigest()


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def template_csv(table: str) -> str:
    """The header of a table (one of :data:`TABLES`) with an example to be replaced.

    The examples are the figures of a built-in model on a built-in GPU type under other names.
    The three templates make a catalog that can be run.
    """
    example = {"model": "Llama-3.1-8B", "gpu": "H100-80GB"}
    with data_path(f"{table}.csv").open(encoding="utf-8", newline="") as file:
        rows = [
            row | {name: f"my-{name}" for name in example if name in row}
            for row in csv.DictReader(file)
            if all(row.get(name, value) == value for name, value in example.items())
        ]
    text = io.StringIO()
    writer = csv.DictWriter(text, [column.name for column in TABLES[table]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
