"""Any damage at all to sound files, small and real: every frame and picture can still be built, soon."""

from __future__ import annotations

import gzip
import json
import re
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.damage import SETTINGS, build_all, within
from support.reading import contents, event, mixture, read, rows
from support.traces import real_trace

import advisor.trace
from advisor.errors import TraceError
from advisor.reading import containers, stream

# A real trace is read whole for each example: a few in every run, as many as elsewhere in a study.
REAL = [
    ("h100_transformer_run1.json.gz", 15),
    pytest.param("h100_transformer_run1.json.gz", 60, marks=pytest.mark.study),
    pytest.param("mi250_minitoy_train.json.gz", 60, marks=pytest.mark.study),
]


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


def test_a_bracket_in_the_last_event_of_a_chunk_does_not_end_the_list() -> None:
    """Found by the test above: behind "}]" the event's own brace, where the chunk ends, was taken for the root's."""
    good = [json.dumps(one).encode() for one in (event("first"), event("last"))]
    for size in range(40, 200, 4):
        text = (
            b'{"traceEvents":['
            + b", ".join([good[0], b'{"ph": "s", "id": 0, "cat": "ac2g", "name"}]}', good[1]])
            + b"]}"
        )
        recorded = read(text, chunk=size, block=size // 4)
        assert [row["name"] for row in contents(recorded)["op"]] == ["first", "last"], size


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
@pytest.mark.parametrize(("name", "examples"), REAL)
def test_random_edits_of_a_real_trace(name: str, examples: int) -> None:
    text = real_text(name)

    @settings(SETTINGS, max_examples=examples)
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
@pytest.mark.parametrize(("name", "examples"), REAL)
def test_odd_values_anywhere_in_a_real_trace(name: str, examples: int) -> None:
    whole = json.loads(real_text(name))
    change = st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from(FIELDS + ARGS), st.sampled_from(ODD_VALUES))

    @settings(SETTINGS, max_examples=examples)
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
