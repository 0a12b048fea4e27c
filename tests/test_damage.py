"""Damage: what can be read is read, what was lost is counted and named, and nothing but TraceError is raised."""

from __future__ import annotations

import gzip
import json
import os
import re
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from conftest import real_trace
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_reading import contents, dump, event, mixture, read, rows, trace_of

import advisor.trace
from advisor import viewing
from advisor.errors import TraceError
from advisor.frames import SCHEMAS
from advisor.reading import containers, salvage, stream
from advisor.views import Views

SETTINGS = settings(derandomize=True, deadline=None, max_examples=60)
GOOD = [event(f"op{at}", ts=20 * at + 1, args={"Sequence number": at}) for at in range(3)]


def codes(recorded: stream.Recorded) -> list[str]:
    return [code for code, _ in recorded.notes]


def build_all(trace: advisor.trace.Trace) -> None:
    """Everything that a report asks of a trace."""
    claims: dict[str, Any] = {}
    for name in SCHEMAS:
        rows = np.ones(len(trace.frame(name)), np.bool_)
        rule = SimpleNamespace(match=SimpleNamespace(frame=name))
        claims[name] = SimpleNamespace(rule=rule, rows=rows, segments=trace.claims(name, rows))
    views = viewing.build(trace, claims, list(claims))
    assert msgspec.json.decode(msgspec.json.encode(views), type=Views) == views
    repr((trace.quality, trace.features, trace.span_ns, trace.step_ms, trace.gpu_expected, trace.ledger.by_cause()))


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """A bound that only a hang or a quadratic loop can miss on a slow machine."""
    begin = time.perf_counter()
    yield
    assert time.perf_counter() - begin < seconds


# ---- one damaged event among sound ones

SMALL, LARGE = 3, 400


