"""Proof of cpu/float64: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

FLOAT, DOUBLE = "float", "double"


def training(
    double_us: float = 8000, float_us: float = 2000, *, shapes: bool = True, device: str | None = None
) -> TraceBuilder:
    b = TraceBuilder(device, record_shapes=shapes)
    for _ in range(3):
        with b.step():
            for dtype, us in ((DOUBLE, double_us), (FLOAT, float_us)):
                with b.op("aten::addmm", shapes=[[10], [64, 20], [20, 10]], dtypes=[dtype] * 3, us=us):
                    pass
    return b


@fires(cost_ms=8.0, cost_share=0.8, occurrences=3, severity="high", op="aten::addmm")  # 8 of 10 ms
def a_model_in_double() -> TraceBuilder:
    return training()


@fires(cost_ms=6.0)  # a convolution of 6 ms, 1 ms of it in an operator on bytes: what is inside belongs to that
def only_what_is_its_own() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step(), b.op("aten::_slow_conv2d_forward", shapes=[[8, 3, 64, 64]], dtypes=["double"]):
            with b.op("aten::fill_", shapes=[[8]], dtypes=["unsigned char"], us=1000):
                pass
            b.idle(us=6000)
    return b


# Of the 8 ms a convolution owns 2, its loop over groups 6: views, and lists put together, whose types are not recorded.
@fires(cost_ms=8.0, cost_share=0.8)
def what_a_convolution_runs_for_each_group() -> TraceBuilder:
    b = TraceBuilder(None, record_shapes=True)
    for _ in range(3):
        with b.step():
            with b.op("aten::convolution", shapes=[[8, 48, 20, 50]], dtypes=["double"], us=0):
                with b.op("aten::_slow_conv2d_forward", shapes=[[8, 1, 20, 50]], dtypes=["double"], us=2000):
                    pass
                with b.op("aten::narrow", shapes=[[8, 48, 20, 50]], dtypes=["double"], us=1000):
                    pass
                with b.op("aten::cat", shapes=[[], []], dtypes=["TensorList", "Scalar"], us=5000):
                    pass
            with b.op("aten::addmm", shapes=[[10], [64, 20], [20, 10]], dtypes=["float"] * 3, us=2000):
                pass
    return b


# A list that is put together outside of any operator may be of float.
@quiet
def lists_whose_types_nothing_tells() -> TraceBuilder:
    b = TraceBuilder(None, record_shapes=True)
    for _ in range(3):
        with b.step():
            with b.op("aten::cat", shapes=[[], []], dtypes=["TensorList", "Scalar"], us=8000):
                pass
            with b.op("aten::addmm", shapes=[[10], [64, 20], [20, 10]], dtypes=["float"] * 3, us=2000):
                pass
    return b


@quiet
def a_model_in_float() -> TraceBuilder:
    return training(0, 10_000)


@quiet
def a_loss_in_double() -> TraceBuilder:
    return training(500, 9500)


# Views read and write nothing, however long they take: 8 of 10 ms.
@quiet
def views_of_double() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step():
            for name in ("aten::slice", "aten::select", "aten::as_strided", "aten::unfold"):
                with b.op(name, shapes=[[64, 64], [], []], dtypes=["double", "Scalar", "Scalar"], us=2000):
                    pass
            with b.op("aten::addmm", shapes=[[10], [64, 20], [20, 10]], dtypes=["float"] * 3, us=2000):
                pass
    return b


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    b = training(device="Tesla V100-SXM2-16GB")
    with b.step():
        b.kernel("volta_dgemm_128x64_nn", us=100)
    return b


@edge
def a_fifth_of_the_time(over: bool) -> TraceBuilder:
    return training(2000 if over else 1999, 8000)


@lacks("shapes")
def no_types_recorded() -> TraceBuilder:
    return training(shapes=False)
