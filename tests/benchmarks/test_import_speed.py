"""Five million generated turns: within 2 GiB, at 200,000 turns a second or better."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.generated import IMPORT, large_chats, large_log, large_trace

ROOT = Path(__file__).resolve().parents[2]
TURNS = 5_000_000
LEAST_TURNS_PER_S = 200_000
OTHER_FORMATS = ("azure", "qwen-bailian", "mooncake", "ragpulse", "claude-code")


def imported(path: Path, tmp_path: Path, expected: int = TURNS) -> tuple[float, float]:
    """Turns a second, and peak memory in KiB, of an import in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT, str(path)],
        cwd=ROOT,
        env=os.environ | {"CARBONROUTER_HOME": str(tmp_path / "home")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    turns, seconds, worked, peak_kib = (float(figure) for figure in done.stdout.split())
    assert turns == expected
    print(
        f"{path.name}: {turns / seconds:,.0f} turns/s, {turns / worked:,.0f} per second of CPU, "
        f"{peak_kib / 2**20:.2f} GiB"
    )
    return turns / seconds, peak_kib


@pytest.mark.benchmark
@pytest.mark.parametrize("name", ["large.parquet", "large.csv", "large.jsonl"])
def test_five_million_turns(tmp_path: Path, name: str) -> None:
    turns_per_s, peak_kib = imported(large_trace(tmp_path / name, TURNS), tmp_path)
    assert peak_kib < 2 * 2**20
    assert turns_per_s >= LEAST_TURNS_PER_S


@pytest.mark.benchmark
@pytest.mark.parametrize("format_id", OTHER_FORMATS)
def test_five_million_turns_of_other_formats(tmp_path: Path, format_id: str) -> None:
    path = large_log(tmp_path / f"large-{format_id}", format_id, TURNS)
    turns_per_s, peak_kib = imported(path, tmp_path)
    assert peak_kib < 2 * 2**20
    assert turns_per_s >= LEAST_TURNS_PER_S


@pytest.mark.benchmark
@pytest.mark.parametrize("format_id", ["wildchat", "lmsys", "sharegpt"])
def test_five_million_turns_of_short_conversations(tmp_path: Path, format_id: str) -> None:
    path = large_chats(tmp_path / "chats.jsonl", TURNS, 15, 25, format_id)  # 350 bytes a turn
    turns_per_s, peak_kib = imported(path, tmp_path)
    assert peak_kib < 2 * 2**20
    assert turns_per_s >= LEAST_TURNS_PER_S


@pytest.mark.benchmark
def test_long_conversations(tmp_path: Path) -> None:
    # at 2.6 kB a turn the bytes set the speed: parsing JSON alone takes half of it
    path = large_chats(tmp_path / "chats.jsonl", 500_000, 180, 260)
    turns_per_s, peak_kib = imported(path, tmp_path, 500_000)
    mb_per_s = turns_per_s * path.stat().st_size / 500_000 / 1e6
    print(f"{mb_per_s:.0f} MB/s")
    assert peak_kib < 2 * 2**20
    assert mb_per_s >= 100
