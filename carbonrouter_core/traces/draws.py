"""Random numbers that belong to a session: the same whatever other sessions there are.

A stream is named by seed and purpose; within it a draw is addressed by the session's key and
an index. The numbers are SplitMix64 (Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195)
of that address. A library generator a session would give the same property but costs about
10 µs a session and purpose to set up; this is vectorised over all turns.
"""

from __future__ import annotations

import hashlib

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def uniform(seed: int, purpose: str, key: np.ndarray, index: np.ndarray | int = 0) -> np.ndarray:
    """Uniform draws in the open interval (0, 1), of the shape of ``key``.

    ``key``: uint64, one per draw; ``index``: number of the draw within its session.
    """
    stream = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()[:8]
    address = _mix(key ^ np.frombuffer(stream, "<u8")[0])
    step = (np.atleast_1d(index).astype(np.uint64) + np.uint64(1)) * _GOLDEN
    bits = _mix(address + step) >> np.uint64(11)
    return (bits.astype(np.float64) + 0.5) * 2.0**-53


def normal(seed: int, purpose: str, key: np.ndarray, index: np.ndarray | int = 0) -> np.ndarray:
    """Standard normal draws (Box-Muller), addressed as in :func:`uniform`."""
    radius = np.sqrt(-2.0 * np.log(uniform(seed, purpose + "/radius", key, index)))
    return radius * np.cos(2.0 * np.pi * uniform(seed, purpose + "/angle", key, index))


def _mix(bits: np.ndarray) -> np.ndarray:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
