"""Proof of cpu/work-off-the-gpu: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(
    us: int = 1000, *, name: str = "aten::argsort", launch: bool = False, queued: bool = False, wait_us: int = 0
) -> TraceBuilder:
    """Four steps: an operator on the host, then 4 ms of work on the GPU, which take the host as long to launch."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step(), b.python("train.py(30): mix"):
            if queued:
                b.kernel("volta_sgemm_128x64_nn", us=us)
            with b.op(name, us=us):
                if launch:
                    b.kernel("radix_sort_kernel", us=1, host_us=us)
            if wait_us:
                b.idle(us=wait_us)
            with b.op("aten::mm", us=4000):
                b.kernel("volta_sgemm_128x64_nn", us=4000)
    return b


# Each step the GPU has nothing to do for the 1 ms of the operator.
@fires(cost_ms=1.0, occurrences=4, severity="high", line="train.py:30", op="aten::argsort")
def a_sort_on_the_host_in_every_step() -> TraceBuilder:
    return steps()


@quiet
def a_sort_that_launches_its_kernel() -> TraceBuilder:
    return steps(launch=True)


@quiet
def a_sort_while_the_gpu_has_work() -> TraceBuilder:
    return steps(queued=True)


@quiet
def a_thread_held_up_in_a_view() -> TraceBuilder:
    return steps(name="aten::view")


# What record_function marks is no operator, whatever its name.
@quiet
def a_thread_held_up_in_a_window_over_a_tensor() -> TraceBuilder:
    return steps(name="aten::unfold")


# The backward of a view writes zeros all around it.
@fires(cost_ms=1.0)
def the_backward_of_a_view() -> TraceBuilder:
    return steps(name="aten::slice_backward")


@quiet
def an_annotation_of_ones_own() -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.annotation("my_model::sort", us=1000):
                pass
            with b.op("aten::mm", us=4000):
                b.kernel("volta_sgemm_128x64_nn", us=4000)
    return b


# A library's own operator is one like torch's.
@fires(cost_ms=1.0, occurrences=4, op="fbgemm::permute_1D_sparse_data")
def an_operator_of_a_librarys_own() -> TraceBuilder:
    return steps(name="fbgemm::permute_1D_sparse_data")


# It claims what its operators last, not the Python around them in the same stretch.
@fires(cost_ms=1.0, cost_share=0.1, occurrences=4)
def python_in_the_same_gap() -> TraceBuilder:
    return steps(wait_us=5000)


@edge
def operators_of_100_us(over: bool) -> TraceBuilder:
    return steps(100 if over else 99)


@edge
def two_per_cent_of_the_step(over: bool) -> TraceBuilder:
    # 120 us of 5,990 us are 2.003 %, of 6,010 us 1.997 %.
    return steps(120, wait_us=1870 if over else 1890)


@lacks("gpu", verdict="not_applicable")
def no_gpu() -> TraceBuilder:
    return host_alone("aten::argsort")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
