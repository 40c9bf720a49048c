"""Where the figures of models and GPU types are from, in sentences for reports and pages."""

from __future__ import annotations

from collections.abc import Iterable

from carbonrouter_core.fleet.catalog import EnergyCurve, Gpu


def scaled_sentence(curves: Iterable[EnergyCurve]) -> str:
    """Which GPU types have scaled energy points, and from which they are scaled; empty: none."""
    pairs = dict.fromkeys((curve.gpu, curve.scaled_from) for curve in curves if curve.scaled_from)
    parts = [f"{gpu} figures are scaled from {source}" for gpu, source in pairs]
    return "; ".join(parts) + "." if parts else ""


def embodied_sentence(gpus: Iterable[Gpu]) -> str:
    """The carbon of making one GPU of each type, and where the figure is from."""
    parts = [
        f"{gpu.gpu} {gpu.embodied_kgco2e:g} kg ({gpu.embodied_source or 'no source given'})"
        for gpu in gpus
    ]
    return f"Carbon of making one GPU: {', '.join(parts)}."
