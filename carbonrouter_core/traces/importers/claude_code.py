"""Coding-agent sessions as kv-cache-tester records them: one JSON object a session.

https://github.com/callanjfox/kv-cache-tester (docs/trace_replay_tester.md). Each request lists
the hashes of its 64-token prompt blocks; history is what leads the prompt of the request before
as well. Agents rewrite their context, so that this is often less than all before. A sub-agent
is a session of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carbonrouter_core.reading.ahead import chunks_ahead
from carbonrouter_core.reading.columns import parse_lines
from carbonrouter_core.reading.files import Source, values_of, whole_text
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.reading.int_lists import LIST, take_out
from carbonrouter_core.traces.importers.base import Importer, Reading, always, lacks
from carbonrouter_core.traces.importers.batches import Batches
from carbonrouter_core.traces.importers.blocks import shared_with_row_before

DEFAULT_BLOCK_TOKENS = 64
"""Tokens of a hashed block where the file does not say."""


def _recognise(source: Source) -> str | None:
    if lacks(source, "requests", "block_size"):
        return None
    return "its records are sessions with block_size and requests"


_REQUEST = [
    ("t", pa.float64()),
    ("type", pa.string()),
    ("model", pa.string()),
    ("in", pa.float64()),
    ("out", pa.float64()),
    ("hash_ids", LIST),
]
_AGENT = ("requests", pa.list_(pa.struct(_REQUEST)))
_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("block_size", pa.float64()),
        ("requests", pa.list_(pa.struct([*_REQUEST, _AGENT]))),
    ]
)


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    def sessions(chunk: tuple[int, bytes], own: Findings) -> list[pa.Table]:
        fast = _whole_chunk(source, own, *chunk)
        return list(_one_by_one(source, own, *chunk)) if fast is None else [fast]

    for tables in chunks_ahead(source, reading.findings, reading.progress, sessions):
        yield from tables


# --- Whole chunks ----------------------------------------------------------------------------


def _whole_chunk(source: Source, own: Findings, first: int, chunk: bytes) -> pa.Table | None:
    """The requests of sessions in which nothing is out of the ordinary; a sub-agent is not."""
    text, lists = take_out(chunk)
    table = parse_lines(text, _SCHEMA)
    if table is None or not table.num_rows:
        return None
    record, flat = _flat(table["requests"])
    parent, inner = _flat(pc.struct_field(flat, "requests"))
    # a list that is null, or deeper down, is another matter
    given = table["requests"].is_valid(), pc.struct_field(flat, "requests").is_valid()
    if text.count(b'"requests"') != sum(pc.sum(part).as_py() or 0 for part in given):
        return None
    kind = pc.equal(pc.struct_field(flat, "type"), "subagent").fill_null(False)
    agent = _bools(pc.or_(given[1], kind))
    if _bools(pc.equal(pc.struct_field(inner, "type"), "subagent").fill_null(False)).any():
        return None
    asked = pa.concat_arrays(
        [_plain(part) for part in (flat.filter(pa.array(~agent)), inner)]  # of sessions, of agents
    )
    spans = lists.of(pc.struct_field(asked, "hash_ids"))
    numbers = [pc.struct_field(asked, name) for name in ("in", "out", "t")]
    if spans is None or any(part.null_count for part in (flat, inner, *numbers)):
        return None
    whole, output, time_s = (part.to_numpy() for part in numbers)
    start_s = pc.struct_field(flat, "t").fill_null(0.0).to_numpy(zero_copy_only=False)
    own.rows_read += len(asked)

    lines = np.arange(first, first + table.num_rows)
    of_agent = np.flatnonzero(agent)
    name, agent_names = _names(source, table, lines, record[of_agent])
    block = table["block_size"].to_pandas().fillna(0.0).to_numpy()
    block = np.where(block == 0.0, DEFAULT_BLOCK_TOKENS, block)
    empty = np.r_[
        np.bincount(record, minlength=len(lines)) == 0,
        np.bincount(parent, minlength=len(flat))[of_agent] == 0,
    ]
    none = np.sort(np.r_[lines, lines[record[of_agent]]][empty])
    reason = "the session has no requests and is left out"
    own.add_lines("note", reason, source, none)

    # the sessions of the records, then those of their agents, which stand among their requests
    number = np.cumsum(agent) - 1 + len(lines)
    session = np.r_[record[~agent], number[parent]]
    record_of = np.r_[record[~agent], record[parent]]
    begin, end = spans
    shared = shared_with_row_before(lists.numbers, begin, end, session)
    _, starts = np.unique(session, return_index=True)
    order = np.arange(len(session)) - np.repeat(starts, np.diff(np.r_[starts, len(session)]))
    place = np.argsort(np.r_[np.flatnonzero(~agent), parent], kind="stable")
    rows = pa.table(
        {
            "line": lines[record_of],
            "session": pa.concat_arrays([name, agent_names]).take(pa.array(session)),
            "order": order.astype(np.float64),
            "time_s": time_s + np.r_[np.zeros(int((~agent).sum())), start_s[parent]],
            "input_tokens": whole,
            "history_tokens": np.minimum(shared * block[record_of], whole),
            "output_tokens": output,
            "served_model": pc.struct_field(asked, "model"),
        }
    )
    return rows.take(pa.array(place))


def _flat(lists: Any) -> tuple[np.ndarray, Any]:
    """The row of each entry of a column of lists, and the entries."""
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    return pc.list_parent_indices(lists).to_numpy().astype(np.int64), lists.flatten()


def _bools(values: Any) -> np.ndarray:
    return np.asarray(values.to_numpy(zero_copy_only=False), bool)


def _plain(requests: Any) -> Any:
    """Requests without the requests of agents in them."""
    names = [name for name, _ in _REQUEST]
    return pa.StructArray.from_arrays([pc.struct_field(requests, n) for n in names], names)


def _names(
    source: Source, table: pa.Table, lines: np.ndarray, record: np.ndarray
) -> tuple[Any, Any]:
    """Names of sessions, and of sub-agents in the sessions ``record``."""
    number = pa.array(lines).cast(pa.string())
    unnamed = pc.binary_join_element_wise(f"session-{source.number}", number, "-")
    given = table["id"].combine_chunks()
    name = pc.if_else(pc.equal(given, "").fill_null(True), unnamed, given)
    which = np.arange(1, len(record) + 1) - np.searchsorted(record, record)
    of_record = name.take(pa.array(record))
    agents = pc.binary_join_element_wise(of_record, pa.array(which).cast(pa.string()), "/agent-")
    return name, agents


# --- Record by record ------------------------------------------------------------------------


def _one_by_one(source: Source, own: Findings, first: int, chunk: bytes) -> Iterator[pa.Table]:
    """The same, of records of any kind; those that are wrong are refused."""
    rows = Batches(source, own)
    for line, record in values_of(first, chunk, rows.broken):
        name = whole_text(record.get("id") or f"session-{source.number}-{line}")
        block = rows.number(line, "block_size", record.get("block_size") or DEFAULT_BLOCK_TOKENS)
        if block is not None:
            yield from _session(rows, own, line, name, record.get("requests"), block, 0.0)
    yield from rows.rest()


def _session(
    rows: Batches,
    findings: Findings,
    line: int,
    name: str,
    requests: Any,
    block: float,
    offset_s: float,
) -> Iterator[pa.Table]:
    if not isinstance(requests, list) or not requests:
        rows.note(line, "the session has no requests and is left out")
        return
    before: Any = None
    order = agents = 0
    for request in requests:
        if not isinstance(request, dict):
            rows.refuse(line, "a request is not an object")
            continue
        if request.get("type") == "subagent" or "requests" in request:
            agents += 1
            start_s = rows.number(line, "t", request.get("t") or 0.0)
            if start_s is None:
                continue
            inner = request.get("requests")
            # some files count a sub-agent's times from its own start, some from the session's;
            # either way only the differences within it are kept
            agent = f"{name}/agent-{agents}"
            yield from _session(rows, findings, line, agent, inner, block, start_s)
            continue
        findings.rows_read += 1
        whole = rows.number(line, "in", request.get("in"))
        output = rows.number(line, "out", request.get("out"))
        time_s = rows.number(line, "t", request.get("t"))
        if whole is None or output is None or time_s is None:
            continue
        hashes = request.get("hash_ids") or []
        if not isinstance(hashes, list):
            rows.refuse(line, "hash_ids is not a list")
            continue
        ids = _numbers(hashes)
        common = 0
        if before is not None:
            n = min(len(ids), len(before))
            differ = np.flatnonzero(ids[:n] != before[:n])
            common = int(differ[0]) if len(differ) else n
        before = ids
        model = request.get("model")
        rows.add(
            line=line,
            session=name,
            order=float(order),
            time_s=time_s + offset_s,
            input_tokens=whole,
            history_tokens=min(common * block, whole),
            output_tokens=output,
            served_model=None if model is None else whole_text(model),
        )
        order += 1
        yield from rows.full()


def _numbers(hashes: list[Any]) -> np.ndarray:
    """The hashes in a form in which equal ones are equal numbers."""
    try:
        return np.array(hashes, np.int64).ravel()
    except (ValueError, TypeError, OverflowError):
        return np.array([hash(str(block)) for block in hashes], np.int64)


IMPORTER = Importer(
    id="claude-code",
    label="Coding-agent sessions (kv-cache-tester)",
    sessions="a file or record is a session, a sub-agent one of its own; history is the prompt "
    "blocks shared with the request before",
    recognise=_recognise,
    read=_read,
    times=always("clock"),
)
