"""Pages of records: a JSON object that holds the list of them, as interfaces and consoles answer.

``{"data": [{...}, {...}], "meta": {...}}``, also one page after another, read in blocks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numba import njit

ByteArray = np.ndarray

LIST_KEYS = frozenset(
    {
        "batches",
        "data",
        "entries",
        "events",
        "generations",
        "hits",
        "items",
        "logs",
        "observations",
        "records",
        "requests",
        "resource_logs",
        "resource_spans",
        "resourcelogs",
        "resourcespans",
        "responses",
        "result",
        "results",
        "rows",
        "runs",
        "spans",
        "spend_logs",
        "traces",
        "usage_records",
        "value",
    }
)
"""What the list of records is called, in lower case."""

_OF_A_RECORD = frozenset(
    {
        "_id",
        "attributes",
        "block_size",
        "body",
        "choices",
        "conversation_id",
        "custom_id",
        "id",
        "mapping",
        "messages",
        "model",
        "name",
        "prompt_tokens",
        "request_id",
        "requestid",
        "response_id",
        "responseid",
        "session_id",
        "sessionid",
        "timestamp",
        "type",
        "usage",
    }
)
"""Keys of a record: an object with one of them is no page, whatever list it holds."""

_TOKEN = re.compile(rb'"((?:[^"\\]|\\.)*)"|[{}\[\]:,]', re.DOTALL)


@dataclass(frozen=True)
class Envelope:
    """Where the list of records stands: the ``key`` of it, and how many objects it is in."""

    key: bytes
    depth: int


def envelope_of(head: bytes) -> Envelope | None:
    """The list of records in the first object of ``head``; None where that is no page.

    The list is in the object itself or in an object of it, under a name of :data:`LIST_KEYS`,
    and its first value is an object.
    """
    depth, key, colon = 0, b"", False
    found: Envelope | None = None
    opened: list[bytes] = []
    tokens = _TOKEN.finditer(head)
    for token in tokens:
        mark = token[0]
        if mark in (b"{", b"["):
            if (
                found is None
                and mark == b"["
                and colon
                and 0 < depth <= 2
                and all(one == b"{" for one in opened)
                and key.decode("utf-8", "replace").lower() in LIST_KEYS
                and re.match(rb"\s*\{", head[token.end() : token.end() + 4096])
            ):
                found = Envelope(key, depth)
            opened.append(mark)
            depth, colon = depth + 1, False
        elif mark in (b"}", b"]"):
            if opened:
                opened.pop()
            depth, colon = depth - 1, False
            if depth <= 0:
                break
        elif mark == b":":
            colon = True
            if opened == [b"{"] and key.decode("utf-8", "replace").lower() in _OF_A_RECORD:
                return None
        elif mark == b",":
            colon = False
        elif not colon:
            key = token[1]
    return found


_DEPTH, _IN_TEXT, _ESCAPED, _MATCHED, _IN_LIST, _OPEN = range(6)
_STATES = 6
_TAB, _LINE_FEED, _RETURN, _SPACE = 0x09, 0x0A, 0x0D, 0x20
_QUOTE, _BACKSLASH, _COMMA, _COLON = ord('"'), ord("\\"), ord(","), ord(":")
_BEGIN_LIST, _END_LIST, _BEGIN_OBJECT, _END_OBJECT = ord("["), ord("]"), ord("{"), ord("}")


class PageLines:
    """Turns pages of records into one record a line."""

    def __init__(self, envelope: Envelope) -> None:
        self._key = np.frombuffer(envelope.key, np.uint8)
        self._depth = envelope.depth
        self._state = np.zeros(_STATES, np.int64)

    def feed(self, block: bytes) -> bytes:
        """What the next bytes add: records, each with a line break once it has ended."""
        out = np.empty(2 * len(block), np.uint8)
        size = _lines(np.frombuffer(block, np.uint8), out, self._state, self._key, self._depth)
        return out[:size].tobytes()

    @property
    def list_is_open(self) -> bool:
        """Whether a page began and has not ended."""
        return bool(self._state[_DEPTH] > 0)


@njit(cache=True, nogil=True)
def _lines(
    block: ByteArray, out: ByteArray, state: np.ndarray, key: ByteArray, at_depth: int
) -> int:
    depth, in_text, escaped = state[_DEPTH], state[_IN_TEXT], state[_ESCAPED]
    matched, in_list, is_open = state[_MATCHED], state[_IN_LIST], state[_OPEN]
    size, base = 0, at_depth + 1
    # ``matched``: bytes of the key that the text has so far; -1: it is another text
    for byte in block:
        if in_text:
            if in_list:
                out[size] = byte if byte != _LINE_FEED else 0x01
                size += 1
            if escaped:
                escaped = 0
                matched = -1
            elif byte == _BACKSLASH:
                escaped = 1
            elif byte == _QUOTE:
                in_text = 0
                if matched != len(key):
                    matched = -1
            elif matched >= 0:
                if matched < len(key) and key[matched] == byte:
                    matched += 1
                else:
                    matched = -1
            continue
        blank = byte in (_SPACE, _LINE_FEED, _RETURN, _TAB)
        if not in_list:
            if byte == _QUOTE:
                in_text = 1
                matched = 0 if depth == at_depth else -1
            elif byte == _COMMA:
                matched = -1
            elif byte == _BEGIN_LIST and depth == at_depth and matched == len(key):
                in_list = 1
                depth += 1
            elif byte in (_BEGIN_OBJECT, _BEGIN_LIST):
                depth += 1
                matched = -1
            elif byte in (_END_OBJECT, _END_LIST):
                depth = max(0, depth - 1)
                matched = -1
            continue
        if depth == base:
            if blank or byte in (_COMMA, _END_LIST):
                if is_open:  # a bare number or text has ended
                    out[size] = _LINE_FEED
                    size += 1
                    is_open = 0
                if byte == _END_LIST:
                    in_list, depth, matched = 0, depth - 1, -1
                continue
            is_open = 1
        if byte == _QUOTE:
            in_text, matched = 1, -1
        elif byte in (_BEGIN_OBJECT, _BEGIN_LIST):
            depth += 1
        elif byte in (_END_OBJECT, _END_LIST):
            depth -= 1
        out[size] = _SPACE if blank else byte
        size += 1
        if depth == base and byte in (_END_OBJECT, _END_LIST):
            out[size] = _LINE_FEED
            size += 1
            is_open = 0
    state[_DEPTH], state[_IN_TEXT], state[_ESCAPED] = depth, in_text, escaped
    state[_MATCHED], state[_IN_LIST], state[_OPEN] = matched, in_list, is_open
    return size
