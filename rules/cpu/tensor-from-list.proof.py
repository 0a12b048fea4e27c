"""Proof of cpu/tensor-from-list: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

TENSOR = "<built-in method tensor of type object at 0x7f8cdc0cea40>"


def batches(
    us: int = 500,
    *,
    calls: int = 4,
    name: str = TENSOR,
    device_us: int = 8000,
    ahead: bool = False,
    with_stack: bool = True,
) -> TraceBuilder:
    """Steps in which the host makes *calls* tensors of *us* each, then launches 8 ms of kernels."""
    b = TraceBuilder(host_us=0, latency_us=0, with_stack=with_stack)
    if ahead:
        b.kernel("long", ms=100)
    for _ in range(4):
        with b.step(), b.python("train.py(10): main"):
            for _ in range(calls):
                with b.python("data.py(7): encode"), b.python(name):
                    b.idle(us=us)
                    with b.op("aten::to", us=2):
                        pass
            with b.op("aten::mm", us=device_us):
                b.kernel("volta_sgemm_128x64_nn", us=device_us)
    return b


# Rows are functions by the place that calls them: one, with 16 calls.
@fires(occurrences=1, severity="low", line="data.py:7")
def lists_in_every_step() -> TraceBuilder:
    return batches()


@fires(occurrences=1, line="data.py:7")
def on_a_machine_without_a_gpu() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(4):
        with b.step():
            b.idle(us=10)
            with b.python("data.py(7): encode"), b.python(TENSOR):
                b.idle(us=500)
        with b.op("aten::mm", us=8000):
            pass
    return b


@quiet
def shared_with_the_array() -> TraceBuilder:
    return batches(name="<built-in method from_numpy of type object at 0x7f8cdc0cea40>")


@quiet
def another_method_of_that_name() -> TraceBuilder:
    return batches(name="<built-in method tensor_split of Tensor object at 0x7f8cdc0cea40>")


@quiet
def once_in_the_program() -> TraceBuilder:
    b = batches(0, calls=0)
    with b.step(), b.python("data.py(7): encode"), b.python(TENSOR):
        b.idle(ms=2)
    return b


@quiet
def while_the_device_has_work() -> TraceBuilder:
    return batches(ahead=True)


@edge
def calls_of_20_us(over: bool) -> TraceBuilder:
    return batches(20 if over else 19, calls=100)


@edge
def one_per_cent_of_the_window(over: bool) -> TraceBuilder:
    # Steps of 8 ms of kernels, 0.4 ms of other Python and one call: 86 us of 8.488 ms are 1.01 %, 84 us 0.99 %.
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step(), b.python("data.py(7): encode"):
            b.idle(us=400)
            with b.python(TENSOR):
                b.idle(us=86 if over else 84)
            with b.op("aten::mm", us=8000):
                b.kernel("volta_sgemm_128x64_nn", us=8000)
    return b


@edge
def the_device_waits_for_a_twentieth(over: bool) -> TraceBuilder:
    # 4 x 111 us before 8 ms: 0.452 of 8.452 ms are 5.3 %; before 10 ms 4.3 %.
    return batches(111, device_us=8000 if over else 10_000)


@lacks("stacks")
def no_stacks() -> TraceBuilder:
    return batches(with_stack=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
