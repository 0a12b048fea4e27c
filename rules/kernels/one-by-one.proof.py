"""Proof of kernels/one-by-one: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

V100 = "Tesla V100-SXM2-16GB"  # 80 multiprocessors
GEMM = "ampere_sgemm_32x32_sliced1x4_tn"
CROPS = {"module": "Net", "calls": 20, "loops": 1, "share": 1.0, "file": "read.py", "line": 20}
STACK = "read.py(30): forward;read.py(20): read;read.py(7): main"


def reading(
    us: float = 10,
    *,
    blocks: int = 8,
    idle: float = 0,
    rest: float = 600,
    device: str | None = V100,
    crops: dict[str, Any] | None = CROPS,
    stacks: bool = True,
) -> TraceBuilder:
    """Steps in which line 20 calls a model for each of 20 crops, a kernel of few blocks each; then something else runs.

    Before each kernel the host is *idle* us in the model's operator, and the GPU waits for it.
    """
    b = TraceBuilder(device, host_us=1, latency_us=1).ran_with(
        **({} if crops is None else {"singles": [crops] if crops else []})
    )
    for _ in range(3):
        with b.step():
            for _ in range(20):
                with b.op("aten::addmm", args={"Call stack": STACK} if stacks else {}):
                    b.idle(us=idle)
                    b.kernel(GEMM, us=us, grid=(blocks, 1, 1))
                if idle:
                    b.sync()
            with b.op("aten::sort", args={"Call stack": "read.py(22): read;read.py(7): main"} if stacks else {}):
                b.kernel("radixSort", us=rest)
            b.sync()
    return b


# 200 us of kernels in line 20, and 2 before the first of them, of 804 us. 20 times the 8 blocks are 160 on 80 multiprocessors,
# two rounds in place of 20: nine tenths go.
@fires(cost_ms=0.202, occurrences=60, severity="high", line="read.py:20")
def kernels_of_eight_blocks() -> TraceBuilder:
    return reading()


# Of each call the GPU computes for 10 us, and waits for 50 us in the operator and 2 for the launch: 1.24 ms a step.
@fires(cost_ms=1.24, occurrences=60, severity="high")
def calls_that_the_gpu_waits_for() -> TraceBuilder:
    return reading(idle=50)


# The backward pass of the calls is theirs: 20 x (10 + 20) us of 1.2 ms a step, in three operators each.
@fires(cost_ms=0.6, occurrences=160, severity="high")
def losses_of_single_samples_with_their_backward_pass() -> TraceBuilder:
    b = TraceBuilder(V100, host_us=1, latency_us=1).ran_with(singles=[CROPS])
    for step in range(2):
        with b.step():
            for call in range(20):
                with b.op("aten::addmm", seq=100 * step + call, args={"Call stack": STACK}):
                    b.kernel(GEMM, us=10, grid=(8, 1, 1))
            with b.op("aten::sort", args={"Call stack": "read.py(22): read;read.py(7): main"}):
                b.kernel("radixSort", us=600)
            for call in range(20):
                with b.backward("AddmmBackward0", 100 * step + call), b.op("aten::mm"):
                    b.kernel(GEMM, us=20, grid=(8, 1, 1))
            b.sync()
    return b


def scored(*, alike: bool) -> TraceBuilder:
    """Steps in which each of 20 crops goes through a model, a kernel of 10 us, and is then scored in another line, 30 us."""
    b = TraceBuilder(V100, host_us=1, latency_us=1).ran_with(singles=[CROPS])
    for _ in range(3):
        with b.step():
            for crop in range(20):
                with b.op("aten::addmm", shapes=[[1, 64]], args={"Call stack": STACK}):
                    b.kernel(GEMM, us=10, grid=(8, 1, 1))
                size = 64 if alike else 64 + crop
                with b.op("aten::sum", shapes=[[1, size]], args={"Call stack": "read.py(21): read;read.py(7): main"}):
                    b.kernel("reduce_kernel", us=30, grid=(1, 1, 1))
            with b.op("aten::sort", shapes=[[64]], args={"Call stack": "read.py(22): read;read.py(7): main"}):
                b.kernel("radixSort", us=600)
            b.sync()
    return b


# 20 x (10 + 30) us and 2 before the first of them: what each turn does with the result goes with the batch.
@fires(cost_ms=0.802, occurrences=120, severity="high")
def what_each_turn_does_with_the_result() -> TraceBuilder:
    return scored(alike=True)


@fires(cost_ms=0.202, occurrences=60)
def turns_that_differ() -> TraceBuilder:
    return scored(alike=False)


@quiet
def calls_that_depend_on_each_other() -> TraceBuilder:
    return reading(crops={})


@quiet("not_applicable")
def samples_that_nobody_watched() -> TraceBuilder:
    return reading(crops=None)


@quiet
def another_line_of_the_same_file() -> TraceBuilder:
    return reading(crops=CROPS | {"line": 2})


# Ten blocks for each multiprocessor: 20 times as many take 20 times as long.
@quiet
def kernels_that_fill_the_gpu() -> TraceBuilder:
    return reading(blocks=800)


@quiet
def a_cheap_loop() -> TraceBuilder:
    return reading(rest=10_000)


@edge
def four_of_a_hundred(over: bool) -> TraceBuilder:
    """Of 202 us nine tenths go, in the middle 0.835 of them: 152 us, or 4 % of 3795 us."""
    return reading(rest=3550 if over else 3650)


@quiet("not_applicable")
def a_program_on_the_cpu() -> TraceBuilder:
    b = TraceBuilder(None).ran_with(singles=[CROPS])
    with b.step(), b.op("aten::addmm", us=40, args={"Call stack": STACK}):
        pass
    return b


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    return reading(stacks=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::addmm").ran_with(singles=[CROPS])


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone(GEMM).ran_with(singles=[CROPS])
