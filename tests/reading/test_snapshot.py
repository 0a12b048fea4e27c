"""Memory snapshots: who holds the peak, joined with a trace by time and stack; and pickles that try to do more than hold data."""

from __future__ import annotations

import contextlib
import copy
import gzip
import io
import os
import pickle
import pickletools
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.exports import MIB, OUTPUTS, WEIGHTS, snapshot

import advisor
from advisor.errors import NotATrace, TraceError
from advisor.reading import stream
from advisor.reading.plain_pickle import NotPlain, loads
from advisor.results.memory import MemoryPeak
from advisor.testing import TraceBuilder


def write(path: Path, value: Any, protocol: int = 4) -> str:
    """A pickle."""
    path.write_bytes(pickle.dumps(value, protocol))
    return str(path)


def peak_of(path: str, **more: Any) -> MemoryPeak:
    """Return the holders of the peak, as the analysis has them."""
    analysis = advisor.analyze(advisor.read(path, **more))
    assert analysis.memory_peak is not None
    return analysis.memory_peak


def trace(path: Path) -> tuple[str, int]:
    """A recording of six steps of about a ms, and when it begins, us since the epoch."""
    b = TraceBuilder("NVIDIA A100-SXM4-80GB")
    for _ in range(6):
        with b.step(), b.op("aten::mm", shapes=[[64, 64], [64, 64]]):
            b.kernel("volta_sgemm_128x64_nn", us=900)
            b.item()
    path.write_bytes(b.to_bytes())
    return str(path), advisor.read(str(path)).zero_ns // 1000


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_the_peak_and_who_holds_it(tmp_path: Path, protocol: int) -> None:
    peak = peak_of(write(tmp_path / "x.pickle", snapshot(), protocol))
    # Four MiB of weights, eight outputs of one and a half, and 500 bytes from before the history.
    assert peak.bytes == 4 * MIB + 12 * MIB + 500
    assert peak.unknown_bytes == 500
    outputs, weights, before = peak.holders
    assert (outputs.file, outputs.line, outputs.function) == ("proj/model.py", 31, "forward")
    assert (outputs.bytes, outputs.allocations, outputs.library) == (12 * MIB, 8, "torch/nn/functional.py:9 gelu")
    assert (weights.file, weights.line, weights.bytes, weights.allocations) == ("proj/model.py", 12, 4 * MIB, 4)
    assert (before.file, before.bytes, before.before) == (None, 500, True)
    assert peak.step is None
    assert sum(holder.share for holder in peak.holders) == pytest.approx(1)


def test_the_name_of_a_function_tells_no_home_directory(tmp_path: Path) -> None:
    """A function made by exec may be called by a path."""
    value = copy.deepcopy(snapshot())
    for frames in (item["frames"] for trace in value["device_traces"] for item in trace if item.get("frames")):
        for frame in frames:
            if frame["name"] == "forward":
                frame["name"] = "/home/alice/x/train.py"
    peak = peak_of(write(tmp_path / "x.pickle", value))
    functions = [holder.function for holder in peak.holders]
    assert "x/train.py" in functions
    assert not any("alice" in (function or "") for function in functions)


def test_beside_a_trace_it_says_when_and_gives_the_curve(tmp_path: Path) -> None:
    path, start = trace(tmp_path / "t.json")
    beside = write(tmp_path / "s.pickle", snapshot(start + 1200))
    read = advisor.read(path, snapshot=beside)
    peak = advisor.analyze(read).memory_peak
    assert peak is not None
    # The 28th event: the last of the third turn's allocations, 307 us from the snapshot's first.
    assert peak.at_ms == pytest.approx(1.2 + 0.307, abs=0.0011)
    assert peak.step == 1
    assert peak.op == "aten::mm" or peak.op == "aten::_local_scalar_dense"
    memory = read.frame("memory")
    assert memory["allocated_bytes"].max() == peak.bytes
    assert memory["reserved_bytes"].max() == 0
    assert len(read.frame("allocations")) == 1 + 4 + 3 * 16
    assert "memory-from-snapshot" in {note.code for note in read.quality}


def test_one_of_another_run_is_said_to_be(tmp_path: Path) -> None:
    path, _ = trace(tmp_path / "t.json")
    read = advisor.read(path, snapshot=write(tmp_path / "s.pickle", snapshot()))
    assert "snapshot-apart" in {note.code for note in read.quality}
    peak = advisor.analyze(read).memory_peak
    assert peak is not None
    assert (peak.at_ms, peak.step, peak.op) == (None, None, None)
    assert peak.holders[0].line == 31
    assert not len(read.frame("allocations"))


def test_reports_show_the_places(tmp_path: Path) -> None:
    from advisor.report import Options, render

    analysis = advisor.analyze(advisor.read(write(tmp_path / "x", snapshot())))
    for form in ("text", "html", "markdown"):
        shown = render(form, analysis, Options(verbosity=1)).decode()
        assert "proj/model.py:31 forward" in shown
        assert "75" in shown
    assert "/home/u" not in render("json", analysis, Options()).decode()


