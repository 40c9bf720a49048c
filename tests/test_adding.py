"""What CONTRIBUTING.md says is enough to add a policy, a GPU type, a model, an importer and a
scenario field: done on a copy of the project, which then uses all five.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from carbonrouter_core import POLICIES, Scenario, load_catalog
from carbonrouter_core.traces.importers import IMPORTERS
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[1]

POLICY = '''"""Last deployment: the last feasible one in deployment order."""

import numpy as np

from carbonrouter_core.compiled import Array, Record, jit_borrowing
from carbonrouter_core.routing.policies import reasons


@jit_borrowing
def choose(carbon_g: Array, note: Record) -> int:
    """The last deployment that is feasible."""
    choice = -1
    for deployment in range(len(carbon_g)):
        if carbon_g[deployment] < np.inf:
            choice = deployment
    note.wanted = choice
    note.reason = reasons.RULE
    return choice
'''
IMPORTER = '''"""Logs with the columns who, asked, answered."""

from collections.abc import Iterator

import pyarrow as pa

from carbonrouter_core.reading.columns import Wanted, read_columns
from carbonrouter_core.reading.files import Source
from carbonrouter_core.traces.importers.base import Importer, Reading, always, lacks


def _recognise(source: Source) -> str | None:
    return None if lacks(source, "who", "asked", "answered") else "it has the column answered"


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    wanted = (
        Wanted("session", ("who",), "text"),
        Wanted("new_prompt_tokens", ("asked",)),
        Wanted("output_tokens", ("answered",)),
    )
    for table in read_columns(source, wanted, reading.findings, reading.progress):
        yield table.append_column("order", table["line"].cast(pa.float64()))


IMPORTER = Importer(
    id="who",
    label="Who asked",
    sessions="the column who",
    recognise=_recognise,
    read=_read,
    times=always("none"),
)
'''
LOG = "who,asked,answered\nann,200,100\nbob,50,60\nann,20,30\n"

USE = """
import io, json, sys
from contextlib import redirect_stdout

import numpy as np
import streamlit as st
from streamlit.testing.v1 import AppTest

import carbonrouter_core.replay.decisions as decisions
from carbonrouter_core import Scenario
from carbonrouter_core.cli.main import main
from carbonrouter_core.report.links import link_text, open_link

for name in ("SESSION", "NOTE"):  # nothing is compiled here: records as Python reads them
    setattr(decisions, name, np.dtype((np.record, getattr(decisions, name))))


def printed(*arguments):
    text = io.StringIO()
    with redirect_stdout(text):
        code = main(arguments)
    assert not code, arguments
    return text.getvalue()


report = printed("import", "trace", "log.csv", "--name", "mine")
chosen = ("--set", "models=Tiny-1B", "--set", "gpus=L4-24GB", "--set", "patience=3")
run = json.loads(printed("compare", "--trace", "mine", *chosen, "--policies", "last", "--json"))
opened = open_link(link_text(Scenario(patience=4)))
patience_s = float(sys.argv[1])
st.page_link = lambda *arguments, **options: None  # the form alone: there are no other pages
drawn = "from pages.parts.scenario import form; form.draw()"
page = AppTest.from_string(drawn, default_timeout=patience_s)
page.run()
box = next(box for box in page.number_input if box.key.endswith("patience"))
json.dump(
    {
        "report": report,
        "run": run,
        "link": [opened.scenario.patience, list(opened.notices)],
        "form": [box.label, box.value, box.min, box.max, bool(page.exception)],
    },
    sys.stdout,
)
"""


def insert(path: Path, before: str, text: str) -> None:
    """Write ``text`` in front of the one place where ``before`` stands."""
    content = path.read_text(encoding="utf-8")
    assert content.count(before) == 1, (path, before)
    path.write_text(content.replace(before, text + before), encoding="utf-8")


def append(path: Path, *rows: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{row}\n" for row in rows)


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the copy prints once all five have been added to it."""
    copy = tmp_path_factory.mktemp("adding") / "project"
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("carbonrouter_core", "pages", "data", "assets"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    core, data = copy / "carbonrouter_core", copy / "data"

    # a policy: a file and its entry
    policies = core / "routing" / "policies"
    (policies / "last.py").write_text(POLICY)
    registry = policies / "__init__.py"
    insert(registry, "    lookahead,\n    model_size,", "    last,\n")
    entry = '    Policy("last", last.choose, "Last", "the last feasible deployment"),\n'
    insert(registry, '    Policy(\n        "sticky",', entry)

    # a GPU type: a row, and rows of energy points; a model: a row, and rows of energy points
    append(data / "gpus.csv", "L4-24GB,121,300,24,72,16,30,,,a guess")
    append(
        data / "models.csv",
        "Tiny-1B,,1,1,16,16,,2048,32768,2,131072,20,a guess",
    )
    append(
        data / "energy_points.csv",
        "Tiny-1B,L4-24GB,1,8,0.005,0.08,0.08,10,measured,",
        "Tiny-1B,L4-24GB,1,32,0.005,0.08,0.03,15,measured,",
        "Tiny-1B,H100-80GB,1,8,0.002,0.004,0.1,2,measured,",
    )

    # an importer: a file and its name
    importers = core / "traces" / "importers"
    (importers / "who.py").write_text(IMPORTER)
    insert(importers / "__init__.py", '        "azure",\n', '        "who",\n')

    # a scenario field: an entry
    field = '    patience: int = _field(2, "how long users wait", "turns", low=1, high=9)\n'
    insert(core / "scenario.py", "    seed: int = _field(", field)

    (copy / "log.csv").write_text(LOG)
    done = subprocess.run(
        [sys.executable, "-c", USE, str(PATIENCE_S)],
        cwd=copy,
        env=os.environ
        | {
            "CARBONROUTER_HOME": str(copy / "home"),
            "NUMBA_DISABLE_JIT": "1",
            "PYTHONPATH": str(copy),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_policy(used: dict[str, Any]) -> None:
    assert "last" not in POLICIES
    assert used["run"]["policies"]["last"]["turns"] == 3
    assert used["run"]["policies"]["last"]["carbon_g"] > 0


def test_a_gpu_type_and_a_model(used: dict[str, Any]) -> None:
    catalog = load_catalog()
    assert "L4-24GB" not in catalog.gpus and "Tiny-1B" not in catalog.models
    scenario = used["run"]["scenario"]
    assert (scenario["models"], scenario["gpus"]) == (["Tiny-1B"], ["L4-24GB"])


def test_an_importer(used: dict[str, Any]) -> None:
    assert "who" not in IMPORTERS
    assert "it has the column answered" in used["report"]
    assert used["run"]["trace"]["sessions"] == 2


def test_a_scenario_field(used: dict[str, Any]) -> None:
    assert "patience" not in Scenario().to_dict()
    assert used["run"]["scenario"]["patience"] == 3
    assert used["link"] == [4, []]
    assert used["form"] == ["How long users wait (turns)", 2, 1, 9, False]
