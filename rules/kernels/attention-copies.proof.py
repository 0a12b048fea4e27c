"""Proof of kernels/attention-copies: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

COPY = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 64, 4, false, false, cutlass::bfloat16_t>>"
)
BF16 = "c10::BFloat16"
HEADS = [16, 16, 1024, 64]
VIEW = [1048576, 64, 1024, 1]  # of [16, 1024, 16 * 64]
SHARED, AGAIN = [16, 2, 8, 1024, 64], [131072, 64, 0, 128, 1]


def copied(b: TraceBuilder, shape: list[int], strides: list[int], us: float, *, by: str = "aten::contiguous") -> None:
    with (
        b.op(by, shapes=[shape], dtypes=[BF16], strides=[strides]),
        b.op("aten::clone", shapes=[shape], dtypes=[BF16], strides=[strides]),
        b.op("aten::copy_", shapes=[shape, shape], dtypes=[BF16, BF16]),
    ):
        b.kernel(COPY, us=us)


def viewed(b: TraceBuilder) -> None:
    with b.op("aten::transpose", shapes=[[16, 1024, 16, 64], [], []], dtypes=[BF16, "Scalar", "Scalar"]):
        pass


def attention(b: TraceBuilder, shape: list[int] = HEADS) -> None:
    with (
        b.op("aten::scaled_dot_product_attention", shapes=[shape] * 3, dtypes=[BF16] * 3),
        b.op("aten::_scaled_dot_product_flash_attention", shapes=[shape] * 3, dtypes=[BF16] * 3),
    ):
        b.kernel(FLASH, us=500)


def product(b: TraceBuilder, us: float = 1000) -> None:
    with b.op("aten::mm", shapes=[[16384, 1024], [1024, 1024]], dtypes=[BF16, BF16]):
        b.kernel(GEMM, us=us)


def layer(
    copies: int = 3,
    us: float = 100,
    *,
    strides: list[int] = VIEW,
    shape: list[int] = HEADS,
    by: str = "aten::contiguous",
    between: bool = False,
    product_us: float = 1000,
) -> TraceBuilder:
    """Steps of a product, copies of its views, and an attention; *between* these works an operator."""
    b = TraceBuilder("NVIDIA H100 80GB HBM3")
    for _ in range(4):
        with b.step():
            product(b, product_us)
            for _ in range(copies):
                viewed(b)
                copied(b, shape, strides, us, by=by)
            if between:
                product(b)
            viewed(b)
            attention(b)
            b.sync()
    return b


# Three copies of 100 us in a step of 1.8 ms.
@fires(cost_ms=0.3, occurrences=4, severity="high", op="aten::contiguous")
def queries_keys_and_values_made_contiguous() -> TraceBuilder:
    return layer()


@fires(cost_ms=0.2, occurrences=4)
def heads_that_are_repeated_for_their_queries() -> TraceBuilder:
    return layer(2, shape=SHARED, strides=AGAIN, by="aten::reshape")


def repeated(by: str, shape: list[int]) -> TraceBuilder:
    """Steps in which keys and values of two heads are repeated for sixteen, by one operator each."""
    b = TraceBuilder("NVIDIA H100 80GB HBM3")
    for _ in range(4):
        with b.step():
            product(b)
            for _ in range(2):
                with (
                    b.op(by, shapes=[shape, [], []], dtypes=[BF16, "Scalar", "Scalar"]),
                    b.op("aten::clone", shapes=[SHARED], dtypes=[BF16], strides=[AGAIN]),
                    b.op("aten::copy_", shapes=[SHARED, SHARED], dtypes=[BF16, BF16]),
                ):
                    b.kernel(COPY, us=100)
                viewed(b)
            attention(b)
            b.sync()
    return b


# The call that Python makes has the shape of the few heads; what it writes is as large as the operand.
@fires(cost_ms=0.2, occurrences=4, op="aten::repeat_interleave")
def heads_repeated_by_repeat_interleave() -> TraceBuilder:
    return repeated("aten::repeat_interleave", [16, 2, 1024, 64])


@fires(cost_ms=0.2, occurrences=4, op="aten::repeat")
def heads_repeated_in_a_dimension_of_their_own() -> TraceBuilder:
    return repeated("aten::repeat", [16, 2, 1, 1024, 64])


# All heads in turn, 0 1 0 1: enable_gqa gives each head to its neighbours, 0 0 1 1.
@quiet
def heads_repeated_in_turn() -> TraceBuilder:
    return repeated("aten::repeat", [16, 2, 1024, 64])


@quiet
def sequences_repeated_for_a_batch() -> TraceBuilder:
    return repeated("aten::repeat_interleave", [2, 16, 1024, 64])


@quiet
def an_attention_on_views() -> TraceBuilder:
    return layer(0)


@quiet
def copies_of_what_is_computed_on_before_the_attention() -> TraceBuilder:
    return layer(between=True)


# What the kernels cannot read has to be copied.
@quiet
def operands_whose_last_dimension_is_not_contiguous() -> TraceBuilder:
    return layer(strides=[1048576, 65536, 1, 1024])


@quiet
def copies_of_something_else() -> TraceBuilder:
    return layer(shape=[16, 1, 1024, 64], strides=[65536, 65536, 64, 1])


# Of one copy of 36 us 0.85 are the middle of what goes: of a step of 1.8 ms 1.7 percent.
@edge
def two_percent_of_the_step(over: bool) -> TraceBuilder:
    return layer(1, 36, product_us=1200 if over else 1350)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    b = TraceBuilder("NVIDIA H100 80GB HBM3", record_shapes=False)
    with b.step():
        product(b)
        copied(b, HEADS, VIEW, 100)
        attention(b)
    return b


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::scaled_dot_product_attention", shapes=HEADS)


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone(FLASH)
