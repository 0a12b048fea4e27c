"""Perfetto traces of torch: the same run as JSON and as .pftrace, in both encodings, plain and packed, sound and damaged."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pftrace import content, encode, number

import advisor
from advisor.errors import TraceError
from advisor.reading import protobuf, stream
from advisor.reading.slices import OPEN, ends
from advisor.reading.stream import Recorded
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder

UNTIMED = settings(deadline=None)  # beside other work, an example takes any time
# What JSON holds, and .pftrace does not: the builder's devices are named, and its kernels have an occupancy.
_NOT_HELD = (
    "deviceProperties",
    "distributedInfo",
    "cuda_runtime_version",
    "record_shapes",
    "with_stack",
    "profile_memory",
)
_KERNEL_ARGS = ("blocks per SM", "warps per SM", "est. achieved occupancy %", "shared memory")


def recording() -> dict[str, Any]:
    """A run of five steps with operators, stacks, launches, kernels, copies, memsets, waits and a collective."""
    b = TraceBuilder("NVIDIA H100 80GB HBM3", record_shapes=True)
    for index in range(5):
        with b.step(), b.python("train.py(20): main"):
            with b.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", us=300 + 7 * index):
                pass
            b.copy("HtoD", 1 << 20, us=90, pinned=False)
            with b.op("aten::mm", shapes=[[64, 64], [64, 64]]):
                b.kernel("volta_sgemm_128x64_nn", us=900 + 3 * index)
                b.kernel("at::native::vectorized_elementwise_kernel", us=40)
            b.item()
    root: dict[str, Any] = json.loads(b.to_bytes())
    for event in root["traceEvents"]:
        if event["name"].startswith("enumerate(DataLoader)"):
            event["cat"] = "user_annotation"  # as torch writes it
    return root


def held(root: dict[str, Any], *, stages: bool) -> dict[str, Any]:
    """Return the part of *root* that a .pftrace holds."""
    kept = {key: value for key, value in root.items() if key not in _NOT_HELD and key != "traceEvents"}
    events = []
    for event in root["traceEvents"]:
        if event.get("ph") != "X" or event.get("cat") == "Trace":
            continue
        event = dict(event)
        if event["cat"] == "kernel" and stages:
            event["args"] = {key: value for key, value in event["args"].items() if key not in _KERNEL_ARGS}
        if event["cat"] == "gpu_memcpy" and stages:
            event["name"] = "Memcpy"
        if event["cat"] == "gpu_memset" and stages:
            event["name"] = "Memset"
        events.append(event)
    # Names are numbered in the order of the file: the host's events, calls, then the work of devices by kind.
    later = [
        "cuda_runtime",
        "cuda_driver",
        "overhead",
        "cuda_sync",
        "kernel",
        "gpu_memcpy",
        "gpu_memset",
        "gpu_user_annotation",
    ]
    events.sort(key=lambda event: later.index(event["cat"]) if event["cat"] in later else -1)
    if stages:
        # The capability that each render stage says.
        kept["deviceProperties"] = [{"id": 0, "computeMajor": 9, "computeMinor": 0}]
    return kept | {"traceEvents": events}


def write(path: Path, data: bytes) -> str:
    """The path of a file with this content."""
    path.write_bytes(data)
    return str(path)


def compared(analysis: Analysis) -> dict[str, Any]:
    """The analysis without what names the file, and without notes on the file itself."""
    plain: dict[str, Any] = msgspec.to_builtins(analysis)
    plain["trace"] = {key: value for key, value in plain["trace"].items() if key not in ("path", "events")}
    kinds = ("not-recorded", "no-categories")
    plain["quality"] = [note for note in plain["quality"] if note["code"] not in kinds]
    return plain


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("stages", "categories"), [(True, True), (False, False)])
def test_one_run_as_json_and_as_pftrace_gives_equal_reports(
    tmp_path: Path, stages: bool, categories: bool, packed: bool
) -> None:
    root = recording()
    data = encode(root, stages=stages, categories=categories)
    path = write(tmp_path / "a.json", gzip.compress(data) if packed else data)
    like = write(tmp_path / "b.json", json.dumps(held(root, stages=stages)).encode())
    left, right = advisor.analyze(advisor.read(path)), advisor.analyze(advisor.read(like))
    assert left.findings
    assert compared(left) == compared(right)
    note = next(note for note in left.quality if note.code == "not-recorded")
    assert "memory events" in note.message
    assert ("occupancy" in note.message) is stages
    assert any(note.code == "no-categories" for note in left.quality) is not categories


def test_the_name_of_the_file_says_nothing(tmp_path: Path) -> None:
    data = encode(recording())
    assert stream.read(write(tmp_path / "x.json.gz", data)).metadata.format == "pftrace"
    text = json.dumps(recording()).encode()
    assert stream.read(write(tmp_path / "x.pftrace", text)).metadata.format == "json"
    assert stream.read(write(tmp_path / "y.pftrace", b"\n" + text)).metadata.format == "json"


def _sums(recorded: Recorded) -> dict[str, tuple[int, int]]:
    return {group: (len(table["ts"]), int(table["dur"].sum())) for group, table in recorded.tables.items()}


def test_the_durations_are_those_of_the_json(tmp_path: Path) -> None:
    root = recording()
    expected = {
        group: (len(events), sum(round(event["dur"] * 1000) for event in events))
        for group, cats in (
            ("kernel", ("kernel",)),
            ("copy", ("gpu_memcpy",)),
            ("op", ("cpu_op",)),
            ("python", ("python_function",)),
        )
        if (events := [event for event in root["traceEvents"] if event.get("ph") == "X" and event.get("cat") in cats])
    }
    for stages in (True, False):
        found = _sums(stream.read(write(tmp_path / "a", encode(root, stages=stages))))
        assert {group: found[group] for group in expected} == expected


def test_a_cut_off_file_gives_what_it_holds(tmp_path: Path) -> None:
    data = encode(recording())
    whole = stream.read(write(tmp_path / "a", data))
    kernels = len(whole.tables["kernel"]["ts"])
    short = stream.read(write(tmp_path / "b", data[:-700]))
    assert short.truncated
    assert "truncated" in {code for code, _ in short.notes}
    assert 0 < len(short.tables["kernel"]["ts"]) < kernels or len(short.tables["copy"]["ts"]) < len(
        whole.tables["copy"]["ts"]
    )
    assert len(short.tables["op"]["ts"]) == len(whole.tables["op"]["ts"])


def test_ends_that_are_cut_off_leave_their_slices_out(tmp_path: Path) -> None:
    root = recording()
    data = encode(root, stages=False, categories=False)
    whole, short = stream.read(write(tmp_path / "a", data)), stream.read(write(tmp_path / "b", data[:-60]))
    lost = sum(len(table["ts"]) for table in whole.tables.values()) - sum(
        len(table["ts"]) for table in short.tables.values()
    )
    assert 0 < lost <= 5
    assert any(code == "skipped" and f"{lost} slices without an end" in text for code, text in short.notes)


def test_a_slice_named_like_a_flow_has_no_length(tmp_path: Path) -> None:
    """Flows are kept where no kernel shows that they are not needed, and have no end to be worked out."""
    root = recording()
    root["traceEvents"] = [event for event in root["traceEvents"] if event.get("cat") == "cpu_op"]
    root["traceEvents"][3]["cat"] = "ac2g"
    found = stream.read(write(tmp_path / "a", encode(root)))
    assert len(found.tables["op"]["ts"]) == len(root["traceEvents"]) - 1


@pytest.mark.parametrize("place", [0.3, 0.6, 0.9])
def test_garbage_and_a_wrong_length_lose_little(tmp_path: Path, place: float) -> None:
    data = bytearray(encode(recording()))
    whole = stream.read(write(tmp_path / "a", bytes(data)))
    at = int(len(data) * place)
    data[at : at + 40] = Random(1).randbytes(40)
    damaged = stream.read(write(tmp_path / "b", bytes(data)))
    kept = sum(len(table["ts"]) for table in damaged.tables.values())
    assert kept > 0.9 * sum(len(table["ts"]) for table in whole.tables.values())
    assert any(code == "skipped" for code, _ in damaged.notes)


def test_damage_never_ends_in_a_traceback(tmp_path: Path) -> None:
    data = encode(recording())
    for seed in range(60):
        rng = Random(seed)
        broken = bytearray(data)
        for _ in range(rng.choice([1, 3, 30])):
            at = rng.randrange(len(broken))
            broken[at : at + rng.choice([1, 4, 50])] = rng.randbytes(rng.choice([0, 1, 4, 50]))
        with contextlib.suppress(TraceError):
            assert stream.read(write(tmp_path / "x", bytes(broken))).events


def test_a_perfetto_trace_of_something_else_is_named(tmp_path: Path) -> None:
    packets = b"".join(content(1, number(8, at) + content(1, number(1, at))) for at in range(1, 40))
    with pytest.raises(TraceError, match="without slices of a program or stages"):
        stream.read(write(tmp_path / "x.json", packets))


# ---- beginnings and ends


def test_blocks_of_beginnings_and_ends_pair_in_turn() -> None:
    # Two operators that touch at 10: by time alone the first end would belong to the second.
    is_end = np.array([False, False, True, True])
    found, left = ends(is_end, np.array([0, 10, 10, 20]), np.array([1, 1, 1, 1]))
    assert found.tolist() in ([10, 20], [20, 10])  # in order of time, nothing tells the two apart
    found, left = ends(
        np.array([False] * 3 + [True] * 3), np.array([0, 10, 20, 10, 20, 25]), np.array([1, 1, 1, 1, 1, 1])
    )
    assert found.tolist() == [10, 20, 25]
    assert left == 0


def test_slices_in_the_order_of_time_pair_as_a_stack() -> None:
    is_end = np.array([False, False, True, False, True, True])
    found, left = ends(is_end, np.array([0, 1, 4, 5, 6, 9]), np.zeros(6, np.int64))
    assert found.tolist() == [9, 4, 6]
    assert left == 0


def test_a_slice_without_an_end_stays_open() -> None:
    found, left = ends(np.array([False, False, True]), np.array([5, 0, 3]), np.array([1, 1, 1]))
    assert sorted(found.tolist()) == [OPEN, 3]
    found, left = ends(np.array([True, True]), np.array([0, 3]), np.array([1, 1]))
    assert found.tolist() == []
    assert left == 2


@UNTIMED
@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 200), st.integers(0, 3)), min_size=1, max_size=40))
def test_any_block_gives_back_its_ends(slices: list[tuple[int, int, int]]) -> None:
    begin = np.array(
        [start for start, _, _ in slices] + [2000, 1], np.int64
    )  # out of order: a block as torch writes them
    length = np.array([dur for _, dur, _ in slices] + [1, 1], np.int64)
    track = np.array([at for _, _, at in slices] + [9, 9], np.int64)
    is_end = np.repeat([False, True], len(begin))
    found, left = ends(is_end, np.concatenate([begin, begin + length]), np.concatenate([track, track]))
    assert found.tolist() == (begin + length).tolist()
    assert left == 0


# ---- the wire format


@UNTIMED
@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=20))
def test_varints_come_back(values: list[int]) -> None:
    from support.pftrace import varint

    data = b"".join(varint(value) for value in values)
    places = np.cumsum([0, *(len(varint(value)) for value in values)])[:-1].astype(np.int64)
    found, after, long = protobuf.varints(np.frombuffer(data + protobuf.PADDING, np.uint8), places)
    assert found.tolist() == values
    assert not long.any()
    assert after.tolist() == [*places[1:].tolist(), len(data)][: len(values)]


@UNTIMED
@given(st.binary(max_size=200))
def test_fields_of_any_bytes_stay_inside_their_message(data: bytes) -> None:
    size = len(data)
    starts, stops = np.array([0, size // 2], np.int64), np.array([size // 2, size], np.int64)
    found = protobuf.fields(np.frombuffer(data + protobuf.PADDING, np.uint8), starts, stops, 64)
    assert (found.start >= starts[found.row]).all()
    assert (found.stop <= stops[found.row]).all()
    # One message at a time, in plain Python, comes to the same.
    for row in range(2):
        mine = [(int(a), int(b)) for r, a, b in zip(found.row, found.number, found.wire, strict=True) if r == row]
        plain: list[tuple[int, int]] = []
        try:
            for field, wire, _, _, _ in protobuf.message(data, int(starts[row]), int(stops[row])):
                plain.append((field, wire))
            assert not found.bad[row] or len(plain) > 64
        except protobuf.Malformed:
            assert found.bad[row]
        assert mine == plain[:64]


def test_the_encoder_writes_what_perfettos_own_classes_read() -> None:
    trace_pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    root = recording()
    for stages in (True, False):
        trace = trace_pb2.Trace()
        trace.ParseFromString(encode(root, stages=stages))
        begins = [p for p in trace.packet if p.HasField("track_event") and p.track_event.type == 1]
        staged = [p.gpu_render_stage_event for p in trace.packet if p.HasField("gpu_render_stage_event")]
        work = [
            e
            for e in root["traceEvents"]
            if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
        ]
        host = [e for e in root["traceEvents"] if e.get("ph") == "X" and e.get("cat") != "Trace" and e not in work]
        assert len(staged) == (len(work) if stages else 0)
        assert len(begins) == len(host) + (0 if stages else len(work))
        if stages:
            kernel = next(stage for stage in staged if stage.kernel_iid)
            assert kernel.launch.grid_size.x > 0
            assert {data.name for data in kernel.extra_data} >= {"correlation", "stream id", "device id"}
