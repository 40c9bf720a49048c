"""What can serve a turn: models, GPU types, regions, and the energy curves that join them.

The built-in tables are in ``data/`` (columns and sources in ``data/README.md``). A user's
tables have the same columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from carbonrouter_core.errors import CatalogError
from carbonrouter_core.paths import data_path
from carbonrouter_core.reading.tables import Column, read_table

ASSUMED_PUE = 1.20
"""PUE of a site that publishes none (docs/design.md, section 4); always shown as assumed."""

TINY = 1e-12

MODEL_COLUMNS = (
    Column("model", "text", "name of the model"),
    Column("hf_id", "text", "identifier on Hugging Face", optional=True),
    Column("total_params_b", "number", "parameters", "10^9", TINY, 1e5),
    Column("active_params_b", "number", "parameters used per token", "10^9", TINY, 1e5),
    Column("layers", "whole", "layers", "", 1, 1e4),
    Column("global_layers", "whole", "layers that see the whole context", "", 0, 1e4),
    Column("window_tokens", "whole", "window of the other layers", "tokens", 1, 1e9, True),
    Column("attention_dim", "whole", "heads x head dimension", "", 1, 1e6),
    Column("kv_bytes_per_token", "number", "KV cache of one token", "B", 1, 1e9),
    Column("weight_bytes_per_param", "number", "precision of the weights", "B", 0.1, 8),
    Column("context_tokens", "whole", "context window", "tokens", 1, 1e9),
    Column("mmlu_pro_percent", "number", "published accuracy on MMLU-Pro", "%", 0.1, 99.9),
    Column("quality_source", "text", "where the accuracy is published", optional=True),
)
GPU_COLUMNS = (
    Column("gpu", "text", "name of the GPU type"),
    Column("peak_tflops_bf16", "number", "dense bf16 peak", "TFLOP/s", TINY, 1e6),
    Column("bandwidth_gb_s", "number", "memory bandwidth", "10^9 B/s", TINY, 1e6),
    Column("memory_gb", "number", "memory", "10^9 B", TINY, 1e5),
    Column("tdp_w", "number", "thermal design power", "W", 1, 1e5),
    Column("idle_w", "number", "idle power", "W", 0, 1e5),
    Column("embodied_kgco2e", "number", "carbon of making one GPU", "kgCO2e", 0, 1e5),
)
ENERGY_COLUMNS = (
    Column("model", "text", "name of the model"),
    Column("gpu", "text", "name of the GPU type"),
    Column("n_gpus", "whole", "GPUs of one replica", "", 1, 1024),
    Column("batch", "number", "sequences decoding together", "", 1, 1e5),
    Column("prefill_j_per_token", "number", "GPU energy of prefill", "J/token", TINY, 1e4),
    Column("prefill_ms_per_token", "number", "time of prefill", "ms/token", TINY, 1e4),
    Column("decode_j_per_token", "number", "GPU energy of decode", "J/token", TINY, 1e5),
    Column("inter_token_ms", "number", "time between two output tokens", "ms", TINY, 1e5),
    Column("basis", "text", "measured, or scaled from what"),
)
REGION_COLUMNS = (
    Column("region", "text", "cloud region"),
    Column("city", "text", "city of the site"),
    Column("zone", "text", "grid zone of the site"),
    Column("latitude", "number", "latitude", "degrees", -90, 90),
    Column("longitude", "number", "longitude", "degrees", -180, 180),
    Column("pue", "number", "power usage effectiveness", "", 1, 5, True),
    Column("pue_source", "text", "where the PUE is published", optional=True),
)
RTT_COLUMNS = (
    Column("from_region", "text", "region of the user"),
    Column("to_region", "text", "region of the site"),
    Column("rtt_ms", "number", "round trip", "ms", 0, 1e4),
    Column("basis", "text", "measured, or from what"),
)


@dataclass(frozen=True)
class Model:
    """A language model; sizes and precision as published."""

    model: str
    total_params_b: float
    active_params_b: float
    layers: int
    global_layers: int
    window_tokens: float
    """Window of the layers that are not global; infinite where all are."""
    attention_dim: int
    kv_bytes_per_token: float
    weight_bytes_per_param: float
    context_tokens: int
    mmlu_pro_percent: float
    quality_source: str

    @property
    def weight_bytes(self) -> float:
        """Bytes of the weights of one replica."""
        return self.total_params_b * 1e9 * self.weight_bytes_per_param


@dataclass(frozen=True)
class Gpu:
    """A GPU type, from its datasheet; embodied carbon from published footprints."""

    gpu: str
    peak_tflops_bf16: float
    bandwidth_gb_s: float
    memory_gb: float
    tdp_w: float
    idle_w: float
    embodied_kgco2e: float


@dataclass(frozen=True)
class Region:
    """A site: where it stands, on which grid, and how much of its power reaches the servers."""

    region: str
    city: str
    zone: str
    latitude: float
    longitude: float
    pue: float
    pue_source: str
    pue_assumed: bool

    @property
    def utc_offset_h(self) -> int:
        """Hours from UTC by longitude (docs/design.md, section 6); no daylight saving."""
        return round(self.longitude / 15)


@dataclass(frozen=True)
class EnergyCurve:
    """Energy and time of one model on one GPU type; arrays run over the measured batches."""

    model: str
    gpu: str
    n_gpus: int
    batch: np.ndarray
    prefill_j_per_token: float
    prefill_ms_per_token: float
    decode_j_per_token: np.ndarray
    inter_token_ms: np.ndarray
    basis: str


@dataclass(frozen=True)
class Catalog:
    """All that a scenario can choose from, by name, in table order."""

    models: Mapping[str, Model]
    gpus: Mapping[str, Gpu]
    regions: Mapping[str, Region]
    energy: Mapping[tuple[str, str], EnergyCurve]
    rtt_ms: Mapping[tuple[str, str], float]
    rtt_basis: Mapping[tuple[str, str], str]

    @property
    def context_windows(self) -> frozenset[int]:
        """Context windows of the models, in tokens."""
        return frozenset(model.context_tokens for model in self.models.values())

    def __reduce__(self) -> tuple[Any, ...]:
        # read-only mappings do not pickle
        return _catalog, tuple(dict(getattr(self, one.name)) for one in fields(self))


def _catalog(*tables: dict[Any, Any]) -> Catalog:
    return Catalog(*map(MappingProxyType, tables))


def read_catalog(
    models: Path | None = None,
    gpus: Path | None = None,
    regions: Path | None = None,
    energy_points: Path | None = None,
    region_rtt_ms: Path | None = None,
) -> Catalog:
    """The catalog from the built-in tables, each replaced by the CSV given for it.

    Without the user's own sites: see :func:`.sites.load_catalog`.

    Raises :class:`CatalogError` naming file and line where a table is wrong.
    """
    given = (models, gpus, regions, energy_points, region_rtt_ms)
    if not any(given):
        return _builtin()
    return _load(*(path or builtin for path, builtin in zip(given, _builtin_paths(), strict=True)))


def _builtin_paths() -> list[Path]:
    names = ("models", "gpus", "regions", "energy_points", "region_rtt_ms")
    return [data_path(f"{name}.csv") for name in names]


@lru_cache(maxsize=1)
def _builtin() -> Catalog:
    return _load(*_builtin_paths())


def _load(models: Path, gpus: Path, regions: Path, energy: Path, rtt: Path) -> Catalog:
    model_table = {row["model"]: _model(row) for row in _rows(models, MODEL_COLUMNS, "model")}
    gpu_table = {
        row["gpu"]: Gpu(**row)  # columns and fields are the same
        for row in _rows(gpus, GPU_COLUMNS, "gpu")
    }
    points = read_table(energy, ENERGY_COLUMNS, ("model", "gpu", "batch"))
    for kind, known in (("model", model_table), ("gpu", gpu_table)):
        strange = ~points[kind].isin(list(known))
        if strange.any():
            line = points.index[strange.to_numpy().argmax()]
            raise CatalogError(
                f"{energy.name}, line {line}: {kind} {points[kind][line]!r} "
                f"is not in the {kind} table; add it there first."
            )
    rtt_rows = _rows(rtt, RTT_COLUMNS, "from_region", "to_region")
    pairs = [((row["from_region"], row["to_region"]), row) for row in rtt_rows]
    return Catalog(
        models=MappingProxyType(model_table),
        gpus=MappingProxyType(gpu_table),
        regions=MappingProxyType(
            {row["region"]: _region(row) for row in _rows(regions, REGION_COLUMNS, "region")}
        ),
        energy=MappingProxyType(
            {
                (str(model), str(gpu)): _curve(energy, str(model), str(gpu), group)
                for (model, gpu), group in points.groupby(["model", "gpu"], sort=False)
            }
        ),
        rtt_ms=MappingProxyType({pair: row["rtt_ms"] for pair, row in pairs}),
        rtt_basis=MappingProxyType({pair: row["basis"] for pair, row in pairs}),
    )


def _rows(path: Path, columns: tuple[Column, ...], *key: str) -> list[dict[str, Any]]:
    return read_table(path, columns, key).to_dict("records")


def _model(row: dict[str, Any]) -> Model:
    all_global = math.isnan(row["window_tokens"])
    layers = int(row["layers"])
    if row["active_params_b"] > row["total_params_b"]:
        raise CatalogError(f"Model {row['model']!r}: more active parameters than there are.")
    if row["global_layers"] > layers:
        raise CatalogError(f"Model {row['model']!r}: more global layers than layers.")
    return Model(
        model=row["model"],
        total_params_b=row["total_params_b"],
        active_params_b=row["active_params_b"],
        layers=layers,
        global_layers=layers if all_global else int(row["global_layers"]),
        window_tokens=math.inf if all_global else row["window_tokens"],
        attention_dim=int(row["attention_dim"]),
        kv_bytes_per_token=row["kv_bytes_per_token"],
        weight_bytes_per_param=row["weight_bytes_per_param"],
        context_tokens=int(row["context_tokens"]),
        mmlu_pro_percent=row["mmlu_pro_percent"],
        quality_source=row["quality_source"],
    )


def _region(row: dict[str, Any]) -> Region:
    assumed = math.isnan(row["pue"])
    return Region(
        region=row["region"],
        city=row["city"],
        zone=row["zone"],
        latitude=row["latitude"],
        longitude=row["longitude"],
        pue=ASSUMED_PUE if assumed else row["pue"],
        pue_source=row["pue_source"],
        pue_assumed=assumed,
    )


def _curve(path: Path, model: str, gpu: str, group: pd.DataFrame) -> EnergyCurve:
    for name in ("n_gpus", "prefill_j_per_token", "prefill_ms_per_token", "basis"):
        if group[name].nunique() != 1:
            raise CatalogError(
                f"{path.name}: {name} of {model} on {gpu} differs between its rows; "
                "it is one value for all batches."
            )
    group = group.sort_values("batch")
    first = group.iloc[0]
    return EnergyCurve(
        model=model,
        gpu=gpu,
        n_gpus=int(first["n_gpus"]),
        batch=group["batch"].to_numpy(np.float64),
        prefill_j_per_token=float(first["prefill_j_per_token"]),
        prefill_ms_per_token=float(first["prefill_ms_per_token"]),
        decode_j_per_token=group["decode_j_per_token"].to_numpy(np.float64),
        inter_token_ms=group["inter_token_ms"].to_numpy(np.float64),
        basis=str(first["basis"]),
    )
