"""Proof of data-loading/worker-restart: traces on which it fires, and traces on which it does not."""

from advisor.reading.program_settings import Loader
from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import kernels


def epochs(
    first_ms: int = 40,
    *,
    made_ms: int = 0,
    workers: int = 4,
    work_ms: int = 20,
    between: bool = False,
    queued: bool = False,
) -> TraceBuilder:
    """Ten steps of 20 ms of kernels. In the fifth the loader is found exhausted, and the next batch takes *first_ms*."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(10):
        with b.step():
            if number == 5:
                if queued:
                    b.kernel("long", ms=100)
                with b.loader(ms=10, workers=workers):
                    pass
                if between:
                    with b.op("aten::mm"):
                        b.kernel("volta_sgemm_128x64_nn", us=10, host_us=10)
                if made_ms:
                    with b.python("torch/utils/data/dataloader.py(492): __iter__"):
                        b.idle(ms=made_ms)
                with b.loader(ms=first_ms, workers=workers):
                    pass
            else:
                with b.loader(us=100, workers=workers):
                    pass
            with b.op("aten::mm", us=1000 * work_ms):
                b.kernel("volta_sgemm_128x64_nn", ms=work_ms)
    return b


# 10 + 40 ms in one of ten steps; 9 x 20.1 + 70 = 250.9 ms in all.
@fires(cost_share=50 / 250.9, occurrences=2, severity="high")
def workers_that_start_anew() -> TraceBuilder:
    return epochs()


# Stacks show the making of the iterator: 30 ms more, of 280.9.
@fires(cost_share=80 / 280.9, occurrences=2, severity="high")
def with_the_making_of_the_iterator() -> TraceBuilder:
    return epochs(made_ms=30)


@fires(fix="Make the loader once, before the loop, and keep its workers")
def a_loader_of_each_pass() -> TraceBuilder:
    return epochs().ran_with(loaders=(Loader(workers=2, remade=True),) * 2)


@quiet
def workers_that_stay() -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(10):
        with b.step(), b.loader(us=100, workers=4):
            pass
        with b.op("aten::mm", us=20_000):
            b.kernel("volta_sgemm_128x64_nn", ms=20)
    return b


@quiet
def one_late_batch() -> TraceBuilder:
    return epochs(between=True)


@quiet
def without_workers() -> TraceBuilder:
    return epochs(workers=0)


@quiet
def behind_the_work_of_the_device() -> TraceBuilder:
    return epochs(queued=True)


@edge
def three_per_cent_of_the_steps(over: bool) -> TraceBuilder:
    # 10 + 40 ms in ten steps: of 160 ms each, 50 of 1650.9 ms are 3.03 %; of 170 ms, 2.9 %.
    return epochs(work_ms=160 if over else 170)


@lacks("loader", verdict="not_applicable")
def no_loader() -> TraceBuilder:
    return kernels(("volta_sgemm_128x64_nn", 20_000))


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")


@fires(cost_share=50 / 250.9, setting="DataLoader(persistent_workers=False) at train.py:42 → True")
def workers_known_to_end_with_the_epoch() -> TraceBuilder:
    return epochs().ran_with(loaders=[Loader(4, file="train.py", line=42)])


@quiet
def workers_known_to_stay() -> TraceBuilder:
    return epochs().ran_with(loaders=[Loader(4, persistent=True)])
