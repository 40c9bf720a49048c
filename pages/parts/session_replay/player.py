"""The session player: one conversation under two policies, stepped through in the browser.

A rerun of a page takes too long for a step, so that the whole conversation is handed over
once, as columns, and the browser only looks up what to draw (``session_player/player.js``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.fleet.catalog import Region
from carbonrouter_core.results.session_story import Story
from carbonrouter_core.routing import feasibility
from carbonrouter_core.routing.policies import policy
from carbonrouter_core.words import figures as fmt
from pages.parts.session_replay import decisions
from pages.shared import theme
from pages.shared.maps import LAND, mercator_y

FRONT_END = Path(__file__).parent / "session_player"

# Colours of deployments, distinct on a light and on a dark page; each at least 3:1 there.
DEPLOYMENTS_LIGHT = ("#0072B2", "#B2457F", "#7A7A1F", "#8C510A", "#5E3C99", "#1F8A80", "#C04000")
DEPLOYMENTS_DARK = ("#56B4E9", "#E08CBB", "#C9C94A", "#E0A458", "#B39DDB", "#66CDBF", "#FF8A5B")

_KINDS = {"f4": np.float32, "f8": np.float64, "i4": np.int32, "u1": np.uint8}


@lru_cache(maxsize=1)
def _land() -> str:
    """The land outline of assets/ as an SVG path in degrees of a Mercator map, north up."""
    if not LAND.is_file():
        return ""
    rings = []
    for feature in json.loads(LAND.read_text(encoding="utf-8"))["features"]:
        for polygon in feature["geometry"]["coordinates"]:
            for ring in polygon:
                points = " ".join(f"{lon:.1f} {mercator_y(lat):.1f}" for lon, lat in ring)
                rings.append(f"M{points}Z")
    return "".join(rings)


@lru_cache(maxsize=1)
def _files() -> tuple[str, str, str]:
    markup, style, script = (
        (FRONT_END / f"player.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    return markup.replace("{land}", _land()), style, script


_markup, _style, _script = _files()
_player = st.components.v2.component(
    "carbonrouter_session_player", html=_markup, css=_style, js=_script
)


def show(conversation: bytes, *, key: str) -> None:
    """Put the player on the page, with what :func:`message` made of a conversation."""
    _player(key=key, data=conversation)


def scales(ours: Story, theirs: Story) -> tuple[fmt.Mass, fmt.Mass]:
    """The unit of the conversation's totals, and that of its turns."""
    total_g = max(story.in_all_g for story in (ours, theirs))
    turns_g = np.concatenate([ours.charges.carbon_g, theirs.charges.carbon_g])
    typical_g = float(np.median(turns_g[turns_g > 0])) if (turns_g > 0).any() else 0.0
    return fmt.Mass.for_largest(total_g), fmt.Mass.for_largest(typical_g)


def message(ours: Story, theirs: Story, *, present: bool = False) -> bytes:
    """One session under two policies as the browser reads it: a length, a JSON header, columns."""
    stories = {"a": ours, "b": theirs}
    total_mass, turn_mass = scales(ours, theirs)
    prepared = ours.prepared
    regions = prepared.deployments.regions
    catalog = core.load_catalog()
    trace = prepared.placed.trace
    header = {
        "key": f"{trace.name}/{ours.session_id}" + (f"/{ours.first}" if ours.first else ""),
        "turns": len(ours),
        "before": ours.first,
        "turnsInAll": ours.turns_in_all,
        "carbonBefore": [story.before_g for story in stories.values()],
        "carbonInAll": [story.in_all_g for story in stories.values()],
        "present": present,
        "embodied": bool(prepared.rules.embodied),
        "totalMass": total_mass.scale._asdict(),
        "turnMass": turn_mass.scale._asdict(),
        "policies": [_policy(story, turn_mass) for story in stories.values()],
        "regions": [_spot(region) for region in regions],
        "users": [_spot(catalog.regions[name]) for name in prepared.placed.user_regions],
        "deployments": _deployments(ours),
        "parts": [{"key": part.column, "name": part.name} for part in theme.PARTS],
        "obstacles": [feasibility.WORDS[code] for code in sorted(feasibility.WORDS)],
        "when": [
            f"{datetime.fromtimestamp(second, UTC):%a %d %b %Y, %H:%M} UTC"
            for second in ours.start_utc_s
        ],
        "intensity": {
            "low": theme.INTENSITY_LOW_G_PER_KWH,
            "high": theme.INTENSITY_HIGH_G_PER_KWH,
            "colours": theme.INTENSITY_COLOURS,
        },
        "light": _colours(theme.LIGHT, DEPLOYMENTS_LIGHT, stories.values()),
        "dark": _colours(theme.DARK, DEPLOYMENTS_DARK, stories.values()),
    }
    columns: dict[str, tuple[str, np.ndarray]] = {
        "user": ("i4", ours.user),
        "history": ("i4", ours.history_tokens),
        "new_prompt": ("i4", ours.new_prompt_tokens),
        "output": ("i4", ours.output_tokens),
        "intensity": ("f4", ours.intensity_g_per_kwh),
        "prompt": ("f4", ours.candidates.prompt_g),
        "decode": ("f4", ours.candidates.decode_g),
        "quality": ("f4", ours.candidates.quality),
    }
    for letter, story in stories.items():
        columns |= {f"{letter}_{name}": column for name, column in _columns(story).items()}
    return _pack(header, columns)


