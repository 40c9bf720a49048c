"""How a log counts its prompts and outputs: with cached tokens or without, with reasoning or not.

OpenAI's ``prompt_tokens`` hold the cached tokens
(https://platform.openai.com/docs/guides/prompt-caching), Anthropic's ``input_tokens`` do not: a
prompt is the sum of ``input_tokens``, ``cache_creation_input_tokens`` and
``cache_read_input_tokens`` (https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching).
Gateways take either way and keep the names. So the names are believed only where the counts do
not say otherwise: a prompt cannot be shorter than the part of it that was cached, and the total
is the sum of the parts.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa

from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.traces.importers.base import PromptEvidence, Reading

NamedAs = Literal["included", "excluded", "unclear"]
"""What the names of a log's fields say of cached tokens in its prompt counts."""

INCLUDED_NAMES, EXCLUDED_NAMES, UNCLEAR_NAMES = range(3)
"""The same, of each row."""

_CODES: dict[NamedAs, int] = {
    "included": INCLUDED_NAMES,
    "excluded": EXCLUDED_NAMES,
    "unclear": UNCLEAR_NAMES,
}


def whole_counts(table: pa.Table, reading: Reading, named: NamedAs | np.ndarray) -> pa.Table:
    """The rows with whole prompts and outputs, as far as a row alone tells them.

    Parameters
    ----------
    table
        Rows with ``input_tokens``, ``output_tokens`` and ``cached_tokens_observed``. Where there
        are: ``cache_written_tokens`` (put into the cache by this request), ``total_tokens`` and
        ``reasoning_tokens``.
    reading
        The import, whose option ``cached_tokens`` is obeyed and whose evidence is added to.
    named
        What the names of the fields say, for all rows, or a code (such as
        :data:`INCLUDED_NAMES`) for each, shape (rows,).

    Returns
    -------
    pa.Table
        The table without ``cache_written_tokens`` and ``total_tokens``. ``input_tokens`` and
        ``output_tokens`` are the whole ones. ``beside_prompt_tokens`` are added where only the
        whole file tells whether they belong to the prompt.
    """
    table = _whole_outputs(table, reading.findings)
    known, written = _given(table, "cached_tokens_observed"), _given(table, "cache_written_tokens")
    total = _numbers(table, "total_tokens")
    table = table.drop_columns(
        [name for name in ("cache_written_tokens", "total_tokens") if name in table.schema.names]
    )
    beside = known + written
    some = beside > 0
    option = reading.options.cached_tokens
    if not some.any() or option == "included":
        return table
    if not isinstance(named, np.ndarray):
        named = np.full(table.num_rows, _CODES[named])
    prompt, output = _given(table, "input_tokens"), _given(table, "output_tokens")
    evidence = reading.evidence
    if option == "excluded":
        outside = some
        evidence.decided += int(some.sum())
        still_open = np.zeros(table.num_rows, bool)
    else:
        outside = some & (total == prompt + output + beside)
        still_open = some & ~outside & (named != INCLUDED_NAMES)
        evidence.total_with += int((outside & (named != INCLUDED_NAMES)).sum())
        evidence.decided += int(outside.sum())
        evidence.over += int((still_open & (known > prompt)).sum())
        evidence.total_without += int((still_open & (total == prompt + output)).sum())
        evidence.named += int((still_open & (named == EXCLUDED_NAMES)).sum())
    evidence.open += int((some & ~outside).sum())
    if outside.any():
        table = _set(table, "input_tokens", np.where(outside, prompt + beside, np.nan), outside)
    if still_open.any():
        column = pa.array(np.where(still_open, beside, np.nan), from_pandas=True)
        table = table.append_column("beside_prompt_tokens", column)
    return table


def tell_prompt_counts(reading: Reading) -> None:
    """Say in the report whether prompt counts were taken to hold cached tokens, and why."""
    evidence, option = reading.evidence, reading.options.cached_tokens
    out = "prompt counts leave out cached tokens, which are added"
    if option is not None:
        said = out if option == "excluded" else "prompt counts hold the cached tokens"
        reading.findings.guess(f"{said}: as --cached-tokens says")
    elif evidence.open and evidence.excluded:
        reading.findings.guess(f"{out} ({_why(evidence)}); --cached-tokens included: they do not")
    elif evidence.open:
        reading.findings.guess(
            "prompt counts hold the cached tokens, none exceed them; "
            "--cached-tokens excluded: they do not"
        )
    if option is None and evidence.decided and not (evidence.open and evidence.excluded):
        reading.findings.guess(
            f"in {evidence.decided:,} rows prompt counts leave out cached tokens, which are added "
            "(the total is the sum with them); --cached-tokens included: they do not"
        )


def _why(evidence: PromptEvidence) -> str:
    if evidence.over:
        return f"{evidence.over:,} rows have more cached than prompt tokens"
    if evidence.total_with:
        return "totals are sums with them"
    return "by the names of the fields"


def _whole_outputs(table: pa.Table, findings: Findings) -> pa.Table:
    """Reasoning tokens added to the output where it leaves them out."""
    if "reasoning_tokens" not in table.schema.names:
        return table
    reasoning = _given(table, "reasoning_tokens")
    prompt, output = _given(table, "input_tokens"), _given(table, "output_tokens")
    cached = _given(table, "cached_tokens_observed") + _given(table, "cache_written_tokens")
    total = _numbers(table, "total_tokens")
    without = prompt + output + reasoning
    apart = (reasoning > output) | (total == without) | (total == without + cached)
    apart &= reasoning > 0
    if not apart.any():
        return table
    findings.guess("the output counts leave out reasoning tokens, which are added")
    return _set(table, "output_tokens", output + reasoning, apart)


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    """A column with NaN for null; all NaN where there is none."""
    if name not in table.schema.names or table[name].null_count == table.num_rows:
        return np.full(table.num_rows, np.nan)
    return np.asarray(table[name].to_pandas(), np.float64)


def _given(table: pa.Table, name: str) -> np.ndarray:
    """The same, with 0 for null."""
    return np.nan_to_num(_numbers(table, name), nan=0.0, posinf=np.inf, neginf=-np.inf)


def _set(table: pa.Table, name: str, values: Any, rows: np.ndarray) -> pa.Table:
    """``table`` with ``values`` in some ``rows`` of a column."""
    column = np.where(rows, values, _numbers(table, name))
    at = table.schema.get_field_index(name)
    return table.set_column(at, name, pa.array(column, from_pandas=True))
