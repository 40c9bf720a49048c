"""Azure LLM inference traces of 2023 and 2024: time, context and generated tokens of requests.

https://github.com/Azure/AzurePublicDataset. They name no sessions: each request is one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from carbonrouter_core.reading.columns import Wanted
from carbonrouter_core.reading.files import Source
from carbonrouter_core.traces.importers.base import Importer, Reading, always, lacks


def _recognise(source: Source) -> str | None:
    if lacks(source, "TIMESTAMP", "ContextTokens", "GeneratedTokens"):
        return None
    return "it has the columns TIMESTAMP, ContextTokens and GeneratedTokens"


def _read(source: Source, reading: Reading) -> Iterator[pa.Table]:
    wanted = (
        Wanted("time_s", ("TIMESTAMP",), "time"),
        Wanted("input_tokens", ("ContextTokens",)),
        Wanted("output_tokens", ("GeneratedTokens",)),
    )
    for table in reading.columns(source, wanted):
        lines = table["line"].to_numpy().astype(str)
        session = pa.array(np.char.add(f"request-{source.number}-", lines))
        yield table.append_column("session", session).append_column("order", table["time_s"])


IMPORTER = Importer(
    id="azure",
    label="Azure LLM inference trace",
    sessions="the trace names no sessions: each request is a session of one turn, so moving "
    "costs nothing here",
    recognise=_recognise,
    read=_read,
    times=always("start_utc"),
)
