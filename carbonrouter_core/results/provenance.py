"""The data and code of a result: version, sources and data, as fingerprints.

Equal fingerprints, equal figures to the last bit.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from carbonrouter_core.compiled import sources_sha256
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.version import VERSION

_ROOT = Path(__file__).resolve().parent.parent
GIT_TIMEOUT_S = 5.0

WHAT = {
    "engine": "the program's sources",
    "trace": "the trace",
    "placement": "times, users or difficulty of the turns",
    "deployments": "models, GPU types, regions or their energy figures",
    "carbon_intensity": "carbon intensity",
}
"""What each fingerprint is of, as said to a reader."""


def fingerprints(prepared: Prepared) -> dict[str, str]:
    """SHA-256 of all that the results of ``prepared`` depend on beside its scenario."""
    placed, deployments = prepared.placed, prepared.deployments
    names = [
        *(f"{replica.model} {replica.gpu}" for replica in deployments.replicas),
        *(f"{region.region} {region.zone}" for region in deployments.regions),
        *placed.user_regions,
    ]
    return {
        "engine": sources_sha256(),
        "trace": placed.trace.sha256,
        "placement": _sha256((placed.start_s, placed.user, placed.difficulty)),
        "deployments": _sha256(deployments.fleet, "\x1f".join(names)),
        "carbon_intensity": _sha256((prepared.intensity, prepared.known_intensity)),
    }


def run_id(prepared: Prepared, policies: Iterable[str]) -> str:
    """A short name of a run: equal for equal scenarios, policies, data and sources."""
    known = [VERSION, prepared.scenario.key, fingerprints(prepared), list(policies)]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:16]


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """What differs between two sets of fingerprints, in words."""
    return tuple(WHAT.get(name, name) for name in now if before.get(name) != now[name])


@lru_cache(maxsize=1)
def commit() -> str:
    """The commit of this checkout; empty where that is not known."""
    git = shutil.which("git")
    if git is None or not (_ROOT / ".git").exists():
        return ""
    try:
        asked = [git, "-C", str(_ROOT), "rev-parse", "HEAD"]
        done = subprocess.run(asked, capture_output=True, timeout=GIT_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode().strip() if done.returncode == 0 else ""


def _sha256(arrays: Iterable[np.ndarray], text: str = "") -> str:
    digest = hashlib.sha256(text.encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
