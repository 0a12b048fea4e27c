"""What sync/scalar-readback says, and where it is silent."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(
    bubble_us: int = 1000,
    *,
    work_us: int = 8000,
    reads: int = 1,
    every: int = 1,
    count: int = 4,
    op: str = "item",
    ahead: bool = False,
) -> TraceBuilder:
    """Steps of 8 ms of kernels, a value read back, 1 ms in which the host launches nothing, and another ms of kernels."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(count):
        with b.step(), b.python("train.py(61): train"):
            first = b.kernel("volta_sgemm_128x64_nn", us=work_us)
            for _ in range(reads if number % every == 0 else 0):
                if ahead:
                    b.kernel("volta_sgemm_128x64_nn", us=2 * bubble_us, stream=20, after=[first])
                if op == "item":
                    b.item()
                elif op == "copy":
                    b.copy("DtoH", 4, us=1)
                else:
                    with b.op(op):
                        b.copy("DtoH", 8, us=1, op=None)
            with b.op("aten::add", us=bubble_us):
                pass
            b.kernel("volta_sgemm_128x64_nn", us=999)
            with b.op("aten::mul", us=999):
                pass
    return b


# In each step the device idles for 1 ms behind the read, of 8 + 0.001 + 1 + 0.999 = 10 ms.
@fires(cost_ms=1.0, cost_share=0.1, occurrences=4, severity="high", line="train.py:61")
def loss_item_in_every_step() -> TraceBuilder:
    return steps()


@fires(cost_ms=1.0, occurrences=4)
def a_mask_whose_size_is_read() -> TraceBuilder:
    return steps(op="aten::nonzero")


@quiet
def nothing_is_read() -> TraceBuilder:
    return steps(reads=0)


@quiet
def a_copy_that_is_no_scalar() -> TraceBuilder:
    return steps(op="copy")


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
    b = TraceBuilder(None)
    with b.step(), b.op("aten::item"):
        b.idle(ms=1)
    return b


@lacks("host")
def no_host() -> TraceBuilder:
    b = TraceBuilder()
    b.kernel("volta_sgemm_128x64_nn", ms=90, launched=False)
    return b
