"""Make assets/land.geojson from the Natural Earth land of npm world-atlas (TopoJSON).

    python data/build/basemap.py land-110m.json > assets/land.geojson

The source keeps rings that run over the antimeridian and one around the South Pole. On a flat map
those draw streaks from edge to edge, so rings are unrolled, closed below the map's southern edge,
cut at +-180 degrees and at that edge, and moved back.
"""

import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

Point = tuple[float, float]
Ring = list[Point]

DECIMALS = 2  # 0.01 degree is about 1 km, finer than the 1:110m source
SOUTH_DEG = -85.05  # where Web Mercator ends


def decode_arcs(topology: dict[str, Any]) -> list[Ring]:
    """Arcs in degrees from TopoJSON's delta-encoded integers."""
    scale_x, scale_y = topology["transform"]["scale"]
    shift_x, shift_y = topology["transform"]["translate"]
    arcs = []
    for deltas in topology["arcs"]:
        x = y = 0
        arc = []
        for dx, dy in deltas:
            x, y = x + dx, y + dy
            arc.append((x * scale_x + shift_x, y * scale_y + shift_y))
        arcs.append(arc)
    return arcs


def join_arcs(indexes: list[int], arcs: list[Ring]) -> Ring:
    """One open ring; arc ~i is arc i backwards, and joined arcs share their end point."""
    ring: Ring = []
    for i in indexes:
        ring += (arcs[i] if i >= 0 else arcs[~i][::-1])[:-1]
    return ring


def unroll(ring: Ring) -> Ring:
    """Longitudes without jumps; a ring around the pole is closed along latitude -90."""
    turns = 0
    out = ring[:1]
    for (before, _), (lon, lat) in pairwise([*ring, ring[0]]):
        turns += (before - lon > 180) - (lon - before > 180)
        out.append((lon + 360 * turns, lat))
    if turns == 0:
        return out[:-1]
    return [*out, (out[-1][0], -90.0), (out[0][0], -90.0)]


def clip(ring: Ring, axis: int, limit: float, sign: int) -> Ring:
    """The part of an open ring where sign * coordinate >= sign * limit (Sutherland-Hodgman)."""
    out: Ring = []
    for a, b in pairwise([*ring[-1:], *ring]):
        a_in, b_in = (sign * p[axis] >= sign * limit for p in (a, b))
        if a_in != b_in:
            t = (limit - a[axis]) / (b[axis] - a[axis])
            out.append((a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])))
        if b_in:
            out.append(b)
    return out


def pieces(ring: Ring) -> Iterator[Ring]:
    """The ring cut to the flat map, in as many parts as it needs, rounded and closed."""
    ring = clip(unroll(ring), 1, SOUTH_DEG, 1)
    for turn in (-1, 0, 1):
        part = clip(clip(ring, 0, 360 * turn - 180, 1), 0, 360 * turn + 180, -1)
        flat = [(round(lon - 360 * turn, DECIMALS), round(lat, DECIMALS)) for lon, lat in part]
        flat = [b for a, b in pairwise([*flat[-1:], *flat]) if a != b]
        if len(flat) > 2 and abs(twice_area(flat)) > 1e-3:
            yield [*flat, flat[0]]


def twice_area(ring: Ring) -> float:
    """Positive when counter-clockwise."""
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in pairwise([*ring, ring[0]]))


def land(topology: dict[str, Any]) -> dict[str, Any]:
    """A FeatureCollection of one MultiPolygon, outer rings counter-clockwise (RFC 7946)."""
    arcs = decode_arcs(topology)
    polygons = []
    for shape in topology["objects"]["land"]["geometries"]:
        for outer, *holes in shape["arcs"]:
            inner = [p for hole in holes for p in pieces(join_arcs(hole, arcs))]
            parts = list(pieces(join_arcs(outer, arcs)))
            largest = max(parts, key=lambda p: abs(twice_area(p)), default=None)
            for part in parts:  # the one hole of the source, the Caspian, is far from any cut
                rings = [part, *(inner if part is largest else [])]
                polygons.append(
                    [r if (twice_area(r) > 0) == (r is part) else r[::-1] for r in rings]
                )
    geometry = {"type": "MultiPolygon", "coordinates": polygons}
    feature = {"type": "Feature", "properties": {"name": "land"}, "geometry": geometry}
    return {"type": "FeatureCollection", "features": [feature]}


if __name__ == "__main__":
    source = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print(json.dumps(land(source), separators=(",", ":")))
