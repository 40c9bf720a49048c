"""Large traces made for tests of speed and memory."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

START_S = 1_715_558_400
"""2024-05-13 UTC."""


def large_trace(path: Path, turns: int) -> Path:
    """Sessions as they overlap in the log of a busy service, in the order of time.

    Written as Parquet, JSON Lines of usage records or CSV, by the end of the name.
    """
    rng = np.random.default_rng(1)
    lengths = rng.geometric(1 / 6.5, size=turns)
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), turns))]
    lengths = np.r_[lengths, turns - lengths.sum()]
    session = np.repeat(np.arange(len(lengths)), lengths)
    turn = np.arange(turns) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    start = START_S + rng.uniform(0, 13 * 86_400, len(lengths))
    time_s = np.repeat(start, lengths) + 126.0 * turn
    order = np.argsort(time_s, kind="stable")
    session, turn, time_s = session[order], turn[order], time_s[order]
    prompt, output = rng.integers(1, 400, turns), rng.integers(1, 600, turns)
    if path.suffix == ".jsonl":
        _usage_records(path, session, turn, time_s, prompt, output)
        return path
    us = (time_s * 1e6).astype("datetime64[us]")
    table = pa.table(
        {
            "session": np.char.add("session-", session.astype(str)),
            "turn": turn,
            "start_utc": pa.array(us).cast(pa.timestamp("us", "UTC")),
            "new_prompt_tokens": prompt,
            "output_tokens": output,
        }
    )
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        texts = pa.array(np.char.add(np.datetime_as_string(us), "Z"))
        table = table.set_column(2, "start_utc", texts)
        pa_csv.write_csv(table, path, pa_csv.WriteOptions(quoting_style="none"))
    return path


def large_chats(path: Path, turns: int, prompt_words: int, answer_words: int) -> Path:
    """Conversations with words, about as often used as in a language, as JSON Lines of WildChat.

    A word and a space take 6.6 bytes on average.
    """
    rng = np.random.default_rng(2)
    letters = np.array(list("etaoinshrdlucmfw"))
    lengths = np.clip(rng.poisson(5, 20_000), 1, 14)
    words = ["".join(rng.choice(letters, n)) for n in lengths]
    used = np.minimum(rng.zipf(1.3, 2_000_000) - 1, len(words) - 1)
    text = " ".join([words[i] for i in used])
    record = (
        '{"conversation_hash":"c%d","timestamp":"2024-05-%02dT%02d:00:00Z","conversation":[%s]}'
    )
    message = (
        '{"role":"user","content":"%s","timestamp":"2024-05-%02dT%02d:%02d:00Z"},'
        '{"role":"assistant","content":"%s"}'
    )
    done = number = 0
    size = np.array([prompt_words, answer_words]) * len(text) // len(used)
    with path.open("w") as file:
        while done < turns:
            n = min(int(rng.geometric(1 / 3)), turns - done)
            day, hour = int(rng.integers(13, 27)), int(rng.integers(24))
            said = []
            for turn, (at, prompt, answer) in enumerate(
                zip(
                    rng.integers(0, len(text) // 2, n).tolist(),
                    rng.exponential(size[0], n).astype(int).tolist(),
                    rng.exponential(size[1], n).astype(int).tolist(),
                    strict=True,
                )
            ):
                asked, answered = text[at : at + prompt + 4], text[at + 99 : at + 103 + answer]
                said.append(message % (asked, day, hour, min(turn, 59), answered))
            file.write(record % (number, day, hour, ",".join(said)) + "\n")
            done, number = done + n, number + 1
    return path


def _usage_records(
    path: Path,
    session: np.ndarray,
    turn: np.ndarray,
    time_s: np.ndarray,
    prompt: np.ndarray,
    output: np.ndarray,
) -> None:
    record = (
        '{"id":"c%d","created":%.3f,"model":"llama-3.1-8b-instruct","metadata":{"session_id":'
        '"session-%d"},"usage":{"prompt_tokens":%d,"completion_tokens":%d,'
        '"prompt_tokens_details":{"cached_tokens":%d}}}\n'
    )
    whole = 700 * turn + prompt
    with path.open("w") as file:
        for first in range(0, len(turn), 100_000):
            rows = range(first, min(len(turn), first + 100_000))
            file.write(
                "".join(
                    record % (i, time_s[i], session[i], whole[i], output[i], 64 * turn[i])
                    for i in rows
                )
            )


IMPORT = """
import sys, time
from pathlib import Path
from carbonrouter_core.store import open_store
from carbonrouter_core.traces.staging import stage

began = time.monotonic()
with stage([Path(sys.argv[1])]) as staged:
    stored = open_store().save_trace(staged, "large")
seconds = time.monotonic() - began
# of this program alone: ru_maxrss would begin with that of the process that started it
status = Path("/proc/self/status").read_text()
peak_kib = int(status.partition("VmHWM:")[2].split()[0])
print(stored.turns, seconds, peak_kib)
"""
"""Imports a file into the store; prints turns, seconds and peak memory in KiB (Linux)."""
