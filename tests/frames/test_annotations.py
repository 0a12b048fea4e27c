"""The frames `annotations` and `collective_calls`, worked out by hand. Times in us."""

from __future__ import annotations

import math
from pathlib import Path

from advisor.testing import TraceBuilder
from advisor.trace import read


def test_an_annotation_tells_its_time_and_what_was_launched_inside(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=10, latency_us=0)
    with b.step():
        with b.annotation("generate"):
            with b.op("aten::mm"):
                b.kernel("gemm", us=100)
            with b.annotation("sample"):
                b.kernel("pointwise", us=20)
            b.idle(us=70)
        b.kernel("outside", us=5)
        b.sync()
    trace = read(str(b.write(tmp_path / "trace.json")))
    rows = trace.frame("annotations").set_index("name")
    assert list(rows.index) == ["ProfilerStep#0", "generate", "sample"]
    assert rows["dur_ns"].to_dict()["generate"] == 90_000
    assert rows["gpu_ns"].to_dict() == {"ProfilerStep#0": 125_000, "generate": 120_000, "sample": 20_000}
    assert rows["kernel_count"].to_dict() == {"ProfilerStep#0": 3, "generate": 2, "sample": 1}
    assert rows["depth"].to_dict() == {"ProfilerStep#0": 0, "generate": 1, "sample": 2}
    assert (rows["cost_ns"] == 0).all()


def test_collectives_without_kernels_tell_their_messages(tmp_path: Path) -> None:
    """A group of one rank runs no kernel: `collectives` is empty, the calls are there with their bytes."""
    b = TraceBuilder(host_us=10, latency_us=0)
    with b.step():
        for elements, dtype in ((1000, "Float"), (500, "BFloat16"), (7, "Unheard")):
            args = {"Collective name": "allreduce", "In msg nelems": elements, "dtype": dtype, "Group size": 1}
            with b.op("record_param_comms", args=args):
                b.idle(us=30)
        with b.op("record_param_comms", args={"Collective name": "wait", "In msg nelems": 0, "dtype": "Byte"}):
            b.idle(us=1)
        with b.op("aten::mm"):
            b.kernel("gemm", us=100)
        b.sync()
    trace = read(str(b.write(tmp_path / "trace.json")))
    assert len(trace.frame("collectives")) == 0
    calls = trace.frame("collective_calls")
    assert calls["kind"].tolist() == ["all_reduce"] * 3 + ["other"]
    assert calls["name"].tolist() == ["allreduce"] * 3 + ["wait"]
    assert calls["bytes"].tolist()[:2] == [4000, 1000]
    assert math.isnan(calls["bytes"].astype("float64").tolist()[2])  # a format of unknown width
    assert calls["group_size"].tolist()[:3] == [1, 1, 1]
    assert calls["kernel_count"].tolist() == [0, 0, 0, 0]
