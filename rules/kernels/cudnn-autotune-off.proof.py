"""Proof of kernels/cudnn-autotune-off: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GENERAL = "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false, false, true>"
PRODUCT = "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_nn"


def training(
    us: float = 300,
    name: str = GENERAL,
    *,
    steps: int = 4,
    varying: bool = False,
    shapes: bool = True,
    annotated: bool = True,
    device: str = "Tesla T4",
) -> TraceBuilder:
    """Steps of a product of 700 us on Tensor Cores, and a convolution; of another width in each step where *varying*."""
    b = TraceBuilder(device, record_shapes=shapes)

    def step(number: int) -> None:
        width = 224 + 8 * number if varying else 224
        with b.op("aten::mm"):
            b.kernel(PRODUCT, us=700)
        with b.op("aten::conv2d"), b.op("aten::cudnn_convolution", shapes=[[32, 64, 224, width], [64, 64, 3, 3]]):
            b.kernel(name, us=us)
        b.sync()

    for number in range(steps):
        if annotated:
            with b.step():
                step(number)
        else:
            step(number)
    return b


# One convolution of 300 us in each step.
@fires(cost_ms=0.3, occurrences=4, severity="low", op="aten::cudnn_convolution")
def a_general_algorithm_for_a_fixed_shape() -> TraceBuilder:
    return training()


@quiet
def an_algorithm_made_for_the_shape() -> TraceBuilder:
    return training(name="turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu_f2f_exp_interior_nhwc_tn_v1")


@quiet
def shapes_that_vary() -> TraceBuilder:
    return training(varying=True)


@quiet("not_applicable")
def a_gpu_of_another_maker() -> TraceBuilder:
    return training(device="AMD Instinct MI300X")


# 5 % of 747 us and what the host takes, about 765, is 38.
@edge
def five_percent_of_the_step(over: bool) -> TraceBuilder:
    return training(42 if over else 34)


@edge
def two_steps(over: bool) -> TraceBuilder:
    return training(steps=2 if over else 1)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("steps")
def no_steps_recorded() -> TraceBuilder:
    return training(annotated=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::conv2d", shapes=[[1, 3, 8, 8]], device="Tesla T4")


@fires(cost_ms=0.3, setting="torch.backends.cudnn.benchmark=False → True")
def a_search_known_to_be_off() -> TraceBuilder:
    return training().ran_with(cudnn_benchmark=False)


@fires(cost_ms=0.3, setting="torch.backends.cudnn.benchmark=False")
def a_search_that_determinism_forbids() -> TraceBuilder:
    return training().ran_with(cudnn_benchmark=False, deterministic=True)


# These algorithms have won the search.
@quiet
def a_search_known_to_be_on() -> TraceBuilder:
    return training().ran_with(cudnn_benchmark=True)


# The search times each algorithm with events, inside the convolution.
@quiet
def a_search_that_was_recorded() -> TraceBuilder:
    b = TraceBuilder("Tesla T4", record_shapes=True)
    for number in range(4):
        with b.step():
            with b.op("aten::mm"):
                b.kernel(PRODUCT, us=700)
            with b.op("aten::conv2d"), b.op("aten::cudnn_convolution", shapes=[[32, 64, 224, 224], [64, 64, 3, 3]]):
                if not number:
                    b.call("cudaEventElapsedTime", us=5)
                b.kernel(GENERAL, us=300)
            b.sync()
    return b
