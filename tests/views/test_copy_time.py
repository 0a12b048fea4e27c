"""Copies of a step by direction, and the line that names them. Worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.traces import analysis as real

import advisor
from advisor.report import step_time
from advisor.results.analysis import Summary
from advisor.testing import TraceBuilder

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"


def summary(folder: Path, *, rest_ms: int) -> Summary:
    """Summarize steps of a batch of 10,000,000 bytes that takes 2 ms, a result of 1,000 that takes 10 us, and a kernel."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=0, latency_us=0)
    for _ in range(3):
        with b.step():
            b.copy("HtoD", nbytes=10_000_000, us=2_000)
            with b.op("aten::add"):
                b.kernel(ADD, ms=rest_ms)
            b.copy("DtoH", nbytes=1_000, us=10)
            b.sync()
    return advisor.analyze(advisor.read(str(b.write(folder / "t.json")))).summary


def test_copies_are_summed_up_by_direction(tmp_path: Path) -> None:
    to_device, to_host = summary(tmp_path, rest_ms=8).copy_time
    assert (to_device.direction, to_device.count, to_device.bytes, to_device.host_memory) == (
        "HtoD",
        1,
        1e7,
        "pageable",
    )
    assert (to_device.ms, to_device.hidden_ms) == (pytest.approx(2.0), 0.0)
    assert (to_host.direction, to_host.ms, to_host.bytes) == ("DtoH", pytest.approx(0.01), 1_000)


def test_those_of_a_twentieth_of_the_step_are_named_with_their_size(tmp_path: Path) -> None:
    """Two of 10 ms are; the result is too little, and so are two of 60 ms."""
    assert step_time.copies(summary(tmp_path, rest_ms=8)) == "copies: 2.00 ms to the GPU (9.5 MiB, pageable, 5 GB/s)"
    assert step_time.copies(summary(tmp_path, rest_ms=58)) == ""
    assert step_time.copies(summary(tmp_path, rest_ms=58), step_time.LESS_COPIED).startswith(
        "copies: 2.00 ms to the GPU"
    )


@pytest.mark.parametrize(("at_once", "told"), [(True, "; 2.00 ms both at once"), (False, "; one after the other")])
def test_copies_there_and_back_run_at_once_or_one_after_the_other(tmp_path: Path, at_once: bool, told: str) -> None:
    """3 ms to the GPU and 2 back on another stream, which begin together where both are pinned."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=0, latency_us=0)
    for _ in range(3):
        with b.step():
            b.copy("HtoD", nbytes=10_000_000, us=3_000, pinned=at_once, stream=20)
            b.copy("DtoH", nbytes=10_000_000, us=2_000, pinned=at_once, stream=22)
            b.sync("cudaDeviceSynchronize")
    made = advisor.analyze(advisor.read(str(b.write(tmp_path / "t.json")))).summary
    assert [part.both_ms for part in made.copy_time] == pytest.approx([2.0, 2.0] if at_once else [0.0, 0.0])
    assert step_time.copies(made).endswith(told)


@pytest.mark.parametrize(
    ("name", "both_ms", "told"),
    [("a100_copies_pageable", 0.0, "one after the other"), ("a100_copies_pinned", 17.65, "17.7 ms both at once")],
)
def test_real_copies_there_and_back(name: str, both_ms: float, told: str) -> None:
    """By the raw files ten copies each way: 344.5 and 321.8 ms in 666.4, none beside another; 306.1 and 177.2 ms in 306.7."""
    made = real(name).summary
    assert [part.both_ms for part in made.copy_time] == pytest.approx([both_ms] * 2, abs=0.1)
    assert step_time.copies(made).endswith(told)
