"""Proof of kernels/layer-on-enlarged: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

SMALL, LARGE = [4, 64, 16, 16], [4, 64, 64, 64]
HIDDEN, TOKENS = [16, 64, 128], [16, 64, 1000]
A100 = "NVIDIA A100-SXM4-80GB"


class Program(TraceBuilder):
    """Steps on the CPU, or on a GPU."""

    def run(self, name: str, us: float, shapes: list[list[int]], *values: str, seq: int | None = None) -> None:
        """Add an operator of so many us: on a GPU they are its kernel's."""
        gpu = self.gpu
        with self.op(name, shapes=shapes, us=0 if gpu else us, seq=seq, values=list(values) or None):
            if gpu and us:
                self.kernel("elementwise_kernel", us=us)

    gpu = False


def upsampled(
    *,
    outputs: int = 8,
    kernel: int = 1,
    between: str = "",
    behind: str = "",
    train: bool = True,
    us: float = 1000,
    device: str | None = None,
    shapes: bool = True,
) -> TraceBuilder:
    """Steps of 20 ms: an upsampling and a convolution in *us* each, and twice that for each backward pass."""
    b = Program(device, host_us=2 if device else 0, record_shapes=shapes)
    b.gpu = device is not None
    weight = [outputs, 64, kernel, kernel]
    for step in range(3):
        seq = 10 * step
        with b.step():
            with b.op("aten::upsample_bilinear2d", shapes=[SMALL, [], [], []], values=["", "", "False", "[4., 4.]"]):
                b.run(
                    "aten::upsample_bilinear2d",
                    us,
                    [SMALL, [], [], [], []],
                    "",
                    "[64, 64]",
                    "False",
                    "4.",
                    "4.",
                    seq=seq,
                )
            if between:
                b.run(between, 100, [LARGE])
            b.run(
                "aten::conv2d",
                us,
                [LARGE, weight, [outputs]],
                "",
                "",
                "",
                "[1, 1]",
                "[0, 0]",
                "[1, 1]",
                "1",
                seq=seq + 1,
            )
            if behind:
                b.run(behind, 100, [LARGE, LARGE])
            b.run("aten::softmax", 20_000 - (6 if train else 2) * us, [[4, 10]])
            if train:
                with b.backward("ConvolutionBackward0", seq + 1):
                    b.run("aten::convolution_backward", 2 * us, [[4, outputs, 64, 64], LARGE, weight])
                with b.backward("UpsampleBilinear2DBackward0", seq):
                    b.run("aten::upsample_bilinear2d_backward", 2 * us, [LARGE])
            if device:
                b.sync()
    return b


def dropped(name: str = "aten::select", *values: str, shape: list[int] | None = None, again: str = "") -> TraceBuilder:
    """Steps of 20 ms: a layer over all tokens in 2 ms, and what takes its result; with backward passes of 4 ms and 1."""
    b = Program(None, host_us=0)
    for step in range(3):
        seq = 10 * step
        with b.step():
            with b.op("aten::linear", shapes=[HIDDEN, [1000, 128], [1000]], values=["", "", ""]):
                b.run("aten::addmm", 2000, [[1000], [1024, 128], [128, 1000]], seq=seq)
            b.run(name, 10, [shape or TOKENS, [], []], "", *(values or ("1", "-1")), seq=seq + 1)
            if again:
                b.run(again, 10, [TOKENS, [], []], "", "", seq=seq + 2)
            b.run("aten::softmax", 13_000, [[16, 1000]])
            with b.backward("SelectBackward0", seq + 1):
                b.run("aten::select_backward", 1000, [[16, 1000]])
            with b.backward("AddmmBackward0", seq):
                b.run("aten::mm", 4000, [[1000, 1024], [1024, 128]])
    return b


@fires(cost_ms=6.0, occurrences=3, severity="high", op="aten::conv2d")
def a_classifier_behind_upsampling() -> TraceBuilder:
    return upsampled()


@fires(cost_ms=2.0)
def in_inference() -> TraceBuilder:
    return upsampled(train=False)


@fires(cost_ms=6.0)
def on_a_gpu() -> TraceBuilder:
    return upsampled(device=A100)


@fires(cost_ms=7.0, op="aten::linear")
def only_the_last_token_of_a_layer_is_used() -> TraceBuilder:
    return dropped()


@fires(cost_ms=7.0)
def a_layer_before_the_mean_of_the_tokens() -> TraceBuilder:
    return dropped("aten::mean", "[1]", "False")


@fires(cost_ms=7.0)
def every_fourth_token() -> TraceBuilder:
    return dropped("aten::slice", "1", "0", "9223372036854775807", "4")


@quiet
def a_convolution_over_neighbours() -> TraceBuilder:
    return upsampled(kernel=3)


@quiet
def as_many_channels_out() -> TraceBuilder:
    return upsampled(outputs=64)


@quiet
def an_activation_between_them() -> TraceBuilder:
    return upsampled(between="aten::relu")


@quiet
def the_upsampled_map_is_used_again() -> TraceBuilder:
    return upsampled(behind="aten::add")


@quiet
def all_tokens_but_the_last() -> TraceBuilder:
    return dropped("aten::slice", "1", "0", "-1", "1")


@quiet
def some_of_the_classes() -> TraceBuilder:
    return dropped("aten::slice", "2", "0", "10", "1")


@quiet
def the_mean_of_the_classes() -> TraceBuilder:
    return dropped("aten::mean", "[2]", "False")


@quiet
def all_tokens_are_used_as_well() -> TraceBuilder:
    return dropped(again="aten::relu")


@lacks("host")
def kernels_alone_were_recorded() -> TraceBuilder:
    return kernels_alone("elementwise_kernel")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return upsampled(shapes=False)


@edge
def a_fiftieth_of_the_step(over: bool) -> TraceBuilder:
    """Of 6 times *us* a layer's sixteenth and an upsampling's eighth remain, and of 20 ms the middle of that is 2 %."""
    return upsampled(us=80 if over else 70)
