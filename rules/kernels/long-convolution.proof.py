"""Proof of kernels/long-convolution: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

V100 = "Tesla V100-SXM2-16GB"


def training(
    us: float = 20_000,
    *,
    taps: int = 1600,
    length: int = 16_000,
    channels: int = 1,
    stride: int = 1,
    transposed: bool = False,
    device: str | None = None,
    rest_us: float = 10_000,
    backward: bool = False,
    recorded: bool = True,
    shapes: bool = True,
) -> TraceBuilder:
    """Four steps of a convolution of *us*, with or without its gradient of twice as long, and of other work."""
    b = TraceBuilder(device, record_shapes=shapes)
    source, weight = [8, channels, length], [channels, channels, taps]
    numbers = [f"[{stride}]", "[0]", "[1]", str(transposed), "[0]", "1"]
    for step in range(4):
        with b.step():
            values = ["", "", "", *numbers] if recorded else None
            dims = [source, weight, [channels], *[[]] * 6]
            with (
                b.python("audio.py(12): reverberate"),
                b.op("aten::conv1d", shapes=dims[:3], seq=step),
                b.op("aten::convolution", shapes=dims, values=values, seq=step, us=0 if device else us),
            ):
                if device:
                    b.kernel("conv1d_kernel", us=us)
            if backward:
                values = ["", "", "", "", *numbers, "[True, True, True]"]
                dims = [source, source, weight, *[[]] * 8]
                with (
                    b.backward("ConvolutionBackward0", step),
                    b.op("aten::convolution_backward", shapes=dims, values=values, us=2 * us),
                ):
                    pass
            with b.op("aten::bmm", us=0 if device else rest_us):
                if device:
                    b.kernel("gemm", us=rest_us)
            if device is not None:
                b.sync()
    return b


@fires(cost_ms=20.0, cost_share=0.6667, occurrences=4, severity="high", op="aten::convolution", line="audio.py:12")
def an_impulse_response_of_1600_samples() -> TraceBuilder:
    return training()


@fires(cost_ms=60.0, occurrences=8, severity="high")
def with_its_gradient() -> TraceBuilder:
    return training(backward=True)


@fires(cost_ms=20.0, occurrences=4)
def on_a_gpu() -> TraceBuilder:
    return training(device=V100)


@quiet
def a_window_that_moves_by_its_stride() -> TraceBuilder:
    return training(stride=8)


@quiet
def a_transposed_convolution() -> TraceBuilder:
    return training(transposed=True)


@quiet
def settings_that_were_not_recorded() -> TraceBuilder:
    return training(recorded=False)


# The products of 64 channels each way alone take 2.1 G operations, 307 ms: longer than the direct convolution.
@quiet
def many_channels_at_a_high_rate() -> TraceBuilder:
    return training(channels=64)


@edge
def a_hundred_weights(over: bool) -> TraceBuilder:
    return training(taps=100 if over else 99)


# 16,384 points: 17 transforms of 573,440 operations, 8 products of 65,544; at 7 a ns 1.468 ms.
@edge
def half_of_its_time(over: bool) -> TraceBuilder:
    return training(2960 if over else 2910, rest_us=1000)


@edge
def three_hundredths_of_the_step(over: bool) -> TraceBuilder:
    # 92.5 % of 92.7 % of 20 ms are 17.1 ms: 3.1 % of 550 ms, 2.9 % of 590 ms.
    return training(rest_us=530_000 if over else 570_000)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("conv1d_kernel")
