"""Runs of short kernels: what ends one. Worked by hand."""

from __future__ import annotations

from pathlib import Path

from advisor import trace
from advisor.testing import TraceBuilder

NORM, PRODUCT = "rms_norm_kernel", "nvjet_tst_64x8_64x16_2x1_v_bz_TNT"


def runs(b: TraceBuilder, folder: Path) -> list[int]:
    kernels = trace.read(str(b.write(folder / "t.json"))).kernels
    return list(kernels.sort_values("start_ns")["short_run"].tolist())


def test_a_product_or_a_long_kernel_ends_a_run(tmp_path: Path) -> None:
    b = TraceBuilder("NVIDIA H100 80GB HBM3", host_us=1, latency_us=0)
    b.graph([(NORM, 5), (NORM, 9), (PRODUCT, 5), (NORM, 5), (NORM, 10), (NORM, 5), (NORM, 5), (NORM, 5)])
    assert runs(b, tmp_path) == [2, 2, 0, 1, 0, 3, 3, 3]


def test_a_wait_for_a_launch_and_another_stream_end_a_run(tmp_path: Path) -> None:
    b = TraceBuilder("NVIDIA H100 80GB HBM3", host_us=0, latency_us=0)
    # Begins at 0, 5, 10 and 20 us, each of 5; beside the second one of another stream.
    for at, stream in ((0, 7), (5, 7), (6, 9), (10, 7), (20.1, 7)):
        b.kernel(NORM, us=5, at_us=1000 + at, stream=stream)
    assert runs(b, tmp_path) == [3, 3, 1, 3, 1]


def test_no_kernels(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.op("aten::mm"):
        b.idle(us=100)
    assert runs(b, tmp_path) == []
