"""Proof of cpu/separable-window: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(
    *,
    image: list[int] | None = None,
    weight: list[int] | None = None,
    us: float = 500,
    backward_us: float = 4500,
    plain: int = 0,
    plain_us: float = 500,
    held_us: float = 0,
    mask: str = "[True, False, False]",
    second_mask: str = "",
    stride: int = 1,
    groups: int | None = None,
    made: str = "",
    made_shape: list[int] | None = None,
    written: str = "",
    name: str = "aten::conv3d",
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of 20 ms: a convolution of 32 x 32 x 32 by 5 x 5 x 5, one channel, and its backward pass, and *plain* without one."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    image, weight = image or [1, 1, 32, 32, 32], weight or [1, 1, 5, 5, 5]
    steps_of, ones = str([stride] * (len(weight) - 2)), str([1] * (len(weight) - 2))
    dims = [image, weight, [], [], [], [], []]
    values = ["", "", "", steps_of, "[2, 2, 2]", ones, str(groups or weight[0])]
    if name == "aten::convolution":
        values[6:] = ["False", "[0, 0, 0]", str(groups or weight[0])]
        dims += [[], []]
    for number in range(3):
        with b.step():
            if made:
                like = made.endswith("_like")
                with b.op(
                    made,
                    shapes=[made_shape or weight] if like else [[]],
                    values=["" if like else str(made_shape or weight)],
                    us=1,
                ):
                    pass
            if written:
                with b.op(written, shapes=[made_shape or weight], us=1):
                    pass
            for _ in range(plain):
                with b.op(name, shapes=dims, values=values, us=plain_us):
                    pass
            masks = [mask] + [second_mask] * bool(second_mask) if backward_us else []
            for place in range(max(len(masks), 1)):
                with b.op(name, shapes=dims, values=values, us=us, seq=10 * number + place + 1 if masks else None):
                    if device:
                        b.kernel("implicit_convolve_sgemm", us=100)
            for place, asked in enumerate(masks):
                with (
                    b.backward("ConvolutionBackward0", 10 * number + place + 1),
                    b.op(
                        "aten::convolution_backward",
                        shapes=[image, image, weight],
                        values=["", "", "", asked],
                        us=backward_us + held_us * (number == 1),
                    ),
                ):
                    pass
            with b.op("aten::mm", us=20_000 - us - backward_us - held_us * (number == 1) - plain * plain_us):
                pass
    return b


# Three passes of 5 taps take 3.7 * 5 ns for each of 32,768 numbers, and 40 us each: 1.94 ms of 5.
@fires(cost_ms=5.0, cost_share=0.25, occurrences=3, op="aten::conv3d")
def local_sums_of_a_volume() -> TraceBuilder:
    return steps()


@fires(cost_ms=5.0)
def called_without_a_function() -> TraceBuilder:
    return steps(name="aten::convolution")


# 16 + 3.2 * 11 ns for each of two passes over 65,536 numbers and 40 us each: 6.8 ms of 12.
@fires(cost_ms=12.0)
def structural_similarity() -> TraceBuilder:
    return steps(image=[1, 1, 256, 256], weight=[1, 1, 11, 11], name="aten::conv2d", us=1500, backward_us=10_500)


# Of a fixed image that has no gradient: 1.1 * 9 ns for each of three passes over 32,768 numbers and 10 us each: 1 ms of 3.
@fires(cost_ms=8.0, occurrences=6)
def with_an_image_without_a_gradient() -> TraceBuilder:
    return steps(weight=[1, 1, 9, 9, 9], plain=1, plain_us=3000)


# Cumulative sums take 2 ns for each of three passes over 262,144 numbers and 20 us each: 1.6 ms of 6.
@fires(cost_ms=6.0)
def ones_in_inference() -> TraceBuilder:
    return steps(image=[1, 1, 64, 64, 64], us=6000, backward_us=0, made="aten::ones")


@fires(cost_ms=6.0)
def ones_like_another() -> TraceBuilder:
    return steps(image=[1, 1, 64, 64, 64], us=6000, backward_us=0, made="aten::ones_like")


@fires(cost_ms=5.0)
def ones_for_all_channels() -> TraceBuilder:
    return steps(image=[1, 8, 16, 16, 16], weight=[8, 1, 5, 5, 5], made="aten::full", made_shape=[1, 1, 5, 5, 5])


# Layers of each channel by itself, in a network that is frozen.
@quiet
def eight_channels_without_a_gradient() -> TraceBuilder:
    return steps(image=[1, 8, 16, 16, 16], weight=[8, 1, 5, 5, 5])


@quiet
def a_filter_that_is_trained() -> TraceBuilder:
    return steps(mask="[True, True, False]")


# A discriminator, which the generator's step does not train.
@quiet
def trained_in_another_pass() -> TraceBuilder:
    return steps(second_mask="[True, True, False]")


@quiet
def in_inference() -> TraceBuilder:
    return steps(us=5000, backward_us=0)


# kernel = ones; kernel[1, 1] = -8: a Laplacian.
@quiet
def ones_that_are_written() -> TraceBuilder:
    return steps(image=[1, 1, 64, 64, 64], us=6000, backward_us=0, made="aten::ones", written="aten::select")


@quiet
def ones_of_another_shape() -> TraceBuilder:
    return steps(us=5000, backward_us=0, made="aten::ones", made_shape=[1, 1, 5, 5])


@quiet
def one_dimension_is_a_pass() -> TraceBuilder:
    return steps(weight=[1, 1, 5, 1, 1])


# Two filters of one channel: horizontal and vertical edges.
@quiet
def several_filters() -> TraceBuilder:
    return steps(weight=[2, 1, 5, 5, 5], groups=1)


@quiet
def channels_are_summed() -> TraceBuilder:
    return steps(image=[1, 3, 32, 32, 32], weight=[1, 3, 5, 5, 5], groups=1)


@quiet
def in_steps_of_two() -> TraceBuilder:
    return steps(stride=2)


# Sobel's: passes take as long.
@quiet
def three_by_three() -> TraceBuilder:
    return steps(image=[1, 1, 256, 256], weight=[1, 1, 3, 3], name="aten::conv2d", us=2000, backward_us=9000)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(device="NVIDIA A100-SXM4-80GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(shapes=False)


@edge
def a_quarter_of_its_time(over: bool) -> TraceBuilder:
    """1.94 ms are left: three quarters of 2.59 ms."""
    return steps(us=100, backward_us=2550 if over else 2430)


# One call that was held up is no slower kind.
@quiet
def held_up_once() -> TraceBuilder:
    return steps(us=100, backward_us=2000, held_us=15_000)


@edge
def three_taps(over: bool) -> TraceBuilder:
    return steps(weight=[1, 1, 3, 3, 3] if over else [1, 1, 2, 2, 3])
