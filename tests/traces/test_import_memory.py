"""Importing takes memory for a part of the file, whatever its length."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.generated import IMPORT, large_trace

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["large.parquet", "large.csv", "large.jsonl"])
def test_half_a_million_turns_stay_far_below_the_limit(tmp_path: Path, name: str) -> None:
    path = large_trace(tmp_path / name, 500_000)
    done = subprocess.run(
        [sys.executable, "-c", IMPORT, str(path)],
        cwd=ROOT,
        env=os.environ | {"CARBONROUTER_HOME": str(tmp_path / "home")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    turns, _, _, peak_kib = (float(figure) for figure in done.stdout.split())
    assert turns == 500_000
    assert peak_kib < 1.25 * 2**20
