"""House rules that a command can check, over the files that git tracks."""

import hashlib
import json
import re
import tomllib
from itertools import chain, pairwise
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from streamlit import config as streamlit_config

from tests.build_scripts import build_script
from tests.contrast import contrast_ratio

ROOT = Path(__file__).resolve().parents[1]
MACHINE_TEXT = re.compile(
    r"/(work|farm|root)/|/(home|Users)/\w+/"
    r"|pypi[.]org|python[h]osted|registry[.]npmjs|deb[.]debian[.]org"
)


def test_no_tracked_file_names_a_machine_or_a_registry_host(tracked_files: list[Path]) -> None:
    found = []
    for path in tracked_files:
        text = path.read_bytes()
        if b"\0" not in text and (hit := MACHINE_TEXT.search(text.decode("utf-8"))):
            found.append(f"{path.relative_to(ROOT)}: {hit[0]}")
    assert not found


def test_shared_sources_and_samples_are_not_copied(
    tracked_files: list[Path], shared_data: Path
) -> None:
    def sha256(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    stay_in_shared = chain(*((shared_data / name).rglob("*") for name in ("raw", "formats")))
    known = {sha256(path) for path in stay_in_shared if path.is_file()}
    assert known
    assert [path.name for path in tracked_files if sha256(path) in known] == []


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_every_requirement_has_a_lower_and_an_upper_bound(name: str) -> None:
    lines = [line.partition("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    requirements = [Requirement(line) for line in lines if line and not line.startswith("-r")]
    assert requirements
    for requirement in requirements:
        assert {part.operator for part in requirement.specifier} == {">=", "<"}, requirement


def test_the_readme_gives_one_command_to_start_and_one_to_test() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert any("streamlit run app.py" in block for block in blocks)
    # .ci/run executes this line, so it must be one that git's checkout can run as it stands.
    test = re.findall(r"^<!-- test-command -->\n+```sh\n(.+)\n```$", readme, re.MULTILINE)
    assert len(test) == 1
    assert "requirements-dev.txt" in test[0] and "pytest" in test[0]


# Theme


def streamlit_settings() -> dict:
    return tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["light", "dark"])
def test_theme_colours_meet_wcag_aa(name: str) -> None:
    theme = streamlit_settings()["theme"][name]
    for background in (theme["backgroundColor"], theme["secondaryBackgroundColor"]):
        assert contrast_ratio(theme["textColor"], background) >= 4.5
        assert contrast_ratio(theme["linkColor"], background) >= 4.5
        assert contrast_ratio(theme["primaryColor"], background) >= 3  # controls, not text
    assert contrast_ratio("#ffffff", theme["primaryColor"]) >= 4.5  # text on buttons


def test_the_focus_ring_is_seen_in_both_themes() -> None:
    css = (ROOT / "assets" / "style.css").read_text(encoding="utf-8")
    ring = re.search(r"outline: 3px solid (#\w{6})", css)
    assert ring
    for theme in (streamlit_settings()["theme"][name] for name in ("light", "dark")):
        assert contrast_ratio(ring[1], theme["backgroundColor"]) >= 3
        assert contrast_ratio(ring[1], theme["secondaryBackgroundColor"]) >= 3


def test_streamlit_knows_every_setting() -> None:
    def names(value: object, path: str) -> list[str]:
        if not isinstance(value, dict):
            return [path]
        return [name for key in value for name in names(value[key], f"{path}.{key}")]

    settings = streamlit_settings()
    set_here = [name for section in settings for name in names(settings[section], section)]
    assert set_here
    assert set(set_here) <= set(streamlit_config.get_config_options())


def test_assets_reach_for_nothing_remote() -> None:
    for name in ("style.css", "logo.svg"):
        text = (ROOT / "assets" / name).read_text(encoding="utf-8")
        text = text.replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"https?:|url\(|@import|xlink:href", text), name


# Basemap


def land_rings() -> list[list[list[float]]]:
    collection = json.loads((ROOT / "assets" / "land.geojson").read_text(encoding="utf-8"))
    (feature,) = collection["features"]
    return list(chain(*feature["geometry"]["coordinates"]))


def test_land_draws_no_streaks_on_a_flat_map() -> None:
    rings = land_rings()
    assert len(rings) > 100
    for ring in rings:
        assert ring[0] == ring[-1]
        assert all(-180 <= lon <= 180 and -85.06 <= lat <= 85.06 for lon, lat in ring)
        wide = [(a, b) for a, b in pairwise(ring) if abs(a[0] - b[0]) > 20]
        # Only Antarctica may: along the edge of the map, where nobody sees it.
        assert all(a[1] == b[1] == -85.05 for a, b in wide)


def test_land_is_where_it_should_be() -> None:
    def inside(lon: float, lat: float) -> bool:
        crossings = 0
        for (x1, y1), (x2, y2) in chain(*(pairwise(ring) for ring in land_rings())):
            crossings += (y1 > lat) != (y2 > lat) and lon < x1 + (lat - y1) / (y2 - y1) * (x2 - x1)
        return crossings % 2 == 1

    chukotka, fiji, antarctica, sydney = (-175, 67), (178.0, -17.8), (60, -80), (150, -33)
    caspian, pacific = (50.5, 42), (-150, 0)
    assert all(inside(*place) for place in (chukotka, fiji, antarctica, sydney))
    assert not any(inside(*place) for place in (caspian, pacific))


def test_land_is_what_its_script_makes_of_the_source(shared_data: Path) -> None:
    basemap = build_script("basemap")
    source = json.loads((shared_data / "basemap" / "land-110m.json").read_text(encoding="utf-8"))
    shipped = json.loads((ROOT / "assets" / "land.geojson").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(basemap.land(source))) == shipped


def test_the_notice_of_the_basemap_is_carried_over(shared_data: Path) -> None:
    notice = (shared_data / "basemap" / "LICENSE-world-atlas").read_text(encoding="utf-8")
    assert notice in (ROOT / "assets" / "LICENSE-basemap.txt").read_text(encoding="utf-8")
