"""Parts worked on ahead, in threads."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from carbonrouter_core.reading import files
from carbonrouter_core.reading.ahead import AHEAD, worked_ahead
from carbonrouter_core.traces.loading import staged_trace
from carbonrouter_core.traces.staging import stage


def test_results_come_in_the_order_of_their_parts_however_long_each_takes() -> None:
    second_is_done = threading.Event()

    def work(part: int) -> int:
        if part == 0:
            assert second_is_done.wait(10)
        if part == 1:
            second_is_done.set()
        return part * part

    assert list(worked_ahead(work, range(9))) == [part * part for part in range(9)]


def test_only_some_parts_are_taken_before_they_are_needed() -> None:
    taken: list[int] = []

    def parts() -> Iterator[int]:
        for part in range(100):
            taken.append(part)
            yield part

    results = worked_ahead(lambda part: part, parts())
    assert next(results) == 0
    assert len(taken) == AHEAD + 1
    results.close()  # type: ignore[attr-defined]
    assert len(taken) == AHEAD + 1


def test_an_error_comes_up_in_its_place() -> None:
    results = worked_ahead(lambda part: 1 // part, [1, 1, 0, 1])
    assert [next(results), next(results)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


@pytest.mark.parametrize("format_id", ["sharegpt", "wildchat"])
def test_the_report_is_the_same_however_the_file_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_id: str
) -> None:
    names = ("id", "conversations", "from", "value")
    if format_id == "wildchat":
        names = ("conversation_hash", "conversation", "role", "content")
    name, messages, role, text = names
    said = [{role: "user", text: "Why so?"}, {role: "assistant", text: "Because."}]
    odd = [{role: "user", text: 5}, {role: "narrator", text: "Then"}, *said]
    lines = []
    for i in range(60):
        record = {name: f"c{i // 2}_{i % 2}", messages: odd if i % 7 == 3 else said}
        lines.append(json.dumps(record)[: 40 if i % 11 == 5 else None])
    path = tmp_path / "chats.jsonl"
    path.write_text("\n".join(lines) + "\n")
    found = []
    for size in (2**20, 2000, 300):
        monkeypatch.setattr(files, "CHUNK_BYTES", size)
        with stage([path]) as staged:
            found.append((str(staged.report), staged_trace(staged, "chats").sha256))
    assert "unreadable" in found[0][0] and "known speaker" in found[0][0]
    assert found[0] == found[1] == found[2]
