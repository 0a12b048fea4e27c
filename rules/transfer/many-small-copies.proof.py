"""Proof of transfer/many-small-copies: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import copies_unsaid, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(
    count: int = 60, *, us: float = 10, nbytes: int = 512, op: str = "aten::copy_", hidden: bool = False
) -> TraceBuilder:
    """Three steps of exactly 10 ms: small pinned copies of *us* one after the other, and a kernel for the rest (or for all)."""
    b = TraceBuilder(host_us=1, latency_us=0)
    for number in range(3):
        start = 10_000 * number
        with b.step():
            for copy in range(count):
                b.copy("HtoD", nbytes, us=us, pinned=True, op=op, stream=20, at_us=start + 10 + copy * us)
            with b.op("aten::mm"):
                delay_us = 10 if hidden else 10 + count * us
                b.kernel("volta_sgemm_128x64_nn", us=10_000 - delay_us, at_us=start + delay_us)
            b.sync("cudaDeviceSynchronize")  # the host waits for the GPU, which sets the pace
            b.seek(us=start + 10_000)
    return b


@fires(cost_ms=0.6, cost_share=0.06, occurrences=180, severity="medium")  # 60 copies of 10 us, which nothing hides
def index_tensors_sent_one_by_one() -> TraceBuilder:
    return steps()


@quiet
def one_copy_of_all() -> TraceBuilder:
    return steps(1, us=10, nbytes=60 * 512)


@quiet
def behind_a_kernel() -> TraceBuilder:
    return steps(hidden=True)


@quiet
def scalars_read_back_are_another_rules() -> TraceBuilder:
    return steps(op="aten::_local_scalar_dense")


@edge
def fifty_a_step(over: bool) -> TraceBuilder:
    return steps(50 if over else 49)


@edge
def up_to_64_kib(over: bool) -> TraceBuilder:
    return steps(nbytes=65536 if over else 65537)


# 60 samples of 12 KiB, each copied by itself and stacked on the GPU.
@fires(cost_ms=0.6, cost_share=0.06, occurrences=180, severity="medium")
def the_samples_of_a_batch_copied_one_by_one() -> TraceBuilder:
    return steps(nbytes=12288)


@edge
def a_hundredth_of_the_step(over: bool) -> TraceBuilder:
    return steps(50, us=2.02 if over else 1.97)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::copy_")


@lacks("bytes_copied")
def copies_that_do_not_say_how_large_they_are() -> TraceBuilder:
    return copies_unsaid()
