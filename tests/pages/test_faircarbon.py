"""FairCarbon in both readings, and the words for those who are new to the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from carbonrouter_core import Interval, Scenario, compare
from carbonrouter_core.routing.policies import ROUTERS
from carbonrouter_core.words import figures as fmt
from pages.parts.overview import faircarbon
from tests.waiting import PATIENCE_S

APP = Path(__file__).resolve().parents[2] / "app.py"
LOOKAHEAD, PUBLISHED = ROUTERS
READINGS = ("faircarbon", "faircarbon-full-prompt")


def plain(markup: str) -> str:
    return re.sub(r"<[^>]+>", "", markup).replace(fmt.NARROW_SPACE, " ")


@pytest.fixture(scope="module")
def page_html() -> str:
    """All markup of page Overview, on a first visit."""
    app = AppTest.from_file(str(APP), default_timeout=PATIENCE_S).run()
    assert not app.exception
    bodies = [block.proto.body for block in app.get("html")]
    return "\n".join(body for body in bodies if not body.startswith("<style"))


@pytest.fixture(scope="module")
def page_text(page_html: str) -> str:
    """All that the page says."""
    return plain(page_html)


def test_both_readings_stand_on_the_page_with_their_intervals(page_text: str) -> None:
    run = compare(Scenario(), (LOOKAHEAD, *READINGS))
    for reading in READINGS:
        for sessions in (None, run.long_sessions, run.test_half):
            saving = run.saving(LOOKAHEAD, reading, sessions)
            told = f"{saving.value_percent:.1f} % less{fmt.between(*saving[1:])}"
            assert told.replace(fmt.NARROW_SPACE, " ") in page_text, (reading, sessions)
    assert "rests on coding agents" in page_text


def test_every_hard_word_of_the_page_is_explained(page_html: str, page_text: str) -> None:
    for word in ("Token", "KV cache", "CO2e", "PUE", "Hindsight optimum", "95 % interval"):
        assert f"<dt>{word}</dt><dd>" in page_html
    assert page_text.index("People talk with AI models") < page_text.index("CO2e than FairCarbon")
    assert "Yours to change" in page_text and "Measured:" in page_text


def test_a_reading_that_saves_nothing_is_said_so() -> None:
    nothing, loss = Interval(None, None, None), Interval(-3.0, -5.0, 1.0)
    told = plain(faircarbon.html({"faircarbon": (nothing, loss, nothing)}, PUBLISHED))
    assert "CarbonRouter, published rule against both readings" in told
    assert "3.0 % more5.0 % more to 1.0 % less" in told and "n/a" in told
    assert not re.search(r"\b(nan|inf|None)\b", told)
