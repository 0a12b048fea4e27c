"""Proof of data-loading/restarted-loader: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def updates(
    *, steps: int = 6, starts: int = 1, workers: int = 0, draw_us: float = 1000, seeded: bool = True, loads: bool = True
) -> TraceBuilder:
    """Steps of 10 ms: a wait of 5 in which every *starts*-th one draws an order, and lists it for 2 ms; then it indexes for 2."""
    b = TraceBuilder(None, host_us=0)
    for step in range(steps):
        with b.step():
            if loads:
                with b.loader(us=5000, workers=workers):
                    if step % starts == 0:
                        for name in ("aten::empty", "aten::random_", "aten::item") if seeded else ("aten::rand",):
                            with b.op(name, us=1):
                                pass
                        with b.op("aten::randperm", us=draw_us):
                            pass
                        b.idle(us=2000)
                    with b.op("aten::index", us=1500):
                        pass
            with b.op("aten::mm", us=5000 if loads else 10_000):
                pass
    return b


# 5 of 10 ms, of which an order takes 3.
@fires(cost_ms=5.0, cost_share=0.5, occurrences=6, severity="high")
def an_order_for_each_batch() -> TraceBuilder:
    return updates()


# In every second step, which is a pass of two batches.
@fires(cost_ms=2.5, cost_share=0.25, occurrences=3, severity="high")
def an_order_for_two_batches() -> TraceBuilder:
    return updates(starts=2)


@quiet
def an_order_for_three_batches() -> TraceBuilder:
    return updates(steps=9, starts=3)


@quiet
def one_iterator() -> TraceBuilder:
    return updates(starts=100)


# A dataset that hides patches of its samples draws which.
@quiet
def numbers_that_the_dataset_draws() -> TraceBuilder:
    return updates(seeded=False)


@quiet
def workers_load() -> TraceBuilder:
    return updates(workers=2)


@edge
def three_waits(meets: bool) -> TraceBuilder:
    return updates(steps=3 if meets else 2)


@edge
def half_of_the_steps(meets: bool) -> TraceBuilder:
    return updates(steps=12, starts=2 if meets else 3)


@lacks("loader", verdict="not_applicable")
def no_loader() -> TraceBuilder:
    return updates(loads=False)
