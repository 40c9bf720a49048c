"""A run of a million turns is exported in a fixed amount of memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.generated import large_trace

ROOT = Path(__file__).resolve().parents[2]
TURNS = 1_000_000
LIMIT_MIB = 500

EXPORT = r"""
import re, resource, sys, time, zipfile
from pathlib import Path
from carbonrouter_core import Scenario, compare
from carbonrouter_core.report import write_bundle

def resident_mib():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20

comparison = compare(Scenario(trace=sys.argv[1]), ["carbonrouter", "faircarbon"])
comparison.trace.sha256, comparison.trace.session_index, comparison.test_half
Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew from here
before, started = resident_mib(), time.perf_counter()
with open(sys.argv[2], "wb") as out:
    write_bundle(comparison, out)
status = Path("/proc/self/status").read_text()
peak = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024
written = zipfile.ZipFile(sys.argv[2]).getinfo("decisions.csv").file_size
print(before, peak, time.perf_counter() - started, written)
"""


@pytest.mark.benchmark
def test_a_million_turns_are_exported_in_half_a_gigabyte(tmp_path: Path) -> None:
    path = large_trace(tmp_path / "large.parquet", TURNS)
    out = tmp_path / "bundle.zip"
    done = subprocess.run(
        [sys.executable, "-c", EXPORT, str(path), str(out)],
        cwd=ROOT,
        env=os.environ | {"CARBONROUTER_HOME": str(tmp_path / "home")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    before, peak, seconds, csv_bytes = (float(one) for one in done.stdout.split())
    print(
        f"{TURNS:,} turns x 2 policies, {csv_bytes / 2**20:,.0f} MiB of decisions in "
        f"{seconds:.0f} s: {peak - before:.0f} MiB more than the run itself "
        f"({before:.0f} MiB, {peak:.0f} in all)"
    )
    assert peak - before < LIMIT_MIB
