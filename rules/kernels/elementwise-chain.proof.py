"""Proof of kernels/elementwise-chain: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GPU = "NVIDIA A100-PCIE-40GB"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>"
PRODUCT = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
OPERATORS = ("aten::mul", "aten::add")


def steps(chain: int = 4, us: float = 100, *, product_us: float = 600, name: str = POINTWISE) -> TraceBuilder:
    """Steps of a product, and of pointwise kernels one behind the other."""
    b = TraceBuilder(GPU)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm"):
                b.kernel(PRODUCT, us=product_us)
            for number in range(chain):
                with b.op(OPERATORS[number % 2]):
                    b.kernel(name, us=us)
            b.sync()
    return b


# Four kernels of 100 us in each step.
@fires(cost_ms=0.4, occurrences=16, severity="high", op="aten::mul")
def four_pointwise_kernels_in_a_row() -> TraceBuilder:
    return steps()


@quiet
def the_chain_compiled_into_one_kernel() -> TraceBuilder:
    return steps(1, name="triton_poi_fused_mul_0")


@quiet
def as_many_with_a_product_behind_each() -> TraceBuilder:
    b = TraceBuilder(GPU)
    for _ in range(4):
        with b.step():
            for _ in range(4):
                with b.op("aten::mm"):
                    b.kernel(PRODUCT, us=150)
                with b.op("aten::mul"):
                    b.kernel(POINTWISE, us=100)
    return b


# One operator on a hundred parameters: nothing that one launch wrote is read by the next.
@quiet
def one_operator_on_every_parameter() -> TraceBuilder:
    b = TraceBuilder(GPU)
    for _ in range(4):
        with b.step():
            for _ in range(100):
                with b.op("aten::add_", shapes=[[512, 512], [512, 512]], dtypes=["float"] * 2):
                    b.kernel(POINTWISE, us=10)
    return b


# A moving average of weights and biases in turn: two launches belong to one tensor.
@quiet
def two_operators_on_every_parameter() -> TraceBuilder:
    b = TraceBuilder(GPU)
    for _ in range(4):
        with b.step():
            for number in range(50):
                shape = [512, 512] if number % 2 else [512]
                for op in ("aten::mul_", "aten::add_"):
                    with b.op(op, shapes=[shape, shape], dtypes=["float"] * 2):
                        b.kernel(POINTWISE, us=10)
    return b


# Scaled, shifted by a bias that is broadcast, activated, cut in two: 4 kernels of 100 us.
@fires(cost_ms=0.4, occurrences=16)
def a_chain_through_broadcast_and_parts() -> TraceBuilder:
    b = TraceBuilder(GPU)
    whole, half = [64, 1024], [64, 512]
    for _ in range(4):
        with b.step():
            for op, shapes in (
                ("aten::mul", [whole, []]),
                ("aten::add", [[1024], whole]),
                ("aten::sigmoid", [half]),
                ("aten::mul", [half, half]),
            ):
                with b.op(op, shapes=shapes, dtypes=["float"] * len(shapes)):
                    b.kernel(POINTWISE, us=100)
    return b


Call = tuple[str, str, list[Any]]


def layers(calls: list[Call]) -> TraceBuilder:
    """Steps of a product of 600 us, and of calls with a kernel of 100 us each."""
    b = TraceBuilder(GPU)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", shapes=[[2048, 1024], [1024, 4096]], dtypes=["c10::BFloat16"] * 2):
                b.kernel(PRODUCT, us=600)
            for op, kernel, shapes in calls:
                with b.op(op, shapes=shapes, dtypes=["c10::BFloat16"] * len(shapes)):
                    b.kernel(kernel, us=100)
            b.sync()
    return b


REDUCTION = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>>>"
JOIN = (
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::OpaqueType<2u>, unsigned int, 4, 64, 64>"
)
ROWS, ONE = [4, 512, 1024], [4, 512, 1]


# pow, mean, add, rsqrt, mul, mul: 6 kernels of 100 us, the mean among them.
@fires(cost_ms=0.6, occurrences=24, severity="high")
def an_rms_norm_by_hand() -> TraceBuilder:
    return layers(
        [
            ("aten::pow", POINTWISE, [ROWS]),
            ("aten::mean", REDUCTION, [ROWS]),
            ("aten::add", POINTWISE, [ONE]),
            ("aten::rsqrt", POINTWISE, [ONE]),
            ("aten::mul", POINTWISE, [ROWS, ONE]),
            ("aten::mul", POINTWISE, [[1024], ROWS]),
        ]
    )


# The mean of a loss is broadcast over nothing: it ends the chain of two in front of it, and none is left.
@quiet
def the_mean_of_a_loss() -> TraceBuilder:
    return layers(
        [
            ("aten::sub", POINTWISE, [ROWS, ROWS]),
            ("aten::pow", POINTWISE, [ROWS]),
            ("aten::mean", REDUCTION, [ROWS]),
            ("aten::add", POINTWISE, [[1], [1]]),
            ("aten::mul", POINTWISE, [[1], [1]]),
        ]
    )


HEADS, HALF, TABLE = [4, 16, 512, 64], [4, 16, 512, 32], [1, 1, 512, 64]


# mul, neg, cat, mul, add: 5 of 100 us.
@fires(cost_ms=0.5, occurrences=20, severity="high")
def a_rotary_embedding() -> TraceBuilder:
    return layers(
        [
            ("aten::mul", POINTWISE, [HEADS, TABLE]),
            ("aten::neg", POINTWISE, [HALF]),
            ("aten::cat", JOIN, [[HALF, HALF], []]),
            ("aten::mul", POINTWISE, [HEADS, TABLE]),
            ("aten::add", POINTWISE, [HEADS, HEADS]),
        ]
    )


# A chain of two on each side of a concatenation of something else's parts, which ends both.
@quiet
def a_concatenation_of_other_tensors() -> TraceBuilder:
    return layers(
        [
            ("aten::mul", POINTWISE, [HEADS, TABLE]),
            ("aten::neg", POINTWISE, [HEADS]),
            ("aten::cat", JOIN, [[[7, 11], [7, 11]], []]),
            ("aten::mul", POINTWISE, [[14, 11], [14, 11]]),
            ("aten::add", POINTWISE, [[14, 11], [14, 11]]),
        ]
    )


def gated(width: int) -> TraceBuilder:
    """Steps of an activation, a product into *width*, a multiplication and a product, of 100 us each."""
    hidden = [2048, 4096]
    return layers(
        [
            ("aten::silu", POINTWISE, [hidden]),
            ("aten::mm", PRODUCT, [[2048, width], [width, 4096]]),
            ("aten::mul", POINTWISE, [hidden, hidden]),
            ("aten::mm", PRODUCT, [hidden, [4096, 1024]]),
        ]
    )


# silu(x @ a) * (x @ b): the second product takes x, and cannot read what silu wrote. 2 of 100 us.
@fires(cost_ms=0.2, occurrences=8)
def a_gate_around_a_product() -> TraceBuilder:
    return gated(1024)


# The product between them takes what silu wrote: nothing to fuse without it.
@quiet
def an_activation_that_goes_into_the_product() -> TraceBuilder:
    return gated(4096)


@quiet
def the_optimizer_s_own_chain() -> TraceBuilder:
    b = TraceBuilder(GPU)
    for _ in range(4):
        with b.step(), b.annotation("Optimizer.step#SGD.step"):
            for _ in range(4):
                with b.op("aten::mul_"):
                    b.kernel(POINTWISE, us=100)
    return b


@edge
def three_in_a_row(over: bool) -> TraceBuilder:
    return steps(3 if over else 2, us=200)


# 120 of 1,180 us are 10.2 % of the kernel time, 120 of 1,220 are 9.8 %.
@edge
def pointwise_work_of_10_percent(over: bool) -> TraceBuilder:
    return steps(us=30, product_us=1060 if over else 1100)


def started(load_us: int, product_us: float) -> TraceBuilder:
    """Without steps: the first launch loads its kernel, then four products with a chain of 1 ms behind each."""
    b = TraceBuilder(GPU, host_us=0, latency_us=0)
    b.kernel(PRODUCT, us=10)
    for number in range(4):
        with b.op("aten::mm"):
            b.kernel(f"{PRODUCT}_tn", us=product_us, host_us=0 if number else load_us)
        for at in range(4):
            with b.op(OPERATORS[at % 2]):
                b.kernel(POINTWISE if at % 2 else POINTWISE.replace("Mul", "Add"), us=250)
        b.sync(us=0)
    return b


# Of 60 ms, 40 are the loading: 4 ms of chains are a fifth of the 20 ms of steady work.
# A chain of four returns 0.75 of its time at most, three links of four: the middle of that is 10.9 % of the step.
@fires(cost_share=0.2, severity="high")
def shares_are_of_steady_work() -> TraceBuilder:
    return started(40_000, 4000)


# Of 59.9 ms, 50 are the loading; however little is left, it is what is judged: 4 of 9.9 ms.
@fires(cost_share=0.404, severity="high")
def however_little_is_left_without_start_up() -> TraceBuilder:
    return started(50_000, 1475)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::mul", device=GPU)
