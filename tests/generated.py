"""Large traces made for tests of speed and memory."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

START_S = 1_715_558_400
"""2024-05-13 UTC."""


class Turns(NamedTuple):
    """Turns of sessions as they overlap in the log of a busy service, in the order of time."""

    session: np.ndarray
    turn: np.ndarray
    time_s: np.ndarray
    prompt: np.ndarray
    output: np.ndarray
    before: np.ndarray
    """Row of the turn before in the session; -1 for the first."""


def drawn_turns(turns: int) -> Turns:
    """A number of turns, always the same ones."""
    rng = np.random.default_rng(1)
    lengths = rng.geometric(1 / 6.5, size=turns)
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), turns))]
    lengths = np.r_[lengths, turns - lengths.sum()]
    session = np.repeat(np.arange(len(lengths)), lengths)
    turn = np.arange(turns) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    start = START_S + rng.uniform(0, 13 * 86_400, len(lengths))
    time_s = np.repeat(start, lengths) + 126.0 * turn
    order = np.argsort(time_s, kind="stable")
    row = np.empty(turns, np.int64)
    row[order] = np.arange(turns)
    before = np.where(turn > 0, np.r_[0, row[:-1]], -1)[order]
    session, turn, time_s = session[order], turn[order], time_s[order]
    prompt, output = rng.integers(1, 400, turns), rng.integers(1, 600, turns)
    return Turns(session, turn, time_s, prompt, output, before)


def large_trace(path: Path, turns: int) -> Path:
    """Written as Parquet, JSON Lines of usage records or CSV, by the end of the name."""
    session, turn, time_s, prompt, output, _ = drawn_turns(turns)
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


_CHATS = {
    "wildchat": (
        '{"conversation_hash":"c%d","timestamp":"2024-05-%02dT%02d:00:00Z","conversation":[%s]}',
        '{"role":"user","content":"%s","timestamp":"2024-05-%02dT%02d:%02d:00Z"},'
        '{"role":"assistant","content":"%s"}',
    ),
    "lmsys": (
        '{"conversation_id":"c%d","model":"m-%d-%d","conversation":[%s]}',
        '{"role":"user","content":"%s"},{"role":"assistant","content":"%.0s%.0s%.0s%s"}',
    ),
    "sharegpt": (
        '{"id":"c%d_0","model":"m-%d-%d","conversations":[%s]}',
        '{"from":"human","value":"%s"},{"from":"gpt","value":"%.0s%.0s%.0s%s"}',
    ),
}
"""A record and a turn of it; those without times have no place for them."""


def large_chats(
    path: Path, turns: int, prompt_words: int, answer_words: int, format_id: str = "wildchat"
) -> Path:
    """Conversations with words, about as often used as in a language, as JSON Lines.

    A word and a space take 6.6 bytes on average.
    """
    rng = np.random.default_rng(2)
    letters = np.array(list("etaoinshrdlucmfw"))
    lengths = np.clip(rng.poisson(5, 20_000), 1, 14)
    words = ["".join(rng.choice(letters, n)) for n in lengths]
    used = np.minimum(rng.zipf(1.3, 2_000_000) - 1, len(words) - 1)
    text = " ".join([words[i] for i in used])
    record, message = _CHATS[format_id]
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


def large_log(path: Path, format_id: str, turns: int) -> Path:
    """The same turns as another format has them; a prompt holds 700 tokens a turn before it."""
    drawn = drawn_turns(turns)
    records = _RECORDS[format_id]
    with path.open("w") as file:
        if format_id == "azure":
            file.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
        for first in range(0, turns, 50_000):
            some = Turns(*(column[first : first + 50_000] for column in drawn))
            file.writelines(records(some, first))
    return path


def _azure(some: Turns, first: int) -> Iterator[str]:
    stamps = np.datetime_as_string((some.time_s * 1e6).astype("datetime64[us]"))
    for stamp, turn, prompt, output in zip(
        stamps, some.turn, some.prompt, some.output, strict=True
    ):
        yield f"{stamp.replace('T', ' ')}0,{700 * turn + prompt},{output}\n"


def _qwen_bailian(some: Turns, first: int) -> Iterator[str]:
    for i, (_, turn, time_s, prompt, output, before) in enumerate(zip(*some, strict=True), first):
        yield (
            f'{{"chat_id": {i}, "parent_chat_id": {before}, "timestamp": {time_s - START_S:.3f}, '
            f'"input_length": {700 * turn + prompt}, "output_length": {output}, "type": "text", '
            f'"turn": {turn + 1}, "hash_ids": [{i}]}}\n'
        )


def _mooncake(some: Turns, first: int) -> Iterator[str]:
    for session, turn, time_s, prompt, output, _ in zip(*some, strict=True):
        whole = 1400 + 700 * turn + prompt
        blocks = ", ".join([str(1000 * session + k) for k in range(-(-whole // 512))])
        yield (
            f'{{"timestamp": {1000 * (time_s - START_S):.0f}, "input_length": {whole}, '
            f'"output_length": {output}, "hash_ids": [{blocks}]}}\n'
        )


def _ragpulse(some: Turns, first: int) -> Iterator[str]:
    for session, turn, time_s, prompt, output, _ in zip(*some, strict=True):
        history = ", ".join([str(50 * session + k) for k in range(turn)])
        yield (
            f'{{"timestamp": "{time_s - START_S:.0f}", "input_length": {700 * turn + prompt}, '
            f'"output_length": {output}, "hash_ids": {{"sys_prompt": [1, 2, 3], "passages_ids": '
            f'[{session % 97}, {session % 89}, {session % 83}, {turn}], "history": [{history}], '
            f'"web_search": [], "user_input": [{turn}]}}, "session_id": "s-{session}"}}\n'
        )


def _claude_code(some: Turns, first: int) -> Iterator[str]:
    # a session a record: its turns are those of a batch
    order = np.argsort(some.session, kind="stable")
    session = some.session[order]
    for rows in np.split(order, np.flatnonzero(np.diff(session)) + 1):
        requests = []
        for row in rows:
            whole = 6400 + 700 * int(some.turn[row]) + int(some.prompt[row])
            blocks = _numbers_to(-(-whole // 64))
            requests.append(
                f'{{"t": {some.time_s[row] - some.time_s[rows[0]]:.1f}, "type": "s", "model": '
                f'"m", "in": {whole}, "out": {some.output[row]}, "hash_ids": [{blocks}]}}'
            )
        yield (
            f'{{"id": "trace-{first}-{some.session[rows[0]]}", "block_size": 64, "requests": '
            f"[{', '.join(requests)}]}}\n"
        )


@lru_cache(maxsize=4096)
def _numbers_to(last: int) -> str:
    return ",".join(map(str, range(1, last + 1)))


_RECORDS: dict[str, Callable[[Turns, int], Iterator[str]]] = {
    "azure": _azure,
    "qwen-bailian": _qwen_bailian,
    "mooncake": _mooncake,
    "ragpulse": _ragpulse,
    "claude-code": _claude_code,
}


IMPORT = """
import sys, time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from carbonrouter_core.store.store import open_store
from carbonrouter_core.traces.staging import stage

began, worked = time.monotonic(), time.process_time()
with stage([Path(sys.argv[1])]) as staged:
    stored = open_store().save_trace(staged, "large")
seconds, worked = time.monotonic() - began, time.process_time() - worked
# of this program alone: ru_maxrss would begin with that of the process that started it
status = Path("/proc/self/status").read_text()
peak_kib = int(status.partition("VmHWM:")[2].split()[0])
print(stored.turns, seconds, worked, peak_kib)
"""
"""Imports a file into the store; prints turns, seconds, seconds of CPU and peak memory in KiB
(Linux)."""