def _policy(story: Story, mass: fmt.Mass) -> dict[str, Any]:
    words = decisions.in_words(story, mass)
    return {
        "name": decisions.policy_name(story.policy_id, story.prepared),
        "ahead": bool(np.isfinite(story.candidates.to_come_g).any()),
        "knows": policy(story.policy_id).knows_output,
        "note": " ".join(_notes(story)),
        "verdict": [text.verdict for text in words],
        "place": [
            " on ".join(decisions.names(story, int(d))[:2]) if d >= 0 else ""
            for d in story.decisions.deployment
        ],
        "why": [text.why for text in words],
        "numbers": [text.numbers for text in words],
    }


def _notes(story: Story) -> list[str]:
    """What must be known of a policy's candidates."""
    shown = policy(story.policy_id)
    notes = [shown.unseen] if shown.unseen else []
    if story.prepared.known is not None and not shown.knows_output:
        notes.append(
            "Priced at the carbon intensity that was known beforehand, not at the true one."
        )
    return notes


def _spot(region: Region) -> dict[str, Any]:
    return {"city": region.city, "longitude": region.longitude, "latitude": region.latitude}


def _deployments(story: Story) -> dict[str, list[Any]]:
    deployments = story.prepared.deployments
    fleet = deployments.fleet
    replicas = [deployments.replicas[pair] for pair in fleet.pair]
    return {
        "label": [deployments.label(d) for d in range(len(deployments))],
        "chip": [
            f"{replica.model} \N{MIDDLE DOT} {replica.gpu.partition('-')[0]}"
            for replica in replicas
        ],
        "model": [replica.model for replica in replicas],
        "region": fleet.region.tolist(),
        "fits": fleet.fit_tokens[fleet.pair].tolist(),
    }


def _colours(
    palette: theme.Palette, deployments: tuple[str, ...], stories: Iterable[Story]
) -> dict[str, Any]:
    """The colours of a light or a dark page: the browser knows which it shows."""
    return {
        "policies": [theme.colour(story.policy_id, dark=palette.dark) for story in stories],
        "sea": palette.sea,
        "land": theme.rgb_to_hex(palette.land),
        "coast": theme.rgb_to_hex(palette.coast),
        "parts": [part.fill(palette.dark) for part in theme.PARTS],
        "deployments": deployments,
        "other": palette.muted,
    }


def _columns(story: Story) -> dict[str, tuple[str, np.ndarray]]:
    """What differs between the two policies, with the type it is sent as."""
    chosen, seen, charges = story.decisions, story.candidates, story.charges
    columns = {
        "deployment": ("i4", chosen.deployment),
        "home": ("i4", chosen.home),
        "moved_from": ("i4", story.moved_from),
        "recomputed": ("i4", story.recomputed_tokens),
        "expected": ("f4", story.expected_output_tokens),
        "carbon": ("f8", charges.carbon_g),
        **{part.column: ("f4", getattr(charges, part.column)) for part in theme.PARTS},
        "cached": ("i4", seen.cached_tokens),
        "recompute": ("f4", seen.recompute_g),
        "host": ("f4", seen.host_g),
        "total": ("f4", seen.total_g),
        "ttft": ("f4", seen.ttft_ms),
        "obstacle": ("u1", seen.obstacle),
    }
    if np.isfinite(seen.to_come_g).any():
        columns["to_come"] = ("f4", seen.to_come_g)
    if story.prepared.rules.embodied:
        columns["embodied"] = ("f4", seen.embodied_g)
    return columns


def _pack(header: Mapping[str, Any], columns: Mapping[str, tuple[str, np.ndarray]]) -> bytes:
    """Length of the header in 8 bytes, the header, the columns on bounds of 8 bytes."""
    places: dict[str, tuple[str, int, int]] = {}
    blocks: list[bytes] = []
    offset = 0
    for name, (kind, values) in columns.items():
        block = np.ascontiguousarray(values, dtype=_KINDS[kind]).tobytes()
        places[name] = (kind, offset, values.size)
        blocks.append(block + b"\0" * (-len(block) % 8))
        offset += len(blocks[-1])
    # How long the header is depends on where the columns start: a fixed width settles it.
    text = json.dumps({**header, "columns": places, "start": 0}, separators=(",", ":"))
    size = len(text.encode()) + 16
    size += -size % 8
    text = json.dumps({**header, "columns": places, "start": size}, separators=(",", ":"))
    padded = text.encode().ljust(size)
    return len(padded).to_bytes(8, "little") + padded + b"".join(blocks)
