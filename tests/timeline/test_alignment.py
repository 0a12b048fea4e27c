"""Alignment of sequences of kernels: what is paired is right, and what could be another is left out or has all its candidates."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from advisor.timeline.alignment import MOST_CELLS, Candidates, align


def pairs(found: Candidates) -> dict[int, set[int]]:
    out: dict[int, set[int]] = {}
    for place, reference in zip(found.place.tolist(), found.reference.tolist(), strict=True):
        out.setdefault(place, set()).add(reference)
    return out


def codes(text: str) -> np.ndarray:
    return np.array([ord(letter) for letter in text], np.int64)


def test_whole_sequences_that_are_equal_are_the_same_at_any_length() -> None:
    assert pairs(align(codes("a"), codes("a"), whole=True)) == {0: {0}}
    assert pairs(align(codes("abab"), codes("abab"), whole=True)) == {place: {place} for place in range(4)}


def test_exact_run_stands_wherever_it_is_found() -> None:
    assert pairs(align(codes("abcdefgh"), codes("xxabcdefghyabcdefgh"))) == {
        place: {2 + place, 11 + place} for place in range(8)
    }


def test_place_that_one_of_the_longest_skips_is_not_paired() -> None:
    # "ab" and "ac" are both longest: neither b nor c is sure, a is.
    assert pairs(align(codes("defgabch"), codes("defgacbh"))) == {0: {0}, 1: {1}, 2: {2}, 3: {3}, 4: {4}, 7: {7}}


def test_what_is_other_code_or_too_long_is_not_paired() -> None:
    assert pairs(align(codes("abcdefghij"), codes("abcdefgxyz"))) == {}  # 7 of 10
    size = int(MOST_CELLS**0.5) + 1
    long = np.arange(size, dtype=np.int64)
    assert pairs(align(long, np.delete(long, 5))) == {}


def best(sequence: str, reference: str) -> list[dict[int, int]]:
    """All longest common subsequences, by trying every choice of places."""
    for size in range(min(len(sequence), len(reference)), 0, -1):
        found = [
            dict(zip(mine, other, strict=True))
            for mine in combinations(range(len(sequence)), size)
            for other in combinations(range(len(reference)), size)
            if all(sequence[a] == reference[b] for a, b in zip(mine, other, strict=True))
        ]
        if found:
            return found
    return []


@given(st.text("abc", min_size=1, max_size=6), st.text("abc", min_size=1, max_size=6))
def test_pairs_are_those_of_all_longest_common_subsequences(sequence: str, reference: str) -> None:
    found, every = pairs(align(codes(sequence), codes(reference))), best(sequence, reference)
    if not every or len(every[0]) < 0.8 * len(sequence):
        assert not found
        return
    sure = {place for place in range(len(sequence)) if all(place in pairing for pairing in every)}
    assert found == {place: {pairing[place] for pairing in every} for place in sure}


def test_layers_with_kernels_added_and_left_out_are_paired_right_or_not_at_all() -> None:
    """24 layers of 11 kernels; the replay lacks 2 % of them and has 2 % others: at least 97 % of the rest right, none wrong."""
    chance = random.Random(7)
    reference = [1, 2, *(list(range(10, 21)) * 24), 3, 4, 5]
    sequence, truth = [], []
    for place, code in enumerate(reference):
        if chance.random() < 0.02:
            continue
        if chance.random() < 0.02:
            sequence.append(100 + place)
            truth.append(-1)
        sequence.append(code)
        truth.append(place)
    found = pairs(align(np.array(sequence), np.array(reference)))
    single = {place: next(iter(options)) for place, options in found.items() if len(options) == 1}
    assert all(truth[place] == reference for place, reference in single.items())
    known = sum(1 for place in truth if place >= 0)
    assert len(sequence) > 250
    assert len(single) >= 0.97 * known
