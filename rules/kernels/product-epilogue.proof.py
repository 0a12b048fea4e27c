"""Proof of kernels/product-epilogue: traces on which it fires, and traces on which it does not."""

from contextlib import nullcontext

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GPU = "NVIDIA H100 80GB HBM3"
PRODUCT = "nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_TNT"
POINTWISE = "void at::native::elementwise_kernel<128, 4, at::native::CUDAFunctor_add<c10::BFloat16>>"
ROWS, WIDE = [16384, 1024], [16384, 4096]
HEADS, KEYS, SCORES = [64, 1024, 64], [64, 64, 1024], [64, 1024, 1024]


def layers(
    us: float = 200, op: str = "aten::add", shapes: list[list[int]] | None = None, *,
    product: str = "aten::mm", factors: list[list[int]] | None = None, between: str = "", product_us: float = 800,
    linear: bool = False, sums: bool = False,
) -> TraceBuilder:  # fmt: skip
    """Four steps of a product of 800 us and a pointwise kernel behind it, by default the bias of a layer."""
    b = TraceBuilder(GPU)
    for _ in range(4):
        with b.step():
            with b.op("aten::linear") if linear else nullcontext():
                with b.op(product, shapes=factors or [ROWS, [1024, 4096]], dtypes=["c10::BFloat16"] * 2):
                    b.kernel(PRODUCT, us=product_us)
                if between:
                    with b.op(between, shapes=[WIDE], dtypes=["c10::BFloat16"]):
                        b.kernel("reduce_kernel<512, 1>", us=10)
                if sums:
                    b.collective("all_reduce", 1 << 20, us=50, stream=7)
                with b.op(op, shapes=shapes or [WIDE, [4096], []], dtypes=["c10::BFloat16"] * 2):
                    b.kernel(POINTWISE, us=us)
            b.sync()
    return b


# 200 of some 1,000 us.
@fires(cost_ms=0.2, occurrences=4, severity="high", op="aten::add", fix="Give the bias to the product (linear, addmm)")
def a_bias_added_behind_the_product() -> TraceBuilder:
    return layers()


# What matmul computed of three dimensions has its three again when the bias comes.
@fires(cost_ms=0.2, fix="Give the bias to the product (linear, addmm)")
def a_bias_of_a_batch_of_sequences() -> TraceBuilder:
    return layers(shapes=[[16, 1024, 4096], [4096], []])


@fires(cost_ms=0.2, severity="high", op="aten::mul", fix="Scale the smaller factor, before the product")
def scores_scaled_behind_their_product() -> TraceBuilder:
    return layers(op="aten::mul", shapes=[SCORES, []], product="aten::bmm", factors=[HEADS, KEYS])


@fires(cost_ms=0.2, op="aten::div", fix="Scale the smaller factor, before the product")
def logits_over_a_temperature() -> TraceBuilder:
    return layers(op="aten::div", shapes=[WIDE, []])


# linear did it: what is added behind it is another row.
@quiet
def a_product_with_its_bias() -> TraceBuilder:
    return layers(product="aten::addmm", factors=[[4096], ROWS, [1024, 4096]])


@quiet
def a_residual_of_the_same_size() -> TraceBuilder:
    return layers(shapes=[WIDE, WIDE, []])


# Asked for its bias, linear adds it behind the product where rows do not lie in one piece.
@quiet
def what_linear_adds_itself() -> TraceBuilder:
    return layers(op="aten::add_", linear=True)


# Each rank has a part of the sum: the bias comes once, behind it.
@quiet
def a_bias_behind_a_sum_over_ranks() -> TraceBuilder:
    return layers(sums=True)


# One number for each row is no bias of a layer.
@quiet
def a_column_added_to_the_result() -> TraceBuilder:
    return layers(shapes=[WIDE, [16384, 1], []])


# The square result has as many elements as its factors: to scale one of them costs as much.
@quiet
def a_scale_of_a_result_no_larger_than_its_factors() -> TraceBuilder:
    return layers(op="aten::mul", shapes=[[1024, 1024], []], factors=[[1024, 1024], [1024, 1024]])


@quiet
def another_tensor_is_read_between() -> TraceBuilder:
    return layers(between="aten::sum")


# 95 % of 1 and of 1.15 % are under and over one: 90 % on the average of low and high.
@edge
def one_per_cent_of_the_step(over: bool) -> TraceBuilder:
    return layers(100, product_us=8600 if over else 9400)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::add")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    b = TraceBuilder(GPU)
    for _ in range(4):
        with b.step(), b.op("aten::mm"):
            b.kernel(PRODUCT, us=800)
    return b


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    b = TraceBuilder(GPU)
    b.kernel(PRODUCT, us=800, launched=False)
    return b
