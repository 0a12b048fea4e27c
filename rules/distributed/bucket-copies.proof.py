"""Proof of distributed/bucket-copies: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

COPY = "torch.distributed.ddp.reducer::copy_bucket_to_grad"


def backward(copies: int, *, world_size: int = 2, steps: int = 2, rank: int | None = 0) -> TraceBuilder:
    """Steps of a DDP model, as torch 2.13 writes them: *copies* gradients in all are copied out of their bucket."""
    b = TraceBuilder("NVIDIA A100-SXM4-80GB", rank=rank, world_size=world_size)
    for number in range(steps):
        with b.step():
            with b.op("aten::mm", seq=number):
                b.kernel("ampere_sgemm_128x64_tn", us=500)
            with b.op("MmBackward0", seq=number, fwd_thread=1):
                b.kernel("ampere_sgemm_128x64_nt", us=500)
                b.collective("all_reduce", 4_000_000, us=100)
            for _ in range(copies // steps + (number < copies % steps)):
                with b.op(COPY), b.op("aten::copy_"):
                    b.kernel("void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>", us=3)
    return b


# 16 gradients in each of two steps.
@fires(occurrences=32, severity="note")
def each_gradient_is_copied_back() -> TraceBuilder:
    return backward(32)


@quiet
def gradients_that_are_views_of_the_buckets() -> TraceBuilder:
    return backward(0)


@edge
def one_copy_a_step(over: bool) -> TraceBuilder:
    return backward(2 if over else 1)


@lacks("distributed", verdict="not_applicable")
def a_program_of_one_process() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-SXM4-80GB")
    with b.step(), b.op("MmBackward0", seq=1, fwd_thread=1):
        b.kernel("ampere_sgemm_128x64_nt", us=500)
    return b
