"""Proof of cpu/fourier-convolution: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(
    *,
    us: float = 3000,
    taps: int = 1024,
    filters: int = 1026,
    channels: int = 1,
    backward_us: float = 0,
    mask: str = "[True, False, False]",
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of 10 ms: a convolution of 8 signals of 16,128 numbers by 256 (60 frames of 1,024 each) takes *us*."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    dims = [[8, channels, 16_128], [filters, channels, taps], [], [], [], [], []]
    values = ["", "", "", "[256]", "[0]", "[1]", "1"]
    for number in range(3):
        with b.step():
            with b.op("aten::conv1d", shapes=dims, values=values, us=us, seq=number + 1 if backward_us else None):
                if device:
                    b.kernel("implicit_convolve_sgemm", us=100)
            if backward_us:
                with (
                    b.backward("ConvolutionBackward0", number + 1),
                    b.op(
                        "aten::convolution_backward",
                        shapes=[[8, filters, 60], *dims[:2]],
                        values=["", "", "", mask],
                        us=backward_us,
                    ),
                ):
                    pass
            with b.op("aten::mm", us=10_000 - us - backward_us):
                pass
    return b


# 3 ms, of which the transform takes 0.05 ms and 5 ns for each of 8 x 60 x 1,024 numbers: 0.49 ms go at most.
@fires(cost_ms=3.0, cost_share=0.3, occurrences=3, op="aten::conv1d")
def a_spectrogram() -> TraceBuilder:
    return steps()


@fires(cost_ms=9.0)
def with_the_gradient_of_the_signal() -> TraceBuilder:
    return steps(us=4000, backward_us=5000)


@fires(cost_ms=3.0)
def cosines_alone() -> TraceBuilder:
    return steps(filters=513)


@quiet
def filters_that_are_trained() -> TraceBuilder:
    return steps(us=4000, backward_us=5000, mask="[True, True, False]")


@quiet
def filters_of_another_number() -> TraceBuilder:
    return steps(filters=1024)


@quiet
def two_channels() -> TraceBuilder:
    return steps(channels=2)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(device="NVIDIA A100-SXM4-80GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(shapes=False)


@edge
def frames_of_128_numbers(over: bool) -> TraceBuilder:
    return steps(taps=128 if over else 126, filters=130 if over else 128, us=5000)


@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    """92.5 % of 2.84 or 2.82 ms without 0.05 ms and 5 ns for each of 8 x 60 x 1,024 numbers, of 10 ms: 3.07 or 2.89 %."""
    return steps(us=2840 if over else 2820)
