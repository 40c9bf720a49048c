"""The public names: what a notebook imports, and that each of them is documented."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import carbonrouter_core
from tests.conftest import ROOT

NAMES = (
    "Axis",
    "FAIRCARBON",
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


def sections_missing(value: Any) -> set[str]:
    """The numpydoc sections that a function or class needs and does not have."""
    text = inspect.getdoc(value) or ""
    sections = set(re.findall(r"^(\w+)\n-+$", text, re.MULTILINE))
    parameters = [name for name in inspect.signature(value).parameters if name != "self"]
    if inspect.isclass(value):
        return set() if sections & {"Parameters", "Attributes"} else {"Parameters"}
    returns = inspect.signature(value).return_annotation != "None"
    return ({"Parameters"} if parameters else set()) - sections | (
        {"Returns"} if returns and "Yields" not in sections else set()
    ) - sections


def documented_names(value: Any) -> set[str]:
    """The names that stand under Parameters or Attributes."""
    text = inspect.getdoc(value) or ""
    parts = re.split(r"^(\w+)\n-+\n", text, flags=re.MULTILINE)
    listed = dict(zip(parts[1::2], parts[2::2], strict=True))
    lines = (listed.get("Parameters", "") + listed.get("Attributes", "")).splitlines()
    return {name.strip(" *") for line in lines if line[:1].strip() for name in line.split(",")}


def public_callables() -> dict[str, Any]:
    """The functions and classes of the face, and the public methods of these classes."""
    values = {}
    for name in carbonrouter_core.__all__:
        value = getattr(carbonrouter_core, name)
        if inspect.isfunction(value):
            values[name] = value
        elif inspect.isclass(value) and not issubclass(value, Exception):
            values[name] = value
            for of_class, member in vars(value).items():
                function = getattr(member, "__func__", member)
                if inspect.isfunction(function) and not of_class.startswith("_"):
                    values[f"{name}.{of_class}"] = getattr(value, of_class)
    return values


@pytest.mark.parametrize("name", public_callables())
def test_what_is_public_says_what_it_takes_and_gives(name: str) -> None:
    value = public_callables()[name]
    assert not sections_missing(value)
    if value is carbonrouter_core.Scenario:
        return  # FIELDS documents its fields, and tests of the scenario check it
    public = [p for p in inspect.signature(value).parameters if not p.startswith(("_", "self"))]
    assert set(public) - documented_names(value) == set()


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
