"""JSON lists, read as lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carbonrouter_core.reading.json_lists import ListLines

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def lines_of(text: str, cut: int) -> list[str]:
    """The lines of a text that comes in two blocks."""
    raw, lines = text.encode(), ListLines()
    found = lines.feed(raw[:cut]) + lines.feed(raw[cut:])
    assert not lines.list_is_open
    assert found.endswith(b"\n") or not found
    return found.decode().split("\n")[:-1]


@given(
    st.lists(values, max_size=5),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
    st.integers(0, 200),
)
def test_each_value_is_a_line_however_it_was_written(
    items: list[object], indent: int | None, ascii_only: bool, cut: int
) -> None:
    text = json.dumps(items, indent=indent, ensure_ascii=ascii_only)
    lines = lines_of(f" {text}\r\n", cut)
    assert [json.loads(line) for line in lines] == items


@pytest.mark.parametrize("between", ["", "\n", ", ", "\r\n\r\n"])
def test_objects_one_after_another(between: str) -> None:
    objects = [{"a": [1, {"b": "}{"}]}, {"c": '\\" ['}]
    text = between.join(json.dumps(one, indent=1) for one in objects)
    assert [json.loads(line) for line in lines_of(text, 7)] == objects


def test_a_list_that_is_cut_short_is_open_and_its_last_value_no_line() -> None:
    lines = ListLines()
    assert lines.feed(b'[{"a": 1}, {"b": [1, ') == b'{"a": 1}\n{"b": [1, '
    assert lines.list_is_open


def test_a_line_break_in_a_text_is_no_end_of_a_line_and_no_json() -> None:
    found = ListLines().feed(b'[{"a": "x\ny"}]')
    assert found.count(b"\n") == 1
    with pytest.raises(ValueError, match="control character"):
        json.loads(found)
