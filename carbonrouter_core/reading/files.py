"""Files as they come: opened, unpacked, and cut into lines or JSON values, in bounded memory.

The kind of a file follows from its content, never from its name.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from carbonrouter_core.errors import InputError, ReadingError
from carbonrouter_core.progress import Progress, nobody_listens
from carbonrouter_core.reading.envelopes import Envelope, PageLines, envelope_of
from carbonrouter_core.reading.json_lists import ListLines

CHUNK_BYTES = 8 * 2**20
"""Bytes of whole lines handed on at a time."""
MAX_RECORD_BYTES = 32 * 2**20
"""A longer line or JSON value is refused: it is no record, and would fill the memory."""
PART_BYTES = 16 * 2**10
"""Bytes unpacked at a time: what is lost where a packed file breaks off."""
HEAD_BYTES = 256 * 2**10
"""Bytes that are read to find out the kind of a file."""
SAMPLE_RECORDS = 50
"""Records that are read to find out the format."""
PARQUET_ROWS = 65_536
"""Rows of a Parquet file handed on at a time."""

SourceKind = Literal["csv", "jsonl", "json", "parquet"]

_MAGIC = (
    (b"PK\x03\x04", "a zip archive (or a spreadsheet); unpack it, or save it as CSV"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"GIF8", "an image"),
    (b"%PDF", "a PDF document"),
    (b"7z\xbc\xaf", "a 7-Zip archive; unpack it"),
    (b"\xff\xfe", "UTF-16 text; save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text; save it as UTF-8"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\x1f\x8b", "a file that was packed twice; unpack it once"),
    (b"\x28\xb5\x2f\xfd", "a file that was packed twice; unpack it once"),
)
_COMPRESSIONS = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"))
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Source:
    """One file: its path, the name it is called by, and its number among those imported."""

    path: Path
    name: str
    number: int = 0
    many: bool = False
    """Whether there are others, so that places must name the file."""
    in_folder: bool = False
    """Whether a folder was named, and not the file."""
    pages: bool = True
    """Whether an object that holds a list of records is read as these records. Not where what
    stands beside the list counts too, such as the unit of grid data."""

    def place(self, line: int) -> str:
        """A place in this file, for a report."""
        word = {"parquet": "row", "json": "record"}.get(self.kind, "line")
        return f"{self.name}, {word} {line}" if self.many else f"{word} {line}"

    def error(self, what: str) -> ReadingError:
        """An error about this file."""
        return ReadingError(f"{self.name}: {what}")

    @cached_property
    def compression(self) -> str | None:
        """How the file is packed: gzip, zstd or not at all."""
        try:
            with self.path.open("rb") as file:
                start = file.read(16)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ReadingError(f"There is no file {self.name}: {reason}.") from error
        return next((name for magic, name in _COMPRESSIONS if start.startswith(magic)), None)

    @cached_property
    def head(self) -> bytes:
        """The first bytes, unpacked and without a byte-order mark; checked to be text or Parquet.

        Raises :class:`ReadingError` for an empty file and for what is no table of turns.
        """
        with self.open() as (stream, _):
            start, cut = _read(stream, HEAD_BYTES, self.compression is not None)
        if cut and not start.strip():
            raise self.error(f"{_CUT}; nothing of it could be unpacked.")
        for magic, what in _MAGIC:
            if start.startswith(magic):
                raise ReadingError(f"{self.name} cannot be read: this is {what}.")
        if start.startswith(b"PAR1"):
            return start
        start = start.removeprefix(_BOM)
        if not start.strip():
            raise self.error("the file is empty; there is nothing to import.")
        if b"\0" in start:
            line = start[: start.index(b"\0")].count(b"\n") + 1
            raise self.error(f"line {line} holds NUL bytes; this is no text file.")
        return start

    @cached_property
    def kind(self) -> SourceKind:
        """What the file is, by its content."""
        if self.head.startswith(b"PAR1"):
            return "parquet"
        first = self.head.lstrip()
        if first.startswith(b"["):
            return "json"
        if not first.startswith(b"{"):
            return "csv"
        if self.envelope is not None:
            return "json"
        line, _, after_line = first.partition(b"\n")
        if loads(line) is None:
            # a record longer than the head, or one that ends early, is still a line
            return "jsonl" if not after_line or len(line) > 512 else "json"
        return "jsonl"

    @cached_property
    def envelope(self) -> Envelope | None:
        """Where the records stand in a file of pages, as interfaces answer; None in others."""
        first = self.head.lstrip()
        return envelope_of(first) if self.pages and first.startswith(b"{") else None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Column names of a table, keys of the first record of JSON."""
        if self.kind == "parquet":
            return tuple(self._parquet.schema_arrow.names)
        if self.kind == "csv":
            first = self.head.split(b"\n", 1)[0].decode("utf-8", "replace").rstrip("\r")
            try:
                return tuple(next(csv.reader([first], delimiter=self.delimiter), []))
            except csv.Error as error:
                raise self.error(f"line 1 is no row of column names: {error}.") from error
        return tuple(map(whole_text, self.samples[0])) if self.samples else ()

    @cached_property
    def delimiter(self) -> str:
        """What stands between the cells of a CSV file."""
        first = self.head.split(b"\n", 1)[0].decode("utf-8", "replace")
        return max(",;\t|", key=first.count)

    @cached_property
    def samples(self) -> list[dict[str, Any]]:
        """The first records of a JSON or Parquet file, for telling its format."""
        if self.kind == "csv":
            return []
        records: list[dict[str, Any]] = []
        if self.kind == "parquet":
            for batch in self._parquet.iter_batches(batch_size=SAMPLE_RECORDS):
                return [row for row in batch.to_pylist() if isinstance(row, dict)]
        try:
            for _, value in json_values(self, lambda line, reason: None):
                records.append(value)
                if len(records) >= SAMPLE_RECORDS:
                    break
        except ReadingError:
            if not records:
                raise
        return records

    @cached_property
    def sample_rows(self) -> list[dict[str, Any]]:
        """The first records of a file of any kind; the cells of CSV as text."""
        if self.kind != "csv":
            return self.samples
        header = [name.strip() for name in self.columns]
        text = self.head.decode("utf-8", "replace")
        rows: list[dict[str, Any]] = []
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter)
        with suppress(csv.Error):
            next(reader, None)
            for cells in islice(reader, SAMPLE_RECORDS):
                if len(cells) == len(header):
                    rows.append(dict(zip(header, cells, strict=True)))
        return rows

    @property
    def parquet_schema(self) -> pa.Schema:
        """The columns of a Parquet file and their types."""
        return self._parquet.schema_arrow

    @cached_property
    def _parquet(self) -> Any:
        try:
            return pq.ParquetFile(self._unpacked() if self.compression else self.path)
        except (pa.ArrowException, OSError) as error:
            raise ReadingError(
                f"{self.name} cannot be read as a Parquet table: {_first_line(error)}"
            ) from error

    def _unpacked(self) -> Any:
        """The unpacked content as a file that can be read from any place, gone once closed."""
        file = tempfile.TemporaryFile()  # noqa: SIM115  (the table reads on from it)
        with self.open() as (stream, _):
            shutil.copyfileobj(stream, file, CHUNK_BYTES)
        return file

    @contextmanager
    def open(self) -> Iterator[tuple[Any, Any]]:
        """The unpacked content as a binary stream, and the file itself: how far it is read."""
        packed = self.compression  # which says so where there is no such file
        with self.path.open("rb") as file:
            if packed is None:
                yield file, file
            else:
                with pa.CompressedInputStream(file, packed) as stream:
                    yield stream, file

    def parquet_batches(
        self, columns: list[str], progress: Progress, rows: int = PARQUET_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Batches of ``rows`` of a Parquet file; only ``columns``."""
        done, total = 0, max(1, self._parquet.metadata.num_rows)
        try:
            for batch in self._parquet.iter_batches(batch_size=rows, columns=columns):
                yield batch
                done += batch.num_rows
                progress(done / total)
        except (pa.ArrowException, OSError) as error:
            raise self.error(f"the Parquet table is damaged: {_first_line(error)}") from error


def sources_of(
    paths: Sequence[Path], names: Sequence[str] | None = None, *, pages: bool = True
) -> list[Source]:
    """The files of an import; a folder stands for the files in it and in its folders, by name.

    ``names``: names of the files, where their paths do not have them; ``pages``: see
    :class:`Source`. Raises
    :class:`ReadingError` where there is no file.
    """
    files: list[tuple[Path, str, bool]] = []
    for path, name in zip(paths, names or [path.name for path in paths], strict=True):
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file() and not _hidden(p, path))
            files += [(file, file.relative_to(path).as_posix(), True) for file in inside]
        else:
            files.append((path, name, False))
    if not files:
        raise ReadingError("There is no file to import.")
    many = len(files) > 1
    return [
        Source(path, name, i, many, inside, pages) for i, (path, name, inside) in enumerate(files)
    ]


def _hidden(file: Path, folder: Path) -> bool:
    """Whether a file in a folder, or a folder on the way to it, is not meant to be seen."""
    return any(name[0] == "." for name in file.relative_to(folder).parts)


@contextmanager
def reading_errors_as(error: type[InputError]) -> Iterator[None]:
    """In the block, a :class:`ReadingError` is raised as ``error``, of what the file holds."""
    try:
        yield
    except ReadingError as cause:
        raise error(str(cause)) from cause


Broken = Callable[[int, str], None]
"""Called with the line of a record that cannot be read, and the reason."""
_CUT = "the packed file ends early or is damaged"


def line_chunks(source: Source, broken: Broken, progress: Progress) -> Iterator[tuple[int, bytes]]:
    """Chunks of whole lines with the number of their first line (from 1).

    Raises :class:`ReadingError` at the first NUL byte, invalid UTF-8 or overlong line.
    """
    line, open_line = 1, b""
    for block, last, cut in _blocks(source, progress):
        end = block.rfind(b"\n") + 1
        if last:
            chunk, open_line = open_line + block, b""
        elif end:
            # joined at once: each copy of what is read takes as long as reading it
            chunk, open_line = b"".join((open_line, memoryview(block)[:end])), block[end:]
        else:
            chunk, open_line = b"", open_line + block
        first_is_long = chunk.find(b"\n") > MAX_RECORD_BYTES  # only a first one spans blocks
        if first_is_long or len(open_line) > MAX_RECORD_BYTES:
            number = line if first_is_long else line + chunk.count(b"\n")
            raise source.error(
                f"line {number} is longer than "
                f"{MAX_RECORD_BYTES // 2**20} MB; this is no table of records."
            )
        if chunk:
            _check_text(source, chunk, line)
            yield line, chunk
            line += chunk.count(b"\n")
        if cut:
            broken(line, _CUT)


def record_chunks(
    source: Source, broken: Broken, progress: Progress
) -> Iterator[tuple[int, bytes]]:
    """As :func:`line_chunks`, of JSON Lines or of a JSON list: one record a line, and the number
    of the first line, or record."""
    if source.kind != "json":
        yield from line_chunks(source, broken, progress)
        return
    number, open_record = 1, b""
    pages = source.envelope
    lines = ListLines() if pages is None else PageLines(pages)
    for block, last, cut in _blocks(source, progress):
        text = open_record + lines.feed(block)
        end = text.rfind(b"\n") + 1
        chunk, open_record = text[:end], text[end:]
        if chunk:
            _check_text(source, chunk, number)
            yield number, chunk
            number += chunk.count(b"\n")
        if cut:
            broken(0, _CUT)
        if open_record and (last or len(open_record) > MAX_RECORD_BYTES):
            broken(number, "this is not a JSON object; it ends early or is damaged")
            return
    if lines.list_is_open:
        broken(number, "the file ends before the list is closed")


def _blocks(source: Source, progress: Progress) -> Iterator[tuple[bytes, bool, bool]]:
    """The unpacked content in blocks; whether one is the last, and whether the file broke off."""
    size, first = max(1, source.path.stat().st_size), True
    with source.open() as (stream, file):
        while True:
            block, cut = _read(stream, CHUNK_BYTES, source.compression is not None)
            last = cut or not block
            yield block.removeprefix(_BOM) if first else block, last, cut
            if last:
                return
            first = False
            progress(file.tell() / size)


def json_values(
    source: Source, broken: Broken, progress: Progress = nobody_listens
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of a JSON Lines file (with their lines) or JSON list (with their numbers)."""
    for first, chunk in record_chunks(source, broken, progress):
        yield from values_of(first, chunk, broken)


def values_of(first: int, chunk: bytes, broken: Broken) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of a chunk of lines, with their numbers."""
    for line, text in enumerate(chunk.split(b"\n"), start=first):
        if not text.strip():
            continue
        value = loads(text)
        if isinstance(value, dict):
            yield line, value
        else:
            early = "; it ends early" if text.count(b"{") > text.count(b"}") else ""
            broken(line, "this is not a JSON object" + early)


def whole_text(value: Any) -> str:
    """``value`` as text; half a character, as JSON may hold, is written as JSON writes it."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def loads(text: bytes | str) -> Any:
    """``text`` as JSON; None where it is not."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read(stream: Any, size: int, packed: bool) -> tuple[bytes, bool]:
    """Up to ``size`` bytes, and whether a packed stream broke off before its end."""
    if not packed:
        return stream.read(size), False
    parts: list[bytes] = []
    length = 0
    try:
        while length < size:
            part = stream.read(min(PART_BYTES, size - length))
            if not part:
                break
            parts.append(part)
            length += len(part)
    except (pa.ArrowException, OSError):
        return b"".join(parts), True
    return b"".join(parts), False


def _check_text(source: Source, chunk: bytes, first_line: int) -> None:
    nul = chunk.find(b"\0")
    if nul >= 0:
        place = source.place(first_line + chunk[:nul].count(b"\n"))
        raise source.error(f"{place} holds NUL bytes; this is no text file.")
    whole = pa.py_buffer(np.array([0, len(chunk)], np.int64))
    text = pa.Array.from_buffers(pa.large_string(), 1, [None, whole, pa.py_buffer(chunk)])
    try:
        text.validate(full=True)  # twenty times as fast as decoding it
        return
    except pa.ArrowInvalid:
        pass
    try:
        chunk.decode("utf-8")
    except UnicodeDecodeError as error:
        place = source.place(first_line + chunk[: error.start].count(b"\n"))
        raise source.error(f"{place} is not valid UTF-8; save the file as UTF-8.") from None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
