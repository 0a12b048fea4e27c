"""A first step that is unlike the others counts in no figure a step."""

from __future__ import annotations

import pytest
from support.reading import trace_of

import advisor
from advisor.testing import TraceBuilder


def program(*host_ms: float) -> TraceBuilder:
    """Steps of 4 ms on the GPU and some ms of Python."""
    b = TraceBuilder()
    for ms in host_ms:
        with b.step():
            b.idle(ms=ms)
            with b.op("aten::mm", us=10):
                b.kernel("ampere_sgemm_128x64_nn", us=4000)
            b.sync()
    return b


def shares(*host_ms: float) -> tuple[float, float]:
    summary = advisor.analyze(trace_of(program(*host_ms).to_json())).summary
    assert summary.step_ms is not None
    causes = summary.steady_causes
    return summary.step_ms.median, causes["compute"]


@pytest.mark.parametrize("first", [30.0, 0.5, 6.0])
def test_it_shifts_no_share_of_the_others(first: float) -> None:
    """4 of some 10 ms compute in each of the others, whatever the first was."""
    step, compute = shares(first, 6.0, 6.0, 6.0)
    assert step == pytest.approx(10.03, abs=0.05)
    assert compute == pytest.approx(4 / step, rel=0.005)


def test_among_steps_that_differ_it_is_one_of_them() -> None:
    """4 of 14, 6, 6, 26 ms: of the mean, 13 ms."""
    _, compute = shares(10.0, 2.0, 2.0, 22.0)
    assert compute == pytest.approx(4 / 13, rel=0.01)


def test_one_far_longer_than_steps_that_differ_counts_not() -> None:
    """4 of 6, 12 and 8 ms, after 64: farther from the longest of them than they lie apart."""
    _, compute = shares(60.0, 2.0, 8.0, 4.0)
    assert compute == pytest.approx(4 / (26 / 3), rel=0.01)


def test_a_shorter_one_of_steps_that_get_longer_counts() -> None:
    """4 of 10.3, 11.7, 13.1, 13.5 ms: the fastest of all, and as far from the next as the others lie apart."""
    _, compute = shares(6.3, 7.7, 9.1, 9.5)
    assert compute == pytest.approx(4 / 12.15, rel=0.01)


def test_of_two_steps_both_count() -> None:
    _, compute = shares(12.0, 6.0)
    assert compute == pytest.approx(8 / 26, rel=0.01)


def of_work(*kernel_ms: float) -> TraceBuilder:
    """Steps of some ms of products on the GPU, and 2 ms of Python."""
    b = TraceBuilder("NVIDIA H100 80GB HBM3")
    for ms in kernel_ms:
        with b.step():
            b.idle(ms=2)
            with b.op("aten::mm", us=10, shapes=[[4096, 4096], [4096, 4096]], dtypes=["c10::BFloat16"] * 2):
                b.kernel("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", us=ms * 1000)
            b.sync()
    return b


def test_a_shorter_batch_among_batches_of_varying_length_counts() -> None:
    """3, 6 and 5 ms of work and thrice 2 ms of Python: the first is one of steps whose work differs."""
    summary = advisor.analyze(trace_of(of_work(3.0, 6.0, 5.0).to_json())).summary
    assert summary.steady_causes["compute"] == pytest.approx(14 / 20, rel=0.01)


def test_the_distance_from_the_limit_is_that_of_the_steps_that_count() -> None:
    """4 ms of products in each of three steps, after a first one of 9."""
    summary = advisor.analyze(trace_of(of_work(9.0, 4.0, 4.0, 4.0).to_json())).summary
    (product,) = summary.distance
    assert product.ms == pytest.approx(4.0, rel=0.01)
    # 137 GFLOP at 989 TFLOP/s are 0.139 ms of 6.
    assert summary.mfu == pytest.approx(0.139 / 6.03, rel=0.02)


@pytest.mark.parametrize("queued", [2, 0])
def test_steps_of_a_device_behind_its_host_begin_with_the_end_of_what_was_queued_before(queued: int) -> None:
    """Kernels of 10 ms: the host launches one a step of 10 ms, while two of before the recording are still to run.

    Without these the first step waits for nothing: there the host gains its lead within it.
    """
    b = TraceBuilder(host_us=10, latency_us=0)
    for _ in range(queued):
        b.kernel("ampere_sgemm_128x64_nn", us=10_000, launched=False)
    for _ in range(5):
        with b.step(us=10_000 if queued else 1_000), b.op("aten::mm"):
            b.kernel("ampere_sgemm_128x64_nn", us=10_000)
    trace = trace_of(b.to_json())
    steps = trace.frame("steps")
    # 20 ms of the two, and then a kernel a step.
    assert steps["dur_ns"].tolist() == pytest.approx([10_000_000] * 5, abs=20_000)
    assert steps["start_ns"][0] == queued * 10_000_000
    assert trace.mean_step_ns == pytest.approx(10_000_000, abs=20_000)
    assert trace.ledger.of_extent()["before"] == queued * 10_000_000


def test_work_without_a_launch_among_that_of_later_steps_says_nothing_of_before() -> None:
    b = TraceBuilder(host_us=10, latency_us=0)
    for number in range(5):
        with b.step(us=1_000), b.op("aten::mm"):
            b.kernel("ampere_sgemm_128x64_nn", us=10_000)
            b.kernel("ampere_sgemm_128x64_nn", us=100, launched=number == 0)
    trace = trace_of(b.to_json())
    assert trace.ledger.of_extent()["before"] == 0
    assert len(trace.frame("steps")) == 5
