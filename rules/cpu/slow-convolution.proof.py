"""Proof of cpu/slow-convolution: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

Shapes = list[list[int]]
SHAPES = [[16, 3, 224, 224], [64, 3, 7, 7]]


def steps(
    us: float,
    name: str = "aten::_slow_conv2d_forward",
    *,
    device: str | None = None,
    dtype: str = "float",
    shapes: Shapes = SHAPES,
    stride: str = "[1, 1]",
) -> TraceBuilder:
    """Steps of 10 ms, of which one convolution takes *us* on the CPU."""
    b = TraceBuilder(device)
    for _ in range(3):
        with b.step():
            with (
                b.op("aten::thnn_conv2d"),
                b.op(
                    name,
                    shapes=[*shapes, [], [], []],
                    dtypes=[dtype] * len(shapes) + ["ScalarList", "", "ScalarList"],
                    values=[*[""] * len(shapes), "[3, 3]", "", stride][-5:],
                    us=us,
                ),
            ):
                pass
            with b.op("aten::mkldnn_linear", us=10_000 - us):
                pass
    return b


@fires(
    cost_ms=2.5,
    cost_share=0.25,
    severity="high",
    op="aten::_slow_conv2d_forward",
    fix="Let oneDNN run the convolutions",
)
def a_quarter_of_the_step() -> TraceBuilder:
    return steps(2_500)


# Of another torch: the operator of 2021, and forward and backward of the layer for volumes.
@fires(cost_ms=6.0, cost_share=0.6, severity="high")
def a_layer_for_volumes() -> TraceBuilder:
    return steps(6_000, "aten::slow_conv3d_forward")


@fires(cost_ms=2.5, fix="Compute in float32, which oneDNN takes")
def convolutions_in_double() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step():
            with b.op("aten::_slow_conv2d_forward", shapes=SHAPES, dtypes=["double"] * 2, us=2_500):
                pass
            with b.op("aten::mkldnn_relu", us=7_500):
                pass
    return b


# Torch's own choice, whether oneDNN is on or not: a filter of 1x1 on one thread, and one small image.
@quiet
def a_filter_of_one_by_one() -> TraceBuilder:
    return steps(2_500, shapes=[[4, 16, 160, 160], [60, 16, 1, 1]])


@quiet
def its_backward() -> TraceBuilder:
    return steps(2_500, "aten::_slow_conv2d_backward", shapes=[[4, 60, 160, 160], [4, 16, 160, 160], [60, 16, 1, 1]])


@quiet
def one_small_image() -> TraceBuilder:
    return steps(2_500, shapes=[[1, 3, 32, 32], [8, 3, 3, 3]])


@fires(cost_ms=2.5, fix="Let oneDNN run the convolutions")
def a_filter_of_one_by_one_on_two_threads() -> TraceBuilder:
    return steps(2_500, shapes=[[4, 16, 160, 160], [60, 16, 1, 1]]).ran_with(threads=2)


@fires(cost_ms=2.5, fix="Let oneDNN run the convolutions")
def a_filter_of_one_by_one_with_a_stride() -> TraceBuilder:
    return steps(2_500, shapes=[[4, 16, 160, 160], [60, 16, 1, 1]], stride="[2, 2]")


@fires(cost_ms=2.5, fix="Compute in float32, which oneDNN takes")
def one_small_image_in_double() -> TraceBuilder:
    return steps(2_500, shapes=[[1, 3, 32, 32], [8, 3, 3, 3]], dtype="double")


@quiet
def without_shapes_beside_convolutions_of_onednn() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step():
            with b.op("aten::_slow_conv2d_forward", us=2_500):
                pass
            with b.op("aten::mkldnn_convolution", us=7_500):
                pass
    return b


@quiet
def convolutions_of_onednn() -> TraceBuilder:
    return steps(2_500, "aten::mkldnn_convolution")


# On a GPU the same operator launches kernels: cuDNN's choice, of which other rules speak.
@quiet("not_applicable")
def on_a_gpu() -> TraceBuilder:
    b = TraceBuilder()
    with b.step(), b.op("aten::_slow_conv2d_forward", us=5_000):
        b.kernel("volta_sgemm_128x64_nn", us=4_000)
    return b


@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    return steps(500 if over else 499)


@lacks("gpu", verdict="passes")
def nothing_but_other_operators() -> TraceBuilder:
    return steps(500, "aten::mkldnn_relu")
