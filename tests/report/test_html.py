"""The HTML report: whole in one file, safe, true to the figures, and fit for A4."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from carbonrouter_core import InputError, Scenario, load_catalog, run_policy
from carbonrouter_core.report import html_report, svg_charts
from carbonrouter_core.report.sources import built_in_sources
from carbonrouter_core.results.comparison import Comparison
from carbonrouter_core.words import figures as fmt
from tests.hand_made import Costs, T, make_catalog, make_trace, make_world

MADE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TWO_SITES = make_catalog({("M", "G"): Costs(1.0, 2.0)}, {"north": 1.25, "south": 1.25})
A4_TEXT_MM = (180, 263)
PX_PER_MM = 96 / 25.4
NAME = '<script>alert(1)</script>=HYPERLINK("x")'


def world(*policies: str, **fields: object) -> Comparison:
    trace = make_trace({"a": [T(900, 50), T(10, 50, 60)], "b": [T(100, 10)]}, users=["north"] * 3)
    prepared = make_world(trace, TWO_SITES, mg_per_j=[[0.8, 0.9], [0.8, 0.4], [0.8, 0.9]], **fields)
    return Comparison(prepared, {name: run_policy(prepared, name) for name in policies})


def everywhere() -> Comparison:
    """All built-in regions, models and GPU types, a long window and many policies."""
    catalog = load_catalog()
    sessions = {
        f"s{i}": [T(200, 50, 3600.0 * 24 * i), T(10, 50, 3600.0 * 24 * i + 60)] for i in range(119)
    }
    trace = make_trace(sessions | {"\u202eevil <b>": [T(10**7, 1)]})
    scenario = {
        "name": (NAME + "x" * 120)[:120],
        "regions": tuple(catalog.regions),
        "gpus": tuple(catalog.gpus),
        "models": tuple(catalog.models),
        "window_start": "2022-06-01",
        "window_days": 120,
        "copies": "all",
        "latency_ceiling_ms": 5000.0,
        "user_mix": dict.fromkeys(catalog.regions, 0.123456789),
        "pue_overrides": dict.fromkeys(list(catalog.regions)[:5], 1.5),
    }
    from carbonrouter_core import prepare

    prepared = prepare(Scenario(**scenario), trace)
    names = ("carbonrouter", "faircarbon", "sticky", "round-robin", "nearest-region")
    names += ("cleanest-region", "largest-model", "smallest-model", "free-migration")
    return Comparison(prepared, {name: run_policy(prepared, name) for name in names})


class Tags(HTMLParser):
    """What tags and attributes a page has, and whether they are closed in order."""

    VOID = ("meta", "br", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def words(text: str) -> str:
    """What a reader reads."""
    body = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    plain = unescape(re.sub(r"<[^>]+>", " ", body)).replace(fmt.NARROW_SPACE, " ")
    return re.sub(r"\s+", " ", plain)


@pytest.fixture(scope="module")
def large() -> str:
    return html_report(everywhere(), "carbonrouter", generated_utc=MADE)


@pytest.fixture(scope="module")
def small() -> str:
    comparison = world("carbonrouter", "faircarbon", "sticky", "free-migration")
    return html_report(comparison, "carbonrouter", generated_utc=MADE)


def test_it_is_one_file_that_asks_for_nothing(large: str) -> None:
    page = Tags(large)
    assert not set(page.tags) & {"script", "link", "img", "iframe", "object", "a", "form"}
    for name, value in page.attributes:
        assert not name.startswith("on"), name
        assert name not in ("src", "href"), value
        if name != "xmlns":
            assert "http" not in (value or "") or name == "content"
    assert not re.search(r"url\(|@import", large)
    assert "default-src 'none'" in large
    assert page.tags.count("svg") == 4


def test_names_of_users_are_text(large: str) -> None:
    assert "<script" not in large
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in large
    assert large.count("<bdi>") >= 3  # a right-to-left name turns nothing around it


def test_every_name_is_escaped_in_text_attributes_and_charts() -> None:
    """Names of a scenario, a trace, a city and a zone; ends of tags and of attributes in each."""
    hostile = "</td></text></svg><script>alert('1')</script>\" onload=\"x {{ 7 * 7 }} &lt;"
    catalog = dataclasses.replace(
        TWO_SITES,
        regions={
            name: dataclasses.replace(region, city=f"city {hostile}")
            for name, region in TWO_SITES.regions.items()
        },
    )
    trace = make_trace({"a": [T(900, 50), T(10, 50, 60)]}, users=["north"] * 2)
    trace = dataclasses.replace(trace, name=f"trace {hostile}")
    prepared = make_world(trace, catalog, name=f"scenario {hostile}")
    names = ("carbonrouter", "faircarbon")
    text = html_report(
        Comparison(prepared, {name: run_policy(prepared, name) for name in names}), "carbonrouter"
    )
    page = Tags(text)
    assert "script" not in page.tags and "onload" not in dict(page.attributes)
    for kind in ("scenario", "trace", "city"):
        assert f"{kind} {hostile}" in words(text)
        assert f"{kind} {hostile}" not in text
    assert any(hostile in (value or "") for _, value in page.attributes)  # labels of charts


def test_charts_are_well_formed_and_say_what_they_show(large: str) -> None:
    for svg in re.findall(r"<svg.*?</svg>", large, re.DOTALL):
        root = ET.fromstring(svg)
        assert len(root.get("aria-label") or "") > 40
        width, height = (float(one) for one in (root.get("viewBox") or "").split()[2:])
        assert width == svg_charts.WIDTH
        assert height / width * A4_TEXT_MM[0] < A4_TEXT_MM[1]
        for text in root.iter("{http://www.w3.org/2000/svg}text"):
            assert -1 <= float(text.get("x") or 0) <= width
            assert 0 <= float(text.get("y") or 0) <= height
        assert not re.search(r"\bnan\b", svg, re.IGNORECASE)


# 1.23 g against 1.65 g (test_results); SCI adds the embodied carbon
def test_the_figures_are_those_of_the_comparison(small: str) -> None:
    said = words(small)
    assert "CarbonRouter, published rule emits 25.5 % less CO2e than FairCarbon" in said
    assert "1.23 g against 1.65 g" in said
    comparison = world("carbonrouter", "faircarbon")
    ours = comparison.figures("carbonrouter")
    sci = (ours["carbon_g"] + ours["embodied_g"]) / 3
    assert (
        f"one served turn {fmt.Mass.for_largest(sci).text(sci)}".replace(fmt.NARROW_SPACE, " ")
        in said
    )
    for label in (
        *("Location-based", "Average intensity", "Lifecycle basis", "Embodied carbon"),
        *("Assumptions", "Warnings", "Sources", "ODbL 1.0", "Open Database License", "SHA-256"),
        *("A lower bound that no router can reach", "Made 2026-01-02T03:04:05Z"),
    ):
        assert label in said
    assert "nan" not in said.replace("financ", "").lower().split()


def test_it_says_when_carbonrouter_loses_or_nothing_can_be_said() -> None:
    worse = world("round-robin", "faircarbon")  # 2.32 g against 1.65 g
    said = words(html_report(worse, "round-robin"))
    assert "emits 40.6 % more CO2e than FairCarbon" in said
    trace = make_trace({"a": [T(0, 0)]}, users=["north"])
    prepared = make_world(trace, TWO_SITES)
    names = ("carbonrouter", "faircarbon")
    nothing = Comparison(prepared, {name: run_policy(prepared, name) for name in names})
    said = words(html_report(nothing, "carbonrouter"))
    assert "no saving can be given" in said
    assert "inf" not in re.findall(r"[a-z]+", said)
    with pytest.raises(InputError, match="faircarbon"):
        html_report(world("carbonrouter"), "carbonrouter")


def test_inputs_that_differ_from_the_preset_are_marked(large: str, small: str) -> None:
    said = words(large)
    assert "changes from preset" in said
    assert "length of the window 120 d changed" in said
    assert "finding its history cached wherever it goes and no latency ceiling, emits" in said
    assert "turns fit in no model" in said
    assert "Policies know: the present intensity is known" in words(small)


def test_sources_are_those_of_the_data_folder(large: str) -> None:
    tables = {one.table: one for one in built_in_sources()}
    assert {"models.csv", "energy_points.csv", "carbon_intensity_3h.parquet"} <= set(tables)
    said = words(large)
    for name in ("models.csv", "energy_points.csv", "region_rtt_ms.csv", "difficulty tables"):
        assert tables[name].source in said
        assert tables[name].licence in said
    assert tables["carbon_intensity_3h.parquet"].attribution in said
    assert tables["energy_points.csv"].attribution in said
    assert "ragpulse" not in said.lower()  # the times of this trace are its own
    assert "Azure swedencentral 2023" in said
    assert "set by the user" in said


# --- On paper --------------------------------------------------------------------------------


def print_to_pdf(folder: Path, chromium_path: str) -> tuple[list[dict[str, float]], float]:
    """Print report.html of ``folder`` beside it; boxes of its parts and its width in px."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=["--no-sandbox"])
        requests: list[str] = []
        page = browser.new_page(viewport={"width": round(A4_TEXT_MM[0] * PX_PER_MM), "height": 900})
        page.on("request", lambda request: requests.append(request.url))
        page.goto((folder / "report.html").as_uri())
        page.emulate_media(media="print")
        boxes = page.evaluate(
            "[...document.querySelectorAll('figure, tr, section.whole, table, h1, p, svg, li')]"
            ".map(e => {const r = e.getBoundingClientRect();"
            " return {tag: e.tagName, height: r.height, right: r.right}})"
        )
        wide = page.evaluate("document.documentElement.scrollWidth")
        page.pdf(path=folder / "report.pdf", prefer_css_page_size=True)
        browser.close()
    assert len(requests) == 1
    return boxes, wide


