"""Scenarios in links: every input, versioned and compressed, and opened with distrust.

A link text is ``2.`` (the version of this format) and base64url of a zlib stream of JSON. Names
that occur in most scenarios are one byte each, so that the longest scenario that needs nothing
uploaded stays short enough for any program that passes links on.

Whatever a link holds, opening it gives a scenario and sentences that say what was left out or
replaced; it never raises, never reads a file and never takes more than a fixed amount of memory.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from carbonrouter_core.errors import ScenarioError
from carbonrouter_core.fleet.catalog import OwnEntry
from carbonrouter_core.fleet.own import additions_of
from carbonrouter_core.fleet.tables import read_catalog
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.routing.policies import POLICIES, PRACTICES
from carbonrouter_core.scenario import FIELDS, Scenario
from carbonrouter_core.store.sites import load_catalog
from carbonrouter_core.traces.builtin import BUILTIN_TRACES
from carbonrouter_core.version import VERSION
from carbonrouter_core.words.names import nearest

LINK_VERSION = 2
FIRST_VERSION = 1
SINCE_2 = (
    "user_regions",
    "electricity_price_per_mwh",
    "gpu_price_per_h",
    "carbon_price_per_t",
    "currency",
    "clean_contracts",
    "conversations_per_day",
    "baseline",
    "baseline_model",
    "baseline_region",
    "baseline_mix",
)
"""Fields that links of version 1 lack. Links of version 2 leave them out where they have their
default, so that most links stay short."""
PARAMETER = "s"
"""Query parameter of the app that holds a link text."""

MAX_LINK_CHARACTERS = 16_384
"""Longer than any link text made here; a longer one is not even decoded."""
MAX_JSON_BYTES = 65_536
"""What a link may hold once it is unpacked."""
MAX_NOTICES = 12
MAX_SHOWN = 80
"""Characters of a stranger's text that a notice repeats."""

# Both are part of version 1 of the format: a change here would make every link there is
# unreadable. Names that came later are written out.
_WORDS_1 = (
    *("australia-southeast1", "australia-southeast2", "southamerica-east1", "southamerica-west1"),
    *("northamerica-northeast1", "northamerica-northeast2", "us-west2", "us-east4", "us-south1"),
    *("europe-west2", "europe-west3", "europe-west4", "europe-west9", "europe-north1"),
    *("europe-north2", "europe-southwest1", "europe-central2", "asia-south1", "africa-south1"),
    *("asia-northeast1", "asia-northeast3", "asia-southeast1"),
    *("A100-80GB", "H100-80GB", "B200-180GB"),
    *("Llama-3.1-8B", "Gemma-3-12B", "Gemma-3-27B", "Llama-3.3-70B", "Qwen3-235B-A22B"),
    *("Llama-3.1-70B", "Llama-3.1-405B"),
)
_BYTES_1 = (*range(0x01, 0x20), *range(0xF8, 0x100))
"""Bytes that stand in no JSON written without spaces, one for each word."""
_DICTIONARY_1 = (
    b'"gap_median_s":null,"seed":7}}"intensity_knowledge":"usual-28d""intensity_kind":"marginal"'
    b'"own_intensity":true,"latency_ceiling_ms":null,"latency_ceiling_on":"ttft"true,false,'
    b'"pue_overrides":{"user_mix":{"fairness_weight":0.0,"trace":"claude-code","carbonrouter"'
    b'{"app":"0.1.0","router":"carbonrouter-lookahead","scenario":{"name":"Paper",'
    b'"trace":"sharegpt","window_start":"2024-05-13","window_days":14,"regions":["gpus":['
    b'"models":["gpu_regions":{"user_mix":{},"pue_overrides":{},"concurrency":64.0,'
    b'"copies":"latest","idle_s":3600.0,"quality_floor":0.65,"fairness_weight":0.0,'
    b'"latency_ceiling_ms":null,"latency_ceiling_on":"latency","gate_threshold":0.2,'
    b'"carbon_basis":"lifecycle","intensity_kind":"average","own_intensity":true,'
    b'"intensity_knowledge":"current","embodied":false,"gaps":"mooncake",'
    b'"gap_median_s":null,"seed":7}}'
)

