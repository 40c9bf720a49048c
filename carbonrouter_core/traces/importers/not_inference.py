"""Rows of a log that are no work of a language model: they are left out, and counted.

Gateways log each call: answers from their response cache, failed requests, embeddings, health
checks. None of these ran the prompt through the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carbonrouter_core.reading.columns import Wanted
from carbonrouter_core.reading.files import Source
from carbonrouter_core.traces.importers.base import Reading

FROM_CACHE = "the answer came from the gateway's response cache: no inference"
FAILED = "the request failed: no inference"
NO_TOKENS = "no tokens were counted, so the request failed: no inference"
NO_CHAT = "an embedding, moderation or other call that is no chat or completion"
HEALTH_CHECK = "a health check of the gateway"

COLUMNS = (
    Wanted(
        "cache_hit",
        (
            "cache_hit",
            "cacheHit",
            "cache_status",
            "cacheStatus",
            "response_cache_hit",
            "from_cache",
            "metadata.cache_hit",
            "cached",
        ),
        "text",
    ),
    Wanted(
        "status",
        (
            "status",
            "status_code",
            "statusCode",
            "response_status",
            "http_status",
            "status.status_code",
            "metadata.status",
        ),
        "text",
    ),
    Wanted(
        "error",
        ("error.message", "error.code", "error.type", "error", "error_message", "error_str"),
        "text",
    ),
    Wanted(
        "call",
        (
            "call_type",
            "callType",
            "request_type",
            "operation",
            "operation_name",
            "endpoint",
            "path",
            "object",
            "type",
        ),
        "text",
    ),
    Wanted(
        "caller",
        ("user", "end_user", "team_id", "metadata.user_api_key_alias", "user_id"),
        "text",
    ),
)
"""Columns that say what a row is; :func:`inference_only` takes them and drops them."""

_HIT = r"(?i)^\s*(true|t|yes|hit|.*[_ -]hit)\s*$"
_FAILURE = (
    r"(?i)fail(ed|ure|s)?([^a-z]|$)|(^|[^a-z])err(or)?s?([^a-z]|$)|exception|denied|reject"
    r"|unauthori|time.?out|rate.?limit|throttl|blocked|^\s*(-\d+|[45]\d\d)(\.0)?\s*$"
)
_NO_FAILURE = r"(?i)^\s*(no|none|without)([^a-z]|$)|noerror"
_STOPPED = r"(?i)cancel|abort"
_OTHER_CALL = (
    r"(?i)embed|moderation|rerank|images?[_/-](gen|edit|var)|images/|speech|transcri|audio/"
    r"|vector_store|_files?$|_batch|_ocr|count_?tokens|tokenize|/models$"
)
_HEALTH = r"(?i)health[-_ ]?(check|probe)|internal-health|(^|/)(health|livez|readyz)$"
_EMBEDDING_MODEL = r"(?i)(^|[-_/.:])(embed|embedding|embeddings|rerank|reranker)([-_/.:\d]|$)"


def inference_only(table: pa.Table, source: Source, reading: Reading) -> pa.Table:
    """The rows of ``table`` in which a model worked; the others are counted in the report."""
    n = table.num_rows
    keep = np.ones(n, bool)
    lines = table["line"].to_numpy()

    def leave_out(which: np.ndarray, reason: str) -> None:
        which = which & keep
        if which.any():
            reading.findings.add_lines("left out", reason, source, lines[which])
            keep[which] = False

    output, prompt = (_counted(table, name) for name in ("output_tokens", "input_tokens"))
    leave_out(_matches(table, "cache_hit", _HIT), FROM_CACHE)
    leave_out(_matches(table, "call", _HEALTH) | _matches(table, "caller", _HEALTH), HEALTH_CHECK)
    leave_out(_matches(table, "call", _OTHER_CALL), NO_CHAT)
    leave_out((output == 0) & _matches(table, "served_model", _EMBEDDING_MODEL), NO_CHAT)
    failed = _matches(table, "status", _FAILURE) & ~_matches(table, "status", _NO_FAILURE)
    leave_out(failed | _error(table, output), FAILED)
    leave_out((output == 0) & _matches(table, "status", _STOPPED), FAILED)
    given = table["output_tokens"].is_valid().to_numpy()
    leave_out(given & (output == 0) & (prompt == 0), NO_TOKENS)
    table = table.drop_columns([column.name for column in COLUMNS])
    return table if keep.all() else table.filter(pa.array(keep))


def _matches(table: pa.Table, name: str, pattern: str) -> np.ndarray:
    column = table[name]
    if column.null_count == table.num_rows:
        return np.zeros(table.num_rows, bool)
    coded = pa.concat_arrays(column.chunks).dictionary_encode()
    found: Any = pc.match_substring_regex(coded.dictionary, pattern).to_numpy(zero_copy_only=False)
    codes = coded.indices.fill_null(len(found)).to_numpy()
    return np.r_[found, False].astype(bool)[codes]


def _error(table: pa.Table, output: np.ndarray) -> np.ndarray:
    """Rows with an error and without an answer."""
    column = table["error"]
    if column.null_count == table.num_rows:
        return np.zeros(table.num_rows, bool)
    text = column.fill_null("")
    none = pc.match_substring_regex(text, r"(?i)^\s*(|none|null|false|0|\{\}|\[\])\s*$")
    return (output == 0) & ~none.to_numpy().astype(bool)


def _counted(table: pa.Table, name: str) -> np.ndarray:
    """A column of counts with 0 for null."""
    return np.asarray(table[name].fill_null(0.0).to_numpy(), np.float64)
