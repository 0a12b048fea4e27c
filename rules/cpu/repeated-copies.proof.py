"""Proof of cpu/repeated-copies: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

Shape = list[int]
KEYS, COPIED = [4, 4, 512, 64], [4, 16, 512, 64]
WIDE = [4, 4, 4, 512, 64]
NARROW_STEPS, FULL_STEPS = [131072, 32768, 0, 64, 1], [524288, 131072, 32768, 64, 1]
PRODUCT = ("aten::matmul", [[4, 16, 1, 64], [4, 16, 64, 512]], ["float", "float"])


def steps(
    taker: tuple[str, list[Shape], list[str]],
    *,
    maker: str = "aten::repeat_interleave",
    us: float = 2000,
    backward_us: float = 0,
    stride: int = 0,
    shapes: bool = True,
) -> TraceBuilder:
    """Steps of 10 ms: a copy of keys for four heads each, which takes *us*, an operator that takes it, and a product."""
    b = TraceBuilder(None, host_us=0, record_shapes=shapes)
    source = [*NARROW_STEPS[:2], stride, *NARROW_STEPS[3:]]
    name, dims, types = taker
    for number in range(3):
        with b.step():
            with (
                b.op(maker, shapes=[KEYS, [], []], seq=number + 1 if backward_us else None),
                b.op("aten::clone", shapes=[WIDE, []], strides=[source, []]),
                b.op("aten::copy_", shapes=[WIDE, WIDE, []], strides=[FULL_STEPS, source, []], us=us),
            ):
                pass
            with b.op("aten::transpose", shapes=[COPIED, [], []], us=1):
                pass
            with b.op(name, shapes=dims, dtypes=types, us=10):
                pass
            if backward_us:
                with (
                    b.backward("RepeatInterleaveBackward0", number + 1),
                    b.op("aten::sum", shapes=[WIDE, [], [], []], us=backward_us),
                ):
                    pass
            with b.op("aten::mm", us=10_000 - 11 - us - backward_us):
                pass
    return b


# 2 of 10 ms, of which 90 to 100 % return.
@fires(cost_ms=2.0, cost_share=0.2, occurrences=3, severity="high", op="aten::repeat_interleave")
def keys_for_every_head() -> TraceBuilder:
    return steps(PRODUCT)


@fires(cost_ms=2.0)
def made_by_reshape_of_an_expanded_tensor() -> TraceBuilder:
    return steps(
        ("aten::scaled_dot_product_attention", [[4, 16, 1, 64], COPIED, COPIED], ["float"] * 3), maker="aten::reshape"
    )


@fires(cost_ms=3.0)
def the_gradient_is_summed_up_again() -> TraceBuilder:
    return steps(PRODUCT, backward_us=1000)


@fires(cost_ms=2.0)
def for_an_operator_on_elements() -> TraceBuilder:
    return steps(("aten::mul", [COPIED, COPIED], ["float", "float"]), maker="aten::repeat")


# Broadcasting sums up the gradient as well.
@fires(cost_ms=2.0)
def an_operator_on_elements_with_its_backward() -> TraceBuilder:
    return steps(("aten::mul", [COPIED, COPIED], ["float", "float"]), maker="aten::repeat", backward_us=1000)


@fires(cost_ms=2.0)
def an_index_of_gather() -> TraceBuilder:
    dims: list[Shape] = [[4, 64, 512, 64], [], COPIED, []]
    return steps(("aten::gather", dims, ["float", "Scalar", "long int", "Scalar"]), maker="aten::repeat")


@quiet
def for_a_convolution() -> TraceBuilder:
    return steps(("aten::conv2d", [COPIED, [8, 16, 3, 3]], ["float", "float"]), maker="aten::repeat")


@quiet
def the_source_of_gather() -> TraceBuilder:
    dims: list[Shape] = [COPIED, [], [4, 16, 8, 64], []]
    return steps(("aten::gather", dims, ["float", "Scalar", "long int", "Scalar"]), maker="aten::repeat")


@quiet
def an_activation() -> TraceBuilder:
    return steps(("aten::mul", [COPIED, []], ["float", "Scalar"]))


@quiet
def a_copy_of_what_is_there_once() -> TraceBuilder:
    return steps(PRODUCT, maker="aten::contiguous", stride=64)


# A buffer that is filled needs all of its numbers.
@quiet
def an_assignment() -> TraceBuilder:
    return steps(PRODUCT, maker="aten::fill_")


def on_the_gpu(taker: tuple[str, list[Shape], list[str]], us: float = 2000) -> TraceBuilder:
    """Steps of 10 ms on a GPU: a copy of *us*, an operator that takes it, and a product."""
    b = TraceBuilder("NVIDIA A100-SXM4-80GB", host_us=1)
    source, (name, dims, types) = NARROW_STEPS, taker
    for _ in range(3):
        with b.step():
            with (
                b.op("aten::repeat", shapes=[KEYS, [], []]),
                b.op("aten::copy_", shapes=[WIDE, WIDE, []], strides=[FULL_STEPS, source, []]),
            ):
                b.kernel("vectorized_elementwise_kernel", us=us)
            with b.op(name, shapes=dims, dtypes=types):
                b.kernel("vectorized_elementwise_kernel", us=1000)
            with b.op("aten::mm"):
                b.kernel("ampere_sgemm_128x64_tn", us=9_000 - us)
            b.sync()
    return b


@fires(cost_ms=2.0, cost_share=0.2, severity="high")
def for_an_operator_on_elements_on_a_gpu() -> TraceBuilder:
    return on_the_gpu(("aten::mul", [COPIED, COPIED], ["float", "float"]))


# Keys for the heads of an attention are kernels/attention-copies'.
@quiet
def for_a_product_on_a_gpu() -> TraceBuilder:
    return on_the_gpu(PRODUCT)


@edge
def three_percent_of_the_step_on_a_gpu(over: bool) -> TraceBuilder:
    return on_the_gpu(("aten::mul", [COPIED, COPIED], ["float", "float"]), us=320 if over else 310)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(PRODUCT, shapes=False)


@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    """95 % of 0.32 or 0.31 ms of 10: 3.04 or 2.95 %."""
    return steps(PRODUCT, us=320 if over else 310)
