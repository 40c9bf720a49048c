"""Lists of whole numbers taken out of JSON lines."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carbonrouter_core.reading.files import MAX_RECORD_BYTES
from carbonrouter_core.reading.int_lists import _ROOM, LIST, parse_with_lists, take_out

whole = st.integers(-(10**18) + 1, 10**18 - 1)
text = st.text(st.sampled_from('[1, 2]"\\{}é'), max_size=8)
value: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | whole | st.floats(allow_nan=False) | text | st.lists(whole),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
record = st.fixed_dictionaries(
    {"a": st.lists(whole) | st.none()}, optional={"b": value, "[]": value}
)


def put_back(found: Any, lists: list[list[int]]) -> Any:
    if isinstance(found, dict):
        return {name: put_back(one, lists) for name, one in found.items()}
    if not isinstance(found, list):
        return found
    if len(found) == 1 and type(found[0]) is int:
        return lists[found[0]]
    return [put_back(one, lists) for one in found]


@given(st.lists(record, max_size=4), st.sampled_from([(",", ":"), (" , ", ": ")]))
@settings(deadline=None)
def test_what_is_taken_out_is_what_was_there(records: list[Any], parts: tuple[str, str]) -> None:
    chunk = "".join(json.dumps(one, separators=parts) + "\n" for one in records).encode()
    out, taken = take_out(chunk)
    lists = [
        taken.numbers[begin:end].tolist()
        for begin, end in zip(taken.offsets, taken.offsets[1:], strict=False)
    ]
    assert [put_back(json.loads(line), lists) for line in out.splitlines()] == records
    parsed = parse_with_lists(chunk, pa.schema([("a", LIST)]))
    assert records == [] or parsed is not None
    if parsed is not None:
        spans = parsed[1].of(parsed[0]["a"])
        assert spans is not None
        rows = [taken.numbers[begin:end].tolist() for begin, end in zip(*spans, strict=True)]
        assert rows == [one["a"] or [] for one in records]


@pytest.mark.parametrize(
    "odd",
    ["5", '"[5]"', "[1.0]", "[1, null]", '["1"]', "[01]", "[1,]", "[1 2]", "[+1]", "[-]", "[true]"]
    + ["[[1]]", "[1", "[12345678901234567890]", "[1234567890123456789]", "[1e3]", "{}", "[,1]"],
)
def test_what_is_no_list_of_whole_numbers_is_left_to_slower_readers(odd: str) -> None:
    chunk = b'{"a": [7, 8]}\n{"a": ' + odd.encode() + b"}\n"
    parsed = parse_with_lists(chunk, pa.schema([("a", LIST)]))
    assert parsed is None or parsed[1].of(parsed[0]["a"]) is None


def test_a_line_that_breaks_off_in_a_text_leaves_the_next_one_whole() -> None:
    out, taken = take_out(b'{"b": "half [1]\n{"a": [3, 4]}\n')
    assert out == b'{"b": "half [1]\n{"a": [0]}\n'
    assert taken.numbers.tolist() == [3, 4]


@pytest.mark.parametrize("blank", [" ", "\t", "\r"])
def test_a_list_with_any_blank_in_it_is_taken_out(blank: str) -> None:
    # left in place, its own number would be taken for that of a list
    chunk = f'{{"a": [8, 9]}}\n{{"a": [{blank}0{blank}]}}\n'.encode()
    parsed = parse_with_lists(chunk, pa.schema([("a", LIST)]))
    assert parsed is not None
    spans = parsed[1].of(parsed[0]["a"])
    assert spans is not None
    assert [parsed[1].numbers[a:b].tolist() for a, b in zip(*spans, strict=True)] == [[8, 9], [0]]


def test_there_is_room_for_the_shortest_lists_that_there_can_be() -> None:
    most = 2 * MAX_RECORD_BYTES // len("[7]")
    assert _ROOM * len("[7]") >= len(f"[{most}]")