def test_what_is_no_snapshot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotATrace, match="something else than a memory snapshot"):
        stream.read(write(tmp_path / "x", {"model": [1, 2]}))
    with pytest.raises(TraceError, match="without events"):
        stream.read(write(tmp_path / "x", {"segments": [], "device_traces": [[]]}))
    path, _ = trace(tmp_path / "t.json")
    with pytest.raises(TraceError, match="no memory snapshot"):
        advisor.read(path, snapshot=path)


def test_gzip_and_any_name(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(gzip.compress(pickle.dumps(snapshot())))
    assert peak_of(str(path)).bytes == 16 * MIB + 500


# ---- hostile pickles


class _Call:
    """An object whose pickle calls something."""

    def __init__(self, *what: Any) -> None:
        self.what = what

    def __reduce__(self) -> Any:
        return self.what[0], self.what[1:]


HOSTILE = {
    "system": lambda mark: pickle.dumps(_Call(os.system, f"touch {mark}")),
    "open": lambda mark: pickle.dumps(_Call(open, mark, "w"), 2),
    "inside a snapshot": lambda mark: pickle.dumps(snapshot() | {"device_traces": [[_Call(os.mkdir, mark)]]}),
    "global": lambda mark: b"cos\nmkdir\n(S'" + mark.encode() + b"'\ntR.",
    "protocol 2, global": lambda mark: (
        b"\x80\x02cos\nmkdir\n(X" + len(mark).to_bytes(4, "little") + mark.encode() + b"tR."
    ),
    "stack global": lambda mark: (
        b"\x80\x04\x8c\x02os\x8c\x05mkdir\x93\x8c" + bytes([len(mark)]) + mark.encode() + b"\x85R."
    ),
    "instance": lambda mark: b"\x80\x02(S'" + mark.encode() + b"'\nios\nmkdir\n.",
    "object": lambda mark: b"\x80\x02(cos\nmkdir\nS'" + mark.encode() + b"'\no.",
    "new object": lambda mark: b"\x80\x02cbuiltins\nobject\n)\x81.",
    "extension": lambda mark: b"\x80\x02\x82\x01.",
    "persistent": lambda mark: b"\x80\x02Px\n.",
    "build": lambda mark: b"\x80\x02}}b.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pickle_executes_nothing(tmp_path: Path, name: str) -> None:
    mark = tmp_path / "executed"
    data = HOSTILE[name](str(mark))
    with pytest.raises(NotPlain):
        loads(data)
    path = tmp_path / "x.pickle"
    path.write_bytes(data)
    with pytest.raises(TraceError):
        stream.read(path)
    assert not mark.exists()


def test_no_instruction_that_is_read_makes_or_calls_anything() -> None:
    from advisor.reading.plain_pickle import _PLAIN

    calls = {
        "GLOBAL",
        "STACK_GLOBAL",
        "REDUCE",
        "BUILD",
        "INST",
        "OBJ",
        "NEWOBJ",
        "NEWOBJ_EX",
        "EXT1",
        "EXT2",
        "EXT4",
        "PERSID",
        "BINPERSID",
    }
    reserve = {"BYTEARRAY8", "NEXT_BUFFER", "READONLY_BUFFER"}
    names = {op.name: op.code.encode("latin-1") for op in pickletools.opcodes}
    assert {name for name, code in names.items() if code not in _PLAIN} == calls | reserve


def test_sizes_that_a_pickle_claims_reserve_nothing() -> None:
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for data in (
        b"\x80\x02]r\xff\xff\xff\x7f.",
        b"\x80\x04\x8d" + b"\xff" * 6 + b"\x00\x00x.",
        b"\x80\x04\x8b\xff\xff\xff\x7f1.",
    ):
        try:
            loads(data)
        except NotPlain:
            continue
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    ),
    st.integers(3, 5),  # before, bytes are a call
)
def test_plain_data_comes_back(value: Any, protocol: int) -> None:
    assert loads(pickle.dumps(value, protocol)) == value


def test_damage_never_ends_in_a_traceback(tmp_path: Path) -> None:
    data = pickle.dumps(snapshot())
    path = tmp_path / "x"
    for seed in range(80):
        rng = Random(seed)
        broken = bytearray(data if seed % 3 else data[: rng.randrange(2, len(data))])
        for _ in range(rng.choice([1, 3, 30])):
            broken[rng.randrange(2, len(broken))] = rng.randrange(256)
        path.write_bytes(bytes(broken))
        with contextlib.suppress(TraceError):
            assert stream.read(path).snapshot is not None


def test_shared_lists_are_looked_at_once(tmp_path: Path) -> None:
    stack = OUTPUTS * 60
    event = {"action": "alloc", "addr": 1, "size": 8, "time_us": 5, "frames": stack}
    out = io.BytesIO()
    pickle.Pickler(out).dump({"device_traces": [[event] * 50_000] * 200, "segments": []})
    path = tmp_path / "x"
    path.write_bytes(out.getvalue())
    recorded = stream.read(path)
    assert recorded.snapshot is not None
    assert recorded.snapshot.events == 50_000
    assert len(recorded.snapshot.stacks) == 1
    assert WEIGHTS != OUTPUTS
