"""Proof of cpu/hot-operator: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet

SHAPES = [[64, 512], [512, 512]]


def training(*times: tuple[str, float], device: str | None = None, dtype: str = "float") -> TraceBuilder:
    """Steps made of these operators, one after the other."""
    b = TraceBuilder(device)
    for _ in range(3):
        with b.step():
            for name, us in times:
                with b.op(name, shapes=SHAPES, dtypes=[dtype] * 2, us=us):
                    pass
    return b


# Of 10 ms: mm 4, addmm 2 (both matrix products, 60 %), batch_norm 2 (20 %), five others of 4 % each. Shown: 8 ms.
@fires(cost_ms=8.0, cost_share=0.8, occurrences=9, severity="note", op="aten::mm")
def matrix_products_take_more_than_half() -> TraceBuilder:
    small_operators = ((f"aten::mkldnn_{number}", 400) for number in range(5))
    return training(("aten::mm", 4000), ("aten::addmm", 2000), ("aten::native_batch_norm", 2000), *small_operators)


# 2 ms of its own and 2 ms inside a node of the backward pass, which keeps 0.9 ms: of 10 ms, 4.
@fires(cost_ms=4.0, cost_share=0.4)
def operators_own_what_they_do_inside_others() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step():
            with b.op("aten::mkldnn_convolution", shapes=SHAPES, dtypes=["float"] * 2, us=2000):
                pass
            with b.op("ConvolutionBackward0"):
                with b.op("aten::convolution_backward", shapes=SHAPES, dtypes=["float"] * 2, us=2000):
                    pass
                b.idle(us=900)
            for number in range(6):
                with b.op(f"aten::mkldnn_{number}", us=850):
                    pass
    return b


@quiet
def ten_operators_that_share_the_time() -> TraceBuilder:
    return training(*((f"aten::mkldnn_{number}", 1000) for number in range(10)))


@quiet
def matrix_products_in_bfloat16_already() -> TraceBuilder:
    return training(("aten::mm", 8000), ("aten::mkldnn_1", 2000), dtype="c10::BFloat16")


@quiet
def products_of_unknown_type() -> TraceBuilder:
    """Without shapes nobody knows whether they are in bfloat16 already."""
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step(), b.op("aten::mm", us=8000):
            pass
    return b


@quiet
def a_decomposition_that_neither_helps() -> TraceBuilder:
    return training(("aten::_linalg_svd", 8000), ("aten::mm", 2000))


# Of 10 ms: 4 in float32, 5 in bfloat16, which are left out.
@fires(cost_ms=4.0, occurrences=3)
def half_of_the_products_in_bfloat16() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step():
            for dtype, us in (("float", 4000), ("c10::BFloat16", 5000)):
                with b.op("aten::mm", shapes=SHAPES, dtypes=[dtype] * 2, us=us):
                    pass
            with b.op("aten::sort", us=1000):
                pass
    return b


@fires(cost_ms=4.0, occurrences=3)
def an_activation_that_could_be_fused() -> TraceBuilder:
    return training(("aten::gelu_backward", 4000), ("aten::sort", 6000))


@quiet
def compiled_code() -> TraceBuilder:
    return training(("Torch-Compiled Region: 0/0", 8000), ("aten::mkldnn_convolution", 2000))


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    b = training(("aten::mm", 9000), device="Tesla V100-SXM2-16GB")
    with b.step():
        b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@edge
def three_tenths_of_the_time(over: bool) -> TraceBuilder:
    hot = 3000 if over else 2999
    return training(("aten::mm", hot), *((f"aten::mkldnn_{number}", (10_000 - hot) / 10) for number in range(10)))
