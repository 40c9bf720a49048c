"""What the pages may do: figures come from the core, and a page's script only draws."""

from __future__ import annotations

import ast

import pytest

from tests.test_imports import imports, modules

PAGES = sorted(name for name in modules() if name.startswith("pages."))
PARTS = [name for name in PAGES if name.startswith("pages.parts.")]
FOLDERS = sorted({name.split(".")[2] for name in PARTS})
SCRIPTS = sorted({name for name in PAGES if name.count(".") == 1} - {"pages.parts", "pages.shared"})
"""What Streamlit runs for each page."""
ENGINE_LIBRARIES = {"duckdb", "numba", "pyarrow", "scipy"}
ARITHMETIC = (ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)


def libraries(module: str) -> set[str]:
    """The top-level packages that ``module`` imports."""
    return {name.split(".")[0] for name in imports(module)}


def page_of(module: str) -> str:
    """The page that a module belongs to, or "shared"."""
    return module.removeprefix("pages.").removeprefix("parts.").split(".")[0]


def test_each_folder_of_parts_has_the_script_of_its_page() -> None:
    assert len(SCRIPTS) == 10
    assert {f"pages.{folder}" for folder in FOLDERS} == set(SCRIPTS)


@pytest.mark.parametrize("module", PAGES)
def test_a_page_uses_its_own_folder_and_what_pages_share(module: str) -> None:
    used = {page_of(name) for name in imports(module) if name.startswith("pages.")}
    assert used <= {page_of(module), "shared"}


@pytest.mark.parametrize("module", PAGES)
def test_pages_use_no_library_of_the_engine(module: str) -> None:
    assert not libraries(module) & ENGINE_LIBRARIES


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_only_draws(script: str) -> None:
    """Whatever could be tested without a browser stands in a module beside the script."""
    nodes = list(ast.walk(ast.parse(modules()[script].read_bytes())))
    assert "numpy" not in libraries(script)
    assert not [node.name for node in nodes if isinstance(node, ast.ClassDef)]
    computed = [node for node in nodes if isinstance(node, ast.BinOp | ast.AugAssign)]
    assert not [node.lineno for node in computed if isinstance(node.op, ARITHMETIC)]
