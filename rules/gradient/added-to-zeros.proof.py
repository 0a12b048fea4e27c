"""Proof of gradient/added-to-zeros: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>>"
)
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, at::detail::Array<char*, 1>>"
NODE = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


def steps(adds: int = 60, *, fills: int = 60, passes: int = 1, work_us: int = 8_800, node: str = NODE) -> TraceBuilder:
    """Four steps of *fills* of 10 us in zero_grad, *work_us* of a product, and as many backward passes that add *adds* gradients,
    10 us each."""
    b = TraceBuilder(host_us=1, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.annotation("Optimizer.zero_grad#SGD.zero_grad"):
                for _ in range(fills):
                    with b.op("aten::zero_"), b.op("aten::fill_"):
                        b.kernel(FILL, us=10)
            for _ in range(passes):
                with b.op("aten::mm"):
                    b.kernel("ampere_sgemm_128x64_nn", us=work_us)
                for _ in range(adds):
                    with b.op(node), b.op("torch::autograd::AccumulateGrad"), b.op("aten::add_"):
                        b.kernel(ADD, us=10)
            b.sync(us=0)
    return b


# 60 x 10 us of 10 ms a step.
@fires(cost_ms=0.6, cost_share=0.06, occurrences=240, severity="medium", op="aten::add_")
def a_gradient_for_each_parameter() -> TraceBuilder:
    return steps()


# Nothing was zeroed: the gradients were dropped, and what is added are those of a parameter used twice.
@quiet
def parameters_that_are_used_twice() -> TraceBuilder:
    return steps(fills=0)


# Two passes add up their gradients: the second addition is meant, and which is which nobody can tell.
@quiet
def gradients_of_two_micro_batches() -> TraceBuilder:
    return steps(passes=2)


@quiet
def additions_of_the_model() -> TraceBuilder:
    return steps(node="autograd::engine::evaluate_function: AddBackward0")


@edge
def a_thousandth_of_the_step(over: bool) -> TraceBuilder:
    # One addition of 10 us: beside 9.6 ms and a fill of 10 us 0.104 %, beside 12 ms 0.083 %.
    return steps(1, fills=1, work_us=9_600 if over else 12_000)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::add_")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone(ADD)
