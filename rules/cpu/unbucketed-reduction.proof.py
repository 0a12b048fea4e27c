"""Proof of cpu/unbucketed-reduction: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

SMALL, LARGE = [[64, 64]], [[4096, 4096]]


def reducing(
    calls: int = 20, *, us: float = 300, shape: list[list[int]] = SMALL, work_us: int = 10_000, shapes: bool = True
) -> TraceBuilder:
    """Four steps of 10 ms and a loop of all_reduce behind them: a call that returns, and its message on gloo's thread."""
    b = TraceBuilder(None, world_size=4, rank=1, backend="gloo")
    for _ in range(4):
        with b.step():
            with b.op("aten::mkldnn_linear", us=work_us):
                pass
            for _ in range(calls):
                with b.op("c10d::allreduce_", us=10, shapes=[shape, [], []] if shapes else None):
                    pass
                with b.thread(77), b.annotation("gloo:all_reduce", us=us):
                    pass
    return b


# 20 messages of 0.3 ms behind 20 calls of 10 us: 6 ms of 16.2, all of it rounds.
@fires(cost_ms=6, cost_share=6 / 16.2, occurrences=80, severity="high")
def a_loop_over_parameters() -> TraceBuilder:
    return reducing()


# One message of ten waits 5 ms for a late rank: 7.7 ms are waited, 3 of them rounds.
@fires(cost_ms=7.7, occurrences=40, severity="high")
def one_of_them_waits_for_a_late_rank() -> TraceBuilder:
    b = TraceBuilder(None, world_size=4, rank=1, backend="gloo")
    for _ in range(4):
        with b.step():
            with b.op("aten::mkldnn_linear", us=10_000):
                pass
            for number in range(10):
                with b.op("c10d::allreduce_", us=10, shapes=[SMALL, [], []]):
                    pass
                with b.thread(77), b.annotation("gloo:all_reduce", us=5000 if not number else 300):
                    pass
    return b


@quiet
def a_few_metrics() -> TraceBuilder:
    return reducing(9)


@quiet
def large_messages() -> TraceBuilder:
    """Buckets of 64 MB: what they take is their bytes."""
    return reducing(shape=LARGE)


@quiet
def calls_that_do_not_match_the_messages() -> TraceBuilder:
    b = reducing(20)
    with b.op("c10d::allreduce_", us=10, shapes=[SMALL, [], []]):
        pass
    return b


# Of rounds that are all of it, 0.94 times their share: of a step of 10 ms, 20 calls of 10 us and 20 messages of 17 us it is
# 0.34 / 10.54 * 0.94 = 3.03 %, of 19 us 0.38 / 10.58 * 0.94 = 3.38 %, and what fires is 3.17 %.
@edge
def three_hundredths_of_the_step(over: bool) -> TraceBuilder:
    return reducing(us=19 if over else 17)


@lacks("shapes")
def no_shapes() -> TraceBuilder:
    return reducing(shapes=False)


@lacks("host", verdict="not_applicable")
def kernels_of_a_gpu() -> TraceBuilder:
    return kernels_alone("ampere_sgemm_128x64_tn")
