"""Proof of kernels/single-tensor-optimizer: traces on which it fires, and traces on which it does not."""

from advisor.reading.program_settings import Optimizer
from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

SINGLE_TENSOR = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>"
MULTI_TENSOR = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpScalarFunctor>"
)

MOMENTUM = ("aten::mul_", "aten::add_", "aten::add_")


def training(
    kernels: int = 120,
    us: float = 8,
    *,
    product_us: float = 2000,
    name: str = SINGLE_TENSOR,
    extra: str = "",
    ops: tuple[str, ...] = MOMENTUM,
) -> TraceBuilder:
    """Steps of a product, and of an optimizer's kernels, as long as they take the host to launch."""
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    for _ in range(4):
        with b.step():
            with b.op("aten::mm"):
                b.kernel("ampere_sgemm_128x64_tn", us=product_us)
            with b.annotation("Optimizer.step#SGD.step"):
                for number in range(kernels):
                    with b.op(ops[number % len(ops)]):
                        b.kernel(name, us=us)
                if extra:
                    with b.op("aten::mm"):
                        b.kernel(extra, us=us)
            b.sync()
    return b


# 120 kernels of 8 us in each step.
@fires(cost_ms=0.96, occurrences=480, severity="high", op="aten::add_")
def one_kernel_per_parameter() -> TraceBuilder:
    return training()


# One operator a parameter moves the same bytes fused: at most 3 of 8 us go, and 1.3 cautiously. Of 2.96 ms a step 0.36 and 0.16.
@fires(cost_ms=0.96, severity="medium", op="aten::add_")
def plain_sgd() -> TraceBuilder:
    return training(ops=("aten::add_",))


@quiet
def the_foreach_form() -> TraceBuilder:
    return training(12, 80, name=MULTI_TENSOR)


@quiet
def an_optimizer_that_multiplies_matrices() -> TraceBuilder:
    return training(extra="ampere_sgemm_128x64_tn")


@quiet
def as_many_kernels_outside_the_optimizer() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    with b.step():
        for _ in range(120):
            with b.op("aten::add_"):
                b.kernel(SINGLE_TENSOR, us=8)
    return b


@edge
def a_hundred_kernels_in_a_step(over: bool) -> TraceBuilder:
    return training(100 if over else 99)


# 0.3 % of 100 ms and a little is 0.3 ms: 120 of 2.7 us or of 2.3.
@edge
def three_thousandths_of_the_step(over: bool) -> TraceBuilder:
    return training(us=2.7 if over else 2.3, product_us=100_000)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone(annotation="Optimizer.step#SGD.step")


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone(SINGLE_TENSOR)


@fires(cost_ms=0.96, setting="SGD(foreach=False) at train.py:50 → fused=True")
def an_optimizer_whose_foreach_was_turned_off() -> TraceBuilder:
    return training().ran_with(optimizers=[Optimizer("SGD", foreach=False, file="train.py", line=50)])


# It has no fused form.
@fires(cost_ms=0.96, setting="RMSprop(foreach=False) → True")
def one_without_a_fused_form() -> TraceBuilder:
    return training().ran_with(optimizers=[Optimizer("RMSprop", foreach=False)])
