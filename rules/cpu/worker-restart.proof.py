"""Proof of cpu/worker-restart: traces on which it fires, and traces on which it does not."""

from advisor.reading.program_settings import Loader
from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def epochs(
    first_us: int = 30_000, last_us: int = 10_000, *, workers: int = 2, between: bool = False, device: str | None = None
) -> TraceBuilder:
    """Ten steps of 20 ms of operators. In the fifth the loader is found exhausted, and then the next batch is waited for."""
    b = TraceBuilder(device, host_us=0)
    for number in range(10):
        with b.step():
            if number == 5:
                with b.loader(us=last_us, workers=workers):
                    pass
                for _ in range(30 if between else 0):
                    with b.op("aten::add", us=10):
                        pass
                with b.loader(us=first_us, workers=workers):
                    pass
            else:
                with b.loader(us=100, workers=workers):
                    pass
            with b.op("aten::mkldnn_convolution", us=20_000):
                pass
    return b


# 10 + 30 ms in one of ten steps: 9 x 20.1 + 60 = 240.9 ms in all.
@fires(cost_share=40 / 240.9, occurrences=2, severity="high")
def workers_that_start_anew() -> TraceBuilder:
    return epochs()


@fires(cost_share=16 / 216.9, occurrences=2, severity="medium")  # 10 + 6 ms, 9 x 20.1 + 36 in all
def quick_to_start() -> TraceBuilder:
    return epochs(6_000)


@fires(fix="Make the loader once, before the loop, and keep its workers")
def a_loader_of_each_pass() -> TraceBuilder:
    return epochs().ran_with(loaders=(Loader(workers=2, remade=True),) * 2)


@quiet
def an_evaluation_between_two_waits() -> TraceBuilder:
    return epochs(between=True)


@quiet
def without_workers() -> TraceBuilder:
    return epochs(workers=0)


@quiet
def workers_that_stay() -> TraceBuilder:
    b = epochs()
    return b.ran_with(loaders=(Loader(workers=2, persistent=True),))


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    b = epochs(device="Tesla V100-SXM2-16GB")
    with b.step():
        b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@edge
def a_thirtieth_of_the_step(over: bool) -> TraceBuilder:
    # Of 3 % the middle is 2.4 %: two waits of f in one of ten steps, 9 x 20.1 + 20 + f.
    return epochs(5_220 if over else 5_200, 1_000)


@lacks("loader", verdict="not_applicable")
def no_loader_in_the_loop() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step(), b.op("aten::mkldnn_convolution", us=1000):
            pass
    return b
