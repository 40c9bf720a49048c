"""The hashed words of a text."""

from __future__ import annotations

import itertools
import math
import re
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carbonrouter_core.quality.ngrams import (
    HASH_COLUMNS,
    hashed_ngram_counts,
    lower_case,
    murmurhash3,
    weigh_pieces,
    weigh_texts,
)


@pytest.mark.parametrize(
    ("data", "seed", "unsigned_hash"),
    [  # published test vectors of MurmurHash3_x86_32
        (b"", 0, 0x00000000),
        (b"", 1, 0x514E28B7),
        (b"", 0xFFFFFFFF, 0x81F16F39),
        (b"\0\0\0\0", 0, 0x2362F9DE),
        (b"\0\0\0", 0, 0x85F0B427),
        (b"\0\0", 0, 0x30F4C306),
        (b"\0", 0, 0x514E28B7),
        (b"\xff\xff\xff\xff", 0, 0x76293B50),
        (b"\x21\x43\x65\x87", 0, 0xF55B516B),
        (b"\x21\x43\x65\x87", 0x5082EDEE, 0x2362F9DE),
        (b"\x21\x43\x65", 0, 0x7E4A8634),
        (b"\x21\x43", 0, 0xA0F7B07A),
        (b"\x21", 0, 0x72661CF4),
        (b"aaaa", 0x9747B28C, 0x5A97808A),
        (b"Hello, world!", 0x9747B28C, 0x24884CBA),
        ("ππππππππ".encode(), 0x9747B28C, 0xD58063C1),
    ],
)
def test_murmurhash3_vectors(data: bytes, seed: int, unsigned_hash: int) -> None:
    assert murmurhash3(data, seed) % 2**32 == unsigned_hash
    assert -(2**31) <= murmurhash3(data, seed) < 2**31


def counts_one_by_one(*ngrams: str) -> dict[int, int]:
    counts: dict[int, int] = {}
    for ngram in ngrams:
        signed_hash = murmurhash3(ngram.encode())
        column = abs(signed_hash) % 2**15
        counts[column] = counts.get(column, 0) + (1 if signed_hash >= 0 else -1)
    return {column: count for column, count in counts.items() if count}


def counts_of(text: str) -> dict[int, int]:
    columns, counts = hashed_ngram_counts(text)
    assert (np.diff(columns) > 0).all()
    return dict(zip(columns.tolist(), counts.tolist(), strict=True))


def test_ngrams_are_lower_cased_words_of_two_or_more_characters_and_their_pairs() -> None:
    expected = counts_one_by_one(
        "où", "est", "la", "est", "gare_2", "où est", "est la", "la est", "est gare_2"
    )
    assert counts_of("OÙ est-LA, a Est\n gare_2 ?") == expected


# letters whose lower case is longer, shorter, two characters, or hangs on where they stand
odd_texts = st.text(st.sampled_from("abZÀéΣσςİıßẞȺȾK世界ſ𐐀😀_ 09९\ud800-'\n\0"), max_size=40)


@given(odd_texts | st.text())
@settings(deadline=None)
def test_words_are_those_of_python(text: str) -> None:
    words = re.findall(r"\w\w+", text.lower())
    pairs = [f"{first} {second}" for first, second in itertools.pairwise(words)]
    assert counts_of(text) == counts_one_by_one(*words, *pairs)


def test_every_character_is_lowered_as_python_does() -> None:
    every = [chr(number) for number in range(sys.maxunicode + 1)]
    table = lower_case()
    left_to_python = {every[number] for number in np.flatnonzero(table < 0)}
    assert left_to_python == {"Σ", "İ", "Ⱥ", "Ⱦ"}
    for character, lower in zip(every, table.tolist(), strict=True):
        if lower >= 0:
            word = re.fullmatch(r"\w", character.lower())
            assert (chr(lower) if lower else None) == (character.lower() if word else None)


@given(st.lists(odd_texts, max_size=6), st.data())
@settings(deadline=None)
def test_texts_in_pieces_weigh_as_when_they_are_joined(
    parts: list[str], data: st.DataObject
) -> None:
    whole = [part.encode("utf-8", "surrogatepass") for part in parts]
    ends = np.cumsum([0, *map(len, whole)])
    cuts = st.integers(0, len(parts))
    pairs = data.draw(st.lists(st.tuples(cuts, cuts).map(sorted), max_size=4))
    first = np.array([a for a, _ in pairs], np.int64)
    end = np.array([b for _, b in pairs], np.int64)
    weights = np.random.default_rng(0).standard_normal(HASH_COLUMNS)
    pieces = np.frombuffer(b"".join(whole), np.uint8)
    found = weigh_pieces(pieces, ends[:-1], ends[1:], first, end, weights)
    joined = ["\n".join(parts[a:b]) for a, b in pairs]
    np.testing.assert_array_equal(found, weigh_texts(joined, weights))  # to the last bit


def test_a_text_weighs_its_normalised_counts_whatever_stands_beside_it() -> None:
    weights = np.random.default_rng(1).standard_normal(HASH_COLUMNS)
    texts = ["prove that", "", "prove that that holds", "?"]
    expected = []
    for text in texts:
        columns, counts = hashed_ngram_counts(text)
        expected.append(
            weights[columns] @ counts / math.sqrt(counts @ counts) if text > "?" else math.nan
        )
    np.testing.assert_allclose(weigh_texts(texts, weights), expected, rtol=1e-12)
