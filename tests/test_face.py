"""The public names: what a notebook imports, and that each of them is documented."""

from __future__ import annotations

import inspect
import re

import pytest

import carbonrouter_core
from tests.conftest import ROOT

NAMES = (
    "Axis",
    "BASELINE",
    "BUILTIN_TRACES",
    "CarbonRouter",
    "CarbonRouterError",
    "Catalog",
    "CatalogError",
    "Comparison",
    "Decision",
    "FIELDS",
    "FIGURES",
    "HourlyLoad",
    "InputError",
    "IntensityError",
    "Interval",
    "LiveTurn",
    "OPTIMUM",
    "Outcome",
    "POLICIES",
    "PRESETS",
    "Point",
    "Policy",
    "Prepared",
    "Question",
    "Run",
    "SWEEP_INPUTS",
    "Scenario",
    "ScenarioError",
    "StoreError",
    "Sweep",
    "Trace",
    "TraceError",
    "TurnError",
    "compare",
    "find_trace",
    "hourly_load",
    "html_report",
    "load_catalog",
    "open_executor",
    "prepare",
    "preset",
    "read_trace",
    "run_points",
    "run_policy",
    "schedule",
    "write_bundle",
)
"""A name that is taken away breaks the notebooks that use it; a new name is a promise."""


def test_the_public_names_are_these() -> None:
    assert sorted(carbonrouter_core.__all__) == sorted(NAMES)
    assert all(hasattr(carbonrouter_core, name) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_public_functions_and_classes_are_documented(name: str) -> None:
    value = getattr(carbonrouter_core, name)
    if inspect.isfunction(value) or inspect.isclass(value):
        assert value.__doc__ and not value.__doc__.startswith(f"{name}(")


def test_the_notebook_of_the_docs_runs(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 7
    values: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), values)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert (tmp_path / "bundle.zip").stat().st_size > 1_000
