"""Proof of transfer/copy-through-host: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.accelerators import Accelerator
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def copying(copies: int = 5, us: float = 800, *, op: str = "aten::_copy_from", steps: int = 4) -> TraceBuilder:
    """Steps of 10 ms of the device's work and some copies that hold the host; the device idles meanwhile."""
    b = TraceBuilder("NVIDIA A100-SXM4-80GB", host_us=10, latency_us=0, with_stack=False)
    for _ in range(steps):
        with b.step():
            with b.op("aten::mm"):
                b.kernel("some_product", us=10_000)
            b.idle(us=10_000)
            for _ in range(copies):
                with b.op("aten::copy_"), b.op(op, us=us):
                    pass
                with b.op("aten::add"):
                    b.kernel("some_sum", us=10)
    return b


def falling_back(maker: str, op: str, *, waits: bool = True, fills: int = 5, calls: bool = False) -> Accelerator:
    """Steps of 10 ms of an accelerator's work, and fills that run on its host: to it, 8 us a transfer, and back."""
    b = Accelerator(maker, with_stack=False)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm"):
                b.job("fc", 10_000, waits=True)
            for _ in range(fills):
                with b.op("aten::zero_"), b.op(op):
                    for _ in range(2):
                        if calls:
                            b.job("fill", 8, host_us=200, waits=True)
                        else:
                            b.transfer(waits=waits)
                with b.op("aten::add"):
                    b.job("sum", 10, waits=True)
    return b


# Each transfer is waited for 200 us until it begins, ten times a step: 2 ms. The launches' 20 us are the host's.
@fires(cost_ms=2, occurrences=40, severity="medium", op="aten::fill_")
def fills_that_a_backend_has_no_kernel_for() -> Accelerator:
    return falling_back("mtia", "aten::fill_")


@fires(cost_ms=2, occurrences=40, severity="medium", op="aten::_copy_from")
def copies_of_another_accelerator() -> Accelerator:
    return falling_back("mlu", "aten::_copy_from")


# The same time in launches, which are not copies.
@quiet
def fills_that_the_device_runs() -> Accelerator:
    return falling_back("mtia", "aten::fill_", calls=True)


# Five copies of 800 us beside 10 ms of work, in each of four steps; ten us of each are the work before it.
@fires(cost_ms=3.96, cost_share=0.2816, occurrences=20, severity="high", op="aten::_copy_from")
def small_tensors_are_copied_one_by_one() -> TraceBuilder:
    return copying()


@fires(occurrences=40, severity="high")
def twice_as_many_shorter_copies() -> TraceBuilder:
    return copying(10, 400)


@quiet
def a_gpu_of_cuda_copies_by_calls() -> TraceBuilder:
    return copying(op="aten::copy_")


@edge
def four_copies_in_all(over: bool) -> TraceBuilder:
    return copying(1, 2000, steps=4 if over else 3)


@edge
def five_per_cent_of_the_step(over: bool) -> TraceBuilder:
    # 5 copies of some us beside 10.5 ms of work, 50 us of launches and waits: 125 us are 5.6 %, 95 us 4.3 %.
    return copying(5, 125 if over else 95)


@lacks("host")
def kernels_only() -> TraceBuilder:
    return kernels_alone("some_product")


@lacks("gpu", verdict="not_applicable")
def the_host_only() -> TraceBuilder:
    return host_alone()
