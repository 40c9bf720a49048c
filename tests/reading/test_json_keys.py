"""Keys in a text of JSON: all that are there are found, whatever stands between them."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from carbonrouter_core.reading.json_keys import KeyFinder

names = st.sampled_from(["a", "usage", "prompt_tokens", "é", 'with "quotes"', "a:b", ""])
leaves = st.none() | st.integers() | st.text(max_size=6) | names
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
)


def keys_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | set().union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


@given(values, st.lists(names, max_size=5), st.booleans(), st.sampled_from([None, 1]))
def test_every_key_is_found(
    value: Any, wanted: list[str], ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "replace")
    there = keys_of(value)
    found = KeyFinder(wanted).found(text)
    assert found >= there & set(wanted)
    if not any(name.isascii() is False or '"' in name for name in there):
        assert found == there & set(wanted)


def test_a_text_that_is_a_value_is_no_key_and_an_escaped_key_may_be_any() -> None:
    finder = KeyFinder(["a", "b"])
    assert finder.found(b'{"b": "a", "c": "\\"a\\":"}\n{"b" : 1}') == {"b"}
    assert finder.found(b'{"\\u0061": 1}') == {"a", "b"}
    assert finder.found(b'{"a": "ends ear') == {"a"}
    many = [f"n{i}" for i in range(600)]
    assert KeyFinder(many).found(b"{}") == set(many)
