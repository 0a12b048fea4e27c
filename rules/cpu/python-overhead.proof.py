"""Proof of cpu/python-overhead: traces on which it fires, and traces on which it does not."""

from contextlib import nullcontext

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def loop(
    python_us: int = 200, *, inside: str = "", op_us: int = 0, pieces: int = 2, steps: int = 4, with_stack: bool = True
) -> TraceBuilder:
    """Pieces of Python before kernels of 300 us, with nothing queued: in the loop, in a module or in the optimizer."""
    b = TraceBuilder(host_us=0, latency_us=0, with_stack=with_stack)
    around = {
        "module": lambda: b.module("Net_0"),
        "optimizer": lambda: b.annotation("Optimizer.step#SGD.step"),
        "profiler": lambda: b.python("torch/profiler/profiler.py(880): step"),
    }.get(inside, nullcontext)
    for _ in range(steps):
        with b.step(), b.python("train.py(10): main"):
            for _ in range(pieces):
                with around(), b.python("metrics.py(31): describe"):
                    b.idle(us=python_us)
                    if op_us:
                        with b.op("aten::empty"):  # computes nothing: idle time of the host
                            b.idle(us=op_us)
                with b.op("aten::mm", us=300):
                    b.kernel("volta_sgemm_128x64_nn", us=300)
    return b


# Twice a step, the device waits 200 us for Python and works 300: 0.4 ms of 1 ms.
@fires(cost_ms=0.4, cost_share=0.4, occurrences=8, severity="high", line="metrics.py:31")
def metrics_between_the_launches() -> TraceBuilder:
    return loop()


@quiet
def the_same_inside_the_model() -> TraceBuilder:
    return loop(inside="module")


@quiet
def the_same_inside_the_optimizer() -> TraceBuilder:
    return loop(inside="optimizer")


@quiet
def the_python_of_the_profiler() -> TraceBuilder:
    return loop(inside="profiler")


@quiet
def once_in_a_recording() -> TraceBuilder:
    return loop(pieces=1, steps=4)


@edge
def gaps_of_50_us(over: bool) -> TraceBuilder:
    return loop(50 if over else 49)


@edge
def half_of_the_gap_is_python(over: bool) -> TraceBuilder:
    return loop(101 if over else 99, op_us=100)


@lacks("stacks")
def no_stacks() -> TraceBuilder:
    return loop(with_stack=False)


@lacks("gpu", verdict="not_applicable")
def no_gpu() -> TraceBuilder:
    b = TraceBuilder(None)
    with b.step(), b.python("train.py(10): main"), b.op("aten::mm"):
        b.idle(ms=1)
    return b


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
