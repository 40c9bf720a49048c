"""How far a long piece of work is, said in the same way by everything that takes a while."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[float], None]
"""Called with the share of the work that is done, 0 to 1; an error it raises ends the work."""


def nobody_listens(share: float) -> None:
    """Progress that is not shown."""


def part_of(progress: Progress, begin: float, share: float) -> Progress:
    """The progress of a part of the work.

    The part is ``share`` of the whole, 0 to 1, and the work before it is ``begin`` of the whole.
    """
    return lambda done: progress(begin + share * done)