_DICTIONARY_2 = (
    b'"baseline":"fixed-deployment","own-mix","nearest-region","as-served","sticky",'
    b'"baseline_mix":{},"conversations_per_day":100000.0,"baseline_model":"","baseline_region":"'
) + _DICTIONARY_1
"""Of version 2 of the format."""

_APART = ("user_mix", "pue_overrides", "name")
"""Long numbers and free text stand last, in blocks of their own, and so with codes of their own;
that saves a seventh of a long link."""


@dataclass(frozen=True)
class Opened:
    """What came out of a link or a file: a scenario that can be made, and what to tell.

    ``refused``: nothing of it could be used and ``scenario`` is the default. ``router``: the policy
    that its author had chosen; empty where it does not say. ``notices`` are plain text.
    """

    scenario: Scenario
    notices: tuple[str, ...] = ()
    router: str = ""
    refused: bool = False


def link_text(
    scenario: Scenario,
    *,
    router: str = "",
    own_series: Mapping[str, str] | None = None,
    own_entries: Iterable[OwnEntry] = (),
) -> str:
    """Every input of ``scenario`` as text for a link. A trace goes by name, never by path.

    ``own_series``: names of the author's carbon-intensity series by zone, where figures rest
    on such, and ``own_entries``: the author's models, GPU types and energy points
    (:func:`own_entries_of`), so that the app can say so where the link is opened.
    """
    values = scenario.to_dict() | {"trace": trace_name(scenario.trace)}
    values |= {name: values.pop(name) for name in _APART}
    defaults = Scenario().to_dict()
    values = {
        name: value
        for name, value in values.items()
        if name not in SINCE_2 or value != defaults[name]
    }
    payload: dict[str, Any] = {"app": VERSION, "router": router}
    if own_series:
        payload["own_series"] = dict(own_series)
    if own_hashes := {f"{entry.kind} {entry.name}": entry.sha256[:16] for entry in own_entries}:
        payload["own_entries"] = own_hashes
    payload["scenario"] = values
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
    for code, word in zip(_BYTES_1, _WORDS_1, strict=False):
        text = text.replace(b'"%b"' % word.encode(), bytes([code]))
    packer = zlib.compressobj(9, memLevel=9, strategy=zlib.Z_FILTERED, zdict=_DICTIONARY_2)
    packed = b""
    for name in (_APART[0], _APART[-1]):
        head, mark, text = text.partition(b'"%b":' % name.encode())
        packed += packer.compress(head) + packer.flush(zlib.Z_BLOCK)
        text = mark + text
    packed += packer.compress(text) + packer.flush()
    return f"{LINK_VERSION}.{base64.urlsafe_b64encode(packed).decode().rstrip('=')}"


def needs(scenario: Scenario, prepared: Prepared | None = None) -> tuple[str, ...]:
    """What someone else must have to get the same figures, in sentences; often nothing."""
    sentences = []
    if scenario.trace not in BUILTIN_TRACES:
        sentences.append(
            f"It needs the trace {_shown(trace_name(scenario.trace))}: send the file along, to be "
            "imported under that name."
        )
    used = {*scenario.regions, *scenario.user_mix, *scenario.pue_overrides}
    for site in sorted(used - set(read_catalog().regions)):
        sentences.append(f"It has your site {_shown(site)}, which others must add under that name.")
    for entry in own_entries_of(scenario):
        sentences.append(
            f"It uses your {entry.kind} {_shown(entry.name)}: send the table along, to be imported."
        )
    for zone, name in own_series_of(prepared).items():
        sentences.append(
            f"It rests on your carbon-intensity series {_shown(name)} for zone {zone}: send that "
            "along too."
        )
    return tuple(sentences)


def own_entries_of(scenario: Scenario) -> tuple[OwnEntry, ...]:
    """The user's stored models, GPU types and energy points that ``scenario`` uses."""
    return additions_of(load_catalog()).chosen(scenario.models, scenario.gpus).entries


def own_series_of(prepared: Prepared | None) -> dict[str, str]:
    """Names of the user's own carbon-intensity series that were used, by zone."""
    sources = prepared.intensity_sources if prepared is not None else ()
    return {source.zone: source.series for source in sources if source.own}


def trace_name(trace: str) -> str:
    """A trace by its name: what stands after the last slash of a path."""
    return re.split(r"[\\/]", trace)[-1] or "trace"


