"""Files about inference that hold no requests: what they are, and what to bring instead."""

from __future__ import annotations

import re
from collections.abc import Callable

from carbonrouter_core.reading.columns import value_at
from carbonrouter_core.reading.files import Source

_METRICS = re.compile(rb"^# (HELP|TYPE) |^[a-zA-Z_:][\w:]*(\{[^}\n]*\})? [-+0-9.eE]+( \d+)?$", re.M)


def _are_metrics(source: Source) -> bool:
    first = source.head.lstrip().split(b"\n", 1)[0].strip()
    return source.kind == "csv" and bool(_METRICS.fullmatch(first) or first[:7] in _COMMENTS)


_COMMENTS = (b"# HELP ", b"# TYPE ")


def _are_sums(source: Source) -> bool:
    records = source.sample_rows
    sums = ("num_model_requests", "n_requests", "num_requests", "request_count", "api_requests")
    if any(value_at(record, name) is not None for record in records for name in sums):
        return True
    bounds = (("start_time", "end_time"), ("starting_at", "ending_at"))
    return any(
        isinstance(record.get("results"), list) and start in record and end in record
        for record in records
        for start, end in bounds
    )


def _have_no_outputs(source: Source) -> bool:
    names = set(source.columns)
    return "input_length" in names and not names & {"output_length", "output_tokens"}


_KINDS: tuple[tuple[Callable[[Source], bool], str], ...] = (
    (
        _are_metrics,
        "these are counters of a server (Prometheus metrics): totals, not requests, so nothing "
        "says how long each prompt was. Bring the log of its requests, with the usage of each",
    ),
    (
        _are_sums,
        "these are sums over many requests (usage of an organisation by hour or day), not "
        "requests: nothing says how long each prompt was or whose it was. Bring a log with one "
        "request a record, such as that of your gateway",
    ),
    (
        _have_no_outputs,
        "the output lengths are missing: the records have input_length, but no output_length, "
        "which is needed for the carbon of an answer",
    ),
)


def refuse(source: Source) -> None:
    """Raise a :class:`ReadingError` for a file that holds no requests."""
    for holds, what in _KINDS:
        if holds(source):
            raise source.error(what + ".")


def refuse_sums_of_turns(source: Source) -> None:
    """Raise a :class:`ReadingError` for events that look like requests, but sum up several."""
    if source.kind == "jsonl" and any(
        record.get("type") == "turn.completed" for record in source.samples
    ):
        raise source.error(
            "these are sums over all calls of a turn (events of codex exec), not requests. Bring "
            "the session files, which have the tokens of each call (folder sessions of Codex)."
        )
