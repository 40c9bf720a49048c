"""Text tables made readable: other encodings as UTF-8, and closing remarks taken off.

Grid operators publish tables in Windows-1252 and UTF-16, as spreadsheets save them, and with a
disclaimer as the last line.
"""

from __future__ import annotations

import codecs
import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from carbonrouter_core.reading.files import Source
from carbonrouter_core.reading.findings import Findings

MAX_BYTES = 256 * 2**20
"""Of an unpacked text that is not UTF-8: it is held in memory to be rewritten."""
TAIL_BYTES = 4096
"""Bytes of the end that are searched for a closing remark."""

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_UTF_8_PAIR = re.compile(rb"[\xc3-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}")
_UNUSED = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
"""Bytes that are no character in Windows-1252."""
_REMARK = re.compile(r"[^\W\d]{2,}\W+[^\W\d]{2,}\W+[^\W\d]{2,}")
"""Three words: a sentence, and no cut-off row."""


def tidied(sources: Sequence[Source], folder: Path, findings: Findings) -> list[Source]:
    """The files as UTF-8 without closing remarks; what is changed is copied into ``folder``.

    A file that is broken is left as it is, for the reader to name its line.
    """
    return [_tidied(source, folder, findings) for source in sources]


def _tidied(source: Source, folder: Path, findings: Findings) -> Source:
    with source.open() as (stream, _):
        try:
            data = bytes(stream.read(MAX_BYTES + 1))
        except OSError:  # a packed file that breaks off: the reader says so
            return source
    if data.startswith(b"PAR1") or len(data) > MAX_BYTES:
        return source
    encoding = _encoding(data)
    if encoding is None:
        return source
    changed = encoding != "utf-8"
    if changed:
        try:
            data = data.decode(encoding).encode()
        except UnicodeDecodeError:
            return source
        findings.guess(f"{source.name} is {encoding.upper()} text: it is not UTF-8")
    remark = _closing_remark(data)
    if remark:
        data = data[: len(data.rstrip()) - len(remark)]
        text = remark.decode(errors="replace").strip()
        findings.guess(f"the last line is a remark and no row: {text[:60]!r}")
    if not (changed or remark):
        return source
    path = folder / str(source.number)
    path.write_bytes(data)
    return dataclasses.replace(source, path=path)


def _encoding(data: bytes) -> str | None:
    """How a text is written; None where it is not certain."""
    if data.startswith(_UTF_16):
        return "utf-16"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        broken = b"\0" in data or _UTF_8_PAIR.search(data) or _UNUSED.search(data)
        return None if broken else "windows-1252"
    return "utf-8"


def _closing_remark(data: bytes) -> bytes:
    """The last line of a table if it has a single cell with a sentence in it; else nothing."""
    header = data[:TAIL_BYTES].partition(b"\n")[0]
    delimiter = max((b",", b";", b"\t", b"|"), key=header.count)
    if header.count(delimiter) < 1 or header.lstrip().startswith((b"{", b"[")):
        return b""
    last = data.rstrip()[-TAIL_BYTES:].rpartition(b"\n")[2]
    one_cell = last.strip().rstrip(delimiter).count(delimiter) == 0
    return last if one_cell and _REMARK.search(last.decode(errors="replace")) else b""
