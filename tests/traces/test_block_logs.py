"""Logs with hashes of prompt blocks: read chunk by chunk or record by record, they are the same."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carbonrouter_core.reading import files
from carbonrouter_core.traces.importers import claude_code, mooncake, ragpulse
from carbonrouter_core.traces.importers.blocks import Latest, block_number
from carbonrouter_core.traces.loading import staged_trace
from carbonrouter_core.traces.staging import stage

MODULES = {"claude-code": claude_code, "mooncake": mooncake, "ragpulse": ragpulse}


def mooncake_records(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    for i in range(300):
        ids = [0, *rng.integers(0, 2, rng.integers(0, 5)).tolist()]
        whole = 512 * len(ids) - int(rng.integers(0, 512))
        yield {"timestamp": 9 * i, "input_length": whole, "output_length": 7, "hash_ids": ids}


def ragpulse_records(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    names = ("sys_prompt", "passages_ids", "history", "web_search", "user_input")
    for i in range(300):
        parts = {name: rng.integers(0, 2, rng.integers(0, 4)).tolist() for name in names}
        parts["history"] = parts["history"] or None
        if i % 9 == 0:
            del parts["web_search"]
        yield {
            "timestamp": str(i // 3),
            "input_length": int(rng.integers(0, 5000)),
            "output_length": 7,
            "hash_ids": parts,
            "session_id": f"s-{rng.integers(40)}",
        }


def agent_records(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    def requests(deep: int) -> Iterator[dict[str, Any]]:
        for second in range(rng.integers(0, 6)):
            if deep == 0 and rng.random() < 0.3:
                agent = {"type": "subagent", "t": second + 0.1, "requests": list(requests(1))}
                drop = rng.choice(["type", "t", "requests", "nothing"], p=[0.1, 0.1, 0.1, 0.7])
                yield {name: one for name, one in agent.items() if name != drop}
                continue
            ids = [*range(rng.integers(1, 9)), *rng.integers(0, 9, 2).tolist()]
            request = {"t": 1.1 * second, "type": "s", "in": 70 * len(ids), "out": 5}
            yield request | ({"hash_ids": ids, "model": "m"} if rng.random() < 0.9 else {})

    for i in range(200):
        record: dict[str, Any] = {"requests": list(requests(0)), "block_size": 64, "models": ["m"]}
        if i % 7:
            record["id"] = f"t{i}" if i % 5 else ""
        if i % 11 == 3:
            record["block_size"] = [0, None, 16][i % 3]
        yield record


RECORDS = {"mooncake": mooncake_records, "ragpulse": ragpulse_records, "claude-code": agent_records}


def read(path: Path) -> tuple[str, str]:
    with stage([path]) as staged:
        return str(staged.report), staged_trace(staged, "log").sha256


@pytest.mark.parametrize("format_id", MODULES)
def test_chunks_read_as_their_records_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_id: str
) -> None:
    records = RECORDS[format_id](np.random.default_rng(3))
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    module = MODULES[format_id]
    whole_chunk = module._whole_chunk
    fast: list[bool] = []

    def seen(*given: Any) -> Any:
        found = whole_chunk(*given)
        fast.append(found is not None)
        return found

    monkeypatch.setattr(module, "_whole_chunk", seen)
    at_once = read(path)
    assert fast == [True]
    monkeypatch.setattr(files, "CHUNK_BYTES", 3000)
    assert read(path) == at_once
    assert len(fast) > 5 and all(fast)
    monkeypatch.setattr(module, "_whole_chunk", lambda *given: None)
    assert read(path) == at_once


@pytest.mark.parametrize(
    "odd",
    [
        {"requests": None},  # a key without a list
        {"type": "s", "requests": []},
        {"type": "subagent", "requests": [{"type": "subagent", "requests": []}]},
        {"type": "subagent", "requests": [{"type": "subagent"}]},
    ],
)
def test_sub_agents_of_other_kinds_are_read_one_by_one(tmp_path: Path, odd: Any) -> None:
    usual = {"t": 0.0, "in": 64, "out": 1, "hash_ids": [1]}
    path = tmp_path / "log.jsonl"
    record = {"id": "a", "block_size": 64, "requests": [usual, odd, usual]}
    path.write_text(json.dumps(record) + "\n")
    with stage([path]) as staged:
        assert staged.report.turns == 2
        notes = [one for one in staged.report.findings if "no requests" in one.reason]
    assert [one.count for one in notes] == [1]


lists = st.lists(st.integers(0, 1), max_size=5)


@given(st.lists(st.lists(st.tuples(st.sampled_from("abcd"), lists), max_size=9), max_size=5))
@settings(deadline=None)
def test_a_list_is_compared_with_the_latest_of_its_session(
    chunks: list[list[tuple[str, list[int]]]],
) -> None:
    latest, before = Latest(), dict[str, list[int]]()
    for chunk in chunks:
        numbers = np.array([one for _, row in chunk for one in row], np.int64)
        offsets = np.r_[0, np.cumsum([len(row) for _, row in chunk])].astype(np.int64)
        names = pa.chunked_array([pa.array([name for name, _ in chunk], pa.string())])
        expected = []
        for name, row in chunk:
            last = before.get(name, [])
            same = [a == b for a, b in zip(row, last, strict=False)]
            expected.append((*same, False).index(False))
            before[name] = row
        assert latest.shared(names, numbers, offsets).tolist() == expected


def test_equal_hashes_have_equal_numbers_and_others_do_not() -> None:
    assert block_number(7) == block_number(7.0) == 7
    others = [block_number(one) for one in (7, "7", 7.5, None, "None", 2**63, [7], "a")]
    assert len(set(others)) == len(others)