@pytest.fixture(scope="module")
def printed(
    large: str, chromium_path: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, list[dict[str, float]], float]]:
    """The PDF of the large report, and the boxes of what must not be cut, at A4's width."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "report.html").write_text(large, encoding="utf-8")
    # In a thread of its own: in this one the browser tests may have a playwright running.
    with ThreadPoolExecutor(1) as thread:
        boxes, wide = thread.submit(print_to_pdf, folder, chromium_path).result()
    yield folder / "report.pdf", boxes, wide


@pytest.mark.browser
def test_nothing_is_wider_or_higher_than_a_page_of_a4(
    printed: tuple[Path, list[dict[str, float]], float],
) -> None:
    _, boxes, wide = printed
    page_width, page_height = (side * PX_PER_MM for side in A4_TEXT_MM)
    assert wide <= page_width + 1
    for box in boxes:
        assert box["right"] <= page_width + 1, box
        if box["tag"] in ("FIGURE", "TR", "SECTION"):
            assert box["height"] < page_height, box


@pytest.mark.browser
def test_each_chart_stands_whole_on_one_page(
    printed: tuple[Path, list[dict[str, float]], float],
) -> None:
    if shutil.which("pdftotext") is None:
        pytest.skip("pdftotext is not installed")
    done = subprocess.run(
        ["pdftotext", "-layout", str(printed[0]), "-"], check=True, capture_output=True, text=True
    )
    pages = [re.sub(r"\s+", " ", page) for page in done.stdout.split("\f")]
    for first, last in (
        ("operational carbon in its parts", "Operational carbon ("),
        ("Saving by length of the conversation", "Carbon saved against FairCarbon (%)"),
        ("Carbon intensity on a typical day", "hour of the day, UTC"),
        ("a turn counts where it starts", "1 Jun"),
    ):
        (page,) = [text for text in pages if first in text]
        assert last in page
