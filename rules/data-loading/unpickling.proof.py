"""Proof of data-loading/unpickling: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import kernels

LOADS = "<built-in function loads>"


def steps(
    loads_us: int = 2000,
    rest_us: int = 200,
    *,
    work_us: int = 17_800,
    workers: int = 4,
    ahead_ms: int = 0,
    times: int = 4,
    stacks: bool = True,
    device: str | None = "Tesla V100-SXM2-16GB",
) -> TraceBuilder:
    """Steps of a batch that is unpickled in the loop, and a product."""
    b = TraceBuilder(device, host_us=0, latency_us=0, with_stack=stacks)
    for number in range(4):
        with b.step(), b.python("train.py(9): main"):
            if ahead_ms:
                b.kernel("volta_sgemm_128x64_nn", ms=ahead_ms)
            with b.loader(workers=workers):
                b.idle(us=rest_us)
                if number < times:
                    with b.python(LOADS):
                        b.idle(us=loads_us)
                else:
                    b.idle(us=loads_us)
            with b.op("aten::mm", us=work_us):
                b.kernel("volta_sgemm_128x64_nn", us=work_us)
    return b


# 2.2 of 20 ms in each step.
@fires(cost_ms=2.2, cost_share=0.11, occurrences=4)
def unpickled_in_every_step() -> TraceBuilder:
    return steps()


@fires(cost_ms=2.2, occurrences=4)
def on_amd() -> TraceBuilder:
    return steps(device="AMD Instinct MI300X")


@quiet
def a_batch_that_comes_late() -> TraceBuilder:
    return steps(200, 2000)


@quiet
def while_the_device_works() -> TraceBuilder:
    return steps(ahead_ms=4)


@quiet
def in_the_main_process() -> TraceBuilder:
    return steps(workers=0)


@edge
def half_of_the_wait(over: bool) -> TraceBuilder:
    return steps(1010 if over else 990, 990 if over else 1010)


@edge
def two_waits(over: bool) -> TraceBuilder:
    return steps(times=2 if over else 1)


@lacks("stacks")
def no_python_recorded() -> TraceBuilder:
    return steps(stacks=False)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    b = TraceBuilder(None, with_stack=True)
    with b.step(), b.python("train.py(9): main"), b.loader(ms=20, workers=4):
        pass
    return b


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")


@lacks("loader", verdict="not_applicable")
def no_loader() -> TraceBuilder:
    return kernels(("volta_sgemm_128x64_nn", 20_000))
