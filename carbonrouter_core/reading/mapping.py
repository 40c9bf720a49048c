"""Which column of a file is what, where the user says it: ``--column``, and in the app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from carbonrouter_core.errors import ReadingError
from carbonrouter_core.words.names import nearest

MappingKind = Literal["grid", "trace"]
MAX_NAME = 80
"""Characters of a mapping's name."""


@dataclass(frozen=True)
class ColumnMapping:
    """Columns of a kind of file under a name, to be used again for the next file.

    ``columns``: the file's column for each of ours; ``said``: what else the user says of such
    files, such as unit and time zone, by the name of the option. Raises :class:`ReadingError` for
    a name that is none.
    """

    name: str
    kind: MappingKind
    columns: Mapping[str, str]
    said: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name.strip() or len(self.name) > MAX_NAME or not self.name.isprintable():
            raise ReadingError(
                f"The name of a mapping is 1 to {MAX_NAME} characters without line breaks."
            )


def columns_from(assignments: Sequence[str], allowed: Sequence[str]) -> dict[str, str]:
    """The file's column for each of ours, of texts such as ``time=Stamp``.

    Raises
    ------
    ReadingError
        If a text is none, or names a column that is not one of ``allowed``, or one twice.
    """
    columns: dict[str, str] = {}
    for assignment in assignments:
        ours, equals, theirs = assignment.partition("=")
        ours, theirs = ours.strip(), theirs.strip()
        if not equals or not theirs:
            raise ReadingError(
                f"--column {assignment!r} is no NAME=COLUMN; NAME is one of {', '.join(allowed)}."
            )
        if ours in columns:
            raise ReadingError(f"--column {ours} stands there twice; a column has one meaning.")
        columns[ours] = theirs
    check_names(columns, allowed)
    return columns


def check_names(columns: Mapping[str, str], allowed: Sequence[str]) -> None:
    """Raise :class:`ReadingError` where a key of ``columns`` is not one of ``allowed``."""
    for ours in columns:
        if ours not in allowed:
            raise ReadingError(
                f"There is no column {ours!r} to say; what can be said is {', '.join(allowed)}."
            )


def check_columns(columns: Mapping[str, str], names: Sequence[str], file: str) -> None:
    """Raise :class:`ReadingError` where a column that the user names is not in the file."""
    for ours, theirs in columns.items():
        if theirs not in names:
            near = f"; nearest: {nearest(theirs, names)}" if names else ""
            raise ReadingError(
                f"{file} has no column {theirs!r}, which you say is {ours}{near}. Its columns: "
                f"{', '.join(names[:20]) or 'none'}."
            )


def way_out(allowed: Sequence[str]) -> str:
    """What to do with a file of no known format: the last sentence of its refusal."""
    return (
        f"If it is a table, say what its columns are: --column {allowed[0]}=COLUMN and so on, of "
        f"{', '.join(allowed)}; in the app, turn on Say what its columns are."
    )
