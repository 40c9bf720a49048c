"""The catalog's CSV tables: their columns, and what a row must satisfy.

The built-in tables are in ``data/`` (see ``data/README.md``); a user's tables have the same
columns. A wrong row is an error that names file and line.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from carbonrouter_core.errors import CatalogError
from carbonrouter_core.fleet.catalog import (
    ASSUMED_CONTEXT_NJ_PER_BYTE,
    ASSUMED_PUE,
    BASES,
    SCALED,
    Catalog,
    EnergyCurve,
    Gpu,
    Model,
    Region,
    pair_name,
)
from carbonrouter_core.paths import data_path
from carbonrouter_core.reading.tables import Column, read_table

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
    Column("context_nj_per_byte", "number", "reading the KV cache", "nJ/B", TINY, 1e3, True),
    Column("context_source", "text", "where the energy of reading is from", optional=True),
    Column("embodied_source", "text", "where the embodied carbon is from", optional=True),
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
    Column("basis", "text", "how the point was obtained: " + ", ".join(BASES)),
    Column("scaled_from", "text", "GPU type that scaled points are from", optional=True),
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


def read_catalog(
    models: Path | None = None,
    gpus: Path | None = None,
    regions: Path | None = None,
    energy_points: Path | None = None,
    region_rtt_ms: Path | None = None,
) -> Catalog:
    """The catalog of the built-in tables, each replaced by the CSV given for it.

    The user's own rows and sites are added by :func:`.sites.load_catalog`.

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
    model_by_name = {model.model: model for model in read_models(models)}
    gpu_by_name = {gpu.gpu: gpu for gpu in read_gpus(gpus)}
    region_rows = _rows(regions, REGION_COLUMNS, "region")
    rtt_rows = _rows(rtt, RTT_COLUMNS, "from_region", "to_region")
    pairs = [((row["from_region"], row["to_region"]), row) for _, row in rtt_rows]
    return Catalog(
        models=MappingProxyType(model_by_name),
        gpus=MappingProxyType(gpu_by_name),
        regions=MappingProxyType({row["region"]: _region(row) for _, row in region_rows}),
        energy=MappingProxyType(
            {
                (curve.model, curve.gpu): curve
                for curve in read_energy_curves(energy, set(model_by_name), set(gpu_by_name))
            }
        ),
        rtt_ms=MappingProxyType({pair: row["rtt_ms"] for pair, row in pairs}),
        rtt_basis=MappingProxyType({pair: row["basis"] for pair, row in pairs}),
    )


def read_models(path: Path, *, own: bool = False) -> tuple[Model, ...]:
    """The models of the CSV at ``path``; ``own``: they are the user's, and keep file and line."""
    rows = _rows(path, MODEL_COLUMNS, "model")
    return tuple(_model(row, _at(path, line), own) for line, row in rows)


def read_gpus(path: Path, *, own: bool = False) -> tuple[Gpu, ...]:
    """The GPU types of the CSV at ``path``; ``own`` as in :func:`read_models`."""
    rows = _rows(path, GPU_COLUMNS, "gpu")
    return tuple(_gpu(row, _at(path, line) if own else "") for line, row in rows)


def read_energy_curves(
    path: Path, models: set[str], gpus: set[str], *, own: bool = False
) -> tuple[EnergyCurve, ...]:
    """The energy points of the CSV at ``path``, a curve for each pair of model and GPU type.

    ``models`` and ``gpus``: the names that a point may have; ``own`` as in :func:`read_models`.
    """
    points = read_table(path, ENERGY_COLUMNS, ("model", "gpu", "batch"))
    for line, point in points.iterrows():
        _check_point(point, models, gpus, _at(path, line))
    return tuple(
        _curve(group, str(model), str(gpu), _at(path, group.index[0]), own)
        for (model, gpu), group in points.groupby(["model", "gpu"], sort=False)
    )


def _at(path: Path, line: Any) -> str:
    return f"{path.name}, line {line}"


def _rows(path: Path, columns: tuple[Column, ...], *key: str) -> list[tuple[Any, dict[str, Any]]]:
    """The rows of a table, each with its line in the file."""
    table = read_table(path, columns, key)
    return list(zip(table.index, table.to_dict("records"), strict=True))


def _model(row: dict[str, Any], at: str, own: bool) -> Model:
    all_global = math.isnan(row["window_tokens"])
    layers = int(row["layers"])
    if row["active_params_b"] > row["total_params_b"]:
        raise CatalogError(f"{at}: {row['model']!r} has more active parameters than parameters.")
    if row["global_layers"] > layers:
        raise CatalogError(f"{at}: {row['model']!r} has more global layers than layers.")
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
        own_row=at if own else "",
    )


def _gpu(row: dict[str, Any], own_row: str) -> Gpu:
    assumed = math.isnan(row["context_nj_per_byte"])
    if assumed:
        row |= {"context_nj_per_byte": ASSUMED_CONTEXT_NJ_PER_BYTE, "context_source": "assumed"}
    return Gpu(**row, context_assumed=assumed, own_row=own_row)


def _region(row: dict[str, Any]) -> Region:
    assumed = math.isnan(row["pue"])
    return Region(**row | {"pue": ASSUMED_PUE if assumed else row["pue"]}, pue_assumed=assumed)


def _check_point(point: pd.Series, models: set[str], gpus: set[str], at: str) -> None:
    for kind, name, known in (("model", point["model"], models), ("gpu", point["gpu"], gpus)):
        if name not in known:
            raise CatalogError(
                f"{at}: {kind} {name!r} is not in the {kind} table; add it there first."
            )
    if point["basis"] not in BASES:
        raise CatalogError(
            f"{at}: basis is {point['basis']!r}; it must be one of {', '.join(BASES)}."
        )
    if (point["basis"] == SCALED) != bool(point["scaled_from"].strip()):
        raise CatalogError(
            f"{at}: scaled_from names a GPU type if basis is {SCALED!r}, and is empty otherwise."
        )


def _curve(group: pd.DataFrame, model: str, gpu: str, at: str, own: bool) -> EnergyCurve:
    for name in ("n_gpus", "prefill_j_per_token", "prefill_ms_per_token", "scaled_from"):
        if group[name].nunique() != 1:
            raise CatalogError(
                f"{at}: {name} of {pair_name(model, gpu)} differs between its rows; "
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
        basis=tuple(group["basis"]),
        scaled_from=str(first["scaled_from"]),
        own_row=at if own else "",
    )
