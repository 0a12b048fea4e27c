"""Proof of sync/scalar-readback: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import Part, stalled


def nonzero(b: TraceBuilder) -> None:
    """The size of the result is read back."""
    with b.op("aten::nonzero"):
        b.copy("DtoH", 8, us=1, op=None)


def steps(bubble_us: int = 1000, *, read: Part | None = TraceBuilder.item, **options: Any) -> TraceBuilder:
    """Steps of 10 ms, 1 of them behind a value that is read back in 1 us; *options* are those of ``stalled``."""
    return stalled(read, bubble_us, last_us=999, **options)


# In each step the device idles for 1 ms behind the read, of 8 + 0.001 + 1 + 0.999 = 10 ms.
@fires(cost_ms=1.0, cost_share=0.1, occurrences=4, severity="high", line="train.py:61")
def loss_item_in_every_step() -> TraceBuilder:
    return steps()


@fires(cost_ms=1.0, occurrences=4)
def a_mask_whose_size_is_read() -> TraceBuilder:
    return steps(read=nonzero)


@quiet
def nothing_is_read() -> TraceBuilder:
    return steps(read=None)


@quiet
def a_copy_that_is_no_scalar() -> TraceBuilder:
    return steps(read=lambda b: b.copy("DtoH", 4, us=1))


# The value is waited for, but another stream has work for as long as the host needs.
@quiet
def the_device_has_other_work() -> TraceBuilder:
    return steps(ahead=True)


@edge
def one_read_per_step(over: bool) -> TraceBuilder:
    return steps(every=1 if over else 2)


@edge
def one_per_cent_of_the_step(over: bool) -> TraceBuilder:
    # Behind 19 ms of kernels, with 1 more: 205 us are 1.01 % of the step, 195 us 0.97 %.
    return steps(205 if over else 195, work_us=19_000)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::item")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
