"""Limits of kernels and of the step: by hand from an A100's data sheet (312 TFLOP/s in fp16, 19.5 in fp32, 2,039 GB/s)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import traces
from support.real import AUDITED, NAMES

import advisor
from advisor.roofline.limits import limits
from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

A100 = "NVIDIA A100-SXM4-80GB"
HALF = ["c10::Half", "c10::Half"]
TERA = 1e12


def built(b: TraceBuilder, folder: Path) -> Trace:
    return read(str(b.write(folder / "t.json")))


def builder(device: str = A100) -> TraceBuilder:
    return TraceBuilder(device, sms=108, memory_bytes=80 << 30, host_us=1, latency_us=0, with_stack=False)


def product(b: TraceBuilder, size: int, *us: int, dtypes: list[str] | None = None, name: str = "ampere_gemm") -> None:
    with b.op("aten::mm", shapes=[[size, size], [size, size]], dtypes=dtypes or HALF):
        for duration in us:
            b.kernel(name, us=duration)


def test_a_product_is_bound_by_arithmetic_and_a_sum_by_memory(tmp_path: Path) -> None:
    """2 * 4096^3 = 137.4 GFLOP take 440.5 us at 312 TFLOP/s; 3 * 4 * 8192^2 bytes are 805 MB.

    Of these 40 MiB may be in the cache, which four times as much is read of in a second: 774 MB at 2,039 GB/s are left.
    """
    b = builder()
    product(b, 4096, 1000)
    with b.op("aten::add", shapes=[[8192, 8192], [8192, 8192], []], dtypes=["float", "float", "Scalar"]):
        b.kernel("vectorized_elementwise_kernel_add", us=500)
    frame = built(b, tmp_path).kernels
    assert frame["flops"][0] == 2 * 4096**3
    assert frame["min_bytes"][0] == 3 * 2 * 4096**2
    assert frame["limit_ns"][0] == pytest.approx(2 * 4096**3 / 312e3, rel=1e-6)
    assert frame["bound"].tolist() == ["compute", "memory"]
    assert frame["min_bytes"][1] == 3 * 4 * 8192**2
    cached = 40 * 1024**2 * 3 / 4
    assert frame["limit_ns"][1] == pytest.approx((3 * 4 * 8192**2 - cached) / 2039, rel=1e-3)
    assert (frame["reachable_ns"] > frame["limit_ns"]).all()


def test_work_is_divided_once_over_the_kernels_of_an_operator(tmp_path: Path) -> None:
    """A product in two kernels, of 300 and 100 us: three quarters and one quarter of its arithmetic and of its limit."""
    b = builder()
    with b.op("aten::linear", shapes=[[2048, 2048], [2048, 2048]], dtypes=HALF):
        product(b, 2048, 300, 100)
    trace = built(b, tmp_path)
    assert trace.kernels["flops"].tolist() == pytest.approx([0.75 * 2 * 2048**3, 0.25 * 2 * 2048**3])
    ops = trace.ops.set_index("name")
    assert ops["flops"]["aten::mm"] == pytest.approx(2 * 2048**3)
    assert np.isnan(ops["flops"]["aten::linear"])  # the work is that of the product inside
    assert ops["limit_ns"]["aten::mm"] == pytest.approx(trace.kernels["limit_ns"].sum())
    assert ops["bound"]["aten::mm"] == "compute"


def test_what_fits_the_cache_may_move_four_times_as_fast(tmp_path: Path) -> None:
    """3 * 4 * 1024^2 bytes, 12.6 MB, lie in 40 MiB of L2."""
    b = builder()
    with b.op("aten::add", shapes=[[1024, 1024], [1024, 1024], []], dtypes=["float", "float", "Scalar"]):
        b.kernel("vectorized_elementwise_kernel_add", us=50)
    assert built(b, tmp_path).kernels["limit_ns"][0] == pytest.approx(3 * 4 * 1024**2 / (4 * 2039), rel=1e-3)


@pytest.mark.parametrize(
    ("name", "tflops"),
    [("ampere_sgemm_128x64_tn", 19.5), ("ampere_s1688gemm_tf32_128x64", 156.0), ("sm80_xmma_gemm_tf32f32_f32", 156.0)],
)
def test_fp32_operands_have_the_limit_of_the_units_that_multiplied_them(
    tmp_path: Path, name: str, tflops: float
) -> None:
    b = builder()
    product(b, 4096, 9000, dtypes=["float", "float"], name=name)
    assert built(b, tmp_path).kernels["limit_ns"][0] == pytest.approx(2 * 4096**3 / (tflops * 1e3), rel=1e-6)


def test_a_convolution_by_winograds_transforms_does_fewer_products(tmp_path: Path) -> None:
    """8 * 64 * 56^2 outputs of 64 * 9 multiply-adds: 1.85 GFLOP in 94.9 us at 19.5 TFLOP/s, 2.25 times as fast for F(2x2, 3x3)."""
    b = builder()
    shapes = [[8, 64, 56, 56], [64, 64, 3, 3], [], [], [], [], [], [], []]
    values = ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]
    types = ["float", "float", "", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar"]
    with b.op("aten::_convolution", shapes=shapes, dtypes=types, values=values):
        b.kernel("volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", us=80)
    flops = 2 * 8 * 64 * 56 * 56 * 64 * 9
    frame = built(b, tmp_path).kernels
    assert frame["flops"][0] == flops
    assert frame["limit_ns"][0] == pytest.approx(flops / 2.25 / 19.5e3, rel=1e-6)


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    b = builder()
    with b.op("my::operator", shapes=[[64, 64]]):
        b.kernel("mine", us=50)
    product(b, 512, 50, dtypes=["what", "ever"])
    with b.op("aten::mm"):
        b.kernel("ampere_gemm", us=50)
    with b.op("c10d::allreduce_", shapes=[[1 << 20]]):
        b.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", us=50)
    frame = built(b, tmp_path).kernels
    assert frame["limit_ns"].isna().all()
    assert frame["flops"][0] != frame["flops"][0]
    other = TraceBuilder("Unheard of GPU 9000", with_stack=False)
    product(other, 512, 50)
    kernels = built(other, tmp_path).kernels
    assert kernels["flops"][0] == 2 * 512**3
    assert kernels["limit_ns"].isna().all()


# ---- the step


def test_the_steps_limit_is_what_the_critical_path_leaves(tmp_path: Path) -> None:
    """Each step: a product of 1 ms that could take 0.4405, then 0.5 ms of the host: 1.5 ms become 0.94."""
    b = builder()
    for _ in range(5):
        with b.step():
            product(b, 4096, 1000)
            b.sync()
            b.idle(us=500)
    made = advisor.analyze(built(b, tmp_path)).summary
    limit = 2 * 4096**3 / 312e9
    assert made.limit_ms == pytest.approx(made.whole_ms - (1 - limit), rel=0.02)
    assert made.limit_ms < made.reachable_ms <= made.whole_ms  # type: ignore[operator]
    assert made.mfu == pytest.approx(limit / made.whole_ms, rel=0.02)
    assert made.modelled_share == 1.0
    assert made.bandwidth_share is None
    assert [part.op for part in made.distance] == ["aten::mm"]
    assert made.distance[0].ms == pytest.approx(1.0, rel=0.01)
    assert made.distance[0].limit_ms == pytest.approx(limit, rel=0.01)


def test_faster_kernels_return_nothing_where_the_host_holds_the_step(tmp_path: Path) -> None:
    b = builder()
    for _ in range(5):
        with b.step():
            for _ in range(20):
                b.idle(us=100)
                product(b, 256, 10)
    made = advisor.analyze(built(b, tmp_path)).summary
    assert made.limit_ms == pytest.approx(made.whole_ms, rel=0.01)


def test_memory_that_is_asked_for_once_holds_no_faster_kernels_up(tmp_path: Path) -> None:
    """Without steps: ten products of 2 ms that could take 0.44, and before each launch 1 ms for memory, behind the one before.

    Of 20 ms the limit leaves 4.4. With the memory, which the next pass has, the host would take ten.
    """
    b = builder()
    for at in range(10):
        b.malloc(1 << 20, 1000)
        product(b, 4096, 2000, name=f"ampere_gemm_{at}")
    b.sync()
    made = advisor.analyze(built(b, tmp_path)).summary
    assert made.whole_ms == pytest.approx(20.0, rel=0.01)
    assert made.limit_ms == pytest.approx(10 * 2 * 4096**3 / 312e9, rel=0.03)


def test_what_lies_between_queued_kernels_goes_where_the_host_sets_the_pace(tmp_path: Path) -> None:
    """Each step 200 launches of 20 us, and 200 kernels of 24 us with 1 us between them: 5 ms, of which the launches' 4 stay.

    Faster kernels keep up with the launches: then nothing is queued, and nothing lies between.
    """
    b = builder()
    for _ in range(5):
        with b.step():
            begin = b.now_ns / 1e3 + 30
            for at in range(200):
                b.idle(us=19)
                with b.op("aten::mm", shapes=[[512, 512], [512, 512]], dtypes=HALF):
                    b.kernel("ampere_gemm", us=24, at_us=begin + 25 * at)
            b.sync()
    made = advisor.analyze(built(b, tmp_path)).summary
    assert made.whole_ms == pytest.approx(5.03, rel=0.01)
    assert made.limit_ms == pytest.approx(4.0, rel=0.02)


@pytest.mark.parametrize("name", [*NAMES, *AUDITED])
def test_no_kernel_of_a_real_trace_is_faster_than_its_limit(name: str) -> None:
    """Within 5 %; and the step is never longer at its limit than recorded, nor shorter there than where programs get."""
    trace = traces.trace(name)
    context = trace.context
    rows, work = context.kernel_rows, context.recording.work
    found = context.once(limits)
    dur = (work.end[rows] - work.start[rows]).astype(np.float64)
    _, back = np.unique(found.owner, return_inverse=True)
    whole = np.bincount(back, dur)[back] if len(rows) else dur
    limit = np.bincount(back, np.nan_to_num(found.limit_ns))[back] if len(rows) else dur
    resolved = whole >= 4000  # times in whole microseconds, in traces of 2021
    assert not (found.known & resolved & (limit > 1.05 * whole + 1000)).any()
    made = traces.analysis(name).summary
    if made.limit_ms is not None and made.reachable_ms is not None:
        assert 0 < made.limit_ms <= made.reachable_ms <= made.priced_ms
