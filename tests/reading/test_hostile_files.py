"""Files made to exhaust: nesting, names, counts and noise beyond all bounds cost neither memory nor time."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from unittest.mock import patch

import numpy as np
import pytest
from support.damage import GOOD, build_all, codes, raw, within
from support.reading import contents, dump, event, read, trace_of

from advisor.errors import TraceError
from advisor.reading import stream


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


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.study)])
def test_a_million_events_that_share_their_ids(count: int) -> None:
    same = b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{"correlation":5,"device":0,"stream":7}}'
    call = b'{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":7,"ts":1,"dur":1,"args":{"correlation":5}}'
    with within(30):
        trace = trace_of(listed(*[same] * count, *[call] * 50))
        assert trace.frame("trace")["kernel_count"][0] == count
        assert trace.kernels["linked"].all()
        # The calls take 50 us of the host, the kernels 1 us: the ledger divides the host's span.
        assert sum(trace.ledger.of_extent().values()) >= trace.window_ns


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


@pytest.mark.parametrize("blank", [b"\t", b" ", b"\n "], ids=["tabs", "blanks", "lines"])
def test_white_space_behind_a_quote_that_ends_nothing(blank: bytes) -> None:
    """A damaged event of a quarter of a megabyte of white space: trying each way to part it took a minute and more."""
    damaged = raw(b'"a"' + blank * (200_000 // len(blank)) + b'! b"')
    with within(10):
        recorded = read(listed(damaged))
    assert recorded.events >= 6
