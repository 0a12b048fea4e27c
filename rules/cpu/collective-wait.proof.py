"""Proof of cpu/collective-wait: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def training(
    us: int = 5000, *, name: str = "gloo:all_reduce", hidden: bool = False, device: str | None = None
) -> TraceBuilder:
    """Four steps of 10 ms and a collective of *us* behind them, on a thread of its own; or beside them."""
    b = TraceBuilder(device, world_size=4, rank=1, backend="gloo")
    for _ in range(4):
        with b.step():
            if hidden:
                with b.thread(77, join=False), b.annotation(name, us=us):
                    pass
            with b.op("aten::mkldnn_linear", us=10_000):
                pass
            if not hidden:
                with b.thread(77), b.annotation(name, us=us):
                    pass
    return b


# 5 ms of each step of 15; of these, 10 to 70 %: 13 %.
@fires(cost_ms=5, cost_share=1 / 3, occurrences=4, severity="high")
def gradients_are_reduced_behind_the_backward_pass() -> TraceBuilder:
    return training()


@fires(cost_ms=2, cost_share=2 / 12, severity="medium")
def parameters_are_broadcast_by_mpi() -> TraceBuilder:
    return training(2000, name="mpi:broadcast")


# Two in flight at once are waited for once, as long as the longer one lasts: 6 ms of 16, the last 2 for that one alone.
@fires(cost_ms=6, cost_share=6 / 16, occurrences=8)
def two_groups_at_once() -> TraceBuilder:
    b = TraceBuilder(None, world_size=4, rank=1, backend="gloo")
    for _ in range(4):
        with b.step():
            with b.op("aten::mkldnn_linear", us=10_000):
                pass
            with b.thread(77, join=False), b.annotation("gloo:all_reduce", us=4000):
                pass
            with b.thread(78), b.annotation("gloo:all_reduce", us=6000):
                pass
    return b


@quiet
def operators_hide_it() -> TraceBuilder:
    return training(hidden=True)


@quiet
def an_annotation_of_the_program_that_only_sounds_alike() -> TraceBuilder:
    return training(name="wait for gloo")


# Of the step, the middle of what it returns is 0.4 times its share: 1,112 of 11,112 us are 4.003 %, 1,108 of 11,108 3.99.
@edge
def a_tenth_of_the_step(over: bool) -> TraceBuilder:
    return training(1112 if over else 1108)


@lacks("host", verdict="not_applicable")
def kernels_of_a_gpu() -> TraceBuilder:
    return kernels_alone("ampere_sgemm_128x64_tn")
