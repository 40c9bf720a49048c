"""The answer in words: who emits less, by how much, and how sure that is.

A saving is in percent of what the other emits: above 0 where the first emits less.
"""

from __future__ import annotations

from carbonrouter_core.words import figures as fmt

TOO_FEW = "There are too few sessions to say how sure this is."
NOT_SETTLED = "For this workload it is not certain which of the two emits less."
TEST_HALF = "On the half of the sessions nothing was learned from"
LONG_SESSIONS = "In sessions over 30 turns"


def compared(saving_percent: float | None, other: str) -> str:
    """What the first emits, after "emits": "31.0 % less CO2e than FairCarbon".

    ``other``: the name of the second.
    """
    saving = fmt.less_or_more(saving_percent)
    return f"as much CO2e as {other}" if saving == fmt.AS_MUCH else f"{saving} CO2e than {other}"


def no_saving(other: str) -> str:
    """The sentence for a comparison with ``other``, which emits 0 g."""
    return f"{other} emits nothing here, so no saving can be given."


def ends(low_percent: float, high_percent: float) -> str:
    """The ends of an interval after "between": "17.9 and 29.6 % less"."""
    return fmt.between(low_percent, high_percent, "and")


def sureness(low_percent: float | None, high_percent: float | None, sessions: float) -> str:
    """The 95 % interval of a saving over ``sessions``, in plain sentences."""
    if low_percent is None or high_percent is None or not fmt.known(low_percent):
        return TOO_FEW
    text = (
        f"With {fmt.number(sessions)} other sessions of the same kind, the result would lie "
        f"between {ends(low_percent, high_percent)} in 95 of 100 cases."
    )
    return f"{text} {NOT_SETTLED}" if low_percent < 0 < high_percent else text


def with_interval(
    saving_percent: float | None, low_percent: float | None, high_percent: float | None
) -> str:
    """A saving and its interval: "23.8 % less (17.9 to 29.6 % less)"."""
    saving = fmt.less_or_more(saving_percent)
    if not fmt.known(low_percent) or not fmt.known(high_percent):
        return saving
    return f"{saving} ({fmt.between(low_percent, high_percent)})"