def among(damaged: bytes, size: int) -> tuple[bytes, int, int]:
    """A file of sound events with *damaged* in the middle; the damaged one's number and byte."""
    good = [json.dumps(e).encode() for e in mixture(size // 7 + 1)[:size]]
    text = bytearray(b'{"schemaVersion": 1, "traceEvents": [\n')
    for one in good:
        text += one + b",\n"
    place = len(text)
    for one in [damaged, *good]:
        text += one + b",\n"
    return bytes(text[:-2]) + b'\n], "deviceProperties": [{"id": 0, "name": "A100"}]}', size + 1, place


def op(name: str, **fields: Any) -> dict[str, Any]:
    return event(name, **fields)


def raw(name: bytes, rest: bytes = b'"ts": 10, "dur": 2, "args": {}') -> bytes:
    return b'{"ph": "X", "cat": "cpu_op", "name": ' + name + b', "pid": 1, "tid": 7, ' + rest + b"}"


FIVE = {"Sequence number": 5}
# Args that hold what looks like events, and the same as text.
DECOYS = {"x": [{"a": 1}, {"name": "decoy", "ts": 3}, {"ph": "X", "name": "decoy"}, {"args": {}}]}
LIKE_EVENTS = b'"ts": 10, "dur": 2, "args": ' + json.dumps(DECOYS).encode()
# What is written, and the event that it is read as.
MENDED: dict[str, tuple[bytes, dict[str, Any]]] = {
    "unescaped quote": (raw(rb'"a/b.py(3): say "hi""'), op('a/b.py(3): say "hi"')),
    "unescaped quotes and commas": (raw(rb'"f("a", 1, "b")"'), op('f("a", 1, "b")')),
    "unescaped quote before a brace": (raw(rb'"{"a"}"'), op('{"a"}')),
    "backslashes": (raw(rb'"C:\Users\new\train.py(3): f"'), op("C:\\Users\\new\\train.py(3): f")),
    "backslash at the end": (raw(rb'"C:\tmp\"'), op("C:\\tmp\\")),
    "line break": (raw(b'"a\nb\r\nc"'), op("a\nb\r\nc")),
    "tab and NUL": (raw(b'"a\tb\x00c\x1f"'), op("a\tb\x00c\x1f")),
    "invalid UTF-8": (raw(b'"caf\xe9 \xff\xfe"'), op("caf\ufffd \ufffd\ufffd")),
    "cut UTF-8": (raw(b'"\xf0\x9f\x9a"'), op("\ufffd")),
    "half a surrogate pair": (raw(rb'"a\ud800b \ud83d\ude80"'), op("a\\ud800b \U0001f680")),
    "bare N/A": (raw(b'"a"', b'"ts": 10, "dur": 2, "args": {"x": N/A, "Sequence number": 5}'), op("a", args=FIVE)),
    "NaN and Infinity": (raw(b'"a"', b'"ts": 10, "dur": NaN, "args": {"x": [Infinity, -Infinity, nan, -inf]}'), op("a", dur=0)),
    "None and undefined": (raw(b'"a"', b'"ts": 10, "dur": 2, "args": {"x": None, "y": undefined}'), op("a")),
    "trailing commas": (raw(b'"a"', b'"ts": 10, "dur": 2, "args": {"x": [1, 2,],},'), op("a")),
    "a quote before args that look like events": (raw(rb'"say "hi""', LIKE_EVENTS), op('say "hi"', args=DECOYS)),
    "no closing brace": (raw(b'"a"')[:-1], op("a")),
    "name is a number": (raw(b"5"), op("5")),
    "name is an object": (raw(b'{"x": 1}'), op('{"x": 1}')),
    "args is a list": (raw(b'"a"', b'"ts": 10, "dur": 2, "args": [1, 2]'), op("a")),
    "tid is true": (raw(b'"a"', b'"ts": 10, "dur": 2, "tid": true'), op("a", tid=None)),
    "a stack of numbers": (raw(b'"a"', b'"ts": 10, "dur": 2, "args": {"Call stack": 7, "Sequence number": 5}'), op("a", args=FIVE)),
    "a quote in a list": (raw(b'"a"', b'"ts": 10, "dur": 2, "args": {"Input type": ["""]}'), op("a", args={"Input type": ['"']})),
}  # fmt: skip
LOST: dict[str, bytes] = {
    "no value": raw(b""),
    "colons": raw(b'::: "a"'),
    "cut in a name": raw(b'"a/b.py(3): f"')[:50],
    "cut in a number": raw(b'"a"')[:70],
    "a bracket never closed": raw(b'"a"', b'"ts": 10, "dur": 2, "args": {"x": [1, 2}'),
    "a bracket too many": raw(b'"a"', b'"ts": 10, "dur": 2, "args": {"x": [1, 2]]}'),
    "a string never closed": raw(b'"a')[:-20],
    "noise": bytes(range(1, 200)),
    "colons before args that look like events": raw(b'::: "a"', LIKE_EVENTS),
    "colons before a list that looks like events": raw(
        b'::: "a"', b'"x": [{"a": 1}, {"name": "decoy"}, {"name": "decoy"}]'
    ),
    "cut inside args that look like events": raw(b'"a"', LIKE_EVENTS)[:-20],
    "not an object": b"[1, 2, 3]",
    "a word": b"oops",
    "nested beyond all bounds": raw(b'"a"', b'"ts": 10, "args": ' + b'{"a": ' * 20_000 + b"1" + b"}" * 20_000),
}


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("kind", MENDED)
def test_a_damaged_event_is_mended(kind: str, size: int) -> None:
    damaged, meant = MENDED[kind]
    text, number, place = among(damaged, size)
    wanted = rows(read(among(json.dumps(meant).encode(), size)[0]))
    recorded = read(text, chunk=5000, block=3000)
    assert rows(recorded) == wanted
    assert recorded.events == 2 * size + 1
    assert (recorded.repaired, recorded.skipped, recorded.truncated) == (1, 0, False)
    assert dict(recorded.notes)["repaired"] == (
        f"1 damaged event was repaired, event {number:,} at byte {place:,} of the text"
    )
    assert recorded.metadata.devices[0].name == "A100"


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("kind", LOST)
def test_an_event_beyond_repair_is_left_out_and_nothing_else(kind: str, size: int) -> None:
    text, number, place = among(LOST[kind], size)
    good = [json.dumps(e).encode() for e in mixture(size // 7 + 1)[:size]]
    wanted = rows(read(b"[" + b",".join(good + good) + b"]"))
    recorded = read(text, chunk=5000, block=3000)
    assert rows(recorded) == wanted
    assert recorded.events == 2 * size
    assert (recorded.repaired, recorded.skipped, recorded.truncated) == (0, 1, False)
    assert dict(recorded.notes) == {
        "skipped": f"1 damaged event was beyond repair and left out, event {number:,} at byte {place:,} of the text"
    }
    assert recorded.metadata.devices[0].name == "A100"


@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("kind", [*MENDED, *LOST])
@pytest.mark.parametrize("root", [True, False])
def test_the_first_and_the_last_event_may_be_the_damaged_one(kind: str, place: int, root: bool) -> None:
    good = [json.dumps(e).encode() for e in GOOD]
    damaged = MENDED[kind][0] if kind in MENDED else LOST[kind]
    listed = b"[" + b", ".join([*good[:place], damaged, *good[place:2]]) + b"]"
    text = b'{"traceEvents": ' + listed + b', "deviceProperties": [{"id": 0, "name": "A100"}]}' if root else listed
    recorded = read(text)
    wanted = {row["name"] for row in contents(read(b"[" + b",".join(good[:2]) + b"]"))["op"]}
    assert wanted <= {row["name"] for row in contents(recorded)["op"]}
    assert (recorded.repaired, recorded.skipped) == ((1, 0) if kind in MENDED else (0, 1))
    if root:
        assert recorded.metadata.devices[0].name == "A100"


def test_the_trace_tells_what_was_lost_and_what_to_do() -> None:
    lost, mended = LOST["colons"], MENDED["unescaped quote"][0]
    good = [json.dumps(e).encode() for e in GOOD]
    trace = trace_of(b"[" + b",".join([good[0], mended, good[1], lost, mended, good[2]]) + b"]")
    # The second event and the fifth were mended, the fourth was not. good[0] has 114 bytes, behind "[".
    at = 1 + len(good[0]) + 1
    assert [(note.code, note.message) for note in trace.quality] == [
        ("repaired", f"2 damaged events were repaired, the first of them event 2 at byte {at} of the text"),
        (
            "skipped",
            "1 damaged event was beyond repair and left out, "
            f"event 4 at byte {at + len(mended) + 1 + len(good[1]) + 1} of the text",
        ),
    ]
    assert all(note.advice for note in trace.quality)
    facts = trace.frame("trace").iloc[0]
    assert (facts["repaired_events"], facts["skipped_events"], facts["truncated"]) == (2, 1, False)


def test_a_mended_event_keeps_every_ns() -> None:
    late = b'"ts": 1712195495505582.988, "dur": 2.001'
    text = b"[" + b",".join([raw(b'"a"', late), raw(rb'"say "hi""', late), raw(b"7", late), raw(b'"b"', late)]) + b"]"
    table = read(text).tables["op"]
    assert table["ts"].tolist() == [1712195495505582988] * 4
    assert table["dur"].tolist() == [2001] * 4


@pytest.mark.parametrize(
    "kind", ["unescaped quote", "backslashes", "invalid UTF-8", "name is a number", "colons", "a bracket never closed"]
)
def test_damage_in_every_event_takes_linear_time(kind: str) -> None:
    damaged = MENDED[kind][0] if kind in MENDED else LOST[kind]
    with within(4):
        recorded = read(b"[" + b",".join([damaged] * 5_000 + [json.dumps(GOOD[0]).encode()]) + b"]")
    assert (recorded.repaired, recorded.skipped) == ((5_000, 0) if kind in MENDED else (0, 5_000))


def test_a_file_of_noise_is_given_up() -> None:
    with patch.object(salvage, "_MOST_PASSED_OVER", 50), within(5):
        recorded = read(
            b"[" + b",".join([json.dumps(GOOD[0]).encode()] + [LOST["colons"]] * 500) + b"]", chunk=3000, block=3000
        )
    assert recorded.events == 1
    assert recorded.skipped == 500


# ---- values


@pytest.mark.parametrize(
    ("fields", "notes", "left"),
    [
        # A correlation past int64 is none; the launch stays.
        ({"args": {"correlation": 10**30}}, {"bad-values": "1 value that is no number was left out, in event 2"}, 2),
        ({"args": {"correlation": "x"}}, {"bad-values": "1 value that is no number was left out, in event 2"}, 2),
        ({"args": {"correlation": 2**64}}, {"bad-values": "1 value that is no number was left out, in event 2"}, 2),
        ({"args": {"correlation": 2**63 - 1}}, {"bad-values": "1 value that is no number was left out, in event 2"}, 2),
        ({"args": {"correlation": -(2**63)}}, {"bad-values": "1 value that is no number was left out, in event 2"}, 2),
        # An event without a usable time cannot be placed.
        ({"ts": 10**30}, {"bad-values": "1 value that is no number was left out, in event 2"}, 1),
        ({"ts": -(2**63)}, {"bad-values": "1 value that is no number was left out, in event 2"}, 1),
        ({"ts": "soon"}, {"bad-values": "1 value that is no number was left out, in event 2"}, 1),
        ({"ts": None}, {"bad-values": "1 value that is no number was left out, in event 2"}, 1),
        ({"dur": "long"}, {"bad-values": "1 value that is no number was left out, in event 2"}, 2),
        ({"dur": -3}, {"negative-durations": "1 negative duration counts as 0, on the host"}, 2),
        ({"dur": 7.4e15}, {"absurd-durations": "1 duration of years counts as 0, on the host"}, 2),
        ({"dur": 10**30}, {"absurd-durations": "1 duration of years counts as 0, on the host"}, 2),
        ({"ts": "12.5", "tid": "7", "dur": "3"}, {}, 2),
        ({"dur": None}, {}, 2),
    ],
)  # fmt: skip
def test_odd_values(fields: dict[str, Any], notes: dict[str, str], left: int) -> None:
    calls = [event("a", "cuda_runtime", ts=1), event("b", "cuda_runtime", **fields)]
    recorded = read(dump(calls))
    assert dict(recorded.notes) == notes
    found = contents(recorded)["runtime"]
    assert [row["name"] for row in found] == ["a", "b"][:left]
    # What is no duration, or none that a program can take, counts as 0; 2 us and "3" us stay.
    kept = {"2": "2000", "3": "3000"}.get(str(fields.get("dur", 2)), "0")
    assert [row["dur"] for row in found] == ["2000", kept][:left]


def test_the_first_bad_value_is_named_whatever_its_column() -> None:
    args = [{"bytes": 1}, {"bytes": "x"}, {"correlation": "x"}, {"bytes": "x", "stream": "y"}]
    copies = [event("c", "gpu_memcpy", args=fields) for fields in args]
    texts = [event("a"), *copies]
    assert dict(read(dump(texts)).notes) == {
        "bad-values": "4 values that are no numbers were left out, the first in event 3"
    }
    # The device, the stream and the correlation are looked at before the bytes.
    assert dict(read(dump(texts[::-1])).notes)["bad-values"].endswith("left out, the first in event 1")
    assert dict(read(dump([event("a"), copies[1], copies[2]])).notes)["bad-values"].endswith("the first in event 2")


def test_236_years_of_a_kernel_end_where_its_stream_goes_on() -> None:
    # CUPTI's end of time: 7.4e15 us. The next kernel of stream 7 starts at 40 us, so 30 us are left; stream 8 is no limit.
    # The last of a stream has nothing behind it, and counts as 0.
    def kernel(ts: float, dur: float, stream: int) -> dict[str, Any]:
        return event(
            "k", "kernel", pid=0, tid=stream, ts=ts, dur=dur, args={"device": 0, "stream": stream, "correlation": 1}
        )

    trace = trace_of(
        dump([event(ts=0, dur=100), kernel(10, 7.4e15, 7), kernel(20, 5, 8), kernel(40, 5, 7), kernel(60, 7.4e15, 8)])
    )
    assert trace.kernels["dur_ns"].tolist() == [30_000, 5_000, 5_000, 0]
    assert [note.code for note in trace.quality] == ["absurd-durations"]


def test_a_negative_duration_of_a_kernel_counts_as_0() -> None:
    kernel = event("k", "kernel", pid=0, dur=-1, args={"device": 0, "stream": 7, "correlation": 1})
    trace = trace_of(dump([event(), kernel, {**kernel, "ts": 20, "dur": 5}]))
    assert trace.kernels["dur_ns"].tolist() == [0, 5_000]
    assert [note.code for note in trace.quality] == ["negative-durations"]


@pytest.mark.parametrize(
    "times", [(-(2**61) // 1000 + 1, 2**61 // 1000 - 1), (0, 2**61 // 1000 - 1), (-(2**60) // 1000, 0)]
)
def test_clocks_at_the_edge_of_what_int64_holds(times: tuple[int, int]) -> None:
    kernels = [
        event("k", "kernel", pid=0, ts=ts, dur=7.4e15, args={"device": 0, "stream": 7, "correlation": 1})
        for ts in times
    ]
    events = [*kernels, *(event(ts=ts) for ts in times), *(event("c", "cuda_runtime", ts=ts) for ts in times)]
    trace = trace_of(dump(events))
    build_all(trace)
    # What is longer than 2**61 ns is cut to that as it is read.
    assert trace.kernels["dur_ns"].tolist() == [min(1000 * (times[1] - times[0]), 2**61), 0]


# ---- the list and the root


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


# ---- cut off

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
        assert "gzip-truncated" in codes(recorded)
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
        assert set(codes(recorded)) & {"gzip-damaged", "gzip-truncated"}
        # Everything up to the slice of 256 bytes that holds the bit is as it was.
        share = (place - 256) / len(packed)
        assert recorded.events > 0.5 * share * 701
        ops = [row for row in contents(recorded)["op"] if row in whole["op"]]
        assert len(ops) > 0.5 * share * 100


def test_bytes_behind_a_gzip_stream() -> None:
    packed = gzip.compress(dump(GOOD).encode())
    assert codes(read(packed + b"\0" * 1000, name="t.gz")) == []
    assert codes(read(packed + b"trailing", name="t.gz")) == ["gzip-trailing"]


# ---- what is no trace

NOTHING = [
    ("empty", b"", "is empty"),
    ("blank", b" \n\t " * 1000, "is empty"),
    ("only a mark", b"\xef\xbb\xbf", "is empty"),
    ("no events", b'{"traceEvents": []}', "a trace without events"),
    ("no events, list", b"[]", "a trace without events"),
    ("only metadata", dump([{"ph": "M", "name": "process_name"}]).encode(), "a trace without events"),
    ("events are null", b'{"traceEvents": null}', "traceEvents is not a list"),
    ("events are an object", b'{"traceEvents": {"a": 1}}', "traceEvents is not a list"),
    ("events break off", b'{"traceEvents": [', "a trace without events"),
    ("text", b"hello world", "is not JSON"),
    ("a number", b"5", "is not JSON"),
    ("broken before the events", b'{"schemaVersion": 1, "devi', "is neither whole JSON nor a trace"),
    ("list of numbers", b"[1, 2, 3]", "no other is left"),
    ("all damaged", b"[" + b",".join([LOST["colons"]] * 3) + b"]", "3 damaged events are beyond repair, and no other is left"),
    ("sidecar", b'[{"file": "a.json", "batch_size": 32, "mode": "train"}]', "is JSON, but no trace: what it lists has no ph"),
    ("config", b'{"model": "x", "lr": 0.1}', "is JSON, but no trace: it has no traceEvents .its keys: 'lr, model'"),
    ("speedscope", b'{"$schema": "https://www.speedscope.app/x.json", "profiles": [], "shared": {}}', "speedscope"),
    ("execution trace", b'{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [{"id": 1, "name": "x"}]}', "an execution trace"),
    ("CPU profile", b'{"nodes": [{"id": 1}], "startTime": 0, "endTime": 1, "samples": []}', "a V8 CPU profile"),
    ("another tool's trace", json.dumps([event(cat="v8"), event(cat="blink")]).encode(), "something else.*'v8', 'blink'"),
    ("SQLite", b"SQLite format 3\0" + b"\0" * 100, "Nsight"),
    ("zip", b"PK\x03\x04" + b"\0" * 100, "Unpack it"),
    ("zstd", b"\x28\xb5\x2f\xfd" + b"\0" * 100, "zstd -d"),
    ("bzip2", b"BZh91AY&SY" + b"\0" * 100, "bunzip2"),
    ("xz", b"\xfd7zXZ\0" + b"\0" * 100, "unxz"),
    ("pickle", b"\x80\x04\x95" + b"\0" * 100, "pickle"),
    ("program", b"\x7fELF" + b"\0" * 100, "a program"),
    ("HTML", b"<!DOCTYPE html><html>", "HTML"),
    ("UTF-16", '{"traceEvents": []}'.encode("utf-16"), "UTF-16"),
    ("gzip of nothing", gzip.compress(b""), "the gzip stream holds nothing"),
    ("gzip of SQLite", gzip.compress(b"SQLite format 3\0"), "Nsight"),
    ("gzip of gzip", gzip.compress(gzip.compress(b"x")), "is not JSON"),
    ("broken gzip", b"\x1f\x8b\x08\x00" + b"\xff" * 50, "the gzip stream is damaged from the start"),
    ("gzip's first bytes", b"\x1f\x8b", "the gzip stream holds nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), [case[1:] for case in NOTHING], ids=[case[0] for case in NOTHING])
def test_what_is_no_trace_is_refused_with_a_reason(text: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(text)
    with pytest.raises(TraceError) as error:
        advisor.trace.read(str(path))
    assert error.value.exit_code == 3
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    assert re.search(told, message), message
    assert message.endswith((".", "?", ")"))
    assert len(message) < len(str(path)) + 400


def test_paths_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TraceError, match="no such file"):
        advisor.trace.read(str(tmp_path / "absent.json"))
    with pytest.raises(TraceError, match=r"is a directory. Pass the trace files in it: .*\*\.json\.gz"):
        advisor.trace.read(str(tmp_path))
    with pytest.raises(TraceError, match="cannot be opened"):
        advisor.trace.read("nul\0byte.json")
    with pytest.raises(TraceError, match="cannot be opened: File name too long"):
        advisor.trace.read("x" * 5000)
    (tmp_path / "file").write_text("x")
    with pytest.raises(TraceError, match="cannot be opened"):
        advisor.trace.read(str(tmp_path / "file" / "below.json"))
    with pytest.raises(TraceError, match="is empty"):
        advisor.trace.read(os.devnull)

    def denied(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(TraceError, match="cannot be opened: Permission denied"):
        advisor.trace.read(str(tmp_path / "file"))


def test_a_disk_that_fails_in_the_middle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Failing:
        """Gives a few blocks, then an error."""

        left = 2

        def read(self, size: int) -> bytes:
            self.left -= 1
            if not self.left:
                raise OSError(5, "Input/output error")
            return dump(GOOD).encode()[:size]

        def close(self) -> None:
            pass

    (tmp_path / "t.json").touch()
    monkeypatch.setattr(Path, "open", lambda *_: Failing())
    with pytest.raises(TraceError, match="cannot be read: Input/output error"):
        advisor.trace.read(str(tmp_path / "t.json"))


# ---- any damage at all


@settings(SETTINGS, max_examples=250)
@given(st.data())
def test_damage_inside_one_event_spares_all_others(data: st.DataObject) -> None:
    """Whatever happens to some bytes of one event, every other event is read as it was."""
    events = [*mixture(data.draw(st.integers(1, 3)))[1:], event("last")]
    indent = data.draw(st.sampled_from([None, 1]))
    texts = [json.dumps(e, indent=indent, ensure_ascii=False).encode() for e in events]
    victim = data.draw(st.integers(0, len(texts) - 2))
    text = texts[victim]
    at = data.draw(st.integers(1, len(text) - 2))
    until = data.draw(st.integers(at, min(at + 60, len(text) - 1)))
    put = data.draw(
        st.one_of(
            st.binary(max_size=3),
            st.text('"\\\n{}[],:\0', min_size=1, max_size=2).map(str.encode),
            st.just(text[at:until]),
        )
    )
    damaged = text[:at] + put + text[until:]
    assume(damaged != text)

    def file(middle: bytes) -> bytes:
        listed = b", \n".join([*texts[:victim], middle, *texts[victim + 1 :]])
        return (
            b'{"schemaVersion":1,"traceEvents":['
            + listed
            + b'],"deviceProperties":[{"id":0,"name":"A"},{"id":1,"name":"B"}]}'
        )

    needed = rows(read(file(b'{"ph":"M"}')))
    chunk, block = data.draw(st.sampled_from([(64, 16), (1000, 500), (1 << 21, 1 << 20)]))
    recorded = read(file(damaged), chunk=chunk, block=block)
    assert not needed - rows(recorded)
    assert sum((rows(recorded) - needed).values()) <= 1
    assert [device.name for device in recorded.metadata.devices] == ["A", "B"]


@cache
def real_text(name: str) -> bytes:
    with gzip.open(real_trace(name)) as file:
        return file.read()


TOKENS = [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\0", b"\xff", b"null", b"-1", b"1e400", b"NaN", b"9" * 25]
TOKENS += [
    b"true",
    b'"args":',
    b'"ts":',
    b"},{",
    b'"traceEvents":[',
    b"7400000000000000",
    b"-9223372036854775808",
    b"\n",
]
edits = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.one_of(
            st.tuples(st.just("put"), st.one_of(st.sampled_from(TOKENS), st.binary(min_size=1, max_size=4))),
            st.tuples(st.just("set"), st.one_of(st.sampled_from(TOKENS), st.binary(min_size=1, max_size=4))),
            st.tuples(st.just("cut"), st.sampled_from([1, 2, 10, 1000])),
            st.tuples(st.just("number"), st.sampled_from(TOKENS)),
        ),
    ),
    min_size=1,
    max_size=40,
)


def edited(text: bytes, changes: list[Any]) -> bytes:
    """*text* with each change made at its share of the length."""
    out = bytearray(text)
    for share, (what, value) in changes:
        at = int(share * len(out))
        if what == "put":
            out[at:at] = value
        elif what == "set":
            out[at : at + len(value)] = value
        elif what == "cut":
            del out[at : at + value]
        else:
            number = re.compile(rb"\d+(?:\.\d+)?").search(out, at)
            if number:
                out[number.start() : number.end()] = value
        if not out:
            break
    return bytes(out)


def survives(text: bytes, sizes: tuple[int, int] = (1 << 21, 1 << 20)) -> None:
    """Reading and all frames: a trace or a TraceError, soon."""
    with (
        TemporaryDirectory() as folder,
        patch.object(stream, "CHUNK", sizes[0]),
        patch.object(containers, "BLOCK", sizes[1]),
    ):
        path = Path(folder) / "t.json"
        path.write_bytes(text)
        with within(5), suppress(TraceError):
            build_all(advisor.trace.read(str(path)))


@pytest.mark.real
@pytest.mark.parametrize("name", ["h100_transformer_run1.json.gz", "mi250_minitoy_train.json.gz"])
def test_random_edits_of_a_real_trace(name: str) -> None:
    text = real_text(name)

    @SETTINGS
    @given(edits, st.sampled_from([(1 << 21, 1 << 20), (20_000, 4096)]))
    def holds(changes: list[Any], sizes: tuple[int, int]) -> None:
        survives(edited(text, changes), sizes)

    holds()


@pytest.mark.real
def test_random_edits_of_a_compressed_trace() -> None:
    packed = gzip.compress(real_text("mi250_minitoy_train.json.gz"), mtime=0)

    @settings(SETTINGS, max_examples=40)
    @given(edits)
    def holds(changes: list[Any]) -> None:
        survives(edited(packed, changes[:3]))

    holds()


ODD_VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    2**31,
    2**53,
    2**63 - 1,
    -(2**63),
    2**64,
    10**30,
    10**400,
    0.5,
    1e18,
    1e300,
    "",
    "x",
    "5",
    "--5",
]
ODD_VALUES += [
    "²",
    "1e5",
    "NaN",
    "sNaN",
    "Infinity",
    [],
    {},
    [1],
    [[1]],
    {"a": 1},
    "\u202e\x1b[31m",
    "\ud800",
    "ProfilerStep#99999999999999999999",
]
ODD_VALUES += [
    "nccl",
    "enumerate(DataLoader)#x.__next__",
    "cudaMemcpy",
    "cudaGraphLaunch",
    "nn.Module: X",
    "/a/b.py(3): f",
    "Python GC",
    "(((",
]
ODD_VALUES += [
    "kernel",
    "gpu_memcpy",
    "cpu_op",
    "python_function",
    "overhead",
    "cuda_runtime",
    "user_annotation",
    "cuda_sync",
    "trace",
    "X",
    "i",
]
FIELDS = ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"]
ARGS = [
    "device",
    "stream",
    "correlation",
    "bytes",
    "registers per thread",
    "blocks per SM",
    "grid",
    "block",
    "Sequence number",
    "Input Dims",
]
ARGS += [
    "Input type",
    "Call stack",
    "Total Allocated",
    "Total Reserved",
    "Bytes",
    "Addr",
    "Device Id",
    "Device Type",
    "Collective name",
    "dtype",
]


@pytest.mark.real
@pytest.mark.parametrize("name", ["h100_transformer_run1.json.gz", "mi250_minitoy_train.json.gz"])
def test_odd_values_anywhere_in_a_real_trace(name: str) -> None:
    whole = json.loads(real_text(name))
    change = st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from(FIELDS + ARGS), st.sampled_from(ODD_VALUES))

    @SETTINGS
    @given(
        st.lists(change, min_size=1, max_size=60),
        st.sets(st.sampled_from(["kernel", "cpu_op", "python_function", "cuda_runtime"]), max_size=3),
    )
    def holds(changes: list[tuple[float, str, Any]], without: set[str]) -> None:
        events = [e for e in whole["traceEvents"] if e.get("cat") not in without]
        for share, key, value in changes:
            at = int(share * len(events))
            if key in FIELDS:
                events[at] = {**events[at], key: value}
            else:
                args = events[at].get("args")
                events[at] = {**events[at], "args": {**(args if isinstance(args, dict) else {}), key: value}}
        survives(json.dumps({**whole, "traceEvents": events}).encode())

    holds()


# ---- hostile files


def listed(*texts: bytes) -> bytes:
    """A trace of these events with sound ones before and behind."""
    good = [json.dumps(e).encode() for e in GOOD]
    return b'{"traceEvents": [' + b", ".join([*good, *texts, *good]) + b"]}"


@pytest.mark.parametrize(
    "deep",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b"[" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"a":' * 100_000,
    ],
    ids=["list", "open list", "object", "open object"],
)
def test_nesting_beyond_all_bounds(deep: bytes) -> None:
    with within(10):
        trace = trace_of(listed(raw(b'"deep"', b'"ts": 1, "dur": 1, "args": ' + deep)))
        build_all(trace)
    assert len(trace.ops) == 6
    with within(5), pytest.raises(TraceError):
        trace_of(deep)
    with within(5), pytest.raises(TraceError):
        trace_of(b'{"traceEvents": ' + deep)
    with within(5):
        assert trace_of(b'{"x": ' + deep + b', "traceEvents": ' + listed()[16:]).events == 6


def test_one_name_of_50_megabytes() -> None:
    # Also for a kernel, whose name is matched against every pattern of classes.
    name = b'"' + b"xmma_gemm attention(1): " * ((50 << 20) // 24) + b'"'
    with within(20):
        trace = trace_of(
            listed(raw(name), raw(name).replace(b"cpu_op", b"kernel"), raw(name).replace(b"cpu_op", b"python_function"))
        )
        build_all(trace)
    assert trace.events == 9
    assert max(len(text) for text in trace.ops["name"]) < 20_000


def test_a_million_events_that_share_their_ids() -> None:
    same = b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{"correlation":5,"device":0,"stream":7}}'
    call = b'{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":7,"ts":1,"dur":1,"args":{"correlation":5}}'
    with within(30):
        trace = trace_of(listed(*[same] * 1_000_000, *[call] * 50))
        assert trace.frame("trace")["kernel_count"][0] == 1_000_000
        assert trace.kernels["linked"].all()
        assert trace.ledger.counted_ns == trace.window_ns


def test_numbers_beyond_all_bounds() -> None:
    huge = [b"1e400", b"-1e400", b"1E999999999", b"1e-999999999", b"1" * 5000, b"0." + b"1" * 5000, b"-0", b"9" * 400]
    texts = [raw(b'"n"', b'"ts": %s, "dur": 1' % number) for number in huge]
    texts += [raw(b'"n"', b'"ts": 5, "dur": %s' % number) for number in huge]
    texts += [raw(b'"n"', b'"ts": 5, "tid": %s, "pid": %s' % (number, number)) for number in huge]
    args = [
        b"correlation",
        b"bytes",
        b"stream",
        b"device",
        b"Bytes",
        b"Addr",
        b"Total Allocated",
        b"occupancy",
        b"blocks per SM",
    ]
    for cat in (b"kernel", b"gpu_memcpy", b"cuda_runtime", b"cpu_instant_event"):
        texts += [
            raw(b'"[memory]"', b'"ts": 5, "dur": 1, "args": {"%s": %s}' % (key, number)).replace(b"cpu_op", cat)
            for key in args
            for number in huge
        ]
    with within(10):
        trace = trace_of(listed(*texts))
        build_all(trace)
    assert trace.events == 6 + len(texts)
    assert {"bad-values", "repaired"} <= {note.code for note in trace.quality}


def test_keys_that_come_twice() -> None:
    twice = b'{"ph":"i","ph":"X","cat":"kernel","cat":"cpu_op","name":"a","name":"b","ts":1,"ts":2,'
    row = contents(read(listed(twice + b'"args":{"Sequence number":1,"Sequence number":2}}')))["op"][3]
    assert (row["name"], row["ts"], row["sequence"]) == ("b", "2000", "2")


def test_names_that_play_with_the_terminal_stay_data() -> None:
    names = ["\u202egnp.exe", "\x1b]0;title\x07", "\x9b31m", "a\u200bb", "\ufeff", "\ue000", "\U0010ffff"]
    trace = trace_of(dump([event(name, ts=at * 10) for at, name in enumerate(names)]))
    assert trace.ops["name"].tolist() == names
    build_all(trace)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b'{"traceEvents": [{"ph": "X", "name": "' + b"a" * (48 << 20), "text without an event"),
        (b'{"x": "' + b"a" * (48 << 20), "neither whole JSON nor a trace"),
        (b" " * (48 << 20), "is empty"),
        (b"[" * (48 << 20), "text without an event|no other is left"),
    ],
    ids=["name", "header", "blanks", "brackets"],
)
def test_a_gzip_bomb_does_not_fill_memory(text: bytes, told: str) -> None:
    packed = gzip.compress(text, 1)
    del text
    tracemalloc.start()
    with patch.object(stream, "MOST_TEXT", 4 << 20), within(20), pytest.raises(TraceError, match=told):
        read(packed, name="t.json.gz")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 << 20


def test_noise_behind_a_sound_beginning() -> None:
    noise = np.random.default_rng(1).bytes(3 << 20)
    for tail in (
        noise,
        b'"' * (1 << 20),
        b'{"ph":' * 100_000,
        b'},{"ph":' * 30_000,
        b"]," * 100_000,
        b"[{" * 100_000,
        b"\\" * (1 << 20),
    ):
        with within(10):
            recorded = read(b'{"traceEvents": [' + json.dumps(GOOD[0]).encode() + b", " + tail)
        assert contents(recorded)["op"][0]["name"] == "op0"
        assert "truncated" in codes(recorded)


def test_an_event_with_a_million_boundaries_inside() -> None:
    decoys = b'{"name": 1}, ' * 300_000
    with within(15):
        recorded = read(
            listed(raw(b'"a"', b'"ts": 5, "dur": 1, "args": {"x": [' + decoys + b"1]}")), chunk=100_000, block=100_000
        )
    assert (recorded.events, recorded.notes) == (7, [])
