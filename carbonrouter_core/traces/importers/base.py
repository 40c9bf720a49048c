"""What an importer is: how a format is recognised, and how its rows become turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from carbonrouter_core.errors import ReadingError
from carbonrouter_core.progress import Progress, nobody_listens
from carbonrouter_core.reading.columns import Wanted, names_in_file, read_columns
from carbonrouter_core.reading.files import Source
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.reading.formats import Format
from carbonrouter_core.reading.mapping import ColumnMapping

RAW = pa.schema(
    [
        ("line", pa.int64()),
        ("session", pa.string()),
        ("order", pa.float64()),
        ("ident", pa.string()),
        ("time_s", pa.float64()),
        ("new_prompt_tokens", pa.float64()),
        ("input_tokens", pa.float64()),
        ("beside_prompt_tokens", pa.float64()),
        ("history_tokens", pa.float64()),
        ("output_tokens", pa.float64()),
        ("reasoning_tokens", pa.float64()),
        ("cached_tokens_observed", pa.float64()),
        ("served_model", pa.string()),
        ("served_region", pa.string()),
        ("user_region", pa.string()),
        ("difficulty", pa.float64()),
    ]
)
"""What importers hand on, one row a turn; a column left out is all null.

``line``: where it stands in its file. ``order``: what sorts the turns of a session (turn number
or time). ``ident``: the id of the request, where there is one: lines of a session with the same
id are one turn.
``time_s``: see :data:`Times`. Either ``new_prompt_tokens`` is given, or ``input_tokens`` (the
whole prompt, history included), from which history and new prompt are worked out; there a
``history_tokens`` says what leads the prompt where the log knows better than "all before".
``beside_prompt_tokens``: cached tokens that belong to the prompt if ``input_tokens`` leaves them
out, which is decided once the whole file is read (:mod:`.prompt_counts`). ``reasoning_tokens``:
the part of the output that later prompts do not hold.
"""

SAME_TURN = "the turn stands there twice with the same values; one is kept"
DIFFERING_TURN = "this turn stands there twice with different values"

Times = Literal["start_utc", "t_s", "start_s", "clock", "none"]
"""What the times of a trace are: epoch seconds, seconds since the session's start, seconds since
the window's start, seconds of a clock that starts with the trace, or nothing."""


CachedTokens = Literal["included", "excluded"]
Prompts = Literal["whole", "incremental"]
TimeUnit = Literal["s", "ms", "us", "ns"]


@dataclass(frozen=True)
class ImportOptions:
    """What the user may say about a file that the file does not say itself.

    ``served_region``: where all of it was served; ``keep_dates``: whether absolute times stay
    (else only the times within each session do, and sessions are placed anew in any window).
    ``cached_tokens``: whether prompt counts hold the cached tokens; None: told by the file.
    ``prompts``: whether a prompt holds the turns before it (``whole``) or only the new message
    (``incremental``). ``timezone``: of times that do not name theirs; None: UTC.
    ``time_unit``: of times that are numbers counted from a start; None: told by the file.
    ``columns``: the file's column for each of :data:`.mapped.MAPPED`; the file is then read as a
    table of requests.
    """

    served_region: str | None = None
    keep_dates: bool = True
    cached_tokens: CachedTokens | None = None
    prompts: Prompts = "whole"
    timezone: str | None = None
    time_unit: TimeUnit | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def mapping(self, name: str) -> ColumnMapping:
        """The columns and all else that was said, under a name. :class:`ReadingError` if none."""
        if not self.columns:
            raise ReadingError("There are no columns to keep: say what they are (--column).")
        nothing = vars(ImportOptions())
        said = {
            key: value
            for key, value in vars(self).items()
            if key != "columns" and value != nothing[key]
        }
        return ColumnMapping(name, "trace", self.columns, said)

    def below(self, mapping: ColumnMapping) -> ImportOptions:
        """These options, with what was kept under a name where nothing else is said now."""
        nothing = vars(ImportOptions())
        now = {key: value for key, value in vars(self).items() if value != nothing[key]}
        columns = {**mapping.columns, **self.columns}
        return ImportOptions(**{**mapping.said, **now, "columns": columns})


@dataclass
class PromptEvidence:
    """What the rows of an import say about their prompt counts: numbers of rows.

    ``over``: more cached than prompt tokens. ``total_with``, ``total_without``: the total of all
    tokens is the sum with the cached tokens, or without them. ``named``: the names of the fields
    are those of an API that leaves cached tokens out. ``decided``: the row alone tells that they
    are left out. ``open``: only the whole file tells.
    """

    over: int = 0
    total_with: int = 0
    total_without: int = 0
    named: int = 0
    decided: int = 0
    open: int = 0

    @property
    def excluded(self) -> bool:
        """Whether the prompt counts of open rows leave cached tokens out."""
        if self.over or self.total_with:
            return True
        return self.named > 0 and not self.total_without


@dataclass
class Reading:
    """What one import has found so far; handed to the importer."""

    findings: Findings = field(default_factory=Findings)
    options: ImportOptions = ImportOptions()
    progress: Progress = nobody_listens
    memory: dict[str, Any] = field(default_factory=dict)
    """What an importer carries from one file to the next."""
    names: dict[str, str] = field(default_factory=dict)
    """What the file that is being read calls the columns of :data:`RAW`, for messages."""
    evidence: PromptEvidence = field(default_factory=PromptEvidence)
    warnings: list[str] = field(default_factory=list)
    """What makes it doubtful that a file is read right."""
    time_unit_s: float = 1.0
    """Seconds that the format says one of its times is, where they count from a start."""

    def columns(self, source: Source, wanted: Sequence[Wanted]) -> Iterator[pa.Table]:
        """The ``wanted`` columns of a file, as the user says that it is to be read."""
        self.names = names_in_file(source, wanted)
        return read_columns(
            source, wanted, self.findings, self.progress, timezone=self.options.timezone
        )


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
    record_is_session: bool = False
    """Whether two records of the same name are two sessions, if they differ."""
    infers_contexts: bool = False
    """Whether calls within a session may be of several conversations, as with sub-agents."""
    late: Literal["refuse", "clamp"] = "clamp"
    """What to do with a turn whose time is before that of the turn before it."""
    difficulty_source: str = "predicted from the text of the prompts"


def always(times: Times) -> Callable[[Source], Times]:
    """The same kind of times for every file of a format."""
    return lambda source: times


def lacks(source: Source, *names: str) -> bool:
    """Whether one of ``names`` is not among the columns of a file."""
    return not set(names) <= set(source.columns)