def open_link(text: str, traces: Collection[str] = ()) -> Opened:
    """The scenario in a link text, as far as it can be used here; ``traces``: those stored here."""
    try:
        payload = _unpacked(text)
    except _RefusedError as refusal:
        return _refuse(str(refusal))
    if any(
        name not in ("app", "router", "own_series", "own_entries", "scenario") for name in payload
    ):
        return _refuse("It holds more than a scenario.")
    values = payload.get("scenario")
    if isinstance(values, dict) and _version(text) > FIRST_VERSION:
        values = {name: Scenario().to_dict()[name] for name in SINCE_2} | values
    opened = open_values(values, traces)
    if opened.refused:
        return opened
    notices = list(opened.notices)
    if (made_by := payload.get("app")) != VERSION:
        notices.append(
            f"It was made by version {_shown(made_by)}; this is {VERSION}, and figures may differ."
        )
    own = payload.get("own_series")
    for zone, name in list(own.items())[:MAX_NOTICES] if isinstance(own, dict) else ():
        notices.append(
            f"Its figures rest on its author's carbon-intensity series {_shown(name)} for zone "
            f"{_shown(zone)}; without it they are those of the series here."
        )
    notices += _other_entries(payload.get("own_entries"))
    router = payload.get("router")
    return Opened(
        opened.scenario, _limited(notices), router if isinstance(router, str) else "", False
    )


def _other_entries(entries: Any) -> list[str]:
    """A sentence for each entry of the author's that is not here, or not with equal figures."""
    if not isinstance(entries, dict):
        return []
    own = additions_of(load_catalog()).entries
    here = {f"{entry.kind} {entry.name}": entry.sha256[:16] for entry in own}
    return [
        f"Its figures rest on its author's {_shown(name)}; "
        + (
            "the entry of that name here has other figures."
            if name in here
            else "without that table these figures cannot be computed here."
        )
        for name, sha256 in list(entries.items())[:MAX_NOTICES]
        if here.get(name) != sha256
    ]


def open_values(values: Any, traces: Collection[str] = ()) -> Opened:
    """A scenario from JSON ``values`` of a stranger, each input by itself.

    Unknown fields are left out. Wrong or missing ones take their default. A notice names each.
    """
    if not isinstance(values, dict):
        return _refuse("It holds no scenario.")
    if any(str(name).startswith("__") for name in values):
        return _refuse("It holds keys that no scenario has.")
    notices = [
        f"{_shown(name)} is no input here and was left out."
        for name in values
        if name not in FIELDS
    ]
    default = Scenario()
    if isinstance(values.get("baseline"), str) and values["baseline"] not in {
        *POLICIES,
        *PRACTICES,
    }:
        notices.append(
            f"baseline: {_shown(values['baseline'])} is no policy here; the default is used: "
            f"{default.baseline}."
        )
        values = values | {"baseline": default.baseline}
    valid: dict[str, Any] = {}
    for name in FIELDS:
        if name not in values:
            notices.append(f"{name} is not in it; the default is used: {_default(default, name)}.")
            continue
        value, lacking = _known_names(name, values[name])
        notices += lacking
        try:
            valid[name] = getattr(default.replace(**{name: value}), name)
        except ScenarioError as error:
            notices.append(f"{error} The default is used: {_default(default, name)}.")
    trace = valid.get("trace", default.trace)
    if trace not in BUILTIN_TRACES and trace not in traces:
        notices.append(
            f"It needs the trace {_shown(trace_name(trace))}, which is not stored here; "
            f"{default.trace} is used instead. Import that trace under this name, then open it "
            "again."
        )
        valid["trace"] = default.trace
    return Opened(default.replace(**valid), _limited(notices))


class _RefusedError(Exception):
    """Nothing of a link can be used; the text says why."""


def _version(text: str) -> int:
    """The version of the format of a link text that could be unpacked."""
    return int(text.strip().partition(".")[0])


