"""What can serve a turn: models, GPU types, regions, and the energy curves that join them.

:mod:`.tables` reads these from CSV tables; columns and sources are in ``data/README.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from carbonrouter_core.fleet import costs

ASSUMED_PUE = 1.20
"""PUE of a site that publishes none (docs/design.md, section 4); always shown as assumed."""
ASSUMED_CONTEXT_NJ_PER_BYTE = 0.22
"""Energy of reading a byte of KV cache on a GPU type without a figure of its own, nJ/B.

The value of HBM2e and HBM3, the higher of the built-in figures; always shown as assumed.
"""

MEASURED, INTERPOLATED, SCALED = "measured", "interpolated", "scaled"
BASES = (MEASURED, INTERPOLATED, SCALED)
"""How an energy point was obtained."""


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
    own_row: str = ""
    """File and line of the user's table that it is from; empty for a built-in model."""

    @property
    def name(self) -> str:
        """The name, as every entry of the catalog has one."""
        return self.model

    @property
    def weight_bytes(self) -> float:
        """Bytes of the weights of one replica."""
        return self.total_params_b * 1e9 * self.weight_bytes_per_param


@dataclass(frozen=True)
class Gpu:
    """A GPU type, from its datasheet; embodied carbon as ``embodied_source`` says."""

    gpu: str
    peak_tflops_bf16: float
    bandwidth_gb_s: float
    memory_gb: float
    tdp_w: float
    idle_w: float
    embodied_kgco2e: float
    context_nj_per_byte: float
    """Energy of reading one byte of KV cache while decoding, nJ/B."""
    context_source: str
    context_assumed: bool
    """Whether the table has no figure for it, and the assumed one is used."""
    embodied_source: str
    own_row: str = ""
    """File and line of the user's table that it is from; empty for a built-in GPU type."""

    @property
    def name(self) -> str:
        """The name, as every entry of the catalog has one."""
        return self.gpu


@dataclass(frozen=True)
class Region:
    """A site: its place, its grid zone, and its power usage effectiveness (PUE)."""

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
        """Hours from UTC by longitude (docs/design.md, section 6), without daylight saving."""
        return round(self.longitude / 15)


@dataclass(frozen=True)
class EnergyCurve:
    """Energy and time of one model on one GPU type; arrays have one value per batch."""

    model: str
    gpu: str
    n_gpus: int
    batch: np.ndarray
    prefill_j_per_token: float
    prefill_ms_per_token: float
    decode_j_per_token: np.ndarray
    inter_token_ms: np.ndarray
    basis: tuple[str, ...]
    """How each point was obtained: one of :data:`BASES`."""
    scaled_from: str
    """The GPU type whose points these are scaled from; empty where they are not scaled."""
    own_row: str = ""
    """File and first line of the user's table that it is from; empty for a built-in curve."""

    @property
    def name(self) -> str:
        """The pair of model and GPU type, in words."""
        return pair_name(self.model, self.gpu)

    def basis_at(self, batch: float) -> str:
        """How the decode figures at ``batch`` were obtained, in words."""
        if self.scaled_from:
            return f"scaled from {self.scaled_from}"
        at_point = dict(zip(self.batch.tolist(), self.basis, strict=True)).get(batch)
        return "interpolated: not run at this batch" if at_point == INTERPOLATED else MEASURED


def pair_name(model: str, gpu: str) -> str:
    """A pair of model and GPU type, in words."""
    return f"{model} on {gpu}"


def does_not_fit(model: Model, gpu: Gpu, n_gpus: int) -> str:
    """Why a replica does not hold the weights of ``model``; empty where it does."""
    if costs.kv_memory_bytes(n_gpus, gpu.memory_gb, model.weight_bytes) > 0:
        return ""
    return (
        f"{model.model} does not fit on {n_gpus} × {gpu.gpu}: its weights take "
        f"{model.weight_bytes / 1e9:.0f} GB of {n_gpus * gpu.memory_gb:.0f} GB. "
        "Choose another GPU type, more GPUs a replica, or leave the model out."
    )


class OwnEntry(NamedTuple):
    """An entry of the catalog that the user added: what a report says of it."""

    kind: str
    """One of :data:`.own.KINDS`."""
    name: str
    row: str
    """File and line."""
    sha256: str
    """Of its figures alone: equal figures have equal hashes, from any file."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name} ({self.row}, SHA-256 {self.sha256[:12]})"


@dataclass(frozen=True)
class Catalog:
    """All that a scenario can choose from, in table order.

    Attributes
    ----------
    models
        Models by name.
    gpus
        GPU types by name.
    regions
        Regions by name.
    energy
        Energy and time by model and GPU type: in J and ms per token, by batch.
    rtt_ms
        Round-trip time in ms by region of the user and region that serves.
    rtt_basis
        How each round-trip time was obtained.
    """

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
        return _catalog, tuple(dict(getattr(self, spec.name)) for spec in fields(self))


def _catalog(*tables: dict[Any, Any]) -> Catalog:
    return Catalog(*map(MappingProxyType, tables))
