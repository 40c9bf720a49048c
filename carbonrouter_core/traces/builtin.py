"""The conversations that come with the product."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd

from carbonrouter_core.paths import data_path
from carbonrouter_core.traces.copies import counted_once
from carbonrouter_core.traces.schema import Trace

BUILTIN_TRACES = {
    "sharegpt": "Chat: 9,349 ChatGPT conversations",
    "claude-code": "Coding agents: 676 sessions",
}
"""Name and label of each built-in trace."""


@lru_cache(maxsize=2)
def builtin_trace(name: str) -> Trace:
    """The built-in trace ``name``, a key of :data:`BUILTIN_TRACES`."""
    if name == "sharegpt":
        frame = pd.read_parquet(data_path("sharegpt_turns.parquet"))
        return counted_once(
            trace_from_columns(
                name,
                session=frame["session_id"],
                new_prompt_tokens=frame["new_prompt_tokens"],
                output_tokens=frame["output_tokens"],
                history_tokens=frame["history_tokens"],
                difficulty=frame["difficulty"].to_numpy(np.float64),
                difficulty_source="predicted from the text of the prompts",
            )
        )
    frame = pd.read_parquet(data_path("claude_code_turns.parquet"))
    return counted_once(
        trace_from_columns(
            name,
            session=frame["session"],
            new_prompt_tokens=frame["new_tokens"],
            output_tokens=frame["output_tokens"],
            history_tokens=frame["reusable_prefix_tokens"],
            t_s=frame["t_s"].to_numpy(np.float64),
        )
    )


def trace_from_columns(
    name: str,
    session: pd.Series,
    new_prompt_tokens: pd.Series,
    output_tokens: pd.Series,
    history_tokens: pd.Series,
    *,
    t_s: np.ndarray | None = None,
    start_s: np.ndarray | None = None,
    user_region: tuple[str, ...] | None = None,
    difficulty: np.ndarray | None = None,
    difficulty_source: str = "as the trace gives it",
) -> Trace:
    """A trace from columns whose rows already stand by session and turn."""
    ids = session.to_numpy()
    starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]]) if len(ids) else np.zeros(0, int)
    return Trace(
        name=name,
        session_ids=tuple(str(ids[start]) for start in starts),
        offsets=np.r_[starts, len(ids)].astype(np.int64),
        new_prompt_tokens=new_prompt_tokens.to_numpy(np.int64),
        output_tokens=output_tokens.to_numpy(np.int64),
        history_tokens=history_tokens.to_numpy(np.int64),
        t_s=t_s,
        start_s=start_s,
        user_region=user_region,
        difficulty=difficulty,
        difficulty_source=difficulty_source,
    )
