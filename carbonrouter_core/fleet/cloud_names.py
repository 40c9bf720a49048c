"""Names that clouds and gateways write for regions and models, and which of ours each is.

Regions: AWS, Azure and Google as in ``data/cloud_region_names.csv``, also with an availability
zone. Models: with owner, version of the interface, spelling and precision around the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from carbonrouter_core.fleet.catalog import Region
from carbonrouter_core.paths import data_path
from carbonrouter_core.reading.tables import Column, read_table

CLOUD_REGION_COLUMNS = (
    Column("provider", "text", "aws, azure or gcp"),
    Column("provider_region", "text", "name of the region"),
    Column("city", "text", "city of the region"),
    Column("zone", "text", "grid zone of the region"),
    Column("nearest_product_region", "text", "nearest of the first 22 sites"),
    Column("distance_km", "number", "great circle to it", "km", 0, 21_000),
    Column("same_zone", "text", "whether it is on the same grid"),
    Column("product_region_of_zone", "text", "that of its grid", optional=True),
    Column("pue", "number", "as published", "", 1, 5, True),
    Column("pue_year", "number", "of the PUE", "", 2000, 2100, True),
    Column("source", "text", "where the row is from"),
)
PROVIDERS = {"aws": "AWS", "azure": "Azure", "gcp": "Google"}


@dataclass(frozen=True)
class CloudRegion:
    """A public region of a cloud: provider, name, city and grid zone."""

    provider: str
    name: str
    city: str
    zone: str


@lru_cache(maxsize=1)
def cloud_regions() -> tuple[CloudRegion, ...]:
    """Public regions of AWS, Azure and Google in zones with carbon data."""
    path = data_path("cloud_region_names.csv")
    table = read_table(path, CLOUD_REGION_COLUMNS, ("provider", "provider_region"))
    rows = table[["provider", "provider_region", "city", "zone"]].itertuples(index=False)
    return tuple(CloudRegion(PROVIDERS[row[0]], *row[1:]) for row in rows)


def cloud_names_of(zone: str) -> tuple[str, ...]:
    """Names of cloud regions on the grid of a zone, with provider and city, for a list."""
    return tuple(
        f"{region.provider} {region.name} ({region.city})"
        for region in cloud_regions()
        if region.zone == zone
    )


# --- Regions ---------------------------------------------------------------------------------

_PATH = re.compile(r".*/locations/([^/]+).*")
_PROVIDER = re.compile(r"^(aws|azure|gcp|google|amazon|microsoft)[-_:/. ]+")
_AVAILABILITY_ZONE = re.compile(r"(?<=\d)(-?[a-f]|-[1-3])$|(?<=[a-z])-[1-3]$")


@dataclass(frozen=True)
class RegionMatch:
    """The region that a name stands for; ``cloud``: by which name of a cloud, if it was one."""

    region: Region
    cloud: CloudRegion | None = None


def match_region(name: str, regions: Iterable[Region]) -> RegionMatch | None:
    """Which of ``regions`` a log means by ``name``; None where it is none of them.

    By our name or city; else by the name of a cloud region, which stands for the region that is on
    its grid, the one in its city first.
    """
    regions = tuple(regions)
    plain = name.strip().casefold()
    for region in regions:
        if plain in (region.region.casefold(), region.city.casefold()):
            return RegionMatch(region)
    cloud = cloud_region(name)
    if cloud is None:
        return None
    same = [region for region in regions if region.zone == cloud.zone]
    same.sort(key=lambda region: (region.region != cloud.name, region.city != cloud.city))
    return RegionMatch(same[0], cloud) if same else None


def cloud_region(name: str) -> CloudRegion | None:
    """The cloud region that ``name`` is, as AWS, Azure or Google write it; None if it is none."""
    by_name = _by_name()
    plain = _PATH.sub(r"\1", name.strip().casefold())
    plain = _PROVIDER.sub("", plain)
    for text in (plain, re.sub(r"[\s_]", "", plain), re.sub(r"[\s_]", "-", plain)):
        for spelling in (text, _AVAILABILITY_ZONE.sub("", text)):
            if spelling in by_name:
                return by_name[spelling]
    return None


@lru_cache(maxsize=1)
def _by_name() -> dict[str, CloudRegion]:
    return {region.name.casefold(): region for region in cloud_regions()}


# --- Models ----------------------------------------------------------------------------------

_OWNER = re.compile(r"^([a-z]+\.)+(?=[a-z])")
_VERSION = re.compile(
    r"([-@]v?\d+)?:\d+$|@[\w.-]+$|:(free|nitro|floor|beta|extended|latest|cloud)$"
)
_SPOKEN_POINT = re.compile(r"-?v?(\d+)p(\d+)(?=-|$)")
_FAMILY = (
    (re.compile(r"(?<=llama|gemma)-?v?(?=\d)"), "-"),
    (re.compile(r"(?<=qwen)-(?=\d)"), ""),
    (re.compile(r"(?<=llama-)(\d)-(\d)(?=-)"), r"\1.\2"),
)
"""How the families that we have are spelt: llama-3.1, gemma-3, qwen3."""
_DECORATION = frozenset(
    (
        "meta", "google", "qwen", "instruct", "it", "chat", "hf", "instant", "versatile", "turbo",
        "latest", "maas", "lite", "fast", "tput", "text", "preview", "online", "specdec", "gguf",
        "mlx", "awq", "gptq", "bnb", "exl2", "quantized", "qat", "dynamic", "2507", "128k",
    )
)  # fmt: skip
_PRECISION = re.compile(
    r"(fp|nvfp|mxfp|int|bf|w)(4|8|16)(a(4|8|16))?|w\d+a\d+|q\d(_?[k0-9])?(_?[msl])?|iq\d.*|"
    r"(4|8)bit|awq|gptq|bnb|exl2|qat|lite|[kmsl]|0|1"
)
_FULL = frozenset({"bf16", "fp16"})
_FEW_BITS = re.compile(r"4|q[2-6]|awq|gptq|lite|qat|bnb|exl2|iq")


@dataclass(frozen=True)
class ModelName:
    """What the name of a model in a log says: the plain name, and the precision of its weights.

    ``plain`` has neither owner nor decoration, such as ``llama-3.1-8b``. ``precision`` is as it
    stands in the name, empty where it says none.
    """

    plain: str
    precision: str

    @property
    def bytes_per_param(self) -> float | None:
        """About how many bytes a weight has, by the name: 0.5, 1, 2, or None."""
        if not self.precision:
            return None
        if self.precision in _FULL:
            return 2.0
        return 0.5 if _FEW_BITS.search(self.precision) else 1.0


def model_name(name: str) -> ModelName:
    """What a model is called without owner, spelling and decoration, and its precision."""
    plain = name.strip().casefold().rsplit("/", 1)[-1].replace("_", "-")
    plain = _VERSION.sub("", _OWNER.sub("", plain)).replace(":", "-").replace(" ", "-")
    plain = _SPOKEN_POINT.sub(r"-\1.\2", plain)
    for pattern, ours in _FAMILY:
        plain = pattern.sub(ours, plain)
    words, precision = [], ""
    sized = False
    for word in re.split(r"-|(?<=quantized)\.", plain):
        if sized and _PRECISION.fullmatch(word):
            precision = precision or word
        elif word and word not in _DECORATION:
            words.append(word)
        sized = sized or bool(re.fullmatch(r"a?\d+(\.\d+)?b", word))
    return ModelName("-".join(words), precision)


def match_model(name: str, models: Iterable[str]) -> str | None:
    """Which of ``models`` a log means by ``name``; None where it is none of them."""
    models = tuple(models)
    exact = name.strip().casefold()
    for model in models:
        if model.casefold() == exact:
            return model
    plain = model_name(name).plain
    return next((model for model in models if model_name(model).plain == plain), None)
