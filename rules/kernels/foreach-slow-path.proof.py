"""Proof of kernels/foreach-slow-path: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

FAST = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<1>, BinaryOpScalarFunctor>"
SLOW = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>"


def steps(
    tensors: int = 50,
    *,
    host_us: float = 20,
    work_us: int = 9_000,
    slow: bool = True,
    on_gpu: bool = True,
    op: str = "aten::mul_",
) -> TraceBuilder:
    """Steps of a product, and of a foreach call on so many tensors: an operator and a kernel of 1 us each if *slow*."""
    b = TraceBuilder(host_us=1, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm"):
                b.kernel("ampere_sgemm_128x64_nn", us=work_us)
            b.sync(us=0)
            with b.annotation("Optimizer.step#Own.step"), b.op("aten::_foreach_mul_"):
                for _ in range(tensors if slow else 1):
                    with b.op(op if slow else "aten::empty"):
                        b.idle(us=host_us - 1)
                        if on_gpu and slow:
                            b.kernel(SLOW, us=1)
                        else:
                            b.idle(us=1)
                if not slow:
                    b.kernel(FAST, us=tensors)
            b.sync(us=0)
    return b


# Of 50 x 20 us the device works for one us each; before the first it waits for the host's wait to end.
@fires(occurrences=204, cost_ms=49 * 0.019, severity="medium", op="aten::mul_")
def one_operator_for_each_tensor() -> TraceBuilder:
    return steps()


@quiet
def the_fast_path() -> TraceBuilder:
    return steps(slow=False)


# Memory for the result, and what else a call needs, is none of its kind.
@quiet
def other_operators_inside() -> TraceBuilder:
    return steps(op="aten::empty_like")


@quiet
def tensors_on_the_cpu() -> TraceBuilder:
    return steps(on_gpu=False)


@edge
def ten_tensors(over: bool) -> TraceBuilder:
    return steps(10 if over else 9, host_us=100)


@edge
def a_fiftieth_of_the_window(over: bool) -> TraceBuilder:
    # 1 ms of the host in 47 ms or in 60.
    return steps(work_us=46_000 if over else 59_000)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::_foreach_mul_", annotation="Optimizer.step#Own.step")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone(SLOW)
