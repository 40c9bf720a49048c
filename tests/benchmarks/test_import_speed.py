"""Five million generated turns: within 2 GiB, at 200,000 turns a second or better."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.generated import IMPORT, large_trace

ROOT = Path(__file__).resolve().parents[2]
TURNS = 5_000_000


@pytest.mark.benchmark
@pytest.mark.parametrize("name", ["large.parquet", "large.csv", "large.jsonl"])
def test_five_million_turns(tmp_path: Path, name: str) -> None:
    path = large_trace(tmp_path / name, TURNS)
    done = subprocess.run(
        [sys.executable, "-c", IMPORT, str(path)],
        cwd=ROOT,
        env=os.environ | {"CARBONROUTER_HOME": str(tmp_path / "home")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    turns, seconds, peak_kib = (float(figure) for figure in done.stdout.split())
    print(f"{name}: {turns / seconds:,.0f} turns/s, {peak_kib / 2**20:.2f} GiB")
    assert turns == TURNS
    assert peak_kib < 2 * 2**20
    assert turns / seconds >= 200_000
