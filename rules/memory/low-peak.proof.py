"""Proof of memory/low-peak: traces on which it fires, and traces on which it does not."""

from contextlib import nullcontext

from advisor.reading.program_settings import Loader
from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

DEVICE = 16_000_000_000
MS = 1000


def training(
    share: float = 0.06,
    idle_us: float = 2000,
    *,
    reserved: float = 0.10,
    loader_us: float = 0,
    backward: bool = True,
    memory: bool = True,
    accumulated: int = 1,
) -> TraceBuilder:
    """Four steps of exactly 10 ms: the host's own *idle_us*, a wait for data, and one kernel for the rest."""
    b = TraceBuilder(memory_bytes=DEVICE, profile_memory=memory, host_us=0, latency_us=0)
    b.pool(0, round(reserved * DEVICE))
    for number in range(4):
        start = number * 10 * MS
        with b.step():
            batch = b.memory(round(share * DEVICE))
            with b.loader(us=loader_us) if loader_us else nullcontext():
                pass
            if accumulated > 1:
                with b.op("aten::mul", us=100):
                    pass
            b.seek(us=start + loader_us + idle_us)
            with b.backward("AddmmBackward0", 1) if backward else b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=10 * MS - idle_us - loader_us, at_us=start + loader_us + idle_us)
            b.release(batch)
            if accumulated > 1 and number % accumulated:
                with b.annotation("Optimizer.step#SGD.step"):
                    pass
            b.seek(us=start + 10 * MS)
    return b


@fires(cost_ms=2.0, cost_share=0.2, occurrences=4, severity="low")  # 2 of 10 ms idle, for the host's sake
def a_gigabyte_of_sixteen_and_a_fifth_of_the_time() -> TraceBuilder:
    return training()


@fires(fix="Take larger batches and accumulate less: the update stays the same")
def gradients_accumulated_over_two_backward_passes() -> TraceBuilder:
    return training(accumulated=2)


@fires(cost_ms=0.76)  # the article's case: 7.6 % idle at a peak of under a tenth
def the_articles_third_step() -> TraceBuilder:
    return training(0.06, 760)


@quiet
def a_device_in_use() -> TraceBuilder:
    return training(0.7, reserved=0.8)


@quiet
def the_loader_comes_first() -> TraceBuilder:
    return training(loader_us=2500)


@quiet
def the_allocator_holds_the_device() -> TraceBuilder:
    return training(reserved=0.95)


@quiet("not_applicable")
def inference() -> TraceBuilder:
    return training(backward=False)


@edge
def four_tenths_of_the_memory(over: bool) -> TraceBuilder:
    return training(0.3999 if over else 0.40)


@edge
def a_tenth_of_the_time(over: bool) -> TraceBuilder:
    return training(0.2, 1001 if over else 999)


@edge
def a_twentieth_where_memory_is_nearly_empty(over: bool) -> TraceBuilder:
    return training(0.06, 501 if over else 499)


@lacks("memory")
def no_memory_recorded() -> TraceBuilder:
    return training(memory=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone(backward="AddmmBackward0")


@fires(cost_ms=2.0, setting="DataLoader(batch_size=32) at train.py:42")
def a_known_batch_size() -> TraceBuilder:
    return training().ran_with(loaders=[Loader(4, batch_size=32, file="train.py", line=42)])


@fires(cost_ms=2.0, setting="backward passes per optimizer step=4")
def gradients_accumulated_while_memory_is_free() -> TraceBuilder:
    return training().ran_with(backwards_per_step=4)
