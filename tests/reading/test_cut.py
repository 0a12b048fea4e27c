"""A trace that is cut off gives every whole event before the cut, and says so: at every hundredth of its length."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from typing import Any

import pytest
from support.reading import contents, read
from support.traces import real_trace

from advisor.errors import TraceError
from advisor.reading.stream import Recorded
from advisor.testing import TraceBuilder

# A string, or a bracket: all that matters to where an event ends.
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
REAL = {
    "AMD, of 2024": "mi250_minitoy_train.json.gz",
    "NVIDIA, of 2024": "a100_copies_pinned.json.gz",
    "a list at the root": "legacy_list_root_cpu.json.gz",
    "NVIDIA, of 2023": "alexnet_inference.json.gz",
}


def events_of(text: bytes) -> list[tuple[int, int]]:
    """Where each event begins and ends: this test's own scan, which shares nothing with the reader."""
    is_list = text.lstrip().startswith(b"[")
    begin = 0 if is_list else re.search(rb'"traceEvents"\s*:\s*', text).end()  # type: ignore[union-attr]
    depth = start = 0
    found = []
    for token in TOKEN.finditer(text, begin):
        if token[0] in (b"{", b"["):
            depth += 1
            start = token.start() if depth == 2 else start
        elif token[0] in (b"}", b"]"):
            depth -= 1
            if depth == 1:
                found.append((start, token.end()))
            elif depth == 0:
                return found
    raise AssertionError("the whole trace has no end")


def built(dialect: str) -> bytes:
    """Twenty steps with a batch, a copy, operators with stacks and shapes, and kernels."""
    b = TraceBuilder(dialect=dialect)
    for number in range(20):
        with b.step():
            with b.loader(ms=2):
                pass
            b.copy("HtoD", nbytes=1 << 20, us=90)
            with b.python("train.py(54): step"), b.op("aten::conv2d", shapes=[[8, 3], []], seq=number):
                b.kernel('void kernel<"a{b}", 1>(float*)', us=300)
            b.sync()
    return b.to_json().encode()


@cache
def text_of(kind: str) -> bytes:
    if kind in REAL:
        with gzip.open(real_trace(REAL[kind])) as file:
            return file.read()
    return built("2021" if kind == "built as in 2021" else "kineto")


KINDS = ["built", "built as in 2021", *(pytest.param(kind, marks=pytest.mark.real) for kind in REAL)]


def cuts(size: int) -> Iterator[int]:
    """Every hundredth of *size* bytes, without none and all of them."""
    return (size * percent // 100 for percent in range(1, 100))


def spans_by(text: bytes, events: list[tuple[int, int]]) -> list[int]:
    """How many of the events up to each one are spans; a trace must have one to be read at all."""
    decoder = json.JSONDecoder(strict=False)
    found: list[Any] = [decoder.decode(text[begin:end].decode("utf-8", "replace")) for begin, end in events]
    return list(accumulate(event.get("ph") == "X" for event in found))


def holds(recorded: Recorded, text: bytes, cut: int, ends: list[int], whole: dict[str, list[dict[str, Any]]]) -> None:
    """What came of *text*, cut at *cut*, is every whole event before it, as in the whole file, and is said to be cut."""
    count = sum(end <= cut for end in ends)
    # An event that lacks nothing but its closing brace may be taken for whole, and is told of as repaired.
    bare = count < len(ends) and text[cut : ends[count]].strip() == b"}"
    closed = recorded.events - count
    assert closed in ((0, 1) if bare else (0,))
    assert recorded.repaired == closed
    assert recorded.truncated
    assert dict(recorded.notes)["truncated"] == f"the file is cut off after {recorded.events:,} events; the end is lost"
    begun = text[ends[count - 1] if count else 0 : cut].strip(b" \t\r\n,")
    in_event = count < len(ends) and bool(begun)
    assert recorded.skipped == (in_event and not closed)
    kept = contents(recorded)
    assert all(table == whole[group][: len(table)] for group, table in kept.items())


@pytest.mark.parametrize("kind", KINDS)
def test_cut_at_every_hundredth(kind: str) -> None:
    text = text_of(kind)
    events = events_of(text)
    ends, spans = [end for _, end in events], spans_by(text, events)
    intact = read(text)
    assert intact.events == len(ends)
    whole = contents(intact)
    tried = 0
    for cut in cuts(len(text)):
        count = sum(end <= cut for end in ends)
        if not count or not spans[count - 1]:
            with pytest.raises(TraceError):
                read(text[:cut])
            continue
        recorded = read(text[:cut])
        holds(recorded, text, cut, ends, whole)
        if tried % 10 == 0:
            closed = text[: ends[recorded.events - 1]] + (b"]" if text.lstrip().startswith(b"[") else b"]}")
            assert contents(read(closed)) == contents(recorded)
        tried += 1
    assert tried > 80


@pytest.mark.parametrize("kind", KINDS)
def test_gzip_cut_at_every_hundredth(kind: str) -> None:
    text = text_of(kind)
    events = events_of(text)
    ends, spans = [end for _, end in events], spans_by(text, events)
    whole = contents(read(text))
    packed = gzip.compress(text, mtime=0)
    tried = 0
    for cut in cuts(len(packed)):
        # What zlib, which the reader does not use, gets out of as many bytes.
        end = len(zlib.decompressobj(wbits=31).decompress(packed[:cut]))
        count = sum(one <= end for one in ends)
        if not count or not spans[count - 1]:
            continue
        recorded = read(packed[:cut], name="t.json.gz")
        assert dict(recorded.notes)["gzip-truncated"] == "the gzip stream is cut off; the end of the trace is lost"
        holds(recorded, text, end, ends, whole)
        tried += 1
    assert tried > 60