def _unpacked(text: str) -> dict[str, Any]:
    version, dot, packed = text.strip().partition(".")
    if len(text) > MAX_LINK_CHARACTERS:
        raise _RefusedError("It is far longer than a link of this program.")
    if not dot or not re.fullmatch(r"[0-9]{1,6}", version):
        raise _RefusedError("It is no link of this program.")
    if int(version) > LINK_VERSION:
        raise _RefusedError(
            f"It was made by a newer version of this program (link format {int(version)}, this "
            f"one knows {LINK_VERSION}). Update it, or ask for the scenario as a JSON file."
        )
    if int(version) < FIRST_VERSION:
        raise _RefusedError("It is no link of this program.")
    cut = "It is incomplete or was changed on its way; copy the whole link."
    try:
        data = base64.b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True)
        unpacker = zlib.decompressobj(
            zdict=_DICTIONARY_1 if int(version) == FIRST_VERSION else _DICTIONARY_2
        )
        content = unpacker.decompress(data, MAX_JSON_BYTES)
    except (ValueError, binascii.Error, zlib.error):
        raise _RefusedError(cut) from None
    if not unpacker.eof:
        if unpacker.unconsumed_tail:
            raise _RefusedError("It holds far more than a scenario.")
        raise _RefusedError(cut)
    for code, word in zip(_BYTES_1, _WORDS_1, strict=False):
        content = content.replace(bytes([code]), b'"%b"' % word.encode())
        if len(content) > MAX_JSON_BYTES:
            raise _RefusedError("It holds far more than a scenario.")
    try:
        payload = json.loads(content)
    except (ValueError, RecursionError):
        raise _RefusedError(cut) from None
    if not isinstance(payload, dict):
        raise _RefusedError("It holds no scenario.")
    return payload


def _refuse(why: str) -> Opened:
    return Opened(Scenario(), (f"{why} The default scenario is shown.",), refused=True)


def _known_names(field: str, value: Any) -> tuple[Any, list[str]]:
    """``value`` without the names that the catalog does not have, and a sentence for each."""
    catalog = load_catalog()
    known: dict[str, Collection[str]] = {
        "regions": catalog.regions,
        "gpus": catalog.gpus,
        "models": catalog.models,
        "user_mix": catalog.regions,
        "pue_overrides": catalog.regions,
        "gpu_regions": catalog.gpus,
    }
    if field not in known or not isinstance(value, list | dict):
        return value, []
    names = [name for name in value if isinstance(name, str) and name not in known[field]]
    lacking = _lacking(field, names, known[field])
    if isinstance(value, list):
        return [name for name in value if name not in names], lacking
    valid = {name: item for name, item in value.items() if name not in names}
    if field == "gpu_regions":
        for gpu, where in valid.items():
            if isinstance(where, list):
                strange = [
                    region
                    for region in where
                    if isinstance(region, str) and region not in catalog.regions
                ]
                lacking += _lacking(field, strange, catalog.regions)
                valid[gpu] = [region for region in where if region not in strange]
    return valid, lacking


def _lacking(field: str, names: Collection[str], known: Iterable[str]) -> list[str]:
    sentences = [
        f"{field}: {_shown(name)} is not known here and was left out (nearest: "
        f"{nearest(name[:MAX_SHOWN], known)})."
        for name in list(names)[:MAX_NOTICES]
    ]
    if len(names) > MAX_NOTICES:
        sentences.append(f"{field}: {len(names) - MAX_NOTICES} more unknown names were left out.")
    return sentences


def _default(scenario: Scenario, name: str) -> str:
    value = scenario.to_dict()[name]
    return json.dumps(value, ensure_ascii=False) if value not in (None, {}) else "none"


def _shown(value: Any) -> str:
    """A stranger's value, short and on one line, for plain text."""
    text = value if isinstance(value, str) else type(value).__name__
    text = "".join(
        character if character.isprintable() else " " for character in text[: MAX_SHOWN + 1]
    )
    return f"\N{LEFT DOUBLE QUOTATION MARK}{text[:MAX_SHOWN]}\N{RIGHT DOUBLE QUOTATION MARK}" + (
        "\N{HORIZONTAL ELLIPSIS}" if len(text) > MAX_SHOWN else ""
    )


def _limited(notices: list[str]) -> tuple[str, ...]:
    if len(notices) <= MAX_NOTICES:
        return tuple(notices)
    return (*notices[:MAX_NOTICES], f"And {len(notices) - MAX_NOTICES} more of the kind.")
