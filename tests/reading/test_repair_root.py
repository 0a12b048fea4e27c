"""Damage around the events: what parts them, the brackets and keys of the root, and what follows them."""

from __future__ import annotations

import json
from unittest.mock import patch

import pytest
from support.damage import GOOD, LOST, codes
from support.reading import dump, read, rows

from advisor.reading import salvage, stream


@pytest.mark.parametrize("tail", ["]", '], "traceName": "x"}', "]\n}\n", "]}"])
@pytest.mark.parametrize("chunk", [100, 1 << 21])
def test_a_trailing_comma(tail: str, chunk: int) -> None:
    texts = [json.dumps(e) for e in GOOD * 5]
    text = ("[" if tail == "]" else '{"traceEvents": [') + ", ".join(texts) + ",\n" + tail
    recorded = read(text, chunk=chunk, block=chunk)
    assert rows(recorded) == rows(read("[" + ",".join(texts) + "]"))
    assert dict(recorded.notes) == {"trailing-comma": "a comma behind the last event was passed over"}


@pytest.mark.parametrize("between", [" ", "\n", ";", ",,", "] [", "},", "], oops, "])
@pytest.mark.parametrize("after", [1, 3])
def test_what_stands_between_events_may_be_damaged(between: str, after: int) -> None:
    texts = [json.dumps(e) for e in GOOD]
    text = '{"traceEvents": [' + ", ".join(texts) + between + ", ".join(texts[:after]) + "]}"
    for size in (64, 1 << 20):
        if "oops" in between and after == 1:
            continue  # A bracket, a word and one event: that might as well be the end.
        recorded = read(text, chunk=size, block=size)
        assert rows(recorded) == rows(read("[" + ",".join(texts + texts[:after]) + "]"))
        assert recorded.events == 3 + after


@pytest.mark.parametrize(
    ("tail", "last", "ends"),
    [
        (b', "traceName": "x"}', True, True),
        (b', "traceName": "x"}', False, True),
        (b"\n}\n", True, True),
        (b"", True, True),
        (b' "traceName": "x"}', True, True),
        (b', {"ph": "X"}]', True, False),
        (b' [{"ph": "X"}]', True, False),
        (b'}}, {"ph": "X"}]', True, False),
        # A chunk that is not the last ends at a boundary: behind a list that ended there would be more.
        (b"", False, False),
        (b"\n}", False, False),
        (b"}", True, True),
    ],
)
def test_which_bracket_ends_the_events(tail: bytes, last: bool, ends: bool) -> None:
    assert salvage.ends_list(b"]" + tail, 1, last=last) is ends


def test_a_byte_order_mark() -> None:
    for block in (1, 2, 3, 1 << 20):
        recorded = read(b"\xef\xbb\xbf  " + dump(GOOD).encode(), block=block)
        assert codes(recorded) == ["byte-order-mark"]
        assert rows(recorded) == rows(read(dump(GOOD)))


def test_positions_count_from_the_first_byte_of_the_file() -> None:
    head = b'\xef\xbb\xbf \n{"deviceProperties": [], "traceEvents": ['
    recorded = read(head + json.dumps(GOOD[0]).encode() + b"," + LOST["colons"] + b"]}")
    place = len(head) + len(json.dumps(GOOD[0])) + 1
    assert dict(recorded.notes)["skipped"].endswith(f"event 2 at byte {place} of the text")


@pytest.mark.parametrize(
    "root",
    [
        '{"a": N/A, "deviceProperties": [{"id": 0, "name": "A100"}], "traceEvents": [%s]}',
        '{"deviceProperties": [{"id": 0, "name": "A100"}], "env": "say "hi"", "traceEvents": [%s], "path": "C:\\Users"}',
        '{"deviceProperties": [{"id": 0, "name": "A100"}], "traceEvents": [%s], "cut": {"a": "b',
        '{"traceEvents": [%s], "deviceProperties": [{"id": 0, "name": "A100"}], "x": [1, 2, {"a": ',
        '{"traceEvents": [%s], "deviceProperties": [{"id": 0, "name": "A100"}],}',
        '\n{"deviceProperties": [{"id": 0, "name": "A100"}], "traceEvents": [%s]}\0\0\0\0',
    ],
)
def test_a_damaged_root_loses_neither_events_nor_devices(root: str) -> None:
    recorded = read(root % ", ".join(json.dumps(e) for e in GOOD))
    assert rows(recorded) == rows(read(dump(GOOD)))
    assert [device.name for device in recorded.metadata.devices] == ["A100"]


def test_a_root_beyond_repair_is_told() -> None:
    recorded = read(dump(GOOD).replace('"deviceProperties": [{', '"deviceProperties": [::, {'))
    assert rows(recorded) == rows(read(dump(GOOD)))
    assert dict(recorded.notes) == {"metadata": "the root object is damaged; devices and settings are unknown"}


def test_a_second_list_of_events_is_passed_over_and_told() -> None:
    text = dump(GOOD)
    recorded = read(text[:-1] + ", " + text[1:])
    assert recorded.events == 3
    assert dict(recorded.notes) == {"metadata": "a second list of events was passed over"}


def test_a_root_without_end_behind_the_events_is_not_kept_in_memory() -> None:
    text = dump(GOOD)[:-1] + ', "x": [' + '{"id": 1}, ' * 300_000 + "1]}"
    with patch.object(stream, "_MOST_TRAILER", 1 << 20):
        recorded = read(text, chunk=10_000, block=1 << 16)
    assert recorded.events == 3
    assert ("metadata", "more than 1 MB behind the events were passed over") in recorded.notes
