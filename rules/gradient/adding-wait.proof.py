"""Proof of gradient/adding-wait: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>>"
)
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, at::detail::Array<char*, 1>>"


def steps(
    adds: int = 100,
    *,
    fills: int = 100,
    passes: int = 1,
    work_us: int = 16_000,
    queued_us: int = 0,
    node: str = "torch::autograd::AccumulateGrad",
) -> TraceBuilder:
    """Four steps of *fills* of 1 us behind the product of a forward pass, and as many backward passes, that add *adds* gradients
    at 20 us of the host each: the device works for one of them, once it has no more of *queued_us* to do."""
    b = TraceBuilder(host_us=1, latency_us=0)
    for _ in range(4):
        with b.step():
            b.kernel("ampere_sgemm_128x64_nn", us=work_us)
            with b.annotation("Optimizer.zero_grad#SGD.zero_grad"):
                for _ in range(fills):
                    with b.op("aten::zero_"), b.op("aten::fill_"):
                        b.kernel(FILL, us=1)
            b.sync(us=0)
            for number in range(passes):
                if queued_us:
                    b.kernel("ampere_sgemm_128x64_nn", us=queued_us)
                for seq in range(adds):
                    with b.backward(node, seq=number * adds + seq):
                        b.idle(us=12)
                        with b.op("aten::add_"):
                            b.kernel(ADD, us=1)
                        b.idle(us=7)
            b.sync(us=0)
    return b


# What lies before the first addition of a step is the wait's; before the others the device idles for 19 us each.
@fires(cost_ms=99 * 0.019, occurrences=396, severity="high", op="torch::autograd::AccumulateGrad")
def an_addition_for_every_gradient() -> TraceBuilder:
    return steps(work_us=6_000)


@quiet
def gradients_of_two_micro_batches() -> TraceBuilder:
    return steps(passes=2)


@quiet
def gradients_that_were_dropped() -> TraceBuilder:
    return steps(fills=0)


@quiet
def additions_of_the_model() -> TraceBuilder:
    return steps(node="AddBackward0")


@quiet
def the_host_is_ahead() -> TraceBuilder:
    return steps(queued_us=4_000)


@edge
def three_in_a_hundred_and_fifty_of_the_step(over: bool) -> TraceBuilder:
    # 55 % of it are low from 1 % on: a fiftieth of the step is 1.1 %.
    return steps(work_us=60_000 if over else 120_000)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::add_")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone(ADD)
