"""What an importer is: how a format is recognised, and how its rows become turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from carbonrouter_core.progress import Progress, nobody_listens
from carbonrouter_core.reading.files import Source
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.reading.formats import Format

RAW = pa.schema(
    [
        ("line", pa.int64()),
        ("session", pa.string()),
        ("order", pa.float64()),
        ("ident", pa.string()),
        ("time_s", pa.float64()),
        ("new_prompt_tokens", pa.float64()),
        ("input_tokens", pa.float64()),
        ("history_tokens", pa.float64()),
        ("output_tokens", pa.float64()),
        ("cached_tokens_observed", pa.float64()),
        ("served_model", pa.string()),
        ("served_region", pa.string()),
        ("user_region", pa.string()),
        ("difficulty", pa.float64()),
    ]
)
"""What importers hand on, one row a turn; a column left out is all null.

``line``: where it stands in its file. ``order``: what sorts the turns of a session (turn number
or time). ``ident``: the id of the request, where there is one: equal ones are duplicates.
``time_s``: see :data:`Times`. Either ``new_prompt_tokens`` is given, or ``input_tokens`` (the
whole prompt, history included), from which history and new prompt are worked out; there a
``history_tokens`` says what leads the prompt where the log knows better than "all before".
"""

SAME_TURN = "the turn stands there twice with the same values; one is kept"
DIFFERING_TURN = "this turn stands there twice with different values"

Times = Literal["start_utc", "t_s", "start_s", "clock", "none"]
"""What the times of a trace are: epoch seconds, seconds since the session's start, seconds since
the window's start, seconds of a clock that starts with the trace, or nothing."""


@dataclass(frozen=True)
class ImportOptions:
    """What the user may say about a file that the file does not say itself.

    ``served_region``: where all of it was served; ``keep_dates``: whether absolute times stay
    (else only the times within each session do, and sessions are placed anew in any window).
    """

    served_region: str | None = None
    keep_dates: bool = True


@dataclass
class Reading:
    """What one import has found so far; handed to the importer."""

    findings: Findings = field(default_factory=Findings)
    options: ImportOptions = ImportOptions()
    progress: Progress = nobody_listens
    memory: dict[str, Any] = field(default_factory=dict)
    """What an importer carries from one file to the next."""


@dataclass(frozen=True, kw_only=True)
class Importer(Format):
    """One format of trace files."""

    sessions: str
    """How the rows become sessions; shown in the report."""
    read: Callable[[Source, Reading], Iterator[pa.Table]]
    """Tables with columns of :data:`RAW`; counts the rows it reads and reports what it drops."""
    times: Callable[[Source], Times]
    turn_is_key: bool = False
    """Whether two rows of the same session and order are the same turn."""
    late: Literal["refuse", "clamp"] = "clamp"
    """What to do with a turn whose time is before that of the turn before it."""
    difficulty_source: str = "predicted from the text of the prompts"


def always(times: Times) -> Callable[[Source], Times]:
    """The same kind of times for every file of a format."""
    return lambda source: times


def lacks(source: Source, *names: str) -> bool:
    """Whether one of ``names`` is not among the columns of a file."""
    return not set(names) <= set(source.columns)
