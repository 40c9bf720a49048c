"""What may import what: nothing imports upwards, and no modules import each other in a circle.

And what only one module may know: the ids of policies.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from carbonrouter_core.routing.policies import AS_SERVED, POLICIES, PUBLISHED

ROOT = Path(__file__).resolve().parents[1]
CORE = "carbonrouter_core"
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "units", "paths", "memory", "compiled", "progress", "version", "words"),
    ("scenario",),
    ("reading",),
    ("quality",),
    ("traces",),
    ("fleet",),
    ("grid",),
    ("store",),
    ("routing",),
    ("replay",),
    ("results",),
    ("studies", "report", "live"),
    ("cli",),
)
"""Modules and folders of the core, low to high: one may import from its own layer and below."""
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FACE = (CORE, f"{CORE}.__main__")
"""The public names and the command line stand above all layers."""
USER_INTERFACE = ("streamlit", "plotly", "pydeck", "pages")


def name_of(path: Path) -> str:
    """``carbonrouter_core.grid.series`` for its file."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def modules() -> dict[str, Path]:
    """The modules of the core and of the pages, by name."""
    return {
        name_of(path): path
        for folder in (CORE, "pages")
        for path in sorted(ROOT.joinpath(folder).rglob("*.py"))
    }


@cache
def imports(module: str) -> frozenset[str]:
    """The names of all modules that ``module`` imports, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(modules()[module].read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= inner & modules().keys() or {node.module}
    return frozenset(names)


def level_of(module: str) -> int:
    """The layer of a module of the core."""
    return len(LAYERS) if module in FACE else LEVEL[module.split(".")[1]]


def core() -> list[str]:
    return [name for name in modules() if name.split(".")[0] == CORE]


def test_nothing_in_the_core_imports_upwards() -> None:
    upwards = {
        (module, imported)
        for module in core()
        for imported in imports(module) & modules().keys()
        if level_of(imported) > level_of(module)
    }
    assert not upwards


@pytest.mark.parametrize("library", USER_INTERFACE)
def test_the_core_imports_no_user_interface(library: str) -> None:
    users = [m for m in core() if any(name.split(".")[0] == library for name in imports(m))]
    assert not users


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module: imports(module) & modules().keys() - {module} for module in modules()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules of a circle


def test_no_module_but_the_registry_knows_a_policy_by_its_id() -> None:
    ids = {*POLICIES, AS_SERVED.id} - {PUBLISHED}  # which is the name of the program too
    named = {
        (module, node.value)
        for module, path in modules().items()
        if not module.startswith((f"{CORE}.routing.policies", f"{CORE}.scenario"))  # its baseline
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant) and node.value in ids
    }
    assert not named


def test_the_design_lists_these_layers() -> None:
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    table = text.partition("| layer | subject |\n|---|---|\n")[2].partition("\n\n")[0]
    listed = [re.findall(r"`(\w+)/?`", row.split("|")[1]) for row in table.splitlines()]
    assert [set(names) for names in listed] == [set(names) for names in LAYERS]


def test_the_sections_of_the_design_that_code_cites_exist() -> None:
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    sections = set(re.findall(r"^## (\d+)\.", text, re.MULTILINE))
    cited = {
        (name, number)
        for name, path in modules().items()
        for number in re.findall(r"docs/design\.md,\s+section (\d+)", path.read_text("utf-8"))
    }
    assert cited
    assert {citation for citation in cited if citation[1] not in sections} == set()
