"""The scripts of data/build as modules: they are no package, and each is loaded once."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from types import ModuleType

from tests.conftest import ROOT


@cache
def build_script(name: str) -> ModuleType:
    """The script ``data/build/<name>.py``, under its own name."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "data" / "build" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module
