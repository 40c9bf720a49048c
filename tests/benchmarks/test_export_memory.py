"""A million turns are read, replayed under two policies and exported in half a gigabyte."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.generated import large_trace

ROOT = Path(__file__).resolve().parents[2]
TURNS = 1_000_000
LIMIT_MB = 500

COMMAND = r"""
import sys
from pathlib import Path
from carbonrouter_core.cli.main import main

assert main(sys.argv[1:]) == 0
# of this program alone: ru_maxrss would begin with that of the process that started it
status = Path("/proc/self/status").read_text()
print(int(status.partition("VmHWM:")[2].split()[0]))
"""


def peak_mb(home: Path, *arguments: str) -> float:
    """Runs a command in a process of its own; the most memory it ever held, in 10^6 bytes."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        cwd=ROOT,
        env=os.environ | {"CARBONROUTER_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return int(done.stdout.split()[-1]) * 1024 / 1e6


@pytest.mark.benchmark
def test_a_million_turns_are_exported_in_half_a_gigabyte(tmp_path: Path) -> None:
    home, out = tmp_path / "home", tmp_path / "bundle.zip"
    path = large_trace(tmp_path / "large.parquet", TURNS)
    small = large_trace(tmp_path / "small.parquet", 1_000)
    peak_mb(home, "report", "--trace", str(small), "--out", str(out))  # the kernel is compiled
    peak = peak_mb(home, "report", "--trace", str(path), "--out", str(out))
    with zipfile.ZipFile(out) as bundle:
        csv_mb = bundle.getinfo("decisions.csv").file_size / 1e6
    print(f"{TURNS:,} turns x 2 policies, {csv_mb:,.0f} MB of decisions: {peak:.0f} MB at most")
    assert peak < LIMIT_MB


@pytest.mark.benchmark
def test_a_kept_run_is_computed_again_in_half_a_gigabyte(tmp_path: Path) -> None:
    home = tmp_path / "home"
    path = large_trace(tmp_path / "large.parquet", TURNS)
    peak_mb(home, "report", "--trace", str(path), "--out", str(tmp_path / "x.zip"), "--keep", "x")
    peak = peak_mb(home, "runs", "--again", "1")
    print(f"{TURNS:,} turns x 2 policies again: {peak:.0f} MB at most")
    assert peak < LIMIT_MB
