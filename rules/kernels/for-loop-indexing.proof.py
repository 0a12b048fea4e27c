"""Proof of kernels/for-loop-indexing: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::tanh_kernel>(int)"
GEMM = "ampere_sgemm_128x64_tn"


def row(b: TraceBuilder, index: int, *, us: float = 2, seq: int | None = None) -> None:
    """One turn: 30 us of host time, one kernel."""
    with b.op("aten::select", shapes=[[64, 32], [], []], us=4):
        pass
    with b.op("aten::tanh", shapes=[[32]], seq=None if seq is None else seq + index, us=20):
        b.kernel(POINTWISE, us=us)
    with b.op("aten::copy_", us=6):
        pass


def loop(turns: int = 64, *, us: float = 2, backward: bool = False) -> TraceBuilder:
    b = TraceBuilder()
    for step in range(3):
        with b.step():
            with b.python("train.py(52): smooth"):
                for index in range(turns):
                    row(b, index, us=us, seq=1000 * (step + 1) if backward else None)
            with b.op("aten::addmm"):
                b.kernel(GEMM, ms=8)
            b.sync()
            if backward:
                for index in reversed(range(turns)):
                    with b.backward("TanhBackward0", 1000 * (step + 1) + index, us=3):
                        b.kernel(POINTWISE, us=5)
                b.sync()
    return b


# A turn takes the host 30 us; its kernel runs from 12 us into it (4 for select, 6 to launch, 2 to arrive) to 14. From the
# start of the step to the end of the last kernel, 63 x 30 + 14 us, all is the loop's: kernels, and idle between them.
@fires(cost_ms=1.904, occurrences=3, severity="high", line="train.py:52")
def tanh_of_64_rows_one_by_one() -> TraceBuilder:
    return loop()


# 64 kernels of 5 us each in the backward pass, on top.
@fires(cost_ms=1.904 + 0.32, occurrences=3)
def with_its_backward() -> TraceBuilder:
    return loop(backward=True)


@quiet
def the_whole_tensor_at_once() -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(3):
        with b.step():
            with b.op("aten::tanh", shapes=[[64, 32]]):
                b.kernel(POINTWISE, us=3)
            with b.op("aten::addmm"):
                b.kernel(GEMM, ms=8)
    return b


def layers(modules: list[str]) -> TraceBuilder:
    b = TraceBuilder(with_stack=bool(modules))
    for _ in range(3):
        with b.step():
            for index in range(24):
                with b.module(modules[index % len(modules)] if modules else "Layer_0"):
                    with b.op("aten::slice", us=4):
                        pass
                    with b.op("aten::linear", us=20), b.op("aten::addmm"):
                        b.kernel(GEMM, us=5)
    return b


@quiet
def layers_of_a_model_are_no_loop() -> TraceBuilder:
    return layers([f"Layer_{index}" for index in range(24)])


@quiet
def operators_with_weights_where_no_module_is_known() -> TraceBuilder:
    return layers([])


@fires(occurrences=3)
def the_same_cell_over_and_over() -> TraceBuilder:
    return layers(["Cell_0"])


@quiet
def turns_that_fill_the_gpu() -> TraceBuilder:
    return loop(us=200)


@quiet
def a_loop_that_launches_nothing() -> TraceBuilder:
    """Views alone: no kernel, and hardly any time."""
    b = TraceBuilder()
    for _ in range(3):
        with b.step():
            for _ in range(64):
                with b.op("aten::select", us=4):
                    pass
            with b.op("aten::addmm"):
                b.kernel(GEMM, ms=8)
    return b


@edge
def ten_turns(over: bool) -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(3):
        with b.step():
            for index in range(10 if over else 9):
                row(b, index)
            with b.op("aten::addmm"):
                b.kernel(GEMM, us=100)
    return b


@edge
def kernels_of_20_us(over: bool) -> TraceBuilder:
    return loop(us=20 if over else 20.1)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    b = TraceBuilder()
    with b.step():
        for _ in range(20):
            with b.op("aten::select"):
                b.call("cudaLaunchKernel", 10)
    return b


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(20):
        b.kernel(POINTWISE, us=2, launched=False)
    return b
