"""Reasons why the limits of kernels are not known: a trace of one kernel each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import advisor
from advisor.report import render, step_time
from advisor.roofline.reasons import REASONS
from advisor.roofline.unknown import reasons
from advisor.testing import TraceBuilder
from advisor.trace import read

HALF = ["c10::Half", "c10::Half"]
H100 = "NVIDIA H100 80GB HBM3"
SIZES = [[4096, 4096], [4096, 4096]]


def of_operator(name: str, shapes: list[list[int]] | None = None, *, kinds: list[str] | None = None) -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(3):
        with b.step():
            with b.op(name, shapes=shapes, dtypes=kinds or HALF):
                b.kernel("some_kernel", us=6000)
            b.sync()
    return b


def replayed() -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(3):
        with b.step():
            b.graph([("some_kernel", 6000)])
            b.sync()
    return b


def of_no_operator() -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(3):
        with b.step():
            b.kernel("some_kernel", us=6000)
            with b.op("aten::relu", shapes=[[64]], dtypes=["float"]):
                b.kernel("vectorized_elementwise_kernel", us=5)
            b.sync()
    return b


def of_an_unknown_device() -> TraceBuilder:
    b = TraceBuilder("Accelerator 9000")
    for _ in range(3):
        with b.step(), b.op("aten::mm", shapes=SIZES, dtypes=HALF):
            b.kernel("some_kernel", us=6000)
    return b


def known() -> TraceBuilder:
    return of_operator("aten::mm", SIZES)


CASES: list[tuple[Callable[[], TraceBuilder], str | None]] = [
    (known, None),
    (replayed, "replayed graphs record no shapes"),
    (of_no_operator, "launched by no operator"),
    (of_an_unknown_device, "no rates of this device (--device, --peak)"),
    (lambda: of_operator("aten::mm"), "no shapes recorded"),
    (lambda: of_operator("mylib::step", SIZES), "no formula for the operator"),
    (
        lambda: of_operator("vllm::moe_forward", [[888, 2880], [888, 128]]),
        "the trace lacks the experts' weights, which are no operands",
    ),
    (
        lambda: of_operator("aten::mm", SIZES, kinds=["c10::Float8_e4m3fnuz_what"] * 2),
        "no rate known for the number format",
    ),
]


@pytest.mark.parametrize(("build", "expected"), CASES, ids=[str(expected) for _, expected in CASES])
def test_the_reason_of_each_kernel(build: Callable[[], TraceBuilder], expected: str | None, tmp_path: Path) -> None:
    trace = read(str(build().write(tmp_path / "trace.json")))
    why = reasons(trace.context)
    rows = np.flatnonzero(trace.kernels["dur_ns"] == 6_000_000)
    assert len(rows) == 3
    assert {why.texts[code] if code >= 0 else None for code in why.code[rows].tolist()} == {expected}


def test_communication_has_no_limit_and_no_reason(tmp_path: Path) -> None:
    b = TraceBuilder(H100)
    with b.op("c10d::allreduce_", shapes=[[1 << 20]]):
        b.kernel("ncclDevKernel_Allreduce_Sum_f32_RING_LL", us=50)
    context = read(str(b.write(tmp_path / "trace.json"))).context
    assert reasons(context).code.tolist() == [-1]


def test_a_report_says_what_is_not_known_and_why(tmp_path: Path) -> None:
    """6 ms a step in a kernel without a formula: the summary has them, and the screen says them once."""
    made = advisor.analyze(read(str(of_operator("mylib::step", SIZES).write(tmp_path / "trace.json"))))
    assert [(part.reason, round(part.ms, 2)) for part in made.summary.unmodelled] == [
        ("no formula for the operator", 6.0)
    ]
    text = render("text", made).decode()
    assert "6.00 ms in mylib::step (limit not known: no formula for the operator)" in " ".join(text.split())
    assert "Limits are known for" not in text


def test_what_a_finding_owns_is_said_in_a_line_of_its_own(tmp_path: Path) -> None:
    """A product by hand has a finding, and no limit: nothing else would say so."""
    b = TraceBuilder(H100)
    for _ in range(3):
        with b.step():
            b.kernel("matmul_naive(float*, float*, float*, int)", us=6000)
            with b.op("aten::relu", shapes=[[64]], dtypes=["float"]):
                b.kernel("vectorized_elementwise_kernel", us=5)
            b.sync()
    made = advisor.analyze(read(str(b.write(tmp_path / "trace.json"))))
    text = " ".join(render("text", made).decode().split())
    assert "Limits are known for 0.1 % of kernel time, and not for 6.00 ms: launched by no operator" in text


def test_places_without_a_finding_say_how_near_they_are(tmp_path: Path) -> None:
    """137.4 GFLOP at an H100's reachable 749 TFLOP/s are 183 us, of 300: 61 %."""
    b = TraceBuilder(H100)
    for _ in range(3):
        with b.step():
            for _ in range(20):
                with b.op("aten::mm", shapes=SIZES, dtypes=HALF):
                    b.kernel("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT", us=300)
            b.sync()
    made = advisor.analyze(read(str(b.write(tmp_path / "trace.json"))))
    assert [part.where for part in made.elsewhere] == ["aten::mm"]
    assert made.elsewhere[0].of_reachable == pytest.approx(137.4e3 / 749.1 / 300, rel=0.01)
    assert made.elsewhere[0].most_of_reachable == pytest.approx(made.elsewhere[0].of_reachable, rel=0.01)
    assert "(at 61 % of what this GPU reaches)" in " ".join(render("text", made).decode().split())


def test_kernels_far_from_their_limit_are_said_apart_from_others_of_the_operator(tmp_path: Path) -> None:
    """Of 1.93 ms a step 1.6 are at 88 % of what an H100 reaches; 0.33, 17 %, are products of 136 tiles on 132 SMs, at 43 %."""
    b = TraceBuilder(H100)
    for _ in range(3):
        with b.step():
            for size, count, us in (([[8192, 8192], [8192, 8192]], 1, 1600), ([[2176, 4096], [4096, 1024]], 6, 55)):
                for _ in range(count):
                    with b.op("aten::mm", shapes=size, dtypes=["c10::BFloat16"] * 2):
                        b.kernel("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", us=us)
            b.sync()
    made = advisor.analyze(read(str(b.write(tmp_path / "trace.json"))))
    found = [(part.where, round(part.ms, 2), part.reason) for part in made.elsewhere]
    assert found == [("aten::mm", 1.6, None), ("aten::mm", 0.33, "partial-wave")]
    text = " ".join(render("text", made).decode().split())
    assert "330 µs in aten::mm (at 43 % of what this GPU reaches: its last wave fills a part of the GPU)" in text


def test_every_reason_has_words() -> None:
    assert set(step_time.REASONS) == set(REASONS) - {""}
