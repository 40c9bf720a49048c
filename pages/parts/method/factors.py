"""The factors of the present scenario as tables, each row with where it is from."""

from __future__ import annotations

import re
from functools import lru_cache

import pandas as pd

from carbonrouter_core.fleet.catalog import Catalog
from carbonrouter_core.paths import data_path
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.report.sources import built_in_sources
from pages.parts.method import sections


def from_table(name: str) -> str:
    """Where a built-in table is from, in a line."""
    (source,) = (source for source in built_in_sources() if source.table == name)
    return f"Table data/{name}, {source.years}; licence: {source.licence}."


def sources() -> pd.DataFrame:
    """All built-in tables with the source, years, licence and attribution of each."""
    return pd.DataFrame(
        [
            {
                "Table": source.table,
                "What": source.what,
                "Source": source.source,
                "Years": source.years,
                "Licence": source.licence,
                "Attribution": source.attribution,
            }
            for source in built_in_sources()
        ]
    )


@lru_cache(maxsize=1)
def _readme() -> dict[str, str]:
    """The sections of data/README.md by title, in words: without tables."""
    text = data_path("README.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    return {
        title: re.sub(r"^\|.*\n?", "", sections.without_links_inside(body), flags=re.M).strip()
        for title, _, body in (part.partition("\n") for part in parts)
    }


def background(title: str) -> str:
    """What data/README.md says of the source and method of a table."""
    return _readme()[title]


def models(prepared: Prepared, catalog: Catalog) -> pd.DataFrame:
    """The models of the scenario."""
    return pd.DataFrame(
        [
            {
                "Model": model.model,
                "N, 10⁹ active": model.active_params_b,
                "L": model.layers,
                "G": model.global_layers,
                "W, tokens": "all see all"
                if model.global_layers == model.layers
                else f"{model.window_tokens:,.0f}",
                "d": model.attention_dim,
                "v, B/token": model.kv_bytes_per_token,
                "Weights, GB": model.weight_bytes / 1e9,
                "Context, tokens": model.context_tokens,
                "MMLU-Pro, %": model.mmlu_pro_percent,
                "Accuracy from": model.quality_source,
            }
            for model in (catalog.models[name] for name in prepared.scenario.models)
        ]
    )


def gpus(prepared: Prepared, catalog: Catalog) -> pd.DataFrame:
    """The GPU types of the scenario."""
    return pd.DataFrame(
        [
            {
                "GPU type": gpu.gpu,
                "Memory, GB": gpu.memory_gb,
                "Bandwidth, GB/s": gpu.bandwidth_gb_s,
                "TDP, W": gpu.tdp_w,
                "Embodied, kg CO2e": gpu.embodied_kgco2e,
                "Embodied from": gpu.embodied_source,
                "ε, nJ/B": gpu.context_nj_per_byte,
                "ε from": gpu.context_source,
            }
            for gpu in (catalog.gpus[name] for name in prepared.scenario.gpus)
        ]
    )


def energy(prepared: Prepared, catalog: Catalog) -> pd.DataFrame:
    """Energy and time of each pair of model and GPU type, at the batch of this trace."""
    rows = []
    for replica in prepared.deployments.replicas:
        curve = catalog.energy[replica.model, replica.gpu]
        rows.append(
            {
                "Model": replica.model,
                "GPU type": replica.gpu,
                "g, GPUs": replica.n_gpus,
                "B": round(replica.batch, 2),
                "e_d, J/token": replica.decode_j_per_token,
                "t_itl, ms": replica.inter_token_ms,
                "e_p, J/token": curve.prefill_j_per_token,
                "t_p, ms/token": curve.prefill_ms_per_token,
                "Decoding is": replica.basis
                + (", extrapolated below the smallest batch" if replica.extrapolated else ""),
                "Prefill is": "scaled by parameters",
            }
        )
    return pd.DataFrame(rows)


def sites(prepared: Prepared) -> pd.DataFrame:
    """PUE and carbon intensity of each region, and where they are from."""
    overrides = prepared.scenario.pue_overrides
    mean = prepared.intensity.mean(axis=0)
    rows = []
    for i, (region, grid) in enumerate(
        zip(prepared.deployments.regions, prepared.intensity_sources, strict=True)
    ):
        own = region.region in overrides
        rows.append(
            {
                "Region": region.region,
                "City": region.city,
                "PUE": float(prepared.deployments.fleet.pue[i]),
                "PUE from": "set in the scenario"
                if own
                else f"assumed: {region.pue_source or 'none given'}"
                if region.pue_assumed
                else region.pue_source,
                "Zone": grid.zone,
                "Mean at the turns, g/kWh": float(mean[i]),
                "Estimated, %": None
                if grid.estimated_share is None
                else 100 * grid.estimated_share,
                "Intensity is": f"{grid.basis}, {grid.kind}, {grid.granularity}",
                "Covers": f"{grid.first_utc[:10]} to {grid.end_utc[:10]}",
                "Intensity from": grid.source,
                "Licence": grid.licence,
            }
        )
    return pd.DataFrame(rows)


def round_trips(prepared: Prepared, catalog: Catalog) -> pd.DataFrame:
    """Round trips from each user region to each site."""
    city = {name: region.city for name, region in catalog.regions.items()}
    return pd.DataFrame(
        [
            {
                "User in": city[user],
                "Site": region.city,
                "RTT, ms": float(prepared.deployments.fleet.rtt_ms[u, r]),
                "Basis": catalog.rtt_basis[user, region.region],
            }
            for u, user in enumerate(prepared.deployments.user_regions)
            for r, region in enumerate(prepared.deployments.regions)
        ]
    )
