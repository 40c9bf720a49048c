"""From messages with text to turns: tokens and difficulty. The text itself goes no further."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from carbonrouter_core.quality import difficulty_of_prompts
from carbonrouter_core.traces.tokens import token_counter

PROMPT_ROLES = frozenset(
    {"human", "user", "system", "developer", "tool", "function", "observation"}
)
"""Roles whose messages are part of a prompt."""
ANSWER_ROLES = frozenset({"gpt", "assistant", "chatgpt", "bing", "bard", "model", "bot"})
"""Roles whose messages are answers."""
ASSUMED_GAP_S = 126.0
"""Gap taken where a message has no time though others have: the median of the Mooncake table."""


class Message(NamedTuple):
    """One message: who speaks, what is said, and when (epoch seconds) if that is known."""

    role: str
    text: str
    time_s: float | None = None


class TextTurn(NamedTuple):
    """One turn as counted from its text."""

    new_prompt_tokens: int
    output_tokens: int
    difficulty: float
    time_s: float | None


def turns_of(messages: Iterable[Message]) -> Iterator[TextTurn]:
    """The turns of one conversation.

    Empty prompts are dropped; prompts that follow each other (system messages among them) are
    one prompt, joined by a newline, and likewise answers; a prompt that nobody answers at the
    end is no turn.
    """
    count = token_counter().count
    prompts: list[str] = []
    answers: list[str] = []
    times: list[float | None] = []
    asked: list[str] = []
    said: list[str] = []
    time_s: float | None = None

    def close() -> None:
        prompts.append("\n".join(asked))
        answers.append("\n".join(said))
        times.append(time_s)

    for message in messages:
        if message.role in PROMPT_ROLES:
            if not message.text.strip():
                continue
            if said:
                close()
                asked, said, time_s = [], [], None
            asked.append(message.text)
            time_s = message.time_s if time_s is None else time_s
        else:
            said.append(message.text)
    if said:
        close()
    difficulty = difficulty_of_prompts(prompts)
    for prompt, answer, hard, when in zip(prompts, answers, difficulty, times, strict=True):
        yield TextTurn(count(prompt), count(answer), float(hard), when)


def known_role(role: object) -> bool:
    """Whether a message's role says which side it is on."""
    return isinstance(role, str) and role.lower() in PROMPT_ROLES | ANSWER_ROLES
