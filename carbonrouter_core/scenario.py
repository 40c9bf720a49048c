"""A scenario: every choice a result depends on, checked, named and written as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Any

from carbonrouter_core.errors import ScenarioError
from carbonrouter_core.units import S_PER_DAY
from carbonrouter_core.words.names import unknown

MAX_SHOWN = 80
"""Characters of a wrong value that an error repeats."""

MAX_WEIGHT = 1e9
"""Largest weight of a user region: any share can be written, and sums stay finite."""

COPIES = ("latest", "all")
"""Which deployments keep a session's KV cache: that of the latest turn, or each that had it."""
CEILING_ON = ("latency", "ttft")
"""What a latency ceiling limits: the time to the last token, or to the first."""
BASES = ("lifecycle", "direct")
"""Accounting of carbon intensity: with what building and supplying a plant emits, or without."""
KINDS = ("average", "marginal")
"""Carbon intensity of all power on the grid, or of the plants that answer a change of demand."""
KNOWLEDGE = ("current", "usual-7d", "usual-28d", "persistence", "forecast")
"""What policies know of carbon intensity; :mod:`.grid.knowledge` says what each means."""
GAP_TABLES = ("mooncake", "ragpulse")
"""Tables of the gaps between the turns of a session (:mod:`.traces.placement`)."""

DEFAULT_GPU_REGIONS = {"B200-180GB": ("europe-west3",)}
"""New GPUs are not everywhere (docs/design.md, section 9)."""


MONTH, HOUR = ("month", 1, 12), ("hour", 0, 23)
PRICED: Mapping[str, tuple[float, float, tuple[tuple[str, int, int], ...]]] = MappingProxyType(
    {
        "electricity_price_per_mwh": (-1e5, 1e6, (MONTH, HOUR)),
        "gpu_price_per_h": (0.0, 1e5, ()),
        "clean_contracts": (0.0, 1.0, (HOUR,)),
    }
)
"""Lowest and highest value of the fields of numbers by place, and what a key may add to its name:
word, lowest and highest number."""


NO_OBJECT = "A scenario is a JSON object of fields and values."


