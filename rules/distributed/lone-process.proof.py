"""Proof of distributed/lone-process: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

SCALE, COPY = "torch::distributed::reducer::mul_out", "torch.distributed.ddp.reducer::copy_bucket_to_grad"
KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor>"


def backward(gradients: int, *, world_size: int = 1, steps: int = 2) -> TraceBuilder:
    """Steps of a DDP model of 1 ms: *gradients* in all are scaled into a bucket, and copied back, 10 us of the GPU each."""
    b = TraceBuilder("NVIDIA A100-SXM4-80GB", rank=0, world_size=world_size)
    for number in range(steps):
        with b.step():
            with b.op("DistributedDataParallel.forward"), b.op("aten::mm", seq=number):
                b.kernel("ampere_sgemm_128x64_tn", us=500)
            with b.op("MmBackward0", seq=number, fwd_thread=1):
                b.kernel("ampere_sgemm_128x64_nt", us=500)
            for _ in range(gradients // steps + (number < gradients % steps)):
                for name in (SCALE, COPY):
                    with b.op(name), b.op("aten::copy_"):
                        b.kernel(KERNEL, us=10)
            with b.op("c10d::allreduce_"):
                b.collective("all_reduce", 4_000_000, us=2)
    return b


# 16 gradients in each of two steps, each scaled and copied: 320 us of a step of some 1.3 ms.
@fires(occurrences=64, severity="high", cost_ms=0.32)
def each_gradient_passes_through_a_bucket() -> TraceBuilder:
    return backward(32)


@quiet(verdict="not_applicable")
def two_processes_exchange_them() -> TraceBuilder:
    return backward(32, world_size=2)


@quiet
def a_reducer_that_does_nothing() -> TraceBuilder:
    return backward(0)


@edge
def one_operator_a_step(over: bool) -> TraceBuilder:
    b = backward(0)
    for number in range(2):
        with b.step():
            if over or number:
                with b.op(SCALE), b.op("aten::mul"):
                    b.kernel(KERNEL, us=100)
                with b.op(SCALE), b.op("aten::mul"):
                    b.kernel(KERNEL, us=100)
    return b


@quiet(verdict="not_applicable")
def a_program_without_a_process_group() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-SXM4-80GB")
    with b.step(), b.op("MmBackward0", seq=1, fwd_thread=1):
        b.kernel("ampere_sgemm_128x64_nt", us=500)
    return b


@lacks("host", verdict="not_applicable")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone(KERNEL)
