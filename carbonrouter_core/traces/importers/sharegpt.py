"""ShareGPT: conversations with text as ``{"id": "abc_4", "conversations": [{"from", "value"}]}``.

Long chats were split when the data set was made; the ``_N`` at the end of an id is the number of
the part's first message. The parts are put together again by it; where two parts overlap the
first copy of a message is kept.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carbonrouter_core.reading.ahead import parts_ahead
from carbonrouter_core.reading.files import Source
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.traces.conversations import Messages
from carbonrouter_core.traces.importers.base import Importer, Reading, always
from carbonrouter_core.traces.importers.chats import Fields, read_chats, turn_tables

HELD_BYTES = 64 * 2**20
"""Records held while parts of their conversations may still come."""

_FIELDS = Fields(name="id", messages="conversations", role="from", text="value", timed=False)
_PART = r"(?s)^(?P<base>.+)_(?P<start>\d{1,9})$"


def _recognise(source: Source) -> str | None:
    if not _FIELDS.recognises(source):
        return None
    return "its records hold conversations of messages with from and value"


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    def turns(whole: tuple[pa.Table, Messages], own: Findings) -> list[pa.Table]:
        return list(turn_tables(source, own, whole[0], messages=whole[1]))

    for tables in parts_ahead(reading.findings, _whole_chats(source, reading), turns):
        yield from tables


def _whole_chats(source: Source, reading: Reading) -> Iterator[tuple[pa.Table, Messages]]:
    """Chats whose parts are all there, and their messages."""
    held: list[pa.Table] = []
    closed: set[int] = set()
    for chats in read_chats(source, reading, _FIELDS, lambda table, _: _with_parts(source, table)):
        held.append(chats)
        if sum(table.nbytes for table in held) > HELD_BYTES:
            ready, rest = _oldest_half(pa.concat_tables(held).combine_chunks())
            held = [rest]
            yield from _joined(source, reading, ready, closed)
    if held:
        yield from _joined(source, reading, pa.concat_tables(held).combine_chunks(), closed)


def _with_parts(source: Source, chats: pa.Table) -> pa.Table:
    """With the chat that each record is a part of, and the number of its first message."""
    number = chats["line"].cast(pa.string())
    own = pc.binary_join_element_wise(f"conversation-{source.number}", number, "-")
    name = pc.if_else(pc.equal(chats["name"], "").fill_null(True), own, chats["name"])
    part = pc.extract_regex(name, _PART)
    base = pc.coalesce(pc.struct_field(part, "base"), name)
    start = pc.struct_field(part, "start").cast(pa.int64()).fill_null(0)
    at = chats.schema.get_field_index("name")
    return (
        chats.set_column(at, "name", name).append_column("chat", base).append_column("start", start)
    )


def _oldest_half(chats: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The chats that began in the first half of the records, and the others."""
    code = _codes(chats["chat"])
    _, first = np.unique(code, return_index=True)
    early = pa.array(first[code] < max(1, chats.num_rows // 2))
    return chats.filter(early), chats.filter(pc.invert(early)).combine_chunks()


def _joined(
    source: Source, reading: Reading, chats: pa.Table, closed: set[int]
) -> Iterator[tuple[pa.Table, Messages]]:
    """The parts of each chat put together."""
    if not chats.num_rows:
        return
    lines = chats["line"].to_numpy()
    late = np.array([hash(chat) in closed for chat in chats["chat"].to_pylist()])
    reason = "a part far from the rest of its chat: a session of its own"
    reading.findings.add_lines("repaired", reason, source, lines[late])
    chat = pc.if_else(pa.array(late), chats["name"], chats["chat"]).combine_chunks()
    closed.update(map(hash, chat.unique().to_pylist()))
    code = _codes(chat)
    messages = Messages.of(pa.concat_arrays(chats["messages"].chunks))
    lengths = np.diff(messages.offsets)
    of_message = np.repeat(code, lengths)
    place = np.arange(len(of_message)) - np.repeat(messages.offsets[:-1], lengths)
    place += np.repeat(chats["start"].to_numpy(), lengths)
    kept = np.flatnonzero(~messages.unknown)
    order = kept[np.lexsort((kept, place[kept], of_message[kept]))]
    again = np.zeros(len(order), bool)
    again[1:] = (np.diff(of_message[order]) == 0) & (np.diff(place[order]) == 0)
    reason = "a message that an earlier part had too; the first is kept"
    line_of = np.repeat(lines, lengths)
    reading.findings.add_lines("repaired", reason, source, line_of[np.sort(order[again])])
    reason = "a message without a known speaker is left out"
    reading.findings.add_lines("repaired", reason, source, line_of[messages.unknown])
    rows = order[~again]
    offsets = np.r_[0, np.cumsum(np.bincount(of_message[rows], minlength=code.max() + 1))]
    _, first = np.unique(code, return_index=True)
    whole = pa.table(
        {
            "line": lines[first],
            "name": chat.take(pa.array(first)),
            "model": chats["model"].take(pa.array(first)),
        }
    )
    yield whole, messages.take(rows, offsets)


def _codes(names: pa.Array) -> np.ndarray:
    """A number for each name, by first appearance."""
    coded = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    return np.asarray(coded.dictionary_encode().indices.to_numpy())


IMPORTER = Importer(
    id="sharegpt",
    label="ShareGPT",
    sessions="parts of a chat are put together by the number at the end of their id; prompts "
    "without an answer are no turns; the text is not stored",
    recognise=_recognise,
    read=_read,
    times=always("none"),
)
