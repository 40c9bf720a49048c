"""The answer in words: less, more or the same, and how sure that is."""

from __future__ import annotations

import pytest

from carbonrouter_core.words import answer
from carbonrouter_core.words import figures as fmt


def plain(text: str) -> str:
    return text.replace(fmt.NARROW_SPACE, " ")


@pytest.mark.parametrize(
    ("saving_percent", "text"),
    [
        (31.04, "31.0 % less CO2e than B"),
        (-4.0, "4.0 % more CO2e than B"),
        (0.01, "as much CO2e as B"),
        (-0.01, "as much CO2e as B"),
    ],
)
def test_who_emits_less(saving_percent: float, text: str) -> None:
    assert plain(answer.compared(saving_percent, "B")) == text


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [
        (8.0, 22.0, "8.0 and 22.0 % less"),
        (-22.0, -8.0, "8.0 and 22.0 % more"),
        (-3.0, 7.0, "3.0 % more and 7.0 % less"),
    ],
)
def test_how_sure_it_is(low: float, high: float, ends: str) -> None:
    text = plain(answer.sureness(low, high, 1234))
    assert text.startswith("With 1,234 other sessions of the same kind, ")
    assert f"would lie between {ends} in 95 of 100 cases." in text
    assert (answer.NOT_SETTLED in text) == (low < 0 < high)


@pytest.mark.parametrize(("low", "high"), [(None, None), (float("nan"), float("nan"))])
def test_without_an_interval_it_says_why(low: float | None, high: float | None) -> None:
    assert answer.sureness(low, high, 3) == answer.TOO_FEW
    assert plain(answer.with_interval(12.0, low, high)) == "12.0 % less"


def test_a_saving_with_its_interval() -> None:
    assert plain(answer.with_interval(31.6, 18.2, 43.6)) == "31.6 % less (18.2 to 43.6 % less)"
    assert answer.with_interval(None, None, None) == fmt.NOT_AVAILABLE
