"""Built traces, each of one sort of recording, that a headline must tell apart."""

from __future__ import annotations

from advisor.testing import TraceBuilder

GEMM = "volta_sgemm_128x64_nn"


def launch_bound(steps: int = 1, **options: object) -> TraceBuilder:
    """Steps of 4 ms: forty operators of 100 us that launch 10 us each."""
    b = TraceBuilder(host_us=0, latency_us=0, **options)  # type: ignore[arg-type]
    for _ in range(steps):
        with b.step():
            for _ in range(40):
                with b.op("aten::linear", us=100):
                    b.kernel(GEMM, us=10)
    return b


def loader_bound() -> TraceBuilder:
    """Four training steps of 40 ms: 30 ms without a batch, then 10 ms of a backward pass and the optimizer."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.loader(ms=30):
                pass
            with b.backward("AddmmBackward0", 1), b.op("aten::mm", us=8_000):
                b.kernel(GEMM, us=8_000)
            with b.annotation("Optimizer.step#SGD.step"), b.op("aten::_foreach_add_", us=2_000):
                b.kernel("multi_tensor_apply_kernel", us=2_000)
    return b


def started_up() -> TraceBuilder:
    """330 ms of a forward pass: 300 of them in the first launch of its second kernel, 30 in thirty of 1 ms."""
    b = TraceBuilder(host_us=0, latency_us=0)
    b.kernel("fill_kernel", us=10)
    with b.op("aten::cudnn_convolution"):
        b.kernel("implicit_convolve_sgemm", us=1_000, host_us=300_000)
    for _ in range(29):
        with b.op("aten::cudnn_convolution", us=1_000):
            b.kernel("implicit_convolve_sgemm", us=1_000)
    return b


def with_a_tail() -> TraceBuilder:
    """One step of 100 ms, of which the last 90 hold nothing."""
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.step(us=100_000), b.op("aten::linear", us=10_000):
        b.kernel(GEMM, us=10_000)
    return b


def queued_before() -> TraceBuilder:
    """100 ms without steps: 90 of a kernel that was launched before the recording, 10 of the recording's own."""
    b = TraceBuilder(host_us=0, latency_us=0)
    b.kernel("spin", ms=90, launched=False)
    b.seek(ms=90)
    for _ in range(10):
        with b.op("aten::linear", us=1_000):
            b.kernel(GEMM, us=1_000)
    return b


def captured() -> TraceBuilder:
    """100 ms between the calls that begin and end a graph's capture, and one small kernel behind them."""
    b = TraceBuilder(host_us=0, latency_us=0)
    b.kernel("fill_kernel", us=10)
    b.call("cudaStreamBeginCapture", 10)
    for _ in range(99):
        with b.op("aten::linear", us=1_000):
            b.call("cudaLaunchKernel", 10)
    b.call("cudaStreamEndCapture", 1_000)
    b.kernel("fill_kernel", us=10)
    return b


def only_started() -> TraceBuilder:
    """The first allocation of a program, 5 ms, and nothing else."""
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.step(), b.op("aten::empty"):
        b.idle(ms=5)
        b.call("cudaMalloc", 10)
    return b


def on_the_cpu() -> TraceBuilder:
    """Two forward passes of 100 ms on a machine without a GPU: 70 ms in one operator, 30 in another."""
    b = TraceBuilder(None)
    for _ in range(2):
        with b.step():
            with b.op("aten::mkldnn_convolution", shapes=[[8, 64, 56, 56]], dtypes=["float"], us=70_000):
                pass
            with b.op("aten::cumsum", us=30_000):
                pass
    return b


def silent() -> TraceBuilder:
    """A step of 100 ms that computes throughout, outside any operator: 60 ms in one kernel, 40 in another."""
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.step():
        b.kernel("lattice_update", us=60_000)
        b.kernel("lattice_halo", us=40_000)
        b.sync()
    return b


def launches_behind_a_loader() -> TraceBuilder:
    """Four steps: the host has no batch for 30 ms, then launches 150 products of 200 us in 45 ms, and a copy of 25."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.loader(ms=30):
                pass
            for _ in range(150):
                with b.op("aten::linear", us=300):
                    b.kernel("ampere_fp16_s16816gemm_fp16_128x128_ldg8", us=200)
            b.copy("HtoD", 200_000_000, us=25_000, pinned=True)
    return b


def partly_claimed(loader_ms: int = 55, product_ms: int = 20) -> TraceBuilder:
    """Four training steps of 100 ms: 55 without a batch, 20 of products in fp32, 25 of a kernel that no rule knows."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.loader(ms=loader_ms):
                pass
            with b.backward("AddmmBackward0", 1), b.op("aten::mm", us=1000 * product_ms):
                b.kernel(GEMM, us=1000 * product_ms)
            with b.op("lattice::update", us=25_000):
                b.kernel("lattice_update", us=25_000)
    return b


def waiting_for_an_operator() -> TraceBuilder:
    """A step of 100 ms: 80 in which an operator computes on the CPU, and 20 of a kernel."""
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.step():
        with b.op("aten::normal_", us=80_000):
            pass
        with b.op("aten::linear", us=20_000):
            b.kernel(GEMM, us=20_000)
    return b


def unrecorded() -> TraceBuilder:
    """A step of 10 ms that launches, and nothing of what it launched."""
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.step(), b.op("aten::linear", us=10_000):
        b.call("cudaLaunchKernel", 10)
    return b


EMPTY = """{"schemaVersion": 1, "traceEvents": [
{"ph": "X", "cat": "Trace", "ts": 1000, "dur": 77900000, "pid": "Spans", "tid": "PyTorch Profiler",
 "name": "PyTorch Profiler (0)", "args": {"Op count": 0}},
{"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": 77901000}]}"""
"""The profiler ran for 77.9 s, and recorded nothing."""
