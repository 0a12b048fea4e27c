"""Proof of kernels/elementwise-chain: traces on which it fires, and traces on which it does not."""

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
@fires(cost_share=0.2, severity="medium")
def shares_are_of_steady_work() -> TraceBuilder:
    return started(40_000, 4000)


# Of 59.9 ms, 50 are the loading; however little is left, it is what is judged: 4 of 9.9 ms.
@fires(cost_share=0.404, severity="high")
def however_little_is_left_without_start_up() -> TraceBuilder:
    return started(50_000, 1475)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::mul", device=GPU)
