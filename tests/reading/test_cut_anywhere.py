"""A file cut off at any byte gives what stands before the cut, and says so."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from support.damage import GOOD, codes
from support.reading import contents, dump, mixture, read

from advisor.errors import TraceError

CUT = dump(mixture(1), "compact").encode()


def ends_of_events(text: str) -> tuple[list[int], int]:
    """Where each event of a trace ends, and where the list does."""
    at = text.index("[", text.index('"traceEvents"')) + 1
    decoder, ends = json.JSONDecoder(), []
    while text[at] != "]":
        _, at = decoder.raw_decode(text, at)
        ends.append(at)
        at += len(text[at:]) - len(text[at:].lstrip(", "))
    return ends, at


@pytest.mark.parametrize("sizes", [(1 << 21, 1 << 20), (150, 64)])
def test_cut_off_at_every_byte(sizes: tuple[int, int]) -> None:
    whole = contents(read(CUT))
    ends, bracket = ends_of_events(CUT.decode())
    kinds = [e.get("cat", e["ph"]) for e in json.loads(CUT)["traceEvents"]]
    assert len(ends) == len(kinds) == 8
    first_timed = ends[1]
    for cut in range(len(CUT)):
        if cut < first_timed - 1:
            with pytest.raises(TraceError) as told:
                read(CUT[:cut], chunk=sizes[0], block=sizes[1])
            assert told.value.exit_code == 3
            continue
        recorded = read(CUT[:cut], chunk=sizes[0], block=sizes[1])
        # An event that lacks nothing but its closing brace is whole, too.
        count = sum(end <= cut for end in ends)
        assert recorded.events in (count, count + 1), cut
        if recorded.events > count:
            assert CUT[cut : cut + 1] == b"}"
            assert ends[count] == cut + 1
        kept = contents(recorded)
        assert all(table == whole[group][: len(table)] for group, table in kept.items())
        assert recorded.truncated
        assert "truncated" in codes(recorded)
        mid_event = cut not in ends and cut - 1 not in ends and cut < bracket and recorded.events == count
        assert recorded.skipped == mid_event, cut


def test_cut_off_in_a_large_file() -> None:
    text = dump(mixture(60))
    ends, bracket = ends_of_events(text)
    whole = contents(read(text))
    for cut in np.random.default_rng(1).integers(3000, bracket, 40).tolist():
        recorded = read(text[:cut], chunk=3000, block=2000)
        assert recorded.events - sum(end <= cut for end in ends) in ((0, 1) if cut + 1 in ends else (0,))
        assert all(table == whole[group][: len(table)] for group, table in contents(recorded).items())
        assert recorded.truncated
        assert recorded.skipped <= 1


def test_a_list_that_is_cut_off() -> None:
    texts = [json.dumps(e) for e in GOOD]
    for cut in (", ".join(texts), ", ".join(texts) + ",", ", ".join(texts) + ' , {"ph": "X", "na'):
        recorded = read("[" + cut)
        assert recorded.events == 3
        assert recorded.truncated
        assert recorded.notes[0] == ("truncated", "the file is cut off after 3 events; the end is lost")


def test_a_number_that_was_cut_is_not_taken_for_the_whole() -> None:
    # "dur": 12 of 1234, no "dur" yet, "correlation": 5 of 567: such an event would be wrong, so it is left out.
    for tail in (
        '"dur": 12',
        '"args": {"correlation": 5}',
        '"dur": 1234, "args": {"correlation": 5',
        '"dur": 1234, "args": {"correlation": 5}, "id": 1',
    ):
        recorded = read(
            dump(GOOD)[: dump(GOOD).index("]", 300)] + ', {"ph": "X", "cat": "kernel", "name": "k", "ts": 5, ' + tail
        )
        assert "kernel" not in recorded.tables
        assert recorded.skipped == 1


def test_gzip_cut_off_at_every_byte() -> None:
    text = dump(mixture(1)).encode()
    packed = gzip.compress(text, mtime=0)
    whole = contents(read(text))
    read_some = 0
    for cut in range(len(packed)):
        try:
            recorded = read(packed[:cut], name="t.json.gz")
        except TraceError:
            continue
        read_some += 1
        assert ("gzip-checksum" if cut >= len(packed) - 8 else "gzip-truncated") in codes(recorded)
        assert all(table == whole[group][: len(table)] for group, table in contents(recorded).items())
    assert read_some > len(packed) // 3


def test_gzip_with_a_flipped_bit_gives_what_stands_before_it() -> None:
    text = dump(mixture(100)).encode()
    packed = gzip.compress(text, mtime=0)
    whole = contents(read(text))
    for place in range(len(packed) // 2, len(packed), 97):
        broken = bytearray(packed)
        broken[place] ^= 0x10
        recorded = read(bytes(broken), name="t.json.gz")
        assert set(codes(recorded)) & {"gzip-damaged", "gzip-truncated", "gzip-checksum"}
        # Everything up to the slice of 256 bytes that holds the bit is as it was.
        share = (place - 256) / len(packed)
        assert recorded.events > 0.5 * share * 701
        ops = [row for row in contents(recorded)["op"] if row in whole["op"]]
        assert len(ops) > 0.5 * share * 100


def test_bytes_behind_a_gzip_stream() -> None:
    packed = gzip.compress(dump(GOOD).encode())
    assert codes(read(packed + b"\0" * 1000, name="t.gz")) == []
    assert codes(read(packed + b"trailing", name="t.gz")) == ["gzip-trailing"]