def _field(default: Any, meaning: str, unit: str = "", **limits: Any) -> Any:
    """A scenario field: its default, what it means, its unit and the values it may take."""
    metadata = {"meaning": meaning, "unit": unit, **limits}
    if isinstance(default, Mapping):
        return field(default_factory=lambda: MappingProxyType(dict(default)), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Scenario:
    """All inputs of a run; the defaults are preset Paper (docs/design.md, section 9).

    Each field is checked by itself. Whether the choices can be run together is checked where they
    meet the catalog.

    Parameters
    ----------
    **fields
        :data:`FIELDS` has the meaning, the unit and the limits of each.

    Raises
    ------
    ScenarioError
        If a value is out of range; the message names the field and the range.
    """

    name: str = _field("Paper", "name of the scenario", max_length=120)
    trace: str = _field("sharegpt", "trace: a built-in name, or the path of a file")
    window_start: date = _field(date(2024, 5, 13), "first day of the window, from 00:00 UTC")
    window_days: int = _field(14, "length of the window", "d", low=1, high=366)
    regions: tuple[str, ...] = _field(
        ("europe-west2", "us-west2", "europe-west3", "australia-southeast1"),
        "regions that can serve",
    )
    gpus: tuple[str, ...] = _field(("A100-80GB", "H100-80GB", "B200-180GB"), "GPU types")
    models: tuple[str, ...] = _field(
        ("Llama-3.1-8B", "Gemma-3-12B", "Gemma-3-27B", "Llama-3.3-70B", "Qwen3-235B-A22B"),
        "models",
    )
    gpu_regions: Mapping[str, tuple[str, ...]] = _field(
        DEFAULT_GPU_REGIONS,
        "regions that have a GPU type, where not all have it",
    )
    user_mix: Mapping[str, float] = _field(
        {}, "weight of each region the users are in; none: equally in the regions that serve"
    )
    user_regions: tuple[str, ...] = _field(
        (), "regions the users are in, equally, unless user_mix says more; none: those that serve"
    )
    pue_overrides: Mapping[str, float] = _field({}, "PUE in place of the table's, by region")
    concurrency: float = _field(
        64.0, "sequences decoding together on a replica, memory allowing", low=1, high=4096
    )
    copies: str = _field("latest", "which deployments keep a session's KV cache", choices=COPIES)
    idle_s: float = _field(3600.0, "how long an unused KV cache is kept", "s", low=0, high=1e7)
    quality_floor: float = _field(0.65, "lowest predicted quality accepted", low=0, high=1)
    fairness_weight: float = _field(
        0.0,
        "how far FairCarbon raises the quality floor of user regions served below the mean; "
        "times what they lack",
        low=0,
        high=100,
    )
    latency_ceiling_ms: float | None = _field(
        None, "longest predicted latency accepted; none: no ceiling", "ms", low=1, high=1e8
    )
    latency_ceiling_on: str = _field("latency", "what the ceiling is on", choices=CEILING_ON)
    gate_threshold: float = _field(
        0.25, "smallest chance of coming back at which the gate holds; 1: no gate", low=0, high=1
    )
    carbon_basis: str = _field("lifecycle", "carbon accounting of the grid", choices=BASES)
    intensity_kind: str = _field(
        "average", "average or marginal carbon intensity; the two are never mixed", choices=KINDS
    )
    own_intensity: bool = _field(
        True, "whether your own carbon-intensity series go before the built-in ones"
    )
    intensity_knowledge: str = _field(
        "current",
        "what policies know of carbon intensity; accounting uses the truth",
        choices=KNOWLEDGE,
    )
    embodied: bool = _field(False, "whether embodied carbon counts in the choice")
    electricity_price_per_mwh: Mapping[str, float] = _field(
        {}, "own price of electricity a MWh, by ZONE, ZONE MONTH or ZONE MONTH HOUR (UTC)"
    )
    gpu_price_per_h: Mapping[str, float] = _field(
        {}, "own price of a GPU for an hour, by GPU type; none: GPUs are not in the cost"
    )
    carbon_price_per_t: float | None = _field(
        None, "price of a tonne of CO2e; none: carbon is not in the cost", low=0, high=1e6
    )
    currency: str = _field(
        "EUR", "currency of all prices; built-in prices are in EUR and USD", max_length=12
    )
    clean_contracts: Mapping[str, float] = _field(
        {}, "share of a site's energy bought as clean, by REGION or REGION HOUR (UTC)"
    )
    gaps: str = _field("mooncake", "table the gaps between turns come from", choices=GAP_TABLES)
    gap_median_s: float | None = _field(
        None, "median the gaps are stretched to; none: as in the table", "s", low=0.1, high=1e6
    )
    seed: int = _field(7, "seed of all draws", low=0, high=2**31 - 1)
    conversations_per_day: float = _field(
        100_000.0, "conversations that the service has in a day, on average", low=0.001, high=1e9
    )
    baseline: str = _field(
        "faircarbon",
        "today's practice, which savings are against: id of a policy, or as-served",
        max_length=80,
    )
    baseline_model: str = _field(
        "", "model of policy fixed-deployment; empty: the first", max_length=120
    )
    baseline_region: str = _field(
        "", "region of policy fixed-deployment; empty: the first", max_length=120
    )
    baseline_mix: Mapping[str, float] = _field(
        {}, "weight of each MODEL @ REGION under policy own-mix; none: equally in all"
    )

    def __post_init__(self) -> None:
        for spec in fields(self):
            object.__setattr__(self, spec.name, _checked(spec, getattr(self, spec.name)))
        for name in ("regions", "gpus", "models"):
            chosen = getattr(self, name)
            if not chosen:
                raise ScenarioError(f"{name} is empty; choose at least one.")
            if len(set(chosen)) != len(chosen):
                raise ScenarioError(f"{name} names one of its choices twice.")
        for mix, what in (("user_mix", "region"), ("baseline_mix", "place")):
            weights = getattr(self, mix)
            for name, weight in weights.items():
                if not 0 <= weight <= MAX_WEIGHT:
                    raise ScenarioError(
                        f"{mix} of {name} is {weight}; it must be 0 or more, up to {MAX_WEIGHT:,g}."
                    )
            if weights and not sum(weights.values()) > 0:
                raise ScenarioError(f"{mix} adds up to nothing; give one {what} a weight above 0.")
        for region, pue in self.pue_overrides.items():
            if not 1.0 <= pue <= 5.0:
                raise ScenarioError(f"pue_overrides of {region} is {pue}; a PUE is from 1 to 5.")
        if len(set(self.user_regions)) != len(self.user_regions):
            raise ScenarioError("user_regions names one of its choices twice.")
        for name, (low, high, parts) in PRICED.items():
            for key, number in getattr(self, name).items():
                _check_key(name, key, parts)
                if not low <= number <= high:
                    raise ScenarioError(
                        f"{name} of {key} is {number}; it must be from {low:,g} to {high:,g}."
                    )

    def replace(self, /, **changes: Any) -> Scenario:
        """A copy with other values.

        Parameters
        ----------
        **changes
            Values by field.

        Returns
        -------
        Scenario
            The other fields as they are.

        Raises
        ------
        ScenarioError
            If a field is unknown or a value is out of range.
        """
        for name in changes:
            if name not in FIELDS:
                raise ScenarioError(unknown("scenario field", name, FIELDS))
        return replace(self, **changes)

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __reduce__(self) -> tuple[Any, ...]:
        return Scenario.from_dict, (self.to_dict(),)  # read-only mappings do not pickle

    @property
    def window_start_s(self) -> int:
        """Start of the window, seconds since 1970-01-01 UTC."""
        return int(datetime(*self.window_start.timetuple()[:3], tzinfo=UTC).timestamp())

    @property
    def window_end_s(self) -> int:
        """End of the window, seconds since 1970-01-01 UTC."""
        return self.window_start_s + self.window_days * S_PER_DAY

    @property
    def users(self) -> dict[str, float]:
        """Weight of each region that users are in."""
        return dict(self.user_mix) or dict.fromkeys(self.user_regions or self.regions, 1.0)

    def with_regions(self, regions: tuple[str, ...]) -> Scenario:
        """The scenario with other sites and the same users: they stay where they are.

        Parameters
        ----------
        regions
            Regions that can serve.

        Returns
        -------
        Scenario
            Its ``user_regions`` name where the users are.

        Raises
        ------
        ScenarioError
            If there are no regions, or one stands twice.
        """
        if self.user_mix or self.user_regions:
            return self.replace(regions=regions)
        return self.replace(regions=regions, user_regions=self.regions)

    def has(self, gpu: str, region: str) -> bool:
        """Whether a region offers a GPU type in this scenario.

        Parameters
        ----------
        gpu
            Name of a GPU type.
        region
            Name of a region.

        Returns
        -------
        bool
            True if it does.
        """
        return region in self.gpu_regions.get(gpu, self.regions)

    def to_dict(self) -> dict[str, Any]:
        """Every input as plain JSON values.

        Returns
        -------
        dict
            Values by field.
        """
        return {spec.name: plain(getattr(self, spec.name)) for spec in fields(self)}

    def to_json(self) -> str:
        """Every input as JSON, in a fixed order.

        Returns
        -------
        str
            What :meth:`from_json` reads.
        """
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_dict(cls, values: Any) -> Scenario:
        """The scenario that :meth:`to_dict` wrote.

        Parameters
        ----------
        values
            Values by field; a field that is left out takes its default.

        Returns
        -------
        Scenario
            Equal to the one written.

        Raises
        ------
        ScenarioError
            If a field is unknown or a value is out of range.
        """
        if not isinstance(values, dict):
            raise ScenarioError(NO_OBJECT)
        return cls().replace(**values)

    @classmethod
    def from_json(cls, text: str) -> Scenario:
        """The scenario that :meth:`to_json` wrote.

        Parameters
        ----------
        text
            JSON of a scenario; a field that is left out takes its default.

        Returns
        -------
        Scenario
            Equal to the one written.

        Raises
        ------
        ScenarioError
            If it is not JSON of an object, a field is unknown or a value is out of range.
        """
        return cls.from_dict(cls.parse(text))

    @staticmethod
    def parse(text: str) -> dict[str, Any]:
        """The fields that a scenario's JSON names, unchecked.

        Parameters
        ----------
        text
            JSON of a scenario.

        Returns
        -------
        dict
            Values by field, as they stand there.

        Raises
        ------
        ScenarioError
            If it is not JSON of an object, or names a field twice.
        """
        try:
            values = json.loads(text, object_pairs_hook=_named_once)
        except (ValueError, RecursionError) as error:
            raise ScenarioError(f"The scenario is not valid JSON: {error}") from error
        if not isinstance(values, dict):
            raise ScenarioError(NO_OBJECT)
        return values

    @property
    def key(self) -> str:
        """Hash of every input but the name: equal keys, equal figures."""
        values = {name: value for name, value in self.to_dict().items() if name != "name"}
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()

    def differences(self, other: Scenario) -> dict[str, tuple[Any, Any]]:
        """The fields in which this scenario differs from another, the name apart.

        Parameters
        ----------
        other
            The scenario to compare with.

        Returns
        -------
        dict
            The other's value and this one's, by field.
        """
        mine, theirs = self.to_dict(), other.to_dict()
        return {
            name: (theirs[name], mine[name])
            for name in FIELDS
            if name != "name" and mine[name] != theirs[name]
        }


FIELDS = MappingProxyType({spec.name: spec.metadata for spec in fields(Scenario)})
"""Meaning, unit and limits of each scenario field, by name."""


def _check_key(field_name: str, key: str, parts: tuple[tuple[str, int, int], ...]) -> None:
    """Raise a :class:`ScenarioError` unless ``key`` is a name and then, at most, ``parts``."""
    if not parts:
        return
    name, *numbers = key.split(" ")
    form = " ".join(["NAME", *(f"[{word} {low} to {high}]" for word, low, high in parts)])
    wrong = ScenarioError(f"{field_name}: {_shown(key)} is not {form}, separated by one blank.")
    if not name or len(numbers) > len(parts):
        raise wrong
    for text, (_, low, high) in zip(numbers, parts, strict=False):
        if not (text.isascii() and text.isdigit() and str(int(text)) == text):
            raise wrong
        if not low <= int(text) <= high:
            raise wrong


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; of two values under one name, neither can be taken in silence."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in values if names.count(name) > 1)
        raise ScenarioError(f"The scenario names {_shown(twice)} twice; keep one of them.")
    return values


def plain(value: Any) -> Any:
    """A field's value as JSON has it."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return list(value)
    return value.isoformat() if isinstance(value, date) else value


def _checked(spec: Any, value: Any) -> Any:
    """``value`` in the type of its field, or an error that names field, value and rule."""
    kind, limits = spec.type, spec.metadata
    wrong = ScenarioError(f"{spec.name} is {_shown(value)}; it must be {_rule(kind, limits)}.")
    if value is None and "None" in kind:
        return None
    if kind == "date":
        return _date(value, wrong)
    if kind == "bool":
        if not isinstance(value, bool):
            raise wrong
        return value
    if kind.startswith(("int", "float")):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong
        if not limits["low"] <= value <= limits["high"] or (kind == "int" and value != int(value)):
            raise wrong
        return int(value) if kind == "int" else float(value) + 0.0  # no -0.0: it hashes apart
    if kind.startswith("tuple"):
        return _names(value, wrong)
    if kind.startswith("Mapping"):
        if not isinstance(value, Mapping):
            raise wrong
        return MappingProxyType(
            {
                str(key): _names(item, wrong) if "tuple" in kind else _weight(item, wrong)
                for key, item in sorted(value.items(), key=lambda pair: str(pair[0]))
            }
        )
    if not isinstance(value, str) or len(value) > limits.get("max_length", 4096):
        raise wrong
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a character pair, which JSON can hold
        raise wrong from None
    if "choices" in limits and value not in limits["choices"]:
        raise wrong
    return value


def _date(value: Any, wrong: ScenarioError) -> date:
    if isinstance(value, datetime):
        raise wrong
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise wrong from None


def _names(value: Any, wrong: ScenarioError) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise wrong
    if not all(isinstance(item, str) for item in value):
        raise wrong
    return tuple(value)


def _weight(value: Any, wrong: ScenarioError) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong
    try:
        return float(value) + 0.0
    except OverflowError:
        raise wrong from None


def _shown(value: Any) -> str:
    """``value`` as it is written in code, cut to a readable length."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + " …"


def _rule(kind: str, limits: Mapping[str, Any]) -> str:
    unit = f" {limits['unit']}" if limits["unit"] else ""
    if "choices" in limits:
        return "one of " + ", ".join(limits["choices"])
    if "low" in limits:
        whole = "a whole number" if kind == "int" else "a number"
        none = ", or none" if "None" in kind else ""
        return f"{whole} from {limits['low']:,g} to {limits['high']:,g}{unit}{none}"
    if "max_length" in limits:
        return f"text of at most {limits['max_length']} characters"
    return {
        "bool": "true or false",
        "date": "a date such as 2024-05-13",
        "tuple[str, ...]": "a list of names",
        "Mapping[str, tuple[str, ...]]": "lists of regions by GPU type",
        "Mapping[str, float]": "numbers by name",
        "str": "text of at most 4096 characters",
    }[kind]


PRESETS: Mapping[str, Scenario] = MappingProxyType(
    {
        "Paper": Scenario(),
        "Prompt cache": Scenario(name="Prompt cache", copies="all", idle_s=600.0),
        "Long-lived cache": Scenario(name="Long-lived cache", copies="all", idle_s=3600.0),
    }
)
"""The cache presets of docs/design.md, section 6; all else is as in Paper."""


START = Scenario(name="Start", baseline="nearest-region")
"""What is shown to those who named no preset: preset Paper against a practice that exists."""


def preset(name: str) -> Scenario:
    """A preset by its name.

    Parameters
    ----------
    name
        A name of :data:`PRESETS`, in any spelling: "prompt-cache", "Prompt cache".

    Returns
    -------
    Scenario
        The preset.

    Raises
    ------
    ScenarioError
        If there is no such preset; the message names the nearest.
    """
    for known, scenario in PRESETS.items():
        if name.casefold().replace("-", " ").replace("_", " ") == known.casefold().replace(
            "-", " "
        ):
            return scenario
    raise ScenarioError(unknown("preset", name, PRESETS.keys()))
